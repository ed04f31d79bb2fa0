"""Tasks of a run that analyse nothing: a file is cut into parts or converted, or workers are called for nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kinema.base.notes import collected
from kinema.files.split import split
from kinema.report import Report
from kinema.runners import Runner
from kinema.studies import files
from kinema.studies.programs.one_pass import even_shares, one_pass, phases_of_writing
from kinema.trajectory import Trajectory

__all__ = ["convert_file", "empty_calls", "split_file"]


def split_file(settings: Mapping[str, Any], trajectory: Trajectory, runner: Runner) -> Report:
    """Cuts the file into as many parts as there are workers."""
    number = settings["workers"]
    stated = {
        name: settings["stated"][name] for name in ("format", "particles", "units") if settings["stated"].get(name)
    }
    (path,) = trajectory.paths
    began = time.perf_counter()
    made = split(
        path,
        Path(settings["scratch"]) / "parts",
        parts=number,
        **stated,
        stored=settings["stated"]["stored"],
        verify=False,
        runner=runner,
        workers=_workers(settings),
        memory=settings["memory"] or "512 MiB",
    )
    wall = time.perf_counter() - began
    shares = [stop - first for first, stop in made.frames]
    return one_pass(trajectory, "split", wall, [{}] * number, shares, **_of_report(settings, trajectory))


def convert_file(settings: Mapping[str, Any], trajectory: Trajectory, runner: Runner) -> Report:
    """Writes the chosen frames as a file of another format."""
    number = settings["workers"]
    chosen = trajectory[slice(settings["start"], settings["stop"], settings["step"])]
    with collected():
        began = time.perf_counter()
        made = files.convert_to(
            chosen, Path(settings["scratch"]), settings["extra"]["format"],
            runner=runner, workers=_workers(settings), memory=settings["memory"], verify=False,
        )  # fmt: skip
        wall = time.perf_counter() - began
    phases = [phases_of_writing(made.timings, number)] * number
    shares = even_shares(made.n_frames, number)
    return one_pass(trajectory, "convert", wall, phases, shares, **_of_report(settings, trajectory))


def empty_calls(settings: Mapping[str, Any], trajectory: Trajectory, runner: Runner) -> Report:
    """Calls a function that does nothing once for each frame."""
    number = settings["workers"]
    n_calls = len(trajectory.choose(*(settings[one] for one in ("start", "stop", "step"))))
    began = time.perf_counter()
    with runner.session():
        runner.map(_nothing, range(n_calls), workers=_workers(settings))
    wall = time.perf_counter() - began
    shares = even_shares(n_calls, number)
    return one_pass(trajectory, "empty calls", wall, [{}] * number, shares, **_of_report(settings, trajectory))


def _of_report(settings: Mapping[str, Any], trajectory: Trajectory) -> dict[str, Any]:
    """Further arguments of `one_pass`."""
    chosen = trajectory.choose(*(settings[one] for one in ("start", "stop", "step")))
    return {"chosen": chosen, **{name: settings[name] for name in ("runner", "select", "extra")}}


def _workers(settings: Mapping[str, Any]) -> int | None:
    return None if settings["runner"] == "mpi" else settings["workers"]


def _nothing(_number: int) -> None:
    return
