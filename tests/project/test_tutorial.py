"""The examples of the documents do what they say: all lines of `kinema`, all Python, on files of a real protein."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.cli.in_process import call_kinema


def _documents() -> ModuleType:
    # tests are imported one by one, without a package around them
    spec = importlib.util.spec_from_file_location("documents", Path(__file__).with_name("documents.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


documents = _documents()
WITH_COMMANDS = ("README.md", "docs/tutorial.md", "docs/phrasebook.md", "docs/repair.md", "docs/convert.md")


# Each note that these commands print. A new one must say what users can do, or what they should know.
NOTES = (
    r".*: frame 0 has no periodic cell, so that distances are not those of nearest images",
    r".*\.dcd: the header says 500 frames, the file holds 98",
    r".*1\.xtc: 10 of 120 frames are those of a neighbouring part",
    r"time goes back from 98 to 1 ps before frame 98",
    r"the frame nearest to 1030 ps is frame 10, at 1000 ps",
    r".*: nobody looked for broken molecules: .*; give a topology that has bonds with -s .*",
    r"top(ology)?\.psf: there is no (phi of MET1 \(no C before it\)|psi of GLY214 \(no N after it\))",
    r"match by masses: start\.pdb: masses of 214 atoms were guessed by MDAnalysis, type C",
    r".*\.pdb: the topology has no elements; MDAnalysis has put words of its own there",
    r".*: (positions|times) are rounded.*",
    r".*\.nc: steps are not kept: AMBER's NetCDF convention has none, frames are counted from 0",
    r".*\.dcd: (steps|times) are not kept, a DCD file has evenly spaced ones .*",
    r".*: MDAnalysis' own reader does not read this file; --dialect mdanalysis makes one that it reads",
    r"whole\.h5md: refers to part1\.h5md .*--external any alone; --copy makes a file that needs no other",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    documents.make_files(folder)
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same files in the working folder of one test."""
    for file in made.iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_examples() -> None:
    for name in WITH_COMMANDS:
        assert len(documents.kinema_lines(name)) >= 4, name
        assert documents.blocks(name, "python"), name


@pytest.mark.parametrize("line", [line for name in WITH_COMMANDS for line in documents.kinema_lines(name)], ids=str)
def test_lines_of_kinema(here: Path, line: Any) -> None:
    done = call_kinema(*line.words, cwd=here)
    assert done.returncode == 0, done.stdout + done.stderr
    notes = [line.removeprefix("note: ") for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert [note for note in notes if not any(re.fullmatch(known, note) for known in NOTES)] == []
    for option in ("-o", "--plot", "--topology-out"):
        for before, name in zip(line.words, line.words[1:], strict=False):
            if before == option:
                # the first of several
                several = "--split" in line.words or "--sep" in line.words
                made = (here / name).with_stem(f"{Path(name).stem}0") if several else here / name
                assert made.stat().st_size > 0
    said = done.stdout.splitlines()
    for expected, found in zip(line.output, said, strict=False):
        if expected == "...":
            break
        assert found == expected


def test_lines_of_kinema_one_after_the_other(here: Path) -> None:
    lines = documents.kinema_lines("docs/accounting.md")
    assert len(lines) >= 6
    for line in lines:
        # each repeat is two to eight processes
        words = ["1" if before == "--repeats" else word for before, word in pairwise(["", *line.words])]
        # as a shell does
        words = [name for word in words for name in (sorted(map(str, here.glob(word))) if "*" in word else [word])]
        done = call_kinema(*words, cwd=here)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    pictures = ("bars.png", "timeline.png", "scaling.png", "work/scaling.png", "timings.png", "speedup.svg")
    for name in (*pictures, "storage/results.jsonl", "workloads.md"):
        assert (here / name).stat().st_size > 0


def test_lines_of_the_page_on_statistics(here: Path) -> None:
    lines = documents.shell_lines("docs/statistics.md")
    assert len(lines) >= 8
    for line in lines:
        done = call_kinema(*line.words, cwd=here)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    for name in ("summary.csv", "surface.csv", "surface.png", "rama.png", "pca.png"):
        assert (here / name).stat().st_size > 0


@pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis")
@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/write.md",
        "docs/write-h5md.md",
        "docs/atoms.md",
        "docs/mdanalysis.md",
        "docs/accounting.md",
        "docs/repair.md",
        "docs/dask.md",
        "docs/convert.md",
        "docs/follow.md",
        "docs/statistics.md",
        "docs/add-a-kernel.md",
    ],
)
def test_python_from_top_to_bottom(here: Path, name: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in documents.blocks(name, "python"):
        exec(compile(block, name, "exec"), names)


@pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis")
def test_the_tutorial_from_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files, *blocks = documents.blocks("docs/tutorial.md", "python")
    with pytest.warns(kn.Note, match="the header says 500 frames, the file holds 98"):
        exec(compile(files, "files.py", "exec"), {"__name__": "__main__"})
    for line in documents.kinema_lines("docs/tutorial.md"):
        assert call_kinema(*line.words, cwd=tmp_path).returncode == 0, line
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, "docs/tutorial.md", "exec"), names)


def test_the_tutorials_last_words_are_on_truncated_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (here / "md.xtc").read_bytes()
    (here / "md.xtc").unlink()
    (here / "md.xtc").write_bytes(whole[:-1000])
    block = documents.blocks("docs/tutorial.md", "python")[-1]
    exec(compile(block, "docs/tutorial.md", "exec"), {"kn": kn})
    frame, offset = map(int, capsys.readouterr().out.split())
    assert frame == 195
    assert 0 < offset < len(whole)


@pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis")
def test_ours_and_theirs_agree(here: Path) -> None:
    names: dict[str, Any] = {}
    compared = 0
    for block in documents.blocks("docs/phrasebook.md", "python"):
        exec(compile(block, "docs/phrasebook.md", "exec"), names)
        if "ours" in names:
            ours, theirs = names.pop("ours"), names.pop("theirs")
            assert ours.shape == theirs.shape, block
            # MDAnalysis works in float32 where it moves coordinates, MDTraj everywhere
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4, err_msg=block)
            compared += 1
    assert compared == 12


def test_the_phrasebooks_selections(here: Path) -> None:
    traj = kn.open("md.xtc", topology="top.psf")
    atoms = documents.text_of("docs/phrasebook.md").split("\n## Atoms")[1].split("\n## ")[0]
    selections = re.findall(r'`"([^"`]+)"`', atoms)
    assert len(selections) >= 8
    for selection in selections:
        if "around" in selection:
            # atoms are chosen in each frame; this file has nothing but the protein
            with pytest.raises(kn.ArgumentError, match="no atoms in any frame"):
                traj.select(selection, frame=0)
            continue
        assert 0 < traj.select(selection).n_atoms < traj.n_atoms, selection
    np.testing.assert_array_equal(traj.select("index 0:99").indices, traj.select("bynum 1:100").indices)


HOW_TO = ("docs/add-a-format.md", "docs/add-a-kernel.md")


@pytest.fixture(scope="module")
def suites(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Output of a run of the suites of the how-to pages."""
    folder = tmp_path_factory.mktemp("suites")
    for name in HOW_TO:
        (folder / f"test_{Path(name).stem.replace('-', '_')}.py").write_text(documents.blocks(name, "python")[-1])
    package = str(Path(kn.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    # what takes longest is run by the tests of each format already
    fast = "not test_truncation and not bit_flips"
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-k", fast]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", HOW_TO)
def test_suites_of_the_how_to_pages_pass(suites: str, name: str) -> None:
    told = Counter(re.findall(rf"^(\w+) test_{Path(name).stem.replace('-', '_')}\.py", suites, re.MULTILINE))
    assert told["PASSED"] > 0 and not told.keys() & {"FAILED", "ERROR"}, suites
