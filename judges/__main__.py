"""`python -m judges CASE_DIR --config judge.toml [--json]`: judge one case folder.

Exit 0 with a decision, 1 where the judgment failed, 2 where the input cannot be used.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from judges.agent import judge
from judges.casefolder import load_case
from judges.config import load_config
from judges.errors import JudgeError
from judges.ledger import MemoryLedger
from judges.outcome import outcome
from judges.providers import open_provider
from judges.sandbox import open_sandbox
from judges.verdict import JudgmentResult

Json = Any


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = _arguments(argv)
    try:
        config = load_config(arguments.config)
        loaded = load_case(arguments.case)
        result = judge(
            loaded.case,
            config,
            provider=open_provider(config),
            sandbox=open_sandbox(config.sandbox),
            ledger=MemoryLedger(loaded.revealed),
        )
    except JudgeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    status = loaded.revealed.verifier.status
    named, why = outcome(status, result.acceptable, partial_as=arguments.partial_as)
    report = {"config": config.digest(), "verifier_status": status, "outcome": named, "outcome_reason": why}
    print(_json(result, report) if arguments.json else _text(result, report))
    return 0 if result.status == "completed" else 1


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m judges", description="Judge one case folder.")
    parser.add_argument("case", type=Path, help="the case folder")
    parser.add_argument("--config", type=Path, required=True, help="judge config (TOML)")
    parser.add_argument("--partial-as", choices=["fail", "exclude"], default="exclude")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output and nothing else")
    return parser.parse_args(argv)


def result_json(result: JudgmentResult) -> Json:
    """A result as JSON: what pages and exports show of it."""
    plain = asdict(result)
    plain["checks"] = [
        {**check.citation.model_dump(), "ok": check.ok, "code": check.code, "detail": check.detail, "hint": check.hint}
        for check in result.checks
    ]
    plain["criteria"] = [item.model_dump() for item in result.criteria]
    plain["tags"] = [item.model_dump() for item in result.tags]
    plain["cost"] = None if result.cost is None else str(result.cost)
    return plain


def _json(result: JudgmentResult, report: Json) -> str:
    return orjson.dumps({**report, **result_json(result)}, option=orjson.OPT_INDENT_2).decode()


def _text(result: JudgmentResult, report: Json) -> str:
    """A few lines for people: ids refer to the citations below."""
    head = f"{result.status} {result.reason}".strip()
    lines = [
        f"{head}: decision {result.decision}, integrity {result.integrity}, acceptable {result.acceptable}",
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
