"""Carries an experiment out: makes its files, starts each run as a program of its own, gathers the reports.

It reckons nothing; `kinema.profile.scaling_of` does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import kinema
from kinema.errors import ArgumentError, FileNotFound, WorkerError, from_os
from kinema.experiments import files
from kinema.experiments.design import Design, Setting
from kinema.opening import open as open_trajectory
from kinema.profile import Report
from kinema.runners.timings import counted, told_seconds
from kinema.trajectory import Trajectory

__all__ = ["Outcome", "run_design"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """One run: its setting, the wall time of its program from start to end, its report."""

    setting: Setting
    workers: int
    repeat: int
    job_seconds: float
    report: Report

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without the report's details."""
        found = {**asdict(self.setting), "runner": self.report.timings.runner, "workers": self.workers}
        found |= {"repeat": self.repeat, "job_seconds": self.job_seconds, "cache": self.report.extra["cache"]}
        return found | {"totals": self.report.timings.totals, "quantities": self.report.quantities.as_dict()}


def run_design(design: Design, folder: str | os.PathLike[str], tell: Callable[[str], None]) -> Iterator[Outcome]:
    """Carries out all runs, and gives each when it is done; reports and results.jsonl (a line a run) go to `folder`.

    Repeats are the outer loop, so that a machine that slows down slows all settings alike. `tell` hears what is done.

    Raises ArgumentError, WorkerError with what a run has said when it failed, and what opening the files raises.
    """
    place = Path(folder)
    launcher = _launcher(design) if design.runner == "mpi" else _no_launcher
    results = _Results(place)
    with ExitStack() as stack:
        stack.enter_context(results)
        scratch = Path(stack.enter_context(_scratch(place)))
        made = _Files(design, scratch, tell, stack)
        for repeat in range(design.repeats):
            for setting in design.settings():
                for workers in design.workers:
                    outcome = _one(design, setting, workers, repeat, made, place, launcher)
                    results.add(outcome)
                    tell(_told(outcome))
                    yield outcome


class _Results:
    """The results so far, in a folder: a line a run. What ends the experiment early is noted with where they are."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._path = place / "results.jsonl"
        self._number = 0
        reports = place / "reports"
        self._made = [folder for folder in (reports, place) if not folder.exists()]
        try:
            reports.mkdir(parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size > 0:
                raise ArgumentError(
                    f"{self._path}: holds the results of another experiment; name another folder, or move them away"
                )
            # appended to, so that a folder that may not be written is found before the first run
            self._path.open("a", encoding="utf-8").close()
        except OSError as error:
            raise from_os("cannot write", error, str(place)) from None

    def __enter__(self) -> _Results:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._number == 0:
            self._leave_nothing_empty()
        elif error is not None:
            runs = "1 run is" if self._number == 1 else f"{self._number} runs are"
            error.add_note(f"{runs} kept in {self._path}, with reports in {self._place / 'reports'}")

    def _leave_nothing_empty(self) -> None:
        # what is left after all is no harm, and hides no error
        with suppress(OSError):
            if self._path.stat().st_size == 0:
                self._path.unlink()
            for folder in self._made:
                folder.rmdir()

    def add(self, outcome: Outcome) -> None:
        """Writes the line of a run; it is there when this returns."""
        line = json.dumps(outcome.as_dict(), allow_nan=False) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise from_os("cannot write", error, str(self._path)) from None
        self._number += 1


def _scratch(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder for a while; it is gone with all that is in it however the experiment ends."""
    try:
        return tempfile.TemporaryDirectory(prefix="kinema-scaling-", dir=folder)
    except OSError as error:
        raise from_os("cannot write", error, str(folder)) from None


class _Files:
    """The files of each setting, made when they are first needed."""

    def __init__(self, design: Design, scratch: Path, tell: Callable[[str], None], stack: ExitStack) -> None:
        self._design = design
        self.scratch = scratch
        self._tell = tell
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
            self._tell(f"writing {setting.format if setting.source == 'file' else 'synthetic data'} (not timed)")
            self._made[key] = self._make(setting, parts)
        return self._made[key]

    def _make(self, setting: Setting, parts: int) -> list[str]:
        chosen = self._frames()
        if setting.source == "synthetic":
            memory = files.MEMORY_FOLDER
            if not memory.is_dir():
                raise FileNotFound(f"{memory}: synthetic data are kept there, in memory; this system has none")
            folder = Path(self._stack.enter_context(_scratch(memory)))
            return files.write_synthetic(folder, chosen.n_atoms, chosen.n_frames)
        if parts:
            return files.write_subfiles(chosen, self.scratch, parts)
        return files.write_as(chosen, self.scratch, setting.format)

    def _frames(self) -> Trajectory:
        if self._chosen is None:
            design = self._design
            whole = open_trajectory(list(design.files))
            self._chosen = whole[slice(design.start, design.stop, design.step)]
        return self._chosen


def _one(
    design: Design,
    setting: Setting,
    workers: int,
    repeat: int,
    made: _Files,
    place: Path,
    launcher: Callable[[int], list[str]],
) -> Outcome:
    paths = made.of(setting, workers)
    with _scratch(made.scratch) as folder:
        if design.cache == "copy":
            paths = files.copied(paths, Path(folder))
        elif design.cache == "drop":
            files.forget(paths)
        else:
            files.read_all(paths)
        kind = f"{setting.source}-{setting.format}-{setting.access}-x{setting.workload}"
        pieces = f"-o{setting.oversubscribe}" if setting.oversubscribe else ""
        name = f"{kind}-{setting.gather or design.runner}{pieces}-n{workers}-r{repeat}"
        report = place / "reports" / f"{name.replace(' ', '-')}.json"
        told: dict[str, Any] = {
            "files": paths,
            # atoms of synthetic data have names, too: these are as many
            "topology": design.topology,
            "select": design.select,
            # parts that were cut are joined as they are
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
        settings = Path(folder) / "settings.json"
        try:
            settings.write_text(json.dumps(told), encoding="utf-8")
        except OSError as error:
            raise from_os("cannot write", error, str(settings)) from None
        command = [*launcher(workers), sys.executable, "-m", "kinema.experiments.one_run", str(settings)]
        began = time.perf_counter()
        done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
    if done.returncode != 0:
        # not the lines that launchers draw
        said = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if any(map(str.isalnum, line))]
        last = said[-1].strip() if said else "nothing was said"
        raise WorkerError(f"a run of {design.runner} with {counted(workers)} failed (exit {done.returncode}): {last}")
    return Outcome(setting, workers, repeat, took, Report.load(report))


def _extra(design: Design, setting: Setting, workers: int, repeat: int) -> dict[str, Any]:
    """What varies, for the labels of series; what is as usual is left out. "workers": as many as were asked for."""
    found: dict[str, Any] = {"workload": setting.workload, "repeat": repeat, "cache": design.cache, "workers": workers}
    if setting.format != "as is":
        found["format"] = setting.format
    if setting.source != "file":
        found["source"] = setting.source
    told = {"gather": setting.gather, "schedule": design.schedule, "oversubscribe": setting.oversubscribe}
    told |= {"ranks_per_node": design.ranks_per_node}
    return found | {name: value for name, value in told.items() if value}


def _environment() -> Mapping[str, str]:
    """In which the programs find the same kinema."""
    package = str(Path(kinema.__file__).parent.parent)
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


def _told(outcome: Outcome) -> str:
    setting, found, worked = outcome.setting, outcome.report.quantities, outcome.report.n_workers
    fewer = f" ({worked} had work)" if worked < outcome.workers else ""
    return (
        f"{setting.source}, {setting.format}, {setting.access}, work x{setting.workload}, {counted(outcome.workers)}"
        f"{fewer}, repeat {outcome.repeat}: {told_seconds(found.t_rounds)} of {told_seconds(outcome.job_seconds)}, "
        f"t_IO {told_seconds(found.t_IO)}, t_comp {told_seconds(found.t_comp)}"
    )
