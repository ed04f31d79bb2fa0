"""The driver of a scaling experiment: it makes the files, starts each run as a program, collects the reports.

Speed-ups are computed by `kinema.profile.scaling_of`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kinema.errors import ArgumentError, FileNotFound, WorkerError, from_os
from kinema.opening import open as open_trajectory
from kinema.printable import counted
from kinema.profile import Report
from kinema.studies import files
from kinema.studies.design import Design, Setting
from kinema.timings import format_seconds
from kinema.trajectory import Trajectory
from kinema.writing.output_checks import check_target
from kinema.writing.output_file import temporary_folder, write_whole

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
        """For JSON, without the report's details."""
        found = {**asdict(self.setting), "runner": self.report.timings.runner, "workers": self.workers}
        found |= {"repeat": self.repeat, "job_seconds": self.job_seconds, "page_cache": self.report.extra["page_cache"]}
        return found | {"totals": self.report.timings.totals, "quantities": self.report.quantities.as_dict()}


def run_design(
    design: Design, folder: str | os.PathLike[str], notify: Callable[[str], None]
) -> Iterator[ExperimentRun]:
    """Carries out all runs, and gives each when it is done; reports and results.jsonl (a line a run) go to `folder`.

    Repeats are the outer loop, so that a machine that slows down slows all settings alike. `notify` gets a
    line for each step.

    Raises ArgumentError, WorkerError with the last line of a run that has failed, and what opening the files raises.
    """
    place = Path(folder)
    launcher = _launcher(design) if design.runner == "mpi" else _no_launcher
    results = _ResultsLog(place)
    with ExitStack() as stack:
        stack.enter_context(results)
        # another experiment in the same folder is refused
        scratch = Path(stack.enter_context(temporary_folder(place / "files")))
        made = _ExperimentFiles(design, scratch, notify, stack)
        for repeat in range(design.repeats):
            for setting in design.settings():
                for workers in design.workers:
                    outcome = _one(design, setting, workers, repeat, made, place, launcher)
                    results.add(outcome)
                    notify(_summary(outcome))
                    yield outcome


class _ResultsLog:
    """results.jsonl, a line a run, in the folder of an experiment; its path is noted on an error that ends it early.

    The file is whole at any moment: each line makes it anew.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._path = place / "results.jsonl"
        self._lines: list[bytes] = []
        reports = place / "reports"
        self._made = [folder for folder in (reports, place) if not folder.exists()]
        try:
            reports.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise from_os("cannot write", error, str(place)) from None
        check_target(self._path)
        if self._path.exists() and self._path.stat().st_size > 0:
            raise ArgumentError(
                f"{self._path}: holds the results of another experiment; name another folder, or move them away"
            )

    def __enter__(self) -> _ResultsLog:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        n = len(self._lines)
        if n == 0:
            self._leave_nothing_empty()
        elif error is not None:
            runs = "1 run is" if n == 1 else f"{n} runs are"
            error.add_note(f"{runs} kept in {self._path}, with reports in {self._place / 'reports'}")

    def _leave_nothing_empty(self) -> None:
        # what is left after all is no harm, and hides no error
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def add(self, outcome: ExperimentRun) -> None:
        """Writes the line of a run; it is there when this returns."""
        lines = [*self._lines, json.dumps(outcome.as_dict(), allow_nan=False).encode() + b"\n"]
        write_whole(self._path, lambda file: file.writelines(lines))
        self._lines = lines


class _ExperimentFiles:
    """The files of each setting, made when they are first needed."""

    def __init__(self, design: Design, scratch: Path, notify: Callable[[str], None], stack: ExitStack) -> None:
        self._design = design
        self.scratch = scratch
        self._notify = notify
        self._stack = stack
        self._made: dict[tuple[str, str, int], list[str]] = {}
        self._chosen: Trajectory | None = None

    def of(self, setting: Setting, workers: int) -> list[str]:
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
    paths = made.of(setting, workers)
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
            # atoms of synthetic data have names, too: these are as many
            "topology": design.topology,
            "select": design.select,
            # parts that were cut are joined as they are
            "stated": design.stated if setting.as_given else {"stored": design.stored},
            "overlap": "all" if setting.format in ("subfiles", "chain") else "last",
            "runner": design.runner,
            "workers": workers,
            "workload": setting.workload,
            "schedule": design.schedule,
            "gather": setting.gather,
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
        command = [*launcher(workers), sys.executable, "-m", "kinema.studies.one_run", str(settings_file)]
        began = time.perf_counter()
        done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
    if done.returncode != 0:
        # not the lines that launchers draw
        lines = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if any(map(str.isalnum, line))]
        last = lines[-1].strip() if lines else "it printed nothing"
        raise WorkerError(
            f"a run of {design.runner} with {counted(workers, 'worker')} failed (exit {done.returncode}): {last}"
        )
    return ExperimentRun(setting, workers, repeat, took, Report.load(report))


def _extra(design: Design, setting: Setting, workers: int, repeat: int) -> dict[str, Any]:
    """What varies, for the labels of series; what is as usual is left out. "workers": as many as were asked for."""
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


def _environment() -> Mapping[str, str]:
    """In which the programs find the same kinema."""
    package = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))}


def _no_launcher(_workers: int) -> list[str]:
    return []


def _launcher(design: Design) -> Callable[[int], list[str]]:
    """The words before the program; FileNotFound without mpiexec."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise FileNotFound("mpiexec: not found; install kinema[mpi-local], or load the machine's MPI")
    placed: Sequence[str] = ()
    if design.ranks_per_node is not None:
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        if "Open MPI" in version or "OpenRTE" in version:
            placed = ("--map-by", f"ppr:{design.ranks_per_node}:node")
        elif "HYDRA" in version or "Intel" in version:
            placed = ("-ppn", str(design.ranks_per_node))
        else:
            raise ArgumentError(
                f"{found}: how it places ranks on nodes is not known; leave ranks per node to the batch system"
            )
    return lambda workers: [found, "-n", str(workers), *placed]


def _summary(outcome: ExperimentRun) -> str:
    setting, found, worked = outcome.setting, outcome.report.quantities, outcome.report.n_workers
    fewer = f" ({worked} had work)" if worked < outcome.workers else ""
    return (
        f"{setting.source}, {setting.format}, {setting.access}, work x{setting.workload}, "
        f"{counted(outcome.workers, 'worker')}{fewer}, repeat {outcome.repeat}: "
        f"{format_seconds(found.t_rounds)} of {format_seconds(outcome.job_seconds)}, "
        f"t_IO {format_seconds(found.t_IO)}, t_comp {format_seconds(found.t_comp)}"
    )
