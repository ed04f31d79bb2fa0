"""Selecting atoms: every kind of argument, and what is refused."""

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
]


@pytest.fixture(scope="module")
def adk(adk_dcd):
    return kn.open(adk_dcd.trajectory, topology=adk_dcd.topology, stored=False)


@pytest.fixture(scope="module")
def universe(adk_dcd):
    return pytest.importorskip("MDAnalysis").Universe(*adk_dcd)


@pytest.mark.parametrize(
    "string",
    [
        "protein and name CA",
        "backbone or name CB",
        "resid 10-20 and not name H*",
        "same residue as name CB",
        "byres name CB",
        "bynum 1:10",
        "prop mass > 12",
        "bonded name CA",
        "segid 4AKE and (resname LYS or resname ARG)",
        "all",
        "global name CA",
        "same mass as name CA",
    ],
)
def test_selection_strings(adk, universe, string):
    found = adk.select(string)
    expected = universe.select_atoms(string)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.description == string
    assert len(found) == found.n_atoms == expected.n_atoms
    if string != "all":
        np.testing.assert_array_equal(found.names, expected.names)


@pytest.mark.parametrize(
    ("string", "reason"),
    [
        ("around 5 protein", "around"),
        ("name CA and around 5 resid 3", "around"),
        ("not (name CA or (protein and sphzone 6 resid 3))", "sphzone"),
        ("byres around 3 resid 1", "around"),
        ("sphlayer 2 6 resid 3", "sphlayer"),
        ("isolayer 2 6 resid 3", "isolayer"),
        ("cyzone 15 4 -8 protein", "cyzone"),
        ("cylayer 5 10 10 -8 protein", "cylayer"),
        ("point 5.0 5.0 5.0 3.5", "point"),
        ("prop x > 3", "prop x"),
        ("prop abs z <= 3", "prop z"),
        ("protein and prop 3 < y", "prop y"),
        ("same x as name CA", "same x"),
        ("global around 3 resid 1", "around"),
        ("same residue as around 3 resid 1", "around"),
        ("bonded around 3 resid 1", "around"),
    ],
)
def test_selections_that_change_are_refused(adk, string, reason):
    with pytest.raises(kn.ArgumentError, match=f"depends on coordinates .'{reason}'.: .*do(es)? not freeze"):
        adk.select(string)


def test_every_geometric_keyword_of_mdanalysis_is_refused():
    """A keyword that MDAnalysis adds, and that uses positions, must be added to the list."""
    import inspect

    from MDAnalysis.core import selection

    from kinema.model.selection_tree import GEOMETRIC_KEYWORDS

    geometry = {"positions", "distances", "capped_distance", "center_of_geometry", "self.ref", "dimensions"}
    for token, cls in selection._SELECTIONDICT.items():
        try:
            source = inspect.getsource(cls)
        except (OSError, TypeError):  # made at run time for an attribute of the topology
            continue
        if any(word in source for word in geometry) and token.lower() not in ("prop", "same"):
            assert token.lower() in GEOMETRIC_KEYWORDS, token


def test_updating_group_is_refused(adk, universe):
    for group in (
        universe.select_atoms("around 5 resid 3", updating=True),
        universe.select_atoms("name CA", updating=True),
    ):
        with pytest.raises(kn.ArgumentError, match="updating atom group"):
            adk.select(group)


def test_atom_groups(adk, universe):
    group = universe.select_atoms("name CA")[::-1]
    found = adk.select(group)
    np.testing.assert_array_equal(found.indices, group.indices)
    np.testing.assert_array_equal(adk.read(frames=[0], select=group)[0], group.positions)
    assert not found.ascending
    other = pytest.importorskip("MDAnalysis").Universe.empty(5)
    with pytest.raises(kn.ArgumentError, match="universe of 5 atoms, but the trajectory has 3341"):
        adk.select(other.atoms)


def test_strings_that_are_not_understood(adk, small):
    for string in ("name", "nonsense 3", "name CA and", "(name CA", "charg > 3"):
        with pytest.raises(kn.ArgumentError, match="is not understood by MDAnalysis|names no atoms"):  # noqa: RUF043
            adk.select(string)
    with pytest.raises(kn.ArgumentError, match="the selection is an empty text"):
        adk.select("")
    with pytest.raises(kn.ArgumentError, match=r"names no atoms of .*adk\.psf"):
        adk.select("name XX")
    with pytest.raises(kn.ArgumentError, match="needs a topology"):
        small.select("name CA")
    assert len(small.select("all")) == 15


def test_indices_and_masks(small):
    np.testing.assert_array_equal(small.select([5, 2, 2, 9]).indices, [5, 2, 2, 9])
    np.testing.assert_array_equal(small.select(range(3, 7)).indices, [3, 4, 5, 6])
    np.testing.assert_array_equal(small.select(np.arange(15) % 5 == 2).indices, [2, 7, 12])
    np.testing.assert_array_equal(small.select(np.array([3], dtype=np.int8)).indices, [3])
    assert len(small.select()) == 15
    selection = small.select([1, 2])
    assert small.select(selection).indices.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        selection.indices[0] = 3


@pytest.mark.parametrize(
    ("select", "error", "message"),
    [
        ([], kn.ArgumentError, "names no atoms"),
        (np.zeros(15, dtype=bool), kn.ArgumentError, "names no atoms"),
        ([True] * 14, kn.ArgumentError, "expected 15 values, found 14"),
        ([3, -1], kn.ArgumentError, "never negative, found -1"),
        ([3, 15], IndexError, "atom index 15 is out of range, the trajectory has 15 atoms .0 to 14."),
        ([1.5], kn.ArgumentError, "float64"),
        ([[1, 2]], kn.ArgumentError, "one dimension"),
        (3.5, kn.ArgumentError, "found float"),
        (b"name CA", kn.ArgumentError, "found bytes"),
    ],
)
def test_wrong_indices(small, select, error, message):
    with pytest.raises(error, match=message):
        small.select(select)


NDX = """[ System ]
   1    2    3    4
   5
[ C-alpha ]
; a comment
12 3 ; another
[ Empty ]
[ C-alpha ]
1
"""


def test_index_files(small, tmp_path):
    path = tmp_path / "index.ndx"
    path.write_text(NDX)
    found = small.select(index_file=path, group="C-alpha")
    np.testing.assert_array_equal(found.indices, [11, 2])
    assert found.description.startswith("group 'C-alpha' of ")
    for arguments, message in (
        ({}, "has 3 groups, say which with group=: 'System', 'C-alpha', 'Empty'"),
        ({"group": "CA"}, "has no group 'CA', its groups are 'System'"),
        ({"group": "Empty"}, "names no atoms"),
        ({"group": "System", "select": [1]}, "cannot be combined"),
    ):
        with pytest.raises(kn.ArgumentError, match=message):
            small.select(index_file=path, **arguments)
    with pytest.raises(kn.ArgumentError, match="give index_file"):
        small.select(group="System")
    with pytest.raises(FileNotFoundError, match="cannot read the index file"):
        small.select(index_file=tmp_path / "none.ndx")


@pytest.mark.parametrize(
    "text", ["1 2 3\n", "[ a\n1\n", "[ a ]\n0 1\n", "[ a ]\n1 x\n", "[ a ]\n-1\n", "", "[ a ]\n99\n"]
)
def test_wrong_index_files(small, tmp_path, text):
    path = tmp_path / "index.ndx"
    path.write_text(text)
    with pytest.raises(kn.Error, match=r"index\.ndx"):
        small.select(index_file=path)


def test_results_are_in_the_order_of_the_selection(small):
    order = [9, 2, 14, 0, 7]
    mixed, rising = (kn.analysis.RMSF(small, select=atoms, align="average").run() for atoms in (order, sorted(order)))
    places = np.searchsorted(sorted(order), order)
    np.testing.assert_array_equal(mixed.results.rmsf, rising.results.rmsf[places])
    np.testing.assert_array_equal(mixed.results.mean_positions, rising.results.mean_positions[places])
    weights = np.array([1.0, 12.0, 14.0, 16.0, 32.0])
    for analysis in (kn.analysis.RMSD, kn.analysis.RadiusOfGyration):
        in_order = analysis(small, select=order, weights=weights[places]).run()
        sorted_atoms = analysis(small, select=sorted(order), weights=weights).run()
        np.testing.assert_array_equal(in_order.results.values, sorted_atoms.results.values)
    seen = kn.analysis.from_function(lambda frame: frame.positions, small, order).run()
    np.testing.assert_array_equal(seen.results.values, small.read(select=order))


def test_a_selection_is_taken_as_it_is_or_refused(small, tmp_path):
    chosen = small.select([3, 1])
    assert small.select(chosen) is chosen
    write_dcd(tmp_path / "three.dcd", random_walk(2, 3))
    with pytest.raises(kn.OutOfRangeError, match="atom index 3 is out of range"):
        kn.open(tmp_path / "three.dcd", stored=False).select(chosen)


def test_atoms_of_an_index_file_are_counted_as_the_file_does(small, tmp_path):
    (tmp_path / "index.ndx").write_text("[ beyond ]\n1 16\n[ twice ]\n4 4 5\n")
    with pytest.raises(kn.OutOfRangeError) as caught:
        small.select(index_file=tmp_path / "index.ndx", group="beyond")
    said = str(caught.value)
    assert said.endswith("atom 16 (counted from 1) is out of range, the trajectory has 15 atoms (1 to 15)")
    with pytest.raises(kn.ArgumentError, match=r"names atom 4 \(counted from 1\) twice"):
        small.select(index_file=tmp_path / "index.ndx", group="twice").check_unique()
    # one that is taken to a smaller trajectory still counts so
    write_dcd(tmp_path / "three.dcd", random_walk(2, 3))
    chosen = small.select(index_file=tmp_path / "index.ndx", group="twice")
    with pytest.raises(kn.OutOfRangeError, match=r"atom 5 \(counted from 1\) is out of range"):
        kn.open(tmp_path / "three.dcd", stored=False).select(chosen)
