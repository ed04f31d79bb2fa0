"""Estimate of an experiment before it is run: time by a few frames computed here, disk by the sizes of formats."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kinema.analysis import RMSD
from kinema.base.printable import counted
from kinema.base.resources import default_workers
from kinema.base.timings import format_seconds
from kinema.runners.registry import choose_runner
from kinema.studies.design import Design, Setting
from kinema.studies.run_files import RunFiles
from kinema.trajectory.opening import open as open_trajectory

__all__ = ["Estimate", "estimate"]

# frames that are computed to know the time of one
_PROBE = 50
# seconds until the program of a run has begun, and of each further process
_START = 1.0
_PROCESS = 0.3
# bytes of an atom in a file of uncompressed numbers; XTC takes about a third
_ATOM_BYTES = 12
_PACKED = 1 / 3
_PACKED_FORMATS = ("xtc", "h5md-gzip1", "h5md-gzip9")


@dataclass(frozen=True)
class Estimate:
    """Series with their numbers of workers, number of runs, seconds, bytes of files at the same time."""

    series: tuple[tuple[Setting, tuple[int, ...]], ...]
    runs: int
    seconds: float
    bytes: int
    frame_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = [{**vars(setting), "workers": list(workers)} for setting, workers in self.series]
        return {"series": found, "runs": self.runs, "seconds": self.seconds, "bytes": self.bytes}

    def lines(self, describe: Callable[[Setting], str]) -> list[str]:
        """In words; `describe` names a series."""
        rows = [f"{describe(one)}: {', '.join(map(str, workers))} workers" for one, workers in self.series]
        return [
            *rows,
            f"{counted(self.runs, 'run')}, about {_rounded(self.seconds)} at {format_seconds(self.frame_seconds)} a "
            f"frame on one core, about {self.bytes / (1 << 20):,.1f} MiB of disk at a time",
        ]


def _rounded(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds > 5400
        else f"{seconds / 60:.0f} min"
        if seconds > 90
        else f"{seconds:.0f} s"
    )


def estimate(design: Design) -> Estimate:
    """Estimates an experiment, for which it computes the RMSD of the first frames. No file stays.

    Raises as opening the files does.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory()))
        made = RunFiles(design, scratch, lambda _line: None, stack)
        n_atoms, n_frames = made.size()
        frame_seconds = _frame_seconds(design, made)
    series = tuple((setting, design.workers_of(setting)) for setting in design.settings())
    seconds = sum(
        _run_seconds(setting, workers, n_frames, frame_seconds) for setting, numbers in series for workers in numbers
    )
    return Estimate(series, design.n_runs, seconds * design.repeats, _disk(design, n_atoms, n_frames), frame_seconds)


def _frame_seconds(design: Design, made: RunFiles) -> float:
    """Seconds of a frame of the RMSD on one core, reading included."""
    if design.files:
        trajectory = open_trajectory(list(design.files), design.topology, **design.stated)
        window = (design.start, design.stop, design.step)
    else:
        (setting, *_) = design.settings()
        opened, window = made.opened(setting, 1), (None,) * 3
        trajectory = open_trajectory(opened.paths, design.topology, **opened.stated)
    numbers = trajectory.choose(*window).numbers()[:_PROBE]
    analysis = RMSD(trajectory, design.select)
    began = time.perf_counter()
    analysis.run(frames=numbers, runner=choose_runner("serial"), progress=False)
    return (time.perf_counter() - began) / len(numbers)


def _run_seconds(setting: Setting, workers: int, n_frames: int, frame_seconds: float) -> float:
    processes = 0 if setting.runner in ("serial", "threads") else workers
    work = n_frames * setting.times * setting.workload * frame_seconds
    return _START + _PROCESS * processes + work / min(workers, default_workers())


def _disk(design: Design, n_atoms: int, n_frames: int) -> int:
    """Bytes of all files that lie on disks at a time: files of each format stay until the end."""
    plain = float(_ATOM_BYTES * n_atoms * n_frames)
    given = float(sum(os.path.getsize(path) for path in dict.fromkeys(design.files)))

    def size_of(setting: Setting) -> float:
        if setting.as_given:
            return given
        return plain * (_PACKED if setting.format in _PACKED_FORMATS else 1.0)

    sizes: dict[tuple[Any, ...], float] = {}
    of_run = 0.0
    for setting in design.settings():
        if setting.source != "file" or setting.task == "empty":
            continue
        place = (setting.storage, setting.stripes)
        if not setting.as_given or any(place):
            format = "as is" if setting.as_given else setting.format
            # parts for each number of workers
            copies = len(design.workers_of(setting)) if format == "subfiles" else 1
            sizes[format, *place] = size_of(setting) * copies
        of_task = {"split": size_of(setting), "convert": plain}.get(setting.task, 0.0)
        of_run = max(of_run, of_task + (size_of(setting) if design.page_cache == "copy" else 0.0))
    return round(sum(sizes.values()) + of_run)
