"""`--pbc` and the options beside it, on raw output of GROMACS."""

from __future__ import annotations

import json

import pytest
from MDAnalysisTests import datafiles

pytestmark = pytest.mark.processes


def test_a_broken_protein_is_noted_and_made_whole(run_kinema, files):
    words = ["rmsd", files.xtc, "-s", datafiles.TPR, "--select", "protein and name CA", "--json"]
    raw = run_kinema(*words)
    assert json.loads(raw.stdout)["max"] > 20
    assert "1 molecule is broken at the faces of the periodic cell in frame 0" in raw.stderr
    assert "--pbc whole makes them whole" in raw.stderr
    whole = run_kinema(*words, "--pbc", "whole")
    assert 1.9 < json.loads(whole.stdout)["max"] < 2.0
    assert "broken" not in whole.stderr


def test_convert_gives_the_same_bytes_for_any_number_of_workers(run_kinema, files, tmp_path):
    words = ["convert", files.xtc, "-s", datafiles.TPR, "--pbc", "mol", "--ur", "compact", "--center"]
    words += ["--fit", "rot+trans", "--fit-group", "name CA", "--stop", "4"]
    for workers in (1, 3):
        done = run_kinema(*words, "-o", tmp_path / f"{workers}.xtc", "-j", workers)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "1.xtc").read_bytes() == (tmp_path / "3.xtc").read_bytes()
    after = run_kinema("rmsd", tmp_path / "1.xtc", "-s", datafiles.TPR, "--select", "name CA", "--json")
    assert json.loads(after.stdout)["max"] < 2.0
    checked = run_kinema("check", tmp_path / "1.xtc", "-s", datafiles.TPR, "--json")
    assert not any("broken" in note for note in json.loads(checked.stdout)["notes"])


def test_jumps_are_counted_by_the_workers_of_the_command_and_as_asked(run_kinema, files, tmp_path):
    words = [
        "rgyr",
        files.xtc,
        "-s",
        datafiles.TPR,
        "--select",
        "resname SOL and resid 3000:3010",
        "--no-stored",
        "--json",
    ]
    words += ["--pbc", "nojump", "--step", "3"]
    every = run_kinema(*words, "--runner", "processes", "-j", 2, "--checkpoint", tmp_path / "run.ckpt")
    assert every.returncode == 0, every.stderr
    assert not list(tmp_path.glob("run.ckpt*"))
    again = run_kinema(*words)
    assert json.loads(every.stdout)["mean"] == json.loads(again.stdout)["mean"]
    alone = run_kinema(*words, "--nojump-count", "selected", "--nojump-reference", datafiles.GRO)
    assert "jumps are counted between the 4 selected frames of 10 alone" in alone.stderr
    assert json.loads(alone.stdout)["frames_used"] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pbc", "hole"], "--pbc takes whole, nojump, cluster, mol, res, atom"),
        (["--pbc", "mol,res"], "--pbc puts one of mol, res, atom into the cell"),
        (["--ur", "compact"], "--ur is the shape of the cell"),
        (["--pbc", "cluster"], "--pbc cluster keeps the molecules of --cluster-group together"),
        (["--pbc", "mol", "--nojump-count", "selected"], "--nojump-count is of --pbc nojump; add it"),
        (["--fit-group", "protein"], "--fit-group is the group that --fit superposes"),
    ],
)
def test_words_that_do_not_fit_are_refused(run_kinema, files, words, said):
    done = run_kinema("rgyr", files.xtc, "-s", datafiles.TPR, *words)
    assert done.returncode == 2
    assert said in done.stderr
