"""`Backend`: a backend of MDAnalysis that computes the parts of an analysis on one of Kinema's runners.

In each worker, MDAnalysis' own code reads the frames and computes.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from MDAnalysis.analysis.backends import BackendBase
from numpy.typing import NDArray

from kinema.base.notes import emit
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.timings import format_seconds
from kinema.interop.mdanalysis.kept_universes import KeptUniverses, loaded
from kinema.runners import Runner, choose_runner
from kinema.runners.local.processes import ProcessesRunner


class Backend(BackendBase):  # type: ignore[misc]
    """For `AnalysisBase.run(backend=Backend("dask"), unsupported_backend=True, n_parts=...)`.

    It runs any analysis that MDAnalysis can split on processes, a Dask cluster or the ranks of an MPI program, with a
    progress bar, which MDAnalysis itself has only for its serial backend. Workers send back frames, times and results
    of their part, not the Universe.

    Parameters
    ----------
    runner : {"serial", "processes", "dask"} or a runner
        As in Kinema's own `run`; MPI as an object that leads, within its block. Threads are refused: all of them would
        move the one reader of the Universe.
    n_workers : int, optional
        Parts that are computed at a time; by default as many as the runner has. `run` makes as many parts unless it is
        given `n_parts`: several parts for each worker even out their speeds, and move the bar more often.
    progress : bool or function, optional
        True, None: a bar of frames if stderr is a terminal, lines from MPI; a function is called with (done, total).

    Raises
    ------
    ArgumentError
        If the runner cannot call functions of others. Exceptions of the analysis propagate unchanged, with notes that
        name the part, frames and worker.

    Examples
    --------
    >>> rmsd = MDAnalysis.analysis.rms.RMSD(universe).run(
    ...     backend=Backend("processes"), unsupported_backend=True, n_parts=16
    ... )

    A new backend begins at once to import MDAnalysis for its workers: make it before you load the Universe, and reuse
    it. If there are more than two parts for each worker, this process computes parts itself until workers are ready.
    Processes, with their copy of the Universe, stay for the next analysis until the backend is no longer used; if the
    runner was given as an object, its processes stay until the end of a block. If starting takes longer than the work,
    this is noted once.

    >>> with Backend("processes") as backend:
    ...     for group in groups:
    ...         rmsd = RMSD(group).run(backend=backend, unsupported_backend=True)
    """

    def __init__(
        self, runner: str | Runner = "processes", n_workers: int | None = None, progress: ProgressChoice = None
    ) -> None:
        self.runner = choose_runner(runner)
        # modules of MDAnalysis imported here so far: workers need the same
        self.runner.preload([name for name in tuple(sys.modules) if name.split(".")[0] == "MDAnalysis"])
        self._progress = progress
        self._session = ExitStack()
        # own processes stay from run to run; they end with this object or with the interpreter
        self._kept = ExitStack() if isinstance(runner, str) and isinstance(self.runner, ProcessesRunner) else None
        self._universes: KeptUniverses | None = None
        self._noted = False
        if self._kept is not None:
            weakref.finalize(self, self._kept.close)
        super().__init__(n_workers=self.runner.concurrency(n_workers))

    def __enter__(self) -> Self:
        """Workers that start within the block stay until its end."""
        self._session.enter_context(self.runner.session())
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._end_kept()

    def _keep(self) -> None:
        """Keeps workers after the next call, as long as they equal those that would be started then."""
        if self._kept is None:
            return
        assert isinstance(self.runner, ProcessesRunner)
        if not self.runner.fits():
            self._end_kept()
        if self._universes is None:
            self._universes = self._kept.enter_context(closing(KeptUniverses()))
            self._kept.enter_context(self.runner.session())

    def _end_kept(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._universes = None

    def apply(self, func: Callable[[NDArray[np.int64]], Any], computations: Sequence[NDArray[np.int64]]) -> list[Any]:
        """Called by MDAnalysis: `func` of each part, an array of (frames, 2) positions and numbers."""
        sizes = [len(part) for part in computations]
        began = time.perf_counter()
        self._keep()
        with reporting(self._progress, "MDAnalysis", sum(sizes), launched=self.runner.launched) as report:
            done = 0

            def count(number: int) -> None:
                nonlocal done
                done += sizes[number]
                if report is not None:
                    report(done, sum(sizes))

            function = _PartFunction(func, self._universes)
            parts = self.runner.map(function, list(computations), workers=self.n_workers, progress=count)
        note = starting_note(time.perf_counter() - began, [part.seconds for part in parts], self.n_workers)
        if note is not None and not self._noted and self.runner.name != "serial":
            self._noted = True
            emit([note])
        return parts


def starting_note(whole: float, parts: Sequence[float], workers: int) -> str | None:
    """The note on a call of `whole` seconds, if starting workers took longer than the work of all its parts."""
    work = sum(parts)
    starting = whole - work / max(1, min(workers, len(parts)))
    if not parts or starting <= work:
        return None
    return (
        f"starting workers and sending them the Universe took {format_seconds(starting)}, the work of all parts "
        f"{format_seconds(work)}: the serial backend is faster; workers that stay for the next run need not start again"
    )


@dataclass(frozen=True, eq=False)
class _PartResults:
    """Attributes of an analysis that has computed its part, for MDAnalysis to merge."""

    frames: NDArray[np.int64]
    times: NDArray[np.float64]
    results: Any
    seconds: float


class _PartFunction:
    """MDAnalysis' function with a smaller result, and errors that name its frames."""

    # as in MDAnalysis' own serial backend
    may_run_in_caller = True

    def __init__(self, function: Callable[[NDArray[np.int64]], Any], universes: KeptUniverses | None = None) -> None:
        self.function = function
        self._universes = universes

    def __reduce__(self) -> tuple[Any, ...]:
        # workers that stay keep Universes; other workers are sent them with the function
        kept = self._universes
        return (_PartFunction, (self.function,)) if kept is None else (_part_of, (kept.serialized(self.function),))

    def __call__(self, frames: NDArray[np.int64]) -> _PartResults:
        """Computes the part."""
        began = time.perf_counter()
        try:
            analysis = self.function(frames)
        except Exception as error:
            if len(frames):
                error.add_note(f"in {self.describe(frames)}")
            raise
        return _PartResults(analysis.frames, analysis.times, analysis.results, time.perf_counter() - began)

    @staticmethod
    def describe(frames: NDArray[np.int64]) -> str:
        """See `Runner.map`."""
        return f"frames {frames[0, 1]} to {frames[-1, 1]}" if len(frames) else "no frames"


def _part_of(packed: bytes) -> _PartFunction:
    return _PartFunction(loaded(packed))
