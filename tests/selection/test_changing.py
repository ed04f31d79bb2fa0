"""Selections that change with the frame: each word, random trees and edges, as MDAnalysis' updating groups."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinema as kn
from kinema import _core
from kinema.base.notes import collected
from kinema.model.selection.changing import resolve
from kinema.testing import write_dcd
from kinema.testing.analyses import write_solvated_peptide
from kinema.testing.programs.imports import lazy
from kinema.trajectory.changing_groups import members, selection_that_may_change

MDAnalysis = lazy("MDAnalysis")

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
]

WORDS = [
    "name OH2 and around 3.5 segid PEP",
    "around 3.5 name OH2",
    "isolayer 2.5 4 segid PEP",
    "sphzone 6.5 resid 3 and segid PEP",
    "sphlayer 3 7.5 segid PEP",
    "cyzone 5 6 -4 segid PEP",
    "cylayer 2 6 4 -5 segid PEP",
    "point 1.5 -2 12.5 6",
    "prop x > 3.25",
    "prop abs z <= 3",
    "prop 3 < y",
    "prop y >= -1",
    "prop z != 0.5",
    "prop z == 1.5",
    "same x as name CA",
    "same residue as around 3 name OH2",
    "same resname as sphzone 4 index 5",
    "same segment as (around 3 index 5 and not index 8)",
    "same fragment as around 3 name CA",
    "same mass as (sphzone 3 index 5)",
    "byres (name OH2 and around 3 name CA)",
    "bonded (name CA and prop x > 0)",
    "global around 3 resid 4",
    "not around 4 segid PEP",
    "around 3 around 3 index 40",
    "name OH2 and (prop x > 0 or not sphzone 9 segid PEP) and not around 3 prop y > 5",
    "sphzone 5 (name OH2 and prop x > 1000)",
]


@pytest.fixture(scope="module")
def peptide(tmp_path_factory):
    """A peptide with waters in a rhombic dodecahedron: trajectory and Universe."""
    topology, trajectory = write_solvated_peptide(tmp_path_factory.mktemp("peptide"), 12)
    return kn.open(trajectory, topology=topology, stored=False), MDAnalysis.Universe(topology, trajectory)


def assert_members(system, selection, frames=(0, 7, 11)):
    """The members in some frames are those of MDAnalysis; returns the selection."""
    traj, universe = system
    found = selection_that_may_change(traj, selection)
    assert found.changes
    group = universe.select_atoms(selection, updating=True)
    for frame, indices in zip(frames, members(traj, found, frames), strict=True):
        universe.trajectory[frame]
        np.testing.assert_array_equal(indices, group.indices, err_msg=f"{selection} in frame {frame}")
        assert np.isin(indices, found.indices).all()
    return found


@pytest.mark.parametrize("selection", WORDS)
def test_each_word(peptide, selection):
    assert_members(peptide, selection)


def test_only_atoms_that_matter_are_read(peptide):
    traj, universe = peptide
    found = selection_that_may_change(traj, "name OH2 and around 3.5 segid PEP")
    np.testing.assert_array_equal(found.indices, universe.select_atoms("name OH2").indices)
    group = _core.ChangingGroup(traj.n_atoms, found.expression)
    np.testing.assert_array_equal(group.atoms, universe.select_atoms("name OH2 or segid PEP").indices)


SYSTEMS = {
    "dodecahedron": (
        ("GRO", "XTC"),
        (9,),
        [
            "name OW and around 3.5 resid 3-5",
            "sphlayer 4 8 (resid 1 or resid 30)",
            "cyzone 16 14 -13 resid 50",
            "byres around 3 resid 7",
            "name OW and cylayer 12 26 24 -24 protein and not point 30 40 50 16",
        ],
    ),
    "hexagonal": (("PSF_NAMD_TRICLINIC", "DCD_NAMD_TRICLINIC"), (0,), ["around 3.5 index 5", "cyzone 8 6 -6 index 50"]),
    "hexagonal membrane": (("GRO_MEMPROT", "XTC_MEMPROT"), (4,), ["cyzone 30 40 -40 protein", "isolayer 2 3 resid 5"]),
    "no cell": (("PSF", "DCD"), (0, 97), ["around 3.5 resid 5", "sphzone 9 protein", "cyzone 9 4 -5 protein"]),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_of_mdanalysis(name):
    datafiles = pytest.importorskip("MDAnalysisTests.datafiles")
    names, frames, selections = SYSTEMS[name]
    topology, trajectory = (getattr(datafiles, one) for one in names)
    with collected():
        system = kn.open(trajectory, topology=topology, stored=False), MDAnalysis.Universe(topology, trajectory)
        for selection in selections:
            assert_members(system, selection, frames)


def trees():
    """Selections of any depth."""
    radius = st.sampled_from(["2.5", "3", "4.5", "7"])
    leaf = st.sampled_from(["name OH2", "segid PEP", "resid 3", "name CA", "index 5", "name C*"])
    leaf |= st.builds("prop {} {} {}".format, st.sampled_from("xyz"), st.sampled_from(["<", ">="]), radius)
    leaf |= st.builds("point 1 2 3 {}".format, radius)

    def grown(inner):
        of = inner.map("({})".format)
        return (
            st.builds("{} and {}".format, of, of)
            | st.builds("{} or {}".format, of, of)
            | of.map("not {}".format)
            | st.builds("{} {}".format, st.sampled_from(["byres", "same residue as", "same x as", "global"]), of)
            | st.builds("{} {} {}".format, st.sampled_from(["around", "sphzone"]), radius, of)
            | st.builds("{} {} {} {}".format, st.sampled_from(["isolayer", "sphlayer"]), st.just("1.5"), radius, of)
            | st.builds("cyzone {} 5 -3 {}".format, radius, of)
            | st.builds("cylayer 1 {} 5 -3 {}".format, radius, of)
        )

    return st.recursive(leaf, grown, max_leaves=6)


@given(trees(), st.integers(0, 11))
def test_random_trees(peptide, selection, frame):
    traj, universe = peptide
    universe.trajectory[frame]
    expected = universe.select_atoms(selection).indices
    try:
        found = selection_that_may_change(traj, selection)
    except kn.ArgumentError as error:
        assert "no atoms" in str(error) and not len(expected)
        return
    indices = members(traj, found, [frame])[0] if found.changes else found.indices
    np.testing.assert_array_equal(indices, expected)


# -- edges -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def edges(tmp_path_factory):
    """Atoms at whole numbers along the axes of a cube of 16 angstrom; a function of a selection gives its members."""
    places = np.array(
        [
            [0, 0, 0],
            [0, 0, 0],
            [3, 0, 0],
            [-3, 0, 0],
            [13, 0, 0],
            [0, 4, 0],
            [0, 0, 4],
            [0, 0, -4],
            [3, 4, 0],
            [8, 0, 0],
        ]
    )
    path = tmp_path_factory.mktemp("edges") / "edges.dcd"
    write_dcd(path, places[None].astype(np.float32), cell=16 * np.eye(3, dtype=np.float32)[None])
    universe = MDAnalysis.Universe.empty(len(places), trajectory=True)
    universe.add_TopologyAttr("names", [f"A{i}" for i in range(len(places))])
    traj = kn.open(path, topology=universe, stored=False)
    same = MDAnalysis.Universe.empty(len(places), trajectory=True)
    same.add_TopologyAttr("names", universe.atoms.names)
    same.atoms.positions = places
    same.dimensions = [16, 16, 16, 90, 90, 90]

    def found(selection):
        chosen = selection_that_may_change(traj, selection)
        indices = members(traj, chosen, [0])[0].tolist()
        assert indices == same.select_atoms(selection).indices.tolist()
        return indices

    return found


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        # the cutoff counts, the reference does not, and an atom at its place does
        ("around 3 index 0", [1, 2, 3, 4]),
        ("around 2.9999 index 0", [1]),
        ("isolayer 3 4 index 0", [5, 6, 7]),
        ("sphzone 3 index 0", [0, 1, 2, 3, 4]),
        ("sphlayer 3 4 index 0", [5, 6, 7]),
        ("sphlayer 0 3 index 0", [2, 3, 4]),
        ("point 0 0 0 4", [0, 1, 2, 3, 4, 5, 6, 7]),
        # faces of cylinders do not count
        ("cyzone 3 4 -4 index 0", [0, 1]),
        ("cyzone 3.1 4.1 -4 index 0", [0, 1, 2, 3, 4, 6]),
        ("cylayer 3 5 1 -1 index 0", [5]),
        ("cylayer 0 5 1 -1 index 0", [2, 3, 4, 5]),
        ("prop x >= 3", [2, 4, 8, 9]),
        ("prop x > 3", [4, 9]),
        ("prop x == 3", [2, 8]),
        ("prop 3 > x", [0, 1, 2, 3, 5, 6, 7, 8]),
        ("same y as index 5", [5, 8]),
        # two images are equally near
        ("around 8 (index 9)", [0, 1, 2, 3, 4, 8]),
    ],
)
def test_edges(edges, selection, expected):
    assert edges(selection) == expected


def test_a_cylinder_in_a_cell_that_is_turned(tmp_path):
    """An atom is inside if one of its images is: all of them tried."""
    random = np.random.default_rng(3)
    turned = np.linalg.qr(random.normal(size=(3, 3)))[0]
    cell = np.array([[11.0, 0, 0], [3, 12, 0], [-4, 5, 10]]) @ turned
    positions = random.uniform(-30, 30, (300, 3)).astype(np.float32)
    group = _core.ChangingGroup(300, ("cylinder", ("atoms", np.zeros(1, np.uint32)), 1.5, 5.0, -4.0, 7.5))
    found = group.members(positions[None], cell[None], np.ones((1, 3), bool))[0]
    counts = np.array([*itertools.product(range(-9, 10), repeat=3)])
    images = (positions - positions[0])[:, None].astype(np.float64) + counts @ cell
    radius, z = np.hypot(images[..., 0], images[..., 1]), images[..., 2]
    inside = ((radius > 1.5) & (radius < 5.0) & (z > -4.0) & (z < 7.5)).any(axis=1)
    np.testing.assert_array_equal(found, np.flatnonzero(inside))


# -- how they are given ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "selection"),
    [
        ((3.5, "segid PEP", "name OH2"), "name OH2 and around 3.5 segid PEP"),
        ((4.0, "resid 3"), "around 4 resid 3"),
        ((3.5, "segid PEP", "name OH2", "residues"), "byres (name OH2 and around 3.5 segid PEP)"),
        ((3.0, [0, 1, 2], "prop x > 0", "segments"), "same segment as (prop x > 0 and around 3 index 0 1 2)"),
        ((3.0, kn.within(2.0, "index 5")), "around 3 around 2 index 5"),
    ],
)
def test_within(peptide, arguments, selection):
    traj, universe = peptide
    found = selection_that_may_change(traj, kn.within(*arguments))
    universe.trajectory[7]
    np.testing.assert_array_equal(members(traj, found, [7])[0], universe.select_atoms(selection).indices)


def test_updating_groups(peptide):
    traj, universe = peptide
    base = universe.select_atoms("name OH2 CA or prop x > 2", updating=True)
    for group in (
        universe.select_atoms("around 3.5 segid PEP", updating=True),
        universe.select_atoms("name O*").select_atoms("not around 3 (name CA or resid 4)", updating=True),
        base.select_atoms("around 4 resid 3 or global name N", updating=True),
        base.select_atoms("byres (name CA or prop y > 3) and not global resid 4", updating=True),
    ):
        found = selection_that_may_change(traj, group)
        for frame in (0, 11):
            universe.trajectory[frame]
            np.testing.assert_array_equal(members(traj, found, [frame])[0], np.unique(group.indices))
    for group, reason in (
        (universe.select_atoms("around 3 resid 3", "name CA", updating=True), "several selections"),
        (universe.select_atoms("around 3 resid 3", periodic=False, updating=True), "periodic=False"),
    ):
        with pytest.raises(kn.ArgumentError, match=reason):
            selection_that_may_change(traj, group)


def test_the_atoms_of_one_frame(peptide):
    traj, universe = peptide
    universe.trajectory[7]
    found = traj.select("name OH2 and around 3.5 segid PEP", frame=7)
    np.testing.assert_array_equal(found.indices, universe.select_atoms("name OH2 and around 3.5 segid PEP").indices)
    assert not found.changes and "in frame 7" in found.description
    assert traj.read(frames=[0], select=found).shape == (1, len(found), 3)
    np.testing.assert_array_equal(traj.select("name CA", frame=3).indices, traj.select("name CA").indices)


def test_trees_have_the_attributes_that_are_read():
    """`selection_tree` reads attributes of MDAnalysis that are not public."""
    from MDAnalysis.core.selection import Parser

    def parsed(text):
        return Parser.parse(text, {}, periodic=True)

    both = parsed("name CA and name CB")
    assert (both.lsel.token, both.rsel.token) == ("name", "name")
    assert parsed("not byres around 3.5 name CA").sel.sel.cutoff == 3.5
    for text, values in (
        ("sphlayer 1 2 name CA", {"inRadius": 1, "exRadius": 2}),
        ("isolayer 1 2 name CA", {"inRadius": 1, "exRadius": 2}),
        ("cyzone 3 2 -1 name CA", {"exRadius": 3, "zmax": 2, "zmin": -1}),
        ("cylayer 1 3 2 -1 name CA", {"inRadius": 1, "exRadius": 3, "zmax": 2, "zmin": -1}),
        ("same x as name CA", {"prop": "x"}),
        ("prop abs x == 3", {"prop": "x", "absolute": True, "value": 3}),
    ):
        node = parsed(text)
        assert {name: getattr(node, name) for name in values} == values
        assert text.startswith("prop") or node.sel.token == "name"
    assert parsed("prop x == 3").operator.func is np.isclose
    assert parsed("prop x == 3").operator.keywords == {"atol": 1e-8, "rtol": 1e-5}
    assert parsed("point 1 2 3 4").ref.tolist() == [1, 2, 3]
    assert {one: parsed(f"prop x {one} 3").operator for one in ("<", "<=", ">", ">=", "!=")} == {
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
        "!=": np.not_equal,
    }


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        ("around 0 name CA", "cutoff of 'around' must be above 0 and finite, found 0"),
        ("around -2 name CA", "found -2"),
        ("sphzone nan name CA", "cutoff of 'sphzone' must be above 0 and finite, found nan"),
        ("point 1 2 inf 4", "numbers of 'point' must be finite"),
        ("isolayer 0 3 name CA", "inner radius of 'isolayer' must be above 0"),
        ("cyzone 0 4 -4 name CA", "radius of 'cyzone'"),
        ("cyzone 3 inf -4 name CA", "numbers of 'cyzone' must be finite"),
        ("name XX and around 3 name CA", "no atoms in any frame"),
        ("around 3", "not understood by MDAnalysis"),
        ("around name CA", "not understood by MDAnalysis"),
        ("same charm as around 3 name CA", "not understood by MDAnalysis"),
        ("same radius as around 3 name CA", "radi"),
    ],
)
def test_bad_selections(peptide, selection, reason):
    with pytest.raises(kn.ArgumentError, match=reason):
        selection_that_may_change(peptide[0], selection)


def test_bad_arguments_of_within(peptide):
    for cutoff in (0, -1.0, np.inf, np.nan, "3"):
        with pytest.raises(kn.ArgumentError, match="cutoff of within is a finite number above 0"):
            kn.within(cutoff, "protein")
    with pytest.raises(kn.ArgumentError, match="whole"):
        kn.within(3.0, "protein", whole="atoms")
    with pytest.raises(kn.ArgumentError, match="object of within, which depends on coordinates"):
        peptide[0].select(kn.within(3.0, "segid PEP"))
    with pytest.raises(kn.ArgumentError, match="needs a topology"):
        resolve("around 3 name CA", 5, None)


def test_positions_that_are_not_finite_and_cells_without_volume(tmp_path):
    group = _core.ChangingGroup(3, ("near", ("atoms", np.zeros(1, np.uint32)), None, 2.0))
    positions, cell, periodic = np.zeros((1, 3, 3), np.float32), np.eye(3)[None] * 9, np.ones((1, 3), bool)
    with pytest.raises(kn.ArgumentError, match="span no volume"):
        group.members(positions, np.ones((1, 3, 3)), periodic)
    positions[0, 1, 2] = np.nan
    with pytest.raises(kn.CorruptFileError, match=r"atom 2 \(counted from 1\) is not finite"):
        group.members(positions, cell, periodic)


@pytest.mark.parametrize(
    "expression",
    [
        (),
        ("around", ("atoms", np.zeros(1, np.uint32)), 3.0),
        ("atoms", np.array([9], np.uint32)),
        ("near", ("atoms", np.zeros(1, np.uint32)), None, np.inf),
        ("share", ("atoms", np.zeros(1, np.uint32)), np.array([0, 1, 7], np.uint32)),
        ("bonded", ("atoms", np.zeros(1, np.uint32)), np.array([[0, 5]], np.uint32)),
        ("coordinate", 3, False, "<", 0.0, 0.0),
        ("coordinate", 0, False, "=", 0.0, 0.0),
    ],
)
def test_expressions_that_do_not_fit(expression):
    with pytest.raises((kn.ArgumentError, kn.OutOfRangeError)):
        _core.ChangingGroup(3, expression)
