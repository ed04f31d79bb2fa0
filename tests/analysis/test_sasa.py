"""Surface areas: spheres whose area is known, MDTraj, freesasa, images, radii, elements, buried areas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.programs.imports import lazy
from kinema.testing.writers import write_dcd

datafiles = lazy("MDAnalysisTests.datafiles")
mdtraj = lazy("mdtraj")

PROBE = 1.4
STORED = Path(__file__).parent.parent / "data" / "freesasa" / "freesasa.npz"


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    return kn.open(datafiles.DCD, topology=datafiles.PSF, stored=False)


@pytest.fixture(scope="module")
def freesasa() -> dict[str, NDArray[np.float64]]:
    with np.load(STORED) as stored:
        return dict(stored)


def spheres(folder: Path, places: Any, radii: Any, cell: NDArray[np.float32] | None = None) -> kn.Trajectory:
    """A trajectory of one frame, of atoms with these radii."""
    positions = np.asarray(places, np.float32)[None]
    write_dcd(folder / "spheres.dcd", positions, cell=None if cell is None else cell[None])
    atoms = kn.Atoms(len(positions[0]), names=["X"] * len(positions[0]), radii=np.asarray(radii, np.float64))
    return kn.open(folder / "spheres.dcd", topology=atoms, stored=False)


def areas(trajectory: kn.Trajectory, **given: Any) -> NDArray[np.float64]:
    given = {"radii": "column", "by": "atom", **given}
    return np.asarray(kn.analysis.SASA(trajectory, **given).run().results.sasa)[0]


def cap(radius: float, other: float, distance: float) -> float:
    """The area of a sphere that is inside of another."""
    height = radius - (distance**2 + radius**2 - other**2) / (2 * distance)
    return 2 * np.pi * radius * height


def test_one_sphere(tmp_path: Path) -> None:
    traj = spheres(tmp_path, [[1.0, 2.0, 3.0]], [1.7])
    for n_points in (1, 7, 100, 960):
        assert areas(traj, n_points=n_points)[0] == pytest.approx(4 * np.pi * (1.7 + PROBE) ** 2, rel=1e-12)


def test_two_spheres_lose_their_caps(tmp_path: Path) -> None:
    traj = spheres(tmp_path, [[0.0, 0.0, 0.0], [1.5, 2.0, -1.0]], [1.7, 1.2])
    a, b, distance = 1.7 + PROBE, 1.2 + PROBE, np.sqrt(1.5**2 + 4 + 1)
    expected = [4 * np.pi * a**2 - cap(a, b, distance), 4 * np.pi * b**2 - cap(b, a, distance)]
    np.testing.assert_allclose(areas(traj, n_points=100_000), expected, rtol=1e-4)
    np.testing.assert_allclose(areas(traj), expected, rtol=1e-2)


def test_three_spheres_in_a_row_and_one_inside(tmp_path: Path) -> None:
    # the caps on both sides of the one in the middle do not meet; the fourth is inside of the first, the last far away
    places = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [8.0, 0.0, 0.0], [0.2, 0.0, 0.0], [0.0, 40.0, 0.0]]
    traj = spheres(tmp_path, places, [1.5, 1.5, 1.5, 1.0, 1.5])
    r = 1.5 + PROBE
    whole, lost = 4 * np.pi * r**2, cap(r, r, 4.0)
    expected = [whole - lost, whole - 2 * lost, whole - lost, 0.0, whole]
    np.testing.assert_allclose(areas(traj, n_points=100_000), expected, rtol=1e-4)


def test_equal_spheres_at_one_place_and_spheres_that_touch(tmp_path: Path) -> None:
    traj = spheres(tmp_path, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [5.8, 0.0, 0.0]], [1.5, 1.5, 1.5])
    # no point is inside of a sphere of the same size
    np.testing.assert_allclose(areas(traj), 4 * np.pi * 2.9**2, rtol=1e-12)


def test_images_cover(tmp_path: Path) -> None:
    cell = np.array([[4.0, 0.0, 0.0], [1.0, 30.0, 0.0], [-2.0, 3.0, 30.0]], np.float32)
    traj = spheres(tmp_path, [[1.0, 2.0, 3.0]], [1.5], cell)
    r = 1.5 + PROBE
    expected = 4 * np.pi * r**2 - 2 * cap(r, r, 4.0)
    np.testing.assert_allclose(areas(traj, n_points=100_000)[0], expected, rtol=1e-4)


def test_areas_are_those_of_mdtraj(adk: kn.Trajectory) -> None:
    radii = {"H": 1.20, "C": 1.70, "N": 1.55, "O": 1.52, "S": 1.80}
    frames = mdtraj.load_dcd(datafiles.DCD, top=datafiles.PSF, stride=90)
    nm = {element: radius / 10 for element, radius in radii.items()}
    theirs = 100 * mdtraj.shrake_rupley(frames, probe_radius=PROBE / 10, change_radii=nm)
    ours = np.asarray(kn.analysis.SASA(adk, by="atom").run(step=90).results.sasa)
    # the same points, of which one may be on the other side of a sphere by rounding
    one = 4 * np.pi * (1.8 + PROBE) ** 2 / 960
    assert np.abs(ours - theirs).max() < 1.01 * one
    np.testing.assert_allclose(ours.sum(axis=1), theirs.sum(axis=1), rtol=1e-4)


def test_areas_are_those_of_freesasa(adk: kn.Trajectory, freesasa: dict[str, NDArray[np.float64]]) -> None:
    ours = np.asarray(kn.analysis.SASA(adk, by="atom", n_points=5000).run(frames=[40]).results.sasa)[0]
    for method in ("lee-richards", "shrake-rupley"):
        theirs = freesasa[method]
        assert np.abs(ours - theirs).max() < 0.5
        assert ours.sum() == pytest.approx(theirs.sum(), rel=1e-3)


def test_nothing_depends_on_place_and_little_on_direction(adk: kn.Trajectory, tmp_path: Path) -> None:
    from scipy.spatial.transform import Rotation

    positions = adk.read(frames=[0])[0]
    turned = Rotation.from_euler("zyx", [20, 50, 70], degrees=True).apply(positions)
    rows = np.array([positions, positions + np.array([37.0, -12.0, 5.0]), turned], np.float32)
    write_dcd(tmp_path / "turned.dcd", rows)
    traj = kn.open(tmp_path / "turned.dcd", topology=datafiles.PSF, stored=False)
    found = np.asarray(kn.analysis.SASA(traj).run().results.sasa)
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert found[2] == pytest.approx(found[0], rel=2e-3)


def test_molecules_need_not_be_whole(adk: kn.Trajectory, tmp_path: Path) -> None:
    positions = adk.read(frames=[0, 50])
    cell = np.array([[90.0, 0, 0], [20.0, 85.0, 0], [-30.0, 25.0, 80.0]], np.float32)
    shifts = np.random.default_rng(3).integers(-1, 2, (*positions.shape[:2], 3))
    write_dcd(tmp_path / "broken.dcd", (positions + shifts @ cell).astype(np.float32), cell=np.stack([cell] * 2))
    traj = kn.open(tmp_path / "broken.dcd", topology=datafiles.PSF, stored=False)
    analysis = kn.analysis.SASA(traj).run()
    expected = kn.analysis.SASA(adk).run(frames=[0, 50])
    np.testing.assert_allclose(analysis.results.sasa, expected.results.sasa, rtol=1e-4)


def test_residues_and_kinds_add_up(adk: kn.Trajectory) -> None:
    run = {"step": 40}
    total = kn.analysis.SASA(adk, polar=True).run(**run).results
    atoms = kn.analysis.SASA(adk, by="atom").run(**run)
    residues = kn.analysis.SASA(adk, by="residue", polar=True).run(**run)
    assert residues.labels[:2] == ["MET1", "ARG2"] and atoms.labels[1] == "MET1:HT1"
    np.testing.assert_allclose(np.sum(atoms.results.sasa, axis=1), total.sasa, rtol=1e-12)
    np.testing.assert_allclose(np.sum(residues.results.sasa, axis=1), total.sasa, rtol=1e-12)
    np.testing.assert_allclose(total.polar + total.apolar, total.sasa, rtol=1e-12)
    np.testing.assert_allclose(np.sum(residues.results.polar, axis=1), total.polar, rtol=1e-12)
    # polar: N, O, and hydrogens on these by the bonds of the topology
    import MDAnalysis

    universe = MDAnalysis.Universe(datafiles.PSF)
    polar = universe.select_atoms("name N* O* or (name H* and bonded name N* O*)").indices
    np.testing.assert_allclose(np.asarray(atoms.results.sasa)[:, polar].sum(axis=1), total.polar, rtol=1e-12)


def test_relative_areas_are_parts_of_the_largest(adk: kn.Trajectory) -> None:
    residues = kn.analysis.SASA(adk, "resid 1-40", surface="protein", by="residue").run(step=60)
    relative = kn.analysis.SASA(adk, "resid 1-40", surface="protein", by="residue", relative=True).run(step=60)
    largest = {"MET": 224, "ARG": 274, "ILE": 197, "GLY": 104}
    known = [i for i, label in enumerate(residues.labels) if label[:3] in largest]
    expected = np.asarray(residues.results.sasa)[:, known] / [largest[residues.labels[i][:3]] for i in known]
    np.testing.assert_allclose(np.asarray(relative.results.relative)[:, known], expected, rtol=1e-12)


def test_relative_areas_that_mean_little_are_noted(adk: kn.Trajectory) -> None:
    with collected() as notes:
        kn.analysis.SASA(adk, "resid 1-20 and name N CA", by="residue", relative=True)
    assert any("atoms of MET1, ARG2" in note and "too small" in note for note in notes), notes
    traj = kn.open(datafiles.XTC, topology=datafiles.GRO, stored=False)
    with collected() as notes:
        analysis = kn.analysis.SASA(traj, "resid 214-215", by="residue", relative=True)
    assert any("no largest area is known of SOL215" in note for note in notes), notes
    assert np.isnan(np.asarray(analysis.run(stop=1).results.relative)[0, 1])


def test_names_of_force_fields_are_amino_acids() -> None:
    from kinema.model.residue_names import amino_acid

    names = ["HSD", "HIE", "hip", "CYX", "NALA", "CHIE", "ASPP", "LYSH", "TIP3", "NA", "CLA", "NOPE"]
    assert [amino_acid(name) for name in names] == ["HIS"] * 3 + ["CYS", "ALA", "HIS", "ASP", "LYS"] + [""] * 4


def test_selected_atoms_are_of_a_larger_surface(adk: kn.Trajectory) -> None:
    of_all = kn.analysis.SASA(adk, by="residue").run(stop=2)
    part = kn.analysis.SASA(adk, "resid 10-20", surface="protein", by="residue").run(stop=2)
    np.testing.assert_array_equal(part.results.sasa, np.asarray(of_all.results.sasa)[:, 9:20])
    alone = kn.analysis.SASA(adk, "resid 10-20", by="residue").run(stop=2)
    assert (np.asarray(alone.results.sasa) >= np.asarray(part.results.sasa)).all()
    with pytest.raises(kn.ArgumentError, match="are not in surface="):
        kn.analysis.SASA(adk, "protein", surface="resid 10-20")


def test_protor_leaves_hydrogens_out(adk: kn.Trajectory, freesasa: dict[str, NDArray[np.float64]]) -> None:
    protor = kn.analysis.SASA(adk, radii="protor", by="residue").run(stop=1)
    heavy = kn.analysis.SASA(adk, "not name H*", radii="protor", by="residue").run(stop=1)
    np.testing.assert_array_equal(protor.results.sasa, heavy.results.sasa)
    assert any("hydrogens are left out" in note for note in protor.notes)
    # freesasa takes the second oxygen of carboxylates as a hydroxyl
    names, residues = adk.atoms.names, adk.atoms.resnames
    radii = kn.analysis.SASA(adk, radii="protor")._surface
    for atom, radius, theirs in zip(radii.atoms, radii.radii - PROBE, freesasa["protor"], strict=True):
        residue, name = str(residues[atom]), str(names[atom])
        if name in ("OT1", "OT2") or (residue, name) in (("ASP", "OD2"), ("GLU", "OE2"), ("ILE", "CD")):
            continue
        assert theirs == pytest.approx(radius, abs=6e-3), (residue, name)


def test_radii_of_a_file(adk: kn.Trajectory, tmp_path: Path) -> None:
    path = tmp_path / "radii.txt"
    path.write_text("# a comment\nH 0\nC 1.7\nN 1.55\nO 1.52  # carbonyl too\nS 1.8\n* CA 2.0\nGLY * 1.9\nGLY CA 2.1\n")
    found = kn.analysis.SASA(adk, radii=path)
    table = adk.atoms
    expected = np.array([{"H": 0, "C": 1.7, "N": 1.55, "O": 1.52, "S": 1.8}[name[0]] for name in table.names])
    expected[table.resnames == "GLY"] = 1.9
    expected[table.names == "CA"] = 2.0
    expected[(table.resnames == "GLY") & (table.names == "CA")] = 2.1
    np.testing.assert_array_equal(found._surface.atoms, np.flatnonzero(expected))
    np.testing.assert_allclose(found._surface.radii, expected[expected > 0] + PROBE)
    same = kn.analysis.SASA(adk, radii=expected).run(stop=1)
    np.testing.assert_array_equal(found.run(stop=1).results.sasa, same.results.sasa)
    for text, problem in (
        ("C 1.7\n", "has no radius for .* of"),
        ("C 170\n", "line 1: expected ELEMENT RADIUS"),
        ("C 1.7 A B\n", "line 1"),
        ("C nan\n", "line 1"),
        ("C 1.7\nC 1.8\n", "line 2: C has another radius"),
        ("# nothing\n", "has no radii"),
    ):
        path.write_text(text)
        with pytest.raises(kn.ArgumentError, match=problem):
            kn.analysis.SASA(adk, radii=path)


def test_the_two_sides_of_a_contact(adk: kn.Trajectory) -> None:
    first, second = "resid 1-29", "resid 60-121"
    run = {"step": 60, "stop": 61}
    analysis = kn.analysis.BuriedArea(adk, first, other=second).run(**run)
    alone, other, both = (
        np.asarray(kn.analysis.SASA(adk, one).run(**run).results.sasa)
        for one in (first, second, f"{first} or {second}")
    )
    np.testing.assert_allclose(analysis.results.areas, np.stack([alone, other, both], axis=1), rtol=1e-12)
    np.testing.assert_allclose(analysis.results.buried, alone + other - both, rtol=1e-9)
    residues = kn.analysis.BuriedArea(adk, first, other=second, by="residue").run(**run)
    assert len(residues.labels) == 29 + 62
    np.testing.assert_allclose(np.sum(residues.results.buried, axis=1), analysis.results.buried, rtol=1e-9)
    with pytest.raises(kn.ArgumentError, match=r"share \d+ atoms"):
        kn.analysis.BuriedArea(adk, "resid 1-3", other="resid 3-5")


def test_waters_and_ions_are_noted(tmp_path: Path) -> None:
    traj = kn.open(datafiles.XTC, topology=datafiles.GRO, stored=False)
    with collected() as notes:
        kn.analysis.SASA(traj)
    assert any("11084 waters and 4 ions" in note or "11,084 waters and 4 ions" in note for note in notes), notes


def test_elements_are_guessed_of_names_and_unknown_ones_named() -> None:
    from kinema.model.elements import element_by_name

    cases = {
        ("CA", "ALA"): "C", ("CA", "CA"): "CA", ("CAL", "CAL"): "CA", ("1HB", "SER"): "H", ("HG", "SER"): "H",
        ("SG", "CYS"): "S", ("SC1", "PHE"): "", ("BB", "ALA"): "", ("OP1", "DA"): "O", ("P", "DA"): "P",
        ("C5'", "DT"): "C", ("CL1", "LIG"): "CL", ("C12", "LIG"): "C", ("NA", "HEM"): "N", ("FE", "HEM"): "FE",
        ("NA", "NA+"): "NA", ("SOD", "SOD"): "NA", ("CL-", "CL-"): "CL", ("ZN", "ZN2"): "ZN", ("X1", "LIG"): "",
        ("SE", "MSE"): "SE", ("W", "W"): "", ("OW", "SOL"): "O", ("D1", "DOD"): "H", ("", "LIG"): "",
    }  # fmt: skip
    assert {pair: element_by_name(*pair) for pair in cases} == cases


def test_atoms_without_a_radius_are_named(tmp_path: Path) -> None:
    write_dcd(tmp_path / "x.dcd", np.zeros((1, 3, 3), np.float32))
    columns: dict[str, Any] = {"names": ["FE", "X1", "MW"], "resnames": ["HEM", "LIG", "SOL"], "resids": [1, 2, 3]}
    atoms = kn.Atoms(3, name="top.gro", **columns)
    traj = kn.open(tmp_path / "x.dcd", topology=atoms, stored=False)
    with pytest.raises(kn.ArgumentError, match=r"element of 1 atom \(LIG X1\) is not known"):
        kn.analysis.SASA(traj)
    with pytest.raises(kn.ArgumentError, match=r"no Bondi radius for 1 atom \(HEM FE\)"):
        kn.analysis.SASA(traj, [0, 2])
    with pytest.raises(kn.ArgumentError, match=r"none for 1 atom \(HEM FE\)"):
        kn.analysis.SASA(traj, [0], radii="protor")
    with pytest.raises(kn.ArgumentError, match="no radii"):
        kn.analysis.SASA(traj, radii="column")
    with pytest.raises(kn.ArgumentError, match="has a radius above 0"):
        kn.analysis.SASA(traj, [2])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"relative": True}, "give by='residue'"),
        ({"polar": True, "by": "atom"}, "polar= needs"),
        ({"probe": -1.0}, "probe is a radius"),
        ({"probe": float("nan")}, "probe is a radius"),
        ({"n_points": 0}, "n_points"),
        ({"by": "chain"}, "by must be"),
        ({"radii": 1.5}, "radii is"),
        ({"radii": [1.5]}, "one number from 0 on for each of 3341 atoms"),
        ({"radii": "no-such-file"}, "no-such-file"),
    ],
)
def test_what_cannot_be_done_is_refused(adk: kn.Trajectory, given: dict[str, Any], problem: str) -> None:
    with pytest.raises((kn.ArgumentError, kn.FileNotFound), match=problem):
        kn.analysis.SASA(adk, **given)


def test_deuterium_of_the_topology_keeps_its_radius(tmp_path: Path) -> None:
    """All elements are known, and masses are stated as well."""
    write_dcd(tmp_path / "a.dcd", np.array([[[0, 0, 0], [50, 0, 0]]], np.float32))
    atoms = kn.Atoms(2, names=["D1", "O"], elements=["D", "O"], masses=np.array([2.014, 15.999]))
    found = areas(kn.open(tmp_path / "a.dcd", topology=atoms, stored=False), radii="bondi")
    assert found == pytest.approx(4 * np.pi * (np.array([1.20, 1.52]) + PROBE) ** 2, rel=1e-9)
