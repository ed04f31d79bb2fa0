"""Programs of ranks that analyse a trajectory: what each rank opens, reads, computes and sends.

The division of frames is a pure function, and that of the runner with MPI: `kinema.runners.scheduler.Scheduler` gives
each rank its pieces, in virtual time. Frames of a file count as equally long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Literal

from kinema.base.errors import ArgumentError
from kinema.runners.scheduler import DEFAULT_PIECES, Scheduler
from kinema.studies.lab.operations import (
    Compute,
    GatherTo,
    Metadata,
    Operation,
    PutTo,
    RankProgram,
    ReadBytes,
    ReceiveFrom,
    SendTo,
    StoredFile,
)

# bytes of a block of frames: what the system reads ahead of a program that reads on and on, an assumption
_BLOCK = 4 << 20
# bytes of a frame in Kinema's index of frames, and in the offsets that MDAnalysis stores
_INDEX_BYTES, _OFFSET_BYTES = 4, 8
# of a request for the next piece and its answer
_COUNTER_BYTES = 8
# `plan/leaves.rs` of the core: leaves that are wanted, of few frames, and the shortest and longest leaf
_LEAVES, _LEAVES_OF_FEW = 4096, 256
_LEAST_LEAF, _LARGEST_LEAF = 8, 256


@dataclass(frozen=True)
class FrameCost:
    """CPU time of one frame in ns, and where the numbers are from."""

    decode: int
    compute: int
    source: str


@dataclass(frozen=True)
class FrameFile:
    """A stored file with frames."""

    file: StoredFile
    n_frames: int

    def extent(self, first: int, n_frames: int) -> tuple[int, int]:
        """Offset and size of frames that follow each other."""
        begin, end = (self.file.size * frame // self.n_frames for frame in (first, first + n_frames))
        return begin, end - begin


@dataclass(frozen=True)
class AnalysisWork:
    """An analysis of a trajectory on ranks.

    `files`: one after the other.
    `frames`: numbers in the whole trajectory.
    `leaf_frames`: length of the leaves; 0: that of a kernel whose partials are small.
    `reader`: "kinema": rank 0 reads index files and broadcasts them, each rank opens the files of its frames.
        "mdanalysis": every rank opens files and reads the offsets of all their frames, and has a contiguous share of
        the frames.
    `opens`: files that a rank with "mdanalysis" opens: "all", as its chain of files does, or "own": one file for each
        rank, which is subfiling.
    `schedule`: "dynamic": ranks ask rank 0 for the next piece; "static": a contiguous share.
    `oversubscribe`: least number of pieces of a rank.
    `workload`: how many times each frame is computed.
    `result_bytes`: bytes of the result of a frame.
    """

    files: Sequence[FrameFile]
    frames: range
    cost: FrameCost
    leaf_frames: int = 0
    reader: Literal["kinema", "mdanalysis"] = "kinema"
    opens: Literal["all", "own"] = "all"
    gather: Literal["collective", "one-sided"] = "collective"
    schedule: Literal["dynamic", "static"] = "static"
    oversubscribe: int = DEFAULT_PIECES
    workload: int = 1
    result_bytes: int = 8
    starts: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        starts = tuple(accumulate((one.n_frames for one in self.files), initial=0))
        if not self.frames or self.frames.step < 1 or not 0 <= self.frames[0] <= self.frames[-1] < starts[-1]:
            raise ArgumentError(f"frames must be some of the trajectory's {starts[-1]}, found {self.frames}")
        object.__setattr__(self, "starts", starts)
        if not self.leaf_frames:
            object.__setattr__(self, "leaf_frames", leaf_length(len(self.frames)))

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return -(-len(self.frames) // self.leaf_frames)


def leaf_length(n_frames: int) -> int:
    """Frames of a leaf, as the core's plan has them: a power of two that depends on the number of frames alone."""
    long = max(1, n_frames // _LEAVES).bit_length() - 1
    short = 1 << (max(1, -(-n_frames // _LEAVES_OF_FEW)) - 1).bit_length()
    return min(max(1 << long, min(short, _LEAST_LEAF)), _LARGEST_LEAF)


def split_evenly(files: Sequence[FrameFile], n_parts: int, stripes: int) -> list[FrameFile]:
    """The same frames in `n_parts` files, whose first stripes lie on one target after the other."""
    n_frames, size = sum(one.n_frames for one in files), sum(one.file.size for one in files)
    if n_parts > n_frames:
        raise ArgumentError(f"{n_frames} frames cannot be split into {n_parts} files")
    bounds = [n_frames * part // n_parts for part in range(n_parts + 1)]
    return [
        FrameFile(
            StoredFile(f"part-{part}", size * (end - first) // n_frames, stripes, start=part * stripes), end - first
        )
        for part, (first, end) in enumerate(pairwise(bounds))
    ]


class _RanksAtWork:
    """The ranks of one run: they share the scheduler, as the ranks of a real run share rank 0's counter."""

    def __init__(self, work: AnalysisWork, n_ranks: int) -> None:
        self.work, self.n_ranks = work, n_ranks
        self._scheduler = Scheduler(
            work.n_leaves, [(0, work.n_leaves)], n_ranks, schedule=work.schedule, oversubscribe=work.oversubscribe
        )

    def program(self, rank: int) -> Iterator[Operation]:
        """The operations of a rank."""
        work = self.work
        opened: set[str] = set()
        done = 0
        yield from self._opening(rank, opened)
        if work.reader == "mdanalysis":
            n = len(work.frames)
            first, stop = n * rank // self.n_ranks, n * (rank + 1) // self.n_ranks
            yield from self._positions(first, stop, opened)
            done = stop - first
        else:
            while True:
                if work.schedule == "dynamic" and rank:
                    yield PutTo(0, _COUNTER_BYTES)
                piece = self._scheduler.take(rank)
                if piece is None:
                    break
                first, stop = (min(leaf * work.leaf_frames, len(work.frames)) for leaf in piece)
                yield from self._positions(first, stop, opened)
                done += stop - first
        if work.gather == "collective":
            yield GatherTo(0, done * work.result_bytes)
        elif rank:
            yield PutTo(0, done * work.result_bytes)
        for one in work.files:
            if one.file.name in opened:
                yield Metadata("close", one.file)

    def _opening(self, rank: int, opened: set[str]) -> Iterator[Operation]:
        work = self.work
        everyone = work.reader == "mdanalysis"
        if everyone or rank == 0:
            own = everyone and work.opens == "own"
            for one in work.files[rank : rank + 1] if own else work.files:
                bytes_a_frame = _OFFSET_BYTES if everyone else _INDEX_BYTES
                # index files are short: one stripe, on the target of the file's first
                index = StoredFile(f"{one.file.name}.index", one.n_frames * bytes_a_frame, 1, one.file.start)
                yield Metadata("open", one.file)
                yield Metadata("stat", one.file)
                yield Metadata("open", index)
                yield ReadBytes(index, 0, index.size, keep="memory")
                yield Metadata("close", index)
                opened.add(one.file.name)
        if not everyone:
            yield from broadcast(rank, self.n_ranks, sum(one.n_frames for one in work.files) * _INDEX_BYTES)

    def _positions(self, first: int, stop: int, opened: set[str]) -> Iterator[Operation]:
        """Reads and computes the frames at these positions of the run, in blocks."""
        work = self.work
        position = first
        while position < stop:
            number = work.frames[position]
            part = bisect_right(work.starts, number) - 1
            one = work.files[part]
            if one.file.name not in opened:
                opened.add(one.file.name)
                yield Metadata("open", one.file)
            # all frames of the block are in one file
            in_file = -(-(work.starts[part + 1] - number) // work.frames.step)
            a_block = max(1, _BLOCK * one.n_frames // max(1, one.file.size))
            n = min(a_block, in_file, stop - position)
            if work.frames.step == 1:
                yield ReadBytes(one.file, *one.extent(number - work.starts[part], n))
            else:
                for at in range(position, position + n):
                    yield ReadBytes(one.file, *one.extent(work.frames[at] - work.starts[part], 1))
            yield Compute(n * work.cost.decode, "decode")
            yield Compute(n * work.cost.compute * work.workload, "compute", n, position)
            position += n


def analysis_program(work: AnalysisWork, n_ranks: int) -> RankProgram:
    """The program of an analysis on ranks, for one run."""
    return _RanksAtWork(work, n_ranks).program


def broadcast(rank: int, n_ranks: int, size: int) -> Iterator[Operation]:
    """Rank 0 sends bytes to all ranks, on a binomial tree."""
    reach = 1
    while reach < n_ranks:
        reach *= 2
    if rank:
        # the lowest bit of the rank is its distance from the rank that it receives from
        reach = rank & -rank
        yield ReceiveFrom(rank - reach)
    while reach > 1:
        reach //= 2
        if rank + reach < n_ranks:
            yield SendTo(rank + reach, size)
