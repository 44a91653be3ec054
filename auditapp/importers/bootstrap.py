"""Did a verifier run at all? A script whose set-up failed often still writes its default reward.

Never a guess: without a line that proves it, or with any sign that tests ran, the answer is that it ran.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from auditapp.importers.lenient import dig
from auditapp.importers.options import Limits
from auditapp.importers.trees import paths
from judges.records import FileTree, Notice
from judges.safefs import decode

_STREAMS = re.compile(r"(?:^|/)(?:test-)?(?:stdout|stderr|output)(?:\.txt|\.log)?$")
_CTRF = re.compile(r"(?:^|/)ctrf[^/]*\.json$")

_RAN = re.compile(
    r"""^=*\s*\d+\ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b.*\bin\ [\d.:]+  # pytest
      | ^=+\ (?:test\ session\ starts|short\ test\ summary|FAILURES|ERRORS)                       # pytest
      | ^Ran\ \d+\ tests?\ in\b                                                                   # unittest
      | ^test\ result:\                                                                           # cargo
      | ^(?:---\ )?(?:PASS|FAIL|PASSED|FAILED)\b | ^ok\s+\S+\s+[\d.]+s                            # go and others
      | ^\s*(?:Tests|Test\ Suites):\s+\d | ^\s*\d+\ (?:passing|failing)\b                         # jest, mocha
      | ^(?:not\ )?ok\ \d+\b | \d+%\ tests\ passed,                                               # TAP, ctest
    """,
    re.VERBOSE,
)
# Programs that only a test script needs: an agent cannot have been asked to install them.
_RUNNER_MISSING = re.compile(
    r"""(?:^|[\s:/])(?:uvx?|pytest|py\.test|pip3?):\ (?:command\ )?not\ found$
      | \bNo\ module\ named\ '?pytest'?$
      | ^=*\ ?no\ tests\ ran\ in\ [\d.]+
      | ^(?:ba|z|da)?sh:\ (?:line\ \d+:\ |\d+:\ )?(?:/tests/|tests/)\S+:\ (?:No\ such\ file|Permission|not\ found)
      | ^ERROR:\ file\ or\ directory\ not\ found:\ /tests/
    """,
    re.VERBOSE,
)
# Downloads that failed, from hosts of the open internet only: a test may well ask a service of its own in vain.
_DOWNLOAD_FAILED = re.compile(
    r"""^curl:\ \(\d+\)\ .*\b(?:to|host:)\ [\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|sh|dev)\b
      | ^E:\ (?:Unable\ to\ (?:locate\ package|fetch)|Failed\ to\ fetch)\b
      | Temporary\ failure\ (?:in\ name\ resolution|resolving)
      | ^error:\ [Ff]ailed\ to\ (?:fetch|download)\b
      | ^ERROR:\ (?:Could\ not\ find\ a\ version|No\ matching\ distribution)\b
    """,
    re.VERBOSE,
)
# What a script goes on to print when its set-up failed. Any other line after the proof may be a test's own words.
_FALLOUT = re.compile(
    r"""^\+|^[EW]:\ |^curl:|^make|^(?:error|Error|ERROR|fatal):|^\S+:\ cannot\b
      | not\ found$|No\ such\ file|[Ff]ailed\ to\b|^[Tt]ests?\ failed\W*$
    """,
    re.VERBOSE,
)
_LINE = 1000  # no sign is longer, and no line may be long enough to make a search slow


@dataclass(frozen=True, slots=True)
class SetUpFailure:
    """A line that says that the set-up failed, as `file:line`; proven where the script said nothing else after it."""

    line: Notice
    proven: bool


def set_up_failure(streams: FileTree | None, *, limits: Limits) -> SetUpFailure | None:
    """The sign that the tests never started; None where there is none, or where a report shows that they ran."""
    if streams is None or _tests_reported(streams, limits=limits):
        return None
    found: SetUpFailure | None = None
    for path in paths(streams):
        if not _STREAMS.search(path):
            continue
        lines = [line[:_LINE] for line in decode(streams.read(path, limit=limits.text_bytes)).split("\n")]
        if any(_RAN.search(line) for line in lines):
            return None
        found = found or _failure(path, lines)
    return found


def _failure(path: str, lines: list[str]) -> SetUpFailure | None:
    numbered = [(number, line.rstrip()) for number, line in enumerate(lines, start=1) if line.strip()]
    signs = [index for index, (_, line) in enumerate(numbered) if _RUNNER_MISSING.search(line)]
    signs = signs or [index for index, (_, line) in enumerate(numbered) if _DOWNLOAD_FAILED.search(line)]
    if not signs:
        return None
    number, line = numbered[signs[-1]]
    proven = all(_FALLOUT.search(later) for _, later in numbered[signs[-1] + 1 :])
    return SetUpFailure(Notice("verifier_did_not_run", f"{path}:{number}", line[:300]), proven)


def _tests_reported(streams: FileTree, *, limits: Limits) -> bool:
    return any(count > 0 for count in _ctrf_counts(streams, limits=limits))


def _ctrf_counts(streams: FileTree, *, limits: Limits) -> Iterator[int]:
    for path in paths(streams):
        if not _CTRF.search(path):
            continue
        try:
            report = orjson.loads(streams.read(path, limit=limits.text_bytes))
        except orjson.JSONDecodeError:
            continue
        tests, counted = dig(report, "results", "tests"), dig(report, "results", "summary", "tests")
        yield max(len(tests) if isinstance(tests, list) else 0, counted if isinstance(counted, int) else 0)
