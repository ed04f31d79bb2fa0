"""The programs of `examples/` run, in this process, and do as they say."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from .documents import make_files

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# the files that each writes
OUTPUTS = {
    "blocks": ["mean.npy"],
    "convert": ["protein.h5md"],
    "mpi_ranks": ["rmsd.csv"],
    "one_pass": ["rmsd.csv", "rgyr.csv", "dihedrals.csv"],
    "own_analysis": ["extent.csv"],
    "rmsd": ["rmsd.csv", "rmsd.png"],
    "runners": [],
    "training_batches": [],
    "truncated_file": ["cut.xtc"],
    "write_frames": ["centred.xtc"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    make_files(folder)
    return folder


def test_all_examples_are_listed_and_tested() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    assert programs == set(OUTPUTS)
    assert set(re.findall(r"\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text())) == programs


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_example_runs(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(files / "top.psf"), str(files / "md.xtc")])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
    assert all((tmp_path / output).stat().st_size for output in OUTPUTS[name])
