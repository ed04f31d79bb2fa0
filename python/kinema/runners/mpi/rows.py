"""What a rank does with results per frame in a round: it puts them in their place as soon as a piece is done.

Partials that do not grow with the frames are not its business: they merge on the way to rank 0 (`gathering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError, InternalError
from kinema.frames import ResolvedFrames
from kinema.runners.base import Rows
from kinema.runners.mpi.arrays import GlobalArray, GlobalRows, Name
from kinema.runners.mpi.ranks import Ranks
from kinema.runners.tally import Tally

__all__ = ["RowsOfRound"]

# type and shape of a row
Kind = tuple[np.dtype[Any], tuple[int, ...]]


class RowsOfRound:
    """The rows of all jobs that have some. Entered and left, and `complete` called, by all ranks together.

    When it is left the arrays are given back, unless they are to be kept.

    Parameters
    ----------
    ranks : Ranks
    frames : the frames of the round
    rows : list of Rows or None
        One for each job; empty where no rows are put.
    """

    def __init__(self, ranks: Ranks, frames: ResolvedFrames, rows: Sequence[Rows | None]) -> None:
        self._ranks = ranks
        self._kept = False
        self._jobs = {number: _RowsOfJob(ranks, frames, one) for number, one in enumerate(rows) if one is not None}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self._jobs.values():
            if job.array is not None and not self._kept:
                job.array.free_here()

    def put(self, plan: _core.Plan, kernels: Sequence[_core.Kernel], nodes: Sequence[_core.Node]) -> list[_core.Node]:
        """Puts the rows of nodes in their place; gives the nodes, with empty partials where these were.

        ArgumentError for what is not one row a frame.
        """
        if not self._jobs:
            return list(nodes)
        rest: list[_core.Node] = []
        for level, index, partials in nodes:
            begin, end = index << level, min((index + 1) << level, plan.n_leaves)
            first, stop = plan.leaf(begin)[0], plan.leaf(end - 1)[1]
            left = list(partials)
            for number, job in self._jobs.items():
                job.put(first, stop, partials[number].finish())
                left[number] = kernels[number].empty()
            rest.append((level, index, left))
        return rest

    def complete(self, tally: Tally) -> None:
        """Waits until all that any rank has put is there for all.

        ArgumentError, on all ranks, for rows of different shapes.
        """
        unknown = [job for job in self._jobs.values() if job.array is None]
        if unknown:
            with tally.counting("waited"):
                told = self._ranks.comm.allgather([job.kinds for job in unknown])
            kinds = [_common([one for rank in told for one in rank[at]]) for at in range(len(unknown))]
            for job, kind in zip(unknown, kinds, strict=True):
                job.make(kind)
        with tally.counting("communicate"):
            for job in self._jobs.values():
                job.rows.complete()
        with tally.counting("waited"):
            for job in self._jobs.values():
                job.rows.meet()

    def fetch(self, tally: Tally) -> dict[int, _core.Found]:
        """Time and values of each job, in this rank's memory. MemoryLimitError where they have no room."""
        with tally.counting("communicate"):
            return {number: job.rows.columns() for number, job in self._jobs.items()}

    def keep(self) -> dict[int, _core.Found]:
        """The arrays of each job, which stay where they are."""
        self._kept = True
        return {
            number: {name: GlobalArray(job.rows, name) for name in get_args(Name)} for number, job in self._jobs.items()
        }


class _RowsOfJob:
    """The rows of one job; while nobody knows what a row is they are held, and put when the round is over."""

    def __init__(self, ranks: Ranks, frames: ResolvedFrames, rows: Rows) -> None:
        self._ranks = ranks
        self._frames = frames
        self._held: list[tuple[int, NDArray[Any], NDArray[np.float64]]] = []
        self.array: GlobalRows | None = None
        if rows.columns is not None:
            self.make((np.dtype(np.float64), (rows.columns,)))

    @property
    def rows(self) -> GlobalRows:
        """The array; InternalError where it is not made yet."""
        if self.array is None:
            raise InternalError("rows are asked for before all ranks have agreed on their type")
        return self.array

    @property
    def kinds(self) -> list[Kind]:
        """What rows this rank holds, each kind once."""
        return list(dict.fromkeys((values.dtype, values.shape[1:]) for _, values, _ in self._held))

    def make(self, kind: Kind) -> None:
        """Makes the array, with all ranks, and puts what is held."""
        self.array = GlobalRows(self._ranks, self._frames, np.dtype(kind))
        held, self._held = self._held, []
        for first, values, times in held:
            self._send(self.array, first, values, times)

    def put(self, first: int, stop: int, found: _core.Found) -> None:
        """Rows first to stop, now or later."""
        values, times = np.asarray(found["values"]), np.asarray(found["time"], np.float64)
        if values.shape[:1] != (stop - first,) or times.shape != (stop - first,):
            raise ArgumentError(
                f"results have not one row a frame, expected {stop - first} rows, found {values.shape[:1]}"
            )
        if values.dtype.hasobject:
            raise ArgumentError(
                f"values of type {values.dtype} cannot be put into an array that is spread over ranks; return numbers, "
                "or use gather='collective'"
            )
        if self.array is None:
            self._held.append((first, values, times))
        else:
            self._send(self.array, first, values, times)

    def _send(self, array: GlobalRows, first: int, values: NDArray[Any], times: NDArray[np.float64]) -> None:
        records = np.empty(len(values), array.record)
        if values.shape != records["values"].shape:
            raise InternalError(f"rows have another shape, expected {records['values'].shape}, found {values.shape}")
        records["time"], records["values"] = times, values
        array.put(first, records)


def _common(kinds: Sequence[Kind]) -> Kind:
    """What holds all rows, as numpy joins them; ArgumentError where shapes differ."""
    shapes = list(dict.fromkeys(shape for _, shape in kinds))
    if len(shapes) != 1:
        raise ArgumentError(f"the function returns rows of different shapes, expected {shapes[0]}, found {shapes[1]}")
    return np.result_type(*(dtype for dtype, _ in kinds)), shapes[0]
