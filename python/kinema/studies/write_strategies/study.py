"""A whole study of writing: the runs, then results.json, report.md and bandwidth.png in the user's folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kinema._core import __version__
from kinema.base.printable import counted
from kinema.report.figures import style
from kinema.report.machine import machine_facts
from kinema.report.storage_facts import file_systems, storage_facts
from kinema.storage.output_file import temporary_folder, write_whole
from kinema.studies.launching import child_environment
from kinema.studies.results_log import marked
from kinema.studies.write_strategies.design import WriteDesign
from kinema.studies.write_strategies.experiment import run_write_design, system_of
from kinema.studies.write_strategies.findings import findings_of, recommendations
from kinema.studies.write_strategies.peers import FormattedWrite, formatted_writes
from kinema.studies.write_strategies.plotting import draw_strategies
from kinema.studies.write_strategies.report import report_text
from kinema.studies.write_strategies.summary import WriteStudy

_PICTURE, _REPORT, _RESULTS = "bandwidth.png", "report.md", "results.json"


@dataclass(frozen=True, eq=False)
class StudyFiles:
    """A finished study and its files."""

    study: WriteStudy
    text: str
    file_names: tuple[str, ...] = (_REPORT, _RESULTS, "results.jsonl", _PICTURE)

    def as_dict(self) -> dict[str, Any]:
        """Content of results.json."""
        study = self.study
        system = {
            "cells": list(study.system.cells),
            "particles": study.system.n_atoms,
            "box": study.system.box.tolist(),
        }
        return {
            "design": asdict(study.design),
            "system": system,
            "machine": dict(study.machine),
            "file_system": study.file_system,
            "cells": [cell.as_dict() for cell in study.cells.values()],
            "findings": [one.as_dict() for one in findings_of(study)],
            "recommendations": [one.as_dict() for one in recommendations(study)],
            "peers": [one.as_dict() for one in study.peers],
            "lost": [asdict(one) for one in study.lost()],
            "runs": [run.as_dict() for run in study.runs],
        }


def run_study(
    design: WriteDesign, folder: str | os.PathLike[str], notify: Callable[[str], None], *, overwrite: bool = False
) -> StudyFiles:
    """Carries out an experiment and reports it. `notify` gets a line for each step.

    `overwrite` replaces results of another experiment, and files that Kinema did not write.

    Raises ArgumentError and FileNotFound if it cannot start; runs that fail are results.
    """
    place = Path(folder)
    system = system_of(design)
    if system.n_atoms != design.particles:
        notify(f"{counted(system.n_atoms, 'particle')}: whole cells, where {design.particles:,} were asked for")
    runs = list(run_write_design(design, place, notify, overwrite=overwrite, beside=report_files(place)))
    paths = [str(place / _RESULTS)]
    machine = machine_facts() | {"storage": storage_facts(paths)}
    peers = _peers(design, place, notify)
    return report_study(WriteStudy(design, system, runs, peers, machine, ", ".join(file_systems(paths))), place)


def report_files(place: Path) -> list[Path]:
    """The files of a report."""
    return [place / name for name in (_REPORT, _RESULTS, _PICTURE)]


def report_study(study: WriteStudy, place: Path) -> StudyFiles:
    """Writes the report of a study into a folder."""
    text = report_text(study, _PICTURE)
    style.write(draw_strategies(study), place / _PICTURE)
    write_whole(place / _REPORT, lambda file: file.write(marked(text).encode()))
    files = StudyFiles(study, text)
    found = json.dumps({"kinema": __version__, **files.as_dict()}, allow_nan=False, indent=1)
    write_whole(place / _RESULTS, lambda file: file.write(found.encode() + b"\n"))
    return files


def _peers(design: WriteDesign, place: Path, notify: Callable[[str], None]) -> list[FormattedWrite]:
    if not design.peers:
        return []
    notify("formatted writes of Fortran and Python")
    with temporary_folder(place / "peers") as folder:
        return formatted_writes(Path(folder), design.particles, child_environment(), design.time_limit)
