"""Errors of commands speak of options, errors of the package of arguments."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kinema.cli import main
from kinema.cli.option_names import option_names, rewrite_names
from kinema.testing import random_walk, write_dcd, write_h5md, write_xtc
from kinema.testing.programs.imports import lazy
from kinema.testing.synthetic import synthetic

datafiles = lazy("MDAnalysisTests.datafiles")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["repack", "a.h5md", "b.h5md", "--layout", "odd"], "kinema: --layout is one of"),
        (["repack", "a.h5md", "b.h5md", "--max-error", "0"], "--max-error"),
        (["join", "a.h5md", "a.h5md", "--overlap", "all", "-o", "taken.h5md"], "; --force replaces it"),
        (["info", "cut.xtc", "--on-truncated", "error"], "; --on-truncated drop uses the 4 complete frames"),
        (["rmsf", "-f", "a.dcd", "--align", "average", "--align-select", "name CA"], "--topology"),
        (["rgyr", "-f", "a.dcd", "--weights", "none", "--runner", "serial", "-j", "2"], "--runner threads"),
        (["split", "a.dcd"], "--frames-per-part"),
        (["join", "a.h5md", "-o", "taken.h5md"], "--force replaces it\n"),
        (["rmsd", "-f", "a.dcd", "-n", "a.ndx", "--select", "name CA"], "--select and --index-file cannot be combined"),
        (
            ["rmsd", "-f", "a.dcd", "--rmsd-select", "name CA"],
            "selection 'name CA' needs a topology: give one with --top",
        ),
        (["rgyr", "-f", "a.dcd", "--select", " "], "the selection is an empty text"),
        (["rgyr", "-f", "a.dcd", "--weights", "none", "--step", "0"], "--step must not be 0"),
        (["rgyr", "-f", "a.dcd", "--weights", "none", "-b", "1000"], "no frame from 1000 ps on, its times are"),
        (["rmsd", "-f", "a.dcd", "-o", "x.csv", "--report", "./x.csv"], "is named by --output and --report"),
        (["repack", "a.h5md", "b.h5md", "--unit", "furlong"], "--unit is that of --max-error; give both"),
        (["rmsd"], "no trajectory is named; give its files as arguments or with -f"),
        (["info", "a.dcd", "-f", "a.h5md"], "found both: a.dcd and a.h5md"),
        (["split", "a.dcd", "a.dcd", "--parts", "2"], "takes one trajectory file, found 2"),
        (["distances", "-f", "a.dcd"], "atoms are given by --pairs, or by --ag1 and --ag2, found neither"),
        (["angles", "-f", "a.dcd", "--ag1", "all"], "by --triples, or by --ag1 and --ag2 and --ag3, found --ag1"),
        (["dihedrals", "-f", "a.dcd"], "dihedrals are given by --quadruples, or by names, --phi, --psi"),
        (["distances", "-f", "a.dcd", "--pairs", "far.txt"], "kinema: --pairs: atom "),
        (["rmsf", "-f", "a.dcd", "--ref-frame", "0"], "--align average, iterative or reference"),
        # words that are not commands here, and what the message says
        (
            ["msd"],
            "'msd' is not a command, as kinema computes no mean square displacements yet; it computes rmsd, ",
        ),
        (["hbond", "-f", "a.dcd"], "'hbond' is not a command; here it is hbonds"),
        (["energy"], "computes no energies yet"),
        (["rms2d"], "here it is rmsd-matrix"),
        (["trjconv", "-f", "a.dcd"], "'trjconv' is not a command; here it is convert"),
        (["gyrate"], "here it is rgyr (see kinema --help)\n"),
        (["radius_of_gyration"], "here it is rgyr (see kinema --help)\n"),
        (["rms"], "here it is rmsd (see"),
        (["end_to_end"], "here it is end-to-end (see"),
        (["rmsdd"], "did you mean rmsd"),
        (["xyzzy"], "'xyzzy' is not a command; expected one of info, rmsd, "),
        # options as other programs spell them
        (["rgyr", "-f", "a.dcd", "-sel", "all"], "-sel is --select here"),
        (["rgyr", "-f", "a.dcd", "-select=all"], "-select is --select here"),
        (["rgyr", "-f", "a.dcd", "-dt", "2"], "-dt is --dt here"),
        (["convert", "a.dcd", "-o", "b.xtc", "-skip", "2"], "-skip is --step here"),
        # files in the order of MDAnalysis
        (
            ["rgyr", "-f", "a.psf", "-s", "a.dcd"],
            "a.dcd, given as topology, is a trajectory (DCD): trajectories are",
        ),
        (["rgyr", "a.dcd", "a.psf"], "kinema: a.psf: by its name it is a topology"),
        (["rgyr", "a.psf", "a.dcd"], "by its name it is a topology: the trajectory is the first argument (-f)"),
    ],
)
def test_errors_name_options(
    words: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd("a.dcd", random_walk(5, 4))
    write_h5md("a.h5md", synthetic(5, 4))
    (tmp_path / "taken.h5md").write_text("taken")
    (tmp_path / "a.psf").write_text("PSF\n\n       1 !NTITLE\n")
    (tmp_path / "far.txt").write_text("1 9\n")
    write_xtc("cut.xtc", random_walk(5, 40))
    (tmp_path / "cut.xtc").write_bytes((tmp_path / "cut.xtc").read_bytes()[:-20])
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert expected in capsys.readouterr().err


def test_paths_and_other_words_stay() -> None:
    options = option_names(["rmsd"])
    for message in ("a/ref_frame.dcd: no such file", "ref_frame.dcd: bad", "the group has no access", "x_select=3"):
        assert rewrite_names(message, options) == message
    assert rewrite_names("weights=None, or topology=", options) == "--weights none, or --topology"
    assert rewrite_names("ref_frame must be 1", options) == "--ref-frame must be 1"
    assert option_names(["nothing"]) == option_names([]) == {}
    assert rewrite_names("select: bad", options) == "--select: bad"
    assert rewrite_names("select: bad", options, path="select") == "select: bad"
    units = 'open the file with units={"time": "ps", "length": "nm"}, or stored=False'
    assert rewrite_names(units, options) == "open the file with --input-units time=ps,length=nm, or --no-stored"
    assert rewrite_names("superposition=False, or out=", options) == "--no-superposition, or --output"


def test_every_word_for_a_command_is_answered_with_one_that_there_is() -> None:
    from kinema.cli import app

    words = {word for names in app._ABSENT.values() for word in names} | app._CALLED_OTHERWISE.keys()
    assert len(words) == sum(map(len, app._ABSENT.values())) + len(app._CALLED_OTHERWISE)
    assert not words & set(app.COMMANDS)
    named = {name for name in app.COMMANDS if name in " ".join(app._CALLED_OTHERWISE.values())}
    assert {one.split(",")[0].split(" ")[0] for one in app._CALLED_OTHERWISE.values()} - {"the", "any"} <= named


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rmsf", "-f", "a.dcd"], "as well; --align average or --align reference superposes"),
        (["repack", "a.h5md", "b.h5md", "--max-error", "0.1"], "without compression --max-error saves nothing"),
        (["info", "lammps.dcd"], "(units real); others are stated with --input-units time=ps\n"),
        (
            ["rgyr", "-f", "a.dcd", "--weights", "none", "--dt", "0.3"],
            "2 frames are used where one every 0.3 ps",
        ),
    ],
)
def test_notes_name_options(
    words: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd("a.dcd", random_walk(5, 4))
    shutil.copy(datafiles.LAMMPSdcd2, "lammps.dcd")
    write_h5md("a.h5md", synthetic(5, 4))
    with pytest.raises(SystemExit, match="0"):
        main(words)
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["info"], ["check"], ["index"], ["rmsd"], ["rmsf"], ["rgyr", "--weights", "none"], ["join", "-o", "all.dcd"]],
    ids=lambda words: words[0],
)
def test_trajectories_are_arguments_or_follow_f(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd("a.dcd", random_walk(5, 4))
    write_dcd("b.dcd", random_walk(5, 4), first_step=5)
    printed = []
    for files in (["a.dcd", "b.dcd"], ["-f", "a.dcd", "b.dcd"]):
        with pytest.raises(SystemExit, match="0"):
            main([words[0], *files, *words[1:], *(["--force"] if words[0] == "join" else [])])
        # not the speed
        printed.append([line for line in capsys.readouterr().out.splitlines() if "frames/s" not in line])
    assert printed[0] == printed[1] != []
