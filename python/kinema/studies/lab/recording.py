"""`RecordedRun`: what the ranks of a real run did, from its trace, as a program for the simulation.

    mpiexec -n 8 kinema rmsd md.xtc -s top.psf --trace traces
    recorded = recorded_run("traces", result_bytes=8)
    run = emulate(recorded.program, recorded.n_ranks, read_platform("lustre"))

Opens, reads, writes and frames are recorded ones. Times are not: CPU time follows from `FrameCost`, as ranks that share
cores measure too much. A trace has no messages: the program ends with a gather of the results.

`recorded_batches`: what ranks that train did for each batch, whichever of their threads did it, and when.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
_CLOSES = ("close", "close64")
_DECODE = ("decode", "decode")
# a batch that a loop reads on one thread; one that Kinema's loader reads on several, and no other meanwhile
_OF_A_THREAD, _OF_A_PROCESS = ("reader", "read"), ("loader", "gather")
# computing that takes the stated time of a frame: a kernel, or encoding what is written
_PER_FRAME = ("compute", "encode")
_FETCH = ("cache", "cache.fetch")
_PAGE = 4096


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
    by_rank = _events_of_ranks(paths)
    files = _stored_files(by_rank.values(), stripes)
    ranks = tuple(tuple(_operations(by_rank[rank], files, cost, result_bytes)) for rank in range(len(by_rank)))
    return RecordedRun(ranks, files)


def _events_of_ranks(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> dict[int, FileEvents]:
    """The events of each rank, one file each."""
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
    return by_rank


def _stored_files(ranks: Iterable[FileEvents], stripes: int) -> dict[str, StoredFile]:
    """The files of all ranks; each begins on the target after the last one of the file before."""
    sizes: dict[str, int] = {}
    for events in ranks:
        columns = events.columns
        moved = (columns["offset"] >= 0) & (columns["size"] > 0) & (columns["result"] >= 0)
        for number, name in enumerate(events.files):
            chosen = moved & (columns["file"] == number)
            own = (columns["offset"] + columns["size"])[chosen]
            sizes[name] = max(sizes.get(name, 1), int(own.max(initial=1)))
    return {name: StoredFile(name, sizes[name], stripes, number * stripes) for number, name in enumerate(sorted(sizes))}


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
                own = name in _PER_FRAME
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


@dataclass(frozen=True, eq=False)
class RecordedBatches:
    """Calls that the ranks of a training made for their batches.

    Attributes
    ----------
    ranks : tuple of {(epoch, step): tuple of Operation}
        Opening, reading and closing files, in an order that does not depend on how threads took turns.
    blocks : {file name: sorted tuple of (offset, bytes)}
        Parts of files that a node cache fetched as a whole; then all reads go through the node's cache.
    """

    ranks: tuple[Mapping[tuple[int, int], tuple[Operation, ...]], ...]
    blocks: Mapping[str, tuple[tuple[int, int], ...]]


def recorded_batches(paths: str | os.PathLike[str], *, stripes: int = 1) -> RecordedBatches:
    """The batches of a trace with one file for each rank; steps count from 0 in each epoch.

    Raises as `recorded_run`.
    """
    by_rank = _events_of_ranks(paths)
    files = _stored_files(by_rank.values(), stripes)
    blocks: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for events in by_rank.values():
        for at in _places(events, _FETCH):
            name, offset, size = _extent(events, int(at))
            blocks[name].add((offset, size))
    ranks = tuple(_batches(by_rank[rank], files, cached=bool(blocks)) for rank in range(len(by_rank)))
    return RecordedBatches(ranks, {name: tuple(sorted(found)) for name, found in sorted(blocks.items())})


def _places(events: FileEvents, *functions: tuple[str, str]) -> NDArray[np.int64]:
    """Indices of the events of some functions, in the order in which they began."""
    wanted = [number for number, one in enumerate(events.functions) if one in functions]
    found = np.flatnonzero(np.isin(events.columns["function"], wanted))
    return found[np.argsort(events.columns["start"][found], kind="stable")]


def _extent(events: FileEvents, at: int) -> tuple[str, int, int]:
    columns = events.columns
    return events.files[int(columns["file"][at])], int(columns["offset"][at]), int(columns["size"][at])


def _batches(
    events: FileEvents, files: Mapping[str, StoredFile], *, cached: bool
) -> dict[tuple[int, int], tuple[Operation, ...]]:
    columns = events.columns
    # a call lies within a batch as a whole; its middle does so whatever the readings of clocks add
    middles = columns["start"] + columns["duration"] // 2
    by_time = np.argsort(middles, kind="stable")
    middles = middles[by_time]
    of_loader = len(_places(events, _OF_A_PROCESS)) > 0
    found: dict[tuple[int, int], tuple[Operation, ...]] = {}
    steps: dict[int, int] = defaultdict(int)
    for at in _places(events, _OF_A_PROCESS if of_loader else _OF_A_THREAD):
        epoch, begin = int(columns["epoch"][at]), int(columns["start"][at])
        first, stop = np.searchsorted(middles, [begin, begin + columns["duration"][at]])
        within = by_time[first:stop]
        if of_loader:
            found[epoch, steps[epoch]] = tuple(sorted(_calls(events, within, files, cached=cached), key=_by_place))
            steps[epoch] += 1
        else:
            own = within[columns["thread"][within] == columns["thread"][at]]
            found[epoch, int(columns["step"][at])] = tuple(_once_a_page(_calls(events, own, files, cached=False)))
    return found


def _calls(
    events: FileEvents, chosen: NDArray[np.int64], files: Mapping[str, StoredFile], *, cached: bool
) -> Iterator[Operation]:
    """The calls on files among events. `cached`: what is read through a cache, not what the cache does."""
    columns = events.columns
    for at in chosen[(columns["file"][chosen] >= 0) & (columns["result"][chosen] >= 0)]:
        category, name = events.functions[int(columns["function"][at])]
        kind = kind_of(category, name, own=True)
        path, offset, size = _extent(events, int(at))
        if cached:
            if (category, name) == _OF_A_THREAD and size > 0 <= offset:
                yield ReadBytes(files[path], offset, size, keep="node")
        elif kind == POSIX and name in _OPENS:
            yield Metadata("open", files[path])
            # the size of a file that has just been opened; asked again, the node knows it
            yield Metadata("stat", files[path])
        elif kind == POSIX and name in _CLOSES:
            yield Metadata("close", files[path])
        elif operation_of(kind, category, name) == "read" and kind == POSIX and size > 0 <= offset:
            yield ReadBytes(files[path], offset, size)


def _by_place(one: Operation) -> tuple[str, int, int]:
    """Key that sorts calls on files: opening, reading from front to back, closing."""
    if isinstance(one, ReadBytes):
        return one.file.name, 1, one.offset
    assert isinstance(one, Metadata) and one.file is not None
    return one.file.name, 2 if one.what == "close" else 0, 0


def _once_a_page(calls: Iterable[Operation]) -> Iterator[Operation]:
    """Reads of whole pages, each once from opening to closing a file: the node's memory has what was just read."""
    known: dict[str, set[int]] = defaultdict(set)
    for one in calls:
        if isinstance(one, Metadata) and one.file is not None:
            known.pop(one.file.name, None)
            yield one
        if not isinstance(one, ReadBytes):
            continue
        pages = known[one.file.name]
        first, last = one.offset // _PAGE, (one.offset + one.size - 1) // _PAGE
        missing = [page for page in range(first, last + 1) if page not in pages]
        pages.update(missing)
        for begin, n in _runs(missing):
            offset = begin * _PAGE
            yield ReadBytes(one.file, offset, min(n * _PAGE, one.file.size - offset))


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First number and length of each run of ascending numbers."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][0] + found[-1][1] == number:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((number, 1))
    return found
