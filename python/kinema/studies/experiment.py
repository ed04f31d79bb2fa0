"""The driver of a scaling experiment: it makes the files, starts each run as a program, and collects the reports.

Speed-ups are computed by `kinema.report.scaling_of`.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kinema.base.errors import FileNotFound, WorkerError, from_os
from kinema.base.printable import counted
from kinema.base.timings import format_seconds
from kinema.report import Report
from kinema.runners.local.interpreter import module_command
from kinema.storage.output_file import temporary_folder
from kinema.studies import files
from kinema.studies.design import Design, Setting
from kinema.studies.launching import child_environment, mpi_launcher, said_last
from kinema.studies.results_log import ResultsLog
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

__all__ = ["ExperimentRun", "run_design"]


@dataclass(frozen=True, eq=False)
class ExperimentRun:
    """One run: its setting, the wall time of its program from start to end, its report."""

    setting: Setting
    workers: int
    repeat: int
    job_seconds: float
    report: Report

    def as_dict(self) -> dict[str, Any]:
        """In plain types for JSON, without the report's details."""
        found = {**asdict(self.setting), "runner": self.report.timings.runner, "workers": self.workers}
        found |= {"repeat": self.repeat, "job_seconds": self.job_seconds, "page_cache": self.report.extra["page_cache"]}
        return found | {"totals": self.report.timings.totals, "quantities": self.report.quantities.as_dict()}


def run_design(
    design: Design,
    folder: str | os.PathLike[str],
    notify: Callable[[str], None],
    *,
    overwrite: bool = False,
    beside: Sequence[Path] = (),
) -> Iterator[ExperimentRun]:
    """Carries out all runs and yields each when it is done; `folder` gets reports and results.jsonl (one line per run).

    Repeats are the outer loop, so that a machine that slows down affects all settings alike. `notify` gets a line
    for each step. `overwrite` replaces existing files; `beside` are files that the caller will write: they are refused
    before the first run if Kinema did not write them.

    Raises ArgumentError, WorkerError with the last line of a failed run, and as opening the files does.
    """
    place = Path(folder)
    launcher = mpi_launcher(design.ranks_per_node, design.launcher) if design.runner == "mpi" else _no_launcher
    results = ResultsLog(place, "reports", overwrite=overwrite, remade=beside)
    with ExitStack() as stack:
        stack.enter_context(results)
        # another experiment in the same folder is refused
        scratch = Path(stack.enter_context(temporary_folder(place / "files")))
        made = _ExperimentFiles(design, scratch, notify, stack)
        for repeat in range(design.repeats):
            for setting in design.settings():
                for workers in design.workers:
                    outcome = _one(design, setting, workers, repeat, made, place, launcher)
                    results.add(outcome.as_dict())
                    notify(_summary(outcome))
                    yield outcome


class _ExperimentFiles:
    """The files of each setting, made on first use."""

    def __init__(self, design: Design, scratch: Path, notify: Callable[[str], None], stack: ExitStack) -> None:
        self._design = design
        self.scratch = scratch
        self._notify = notify
        self._stack = stack
        self._made: dict[tuple[str, str, int], list[str]] = {}
        self._chosen: Trajectory | None = None

    def get(self, setting: Setting, workers: int) -> list[str]:
        """The files of a run."""
        if setting.as_given:
            return list(self._design.files)
        parts = {"subfiles": workers, "chain": max(self._design.workers)}.get(setting.format, 0)
        key = (setting.source, setting.format, parts)
        if key not in self._made:
            self._notify(f"writing {setting.format if setting.source == 'file' else 'synthetic data'} (not timed)")
            self._made[key] = self._make(setting, parts)
        return self._made[key]

    def _make(self, setting: Setting, parts: int) -> list[str]:
        chosen = self._frames()
        if setting.source == "synthetic":
            memory = files.MEMORY_FOLDER
            if not memory.is_dir():
                raise FileNotFound(f"{memory}: synthetic data are kept there, in memory; this system has none")
            folder = Path(self._stack.enter_context(temporary_folder(memory / "kinema-scaling", alone=False)))
            return files.write_synthetic(folder, chosen.n_atoms, chosen.n_frames)
        if parts:
            return files.write_subfiles(chosen, self.scratch, parts)
        return files.write_as(chosen, self.scratch, setting.format)

    def _frames(self) -> Trajectory:
        if self._chosen is None:
            design = self._design
            whole = open_trajectory(list(design.files), **design.stated)
            self._chosen = whole[slice(design.start, design.stop, design.step)]
        return self._chosen


def _one(
    design: Design,
    setting: Setting,
    workers: int,
    repeat: int,
    made: _ExperimentFiles,
    place: Path,
    launcher: Callable[[int], list[str]],
) -> ExperimentRun:
    paths = made.get(setting, workers)
    kind = f"{setting.source}-{setting.format}-{setting.access}-x{setting.workload}".replace(" ", "-")
    pieces = f"-o{setting.oversubscribe}" if setting.oversubscribe else ""
    name = f"{kind}-{setting.gather or design.runner}{pieces}-n{workers}-r{repeat}"
    report = place / "reports" / f"{name}.json"
    with temporary_folder(made.scratch / name) as folder:
        if design.page_cache == "copy":
            paths = files.copied(paths, Path(folder))
        elif design.page_cache == "drop":
            files.forget(paths)
        else:
            files.read_all(paths)
        settings: dict[str, Any] = {
            "files": paths,
            # topology for atom names, also for synthetic data, which have as many atoms
            "topology": design.topology,
            "select": design.select,
            # parts that were cut are joined unchanged
            "stated": design.stated if setting.as_given else {"stored": design.stored},
            "overlap": "all" if setting.format in ("subfiles", "chain") else "last",
            "runner": design.runner,
            "workers": workers,
            "workload": setting.workload,
            "schedule": design.schedule,
            "gather": setting.gather,
            "scheduler": design.scheduler,
            "oversubscribe": setting.oversubscribe,
            "access": setting.access,
            "memory": design.memory,
            "report": str(report),
            "start": design.start if setting.as_given else None,
            "stop": design.stop if setting.as_given else None,
            "step": design.step if setting.as_given else None,
            "extra": _extra(design, setting, workers, repeat),
        }
        settings_file = Path(folder) / "settings.json"
        try:
            settings_file.write_text(json.dumps(settings), encoding="utf-8")
        except OSError as error:
            raise from_os("cannot write", error, str(settings_file)) from None
        command = [*launcher(workers), *module_command("kinema.studies.one_run", settings_file)]
        began = time.perf_counter()
        done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
    if done.returncode != 0:
        last = said_last(done.stdout + "\n" + done.stderr)
        raise WorkerError(
            f"a run of {design.runner} with {counted(workers, 'worker')} failed (exit {done.returncode}): {last}"
        )
    return ExperimentRun(setting, workers, repeat, took, Report.load(report))


def _extra(design: Design, setting: Setting, workers: int, repeat: int) -> dict[str, Any]:
    """Varied settings, for the labels of series; usual values are left out. "workers" is the number asked for."""
    found: dict[str, Any] = {
        "workload": setting.workload,
        "repeat": repeat,
        "page_cache": design.page_cache,
        "workers": workers,
    }
    if setting.format != "as is":
        found["format"] = setting.format
    if setting.source != "file":
        found["source"] = setting.source
    varied = {"gather": setting.gather, "schedule": design.schedule, "oversubscribe": setting.oversubscribe}
    varied |= {"ranks_per_node": design.ranks_per_node}
    return found | {name: value for name, value in varied.items() if value}


def _no_launcher(_workers: int) -> list[str]:
    return []


def _summary(outcome: ExperimentRun) -> str:
    setting, found, worked = outcome.setting, outcome.report.quantities, outcome.report.n_workers
    fewer = f" ({worked} had work)" if worked < outcome.workers else ""
    return (
        f"{setting.source}, {setting.format}, {setting.access}, work x{setting.workload}, "
        f"{counted(outcome.workers, 'worker')}{fewer}, repeat {outcome.repeat}: "
        f"{format_seconds(found.t_total)} of {format_seconds(outcome.job_seconds)}, "
        f"t_IO {format_seconds(found.t_IO)}, t_compute {format_seconds(found.t_compute)}"
    )
