"""`follow`: analyses of one pass over frames that are still being written, with results that grow.

If results have one row per frame, each frame is computed once, when it arrives. Other analyses are recomputed from all
frames whenever the number of frames has grown by a quarter, and at the end. In both cases the results equal those of a
run over the same frames, to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, OutOfRangeError
from kinema.base.notes import collected, recorded
from kinema.base.timings import BLOCK_COLUMNS
from kinema.execution.computation import Computation, JointPass, Pass, Results, parts_of, results_after
from kinema.execution.record import RunRecord
from kinema.execution.run import check_analyses, run, run_pass
from kinema.model.selection.frames import FrameSelection
from kinema.runners import PassTimings, Timings
from kinema.trajectory import Trajectory
from kinema.trajectory.following import Following

A = TypeVar("A", bound=Computation)
# chooses frames among those present; later frames only add to the end
Choose = Callable[[Trajectory], FrameSelection]

# an analysis without rows is recomputed when the number of frames has grown by this factor
_GROWTH = 1.25


def follow(
    analyses: Sequence[A],
    until: int | str | None = None,
    timeout: float | None = None,
    *,
    callback: Callable[[], object] | None = None,
    choose: Choose | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[A]:
    """Runs analyses of one trajectory over its frames as they are written, and returns them when writing has ended.

    Same arguments as `Analysis.follow`; `choose` gives the frames of the run among those that are present.

    Raises
    ------
    ArgumentError
        Also for an analysis of several passes, and if no frame has arrived.
    """
    check_analyses(analyses)
    for analysis in analyses:
        if analysis.n_passes != 1:
            arguments = ", ".join(f"{name}={value}" for name, value in analysis.arguments.items())
            times = "until its results stand still" if analysis.n_passes is None else f"{analysis.n_passes} times"
            raise ArgumentError(
                f"{type(analysis).__name__}({arguments}) reads all frames {times}, so that it cannot "
                "follow frames that are still coming; run it when they are there"
            )
    given = dict(options or {})
    if "over" in given or "fields" in given:
        raise ArgumentError("over and fields are of Trajectory.follow; an analysis reads what it needs")
    growing = _GrowingRun(analyses, choose, given.get("workers"), given.get("memory"))
    select = analyses[0].selection.indices
    with recorded() as notes:
        frames = analyses[0].trajectory.follow(until, timeout, **{"select": select, **given, "over": "blocks"})
        try:
            for _ in frames:
                if growing.take(frames) and callback is not None and callback():
                    break
        finally:
            frames.close()
    growing.finish(tuple(notes))
    return list(analyses)


class _GrowingRun:
    """State of the computation so far."""

    def __init__(
        self, analyses: Sequence[Computation], choose: Choose | None, workers: int | None, memory: int | str | None
    ) -> None:
        self.analyses = analyses
        self.trajectory = analyses[0].trajectory
        self.choose = choose
        self.arguments: dict[str, Any] = {"workers": workers, "memory": memory}
        self.began = time.perf_counter()
        self.start_over()

    def start_over(self) -> None:
        """Discards all results."""
        self.restarts = 0
        self.n_frames = 0
        self.done = FrameSelection(range(0))
        # of each part of the pass, the rows that have come
        self.rows: dict[int, list[list[Mapping[str, NDArray[Any]]]]] = {}
        self.whole: dict[int, int] = {}
        self.timings: list[PassTimings] = []
        self.plan = ""

    def take(self, frames: Following) -> bool:
        """Computes the frames that have arrived; returns whether any of them belong to the run."""
        if frames.restarts != self.restarts:
            self.start_over()
            self.restarts = frames.restarts
        chosen = self._chosen(frames.n_frames)
        new = FrameSelection.from_ascending(chosen[len(self.done) :])
        self.n_frames = frames.n_frames
        if not len(new):
            return False
        self.done = FrameSelection.from_ascending(chosen)
        generators = [analysis._passes(self.done) for analysis in self.analyses]
        passes = {number: next(generator) for number, generator in enumerate(generators)}
        rows = {number: one for number, one in passes.items() if all(part.rows is not None for part in parts_of(one))}
        self._compute(rows, new)
        for number, generator in enumerate(generators):
            if number in self.rows:
                joined = [_joined(part) for part in self.rows[number]]
                of_pass = joined if isinstance(passes[number], JointPass) else joined[0]
                self._set(number, results_after(generator, of_pass))
            elif len(chosen) >= _GROWTH * self.whole.get(number, 0):
                self._run_whole(number)
        return True

    def _chosen(self, n_frames: int) -> NDArray[np.uint64]:
        if self.choose is None:
            return np.arange(n_frames, dtype=np.uint64)
        # the last frames of the file may still be incomplete
        numbers = self.choose(self.trajectory).numbers()
        return numbers[numbers < n_frames]

    def _compute(self, passes: dict[int, Pass | JointPass], new: FrameSelection) -> None:
        """Computes the rows of new frames."""
        if not passes:
            return
        analyses = [self.analyses[number] for number in passes]
        outcome = run_pass(analyses, list(passes.values()), new, **self.arguments)
        found = iter(outcome.results())
        for number, one in passes.items():
            for part in self.rows.setdefault(number, [[] for _ in parts_of(one)]):
                part.append(next(found))
        self.timings = [_added([*self.timings, outcome.timings])]
        self.plan = outcome.plan

    def _run_whole(self, number: int) -> None:
        analysis = self.analyses[number]
        # only the notes of the last run are kept
        with collected():
            run([analysis], frames=self.done, progress=False, **self.arguments)
        self.whole[number] = len(self.done)

    def _set(self, number: int, results: Results) -> None:
        self.analyses[number].results = results
        self.analyses[number].record = self._record(())

    def _record(self, notes: tuple[str, ...]) -> RunRecord:
        analyses = self.analyses
        timings = Timings(
            tuple(self.timings),
            whole=time.perf_counter() - self.began,
            opening=dict(self.trajectory.opening),
            runner="threads",
        )
        return RunRecord(
            trajectory=self.trajectory,
            frames=self.done,
            analyses=tuple(type(analysis).__name__ for analysis in analyses),
            selections=tuple(selection for analysis in analyses for selection in analysis.selections),
            command=analyses[0].command or "",
            plan=self.plan,
            timings=timings,
            notes=notes,
        )

    def finish(self, notes: tuple[str, ...]) -> None:
        """The results of all frames so far."""
        if not len(self.done):
            raise ArgumentError(f"{self.trajectory.paths[0]}: none of the frames to be used has come")
        for number, analysis in enumerate(self.analyses):
            if number in self.rows:
                analysis.record = self._record(notes)
                continue
            if self.whole.get(number, 0) < len(self.done):
                self._run_whole(number)
            if analysis.record is not None:
                analysis.record = replace(analysis.record, notes=(*notes, *analysis.record.notes))


def _joined(parts: list[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Rows of consecutive parts as one; the list itself is reduced to a single element."""
    if len(parts) > 1 and "first_row" in parts[0]:
        ends = np.cumsum([0, *(part["first_row"][-1] for part in parts)])
        first_row = [part["first_row"][1:] + end for part, end in zip(parts, ends, strict=False)]
        names = [name for name in parts[0] if name != "first_row"]
        parts[:] = [
            {name: np.concatenate([part[name] for part in parts]) for name in names}
            | {"first_row": np.concatenate([parts[0]["first_row"][:1], *first_row])}
        ]
    if len(parts) > 1:
        shapes = list({part["values"].shape[1:]: None for part in parts})
        if len(shapes) > 1:
            raise ArgumentError(
                f"the function must return values of one shape for all frames, expected {shapes[0]}, found {shapes[1]}"
            )
        parts[:] = [{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}]
    return dict(parts[0])


def _added(passes: list[PassTimings]) -> PassTimings:
    """Timings of passes over neighbouring frames as one pass."""
    workers: dict[int, Any] = {}
    for worker in (worker for one in passes for worker in one.workers):
        before = workers.get(worker.worker)
        workers[worker.worker] = worker if before is None else before.and_then(worker)
    blocks = np.empty((0, len(BLOCK_COLUMNS)))
    return PassTimings(
        sum(one.wall for one in passes), sum(one.frames for one in passes), tuple(workers.values()), blocks
    )


def frames_by_number(start: int | None, stop: int | None, step: int | None) -> Choose:
    """The frames of a slice, for any number of frames; ArgumentError for a slice that counts from the end."""
    if any(value is not None and value < 0 for value in (start, stop)) or (step is not None and step < 1):
        raise ArgumentError(
            "frames that are still coming are counted from the first; start, stop and step are not below 0"
        )
    return lambda trajectory: FrameSelection(range(*slice(start, stop, step).indices(trajectory.n_frames)))


def frames_in_time(between: Callable[[Trajectory], FrameSelection]) -> Choose:
    """The frames in a window of time; none while the window is empty."""

    def choose(trajectory: Trajectory) -> FrameSelection:
        try:
            # notes on their spacing only make sense when all frames are present
            with collected():
                return between(trajectory)
        except OutOfRangeError:
            return FrameSelection(range(0))

    return choose
