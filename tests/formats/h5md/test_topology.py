"""Topologies out of HDF5 files: GROMACS' molecule blocks, species, ids, connectivity, MDTraj's JSON."""

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.formats.h5md import H5mdOptions, topology_of
from kinema.testing.h5md_files import CASES, add_element, start_h5md, walk, write_gromacs_topology

N = 5
BY_NAME = {case.name: case for case in CASES}


def made(tmp_path, fill, creator="a test", n_frames=3):
    """A file whose particles group `fill(root, group)` completes."""
    path = tmp_path / "made.h5md"
    with h5py.File(path, "w") as file:
        root = start_h5md(file, creator=creator)
        group = root.create_group("particles/all")
        add_element(group, "position", walk(n_frames, N), steps=np.arange(n_frames), times=0.5, unit="nm")
        fill(root, group)
    return path


def test_gromacs_blocks_are_expanded(tmp_path):
    path = tmp_path / "gromacs.h5md"
    BY_NAME["gromacs"].write(path)
    found = topology_of(path)
    assert found.names.tolist() == ["NA", *["OW", "HW1", "HW2"] * 2]
    assert found.elements.tolist() == ["Na", *["O", "H", "H"] * 2]
    assert found.residue_names.tolist() == ["NA", "SOL", "SOL"]
    assert found.residue_ids.tolist() == [1, 2, 3]
    assert found.residues.tolist() == [0, 1, 1, 1, 2, 2, 2]
    assert found.molecules.tolist() == [0, 1, 1, 1, 2, 2, 2]
    np.testing.assert_allclose(found.masses, [22.99, *[15.999, 1.008, 1.008] * 2])
    np.testing.assert_allclose(found.charges, [1, *[-0.834, 0.417, 0.417] * 2])
    assert found.bonds.tolist() == [[1, 2], [1, 3], [4, 5], [4, 6]]
    universe = found.to_universe()
    assert universe.select_atoms("resname SOL and name OW").indices.tolist() == [1, 4]
    assert universe.select_atoms("bonded name OW").indices.tolist() == [2, 3, 5, 6]
    assert universe.atoms.segids.tolist() == ["NA", *["SOL"] * 6]
    assert universe.atoms.molnums.tolist() == [0, 1, 1, 1, 2, 2, 2]


def test_a_trajectory_needs_no_topology_file(tmp_path):
    path = tmp_path / "gromacs.h5md"
    expected = BY_NAME["gromacs"].write(path)
    traj = kn.open(path, absent="nan", stored=False)
    water = traj.select("resname SOL and element O")
    assert water.indices.tolist() == [1, 4]
    np.testing.assert_allclose(traj.read(select=water), expected.positions[:, [1, 4]], rtol=1e-6)
    assert traj[3:5].select("name NA").indices.tolist() == [0]
    np.testing.assert_allclose(traj.topology.masses(water.indices), 15.999)
    assert traj.topology_name == str(path)
    rgyr = kn.analysis.RadiusOfGyration(traj, select="resname SOL").run()
    assert len(rgyr.results.rgyr) == traj.n_frames


def test_a_given_topology_counts_more(tmp_path, adk_dcd):
    path = tmp_path / "gromacs.h5md"
    BY_NAME["gromacs"].write(path)
    traj = kn.open(path, adk_dcd.topology, absent="nan", stored=False)
    with pytest.raises(kn.ArgumentError, match=r"has 3341 atoms, but trajectory .* has 7"):
        traj.select("name CA")


def test_proteins_keep_their_numbers_and_waters_are_numbered_on(tmp_path):
    def fill(root, group):
        write_gromacs_topology(root, 1)
        module = root["h5md/modules/gromacs_topology"]
        del module["NA"]
        ion = module.create_group("NA")  # two residues in one molecule: not renumbered
        ion["mass"], ion["residue_id"] = [1.0, 2.0], [40, 41]
        ion["particle_name"], ion["particle_name_table"] = [0, 0], np.array(["X"], h5py.string_dtype())
        ion["residue_name"], ion["residue_name_table"] = [0, 1], np.array([b"ALA", b"GLY"])

    found = topology_of(made(tmp_path, fill))
    assert found.residue_ids.tolist() == [40, 41, 42]
    assert found.residue_names.tolist() == ["ALA", "GLY", "SOL"]
    assert found.names.tolist() == ["X", "X", "OW", "HW1", "HW2"]
    assert found.elements is None  # one type has none
    assert found.masses.tolist() == [1.0, 2.0, 15.999, 1.008, 1.008]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda module: module.attrs.__setitem__("molecule_block_counts", np.array([1, 3], np.int32)), "10 atoms"),
        (lambda module: module.attrs.__setitem__("version", np.array([7, 0])), "version"),
        (lambda module: module.attrs.__delitem__("molecule_block_counts"), "no usable list"),
    ],
)
def test_a_module_that_does_not_fit_is_not_used(tmp_path, damage, message):
    def fill(root, group):
        write_gromacs_topology(root, 1)
        group["mass"] = np.arange(N) + 1.0
        damage(root["h5md/modules/gromacs_topology"])
        del root["connectivity"]

    found = topology_of(made(tmp_path, fill))
    assert found.names is None
    assert found.masses.tolist() == [1, 2, 3, 4, 5]
    assert any(message in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda module: module.__delitem__("SOL"), "no molecule type 'SOL'"),
        (lambda module: module["SOL/particle_name"].__setitem__(0, 7), "index beyond the 3 names"),
        (lambda module: module.move("SOL/species", "species"), None),
    ],
)
def test_a_damaged_module(tmp_path, damage, message):
    def fill(root, group):
        write_gromacs_topology(root, 1)
        group.move("position", "old")
        add_element(group, "position", walk(3, 4), steps=np.arange(3), times=0.5, unit="nm")
        damage(root["h5md/modules/gromacs_topology"])

    path = made(tmp_path, fill)
    if message is None:
        assert topology_of(path).elements is None
        return
    with pytest.raises(kn.CorruptFileError, match=message) as raised:
        topology_of(path)
    assert raised.value.path == str(path)


def test_fields_of_the_group(tmp_path):
    def fill(root, group):
        group.create_dataset("mass", data=np.array([1, 2, 3, 4, 5], ">f4")).attrs["unit"] = "10-3 kg mol-1"
        group["charge"] = np.array([0, 1, -1, 0.5, 0])
        group["species"] = np.array([1, 1, 2, 2, 3])

    found = topology_of(made(tmp_path, fill))
    assert found.masses.tolist() == [1, 2, 3, 4, 5]
    assert found.charges.tolist() == [0, 1, -1, 0.5, 0]
    assert found.types.tolist() == ["1", "1", "2", "2", "3"]
    assert found.elements is None  # atom types of a program, not atomic numbers
    assert found.to_universe().select_atoms("type 2").indices.tolist() == [2, 3]


def test_species_as_enumeration(tmp_path):
    kind = h5py.enum_dtype({"H": 1, "CL": 17, "Na": 11}, basetype="i1")

    def fill(root, group):
        group.create_dataset("species", data=np.array([1, 17, 11, 1, 1], "i1"), dtype=kind)

    found = topology_of(made(tmp_path, fill))
    assert found.types.tolist() == ["H", "CL", "Na", "H", "H"]
    assert found.elements.tolist() == ["H", "Cl", "Na", "H", "H"]
    np.testing.assert_allclose(found.to_universe().atoms.masses[1], 35.45, atol=0.01)  # guessed by MDAnalysis


def test_enumeration_of_other_names(tmp_path):
    kind = h5py.enum_dtype({"polymer": 0, "solvent": 1}, basetype="i4")

    def fill(root, group):
        group.create_dataset("species", data=np.array([0, 0, 1, 1, 1]), dtype=kind)

    found = topology_of(made(tmp_path, fill))
    assert found.elements is None
    assert found.to_universe().select_atoms("type solvent").indices.tolist() == [2, 3, 4]


@pytest.mark.parametrize("changes", [False, True])
def test_mass_that_changes_with_time(tmp_path, changes):
    masses = np.tile(np.arange(1.0, N + 1), (3, 1))
    masses[2, 1] += changes

    def fill(root, group):
        add_element(group, "mass", masses, steps=np.arange(3))

    found = topology_of(made(tmp_path, fill))
    assert found.masses.tolist() == [1, 2, 3, 4, 5]
    assert any("changes with time: its first row is taken" in warning for warning in found.warnings) == changes


def test_values_follow_the_ids(tmp_path):
    order = np.array([[4, 0, 2, 1, 3], [0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])

    def fill(root, group):
        add_element(group, "id", 10 + order, steps=np.arange(3))
        add_element(group, "mass", 1.0 + order, steps=np.arange(3))
        group["charge"] = np.zeros(N)

    path = made(tmp_path, fill)
    found = topology_of(path)
    assert found.ids.tolist() == [10, 11, 12, 13, 14]
    assert found.masses.tolist() == [1, 2, 3, 4, 5]
    assert found.charges is None
    assert any("charge does not follow the particles" in warning for warning in found.warnings)
    positions = kn.open(path, stored=False).read()
    np.testing.assert_allclose(positions[1], walk(3, N)[1] * 10, rtol=1e-6)
    np.testing.assert_allclose(positions[0][order[0]], walk(3, N)[0] * 10, rtol=1e-6)


@pytest.mark.parametrize("referenced", ["this", "other", None])
def test_connectivity(tmp_path, referenced):
    def fill(root, group):
        other = root.create_group("particles/other")
        bonds = root.create_dataset("connectivity/bonds", data=[[0, 1], [1, 2]])
        root.create_dataset("connectivity/angles", data=[[0, 1, 2]])
        root["connectivity/text"] = "no tuples"
        if referenced is not None:
            bonds.attrs["particles_group"] = (group if referenced == "this" else other).ref

    found = topology_of(made(tmp_path, fill))
    names = dict(found.connectivity)
    assert ("bonds" in names) == (referenced != "other")
    assert names["angles"].tolist() == [[0, 1, 2]]
    if referenced != "other":
        assert found.bonds.tolist() == [[0, 1], [1, 2]]
        assert len(found.to_universe().angles) == 1


def test_connectivity_by_id_with_fill_values(tmp_path):
    def fill(root, group):
        group["id"] = np.array([30, 10, 20, 50, 40])
        root.create_dataset("connectivity/bonds", data=[[10, 20], [-1, -1], [50, 30]], fillvalue=-1)

    found = topology_of(made(tmp_path, fill))
    assert found.bonds.tolist() == [[1, 2], [3, 0]]
    assert found.to_universe().atoms.ids.tolist() == [30, 10, 20, 50, 40]


def test_connectivity_that_changes_with_time(tmp_path):
    def fill(root, group):
        add_element(root.create_group("connectivity"), "bonds", [[[0, 1]], [[1, 2]]], steps=[0, 2])

    found = topology_of(made(tmp_path, fill))
    assert found.bonds.tolist() == [[0, 1]]
    assert any("changes with time" in warning for warning in found.warnings)


@pytest.mark.parametrize("ids", [None, [1, 2, 3, 4, 5]])
def test_connectivity_beyond_the_group(tmp_path, ids):
    def fill(root, group):
        if ids is not None:
            group["id"] = ids
        root["connectivity/bonds"] = [[0, 1], [2, 99]]

    with pytest.raises(kn.CorruptFileError, match=r"names (a particle|particles)"):
        topology_of(made(tmp_path, fill))


def test_mdtraj(tmp_path):
    path = tmp_path / "mdtraj.h5"
    BY_NAME["mdtraj"].write(path)
    found = topology_of(path)
    assert found.names.tolist() == [f"C{i}" for i in range(N)]
    assert found.residue_ids.tolist() == [4]
    assert found.bonds.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert kn.open(path, stored=False).select("protein and name C2").indices.tolist() == [2]


@pytest.mark.parametrize("text", ["{", "{}", '{"chains": 3}', '{"chains": [{"residues": [{"atoms": [{}]}]}]}', "[1]"])
def test_mdtraj_with_damaged_json(tmp_path, text):
    path = tmp_path / "mdtraj.h5"
    BY_NAME["mdtraj"].write(path)
    with h5py.File(path, "r+") as file:
        del file["topology"]
        file["topology"] = np.array([text.encode()])
    with pytest.raises(kn.CorruptFileError, match="topology is not MDTraj's JSON"):
        topology_of(path)


def test_files_without_topology(tmp_path):
    path = tmp_path / "bare.h5"
    BY_NAME["bare_3d"].write(path)
    assert topology_of(path, H5mdOptions(dataset="some/pos")) is None
    traj = kn.open(path, dataset="some/pos", stored=False)
    assert traj.topology is None
    with pytest.raises(kn.ArgumentError, match="topology"):
        traj.select("name CA")
