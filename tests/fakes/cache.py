"""A model of the prompt caches: prefixes of blocks, read and written as each service documents it."""

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = Any
LOOK_BACK = 20
IMPLICIT_LEAST = 1_024


def tokens(value: Json) -> int:
    """Four characters a token."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return max(1, len(text) // 4)


@dataclass(frozen=True)
class Counts:
    fresh: int
    read: int
    written: int
    written_long: int = 0

    @property
    def total(self) -> int:
        return self.fresh + self.read + self.written


@dataclass
class PrefixCache:
    """Blocks are pairs of JSON and time to live, "" where no breakpoint follows; entries never expire here."""

    stored: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def explicit(self, key: str, blocks: Sequence[tuple[Json, str]]) -> Counts:
        """Writes at breakpoints, reads the longest stored prefix up to 20 blocks before one."""
        prefixes = _prefixes(key, [block for block, _ in blocks])
        marks = [index for index, (_, life) in enumerate(blocks) if life]
        near = {index for mark in marks for index in range(max(0, mark - LOOK_BACK + 1), mark + 1)}
        with self.lock:
            read = max((prefixes[i][1] for i in near if prefixes[i][0] in self.stored), default=0)
            self.stored.update(prefixes[mark][0] for mark in marks)
        total = prefixes[-1][1]
        ends = [(prefixes[mark][1], blocks[mark][1]) for mark in marks]
        written = max(0, max((end for end, _ in ends), default=0) - read)
        long = max(0, max((end for end, life in ends if life == "1h"), default=0) - read)
        return Counts(total - read - written, read, written, min(long, written))

    def implicit(self, key: str, blocks: Sequence[Json]) -> Counts:
        """Reads the longest prefix seen before, nothing under 1,024 tokens; the rest is written."""
        prefixes = _prefixes(key, blocks)
        with self.lock:
            read = max((count for name, count in prefixes if name in self.stored), default=0)
            self.stored.update(name for name, _ in prefixes)
        read = read if read >= IMPLICIT_LEAST else 0
        return Counts(0, read, prefixes[-1][1] - read)


def _prefixes(key: str, blocks: Sequence[Json]) -> list[tuple[str, int]]:
    digest, total, found = hashlib.sha256(key.encode()), 0, []
    for block in blocks:
        text = json.dumps(block, sort_keys=True)
        digest.update(b"\0" + text.encode())
        total += tokens(text)
        found.append((digest.hexdigest(), total))
    return found
