"""Results per frame of a pass, put into distributed rows by each rank as soon as a piece is done.

`reduction` gathers partials that do not grow with the frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, InternalError
from kinema.model.selection.frames import FrameSelection
from kinema.runners.base import Rows
from kinema.runners.mpi.global_array import GlobalArray, GlobalRows, Name
from kinema.runners.mpi.session import MPISession
from kinema.runners.worker_timer import WorkerTimer

# type and shape of a row
Kind = tuple[np.dtype[Any], tuple[int, ...]]


class RowsOfPass:
    """The rows of all jobs that have rows. Entering, leaving and `complete` are collective.

    Leaving the context frees the rows, unless they are retained.

    `rows`: one for each job; empty if no rows are put.
    """

    def __init__(self, session: MPISession, frames: FrameSelection, rows: Sequence[Rows | None]) -> None:
        self._session = session
        self._retained = False
        fixed = {number: one for number, one in enumerate(rows) if one is not None and not one.lists}
        self._jobs = {number: _RowsOfJob(session, frames, one) for number, one in fixed.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for job in self._jobs.values():
            if job.array is not None and not self._retained and self._session.silent is None:
                job.array.free_here()

    def put(self, plan: _core.Plan, kernels: Sequence[_core.Kernel], nodes: Sequence[_core.Node]) -> list[_core.Node]:
        """Puts the rows of nodes in their place; returns the nodes with empty partials instead of the rows.

        Raises ArgumentError for results that do not have one row a frame.
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

    def complete(self, worker_timer: WorkerTimer) -> None:
        """Waits until the rows that any rank has put are visible to all; collective.

        Raises ArgumentError, on all ranks, for rows of different shapes.
        """
        unknown = [job for job in self._jobs.values() if job.array is None]
        if unknown:
            with worker_timer.counting("waited"):
                kinds_of = self._session.comm.allgather([job.kinds for job in unknown])
            kinds = [_common([one for rank in kinds_of for one in rank[at]]) for at in range(len(unknown))]
            for job, kind in zip(unknown, kinds, strict=True):
                job.make(kind)
        with worker_timer.counting("put"):
            for job in self._jobs.values():
                job.rows.complete()
        with worker_timer.counting("waited"):
            for job in self._jobs.values():
                job.rows.synchronize()

    def fetch(self, worker_timer: WorkerTimer) -> dict[int, _core.KernelResults]:
        """Time and values of each job, in this rank's memory. Raises MemoryLimitError if there is no room for them."""
        with worker_timer.counting("get"):
            return {number: job.rows.columns() for number, job in self._jobs.items()}

    def retain(self) -> dict[int, _core.KernelResults]:
        """The arrays of each job, which stay distributed after the pass."""
        self._retained = True
        return {
            number: {name: GlobalArray(job.rows, name) for name in get_args(Name)} for number, job in self._jobs.items()
        }


class _RowsOfJob:
    """The rows of one job. Until all ranks know the type of a row, rows are held, and put at the end of the pass."""

    def __init__(self, session: MPISession, frames: FrameSelection, rows: Rows) -> None:
        self._session = session
        self._frames = frames
        self._held: list[tuple[int, NDArray[Any], NDArray[np.float64]]] = []
        self.array: GlobalRows | None = None
        if rows.columns is not None:
            self.make((np.dtype(rows.dtype), (rows.columns,)))

    @property
    def rows(self) -> GlobalRows:
        """The array; raises InternalError if it is not made yet."""
        if self.array is None:
            raise InternalError("rows are asked for before all ranks have agreed on their type")
        return self.array

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of the rows that this rank holds, each once."""
        return list(dict.fromkeys((values.dtype, values.shape[1:]) for _, values, _ in self._held))

    def make(self, kind: Kind) -> None:
        """Makes the array and puts the held rows; collective."""
        self.array = self._session.new_rows(self._frames, np.dtype(kind))
        held, self._held = self._held, []
        for first, values, times in held:
            self._send(self.array, first, values, times)

    def put(self, first: int, stop: int, results: _core.KernelResults) -> None:
        """Rows first to stop, now or later."""
        values, times = np.asarray(results["values"]), np.asarray(results["time"], np.float64)
        if values.shape[:1] != (stop - first,) or times.shape != (stop - first,):
            raise ArgumentError(
                f"results do not have one row a frame, expected {stop - first} rows, found {values.shape[:1]}"
            )
        if values.dtype.hasobject:
            raise ArgumentError(
                f"values of type {values.dtype} cannot be put into an array distributed over ranks; return numbers, "
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
    """The kind that holds all rows, by numpy's promotion; raises ArgumentError if shapes differ."""
    shapes = list(dict.fromkeys(shape for _, shape in kinds))
    if len(shapes) != 1:
        raise ArgumentError(f"the function returns rows of different shapes, expected {shapes[0]}, found {shapes[1]}")
    return np.result_type(*(dtype for dtype, _ in kinds)), shapes[0]
