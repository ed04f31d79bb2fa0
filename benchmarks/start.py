"""Start-up times: commands beside `import numpy`, and MDAnalysis' analyses on our processes beside its own pool.

Part of `make bench`; alone: `python benchmarks/start.py [--quick]`. Wall time, the least of several, all programs in
turn. The first command with a topology imports MDAnalysis, the second finds atoms and selection in the cache folder. It
asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cases import Goal
from kinema.demo import run_json
from kinema.testing import write_dcd

COMMAND_GOALS = {
    "without topology": Goal(2.0, at_least=False, source="step 15"),
    "with topology, second": Goal(3.5, at_least=False, source="step 15"),
}
POOL_GOAL = Goal(1.0, at_least=True, source="step 15")
# of 214 atoms: about a second on two workers of MDAnalysis' own pool
POOL_FRAMES = 40_000


def start(bench: Any) -> None:
    """All rows."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        commands(bench, Path(folder))
        pools(bench, Path(folder))


def commands(bench: Any, folder: Path) -> None:
    """`kinema rmsd` of 98 frames; times of `import numpy` are taken in between."""
    from MDAnalysisTests.datafiles import DCD, PSF

    trajectory, topology = Path(shutil.copy(DCD, folder)), Path(shutil.copy(PSF, folder))
    # what was changed a moment ago is not kept
    time.sleep(0.1)
    kinema = [sys.executable, "-m", "kinema", "rmsd", str(trajectory), "-q"]
    with_topology = [*kinema, "-s", str(topology), "--select", "name CA"]
    programs = {
        "numpy": [sys.executable, "-c", "import numpy"],
        "without topology": kinema,
        "with topology, first": [*with_topology, "--no-stored"],
        "with topology, second": with_topology,
    }
    # modules are compiled once, as in an installed package
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    settings["XDG_CACHE_HOME"] = str(folder / "cache")

    def seconds(words: list[str]) -> float:
        began = time.perf_counter()
        subprocess.run(words, check=True, env=settings, capture_output=True)
        return time.perf_counter() - began

    for words in programs.values():
        seconds(words)
    times = {name: float("inf") for name in programs}
    for _ in range(2 * bench.tries):
        times = {name: min(times[name], seconds(words)) for name, words in programs.items()}
    for name, found in times.items():
        bench.record("start of kinema rmsd", "dcd", name, figure=found, unit="s")
        if name != "numpy":
            _ratio(bench, f"start, {name} / import numpy", found / times["numpy"], COMMAND_GOALS.get(name))


def pools(bench: Any, folder: Path) -> None:
    """MDAnalysis' RMSD on its own pool, and on ours: started in the call, made before the Universe, and used again."""
    rng = np.random.default_rng(0)
    trajectory = folder / "chain.dcd"
    frames = POOL_FRAMES
    write_dcd(trajectory, (10 * rng.normal(size=(1, 214, 3)) + rng.normal(size=(frames, 214, 3))).astype("f4"))
    times: dict[str, float] = {}
    for _ in range(bench.tries):
        for name in ("own", "late", "early", "late, KinemaReader", "early, KinemaReader"):
            for what, found in run_json([sys.executable, __file__, "--pool", name, str(trajectory)])["times"].items():
                times[what] = min(times.get(what, float("inf")), found)
    for name, found in times.items():
        bench.record("MDAnalysis' RMSD on two workers", "dcd", name, figure=found, unit="s")
        if name != "own":
            _ratio(bench, f"MDAnalysis' own pool / {name}", times["own"] / found, POOL_GOAL)


def _ratio(bench: Any, case: str, figure: float, goal: Goal | None) -> None:
    if goal is None:
        bench.record(case, "dcd", "kinema", figure=figure, unit="ratio")
    else:
        bench.record_beside_goal(case, "dcd", "kinema", figure, goal)


def pool(name: str, path: str) -> dict[str, float]:
    """Seconds of runs in this process: on MDAnalysis' own pool, or on ours, the first and the second.

    "early": made before the program reads a topology; "late": in the call of the first run.
    """
    import MDAnalysis
    from MDAnalysis.analysis.rms import RMSD
    from MDAnalysisTests.datafiles import PSF

    from kinema.interop.mdanalysis import Backend, KinemaReader

    when, _, reader = name.partition(", ")
    backend = Backend("processes", 2, progress=False) if when == "early" else None
    # what a script does before its analysis
    MDAnalysis.Universe(PSF).select_atoms("name CA")
    universe = MDAnalysis.Universe.empty(214, trajectory=False)
    universe.add_TopologyAttr("masses", np.ones(214))
    universe.load_new(path, **({"format": KinemaReader, "stored": False} if reader else {}))

    def seconds(run: Callable[[], object]) -> float:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    def ours() -> None:
        nonlocal backend
        backend = backend or Backend("processes", 2, progress=False)
        RMSD(universe.atoms).run(backend=backend, unsupported_backend=True, n_parts=16)

    if name == "own":
        return {name: seconds(lambda: RMSD(universe.atoms).run(backend="multiprocessing", n_workers=2))}
    return {name: seconds(ours), f"again{name.removeprefix(when)}": seconds(ours)}


class _Alone:
    """Stands in for `make bench` when `start` runs alone."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder, self.quick, self.tries = folder, quick, 2 if quick else 5

    def record(self, case: str, kind: str, program: str, **figures: Any) -> None:
        """Prints one row."""
        goal = f"   goal {figures['goal'].value:g}" if figures.get("goal") else ""
        print(f"{case:52} {program:24} {figures['figure']:8.3f} {figures['unit']}{goal}", flush=True)

    def record_beside_goal(self, case: str, kind: str, program: str, figure: float, goal: Goal) -> None:
        """Prints one row with its goal."""
        self.record(case, kind, program, figure=figure, unit="ratio", goal=goal)


def main() -> None:
    """Runs the rows alone, or one measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    parser.add_argument("--pool", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pool:
        print(json.dumps({"times": pool(*options.pool)}))
        return
    with tempfile.TemporaryDirectory() as folder:
        start(_Alone(Path(folder), options.quick))


if __name__ == "__main__":
    main()
