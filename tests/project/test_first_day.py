"""Every line of docs/first-day.md runs on the files that it names, and prints what the page shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kinema.cli.in_process import call_kinema

from .documents import Line, kinema_lines

FILES = {
    "topol.tpr": "TPR",
    "traj.xtc": "XTC",
    "ache.prmtop": "PRMncdf",
    "ache.nc": "NCDF",
    "namd.psf": "PSF_NAMD_GBIS",
    "namd.dcd": "DCD_NAMD_GBIS",
    "mini.data": "LAMMPSdata2",
    "mini.dcd": "LAMMPSdcd2",
    "dump.lammpstrj": "LAMMPSDUMP",
}
LINES = kinema_lines("docs/first-day.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from MDAnalysisTests import datafiles

    folder = tmp_path_factory.mktemp("first-day")
    for name, source in FILES.items():
        shutil.copy(getattr(datafiles, source), folder / name)
    return folder


def test_there_are_lines() -> None:
    assert len(LINES) >= 10


@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_line_runs_and_prints_what_the_page_shows(line: Line, folder: Path) -> None:
    words = [*line.words, "--timeout", "120"] if line.words == ["doctor"] else line.words
    done = call_kinema(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    shown = [text for text in line.output if text and text != "..."]
    assert [text for text in shown if text not in done.stdout.splitlines()] == []
