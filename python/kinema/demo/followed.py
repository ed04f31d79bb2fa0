"""`follow_demo`: runs a simulation in its own process, and an analysis that follows it and draws a growing picture."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import kinema as kn
from kinema.analysis.growing_outputs import GrowingOutputs
from kinema.base.errors import WorkerError
from kinema.demo.simulation import engine
from kinema.runners.local.interpreter import module_command
from kinema.storage.output_checks import check_target
from kinema.trajectory.following import when_there

# seconds without a frame after which the simulation counts as failed
_TIMEOUT = 60.0


class Followed(NamedTuple):
    """The demo's analysis, its picture, and the number of times that it was drawn."""

    analysis: kn.analysis.RadiusOfGyration
    picture: Path
    engine: str
    drawn: int


def follow_demo(folder: Path, n_frames: int, show: Callable[[str], None], *, overwrite: bool = False) -> Followed:
    """Radius of gyration of a chain of beads while it is simulated; each drawing calls `show` with a line.

    `overwrite` replaces existing files: the trajectory, and files that Kinema did not write.

    Raises WorkerError if the simulation ends early.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, picture = folder / "following.xtc", folder / "following.png"
    check_target(path, overwrite=overwrite)
    outputs = GrowingOutputs(folder / "following.csv", picture, overwrite=overwrite)
    path.unlink(missing_ok=True)
    words = module_command("kinema.demo.simulation", path, n_frames)
    show(f"{engine()} simulates in a process of its own: {path}")

    def update(analysis: kn.analysis.RadiusOfGyration, *, last: bool = False) -> None:
        before = outputs.times
        outputs.update(analysis, last=last)
        if outputs.times > before:
            values = analysis.results.values[:, 0]
            bar = "#" * round(values[-1])
            show(f"{len(values):6d} frames, {analysis.results.time[-1]:8.1f} ps, {values[-1]:6.2f} angstrom {bar}")

    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as simulation:
        try:
            traj = when_there(lambda: kn.open(path, stored=False), _TIMEOUT)
            analysis = kn.analysis.RadiusOfGyration(traj, weights=None)
            analysis.follow(n_frames, _TIMEOUT, callback=update)
        finally:
            simulation.kill()
            _, error = simulation.communicate()
    if len(analysis.results.values) < n_frames:
        raise WorkerError(
            f"the simulation has ended after {len(analysis.results.values)} frames: {error.strip()[-300:]}"
        )
    update(analysis, last=True)
    return Followed(analysis, picture, engine(), outputs.times)
