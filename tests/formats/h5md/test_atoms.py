"""Tables of atoms in HDF5 files: GROMACS' blocks, species, ids, connectivity, MDTraj's JSON, and round trips."""

import warnings
from itertools import count

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinema as kn
from kinema.formats.h5md import H5mdOptions, atoms_of
from kinema.model.topology import Topology
from kinema.testing import atom_tables
from kinema.testing.h5md_files import CASES, add_element, start_h5md, walk, write_gromacs_topology
from kinema.testing.strategies import examples_of_files

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

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
    found = atoms_of(path)
    assert found.names.tolist() == ["NA", *["OW", "HW1", "HW2"] * 2]
    assert found.elements.tolist() == ["Na", *["O", "H", "H"] * 2]
    assert found.resnames.tolist() == ["NA", *["SOL"] * 6]
    assert found.resids.tolist() == [1, 2, 2, 2, 3, 3, 3]
    assert found.resindices.tolist() == [0, 1, 1, 1, 2, 2, 2]
    assert found.molnums.tolist() == [0, 1, 1, 1, 2, 2, 2]
    np.testing.assert_allclose(found.masses, [22.99, *[15.999, 1.008, 1.008] * 2])
    np.testing.assert_allclose(found.charges, [1, *[-0.834, 0.417, 0.417] * 2])
    assert found.bonds.tolist() == [[1, 2], [1, 3], [4, 5], [4, 6]]
    universe = Topology(found).universe
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
    np.testing.assert_allclose(traj.atoms[water.indices].masses, 15.999)
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

    found = atoms_of(made(tmp_path, fill))
    assert found.resids.tolist() == [40, 41, 42, 42, 42]
    assert found.resnames.tolist() == ["ALA", "GLY", "SOL", "SOL", "SOL"]
    assert found.names.tolist() == ["X", "X", "OW", "HW1", "HW2"]
    assert "elements" not in found.columns  # one type has none
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

    found = atoms_of(made(tmp_path, fill))
    assert "names" not in found.columns
    assert found.masses.tolist() == [1, 2, 3, 4, 5]
    assert any(message in warning for warning in found.notes)


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
        assert "elements" not in atoms_of(path).columns
        return
    with pytest.raises(kn.CorruptFileError, match=message) as raised:
        atoms_of(path)
    assert raised.value.path == str(path)


def test_fields_of_the_group(tmp_path):
    def fill(root, group):
        group.create_dataset("mass", data=np.array([1, 2, 3, 4, 5], ">f4")).attrs["unit"] = "10-3 kg mol-1"
        group["charge"] = np.array([0, 1, -1, 0.5, 0])
        group["species"] = np.array([1, 1, 2, 2, 3])

    found = atoms_of(made(tmp_path, fill))
    assert found.masses.tolist() == [1, 2, 3, 4, 5]
    assert found.charges.tolist() == [0, 1, -1, 0.5, 0]
    assert found.types.tolist() == ["1", "1", "2", "2", "3"]
    assert "elements" not in found.columns  # atom types of a program, not atomic numbers
    assert Topology(found).universe.select_atoms("type 2").indices.tolist() == [2, 3]


def test_species_as_enumeration(tmp_path):
    kind = h5py.enum_dtype({"H": 1, "CL": 17, "Na": 11}, basetype="i1")

    def fill(root, group):
        group.create_dataset("species", data=np.array([1, 17, 11, 1, 1], "i1"), dtype=kind)

    found = atoms_of(made(tmp_path, fill))
    assert found.types.tolist() == ["H", "CL", "Na", "H", "H"]
    assert found.elements.tolist() == ["H", "Cl", "Na", "H", "H"]
    np.testing.assert_allclose(Topology(found).universe.atoms.masses[1], 35.45, atol=0.01)  # guessed by MDAnalysis


def test_enumeration_of_other_names(tmp_path):
    kind = h5py.enum_dtype({"polymer": 0, "solvent": 1}, basetype="i4")

    def fill(root, group):
        group.create_dataset("species", data=np.array([0, 0, 1, 1, 1]), dtype=kind)

    found = atoms_of(made(tmp_path, fill))
    assert "elements" not in found.columns
    assert Topology(found).universe.select_atoms("type solvent").indices.tolist() == [2, 3, 4]


@pytest.mark.parametrize("changes", [False, True])
def test_mass_that_changes_with_time(tmp_path, changes):
    masses = np.tile(np.arange(1.0, N + 1), (3, 1))
    masses[2, 1] += changes

    def fill(root, group):
        add_element(group, "mass", masses, steps=np.arange(3))

    found = atoms_of(made(tmp_path, fill))
    assert found.masses.tolist() == [1, 2, 3, 4, 5]
    assert any("changes with time: its first row is taken" in warning for warning in found.notes) == changes


def test_values_follow_the_ids(tmp_path):
    order = np.array([[4, 0, 2, 1, 3], [0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])

    def fill(root, group):
        add_element(group, "id", 10 + order, steps=np.arange(3))
        add_element(group, "mass", 1.0 + order, steps=np.arange(3))
        group["charge"] = np.zeros(N)

    path = made(tmp_path, fill)
    found = atoms_of(path)
    assert found.ids.tolist() == [10, 11, 12, 13, 14]
    assert found.masses.tolist() == [1, 2, 3, 4, 5]
    assert "charges" not in found.columns
    assert any("charge does not follow the particles" in warning for warning in found.notes)
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

    found = atoms_of(made(tmp_path, fill))
    assert ("bonds" in found.columns) == (referenced != "other")
    assert found.angles.tolist() == [[0, 1, 2]]
    if referenced != "other":
        assert found.bonds.tolist() == [[0, 1], [1, 2]]
        assert len(Topology(found).universe.angles) == 1


def test_connectivity_by_id_with_fill_values(tmp_path):
    def fill(root, group):
        group["id"] = np.array([30, 10, 20, 50, 40])
        root.create_dataset("connectivity/bonds", data=[[10, 20], [-1, -1], [50, 30]], fillvalue=-1)

    found = atoms_of(made(tmp_path, fill))
    assert found.bonds.tolist() == [[1, 2], [3, 0]]
    assert Topology(found).universe.atoms.ids.tolist() == [30, 10, 20, 50, 40]


def test_connectivity_that_changes_with_time(tmp_path):
    def fill(root, group):
        add_element(root.create_group("connectivity"), "bonds", [[[0, 1]], [[1, 2]]], steps=[0, 2])

    found = atoms_of(made(tmp_path, fill))
    assert found.bonds.tolist() == [[0, 1]]
    assert any("changes with time" in warning for warning in found.notes)


@pytest.mark.parametrize("ids", [None, [1, 2, 3, 4, 5]])
def test_connectivity_beyond_the_group(tmp_path, ids):
    def fill(root, group):
        if ids is not None:
            group["id"] = ids
        root["connectivity/bonds"] = [[0, 1], [2, 99]]

    with pytest.raises(kn.CorruptFileError, match=r"names (a particle|particles)"):
        atoms_of(made(tmp_path, fill))


def test_mdtraj(tmp_path):
    path = tmp_path / "mdtraj.h5"
    BY_NAME["mdtraj"].write(path)
    found = atoms_of(path)
    assert found.names.tolist() == [f"C{i}" for i in range(N)]
    assert found.resids.tolist() == [4] * N
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
        atoms_of(path)


def test_files_without_topology(tmp_path):
    path = tmp_path / "bare.h5"
    BY_NAME["bare_3d"].write(path)
    assert atoms_of(path, H5mdOptions(dataset="some/pos")) is None
    traj = kn.open(path, dataset="some/pos", stored=False)
    assert traj.topology is None
    with pytest.raises(kn.ArgumentError, match="topology"):
        traj.select("name CA")


# -- what is written is read back ---------------------------------------------------------------------------------


def written(path, atoms, **options):
    with kn.Writer(path, atoms.n_atoms, atoms=atoms, **options) as out:
        out.write(np.zeros((atoms.n_atoms, 3), np.float32), step=0)
    return path


@settings(max_examples=examples_of_files(), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    atoms=atom_tables(),
    options=st.sampled_from([{}, {"mode": "a"}, {"dialect": "mdanalysis"}, {"creator": "a simulation"}]),
)
def test_any_table_is_read_back(tmp_path, atoms, options):
    path = tmp_path / f"{next(NUMBERS)}.h5md"
    written(path, atoms, **options)
    if not atoms.columns:
        with pytest.raises(kn.ArgumentError, match=r"nothing is known of its atoms .* open it with topology="):
            _ = kn.open(path, stored=False).atoms
        return
    found = kn.open(path, stored=False).atoms
    if "masses" in found.columns and "masses" not in atoms.columns:
        # guessed of the elements, and not of the file
        assert found.guessed - atoms.guessed == {"masses"}
        found = atoms_of(path)
    assert found == atoms
    assert kn.read_atoms(path, particles="trajectory").columns == kn.read_atoms(path).columns


NUMBERS = count()


@pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis")
@pytest.mark.parametrize("name", ["PSF", "GRO", "PDB_small", "PDB_icodes", "TPR2021"])
def test_tables_of_mdanalysis_are_read_back(tmp_path, name):
    import MDAnalysis
    from MDAnalysisTests import datafiles

    universe = MDAnalysis.Universe(getattr(datafiles, name))
    atoms = kn.Atoms.from_mdanalysis(universe)
    if len(np.unique(atoms.ids)) < atoms.n_atoms:
        atoms = atoms.replace(ids=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = written(tmp_path / "all.h5md", atoms)
    said = [str(one.message) for one in caught if issubclass(one.category, kn.Note)]
    assert len(said) == bool(atoms.guessed)
    if atoms.guessed:
        guessed = " and ".join(column for column in ("types", "masses") if column in atoms.guessed)
        assert f"{guessed} of {universe.filename} were guessed by MDAnalysis" in said[0]
    traj = kn.open(path, stored=False)
    assert traj.atoms == atoms
    # MDAnalysis makes of it the Universe that it was
    again = traj.topology.universe
    for column in ("names", "resids", "resnames", "segids", "masses", "resindices"):
        np.testing.assert_array_equal(getattr(again.atoms, column), getattr(universe.atoms, column))
    for string in ("protein and name CA", "resid 3:9 and not name H*", "same residue as name OD1"):
        assert traj.select(string).indices.tolist() == universe.select_atoms(string).indices.tolist()
    if "bonds" in atoms.columns:
        assert again.select_atoms("bonded name CA") == again.atoms[universe.select_atoms("bonded name CA").indices]


def test_where_columns_are_in_the_file(tmp_path):
    atoms = kn.Atoms(
        4,
        names=["OW", "HW1", "HW2", "NA"],
        elements=["O", "H", "H", "Na"],
        resnames=["SOL", "SOL", "SOL", "NA"],
        resids=[1, 1, 1, 2],
        masses=[15.999, 1.008, 1.008, 22.99],
        charges=[-0.8, 0.4, 0.4, 1.0],
        ids=[11, 12, 13, 20],
        bonds=[[0, 1], [0, 2]],
        angles=[[1, 0, 2]],
        guessed=["masses"],
    )
    with pytest.warns(kn.Note, match="masses of the table of atoms were guessed by MDAnalysis"):
        path = written(tmp_path / "water.h5md", atoms)
    with h5py.File(path) as file:
        group = file["particles/trajectory"]
        assert group["mass"][()].tolist() == [15.999, 1.008, 1.008, 22.99]
        assert group["mass"].attrs["unit"] == b"u" and group["mass"].attrs["kinema_guessed"] == b"MDAnalysis"
        assert group["charge"].attrs["unit"] == b"e" and "kinema_guessed" not in group["charge"].attrs
        assert group["id"][()].tolist() == [11, 12, 13, 20]
        # of the specification: an enumeration; its values are atomic numbers
        assert group["species"][()].tolist() == [8, 1, 1, 11]
        assert h5py.check_enum_dtype(group["species"].dtype) == {"O": 8, "H": 1, "Na": 11}
        # as GROMACS 2026 has names
        assert group["particle_name_table"][()][group["particle_name"][()]].tolist() == [b"OW", b"HW1", b"HW2", b"NA"]
        assert group["residue_name_table"][()][group["residue_name"][()]].tolist() == [b"SOL", b"SOL", b"SOL", b"NA"]
        assert group["residue_id"][()].tolist() == [1, 1, 1, 2]
        assert not {"particle_element", "residue_index", "particle_type"} & set(group)
        # tuples of ids, as these are there
        assert file["connectivity/bonds"][()].tolist() == [[11, 12], [11, 13]]
        assert file["connectivity/angles"][()].tolist() == [[12, 11, 13]]
        assert file[file["connectivity/angles"].attrs["particles_group"]] == group


def test_another_file_may_lend_its_atoms(tmp_path):
    atoms = kn.Atoms(3, names=["C1", "O1", "O2"], masses=[12.0, 16.0, 16.0])
    path = written(tmp_path / "lender.h5md", atoms)
    with kn.Writer(tmp_path / "bare.h5md", 3) as out:
        out.write(np.eye(3))
    for lender in (path, atoms, kn.read_atoms(path), kn.Topology(atoms)):
        traj = kn.open(tmp_path / "bare.h5md", lender, stored=False)
        assert traj.atoms == atoms
        assert traj.select("name O*").indices.tolist() == [1, 2]
        assert kn.analysis.RadiusOfGyration(traj).run().results.rgyr.shape == (1,)
    with kn.Writer(tmp_path / "four.h5md", 4) as out:
        out.write(np.zeros((4, 3)))
    with pytest.raises(kn.ArgumentError, match=r"topology .*lender.h5md has 3 atoms, but trajectory .* has 4"):
        _ = kn.open(tmp_path / "four.h5md", path, stored=False).atoms


def test_frames_are_appended_to_the_same_atoms_only(tmp_path):
    atoms = kn.Atoms(3, names=["C1", "O1", "O2"], masses=[12.0, np.nan, 16.0], ids=[1, 2, 2])
    for step in range(3):
        # the number of atoms is that of the table
        with kn.Writer(tmp_path / "run.h5md", mode="a", atoms=atoms) as out:
            out.write(np.zeros((3, 3)), step=step)
    traj = kn.open(tmp_path / "run.h5md", stored=False)
    assert traj.n_frames == 3 and traj.atoms == atoms.replace(ids=None)
    before = (tmp_path / "run.h5md").read_bytes()
    for other, message in (
        (atoms.replace(masses=[12.0, 1.0, 16.0]), "atoms= whose masses differ from those of the file"),
        (atoms.replace(charges=[0.0, 0.0, 0.0]), "atoms= whose charges differ"),
        (kn.Atoms(4, names=["A"] * 4), "atoms= whose names differ"),
        (kn.Atoms(4), "n_atoms=4, the file has 3"),
    ):
        with pytest.raises(kn.ArgumentError, match=f"cannot append with {message}"):
            kn.Writer(tmp_path / "run.h5md", mode="a", atoms=other)
    assert (tmp_path / "run.h5md").read_bytes() == before
    with kn.Writer(tmp_path / "bare.h5md", 3) as out:
        out.write(np.zeros((3, 3)))
    with pytest.raises(kn.ArgumentError, match="cannot append with atoms=, the file says nothing of its atoms"):
        kn.Writer(tmp_path / "bare.h5md", mode="a", atoms=atoms)


def test_ids_that_are_not_unique_are_left_out(tmp_path):
    atoms = kn.Atoms(3, ids=[5, 6, 7], bonds=[[0, 1], [1, 2]])[[0, 1, 1]]
    with pytest.warns(kn.Note, match="ids of the table of atoms occur several times and are left out"):
        path = written(tmp_path / "twice.h5md", atoms)
    assert kn.read_atoms(path) == atoms.replace(ids=None)
    assert kn.read_atoms(path).bonds.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"names": ["a\0b"]}, "names of the table of atoms have a zero character"),
        ({"segids": ["\ud800"]}, "segids of the table of atoms cannot be written as UTF-8"),
    ],
)
def test_text_that_hdf5_cannot_hold(tmp_path, columns, message):
    with pytest.raises(kn.ArgumentError, match=message):
        written(tmp_path / "wrong.h5md", kn.Atoms(1, **columns))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"atoms": kn.Atoms(4)}, "the table of atoms has 4 atoms, expected n_atoms=3"),
        ({"atoms": kn.Atoms(3), "topology": kn.Atoms(3)}, "atoms= and topology= cannot be combined"),
        ({"atoms": "top.psf"}, "atoms is a table of the class Atoms, found str"),
    ],
)
def test_what_a_writer_does_not_take(tmp_path, options, message):
    with pytest.raises(kn.ArgumentError, match=message):
        kn.Writer(tmp_path / "out.h5md", 3, **options)


def test_what_is_odd_in_the_file_is_noted_when_it_is_read(tmp_path):
    masses = np.arange(1.0, N + 1) * np.array([[1.0], [1.0], [2.0]])

    def fill(root, group):
        add_element(group, "mass", masses, steps=np.arange(3))

    traj = kn.open(made(tmp_path, fill), stored=False)
    with pytest.warns(kn.Note, match="mass changes with time: its first row is taken") as caught:
        assert traj.atoms.masses.tolist() == [1, 2, 3, 4, 5]
    assert len(caught) == 1
    assert traj.atoms.notes == (str(caught[0].message),)


def test_masses_of_elements_are_guessed_and_noted(tmp_path):
    path = written(tmp_path / "elements.h5md", kn.Atoms(3, elements=["O", "H", "H"]))
    traj = kn.open(path, stored=False)
    assert traj.atoms.guessed == {"masses"}
    assert atoms_of(path).columns == ("elements",)
    with pytest.warns(kn.Note, match="masses of 3 atoms were guessed by MDAnalysis, elements H, O"):
        rgyr = kn.analysis.RadiusOfGyration(traj)
    assert any("were guessed by MDAnalysis" in note for note in rgyr.notes)


def test_mdanalysis_reads_a_file_with_atoms(tmp_path):
    import MDAnalysis

    atoms = kn.Atoms(3, names=["C", "O", "H"], elements=["C", "O", "H"], bonds=[[0, 1]], resids=[1, 1, 2])
    with kn.Writer(tmp_path / "out.h5md", 3, atoms=atoms, dialect="mdanalysis") as out:
        out.write(np.eye(3), time=0.0)
    universe = MDAnalysis.Universe.empty(3, trajectory=False)
    universe.load_new(str(tmp_path / "out.h5md"))
    np.testing.assert_array_equal(universe.atoms.positions, np.eye(3))
