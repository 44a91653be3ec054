"""Did a verifier run at all? A script whose set-up failed often still writes its default reward.

Never a guess: without a line that proves it, or with any sign that tests ran, the answer is that it ran.
"""

import re
from collections.abc import Iterator

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
# Downloads that failed prove it only as the last words of a script, and only from hosts of the open internet.
_DOWNLOAD_FAILED = re.compile(
    r"""^curl:\ \(\d+\)\ .*\b(?:to|host:)\ [\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|sh|dev)\b
      | ^E:\ (?:Unable\ to\ (?:locate\ package|fetch)|Failed\ to\ fetch)\b
      | Temporary\ failure\ (?:in\ name\ resolution|resolving)
      | ^error:\ [Ff]ailed\ to\ (?:fetch|download)\b
      | ^ERROR:\ (?:Could\ not\ find\ a\ version|No\ matching\ distribution)\b
    """,
    re.VERBOSE,
)
_LAST_WORDS = 5


def proof_of_no_run(streams: FileTree | None, *, limits: Limits) -> Notice | None:
    """The line that proves that the tests never started, as `file:line`; None where they ran or nobody can tell."""
    if streams is None or _tests_reported(streams, limits=limits):
        return None
    proof: Notice | None = None
    for path in paths(streams):
        if not _STREAMS.search(path):
            continue
        lines = decode(streams.read(path, limit=limits.text_bytes)).split("\n")
        if any(_RAN.search(line) for line in lines):
            return None
        proof = proof or _proof(path, lines)
    return proof


def _proof(path: str, lines: list[str]) -> Notice | None:
    numbered = [(number, line.rstrip()) for number, line in enumerate(lines, start=1) if line.strip()]
    missing = [item for item in numbered if _RUNNER_MISSING.search(item[1])]
    failed = [item for item in numbered[-_LAST_WORDS:] if _DOWNLOAD_FAILED.search(item[1])]
    for number, line in (missing or failed)[-1:]:
        return Notice("verifier_did_not_run", f"{path}:{number}", line[:300])
    return None


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
