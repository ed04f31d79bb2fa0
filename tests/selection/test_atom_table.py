"""`Atoms`: columns that are there, missing or guessed; tables of other tables; what comes from MDAnalysis."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinema as kn
from kinema.model.atom_table import COLUMNS, TUPLES
from kinema.model.topology import Topology
from kinema.testing import atom_tables

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
]


@pytest.fixture(scope="module")
def universe(adk_dcd):
    return pytest.importorskip("MDAnalysis").Universe(adk_dcd.topology)


@pytest.fixture
def water():
    return kn.Atoms(
        6,
        names=["OW", "HW1", "HW2"] * 2,
        types=["O", "H", "H"] * 2,
        resids=[1, 1, 1, 2, 2, 2],
        masses=[16, 1, 1] * 2,
        bonds=[[0, 1], [0, 2], [3, 4], [3, 5]],
        angles=[[1, 0, 2], [4, 3, 5]],
    )


# -- columns --------------------------------------------------------------------------------------------------------


def test_columns(water):
    assert water.columns == ("names", "types", "masses", "resids", "resindices", "bonds", "angles")
    assert (len(water), water.n_atoms) == (6, 6)
    assert water.masses.dtype == np.float64 and water.bonds.dtype == np.int64
    assert water.resindices.tolist() == [0, 0, 0, 1, 1, 1]
    assert water.get("charges") is None
    for column in water.columns:
        with pytest.raises(ValueError, match="read-only"):
            getattr(water, column)[:1] = getattr(water, column)[:1]
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(water, column, None)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_asked_for_by_name(column):
    atoms = kn.Atoms(3, name="top.psf")
    with pytest.raises(
        kn.ArgumentError, match=rf"^top\.psf has no {column} \(.*give a topology .*topology= \(-s\).*{column}=\.\.\.\)$"
    ):
        getattr(atoms, column)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"names": ["a", "b"]}, r"names have shape \(2,\) and type <U1, expected \(3,\) of text"),
        ({"names": [1, 2, 3]}, "names have .* int64, expected .* of text"),
        ({"names": np.array(["a", None, "b"], object)}, "names have .* of text"),
        ({"masses": ["1", "2", "3"]}, "masses have .* of numbers"),
        ({"resids": [1.0, 2.0, 3.0]}, "resids have .* float64, expected .* of whole numbers"),
        ({"bonds": [[0, 1, 2]]}, r"bonds have shape \(1, 3\) .* expected \(m, 2\)"),
        ({"bonds": [[0, 3]]}, "bonds name atoms from 0 to 3, expected 0 to 2"),
        ({"angles": [[0, 1, -1]]}, "angles name atoms from -1 to 1"),
        ({"mass": [1, 2, 3]}, "columns of atoms are names, .*, found mass$"),
    ],
)
def test_columns_that_do_not_fit(columns, message):
    with pytest.raises(kn.ArgumentError, match=message):
        kn.Atoms(3, **columns)
    # one that is a function is checked when it is needed
    (name, values) = next(iter(columns.items()))
    if name in COLUMNS:
        atoms = kn.Atoms(3, **{name: lambda: values})
        with pytest.raises(kn.ArgumentError, match=message):
            atoms.get(name)


def test_functions_are_called_once_and_only_when_needed():
    called = []

    def masses():
        called.append("masses")
        return [1.0, 2.0]

    atoms = kn.Atoms(2, names=["a", "b"], masses=masses)
    assert atoms.columns == ("names", "masses")
    chosen = atoms[[1]]
    assert chosen.names.tolist() == ["b"] and not called
    assert chosen.masses.tolist() == [2.0] and atoms.masses.tolist() == [1.0, 2.0]
    assert called == ["masses"]


@pytest.mark.parametrize("n_atoms", [-1, 1.5, True, "3"])
def test_numbers_of_atoms(n_atoms):
    with pytest.raises(kn.ArgumentError, match="n_atoms is a whole number from 0 on"):
        kn.Atoms(n_atoms)


# -- other tables ---------------------------------------------------------------------------------------------------


def test_order_and_repeats(water):
    chosen = water[[4, 3, 0, 3, 5]]
    assert chosen.names.tolist() == ["HW1", "OW", "OW", "OW", "HW2"]
    assert chosen.resids.tolist() == [2, 2, 1, 2, 2]
    # of the atom that is there twice the first; what lost an atom is gone
    assert chosen.bonds.tolist() == [[1, 0], [1, 4]]
    assert chosen.angles.tolist() == [[0, 1, 4]]
    assert chosen.resindices.tolist() == [1, 1, 0, 1, 1]
    assert water[-2:].names.tolist() == ["HW1", "HW2"]
    assert water[water.names == "OW"].resindices.tolist() == [0, 1]
    with pytest.raises(kn.OutOfRangeError, match="has 6 atoms: index 6 is out of bounds"):
        water[[6]]
    for key in (3, "names", [[1, 2]], None, np.ones(5, bool), [1.5]):
        with pytest.raises(kn.ArgumentError, match="a mask with a value for each of the 6 atoms, or a list of numbers"):
            water[key]


@given(atoms=atom_tables(unique_ids=False), data=st.data())
def test_a_choice_of_a_choice_is_a_choice(atoms, data):
    number = st.integers(0, atoms.n_atoms - 1)
    outer = np.array(data.draw(st.lists(number, min_size=1, max_size=10)))
    inner = np.array(data.draw(st.lists(st.integers(0, len(outer) - 1), min_size=1, max_size=10, unique=True)))
    once, twice = atoms[outer[inner]], atoms[outer][inner]
    assert once.guessed == atoms.guessed and once.columns == atoms.columns
    for column in atoms.columns:
        if column not in TUPLES or len(np.unique(outer)) == len(outer):
            np.testing.assert_array_equal(once.get(column), twice.get(column))
    assert atoms[:] == atoms[np.arange(atoms.n_atoms)]
    assert pickle.loads(pickle.dumps(atoms)) == atoms


@given(atoms=atom_tables(unique_ids=False), data=st.data())
def test_tuples_join_the_atoms_that_they_did(atoms, data):
    rows = np.array(data.draw(st.lists(st.integers(0, atoms.n_atoms - 1), min_size=1, unique=True)))
    for column in atoms.columns:
        if column in TUPLES:
            before, after = atoms.get(column), rows[atoms[rows].get(column)]
            assert after.tolist() == [one for one in before.tolist() if set(one) <= set(rows.tolist())]


def test_replaced_columns(water):
    guessed = water.with_guessed(masses=[1] * 6)
    assert guessed.guessed == {"masses"} and guessed != water.replace(masses=[1] * 6)
    stated = guessed.replace(masses=[2] * 6, types=None)
    assert stated.guessed == set() and "types" not in stated.columns and stated.masses.tolist() == [2] * 6
    # residues follow the columns that say where they begin, until they are stated
    assert water.replace(resids=range(6)).resindices.tolist() == [0, 1, 2, 3, 4, 5]
    assert water.replace(resindices=[0] * 6).replace(resids=range(6)).resindices.tolist() == [0] * 6
    assert water != 3


# -- MDAnalysis -----------------------------------------------------------------------------------------------------


def test_what_comes_from_a_universe(universe):
    atoms = kn.Atoms.from_mdanalysis(universe)
    assert not atoms.guessed
    for column in ("names", "types", "masses", "charges", "ids", "resids", "resnames", "segids", "resindices"):
        np.testing.assert_array_equal(getattr(atoms, column), getattr(universe.atoms, column))
    for column in TUPLES:
        np.testing.assert_array_equal(getattr(atoms, column), getattr(universe, column).indices)
    assert "elements" not in atoms.columns


@pytest.mark.parametrize("types", [None, ["b", "a", "a", "a", "a"]])
def test_bonds_in_any_order_and_twice(types):
    universe = pytest.importorskip("MDAnalysis").Universe.empty(6, trajectory=False)
    universe.add_TopologyAttr("bonds", [(5, 3), (0, 1), (3, 5), (1, 0), (0, 2)])
    if types is not None:
        universe._topology.bonds.types = types
    bonds = kn.Atoms.from_mdanalysis(universe).bonds
    np.testing.assert_array_equal(bonds, universe.bonds.indices)
    assert bonds.tolist() == [[0, 1], [0, 2], [3, 5]]
    assert kn.Atoms.from_mdanalysis(universe.atoms[[5, 3, 0]]).bonds.tolist() == [[1, 0]]
    universe.delete_bonds([(3, 5)])
    universe.add_bonds([(4, 3)])
    assert kn.Atoms.from_mdanalysis(universe).bonds.tolist() == [[0, 1], [0, 2], [3, 4]]


def test_what_comes_from_a_group(universe):
    group = universe.select_atoms("resid 5:9")[::-2]
    rows = np.r_[group.indices, group.indices[:3]]
    atoms, whole = kn.Atoms.from_mdanalysis(universe.atoms[rows]), kn.Atoms.from_mdanalysis(universe)
    assert atoms == whole[rows]
    assert len(atoms.bonds) and atoms.bonds.max() < len(group)
    assert atoms.resindices.tolist()[:3] == [4, 4, 4]
    with pytest.raises(kn.ArgumentError, match="taken of a Universe or an AtomGroup, found str"):
        kn.Atoms.from_mdanalysis("top.psf")


def test_an_updating_group_is_frozen(adk_dcd):
    universe = pytest.importorskip("MDAnalysis").Universe(*adk_dcd)
    group = universe.select_atoms("around 4 resid 3", updating=True)
    atoms, expected = kn.Atoms.from_mdanalysis(group), group.ids.copy()
    universe.trajectory[50]
    assert not np.array_equal(group.ids, expected)
    np.testing.assert_array_equal(atoms.ids, expected)


def test_guessed_columns_are_known_and_noted(adk_dcd):
    datafiles = pytest.importorskip("MDAnalysisTests.datafiles")
    atoms = kn.read_atoms(datafiles.GRO)
    assert atoms.guessed == {"types", "masses"}
    few = atoms[atoms.names == "CA"]
    with pytest.warns(kn.Note, match=r"gro: masses of 214 atoms were guessed by MDAnalysis, type C$"):
        assert set(few.mass_weights()) == {12.011}
    assert kn.read_atoms(adk_dcd.topology).mass_notes() == []


@given(atoms=atom_tables(unique_ids=False))
def test_a_universe_of_a_table_is_that_table(atoms):
    """But for what MDAnalysis holds by residue: there one of an atom that differs from the residue's first is lost."""
    by_residue = ("resids", "resnames", "icodes", "segids", "molnums")
    atoms = atoms.replace(**dict.fromkeys((*by_residue, "resindices")))
    found = kn.Atoms.from_mdanalysis(Topology(atoms).universe)
    known = [column for column in atoms.columns if column not in (*TUPLES, "resindices")]
    for column in known:
        np.testing.assert_array_equal(found.get(column), atoms.get(column))
        if column in ("types", "elements", "masses"):
            assert (column in found.guessed) == (column in atoms.guessed)


def test_a_topology_of_a_table(water):
    topology = Topology(water)
    assert topology.name == "the table of atoms" and topology.atoms is water and topology.n_atoms == 6
    assert topology.select("name HW* and resid 2").tolist() == [4, 5]
    assert topology.select("bonded name HW1").tolist() == [0, 3]
    again = pickle.loads(pickle.dumps(topology))
    assert again.atoms == water and again.same_source(topology)
    # the table of a Universe is built each time, because the Universe may be changed
    topology = Topology(topology.universe)
    topology.universe.atoms[0].name = "X"
    assert topology.atoms.names[0] == "X" and water.names[0] == "OW"


# -- trajectories ---------------------------------------------------------------------------------------------------


def test_atoms_of_a_trajectory(adk_dcd, small):
    traj = kn.open(adk_dcd.trajectory, adk_dcd.topology, stored=False)
    assert traj.atoms == kn.read_atoms(adk_dcd.topology) == traj[::7].atoms
    chosen = traj.select("name CA and resid 20:22")
    assert traj.atoms[chosen].resids.tolist() == [20, 21, 22]
    assert traj.atoms[chosen] == traj.atoms[traj.topology.universe.atoms[chosen.indices]]
    with pytest.raises(kn.ArgumentError, match=r"nothing is known of its atoms .* topology= \(-s\)"):
        _ = small.atoms
    with pytest.raises(kn.ArgumentError, match=r"has 3341 atoms, but trajectory .* has 15"):
        _ = kn.open(small.paths[0], topology=adk_dcd.topology, stored=False).atoms
    with pytest.raises(kn.FileNotFound, match="no such topology file"):
        kn.read_atoms("none.psf")


@pytest.mark.parametrize(
    ("masses", "message"),
    [
        (None, "has no masses; give weights=None"),
        ([1, -1], "not usable"),
        ([1, np.nan], "not usable"),
        ([0, 0], "not usable"),
    ],
)
def test_masses_that_are_no_weights(masses, message):
    with pytest.raises(kn.ArgumentError, match=message):
        kn.Atoms(2, masses=masses).mass_weights()
