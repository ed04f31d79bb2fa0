"""Hydrogen bonds against MDAnalysis and MDTraj, as triples of atoms."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.cli.in_process import call_kinema
from kinema.model.selection.hydrogen_bonds import bonding_atoms
from kinema.testing.analyses import write_solvated_peptide
from kinema.testing.programs.imports import lazy
from kinema.testing.writers import write_dcd

MDAnalysis = lazy("MDAnalysis")
hbonds_of_peer = lazy("MDAnalysis.analysis.hydrogenbonds")
mdtraj = lazy("mdtraj")
datafiles = lazy("MDAnalysisTests.datafiles")

# N and O with their hydrogens, as MDTraj takes them
POLAR = "(prop mass > 13.9 and prop mass < 16.1)"
HYDROGENS = f"prop mass < 1.1 and bonded {POLAR}"

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis", "ignore::DeprecationWarning:MDAnalysis")


@pytest.fixture(scope="module")
def peptide(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A solvated peptide in a triclinic cell."""
    return write_solvated_peptide(tmp_path_factory.mktemp("peptide"), 12)


def opened(files: tuple[Any, Any]) -> kn.Trajectory:
    return kn.open(files[1], topology=files[0], stored=False)


def triples(results: Any) -> list[tuple[int, ...]]:
    """Frame, donor, hydrogen and acceptor of each row."""
    return sorted(map(tuple, np.asarray(results.hbonds)[:, :4].astype(int).tolist()))


def assert_as_mdanalysis(files: tuple[Any, Any], stop: int | None = None, **arguments: Any) -> int:
    """Compares a run with MDAnalysis'; returns the number of bonds."""
    expected = hbonds_of_peer.HydrogenBondAnalysis(MDAnalysis.Universe(*map(str, files)), **arguments).run(stop=stop)
    found = kn.analysis.HydrogenBondAnalysis(opened(files), **arguments).run(stop=stop)
    assert triples(found.results) == triples(expected.results)
    by_atoms = [np.asarray(one.results.hbonds) for one in (found, expected)]
    rows = [one[np.lexsort(one[:, 3::-1].T)] for one in by_atoms]
    np.testing.assert_allclose(rows[0][:, 4], rows[1][:, 4], rtol=1e-5)
    # MDAnalysis has angles in single precision: near 180 degrees they are good to some hundredths
    np.testing.assert_allclose(rows[0][:, 5], rows[1][:, 5], atol=0.02)
    np.testing.assert_array_equal(found.count_by_time(), expected.count_by_time())
    if len(rows[0]):
        np.testing.assert_array_equal(found.count_by_type(), expected.count_by_type())
        by_ids = [one.count_by_ids() for one in (found, expected)]
        assert (np.diff(by_ids[0][:, 3]) <= 0).all()
        assert sorted(by_ids[0].tolist()) == sorted(by_ids[1].tolist())
    return len(rows[0])


@pytest.mark.parametrize(
    ("topology", "trajectory", "stop", "n_bonds"), [("waterPSF", "waterDCD", 10, 27), ("PSF", "DCD", 10, 1034)]
)
def test_triples_of_mdanalysis(topology: str, trajectory: str, stop: int, n_bonds: int) -> None:
    files = (getattr(datafiles, topology), getattr(datafiles, trajectory))
    assert assert_as_mdanalysis(files, stop) == n_bonds


def test_triples_of_mdanalysis_in_a_triclinic_cell(peptide: tuple[Path, Path]) -> None:
    assert assert_as_mdanalysis(peptide) > 10
    assert assert_as_mdanalysis(peptide, d_a_cutoff=3.5, d_h_a_angle_cutoff=120.0) > 90
    for between in (["protein", "resname TIP3"], [["protein", "protein"], ["resname TIP3", "resid 1:4"]]):
        assert assert_as_mdanalysis(peptide, d_a_cutoff=3.6, d_h_a_angle_cutoff=110.0, between=between) > 10


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"tau_max": 7, "window_step": 3},
        {"tau_max": 10, "intermittency": 2},
        {"tau_max": 30, "window_step": 2, "intermittency": 5},
    ],
)
def test_lifetimes_of_mdanalysis(long_peptide: tuple[Any, Any], given: dict[str, int]) -> None:
    ours, theirs = long_peptide
    found, expected = ours.lifetime(**given), theirs.lifetime(**given)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
    assert (np.diff(found[1]) < 0).all() and found[1, -1] < 0.9


@pytest.fixture(scope="module")
def long_peptide(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Hydrogen bonds of 50 frames, by Kinema and MDAnalysis."""
    files = write_solvated_peptide(tmp_path_factory.mktemp("peptide"), 50)
    limits = {"d_a_cutoff": 3.6, "d_h_a_angle_cutoff": 110.0}
    peer = hbonds_of_peer.HydrogenBondAnalysis(MDAnalysis.Universe(*map(str, files)), **limits)
    return kn.analysis.HydrogenBondAnalysis(opened(files), **limits).run(), peer.run()


def test_lifetimes_that_cannot_be_computed(peptide: tuple[Path, Path]) -> None:
    bonds = kn.analysis.HydrogenBondAnalysis(opened(peptide))
    with pytest.raises(kn.ArgumentError, match="call run"):
        bonds.lifetime(tau_max=2)
    bonds.run()
    for name, value in [("tau_max", 0), ("window_step", 0), ("intermittency", -1), ("tau_max", 1.5)]:
        with pytest.raises(kn.ArgumentError, match=f"{name} is a whole number"):
            bonds.lifetime(**{"tau_max": 2, name: value})
    with pytest.raises(kn.ArgumentError, match="tau_max must be below the number of frames, 12, found 12"):
        bonds.lifetime(tau_max=12)
    with pytest.raises(kn.ArgumentError, match="equally spaced"):
        bonds.run(frames=[0, 1, 3]).lifetime(tau_max=1)
    with pytest.warns(kn.Note, match="frames are 2 apart"):
        bonds.run(step=2).lifetime(tau_max=2)
    none = kn.analysis.HydrogenBondAnalysis(opened(peptide), d_a_cutoff=1.1).run()
    assert np.isnan(none.lifetime(tau_max=2)[1, 1:]).all() and none.lifetime(tau_max=2)[1, 0] == 1


def test_lifetimes_as_a_table(peptide: tuple[Path, Path], tmp_path: Path) -> None:
    files = f"-s {peptide[0]} {peptide[1]} --no-stored -q"
    limits = {"d_a_cutoff": 3.6, "d_h_a_angle_cutoff": 110.0}
    words = f"hbonds {files} --d-a-cutoff 3.6 --d-h-a-angle-cutoff 110"
    bonds = kn.analysis.HydrogenBondAnalysis(opened(peptide), **limits).run()
    for options, given in (
        ("", {"tau_max": 11}),
        (" --tau-max 4 --intermittency 2", {"tau_max": 4, "intermittency": 2}),
    ):
        done = call_kinema(*f"{words} --lifetime {tmp_path}/lasting.csv{options}".split())
        assert done.returncode == 0, done.stderr
        table = np.loadtxt(
            tmp_path / "lasting.csv", delimiter=",", skiprows=1, comments="#", usecols=(0, 1, 2), ndmin=2
        )
        expected = bonds.lifetime(**given)
        np.testing.assert_array_equal(table[:, 0], expected[0])
        times = np.asarray(bonds.results.time)
        np.testing.assert_allclose(table[:, 1], times[: len(table)] - times[0], rtol=1e-6)
        np.testing.assert_allclose(table[:, 2], expected[1], rtol=1e-6)
    done = call_kinema(*f"{words} --tau-max 4".split())
    assert done.returncode == 2
    assert "--tau-max is for --lifetime; name its file" in done.stderr


def test_bonds_of_a_residue_with_all(peptide: tuple[Path, Path]) -> None:
    limits = {"d_a_cutoff": 3.6, "d_h_a_angle_cutoff": 110.0}
    traj = opened(peptide)
    found = kn.analysis.HydrogenBondAnalysis(traj, between=["resid 2 and protein", "all"], **limits).run().results
    every = kn.analysis.HydrogenBondAnalysis(traj, **limits).run().results
    residue = set(traj.select("resid 2 and protein").indices.tolist())
    expected = [row for row in triples(every) if row[1] in residue or row[3] in residue]
    assert triples(found) == expected and 0 < len(expected) < len(every.hbonds)


@pytest.mark.parametrize("update", [True, False])
def test_donors_by_distance_as_mdanalysis(peptide: tuple[Path, Path], update: bool) -> None:
    chosen = {
        "donors_sel": "name N* O*",
        "hydrogens_sel": "name H* and not (name HA* HB* HG* HD1* HD2*)",
        "acceptors_sel": "name O*",
        "d_h_cutoff": 1.05,
        "update_selections": update,
    }
    assert assert_as_mdanalysis(peptide, d_a_cutoff=3.6, d_h_a_angle_cutoff=110.0, **chosen) > 50


@pytest.mark.parametrize(
    "chosen",
    [
        {"acceptors_sel": "name O* and around 4 resid 2:4", "hydrogens_sel": "name HN H1 H2"},
        {"hydrogens_sel": "name H1 H2 and around 3.5 protein", "acceptors_sel": "name O* and not prop z < 0"},
        {
            "donors_sel": "name N O* and around 8 resid 2",
            "hydrogens_sel": "name HN H1 H2 and not around 3 resid 1",
            "acceptors_sel": "name O* and sphzone 9 protein",
        },
    ],
)
def test_groups_that_change_as_mdanalysis(peptide: tuple[Path, Path], chosen: dict[str, str]) -> None:
    n_bonds = assert_as_mdanalysis(peptide, d_a_cutoff=3.6, d_h_a_angle_cutoff=110.0, **chosen)
    assert n_bonds > 5
    everywhere = {name: one.split(" and ")[0] for name, one in chosen.items()}
    wide = kn.analysis.HydrogenBondAnalysis(
        opened(peptide), d_a_cutoff=3.6, d_h_a_angle_cutoff=110.0, **everywhere
    ).run()
    assert len(wide.results.hbonds) > n_bonds


def test_groups_of_between_may_change(peptide: tuple[Path, Path]) -> None:
    traj, limits = opened(peptide), {"d_a_cutoff": 3.6, "d_h_a_angle_cutoff": 110.0}
    near = "resname TIP3 and byres around 2.2 resid 1:4"
    found = kn.analysis.HydrogenBondAnalysis(traj, between=[near, "protein"], **limits).run()
    whole = kn.analysis.HydrogenBondAnalysis(traj, between=["resname TIP3", "protein"], **limits).run().results
    universe = MDAnalysis.Universe(*map(str, peptide))
    group = universe.select_atoms(near, updating=True)
    members = [set(group.indices.tolist()) for _ in universe.trajectory]
    waters = set(universe.select_atoms("resname TIP3").indices.tolist())
    kept = [row for row in triples(whole) if {row[1], row[3]} & waters <= members[row[0]]]
    assert triples(found.results) == kept and 0 < len(kept) < len(whole.hbonds)
    alike = kn.analysis.HydrogenBondAnalysis(traj, between=[near, near], **limits).run().results
    inside = kn.analysis.HydrogenBondAnalysis(traj, donors_sel=None, acceptors_sel=None, **limits).run().results
    assert triples(alike) == [row for row in triples(inside) if {row[1], row[3]} <= members[row[0]]]
    with pytest.raises(kn.ArgumentError, match=r"update_selections=False needs the same atoms .* frame=0"):
        kn.analysis.HydrogenBondAnalysis(traj, between=[near, near], update_selections=False)
    with pytest.raises(kn.ArgumentError, match="native contacts are pairs of the reference"):
        kn.analysis.Contacts(traj, (near, "protein"))
    with pytest.raises(kn.ArgumentError, match="depends on coordinates"):
        kn.analysis.WaterBridgeAnalysis(traj, donors_sel=near)


def test_pairs_of_the_first_frame_are_found_for_each_run(peptide: tuple[Path, Path]) -> None:
    chosen = {
        "donors_sel": "name N* O*",
        "hydrogens_sel": "name H* and not (name HA* HB* HG* HD1* HD2*)",
        "acceptors_sel": "name O*",
        "d_h_cutoff": 1.05,
        "update_selections": False,
    }
    again = kn.analysis.HydrogenBondAnalysis(opened(peptide), **chosen)
    first = again.run(stop=1).results.hydrogen
    again.run(start=4)
    alone = kn.analysis.HydrogenBondAnalysis(opened(peptide), **chosen).run(start=4)
    np.testing.assert_array_equal(again.results.hbonds, alone.results.hbonds)
    # atoms move, so that other hydrogens are near donors
    assert set(again.results.hydrogen) != set(first)


def test_triples_of_mdanalysis_in_water() -> None:
    files = (datafiles.TPR, datafiles.XTC)
    # guessing takes MDAnalysis long
    chosen = {"hydrogens_sel": "resname SOL and name HW*", "acceptors_sel": "name OW O OE* OD*"}
    peer = hbonds_of_peer.HydrogenBondAnalysis(
        MDAnalysis.Universe(*map(str, files)), **chosen, update_selections=False
    ).run(stop=1)
    ours = kn.analysis.HydrogenBondAnalysis(opened(files), **chosen).run(stop=1)
    found, expected = ({tuple(row[:4]): row[4] for row in one.results.hbonds.tolist()} for one in (ours, peer))
    # MDAnalysis compares in single precision, and XTC has positions on a grid: D-A may be the cutoff within rounding
    assert all(abs((found | expected)[one] - 3.0) < 1e-5 for one in found.keys() ^ expected.keys())
    assert len(found.keys() & expected.keys()) > 10_000


def in_mdtraj(files: tuple[Path, Path]) -> Any:
    return mdtraj.load_dcd(str(files[1]), top=str(files[0]))


def test_criteria_of_mdtraj(peptide: tuple[Path, Path]) -> None:
    traj, other = opened(peptide), in_mdtraj(peptide)
    atoms = {"hydrogens_sel": HYDROGENS, "acceptors_sel": POLAR}
    found = kn.analysis.HydrogenBondAnalysis(traj, **atoms, criterion="baker-hubbard").run().results
    for frame in range(len(other)):
        expected = mdtraj.baker_hubbard(other[frame], freq=0.0, exclude_water=False)
        assert [one[1:] for one in triples(found) if one[0] == frame] == sorted(map(tuple, expected.tolist()))
    found = kn.analysis.HydrogenBondAnalysis(traj, **atoms, criterion="wernet-nilsson").run().results
    expected = [
        (frame, *row)
        for frame, rows in enumerate(mdtraj.wernet_nilsson(other, exclude_water=False))
        for row in rows.tolist()
    ]
    assert triples(found) == sorted(expected)
    assert len(expected) > 20


def test_criterion_of_gromacs_is_plain_geometry() -> None:
    files = (datafiles.PSF, datafiles.DCD)
    universe = MDAnalysis.Universe(*files)
    traj = opened(files)
    atoms = bonding_atoms(traj.atoms)
    x = universe.atoms.positions.astype(np.float64)
    donor, hydrogen = atoms.pairs.T
    across = x[atoms.acceptors] - x[donor][:, None]
    to_hydrogen = (x[hydrogen] - x[donor])[:, None]
    lengths = np.linalg.norm(across, axis=-1) * np.linalg.norm(to_hydrogen, axis=-1)
    with np.errstate(invalid="ignore"):
        angles = np.degrees(np.arccos(np.clip((across * to_hydrogen).sum(axis=-1) / lengths, -1, 1)))
    near = (np.linalg.norm(across, axis=-1) <= 3.5) & (angles <= 30) & (donor[:, None] != atoms.acceptors)
    expected = [(0, int(donor[i]), int(hydrogen[i]), int(atoms.acceptors[j])) for i, j in np.argwhere(near)]
    found = kn.analysis.HydrogenBondAnalysis(traj, criterion="gromacs").run(stop=1)
    assert triples(found.results) == sorted(expected)


# -- a dimer of waters -------------------------------------------------------------------------------------------------


def water_dimer(folder: Path, positions: np.ndarray, *columns: str, cell: Any = None) -> kn.Trajectory:
    """Frames of two waters, a topology with some columns."""
    universe = MDAnalysis.Universe.empty(6, n_residues=2, atom_resindex=[0, 0, 0, 1, 1, 1], trajectory=False)
    values = {
        "names": ["OW", "HW1", "HW2"] * 2,
        "types": ["O", "H", "H"] * 2,
        "masses": [15.999, 1.008, 1.008] * 2,
        "charges": [-0.8, 0.4, 0.4] * 2,
    }
    universe.add_TopologyAttr("resnames", ["SOL"] * 2)
    for column in columns:
        if column == "bonds":
            universe.add_TopologyAttr("bonds", [(0, 1), (0, 2), (3, 4), (3, 5)])
        else:
            universe.add_TopologyAttr(column, values[column])
    write_dcd(folder / "dimer.dcd", positions.astype(np.float32), cell=cell)
    return kn.open(folder / "dimer.dcd", topology=universe, stored=False)


def dimer_at(d_a: float, turn: float) -> np.ndarray:
    """The acceptor at a distance from the donor, H-D-A turned."""
    angle = np.radians(turn)
    acceptor = d_a * np.array([np.cos(angle), np.sin(angle), 0.0])
    away = [[0.6, 0.6, 0.5], [0.6, 0.6, -0.5]]
    return np.array([[0, 0, 0], [1, 0, 0], [-0.3, -0.95, 0], acceptor, *(acceptor + away)])


EVERYTHING = ("names", "types", "masses", "charges", "bonds")


def test_a_dimer_across_the_faces_of_the_cell(tmp_path: Path) -> None:
    turned = np.array([dimer_at(2.9, turn) for turn in (0.0, 10.0, 19.0, 21.0, 60.0)])
    turned[:, :3] += [20.0, 0, 0]
    cells = np.tile(np.diag([20.0, 21.0, 22.0]).astype(np.float32), (5, 1, 1))
    traj = water_dimer(tmp_path, turned, *EVERYTHING, cell=cells)
    found = kn.analysis.HydrogenBondAnalysis(traj).run()
    # some 20 degrees at the donor are 150 at the hydrogen
    np.testing.assert_array_equal(found.count_by_time(), [1, 1, 1, 0, 0])
    assert triples(found.results) == [(0, 0, 1, 3), (1, 0, 1, 3), (2, 0, 1, 3)]
    np.testing.assert_allclose(found.results.distance, 2.9, rtol=1e-6)
    assert found.results.angle[0] == pytest.approx(180, abs=1e-4)
    assert found.count_by_type().tolist() == [["SOL:O", "SOL:O", "3"]]
    assert found.count_by_ids().tolist() in ([[0, 1, 3, 3]], [[1, 2, 4, 3]])


def test_what_is_guessed_is_noted(tmp_path: Path) -> None:
    positions = np.array([dimer_at(2.9, 5.0)])
    cell = np.diag([20.0, 21.0, 22.0]).astype(np.float32)[None]
    with pytest.warns(kn.Note, match="has no charges: hydrogens and acceptors are by element"):
        found = kn.analysis.HydrogenBondAnalysis(
            water_dimer(tmp_path, positions, "names", "types", "masses", "bonds", cell=cell)
        ).run()
    assert triples(found.results) == [(0, 0, 1, 3)]
    with pytest.warns(kn.Note, match="no bonds of hydrogens: N and O are donors"):
        found = kn.analysis.HydrogenBondAnalysis(
            water_dimer(tmp_path, positions, "names", "types", "masses", "charges", cell=cell)
        ).run()
    assert triples(found.results) == [(0, 0, 1, 3)]


def test_bad_input(tmp_path: Path) -> None:
    analysis = kn.analysis.HydrogenBondAnalysis
    cell = np.diag([20.0, 21.0, 22.0]).astype(np.float32)[None]
    traj = water_dimer(tmp_path, np.array([dimer_at(2.9, 5.0)]), *EVERYTHING, cell=cell)
    for arguments, message in [
        ({"d_a_cutoff": 0.0}, "d_a_cutoff is a finite number above 0, found 0.0"),
        ({"d_a_cutoff": np.inf}, "d_a_cutoff is a finite number above 0, found inf"),
        ({"d_h_cutoff": -1.0}, "d_h_cutoff is a finite number above 0"),
        ({"d_h_a_angle_cutoff": 181}, "d_h_a_angle_cutoff is an angle from 0 to 180 degrees, found 181"),
        (
            {"criterion": "wernet-nilsson", "d_h_a_angle_cutoff": 120},
            "criterion='wernet-nilsson' limits distances alone",
        ),
        ({"criterion": "luzar"}, "criterion must be one of 'distance-angle', 'gromacs'"),
        ({"between": "name OW"}, "between is two groups"),
        ({"between": ["name OW"]}, "names groups in pairs, found 1"),
        ({"between": [["name OW"] * 3]}, "list of pairs of groups"),
        ({"between": ["name OW", "name CA"]}, "names no atoms"),
        ({"hydrogens_sel": "name HW1", "acceptors_sel": "all"}, "have 2 atoms in common .* 2, 5"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            analysis(traj, **arguments)
    united = kn.open(tmp_path / "dimer.dcd", topology=MDAnalysis.Universe.empty(6, trajectory=False), stored=False)
    with pytest.raises(kn.ArgumentError):
        analysis(united)
    with pytest.raises(kn.ArgumentError, match="need a topology"):
        analysis(kn.open(tmp_path / "dimer.dcd", stored=False))


def test_united_atoms_and_atoms_at_no_place(tmp_path: Path) -> None:
    universe = MDAnalysis.Universe.empty(2, n_residues=1, atom_resindex=[0, 0], trajectory=False)
    universe.add_TopologyAttr("names", ["CH3", "O"])
    universe.add_TopologyAttr("masses", [15.035, 15.999])
    universe.add_TopologyAttr("charges", [0.3, -0.6])
    write_dcd(tmp_path / "united.dcd", np.zeros((1, 2, 3), np.float32))
    with pytest.raises(kn.ArgumentError, match="united atoms have none"):
        kn.analysis.HydrogenBondAnalysis(kn.open(tmp_path / "united.dcd", topology=universe, stored=False))
    positions = np.array([dimer_at(2.9, 5.0)])
    positions[0, 4, 1] = np.nan
    cell = np.diag([20.0, 21.0, 22.0]).astype(np.float32)[None]
    traj = water_dimer(tmp_path, positions, *EVERYTHING, cell=cell)
    with pytest.raises(kn.CorruptFileError, match=r"frame 0.*position of atom 5 .* is not finite"):
        kn.analysis.HydrogenBondAnalysis(traj).run(runner="serial")
