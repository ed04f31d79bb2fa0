"""`run`: one or several analyses over the same frames, with one pass for all of them in every round.

It reads no frame itself; a runner does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar, Unpack

import numpy as np

from kinema import _core
from kinema.access import Access, check_access, check_parallel_hdf5
from kinema.analysis.base import Analysis, CheckpointChoice, Results, ResultsElsewhere, Round, Rounds
from kinema.errors import ArgumentError
from kinema.frames import FrameChoice, ResolvedFrames, count
from kinema.progress import ProgressChoice, Report, reporting
from kinema.resources import parse_memory
from kinema.runners import CalledByAll, Gathering, Outcome, RoundTimings, Runner, RunnerOptions, Timings, choose_runner
from kinema.runners.base import RoundRequest, SpreadsRows, session
from kinema.runners.timings import BLOCK_COLUMNS

if TYPE_CHECKING:
    from kinema.analysis.keeping import Keeping

__all__ = ["run"]

A = TypeVar("A", bound=Analysis)


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
    access: str = "direct",
    **options: Unpack[RunnerOptions],
) -> list[A]:
    """Runs analyses of one trajectory together and returns them; frames are read and decoded once for all.

    The arguments are those of `Analysis.run`. Each result is the same to the bit as that of the analysis run alone.
    All analyses get the same `timings`. Where an error is raised no analysis changes.

    Raises
    ------
    ArgumentError
        Also for no analysis, one given twice, and analyses of different trajectories or views.
    """
    began = time.perf_counter()
    chosen_runner = choose_runner(runner, **options)
    chosen_access = check_access(access)
    _check_together(analyses)
    check_parallel_hdf5(chosen_access, chosen_runner.name, analyses[0].trajectory.format)

    def whole() -> _Finished:
        # counted as opening, whoever asks for it first
        scanned_from = time.perf_counter()
        search = chosen_runner.find_frames if isinstance(chosen_runner, CalledByAll) else None
        analyses[0].trajectory.scan(search=search)
        scanning = time.perf_counter() - scanned_from
        chosen = analyses[0].trajectory.choose(start, stop, step, frames)
        limit = 0 if memory is None else parse_memory(memory)
        shown = verbose if progress is None else progress
        keeping = _keeping(analyses, chosen, checkpoint, checkpoint_interval, out)
        rounds = _Rounds(analyses, chosen, chosen_runner, workers, limit, shown, chosen_access)
        with session(chosen_runner):
            if keeping is None:
                results, outcomes = rounds.all(None)
            else:
                with keeping.watching():
                    results, outcomes = rounds.all(keeping)
                    keeping.finish()
        timings = Timings(
            tuple(outcome.timings for outcome in outcomes),
            whole=time.perf_counter() - began - scanning,
            opening=dict(analyses[0].trajectory.opening),
            runner=chosen_runner.name,
            access=chosen_access,
            gather=chosen_runner.gather if isinstance(chosen_runner, SpreadsRows) else "",
        )
        return _Finished(chosen, results, timings, "\n".join(outcome.plan for outcome in outcomes))

    # a runner that many processes call decides in which of them the run is led
    if isinstance(chosen_runner, SpreadsRows):
        finished = chosen_runner.run_together(whole)
    else:
        finished = chosen_runner.together(whole) if isinstance(chosen_runner, CalledByAll) else whole()
    for number, analysis in enumerate(analyses):
        if finished is None:
            # nor what an earlier run has left
            analysis.results, analysis.timings = ResultsElsewhere(), Timings(())
            analysis.plan, analysis._frames = "", None
            continue
        analysis.results = finished.results[number]
        analysis.timings = finished.timings
        analysis.plan = finished.plan
        analysis._frames = finished.frames
    return list(analyses)


@dataclass(frozen=True)
class _Finished:
    """What a run gives to its analyses."""

    frames: ResolvedFrames
    results: list[Results]
    timings: Timings
    plan: str


@dataclass
class _Rounds:
    """All rounds of a run."""

    analyses: Sequence[Analysis]
    frames: ResolvedFrames
    runner: Runner
    workers: int | None
    memory: int
    progress: ProgressChoice
    access: Access
    run: object = field(default_factory=object)

    def all(self, keeping: Keeping | None) -> tuple[list[Results], list[Outcome]]:
        """The results of each analysis, and the outcome of each round."""
        n_rounds = max(analysis.n_rounds for analysis in self.analyses)
        generators: list[Rounds] = [analysis._rounds(self.frames) for analysis in self.analyses]
        waiting: dict[int, Round] = {number: next(generator) for number, generator in enumerate(generators)}
        results: dict[int, Results] = {}
        outcomes: list[Outcome] = []
        while waiting:
            outcome = self._round(len(outcomes), n_rounds, waiting, keeping)
            outcomes.append(outcome)
            if keeping is None:
                found = outcome.found()
            else:
                found = keeping.end_round(outcome.partials, last=len(outcomes) >= n_rounds)
            following: dict[int, Round] = {}
            for number, one in zip(waiting, found, strict=True):
                try:
                    following[number] = generators[number].send(one)
                except StopIteration as end:
                    results[number] = end.value
            waiting = following
        return [results[number] for number in range(len(self.analyses))], outcomes

    def _round(self, number: int, n_rounds: int, waiting: dict[int, Round], keeping: Keeping | None) -> Outcome:
        names = ", ".join(type(analysis).__name__ for analysis in self.analyses)
        said = f"{names}, round {number + 1} of {n_rounds}" if n_rounds > 1 else names
        jobs = [(one.kernel, tuple(one.transforms)) for one in waiting.values()]
        core = self.analyses[0].trajectory.core
        launched = isinstance(self.runner, CalledByAll)
        with reporting(self.progress, said, count(self.frames), launched=launched) as report:
            request = RoundRequest(
                core,
                self.frames,
                jobs,
                workers=self.workers,
                memory=self.memory,
                progress=report,
                access=self.access,
                rows=[one.rows for one in waiting.values()],
                run=self.run,
            )
            if keeping is None:
                return self.runner.map_reduce(request)
            # how frames come to the kernels is the runner's to say: leaves are the same for all ways
            plan = request.plan(memory=self.memory, workers=1, access="direct")
            gathering = keeping.begin_round(number, [self.analyses[at] for at in waiting], jobs, plan)
            if not gathering.missing:
                return _restored(plan, gathering, report)
            try:
                return self.runner.map_reduce(replace(request, gathering=gathering))
            except BaseException as error:
                keeping.save_after(error, gathering)
                raise


def _restored(plan: _core.Plan, gathering: Gathering, report: Report | None) -> Outcome:
    """A round of which everything was done earlier."""
    if report is not None:
        report(plan.n_frames, plan.n_frames)
    timings = RoundTimings(0.0, plan.n_frames, (), np.empty((0, len(BLOCK_COLUMNS))), gathering.restored)
    return Outcome(gathering.partials(), timings, f"{plan.explain()}\nnote: all of it came from the checkpoint")


def _keeping(
    analyses: Sequence[Analysis],
    frames: ResolvedFrames,
    checkpoint: CheckpointChoice,
    interval: float | None,
    out: str | os.PathLike[str] | None,
) -> Keeping | None:
    """What is to be kept; imported here, as most runs keep nothing."""
    if checkpoint is None and interval is not None:
        raise ArgumentError("checkpoint_interval says how often to save; name the file with checkpoint=")
    if checkpoint is None and out is None:
        return None
    from kinema.analysis.keeping import Keeping
    from kinema.checkpoint import Checkpoint

    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    if checkpoint is not None and interval is not None:
        checkpoint = replace(checkpoint, interval=interval)
    return Keeping(analyses, frames, checkpoint, out)


def _check_together(analyses: Sequence[A]) -> None:
    if isinstance(analyses, Analysis) or not isinstance(analyses, Sequence):
        raise ArgumentError("run takes a list of analyses: kinema.run([a, b])")
    if not analyses:
        raise ArgumentError("run was given no analyses; name at least one")
    for analysis in analyses:
        if not isinstance(analysis, Analysis):
            raise ArgumentError(f"run takes analyses, found {type(analysis).__name__}")
    if len({id(analysis) for analysis in analyses}) != len(analyses):
        raise ArgumentError("run was given one analysis twice; make a second one")
    first = analyses[0].trajectory
    for analysis in analyses[1:]:
        if not first.same_frames(analysis.trajectory):
            raise ArgumentError("analyses that run together need one trajectory, sliced alike; run these one by one")
