"""`run`: one or several analyses over the same frames, with one pass for all of them in every round.

It reads no frame itself; a runner does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kinema.analysis.base import Analysis, Results, Round, Rounds
from kinema.errors import ArgumentError
from kinema.frames import FrameChoice, ResolvedFrames, count
from kinema.progress import ProgressChoice, reporting
from kinema.resources import parse_memory
from kinema.runners import Outcome, Runner, Timings, choose_runner

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
) -> list[A]:
    """Runs analyses of one trajectory together and returns them; frames are read and decoded once for all.

    The arguments are those of `Analysis.run`. Each result is the same to the bit as that of the analysis run alone.
    All analyses get the same `timings`. Where an error is raised no analysis changes.

    Raises
    ------
    ArgumentError
        Also for no analysis, one given twice, and analyses of different trajectories or views.
    """
    chosen_runner = choose_runner(runner)
    _check_together(analyses)
    chosen = analyses[0].trajectory.choose(start, stop, step, frames)
    limit = 0 if memory is None else parse_memory(memory)
    shown = verbose if progress is None else progress
    results, outcomes = _all_rounds(analyses, chosen, chosen_runner, workers, limit, shown)
    timings = Timings(tuple(outcome.timings for outcome in outcomes))
    for analysis, found in zip(analyses, results, strict=True):
        analysis.results = found
        analysis.timings = timings
        analysis.plan = "\n".join(outcome.plan for outcome in outcomes)
        analysis._frames = chosen
    return list(analyses)


def _all_rounds(
    analyses: Sequence[A],
    frames: ResolvedFrames,
    runner: Runner,
    workers: int | None,
    memory: int,
    progress: ProgressChoice,
) -> tuple[list[Results], list[Outcome]]:
    core = analyses[0].trajectory.core
    names = ", ".join(type(analysis).__name__ for analysis in analyses)
    n_rounds = max(analysis.n_rounds for analysis in analyses)
    generators: list[Rounds] = [analysis._rounds(frames) for analysis in analyses]
    waiting: dict[int, Round] = {number: next(generator) for number, generator in enumerate(generators)}
    results: dict[int, Results] = {}
    outcomes: list[Outcome] = []
    while waiting:
        jobs = [(one.kernel, tuple(one.transforms)) for one in waiting.values()]
        said = f"{names}, round {len(outcomes) + 1} of {n_rounds}" if n_rounds > 1 else names
        with reporting(progress, said, count(frames)) as report:
            outcome = runner.map_reduce(core, frames, jobs, workers=workers, memory=memory, progress=report)
        outcomes.append(outcome)
        following: dict[int, Round] = {}
        for number, partial in zip(waiting, outcome.partials, strict=True):
            try:
                following[number] = generators[number].send(partial.finish())
            except StopIteration as end:
                results[number] = end.value
        waiting = following
    return [results[number] for number in range(len(analyses))], outcomes


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
