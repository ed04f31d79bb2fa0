"""Operations of ranks: what a program of the laboratory consists of. A program is an iterator of these.

An operation says what a rank does, never how long it takes: times follow from the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file on the platform's storage.

    `stripes`: number of storage targets.
    `start`: target of its first stripe, modulo the number of targets of the platform.
    """

    name: str
    size: int
    stripes: int = 1
    start: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    """A request to the metadata server: "open", "stat", "create" or "close"; `file` is None if no data are involved.

    "stat" also asks each storage target of the file for its size.
    """

    what: Literal["open", "stat", "create", "close"]
    file: StoredFile | None = None


@dataclass(frozen=True, slots=True)
class ReadBytes:
    """A read. `keep`: "memory", "node": a cache of the node that holds the bytes afterwards, for all of its ranks."""

    file: StoredFile
    offset: int
    size: int
    keep: Literal["", "memory", "node"] = ""


@dataclass(frozen=True, slots=True)
class WriteBytes:
    """A write; it ends when the bytes are on the storage."""

    file: StoredFile
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Compute:
    """CPU time on a core, which the rank waits for if all cores of its node are busy.

    It ends a block if it has `frames`: as many are done then, and `position` is that of the first in the run.
    """

    ns: int
    phase: Literal["decode", "compute"] = "compute"
    frames: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class SendTo:
    """A message. The sender continues when the message is on its way, or, if it is longer than the platform's
    `eager_bytes`, when the receiver has it."""

    rank: int
    size: int


@dataclass(frozen=True, slots=True)
class ReceiveFrom:
    """The next message of a rank to this one."""

    rank: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Waits for all ranks."""


@dataclass(frozen=True, slots=True)
class GatherTo:
    """Every rank sends `size` bytes to a rank, which waits for all; messages are sent as by `SendTo`."""

    root: int
    size: int


@dataclass(frozen=True, slots=True)
class PutTo:
    """One-sided: `size` bytes go into the memory of a rank, which takes no part."""

    rank: int
    size: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Time without a core: a step of training on an accelerator. It counts as computing."""

    ns: int


@dataclass(frozen=True, slots=True)
class Announce:
    """Says that something has happened, by a name that is announced once in a run."""

    what: str


@dataclass(frozen=True, slots=True)
class Await:
    """Waits until a name is announced."""

    what: str


@dataclass(frozen=True, slots=True)
class Acquire:
    """Takes a lock by its name, which one process holds at a time until it releases it."""

    lock: str


@dataclass(frozen=True, slots=True)
class Release:
    """Hands a lock on."""

    lock: str


Operation: TypeAlias = (
    Metadata | ReadBytes | WriteBytes | Compute | SendTo | ReceiveFrom | Barrier | GatherTo | PutTo | Pause | Announce
    | Await | Acquire | Release
)  # fmt: skip

# the operations of a rank, by its number
RankProgram: TypeAlias = Callable[[int], Iterator[Operation]]
