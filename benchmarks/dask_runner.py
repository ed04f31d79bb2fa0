"""The Dask runner beside Kinema's other runners and MDAnalysis' own backends, in one run.

    python benchmarks/dask_runner.py [--frames N] [--workers N]

What a task costs beyond its work; RMSD of the C-alphas of adenylate kinase, its frames one after the other until there
are N, as XTC. Wall time, best of three, with everything that a user waits for. It asserts nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
from distributed import Client
from MDAnalysis.analysis.rms import RMSD

import kinema as kn
from kinema import _core
from kinema.interop.mdanalysis import Backend
from kinema.resources import worker_count
from kinema.runners import Gathering, PieceLimit, Runner, choose_runner
from kinema.runners.dask import Dask
from kinema.runners.dask_cluster import OwnCluster
from kinema.testing import random_walk, write_dcd, write_xtc

TRIES = 3
SELECTION = "protein and name CA"
LEAVES = 500


def seconds(work: Callable[[], object], tries: int = TRIES) -> float:
    """The best of several times."""
    best = float("inf")
    for _ in range(tries):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def made(folder: Path, n_frames: int) -> tuple[str, str]:
    """Topology and trajectory."""
    from MDAnalysisTests.datafiles import DCD, PSF

    positions = MDAnalysis.Universe(PSF, DCD).trajectory.timeseries(order="fac")
    path = folder / "adk.xtc"
    write_xtc(path, np.concatenate([positions] * -(-n_frames // len(positions)))[:n_frames])
    return str(PSF), str(path)


def overheads(folder: Path, runners: Sequence[tuple[str, Runner]], workers: int) -> None:
    """A round of one leaf a piece, less one with the runner's own pieces: by piece."""
    path = folder / "nothing.dcd"
    write_dcd(path, random_walk(2 * LEAVES, 30))
    traj = kn.open(path)
    frames = traj.choose(None, None, None, None)
    one = next(kn.analysis.RadiusOfGyration(traj, weights=None)._rounds(frames))
    jobs = [(one.kernel, tuple(one.transforms))]

    def run(runner: Runner, limit: PieceLimit | None) -> int:
        plan = _core.Plan(traj.core, frames, jobs, memory=0, workers=1)
        gathering = Gathering(plan, [one.kernel], limit=limit)
        runner.map_reduce(traj.core, frames, jobs, workers=workers, memory=0, progress=None, gathering=gathering)
        return plan.n_leaves

    print(f"radius of gyration of 30 atoms, {workers} workers, milliseconds: next to nothing but the runner's own work")
    for name, runner in runners:
        leaves = run(runner, None)
        whole = seconds(lambda runner=runner: run(runner, None))  # type: ignore[misc]
        single = seconds(lambda runner=runner: run(runner, PieceLimit(0.0, 0)))  # type: ignore[misc]
        print(
            f"  {name:<28} {leaves} leaves: {1e3 * whole:8.1f} in pieces of the runner's choice, "
            f"{1e3 * (single - whole) / leaves:6.3f} for each leaf that is a piece of its own"
        )


def throughput(topology: str, path: str, runners: Sequence[tuple[str, Runner]], workers: int) -> None:
    """RMSD by all runners and backends."""
    rows: list[tuple[str, Callable[[], object]]] = []
    reference = MDAnalysis.Universe(topology, path)

    def theirs(**options: Any) -> Callable[[], object]:
        def run() -> object:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return RMSD(reference, select=SELECTION).run(**options)

        return run

    def ours(runner: Runner, n_workers: int) -> Callable[[], object]:
        return lambda: kn.analysis.RMSD(kn.open(path, topology), SELECTION).run(runner=runner, workers=n_workers)

    rows.append(("MDAnalysis, serial", theirs()))
    rows.append(("MDAnalysis, multiprocessing", theirs(backend="multiprocessing", n_workers=workers)))
    rows.append(("MDAnalysis, dask", theirs(backend="dask", n_workers=workers)))
    for name, runner in runners:
        if name.startswith(("processes", "dask")):
            options = {"unsupported_backend": True, "n_parts": 4 * workers}
            rows.append((f"MDAnalysis on Kinema's {name}", theirs(backend=Backend(runner, workers), **options)))
    rows.append(("Kinema, serial", ours(choose_runner("serial"), 1)))
    rows += [(f"Kinema, {name}", ours(runner, workers)) for name, runner in runners]
    n_frames = reference.trajectory.n_frames
    print(f"RMSD of {SELECTION!r}, {n_frames} frames of {reference.atoms.n_atoms} atoms, {workers} workers")
    base = None
    for name, work in rows:
        took = seconds(work)
        base = took if base is None else base
        print(f"  {name:<44} {took:8.3f} s {n_frames / took:>10,.0f} frames/s {base / took:>8.2f} x")


def main() -> None:
    """Measures and prints."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--frames", type=int, default=5000)
    arguments.add_argument("--workers", type=int, default=worker_count(None))
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, OwnCluster(given.workers) as cluster:
        client: Client = cluster.client
        runners: list[tuple[str, Runner]] = [
            ("threads", choose_runner("threads")),
            ("processes", choose_runner("processes")),
            ("dask, a cluster that runs", Dask(client)),
            ("dask, a cluster of its own", Dask()),
        ]
        overheads(Path(folder), runners[:3], given.workers)
        throughput(*made(Path(folder), given.frames), runners, given.workers)
        last = kn.analysis.RMSD(kn.open(str(Path(folder) / "adk.xtc"))).run(runner=Dask(client))
        print(last.timings)


if __name__ == "__main__":
    main()
