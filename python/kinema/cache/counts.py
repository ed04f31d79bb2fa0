"""`CacheCounts`: reads and fetches of node caches, by this process and by its workers.

The core counts for each process. With each piece of its work a worker sends its counts since it last sent some; the
leading process adds them up. So the sum is right however many pieces a process works on at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import fields

from kinema import _core
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import emit
from kinema.base.printable import counted

__all__ = ["CacheCounts", "SentCounts", "add_counts", "counts_of_all", "emit_troubles", "take_counts"]


@dataclass(frozen=True)
class CacheCounts:
    """Counts of reads and fetches of node caches.

    Attributes
    ----------
    hits : int
        Reads of blocks that were in the cache. A read across several blocks counts once for each.
    misses : int
        Reads of blocks that were not in the cache.
    prefetched : int
        Blocks that were fetched in advance.
    waited : int
        Waits for another process or thread that was fetching the block.
    bytes_read : int
        Bytes that readers received; `bytes_hit` of them came from blocks in the cache.
    bytes_source : int
        Bytes that were read from the files themselves; `bytes_direct` of them went to readers and were not stored.
    bytes_identity : int
        Bytes that were read to check that files have not changed; `bytes_source` does not count them.
    source_reads : int
        Reads of the files themselves.
    refetched, corrupt : int
        Blocks that were fetched again, and blocks whose checksum did not match.
    evicted : int
        Blocks that were removed to make room for others.
    bytes_peers : int
        Bytes that came from other nodes (`SharedBlocks`).
    peer_failures : int
        Blocks that another node should have sent and did not: they were read from the files themselves.
    errors : int
        Blocks that could not be stored, for example on a full disk; readers still received their bytes.
    """

    hits: int = 0
    misses: int = 0
    prefetched: int = 0
    waited: int = 0
    bytes_read: int = 0
    bytes_hit: int = 0
    bytes_source: int = 0
    bytes_direct: int = 0
    bytes_identity: int = 0
    source_reads: int = 0
    refetched: int = 0
    corrupt: int = 0
    evicted: int = 0
    bytes_peers: int = 0
    peer_failures: int = 0
    errors: int = 0

    @property
    def bytes_saved(self) -> int:
        """Bytes that readers received beyond those that were read from the files; 0 if more were fetched."""
        return max(0, self.bytes_read - self.bytes_source)

    @classmethod
    def from_core(cls, found: Mapping[str, int]) -> CacheCounts:
        """Takes the counts from the core, which may have further ones, or from a report, which may have fewer."""
        return cls(**{field.name: int(found[field.name]) for field in fields(cls) if field.name in found})

    def __add__(self, other: CacheCounts) -> CacheCounts:
        return CacheCounts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __sub__(self, other: CacheCounts) -> CacheCounts:
        return CacheCounts(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    def as_dict(self) -> dict[str, int]:
        """The counts as plain values, with `bytes_saved`."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"bytes_saved": self.bytes_saved}

    def __str__(self) -> str:
        found = [
            f"{self.hits:,} hits, {self.misses:,} misses, {self.bytes_source:,} bytes from the source, "
            f"{self.bytes_saved:,} bytes saved"
        ]
        if self.bytes_peers:
            found.append(f"{self.bytes_peers:,} bytes from other nodes")
        if self.peer_failures:
            found.append(f"{counted(self.peer_failures, 'block')} not given by other nodes and read from the source")
        if self.corrupt:
            found.append(f"{counted(self.corrupt, 'block')} damaged and removed, {self.refetched:,} fetched again")
        if self.errors:
            found.append(f"{counted(self.errors, 'block')} could not be stored")
        return ", ".join(found)


@dataclass(frozen=True)
class SentCounts:
    """Counts and troubles of a process since it last sent some.

    They name the process, because a process does not add the counts that it has sent to itself.
    """

    process: str
    counts: CacheCounts
    troubles: tuple[str, ...] = ()


class _CountsOfProcess:
    """Counts that this process has received and sent; a forked child starts from nothing."""

    def __init__(self) -> None:
        self.token = f"{os.urandom(16).hex()}-{os.getpid()}"
        self.lock = threading.Lock()
        self.sent = CacheCounts()
        self.of_others = CacheCounts()
        self.troubles: list[str] = []


_STATE = _CountsOfProcess()


def _begin_anew() -> None:
    global _STATE
    _STATE = _CountsOfProcess()


# the core starts from nothing there, too
os.register_at_fork(after_in_child=_begin_anew)


def _own() -> CacheCounts:
    return CacheCounts.from_core(_core.node_cache_counts())


def counts_of_all() -> CacheCounts:
    """Counts of this process since it began, and of all its workers."""
    with _STATE.lock:
        return _own() + _STATE.of_others


def take_counts() -> SentCounts | None:
    """Counts of this process since the last call, for the leading process; None if there are none."""
    with _STATE.lock:
        now = _own()
        since, _STATE.sent = now - _STATE.sent, now
    return SentCounts(_STATE.token, since, tuple(_core.take_node_cache_troubles())) if since else None


def add_counts(sent: SentCounts | None) -> None:
    """Adds the counts of another process. None, and counts that this process has sent to itself, add nothing."""
    if sent is not None and sent.process != _STATE.token:
        with _STATE.lock:
            _STATE.of_others += sent.counts
            _STATE.troubles += sent.troubles


def emit_troubles() -> None:
    """Emits notes on blocks that were damaged or not stored since the last call, by this process or its workers."""
    with _STATE.lock:
        found, _STATE.troubles = _STATE.troubles + _core.take_node_cache_troubles(), []
    emit(dict.fromkeys(found))
