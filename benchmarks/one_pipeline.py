"""One measurement of the reading pipeline: `python one_pipeline.py NAME ARGUMENTS` prints a line of JSON.

It chooses no cases and asserts nothing; `pipeline.py` does the former. Times are the best of `tries`, by turns.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema import _core
from kinema.model.selection.frames import FrameSelection
from kinema.testing.recording import open_recorded

_READ = 4096
_OF = 100_000
# shorter files are repeated: of few frames leaves of a large partial cannot be long
_MERGED_FRAMES = 1000
_MERGES = 8


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work()
    return clock() - began


def shuffled(path: str, tries: str) -> dict[str, Any]:
    """Wall time of reading frames in their order and in any, into one array, on one core."""
    trajectory = kn.open(path)
    trajectory.scan()
    n_frames = min(_OF, len(trajectory))
    frames = np.random.default_rng(1).permutation(n_frames)[:_READ]
    orders = {"sorted": np.sort(frames), "shuffled": frames}
    out = np.zeros((len(frames), trajectory.n_atoms, 3), np.float32)
    best = dict.fromkeys(orders, float("inf"))
    for _ in range(int(tries)):
        for name, order in orders.items():
            taken = _seconds(lambda order=order: trajectory.read(order, out=out, workers=1))  # type: ignore[misc]
            best[name] = min(best[name], taken)
    return {"frames": n_frames, "read": len(frames), **best}


def blocks(path: str, tries: str) -> dict[str, Any]:
    """Wall time of all blocks, read by one core; of a consumer of as much work on another; of both together."""
    trajectory = kn.open(path)
    trajectory.scan()
    data = np.linspace(0, 1, 4096)  # which the first cache holds

    def consume(rounds: int) -> None:
        for _ in range(rounds):
            np.sin(data)

    def loop(rounds: int) -> None:
        for _ in trajectory.blocks(workers=1):
            consume(rounds)

    number = sum(1 for _ in trajectory.blocks(workers=1))
    reading = min(_seconds(lambda: loop(0)) for _ in range(int(tries)))
    one = min(_seconds(lambda: consume(1000)) for _ in range(5)) / 1000
    rounds = max(1, round(reading / number / one))
    best = {"reading alone": reading, "consumer alone": float("inf"), "both": float("inf")}
    parts = {
        "reading alone": lambda: loop(0),
        "consumer alone": lambda: [consume(rounds) for _ in range(number)],
        "both": lambda: loop(rounds),
    }
    for _ in range(int(tries)):
        for name, work in parts.items():
            best[name] = min(best[name], _seconds(work))
    return {"blocks": number, **best}


def loops(path: str, frames: str) -> dict[str, Any]:
    """Wall time of MDAnalysis' loop over frames with both readers."""
    from interop import loops as loops_of_both

    ours, theirs = loops_of_both(Path(path), int(frames))
    return {"kinema": ours, "mdanalysis": theirs}


def merging(path: str, tries: str) -> dict[str, Any]:
    """CPU time of a run of RMSF of all atoms on one core, its leaves, and CPU time of merging the partials of two."""
    there = len(kn.open(path))
    trajectory = kn.open([path] * -(-_MERGED_FRAMES // there), overlap="all")
    trajectory.scan()
    frames = FrameSelection(range(_MERGED_FRAMES))
    one = next(kn.analysis.RMSF(trajectory)._passes(frames))
    jobs = [(one.kernel, tuple(one.transforms))]
    plan = _core.Plan(trajectory.core, frames, jobs, workers=1)

    def partial(leaf: int) -> bytes:
        ((_, _, (found,)),), _ = _core.run_leaves(trajectory.core, plan, jobs, leaf, leaf + 1)
        return found.to_bytes()

    left, right = partial(0), partial(1)

    def merge() -> float:
        pairs = [(one.kernel.from_bytes(left), one.kernel.from_bytes(right)) for _ in range(_MERGES)]
        return _seconds(lambda: [first.merge(second) for first, second in pairs], time.process_time) / _MERGES

    def run() -> float:
        work = lambda: _core.run_leaves(trajectory.core, plan, jobs, 0, plan.n_leaves)  # noqa: E731
        return _seconds(work, time.process_time)

    best = {"merge": float("inf"), "run": float("inf")}
    for _ in range(int(tries)):
        best = {"merge": min(best["merge"], merge()), "run": min(best["run"], run())}
    return {"frames": len(frames), "leaves": plan.n_leaves, **best}


def opens(folder: str) -> dict[str, Any]:
    """How often files of a chain are opened: to find the frames, then by runs and reads of all of them."""
    trajectory = open_recorded(sorted(Path(folder).iterdir()), overlap="all")
    trajectory.scan()
    in_order = np.arange(len(trajectory))
    shuffled = np.random.default_rng(1).permutation(in_order)

    def opened() -> int:
        return len(trajectory.core.take_opens())

    found = {"opening and finding frames": opened()}
    for workers in (1, 2):
        kn.analysis.RMSD(trajectory).run(workers=workers, progress=False)
        found[f"a run, -j {workers}"] = opened()
        for order, frames in (("sorted", in_order), ("shuffled", shuffled)):
            trajectory.read(frames, workers=workers)
            found[f"a {order} read, -j {workers}"] = opened()
    return found


def openings(path: str, tries: str) -> dict[str, Any]:
    """Wall time of opening a file with nothing stored, once more with what that has stored, and with neither."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        kn.open(path, stored=False)  # what is imported, and the file's pages
        maps = Path(folder) / "kinema/chunk-maps"
        best = dict.fromkeys(("--no-stored", "first", "second", "plain read"), float("inf"))

        def taken(name: str, work: Callable[[], object]) -> None:
            best[name] = min(best[name], _seconds(work))

        for _ in range(int(tries)):
            shutil.rmtree(maps, ignore_errors=True)
            taken("--no-stored", lambda: kn.open(path, stored=False))
            taken("first", lambda: kn.open(path))
            taken("second", lambda: kn.open(path))
            taken("plain read", lambda: [one.read_bytes() for one in maps.iterdir()])
    return best


def leaves(path: str, *lengths: str) -> dict[str, Any]:
    """Leaves of RMSD by the number of frames."""
    trajectory = kn.open(path)
    trajectory.scan()
    found = {}
    for length in lengths:
        frames = FrameSelection(range(int(length)))
        one = next(kn.analysis.RMSD(trajectory)._passes(frames))
        found[length] = _core.Plan(trajectory.core, frames, [(one.kernel, tuple(one.transforms))]).n_leaves
    return found


_MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "shuffled": shuffled,
    "blocks": blocks,
    "loops": loops,
    "merging": merging,
    "opens": opens,
    "openings": openings,
    "leaves": leaves,
}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(_MEASUREMENTS[sys.argv[1]](*sys.argv[2:])))
