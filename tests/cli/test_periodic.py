"""`--pbc` and the options beside it, on raw output of GROMACS."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

import kinema as kn
from kinema.model import topology
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")


@pytest.fixture(autouse=True, scope="module")
def loaded_once():
    """MDAnalysis decodes each file of 47,681 atoms once for all tests: nothing changes a Universe that was loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topology, "_load", functools.cache(topology._load))
        yield


def test_a_broken_protein_is_noted_and_made_whole(run_kinema, files):
    words = ["rmsd", files.xtc, "-s", datafiles.TPR, "--select", "protein and name CA", "--json"]
    raw = run_kinema(*words)
    assert json.loads(raw.stdout)["max"] > 20
    assert "1 molecule is broken at the faces of the periodic cell in frame 0" in raw.stderr
    assert "--pbc whole (transforms.whole) makes them whole" in raw.stderr
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


@pytest.mark.processes
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
        (["--pbc", "hole"], "--pbc takes whole, nojump, displacement, cluster, mol, res, atom"),
        (["--pbc", "mol,res"], "--pbc puts one of mol, res, atom into the cell"),
        (["--ur", "compact"], "--ur is the shape of the cell"),
        (["--pbc", "cluster"], "--pbc cluster keeps the molecules of --cluster-group together"),
        (["--pbc", "mol", "--nojump-count", "selected"], "--nojump-count is of --pbc nojump; add it"),
        (["--fit-group", "protein"], "--fit-group is the group that --fit superposes"),
        (["--center", "--center-group", "Lid"], "--center-group: selection 'Lid' is not understood"),
    ],
)
def test_words_that_do_not_fit_are_refused(run_kinema, files, words, said):
    done = run_kinema("rgyr", files.xtc, "-s", datafiles.TPR, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_files_that_are_followed(run_kinema, files, tmp_path):
    words = ["rmsd", files.xtc, "-s", datafiles.TPR, "--select", "protein and name CA", "--stop", "3"]
    periodic = ["--pbc", "mol", "--center", "--fit", "rot+trans"]
    for name, more in (("alone.csv", []), ("followed.csv", ["--follow", "--until", "4"])):
        done = run_kinema(*words, *periodic, *more, "-o", tmp_path / name)
        assert done.returncode == 0, done.stderr
    rows = [line for line in (tmp_path / "alone.csv").read_text().splitlines() if not line.startswith("#")]
    followed = (tmp_path / "followed.csv").read_text().splitlines()
    assert [line for line in followed if not line.startswith("#")] == rows
    raw = run_kinema(*words, "--follow", "--until", "1")
    assert "1 molecule is broken at the faces of the periodic cell in frame 0" in raw.stderr
    for more, said in (
        (["--pbc", "whole,nojump"], "--pbc nojump is made by a pass over all frames"),
        (["--fit", "trans", "--on-rewind", "restart"], "--fit is made of the first frame"),
    ):
        done = run_kinema(*words, "--follow", *more)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_check_looks_at_all_frames_or_at_some(run_kinema, files):
    made = np.repeat(kn.open(files.xtc, stored=False).read([0]), 40, axis=0)
    whole = kn.open(files.xtc, datafiles.TPR, stored=False).with_transform(kn.transforms.whole()).read([0])[0]
    cell = kn.open(files.xtc, stored=False)[0].cell
    made[:] = whole
    # in frames that a sample does not have
    made[[23, 24], 3341] += cell[0].astype(np.float32)
    made[24, 3345] += cell[1].astype(np.float32)
    path = files.xtc.parent / "made.xtc"
    with kn.Writer(path, len(whole)) as writer:
        writer.write(made, cell=np.broadcast_to(cell, (40, 3, 3)), time=np.arange(40.0))
    words = ["check", path, "-s", datafiles.TPR, "--json"]
    found = json.loads(run_kinema(*words).stdout)
    expected = {"frame": 23, "broken": 1, "frames": 2, "seen": 40, "most": 2, "guessed": False}
    assert (found["broken"], found["problems"]) == ({str(path): expected}, [])
    (note,) = found["notes"]
    assert "1 molecule is broken" in note and "some (at most 2) in 2 of 40 frames that were looked at" in note
    quick = json.loads(run_kinema(*words, "--quick").stdout)
    assert (quick["broken"], quick["notes"]) == ({}, [f"{path}: coordinates of 18 of 40 frames were looked at"])


def test_check_of_one_file(files):
    """Without a process of its own."""
    with pytest.warns(kn.Note, match="does not have the bonds of all molecules: broken ones were not looked for"):
        assert kn.check(files.xtc, files.gro, quick=True).broken == {}
    with pytest.warns(kn.Note, match="1 molecule is broken"):
        report = kn.check(files.xtc, files.gro, bonds=datafiles.TPR, select="protein")
    assert report.ok
    assert report.broken[str(files.xtc)].frames == 10
    assert kn.check(files.xtc, datafiles.TPR, select="resname SOL").broken == {}
    with pytest.raises(kn.ArgumentError, match="selection 'protein' needs a topology"):
        kn.check(files.xtc, select="protein")
    with pytest.raises(kn.ArgumentError, match="which coordinates=False leaves out"):
        kn.check(files.xtc, coordinates=False, quick=True)


@pytest.mark.parametrize("name", ["RMSD", "RMSF", "RadiusOfGyration", "EndToEnd", "Centers"])
def test_broken_molecules_are_noted_in_python(files, name):
    traj = kn.open(files.xtc, topology=datafiles.TPR, stored=False)
    analysis = getattr(kn.analysis, name)(traj, select="protein and name CA")
    with pytest.warns(kn.Note, match="1 molecule is broken at the faces of the periodic cell in frame 0"):
        analysis.run(stop=2)
    assert any("transforms.whole" in note for note in analysis.notes)
    whole = traj.with_transform(kn.transforms.whole())
    made = getattr(kn.analysis, name)(whole, select="protein and name CA").run(stop=2)
    assert not any("broken" in note for note in made.notes)


def test_broken_molecules_are_looked_for_once(files, monkeypatch):
    from kinema.trajectory import broken_molecules as broken

    traj = kn.open(files.xtc, topology=datafiles.TPR, stored=False)
    looks = []
    find = broken.find_broken
    monkeypatch.setattr(broken, "find_broken", lambda *given: looks.append(given[2]) or find(*given))
    for stop in (10, 5, 1):
        analyses = [kn.analysis.RMSD(traj, select="protein"), kn.analysis.RadiusOfGyration(traj, select="protein")]
        kn.run(analyses, stop=stop)
        assert all(any("broken" in note for note in one.notes) for one in analyses)
    assert [len(frames) for frames in looks] == [10]
    near = kn.analysis.Distances(traj, pairs=[[0, 100]]).run(stop=1)
    assert not any("broken" in note for note in near.notes)
    far = kn.analysis.Distances(traj, pairs=[[0, 100]], minimum_image=False).run(stop=1)
    assert any("broken" in note for note in far.notes)


def test_without_bonds_they_are_guessed_for_the_look(run_kinema, files):
    words = ("rmsd", "-s", datafiles.GRO, "-f", files.xtc, "--json", "--no-stored")
    found = run_kinema(*words, "--select", "protein and name CA")
    assert "1 molecule is broken" in found.stderr
    assert "by bonds guessed of distances" in found.stderr
    whole = run_kinema(*words, "--select", "protein and name CA", "--pbc", "whole", "--bonds", "guess")
    assert 1.9 < json.loads(whole.stdout)["max"] < 2.0
    assert "broken" not in whole.stderr
    # waters stand together in these frames
    assert "broken" not in run_kinema(*words, "--select", "resname SOL and resid 300:320").stderr


def test_a_look_that_is_not_possible_is_noted(files, coarse):
    nothing = kn.open(files.xtc, stored=False)
    with pytest.warns(kn.Note, match="nobody looked for broken molecules: nothing says which atoms are bonded.*-s"):
        kn.analysis.RadiusOfGyration(nothing, weights=None).run(stop=1)
    analysis = kn.analysis.RadiusOfGyration(coarse, weights=None).run()
    assert any("too few of its atoms are near enough" in note for note in analysis.notes)
    # one atom is whole, and so is what has no cell
    assert not kn.analysis.RadiusOfGyration(nothing, select=[0], weights=None).run(stop=1).notes
    without_cell = kn.analysis.RadiusOfGyration(kn.open(datafiles.DCD), weights=None).run(stop=1)
    assert not any("molecules" in note for note in without_cell.notes)


@pytest.fixture
def coarse(tmp_path):
    """Beads of residues without bonds, 3.5 angstrom apart in a cell."""
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(12, 6, atom_resindex=np.repeat(np.arange(6), 2), trajectory=True)
    universe.add_TopologyAttr("names", ["BB", "SC1"] * 6)
    universe.add_TopologyAttr("resnames", ["ALA"] * 6)
    universe.add_TopologyAttr("resids", np.arange(1, 7))
    universe.atoms.positions = np.arange(12)[:, None] * np.array([3.5, 0, 0])
    universe.dimensions = [60, 60, 60, 90, 90, 90]
    path = str(tmp_path / "coarse.gro")
    universe.atoms.write(path)
    return kn.open(path, topology=path, stored=False)


def test_superposition_of_broken_molecules_is_noted(run_kinema, files, tmp_path):
    words = ("convert", "-s", datafiles.TPR, files.xtc, "-o", tmp_path / "fitted.xtc", "--stop", "1", "--force")
    fitted = run_kinema(*words, "--fit", "rot+trans", "--fit-group", "protein and name CA")
    assert "1 molecule is broken at" in fitted.stderr
    whole = run_kinema(*words, "--pbc", "whole", "--fit", "rot+trans", "--fit-group", "protein and name CA")
    assert "broken at" not in whole.stderr
    traj = kn.open(files.xtc, topology=datafiles.TPR, stored=False)
    with pytest.warns(kn.Note, match="1 molecule is broken"):
        traj.with_transform(kn.transforms.superpose("name CA"))


def test_the_largest_molecule_is_known_of_bonds(run_kinema, files, tmp_path):
    words = ("convert", "-s", datafiles.GRO, files.xtc, "-o", tmp_path / "centred.xtc", "--stop", "1", "--force")
    refused = run_kinema(*words, "--pbc", "mol", "--center")
    assert refused.returncode == 2
    assert "which molecule is the largest is known of bonds" in refused.stderr
    centred = run_kinema(*words, "--pbc", "mol", "--center", "--bonds", "guess")
    assert "it is the largest molecule, 3341 atoms from atom 1 on" in centred.stderr


def test_references_are_made_whole_on_the_command_line(run_kinema, files, tmp_path):
    """A reference of all atoms, and one of the protein alone, both broken; 22 angstrom if they are used as stored."""
    MDAnalysis.Universe(datafiles.GRO).select_atoms("protein").write(tmp_path / "protein.gro")
    words = ("-s", datafiles.TPR, "-f", files.xtc, "--select", "protein and name CA", "--pbc", "whole", "--json")
    for reference in (datafiles.GRO, tmp_path / "protein.gro"):
        rmsd = json.loads(run_kinema("rmsd", *words, "--reference", reference).stdout)
        assert rmsd["mean"] == pytest.approx(1.515, abs=1e-3)
        assert not [note for note in rmsd["notes"] if "match by masses" not in note]
        rmsf = json.loads(run_kinema("rmsf", *words, "--align", "reference", "--reference", reference).stdout)
        assert rmsf["mean"] < 1.1


def test_frames_are_fitted_on_a_reference_structure(run_kinema, files, tmp_path):
    """Whole in the reference as in the frames, both of which are broken in their files."""
    fitted, frames = tmp_path / "fitted.xtc", tmp_path / "frames.txt"
    frames.write_text("200.0\n0.0\n")
    words = ("convert", "-s", datafiles.TPR, files.xtc, "-o", fitted, "--frames", frames, "--pbc", "whole")
    assert "--reference is the structure that --fit" in run_kinema(*words, "--reference", datafiles.GRO).stderr
    done = run_kinema(*words, "--fit", "rot+trans", "--fit-group", "name CA", "--reference", datafiles.GRO)
    assert done.returncode == 0, done.stderr
    traj = kn.open(files.xtc, topology=datafiles.TPR, stored=False).with_transform(kn.transforms.whole())
    expected = kn.analysis.RMSD(traj, "name CA", reference=datafiles.GRO).run(frames=[2, 0]).results.values
    written = kn.open(fitted, topology=datafiles.TPR, stored=False)
    moved = kn.transforms.superpose("name CA", reference=datafiles.GRO)
    np.testing.assert_allclose(written.read(), traj.with_transform(moved).read([2, 0]), atol=0.006)
    assert not np.allclose(written.read()[0], traj.read([2])[0], atol=1)
    found = kn.analysis.RMSD(written.with_transform(kn.transforms.whole()), "name CA", reference=datafiles.GRO)
    np.testing.assert_allclose(found.run().results.values, expected, atol=0.006)
    assert run_kinema(*words, "--dump", "1", "--force").stderr.startswith("kinema: --dump is one frame")
    followed = run_kinema("rmsd", files.xtc, "--frames", "1,2", "--follow", "--follow-timeout", "1")
    assert "--frames lists existing frames" in followed.stderr
