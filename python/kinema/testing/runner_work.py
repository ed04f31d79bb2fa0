"""Work for tests of runners: analyses, functions of a frame, a kernel that is slow to be sent."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinema as kn
from kinema import _core
from kinema.analysis import Analysis
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import Quantity
from kinema.analysis.lists import ListAnalysis, RowKey
from kinema.base.progress import Report
from kinema.execution.checkpoint.file import load
from kinema.runners import Runner
from kinema.storage.tables import Table
from kinema.testing.synthetic import random_walk
from kinema.testing.writers import write_dcd

N_FRAMES = 300
N_ATOMS = 30
ANALYSES = ("rmsd", "rmsf", "rmsf on the average", "radius of gyration")
# counted exactly; any number of rows for each frame
OF_PAIRS = ("histogram of distances", "pairs that are near")
# names in `kept_analyses`
KEPT = ("slow corner", *ANALYSES, *OF_PAIRS)


class Stop(Exception):
    """Raised by a progress function that wants the run to end."""


def corner(frame: Any) -> Any:
    """One atom."""
    return frame.positions[0].astype(np.float64)


def slow_corner(frame: Any) -> Any:
    """Takes its time, so that a run can be stopped meanwhile."""
    time.sleep(0.002)
    return corner(frame)


def waiting_for(go: Path) -> Callable[[Any], float]:
    """A function of a frame that waits, in the last quarter of the frames, until a file exists."""

    def waiting(frame: Any) -> float:
        until = time.monotonic() + 120
        while frame.frame >= N_FRAMES * 3 // 4 and not go.exists():
            if time.monotonic() > until:
                raise TimeoutError("no progress was reported or kept of the frames before")
            time.sleep(0.01)
        return 1.0

    return waiting


def save_at_work(runner: Runner, folder: Path, workers: int | None = None) -> None:
    """A run whose last quarter waits until a checkpoint has some of the frames before."""
    go, path = folder / "go", folder / "run.ckpt"

    def look(_done: int, _total: int) -> None:
        content = load(str(path))
        if content is not None and content.passes[0].nodes:
            go.touch()

    analysis = kn.analysis.from_function(waiting_for(go), walk_in(folder))
    analysis.run(runner=runner, workers=workers, checkpoint=path, checkpoint_interval=0, progress=look)
    assert analysis.timings.frames == N_FRAMES


def with_another_thread() -> Callable[[Any], float]:
    """A function of a frame that waits until it was called from two threads of its process."""
    seen: set[int] = set()

    def alone_never(_frame: Any) -> float:
        seen.add(threading.get_ident())
        until = time.monotonic() + 120
        while len(seen) < 2:
            if time.monotonic() > until:
                raise TimeoutError("there is one thread only")
            time.sleep(0.01)
        return 1.0

    return alone_never


class Large:
    """A function whose values are 500,000 bytes; it leaves a file for each call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, number: int) -> bytes:
        """500,000 times the byte of that number."""
        (self._folder / str(number)).touch()
        return bytes([number]) * 500_000


def callers_of(runner: Runner) -> int | None:
    """Number of workers that call functions; None if the runner refuses to."""
    try:
        return runner.concurrency(None)
    except kn.ArgumentError:
        return None


class Sealed:
    """A count that takes its time to become bytes, and to be read from them: a message of known length.

    `SECONDS` each way.
    """

    SECONDS = 0.05

    def __init__(self, frames: int = 0) -> None:
        self.frames = frames

    def __getstate__(self) -> dict[str, int]:
        time.sleep(self.SECONDS)
        return {"frames": self.frames}

    def __setstate__(self, state: dict[str, int]) -> None:
        time.sleep(self.SECONDS)
        self.frames = state["frames"]


class SealedCount(kn.analysis.PythonKernel):
    """Counts frames in an object that is slow to send; unpickling the kernel takes as long."""

    def __init__(self) -> None:
        self.sent = 0

    def __setstate__(self, state: dict[str, int]) -> None:
        time.sleep(Sealed.SECONDS)
        self.__dict__ |= state

    def empty(self) -> Sealed:
        """The count before the first frame."""
        return Sealed()

    def accumulate(self, partial: Sealed, block: kn.Block) -> Sealed:
        """Adds the frames of a block."""
        return Sealed(partial.frames + len(block))

    def merge(self, left: Sealed, right: Sealed) -> Sealed:
        """Adds the counts of two runs of frames."""
        return Sealed(left.frames + right.frames)

    def finish(self, partial: Sealed) -> dict[str, Any]:
        """The number of frames."""
        return {"frames": np.array(partial.frames)}


def neighbours() -> NDArray[np.uint32]:
    """(n, 2) pairs of neighbours along the chain, and one atom further."""
    atoms = np.arange(N_ATOMS - 2, dtype=np.uint32)
    return np.concatenate([np.column_stack([atoms, atoms + further]) for further in (1, 2)]).astype(np.uint32)


class HistogramOfDistances(Analysis):
    """Distances of `neighbours`, counted."""

    def __init__(self, trajectory: kn.Trajectory) -> None:
        super().__init__(trajectory, trajectory.select(None), {})

    def _passes(self, frames: kn.FrameSelection) -> Passes:
        arguments = {"pairs": neighbours(), "most": 12.0, "bins": 5_000}
        found = yield Pass(_core.Kernel("distance_histogram", self.trajectory.n_atoms, **arguments))
        return Results(**found)

    def _table(self) -> Table:
        return Table("Distances", ())


class NearPairs(ListAnalysis):
    """Which of given pairs are near each other; `neighbours` by default.

    After `run`: results.i, results.j, results.distance, (rows,); `ListAnalysis` has the others.
    """

    command_name = "near-pairs"
    summary = "Given pairs that are near each other."
    row_name = "near pair"
    keys = (RowKey("i"), RowKey("j"))
    quantities = (Quantity("distance", "angstrom", "distance"),)
    reference = "tests"

    def __init__(
        self, trajectory: kn.Trajectory, pairs: NDArray[np.integer] | None = None, cutoff: float = 8.0
    ) -> None:
        super().__init__(trajectory, None, cutoff=cutoff)
        self._pairs = neighbours() if pairs is None else np.asarray(pairs, np.uint32)
        self._cutoff = cutoff

    def _kernel(self) -> _core.Kernel:
        return _core.Kernel("close_pairs", self.trajectory.n_atoms, pairs=self._pairs, cutoff=self._cutoff)

    def _kernel_columns(self) -> list[tuple[str, str]]:
        return [("pair", ""), ("distance", "angstrom")]

    def _rows_of(self, found: Results) -> dict[str, Any]:
        i, j = self._pairs[np.asarray(found.pair)].T
        return {"i": i, "j": j, "distance": found.distance}


def slow_analysis(traj: kn.Trajectory) -> Analysis:
    return kn.analysis.from_function(slow_corner, traj)


def kept_analyses(traj: kn.Trajectory) -> list[Analysis]:
    return [analysis_named(traj, which) for which in KEPT]


def stopping_after(frames: int) -> Report:
    """A progress function that ends the run when `frames` frames are done."""

    def stop(done: int, _total: int) -> None:
        if done >= frames:
            raise Stop

    return stop


def walk_in(folder: Path) -> kn.Trajectory:
    path = folder / "walk.dcd"
    if not path.exists():
        write_dcd(path, random_walk(N_FRAMES, N_ATOMS))
    return kn.open(path)


def noting_progress(seen: list[tuple[int, int]]) -> Report:
    """A progress function that records its calls."""
    return lambda done, total: seen.append((done, total))


@cache
def alone(which: str) -> Analysis:
    """The analysis of that name on `walk_in`'s trajectory, on the serial runner; computed once in each process."""
    with tempfile.TemporaryDirectory() as folder:
        return analysis_named(walk_in(Path(folder)), which).run(runner="serial")


def analysis_named(traj: kn.Trajectory, which: str) -> Analysis:
    atoms = list(range(2, N_ATOMS, 2))
    match which:
        case "rmsd":
            return kn.analysis.RMSD(traj, select=atoms, groups=[[0, 1, 5], [4]])
        case "rmsf":
            return kn.analysis.RMSF(traj, select=atoms)
        case "rmsf on the average":
            return kn.analysis.RMSF(traj, select=atoms, align="average")
        case "radius of gyration":
            return kn.analysis.RadiusOfGyration(traj, select=atoms, weights=None, axes=True)
        case "histogram of distances":
            return HistogramOfDistances(traj)
        case "pairs that are near":
            return NearPairs(traj)
        case "corner":
            return kn.analysis.from_function(corner, traj)
        case "slow corner":
            return slow_analysis(traj)
    raise ValueError(which)


def assert_same(found: Analysis, expected: Analysis) -> None:
    assert found.results.keys() == expected.results.keys()
    for name in expected.results:
        one, other = found.results[name], expected.results[name]
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            assert one.tobytes() == other.tobytes(), name
