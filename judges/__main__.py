"""`python -m judges CASE_DIR --config judge.toml [--json]`: judge one case folder.

On a terminal, each turn is shown on standard error as it comes. Exit 0 with a decision, 1 where the judgment failed, 2
where the input cannot be used, 130 where it was interrupted.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import orjson

from judges.agent import judge
from judges.casefolder import CaseFolder, load_case
from judges.config import JudgeConfig, load_config
from judges.errors import HandBack, JudgeError, JudgmentFailed
from judges.ledger import MemoryLedger
from judges.outcome import outcome
from judges.progress import SpokenLedger
from judges.providers import open_provider
from judges.records import Revealed
from judges.results import result_json
from judges.sandbox import open_sandbox
from judges.verdict import JudgmentResult

Json = Any


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = _arguments(argv)
    try:
        loaded, config = load_case(arguments.case), load_config(arguments.config)
        result = _judged(loaded, config)
    except HandBack as wait:
        print(f"failed: the provider asks to come back later: {wait}. Run the command again then.", file=sys.stderr)
        return 1
    except JudgeError as error:
        print(f"error: {error}", file=sys.stderr)
        if arguments.json:
            print(orjson.dumps({"error": str(error)}).decode())
        return 2
    except KeyboardInterrupt:
        print("interrupted: nothing is stored, and what was asked so far may be billed", file=sys.stderr)
        return 130
    status = loaded.revealed.verifier.status
    named, why = outcome(status, result.acceptable, partial_as=arguments.partial_as)
    report = {"config": config.digest(), "verifier_status": status, "outcome": named, "outcome_reason": why}
    print(_json(result, report) if arguments.json else _text(result, report))
    return 0 if result.status == "completed" else 1


def _judged(loaded: CaseFolder, config: JudgeConfig) -> JudgmentResult:
    """The look itself, spoken where somebody watches; what a provider lacks before its first call is its failure."""
    try:
        provider = open_provider(config)
    except JudgmentFailed as failure:
        return JudgmentResult("failed", failure.reason, failure.detail)
    return judge(
        loaded.case, config, provider=provider, sandbox=open_sandbox(config.sandbox), ledger=_ledger(loaded.revealed)
    )


def _ledger(revealed: Revealed) -> MemoryLedger:
    if not sys.stderr.isatty():
        return MemoryLedger(revealed)
    return SpokenLedger(revealed, say=lambda text: print(text, end="", file=sys.stderr, flush=True))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m judges", description="Judge one case folder.")
    parser.add_argument("case", type=Path, help="the case folder")
    parser.add_argument("--config", type=Path, required=True, help="judge config (TOML)")
    parser.add_argument("--partial-as", choices=["fail", "exclude"], default="exclude")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output and nothing else")
    return parser.parse_args(argv)


def _json(result: JudgmentResult, report: Json) -> str:
    return orjson.dumps({**report, **result_json(result)}, option=orjson.OPT_INDENT_2).decode()


def _text(result: JudgmentResult, report: Json) -> str:
    """A few lines for people: ids refer to the citations below."""
    head = f"{result.status} {result.reason}".strip()
    said = f"decision {result.decision}, integrity {result.integrity}, acceptable {result.acceptable}"
    lines = [
        f"{head}: {said if result.decision else 'no decision'}",
        f"verifier {report['verifier_status']}, outcome {report['outcome'] or report['outcome_reason']}",
        *([result.detail] if result.detail else []),
        *(f"  {item.status:8} {item.id} {item.requirement} {item.evidence}" for item in result.criteria),
        *(f"  tag {item.code} {item.note} {item.evidence}" for item in result.tags),
        *(f"  dropped {item.claim}: {item.why}" for item in result.dropped),
        *(f"  {'ok ' if check.ok else 'BAD'} {_cited(check)}" for check in result.checks),
    ]
    return "\n".join(lines)


def _cited(check: Any) -> str:
    cited = check.citation
    where = " ".join(str(part) for part in (cited.kind, cited.target, cited.part, cited.line_start) if part != "none")
    return f"{cited.id} {where}: {cited.quote[:100]!r}"


if __name__ == "__main__":
    sys.exit(main())
