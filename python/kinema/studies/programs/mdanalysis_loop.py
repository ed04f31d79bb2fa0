"""The publications' baseline: each worker reads contiguous frames with MDAnalysis and computes their RMSD.

Kinema only starts the workers and gathers their times.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from kinema.model.universe import import_mdanalysis
from kinema.report import Report
from kinema.runners import Runner
from kinema.studies.programs.one_pass import one_pass
from kinema.trajectory import Trajectory

__all__ = ["FramesLoop", "LoopTimes", "run_mdanalysis"]


@dataclass(frozen=True)
class LoopTimes:
    """One worker: when it began (seconds of `time.time`), seconds by phase, RMSD of each frame (angstrom)."""

    began: float
    phases: Mapping[str, float]
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class FramesLoop:
    """The function of a worker: files, atoms, and how often the RMSD of each frame is computed."""

    files: Sequence[str]
    topology: str | None
    select: str | None
    workload: int

    def describe(self, share: Sequence[int]) -> str:
        """The frames, for errors."""
        return f"frames {share[0]} to {share[-1]}"

    def __call__(self, share: Sequence[int]) -> LoopTimes:
        """Reads these frames and computes their RMSD from frame 0."""
        mda = import_mdanalysis()
        from MDAnalysis.analysis.rms import rmsd

        began, clock = time.time(), time.perf_counter
        opening = clock()
        with warnings.catch_warnings():
            # files without a topology have no names or masses
            warnings.simplefilter("ignore")
            universe = mda.Universe(self.topology or self.files[0], list(self.files))
        atoms = universe.select_atoms(self.select) if self.select else universe.atoms
        universe.trajectory[0]
        reference = atoms.positions.copy()
        seconds = {"open": clock() - opening, "io": 0.0, "compute": 0.0}
        values = []
        for number in share:
            reading = clock()
            universe.trajectory[number]
            read = clock()
            for _ in range(self.workload):
                value = float(rmsd(atoms.positions, reference, center=True, superposition=True))
            seconds["io"] += read - reading
            seconds["compute"] += clock() - read
            values.append(value)
        closing = clock()
        universe.trajectory.close()
        return LoopTimes(began, {**seconds, "close": clock() - closing}, values)


def run_mdanalysis(settings: Mapping[str, Any], trajectory: Trajectory, runner: Runner) -> Report:
    """Gives each worker a contiguous share of the frames. The trajectory only says which frames there are."""
    chosen = trajectory.choose(*(settings[one] for one in ("start", "stop", "step")))
    numbers = chosen.numbers()
    bounds = np.linspace(0, len(numbers), min(settings["workers"], len(numbers)) + 1).astype(int)
    shares = [[int(number) for number in numbers[begin:end]] for begin, end in pairwise(bounds)]
    loop = FramesLoop(settings["files"], settings["topology"], settings["select"], settings["workload"])
    workers = None if settings["runner"] == "mpi" else settings["workers"]
    runner.preload(["MDAnalysis.analysis.rms"])
    with runner.session():
        # the import takes seconds, which are not the run's
        runner.map(_import_mdanalysis, range(len(shares)), workers=workers)
        called, began = time.time(), time.perf_counter()
        found: list[LoopTimes] = runner.map(loop, shares, workers=workers)
        wall = time.perf_counter() - began
    phases = [{**one.phases, "start": max(0.0, one.began - called)} for one in found]
    for one in phases:
        one["wait"] = max(0.0, wall - sum(one.values()))
    frames = [len(share) for share in shares]
    known = {name: settings[name] for name in ("runner", "select", "extra")}
    return one_pass(trajectory, "RMSD by MDAnalysis", wall, phases, frames, chosen=chosen, **known)


def _import_mdanalysis(_number: int) -> None:
    import_mdanalysis()
    import_module("MDAnalysis.analysis.rms")
