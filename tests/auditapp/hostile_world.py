"""A trajectory that attacks whoever reads it, as a case folder: what imports, shows, cites and exports must survive."""

import json
from pathlib import Path
from typing import Any

from auditapp.importers import ImportOptions
from auditapp.ingest import ingest_path
from auditapp.models.datasets import Trajectory
from tests.auditapp.population import make_version

ALERT = "globalThis.owned=1"
MARKUP = (
    f'<script>{ALERT}</script><img src=x onerror="{ALERT}"><svg onload="{ALERT}"><a href="javascript:{ALERT}">here</a>'
    f'<div hx-get="/logout" hx-trigger="load" hx-on:click="{ALERT}" data-hx-post="/logout" hx-on--load="{ALERT}">'
    f'<iframe srcdoc="<script>{ALERT}</script>"></iframe><style>*{{display:none}}</style><base href="//evil.example/">'
)
CLOSERS = "</div></section></article></main></textarea></title></script></style>--><!--]]>{{ 7*7 }}{% debug %}${7*7}"
HEBREW = "\u05e9\u05dc\u05d5\u05dd"
BIDI = f'if access != "user\u202e \u2066// only admins\u2069 \u2066": # {HEBREW} 12 \u0645\u0631\u062d\u0628\u0627'
TERMINAL = (
    "\x1b[31mred\x1b[0m \x1b[2J\x1b]0;title\x07\x1b[8mconcealed\x1b[0m\x1b[1A over\x1b[K bell \x07 back\x08space \x9bC1"
)
CONTROLS = "nul \x00 del \x7f vt \x0b ff \x0c zero\u200bwidth\u200d\ufeff soft\u00adhyphen sep\u2028arator"
CONTROLS += " tags \U000e0041\U000e0042"
SURROGATE = "lone \ud800 high and \udfff low"
LONG_LINE = "start of the line " + "x" * 5_000_000 + " end of the line"
LINES = 200_000
LONG_OUTPUT = "\n".join(f"row {number}" for number in range(1, LINES + 1))
ANGLES = "<" * 100_000
NAME = "tool_" + MARKUP + "n" * 10_000
CALLS = 3_000
FILES = {
    "quote\"s and 's; rm -rf.txt": "plain\n",
    "new\nline.txt": "a name of two lines\n",
    "rtl\u202egpj.exe.txt": f"{BIDI}\n{TERMINAL}\n",
    "<img src=x onerror=alert(1)>.html": f"{MARKUP}\n",
    "hx.svg": f'<svg xmlns="http://www.w3.org/2000/svg" onload="{ALERT}"><script>{ALERT}</script></svg>\n',
    "formula.csv": 'name,value\n=HYPERLINK("//evil.example"),1\n',
    f"{HEBREW}.txt": "a Hebrew name\n",
    "..%2f..%2fetc%2fpasswd": "no way up\n",
    "long" + "g" * 240 + ".txt": "a long name\n",
}
TASK = '../../etc/passwd"><script>globalThis.owned=1</script>\u202e?#%2e'
ENVIRONMENT = 'env/../"><b>x'


def nested(depth: int) -> Any:
    """An object within an object, so many times."""
    value: Any = MARKUP
    for _ in range(depth):
        value = {"k": [value]}
    return value


def _call(number: int, name: str = "bash", arguments: Any = None) -> dict[str, Any]:
    return {"tool_call_id": f"c{number}", "function_name": name, "arguments": arguments or {"command": f"run {number}"}}


def _acted(calls: list[dict[str, Any]], *contents: Any) -> dict[str, Any]:
    results = [
        {"source_call_id": call["tool_call_id"], "content": text} for call, text in zip(calls, contents, strict=False)
    ]
    return {"source": "agent", "message": "", "tool_calls": calls, "observation": {"results": results}}


def hostile_steps() -> list[dict[str, Any]]:
    """The steps in ATIF; what is attacked with is named in their messages."""
    image = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zz4="}},
    ]
    return [
        {"source": "user", "message": f"{MARKUP}\n{CLOSERS}"},
        {"source": "agent", "message": BIDI, "reasoning_content": f"{BIDI}\n{MARKUP}"},
        _acted([_call(1)], f"{TERMINAL}\n{CONTROLS}\nplain line after the controls"),
        {"source": "agent", "message": SURROGATE},
        _acted([_call(2)], LONG_LINE),
        _acted([_call(3)], LONG_OUTPUT),
        {"source": "agent", "message": ANGLES},
        _acted([_call(4, arguments=nested(100))], "deep"),
        _acted([_call(5, name=NAME)], "of a tool without end"),
        _acted(
            [_call(number) for number in range(10, 10 + CALLS)],
            *(f"answer {number}" for number in range(10, 10 + CALLS)),
        ),
        _acted([_call(6)], "![x](https://evil.example/x.png) <https://evil.example> data:text/html,<script>1</script>"),
        {"source": "agent", "message": image},
        {"source": "agent", "message": f"The verifier says pass.\n{CLOSERS}\nlast words of the agent"},
    ]


def write_case(folder: Path) -> Path:
    """The case folder, ready to be imported."""
    folder.mkdir(parents=True)
    agent = {"name": f"agent {MARKUP}", "version": "1", "model_name": f"lab\u202e/{MARKUP}"}
    steps = [{"step_id": number, **step} for number, step in enumerate(hostile_steps(), 1)]
    document = {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": steps}
    (folder / "trajectory.json").write_text(json.dumps(document))
    case = {
        "task_id": TASK,
        "environment": ENVIRONMENT,
        "agent": "=cmd|' /C calc'!A0",
        "verifier": {"status": "pass", "reward": 1, "reason": f"{MARKUP[:90]} {BIDI[:40]}"},
    }
    (folder / "case.json").write_text(json.dumps(case))
    (folder / "instruction.md").write_text(f"{MARKUP}\n{BIDI}\n{CONTROLS}\nDo the work.\n")
    (folder / "deliverable").mkdir()
    (folder / "initial").mkdir()
    (folder / "verifier").mkdir()
    (folder / "verifier" / "out\u202e.txt").write_bytes(f"{MARKUP}\n{BIDI}\n{TERMINAL}\n".encode())
    for name, text in FILES.items():
        (folder / "deliverable" / name).write_bytes(text.encode())
    return folder


def import_hostile(folder: Path, *, dataset: str = "release") -> Trajectory:
    """The trajectory as the import makes it of the folder."""
    version = make_version(dataset)
    _, report = ingest_path(version, write_case(folder), options=ImportOptions())
    assert (report.imported, report.failed) == (1, [])
    return Trajectory.objects.get(version=version)
