"""`RecordedRun`: what the ranks of a real run did, from its trace, as a program for the simulation.

    mpiexec -n 8 kinema rmsd md.xtc -s top.psf --trace traces
    recorded = recorded_run("traces", result_bytes=8)
    run = emulate(recorded.program, recorded.n_ranks, read_platform("lustre"))

Opens, reads, writes and frames are recorded ones. Times are not: CPU time follows from `FrameCost`, as ranks that share
cores measure too much. A trace has no messages: the program ends with a gather of the results.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.report.traces.kinds import COMPUTE, POSIX, kind_of, operation_of
from kinema.report.traces.lines import trace_files
from kinema.report.traces.parsing import FileEvents, read_file
from kinema.studies.lab.operations import (
    Compute,
    GatherTo,
    Metadata,
    Operation,
    ReadBytes,
    StoredFile,
    WriteBytes,
)
from kinema.studies.lab.programs import FrameCost

_OPENS = ("open", "open64", "openat")
_DECODE = ("decode", "decode")


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """The operations of all ranks of a run.

    `files`: {name: StoredFile}; size: the end of the last byte that any rank has read or written.
    """

    ranks: tuple[tuple[Operation, ...], ...]
    files: dict[str, StoredFile]

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @property
    def n_frames(self) -> int:
        """Number of frames that were computed; a pass over the same frames counts them again."""
        return sum(one.frames for rank in self.ranks for one in rank if isinstance(one, Compute))

    def program(self, rank: int) -> Iterator[Operation]:
        """The program of a rank."""
        return iter(self.ranks[rank])


def recorded_run(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    stripes: int = 1,
    cost: FrameCost | None = None,
    result_bytes: int = 0,
) -> RecordedRun:
    """The run that a trace has recorded, with one file for each MPI rank.

    `paths`: folder, or trace files.
    `stripes`: number of storage targets of each file.
    `cost`: CPU time of a frame; None: recorded times, which count only if each rank had a core of its own.
    `result_bytes`: bytes of a frame's result, which rank 0 gathers at the end; 0: no gather.

    Raises ArgumentError if the trace does not have the ranks from 0 on, one file each. Raises as reading traces does.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    by_rank: dict[int, FileEvents] = {}
    for path in trace_files(given):
        events = read_file(path)
        word = str((events.process or {}).get("rank", ""))
        if not word.isdecimal() or int(word) in by_rank:
            raise ArgumentError(
                f"{path}: expected the trace of an MPI rank that no other file has, found rank {word!r}"
            )
        by_rank[int(word)] = events
    missing = sorted(set(range(max(by_rank, default=0) + 1)) - set(by_rank))
    if missing:
        raise ArgumentError(
            f"the trace has no file of rank {missing[0]}, expected ranks from 0 to {max(by_rank, default=0)}"
        )
    sizes: dict[str, int] = {}
    for events in by_rank.values():
        columns = events.columns
        moved = (columns["offset"] >= 0) & (columns["size"] > 0) & (columns["result"] >= 0)
        for number, name in enumerate(events.files):
            chosen = moved & (columns["file"] == number)
            own = (columns["offset"] + columns["size"])[chosen]
            sizes[name] = max(sizes.get(name, 1), int(own.max(initial=1)))
    files = {
        name: StoredFile(name, size, stripes, number * stripes) for number, (name, size) in enumerate(sizes.items())
    }
    ranks = tuple(tuple(_operations(by_rank[rank], files, cost, result_bytes)) for rank in range(len(by_rank)))
    return RecordedRun(ranks, files)


def _operations(
    events: FileEvents, files: dict[str, StoredFile], cost: FrameCost | None, result_bytes: int
) -> Iterator[Operation]:
    """The operations of one rank, in the order in which they began."""
    columns = events.columns
    kinds = [kind_of(category, name, own=True) for category, name in events.functions]
    operations = [operation_of(kind, *function) for kind, function in zip(kinds, events.functions, strict=True)]
    done = 0
    computed = decoded = frames = 0
    for at in np.argsort(columns["start"], kind="stable"):
        function = int(columns["function"][at])
        category, name = events.functions[function]
        n = max(0, int(columns["frames"][at]))
        if kinds[function] == COMPUTE:
            # a block is decoded as a whole, and computed leaf by leaf
            if (category, name) == _DECODE:
                yield from _block(decoded, computed, frames, done)
                done, computed, frames = done + frames, 0, 0
                decoded = int(columns["duration"][at]) if cost is None else n * cost.decode
            else:
                own = name == "compute"
                computed += int(columns["duration"][at]) if cost is None else own * n * cost.compute
                frames += n if own else 0
            continue
        if kinds[function] != POSIX or columns["file"][at] < 0 or columns["result"][at] < 0:
            continue
        operation = operations[function]
        if operation in ("read", "write") or name in _OPENS:
            yield from _block(decoded, computed, frames, done)
            done, decoded, computed, frames = done + frames, 0, 0, 0
        file = files[events.files[int(columns["file"][at])]]
        offset, size = int(columns["offset"][at]), int(columns["size"][at])
        if name in _OPENS:
            yield Metadata("open", file)
        elif operation == "read" and size > 0 <= offset:
            yield ReadBytes(file, offset, size)
        elif operation == "write" and size > 0 <= offset:
            yield WriteBytes(file, offset, size)
    yield from _block(decoded, computed, frames, done)
    if result_bytes:
        yield GatherTo(0, (done + frames) * result_bytes)


def _block(decoded: int, computed: int, frames: int, position: int) -> Iterator[Operation]:
    if decoded:
        yield Compute(decoded, "decode")
    if computed or frames:
        yield Compute(computed, "compute", frames, position)
