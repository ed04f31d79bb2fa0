"""Counts and other numbers of groups that change with the frame, as MDAnalysis' updating groups; refusals; notes."""

import json

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import ANALYSES
from kinema.base.notes import collected
from kinema.cli.in_process import call_kinema
from kinema.testing import random_walk, write_dcd
from kinema.testing.analyses import write_solvated_peptide
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
]

NEAR = "name OH2 and around 4.5 (segid PEP and name CA CB)"
# no atom in some frames
FEW = "name OH2 and around 2.55 resid 3"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_solvated_peptide(tmp_path_factory.mktemp("peptide"), 40)


@pytest.fixture
def traj(files):
    return kn.open(files[1], topology=files[0], stored=False)


def expected(files, selection, value):
    """A value of MDAnalysis' updating group in each frame."""
    universe = MDAnalysis.Universe(*files)
    group = universe.select_atoms(selection, updating=True)
    return np.array([value(group) for _ in universe.trajectory])


@pytest.mark.parametrize("selection", [NEAR, "byres (name OH2 and around 4.5 name N*)", "prop x > 2 and not segid PEP"])
def test_counts(files, traj, selection):
    atoms = kn.analysis.AtomCount(traj, selection).run()
    assert atoms.results.count.dtype == np.int64 and atoms.notes == traj.notes
    np.testing.assert_array_equal(atoms.results.count, expected(files, selection, lambda group: group.n_atoms))
    residues = kn.analysis.AtomCount(traj, selection, by="residue").run()
    np.testing.assert_array_equal(residues.results.count, expected(files, selection, lambda group: group.n_residues))


def test_numbers_of_the_group(files, traj):
    def shape(group):
        return [group.radius_of_gyration(), *np.sort(group.gyration_moments()), group.asphericity()]

    selection = "byres (name OH2 and around 3.5 segid PEP)"
    radius = kn.analysis.RadiusOfGyration(traj, selection).run().results
    gyration = kn.analysis.Gyration(traj, selection).run().results
    values = expected(files, selection, shape)
    np.testing.assert_allclose(radius.rgyr, values[:, 0], rtol=1e-5)
    found = np.column_stack([gyration.rgyr, gyration.gyration_moments, gyration.relative_shape_anisotropy])
    np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-6)
    for weights, of in (("mass", lambda group: group.center_of_mass()), (None, lambda group: group.centroid())):
        centers = kn.analysis.Centers(traj, selection, weights=weights).run().results
        np.testing.assert_allclose(centers.centers[:, 0], expected(files, selection, of), atol=1e-4)
    axes = kn.analysis.RadiusOfGyration(traj, selection, axes=True).run().results
    np.testing.assert_array_equal(axes.rgyr, radius.rgyr)


def test_a_group_that_does_not_change_has_the_bits_of_atoms(traj):
    """`prop` that always holds makes a changing group of fixed atoms."""
    same = "name CA and prop x > -1000"
    for analysis in (kn.analysis.RadiusOfGyration, kn.analysis.Gyration, kn.analysis.Centers):
        changing, fixed = analysis(traj, same).run(), analysis(traj, "name CA").run()
        np.testing.assert_array_equal(changing.results.values, fixed.results.values)


def test_frames_without_atoms(files, traj):
    with pytest.warns(kn.Note, match="names no atoms in frame"):
        count = kn.analysis.AtomCount(traj, FEW).run()
    numbers = expected(files, FEW, lambda group: group.n_atoms)
    first = np.flatnonzero(numbers == 0)[0]
    assert 0 < np.count_nonzero(numbers) < len(numbers)
    np.testing.assert_array_equal(count.results.count, numbers)
    assert sum("names no atoms" in note for note in count.notes) == 1
    assert f"names no atoms in frame {first}: the value of such frames is 0" in count.notes[-1]
    with pytest.warns(kn.Note, match=f"in frame {first}: the value of such frames is nan"):
        centers = kn.analysis.Centers(traj, FEW).run()
    np.testing.assert_array_equal(np.isnan(centers.results.centers[:, 0, 0]), numbers == 0)
    for analysis in (kn.analysis.RadiusOfGyration, kn.analysis.Gyration):
        with pytest.warns(kn.Note, match="the value of such frames is nan"):
            values = analysis(traj, FEW).run().results.values
        assert np.isnan(values[numbers == 0]).all() and np.isfinite(values[numbers > 1]).all()


def test_rows_in_a_file_have_the_same_note(traj, tmp_path):
    with pytest.warns(kn.Note, match="names no atoms in frame"):
        in_file = kn.analysis.AtomCount(traj, FEW).run(out=tmp_path / "count.h5")
    with collected():
        in_memory = kn.analysis.AtomCount(traj, FEW).run()
    assert in_file.notes == in_memory.notes
    np.testing.assert_array_equal(np.asarray(in_file.results.count), in_memory.results.count)


@pytest.mark.parametrize("kwargs", [{}, {"runner": "threads", "workers": 3}, {"access": "frame"}])
def test_the_same_on_all_ways(traj, kwargs, tmp_path):
    with collected():
        made = [kn.analysis.AtomCount(traj, NEAR), kn.analysis.Centers(traj, FEW)]
        alone = [kn.analysis.AtomCount(traj, NEAR), kn.analysis.Centers(traj, FEW)]
        kn.run(made, **kwargs)
        for one, other in zip(made, alone, strict=True):
            np.testing.assert_array_equal(one.results.values, other.run(runner="serial").results.values)


def test_who_does_not_take_them(traj, tmp_path):
    why = "depends on coordinates .'around'.: .* column for each atom, residue or pair, read and convert need the same"
    others = {"count", "centers", "rgyr", "gyration", "neighbors", "mindist", "hbonds"}
    others |= {"coordination", "density", "rdf", "shells", "water-bridges"}
    refusing = [name for name, analysis in ANALYSES.items() if not analysis.takes_changing]
    assert set(ANALYSES) == others | set(refusing)
    for make in (
        lambda: kn.analysis.RMSF(traj, NEAR),
        lambda: kn.analysis.RMSD(traj, NEAR),
        lambda: kn.analysis.Ramachandran(traj, NEAR),
        lambda: kn.analysis.SaltBridges(traj, acidic=NEAR),
        lambda: traj.read(select=NEAR),
        lambda: kn.convert(traj, tmp_path / "out.xtc", select=NEAR),
    ):
        with pytest.raises(kn.ArgumentError, match=why):
            make()
    with pytest.raises(kn.ArgumentError, match="compound='residues' has columns for each of the residues"):
        kn.analysis.Centers(traj, NEAR, compound="residues")


def test_weights_are_of_the_atoms_that_can_be_in_it(traj):
    n_atoms = traj.select("name OH2").n_atoms
    weights = np.linspace(1, 2, n_atoms)
    weighted = kn.analysis.Centers(traj, "name OH2 and around 4 segid PEP", weights=weights).run()
    assert np.isfinite(weighted.results.values).all()
    with pytest.raises(kn.ArgumentError, match=f"one number an atom, expected {n_atoms}"):
        kn.analysis.Centers(traj, "name OH2 and around 4 segid PEP", weights=weights[1:])


def test_notes_on_the_cell_and_on_broken_references(tmp_path, adk_dcd):
    traj = kn.open(adk_dcd.trajectory, topology=adk_dcd.topology, stored=False)
    with pytest.warns(kn.Note, match="frame 0 has no periodic cell"):
        count = kn.analysis.AtomCount(traj, "name CA and around 6 resid 1").run(stop=3)
    assert sum("no periodic cell" in note for note in count.notes) == 1
    with pytest.warns(kn.Note, match="same atoms in all frames"):
        kn.analysis.AtomCount(traj, "name CA").run(stop=2)
    with collected() as notes:
        kn.analysis.AtomCount(traj[90:], "name CA and around 6 resid 1").run()
    assert any("frame 90 has no periodic cell" in note for note in notes)
    # a peptide in a cell that cuts it
    topology, trajectory = write_solvated_peptide(tmp_path, 4)
    universe = MDAnalysis.Universe(topology, trajectory)
    wrapped = tmp_path / "wrapped.dcd"
    with MDAnalysis.Writer(str(wrapped), len(universe.atoms)) as writer:
        for _ in universe.trajectory:
            universe.atoms.wrap()
            writer.write(universe.atoms)
    traj = kn.open(wrapped, topology=topology, stored=False)
    with pytest.warns(kn.Note, match="broken at the faces .* the centre of the reference in"):
        kn.analysis.AtomCount(traj, "name OH2 and sphzone 6 segid PEP").run()
    assert not any("broken" in note for note in kn.analysis.AtomCount(traj, NEAR).run().notes)


def test_positions_that_are_not_finite(tmp_path):
    walk = random_walk(5, 4)
    walk[3, 2, 1] = np.nan
    write_dcd(tmp_path / "walk.dcd", walk, cell=np.broadcast_to(30 * np.eye(3, dtype=np.float32), (5, 3, 3)))
    traj = kn.open(tmp_path / "walk.dcd", topology=MDAnalysis.Universe.empty(4), stored=False)
    with pytest.raises(kn.CorruptFileError, match=r"frame 3.*atom 3 \(counted from 1\) is not finite"):
        kn.analysis.AtomCount(traj, "prop x > 0").run()


def test_a_cylinder_that_does_not_fit(traj):
    with pytest.raises(kn.ArgumentError, match="diameter of a cylinder must fit into the cell"):
        kn.analysis.AtomCount(traj, "cyzone 13 5 -5 segid PEP").run()


def test_the_command(files, tmp_path):
    words = ["count", str(files[1]), "-s", str(files[0]), "--select", NEAR, "--no-stored", "--json"]
    done = call_kinema(*words, "--by", "residue", "-o", tmp_path / "count.csv")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["quantity"] == f"number of residues with an atom of {NEAR!r}"
    table = (tmp_path / "count.csv").read_text()
    assert NEAR in table and "frame,time (ps),count" in table
    rows = [line.split(",") for line in table.splitlines() if line[0].isdigit()]
    numbers = expected(files, NEAR, lambda group: group.n_residues)
    assert [int(row[-1]) for row in rows] == numbers.tolist()
    refused = call_kinema("rmsf", files[1], "-s", files[0], "--select", NEAR, "--no-stored")
    assert refused.returncode == 2 and f"selection {NEAR!r} depends on coordinates" in refused.stderr
