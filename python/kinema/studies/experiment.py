"""The driver of a scaling experiment: it makes the files, starts each run as a program, and collects the reports.

A run that fails or takes too long is a gap with a reason, and the experiment continues. Speed-ups are computed by
`kinema.report.scaling_of`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kinema.base.errors import ArgumentError, os_errors
from kinema.base.printable import counted
from kinema.base.timings import format_seconds
from kinema.report import Report
from kinema.runners.local.interpreter import module_command
from kinema.storage.output_file import temporary_folder
from kinema.studies import files
from kinema.studies.design import Design, Setting
from kinema.studies.launching import child_environment, in_one_line, mpi_launcher, reason_of, run_bounded
from kinema.studies.results_log import ResultsLog, read_results
from kinema.studies.run_files import RunFiles, RunInput

_REPORTS = "reports"


@dataclass(frozen=True, eq=False)
class ExperimentRun:
    """One run: its setting, the wall time of its program from start to end, its report.

    Without a report it is a gap, and `reason` says why.
    """

    setting: Setting
    workers: int
    repeat: int
    job_seconds: float
    report: Report | None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """In plain types for JSON, without the report's details."""
        found = {**asdict(self.setting), "workers": self.workers, "repeat": self.repeat}
        found |= {"job_seconds": self.job_seconds, "reason": self.reason}
        if self.report is None:
            return found
        found |= {"page_cache": self.report.extra["page_cache"]}
        return found | {"totals": self.report.timings.totals, "quantities": self.report.quantities.as_dict()}

    def __str__(self) -> str:
        number = f"{self.setting}, {counted(self.workers, 'worker')}"
        if self.report is None:
            return f"{number}, repeat {self.repeat}: {self.reason}"
        found, worked = self.report.quantities, self.report.n_workers
        fewer = f" ({worked} had work)" if worked < self.workers else ""
        return (
            f"{number}{fewer}, repeat {self.repeat}: "
            f"{format_seconds(found.t_total)} of {format_seconds(self.job_seconds)}, "
            f"t_IO {format_seconds(found.t_IO)}, t_compute {format_seconds(found.t_compute)}"
        )


def run_design(
    design: Design,
    folder: str | os.PathLike[str],
    notify: Callable[[str], None],
    *,
    overwrite: bool = False,
    resume: bool = False,
    beside: Sequence[Path] = (),
) -> Iterator[ExperimentRun]:
    """Carries out all runs and yields each when it is done; `folder` gets reports and results.jsonl (one line per run).

    Repeats are the outer loop, so that a machine that slows down affects all settings alike. `notify` gets a line
    for each step. `overwrite` replaces existing files; `beside` are files that the caller will write: they are refused
    before the first run if Kinema did not write them. `resume` keeps the runs in `folder` that have a report, and tries
    gaps again; it begins the experiment if there are no results.

    Raises ArgumentError, also if the results to be kept are of other files or frames, and as opening the files does. A
    run that fails is a gap.
    """
    place = Path(folder)
    launchers = {
        number: mpi_launcher(number, design.launcher) if "mpi" in design.runners else _no_launcher
        for number in design.ranks_per_node
    }
    kept = _kept_runs(design, place) if resume else {}
    results = ResultsLog(
        place, _REPORTS, overwrite=overwrite, remade=beside, kept=list(kept.values()), resumed=resume
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(results)
        # another experiment in the same folder is refused
        scratch = Path(stack.enter_context(temporary_folder(place / "files")))
        made = RunFiles(design, scratch, notify, stack)
        made.prepare(design.settings())
        for repeat in range(design.repeats):
            for setting in design.settings():
                launcher = launchers[setting.ranks_per_node] if setting.runner == "mpi" else _no_launcher
                for workers in design.workers_of(setting):
                    name = run_name(setting, workers, repeat)
                    report = place / _REPORTS / f"{name}.json"
                    if name in kept:
                        yield ExperimentRun(setting, workers, repeat, kept[name]["job_seconds"], Report.load(report))
                        continue
                    outcome = RunProgram(design, setting, workers, repeat, report).start(made, launcher)
                    results.add({**outcome.as_dict(), "name": name, "common": design.common})
                    notify(str(outcome))
                    yield outcome


def _kept_runs(design: Design, place: Path) -> dict[str, Mapping[str, Any]]:
    """The lines of runs that have a report, by name. Raises ArgumentError if they are of another experiment."""
    kept: dict[str, Mapping[str, Any]] = {}
    common = json.loads(json.dumps(design.common))
    for line in read_results(place):
        found = line.get("common")
        if not isinstance(found, dict):
            raise ArgumentError(
                f"{place / 'results.jsonl'}: its runs cannot be continued: they do not say of what they are"
            )
        other = [name for name in common if found.get(name) != common[name]]
        if other:
            raise ArgumentError(
                f"{place / 'results.jsonl'}: holds the results of another experiment, with other {', '.join(other)}; "
                "name another folder, or overwrite=True replaces them"
            )
        if not line["reason"] and (place / _REPORTS / f"{line['name']}.json").exists():
            kept[line["name"]] = line
    return kept


def run_name(setting: Setting, workers: int, repeat: int) -> str:
    """The name of a run's report, without the values that are as usual."""
    words = [setting.source, setting.format, setting.access, f"x{setting.workload}", setting.gather or setting.runner]
    usual = Setting("", "", 1, "", "")
    for name, letters in (
        ("oversubscribe", "o"), ("task", ""), ("reader", ""), ("analysis", ""), ("times", "times"),
        ("ranks_per_node", "ppn"), ("storage", "on-"), ("stripes", "stripes"),
    ):  # fmt: skip
        value = getattr(setting, name)
        if value != getattr(usual, name):
            words.append(f"{letters}{value}")
    return re.sub(r"[^\w.-]", "-", "-".join([*words, f"n{workers}", f"r{repeat}"]))


@dataclass(frozen=True)
class RunProgram:
    """One run that is to be made; its program writes the report.

    `environment` are more variables of the program.
    """

    design: Design
    setting: Setting
    workers: int
    repeat: int
    report: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, made: RunFiles, launcher: Callable[[int], list[str]]) -> ExperimentRun:
        """Runs the program. An error of the run becomes its reason."""
        opened = made.opened(self.setting, self.workers)
        with temporary_folder(made.folder_of(self.setting) / self.report.stem) as folder:
            paths = self._cached(opened.paths, Path(folder))
            settings = self._settings(opened, paths, folder)
            settings_file = Path(folder) / "settings.json"
            with os_errors("cannot write", str(settings_file)):
                settings_file.write_text(json.dumps(settings), encoding="utf-8")
            command = [*launcher(self.workers), *module_command("kinema.studies.one_run", settings_file)]
            ended = run_bounded(command, {**child_environment(), **self.environment}, self.design.time_limit)
            if ended.code != 0:
                reason = in_one_line(reason_of(ended, self.design.time_limit).replace(f"{folder}/", ""))
                return ExperimentRun(self.setting, self.workers, self.repeat, ended.seconds, None, reason)
        return ExperimentRun(self.setting, self.workers, self.repeat, ended.seconds, Report.load(self.report))

    def _cached(self, paths: Sequence[str], folder: Path) -> list[str]:
        """The files in the state of the cache that the design asks for."""
        if self.setting.source == "none":
            return list(paths)
        if self.design.page_cache == "copy":
            return files.copied(paths, folder)
        if self.design.page_cache == "drop":
            files.forget(paths)
        else:
            files.read_all(paths)
        return list(paths)

    def _settings(self, opened: RunInput, paths: Sequence[str], folder: str) -> dict[str, Any]:
        """The arguments of the program."""
        design, setting = self.design, self.setting
        same = ("runner", "workload", "gather", "oversubscribe", "access", "reader", "analysis", "task")
        # files that were written have the chosen frames only
        window = {name: getattr(design, name) if setting.as_given else None for name in ("start", "stop", "step")}
        parts_are_joined = setting.format in ("subfiles", "chain") or setting.times > 1
        return {name: getattr(setting, name) for name in same} | {
            **window,
            "files": paths,
            # topology for atom names, also for synthetic data, which have as many atoms
            "topology": design.topology,
            "select": design.select,
            # parts that were cut are joined unchanged
            "stated": dict(opened.stated),
            "overlap": "all" if (parts_are_joined and not setting.as_given) or setting.times > 1 else "last",
            "in_memory": setting.source == "none",
            "workers": self.workers,
            "schedule": design.schedule if setting.runner not in ("serial", "threads") else "",
            "scheduler": design.scheduler if setting.runner == "dask" else None,
            "memory": design.memory,
            "report": str(self.report),
            "scratch": folder,
            "extra": self._extra(opened),
        }

    def _extra(self, opened: RunInput) -> dict[str, Any]:
        """Varied settings, for the labels of series; usual values are left out. "workers" is the number asked for."""
        design, setting = self.design, self.setting
        found: dict[str, Any] = {
            "workload": setting.workload,
            "repeat": self.repeat,
            "page_cache": design.page_cache,
            "workers": self.workers,
        }
        found |= setting.varied
        if design.schedule and setting.runner not in ("serial", "threads"):
            found["schedule"] = design.schedule
        if opened.kept_frames is not None:
            found["kept_frames"] = opened.kept_frames
        return found


def _no_launcher(_workers: int) -> list[str]:
    return []
