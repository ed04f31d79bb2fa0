"""`CacheCounts`: what node caches gave and fetched, of this process and of the workers that worked for it.

The core counts for each process. A worker sends what it has counted since it last sent some, with each piece of its
work; the process that leads adds it up. So the sum is right however many pieces a process works on at a time.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kinema import _core
from kinema.printable import counted

__all__ = ["CacheCounts", "SentCounts", "add_counts", "counts_of_all", "take_counts"]


@dataclass(frozen=True)
class CacheCounts:
    """What node caches gave and fetched.

    Attributes
    ----------
    hits : int
        Blocks that reads found in the cache.
    misses : int
        Blocks that reads had to fetch, or wait for.
    waited : int
        Of these, blocks that another process or thread was fetching.
    bytes_hit : int
        Bytes that reads were given from blocks of the cache.
    bytes_source : int
        Bytes that were read from the files themselves.
    bytes_saved : int
        Bytes that reads were given beyond those that were read from the files; 0 where more was fetched than given.
    source_reads : int
        Reads of the files themselves.
    refetched, corrupt : int
        Blocks that were fetched once more, and those of them whose checksum did not hold.
    evicted : int
        Blocks that were removed for others.
    errors : int
        Blocks that could not be stored, as where the disk is full; reads were given their bytes all the same.
    """

    hits: int = 0
    misses: int = 0
    waited: int = 0
    bytes_hit: int = 0
    bytes_source: int = 0
    bytes_saved: int = 0
    source_reads: int = 0
    refetched: int = 0
    corrupt: int = 0
    evicted: int = 0
    errors: int = 0

    @classmethod
    def of(cls, found: Mapping[str, int]) -> CacheCounts:
        """Of the counts of the core, which may have more of them."""
        return cls(**{field.name: int(found[field.name]) for field in fields(cls)})

    def __add__(self, other: CacheCounts) -> CacheCounts:
        return CacheCounts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __sub__(self, other: CacheCounts) -> CacheCounts:
        return CacheCounts(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    def as_dict(self) -> dict[str, int]:
        """As plain values."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __str__(self) -> str:
        found = [
            f"{self.hits:,} hits, {self.misses:,} misses, {self.bytes_source:,} bytes from the source, "
            f"{self.bytes_saved:,} bytes saved"
        ]
        if self.corrupt:
            found.append(f"{counted(self.corrupt, 'block')} damaged and fetched again")
        if self.errors:
            found.append(f"{counted(self.errors, 'block')} could not be stored")
        return ", ".join(found)


@dataclass(frozen=True)
class SentCounts:
    """What a process has counted since it last sent some; of which process, as one need not send to itself."""

    process: str
    counts: CacheCounts


_LOCK = threading.Lock()
# of the processes that worked for this one
_OF_OTHERS = CacheCounts()
_SENT = CacheCounts()
# a forked process counts on by itself
_TOKEN = uuid.uuid4().hex


def _process() -> str:
    return f"{_TOKEN}-{os.getpid()}"


def counts_of_all() -> CacheCounts:
    """Of this process since it began, and of all that worked for it."""
    with _LOCK:
        return CacheCounts.of(_core.node_cache_counts()) + _OF_OTHERS


def take_counts() -> SentCounts | None:
    """What was counted here since the last call, for the process that leads; None for nothing."""
    global _SENT
    with _LOCK:
        now = CacheCounts.of(_core.node_cache_counts())
        since, _SENT = now - _SENT, now
    return SentCounts(_process(), since) if since else None


def add_counts(sent: Any) -> None:
    """Adds what another process has counted; nothing for None, and for what this process has sent to itself."""
    global _OF_OTHERS
    if sent is None or sent.process == _process():
        return
    with _LOCK:
        _OF_OTHERS = _OF_OTHERS + sent.counts
