"""`run`: carries out one or several analyses over the same frames; each pass over the frames serves all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar, Unpack

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import emit, recorded
from kinema.base.progress import ProgressChoice, Report, reporting
from kinema.base.resources import default_memory, parse_memory
from kinema.base.timings import BLOCK_COLUMNS
from kinema.cache.counts import CacheCounts, counts_of_all
from kinema.execution.computation import (
    Computation,
    JointPass,
    Pass,
    Passes,
    Results,
    ResultsOnRoot,
    parts_of,
    results_of_parts,
)
from kinema.execution.record import RunRecord
from kinema.model.selection.frames import FrameChoice, FrameSelection
from kinema.runners import (
    PassResult,
    PassTimings,
    Reduction,
    Runner,
    RunnerOptions,
    Timings,
    choose_runner,
)
from kinema.runners.access import access_method
from kinema.runners.base import PassRequest

if TYPE_CHECKING:
    from kinema.execution.checkpoint import Checkpoint, CheckpointChoice
    from kinema.execution.persistence import Persistence
    from kinema.trajectory import Trajectory

A = TypeVar("A", bound=Computation)


def run(
    analyses: Sequence[A],
    start: int | None = None,
    stop: int | None = None,
    step: int | None = None,
    frames: FrameChoice = None,
    verbose: bool | None = None,
    workers: int | None = None,
    *,
    runner: str | Runner | None = None,
    memory: int | str | None = None,
    progress: ProgressChoice = None,
    checkpoint: CheckpointChoice = None,
    checkpoint_interval: float | None = None,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    access: str = "direct",
    skip_damaged: bool = False,
    **options: Unpack[RunnerOptions],
) -> list[A]:
    """Runs analyses of one trajectory together and returns them; each frame is read and decoded once for all of them.

    Same arguments as `Analysis.run`. Each result equals that of the analysis run alone, to the bit. All analyses get
    the same `timings`. If an error is raised, no analysis changes.

    Raises
    ------
    ArgumentError
        Also if there is no analysis, one is given twice, or they have different trajectories or views.

    Examples
    --------
    >>> rmsd, rgyr = kn.analysis.RMSD(traj, select="name CA"), kn.analysis.RadiusOfGyration(traj)
    >>> _ = kn.run([rmsd, rgyr], step=10)  # each frame is read and decoded once
    >>> rmsd.results.rmsd.shape, rgyr.results.rgyr.shape
    ((20, 3), (20,))
    """
    began = time.perf_counter()
    chosen_runner = choose_runner(runner, **options)
    method = access_method(access)
    check_analyses(analyses)
    trajectory = analyses[0].trajectory
    method.check(chosen_runner.name, trajectory.format, trajectory.core.transforms)

    def whole() -> _Finished:
        ready = time.perf_counter()
        saved = _checked_outputs(analyses, checkpoint, checkpoint_interval, out, overwrite)
        counted = counts_of_all()
        # counted as opening
        scanned_from = time.perf_counter()
        trajectory.scan(search=chosen_runner.find_frames, skip_damaged=skip_damaged)
        scanning = time.perf_counter() - scanned_from
        chosen = trajectory.choose(start, stop, step, frames)
        limit = 0 if memory is None else parse_memory(memory)
        shown = verbose if progress is None else progress
        with recorded() as notes:
            if skip_damaged:
                threads = chosen_runner.local_threads(workers)
                chosen = _readable(trajectory, chosen, threads, limit, shown)
            for analysis in analyses:
                analysis.check_memory(chosen, limit or default_memory())
            emit([note for analysis in analyses for note in analysis.notes_before(chosen)])
            persistence = _persistence(analyses, chosen, saved, out)
            passes = _Passes(analyses, chosen, chosen_runner, workers, limit, shown, access)
            with chosen_runner.session(), nullcontext() if persistence is None else persistence.saving():
                results, outcomes = passes.all(persistence)
                if persistence is not None:
                    persistence.finish()
            planned = passes.gathered - ready - scanning - sum(outcome.timings.wall for outcome in outcomes)
            trajectory.core.add_frame_faults([fault for outcome in outcomes for fault in outcome.timings.faults])
            trajectory.note_frames()
        timings = Timings(
            tuple(outcome.timings for outcome in outcomes),
            whole=time.perf_counter() - began - scanning,
            opening=dict(trajectory.opening),
            runner=chosen_runner.name,
            access=access,
            gather=chosen_runner.gather,
            start=ready - began,
            plan=max(0.0, planned),
        )
        words = _describe_plans(outcomes)
        core = trajectory.core
        coverage = _cache_in_words(core, "" if method.rank_reader is None else method.description)
        if coverage is not None:
            words += f"\n{coverage}"
        since = None if coverage is None else counts_of_all() - counted
        return _Finished(chosen, results, timings, words, tuple(notes), since)

    finished = chosen_runner.run_on_root(whole)
    # on a rank without results, the results of an earlier run are cleared too
    record = None if finished is None else _record(analyses, finished)
    for number, analysis in enumerate(analyses):
        analysis.results = ResultsOnRoot() if finished is None else finished.results[number]
        analysis.record = record
    return list(analyses)


def _readable(
    trajectory: Trajectory, chosen: FrameSelection, threads: int, memory: int, progress: ProgressChoice
) -> FrameSelection:
    """The chosen frames that can be decoded; others are noted."""
    from kinema.model.selection.readable_frames import decode_frames

    decoded = decode_frames(trajectory.core, chosen, workers=threads, memory=memory, progress=progress)
    emit(decoded.notes())
    return decoded.readable()


def run_pass(
    analyses: Sequence[Computation],
    passes: Sequence[Pass | JointPass],
    frames: FrameSelection,
    *,
    workers: int | None = None,
    memory: int | str | None = None,
) -> PassResult:
    """One pass of each analysis over the frames, together, on threads. The result has all parts of joint passes."""
    limit = 0 if memory is None else parse_memory(memory)
    whole = _Passes(analyses, frames, choose_runner("threads"), workers, limit, False, "direct")
    return whole._run_pass(0, 1, dict(enumerate(passes)), None)


def _record(analyses: Sequence[Computation], finished: _Finished) -> RunRecord:
    return RunRecord(
        trajectory=analyses[0].trajectory,
        frames=finished.frames,
        analyses=tuple(type(analysis).__name__ for analysis in analyses),
        selections=tuple(selection for analysis in analyses for selection in analysis.selections),
        command=analyses[0].command or "",
        plan=finished.plan,
        timings=finished.timings,
        notes=finished.notes,
        node_cache=finished.node_cache,
    )


def _cache_in_words(core: _core.Trajectory, other_reader: str) -> str | None:
    """Description of the part of the files that the node cache serves; None without a node cache."""
    if core.recipe()["node_cache"] is None:
        return None
    from kinema.cache.node_cache import cache_of
    from kinema.cache.trajectories import explain_coverage

    cache = cache_of(core)
    return None if cache is None else explain_coverage(core, cache, other_reader)


def _describe_plans(outcomes: Sequence[PassResult]) -> str:
    """The plans of all passes."""
    if len(outcomes) == 1:
        return outcomes[0].plan
    return "\n".join(f"pass {i} of {len(outcomes)}: {one.plan}" for i, one in enumerate(outcomes, 1))


@dataclass(frozen=True)
class _Finished:
    """The outcome of a run, which is sent to ranks."""

    frames: FrameSelection
    results: list[Results]
    timings: Timings
    plan: str
    notes: tuple[str, ...]
    node_cache: CacheCounts | None


@dataclass
class _Passes:
    """All passes of a run."""

    analyses: Sequence[Computation]
    frames: FrameSelection
    runner: Runner
    workers: int | None
    memory: int
    progress: ProgressChoice
    access: str
    run: object = field(default_factory=object)
    # when the last pass has ended, by `time.perf_counter`
    gathered: float = 0.0

    def all(self, persistence: Persistence | None) -> tuple[list[Results], list[PassResult]]:
        """The results of each analysis, and the outcome of each pass."""
        counts = [analysis.n_passes for analysis in self.analyses]
        known = [count for count in counts if count is not None]
        n_passes = max(known) if len(known) == len(counts) else None
        generators: list[Passes] = [analysis._passes(self.frames) for analysis in self.analyses]
        waiting: dict[int, Pass | JointPass] = {number: next(generator) for number, generator in enumerate(generators)}
        results: dict[int, Results] = {}
        outcomes: list[PassResult] = []
        while waiting:
            outcome = self._run_pass(len(outcomes), n_passes, waiting, persistence)
            self.gathered = time.perf_counter()
            outcomes.append(outcome)
            if persistence is None:
                of_pass = outcome.results()
            else:
                of_pass = persistence.end_pass(outcome.partials, last=len(outcomes) == n_passes)
            following: dict[int, Pass | JointPass] = {}
            of_analyses = results_of_parts(list(waiting.values()), of_pass)
            for number, one in zip(waiting, of_analyses, strict=True):
                try:
                    following[number] = generators[number].send(one)
                except StopIteration as end:
                    results[number] = end.value
            waiting = following
        return [results[number] for number in range(len(self.analyses))], outcomes

    def _run_pass(
        self, number: int, n_passes: int | None, waiting: dict[int, Pass | JointPass], persistence: Persistence | None
    ) -> PassResult:
        parts = [(self.analyses[at], part) for at, one in waiting.items() for part in parts_of(one)]
        title = ", ".join(type(self.analyses[at]).__name__ for at in waiting)
        if n_passes != 1:
            title += f", round {number + 1}" + ("" if n_passes is None else f" of {n_passes}")
        title = "; ".join([title, *(one.state for _, one in parts if one.state)])
        jobs = [(one.kernel, tuple(one.transforms)) for _, one in parts]
        core = self.analyses[0].trajectory.core
        with reporting(self.progress, title, len(self.frames), launched=self.runner.launched) as report:
            request = PassRequest(
                core,
                self.frames,
                jobs,
                workers=self.workers,
                memory=self.memory,
                progress=report,
                access=self.access,
                rows=[one.rows for _, one in parts],
                run=self.run,
            )
            if persistence is None:
                return self.runner.map_reduce(request)
            # the leaves are the same for every access
            plan = request.plan(memory=self.memory or default_memory(), workers=1, access="direct")
            reduction = persistence.begin_pass(number, [analysis for analysis, _ in parts], jobs, plan)
            if not reduction.missing:
                return _restored(plan, reduction, report)
            try:
                return self.runner.map_reduce(replace(request, reduction=reduction))
            except BaseException as error:
                persistence.save_after(error, reduction)
                raise


def _restored(plan: _core.Plan, reduction: Reduction, report: Report | None) -> PassResult:
    """A pass whose leaves all came from the checkpoint."""
    if report is not None:
        report(plan.n_frames, plan.n_frames)
    timings = PassTimings(0.0, plan.n_frames, (), np.empty((0, len(BLOCK_COLUMNS))), reduction.restored)
    return PassResult(reduction.partials(), timings, f"{plan.explain()}\nnote: all of it came from the checkpoint")


def _checked_outputs(
    analyses: Sequence[Computation],
    checkpoint: CheckpointChoice,
    interval: float | None,
    out: str | os.PathLike[str] | None,
    overwrite: bool,
) -> Checkpoint | None:
    """The checkpoint; refuses outputs that cannot be written. Imports are here, because most runs have neither."""
    if (checkpoint, interval, out) == (None, None, None):
        return None
    from kinema.execution.checkpoint import Checkpoint
    from kinema.execution.persistence import check_outputs

    saved = Checkpoint.from_choice(checkpoint, interval)
    check_outputs(analyses, saved, out, overwrite=overwrite)
    return saved


def _persistence(
    analyses: Sequence[Computation],
    frames: FrameSelection,
    saved: Checkpoint | None,
    out: str | os.PathLike[str] | None,
) -> Persistence | None:
    """The checkpoint and the file of results, or None."""
    if saved is None and out is None:
        return None
    from kinema.execution.persistence import Persistence

    return Persistence(analyses, frames, saved, out)


def check_analyses(analyses: Sequence[A]) -> None:
    """Raises ArgumentError for analyses that cannot run together."""
    if isinstance(analyses, Computation) or not isinstance(analyses, Sequence):
        raise ArgumentError("run takes a list of analyses: kinema.run([a, b])")
    if not analyses:
        raise ArgumentError("run was given no analyses; name at least one")
    for analysis in analyses:
        if not isinstance(analysis, Computation):
            raise ArgumentError(f"run takes analyses, found {type(analysis).__name__}")
    if len({id(analysis) for analysis in analyses}) != len(analyses):
        raise ArgumentError("run was given one analysis twice; make a second one")
    first = analyses[0].trajectory
    for analysis in analyses[1:]:
        if not first.same_frames(analysis.trajectory):
            raise ArgumentError("analyses that run together need one trajectory, sliced alike; run these one by one")
