"""Shells of waters: distances by MDAnalysis, edges by hand, bad input."""

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import write_dcd
from kinema.testing.analyses import write_solvated_peptide
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_solvated_peptide(tmp_path_factory.mktemp("peptide"), 10)


@pytest.fixture
def traj(files):
    return kn.open(files[1], topology=files[0], stored=False)


@pytest.mark.parametrize("radii", [(3.4, 5.0), (2.0, 2.5, 3.0, 40.0), 2.2])
@pytest.mark.parametrize("select", [None, "segid PEP and name C*"])
def test_least_distances_of_mdanalysis(files, traj, radii, select):
    from MDAnalysis.lib.distances import distance_array

    universe = MDAnalysis.Universe(*files)
    solute, waters = universe.select_atoms(select or "segid PEP"), universe.select_atoms("water")
    least = []
    for _ in universe.trajectory:
        distances = distance_array(solute.positions, waters.positions, box=universe.dimensions).min(axis=0)
        least.append(distances.reshape(-1, 3).min(axis=1))
    cumulative = (np.array(least)[:, None] < np.atleast_1d(radii)[:, None]).sum(axis=-1)
    found = kn.analysis.WaterShell(traj, select, radii=radii).run().results
    np.testing.assert_array_equal(found.cumulative, cumulative)
    np.testing.assert_array_equal(found.shells, np.diff(cumulative, axis=1, prepend=0))
    np.testing.assert_array_equal(found.values, np.column_stack([found.shells, found.cumulative]))
    assert found.cumulative.dtype == np.int64


@pytest.mark.parametrize(
    ("select", "waters"),
    [
        ("segid PEP and around 2.2 water", "water"),
        ("segid PEP", "water and byres around 3 (segid PEP and resid 2:4)"),
        ("(segid PEP or name OH2) and around 2.6 name H1", "name OH2 and around 4 segid PEP"),
    ],
)
def test_groups_that_change_are_those_of_each_frame(traj, select, waters):
    with collected() as notes:
        changing = kn.analysis.WaterShell(traj, select, waters, radii=(2.5, 3.4))
    assert any("are of waters, not of the solute" in note for note in notes) == ("or name OH2" in select)
    found = changing.run(runner="threads", workers=2).results
    can_be = "name OH2" if waters.startswith("name") else "water"
    solute = f"({select}) and not {can_be}"
    for frame in range(len(traj)):
        fixed = [traj.select(words, frame=frame) for words in (solute, waters)]
        alone = kn.analysis.WaterShell(traj, *fixed, radii=(2.5, 3.4)).run(start=frame, stop=frame + 1).results
        np.testing.assert_array_equal(found.values[frame], alone.values[0])
    assert found.cumulative[:, 1].min() > 0 and len(np.unique(found.cumulative[:, 1])) > 1


def test_frames_without_waters_or_solute_have_none(traj):
    few = "name OH2 and around 2.3 segid PEP"
    with pytest.warns(kn.Note, match="names no atoms in frame 0"):
        n_waters = kn.analysis.AtomCount(traj, few).run().results.count
    found = kn.analysis.WaterShell(traj, "segid PEP", few, radii=2.4).run().results
    np.testing.assert_array_equal(found.shells[:, 0], n_waters)
    with pytest.warns(kn.Note, match="no water is within 2.4 angstrom of .* in frame 0, where it may have no atoms"):
        near = kn.analysis.WaterShell(traj, "segid PEP and around 2.3 name OH2", "name OH2", radii=2.4).run().results
    np.testing.assert_array_equal(near.shells[:, 0] == 0, n_waters == 0)
    assert n_waters.min() == 0 < n_waters.max()


def test_edges(tmp_path):
    """An equal distance is outside; nearest images count; a water counts once, by its nearest atom."""
    places = np.array([[0, 0, 0], [3, 0, 0], [4, 0, 0], [-5, 0, 0], [-6, 0, 0], [16, 0, 0], [17, 0, 0]], np.float32)
    write_dcd(tmp_path / "edges.dcd", places[None], cell=20 * np.eye(3, dtype=np.float32)[None])
    universe = MDAnalysis.Universe.empty(7, 4, atom_resindex=[0, 1, 1, 2, 2, 3, 3], trajectory=True)
    universe.add_TopologyAttr("resnames", ["LIG", "SOL", "SOL", "SOL"])
    traj = kn.open(tmp_path / "edges.dcd", topology=universe, stored=False)
    found = kn.analysis.WaterShell(traj, radii=(3.0, 5.0, 5.5)).run().results
    np.testing.assert_array_equal(found.shells, [[0, 2, 1]])
    np.testing.assert_array_equal(found.cumulative, [[0, 2, 3]])


def test_columns(traj):
    shells = kn.analysis.WaterShell(traj, radii=[2.5, 6])
    table = shells.run(stop=2).table()
    assert [column.name for column in table.columns[2:]] == ["0-2.5", "2.5-6", "below_2.5", "below_6"]


def test_bad_input(traj):
    for radii in ((), (5.0, 3.4), (3.4, 3.4), (0.0, 1.0), (-1.0,), (np.nan,), "wide", [[1.0, 2.0]]):
        with pytest.raises(kn.ArgumentError, match="radii are ascending numbers above 0"):
            kn.analysis.WaterShell(traj, radii=radii)
    with pytest.raises(kn.ArgumentError, match="no atoms besides the waters"):
        kn.analysis.WaterShell(traj, "water")
    with pytest.raises(kn.ArgumentError, match="names no atoms"):
        kn.analysis.WaterShell(traj, waters="resname XYZ")
    with pytest.warns(kn.Note, match="9 atoms of .* are of waters"):
        kn.analysis.WaterShell(traj, "segid PEP or (water and resid 1:3)")


def test_no_cell_is_noted_once(tmp_path, adk_dcd):
    traj = kn.open(adk_dcd.trajectory, topology=adk_dcd.topology, stored=False)
    with pytest.warns(kn.Note, match="frame 0 has no periodic cell"):
        shells = kn.analysis.WaterShell(traj, "resid 3", waters="resid 5:9").run(stop=4)
    assert sum("no periodic cell" in note for note in shells.notes) == 1
