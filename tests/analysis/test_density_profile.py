"""Density profiles: MDAnalysis in a constant cube, NumPy in triclinic cells, exact sums, a potential."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import LinearDensity
from kinema.analysis.density.elements import atomic_numbers, neutron_lengths
from kinema.testing.analyses import write_solvated_peptide
from kinema.testing.writers import write_dcd

EDGE = 20.0
TRICLINIC = np.array([[20.0, 0, 0], [5, 18, 0], [-4, 6, 30]])


def atoms(n: int, charges: Any = None, masses: Any = None) -> kn.Atoms:
    """A table of oxygens and hydrogens, three a residue."""
    masses = np.where(np.arange(n) % 3 == 0, 15.9994, 1.008) if masses is None else masses
    charges = np.where(np.arange(n) % 3 == 0, -0.834, 0.417) if charges is None else charges
    elements = np.where(np.arange(n) % 3 == 0, "O", "H")
    bonds = [(i, i + j) for i in range(0, n - 2, 3) for j in (1, 2)]
    resids = np.arange(n) // 3
    return kn.Atoms(n, masses=masses, charges=charges, elements=elements, resids=resids, bonds=bonds)


def trajectory(folder: Path, positions: Any, cell: Any, table: kn.Atoms | None = None) -> kn.Trajectory:
    positions = np.asarray(positions, np.float32)
    cells = np.broadcast_to(np.asarray(cell, np.float32), (len(positions), 3, 3))
    path = folder / "a.dcd"
    write_dcd(path, positions, cell=cells)
    return kn.open(path, topology=atoms(positions.shape[1]) if table is None else table, stored=False)


def random_positions(n_frames: int, n_atoms: int, cell: Any, seed: int = 1) -> Any:
    """Uniform, also in neighbouring cells."""
    parts = np.random.default_rng(seed).uniform(-1, 2, (n_frames, n_atoms, 3))
    return parts @ np.asarray(cell)


def test_a_cube_as_mdanalysis(tmp_path: Path) -> None:
    mda = pytest.importorskip("MDAnalysis")
    lineardensity = pytest.importorskip("MDAnalysis.analysis.lineardensity")
    positions = random_positions(5, 300, np.eye(3) * EDGE)
    traj = trajectory(tmp_path, positions, np.eye(3) * EDGE)
    universe = mda.Universe.empty(300, n_residues=100, atom_resindex=np.arange(300) // 3, trajectory=True)
    universe.add_TopologyAttr("masses", traj.atoms.masses)
    universe.add_TopologyAttr("charges", traj.atoms.charges)
    universe.load_new(positions.astype(np.float32), dimensions=np.array([EDGE] * 3 + [90] * 3))
    for grouping in ("atoms", "residues"):
        expected = lineardensity.LinearDensity(universe.atoms, grouping=grouping, binsize=0.5).run()
        with kn.base.notes.collected():
            found = LinearDensity(traj, grouping=grouping, binsize=0.5).run()
        for axis in "xyz":
            ours, theirs = found.results[axis], expected.results[axis]
            if grouping == "residues":
                # MDAnalysis takes mass and charge of the groups as of the last frame before wrapping: same centres
                assert ours.mass_density.sum() == pytest.approx(theirs.mass_density.sum(), rel=1e-6)
                continue
            for name in ("mass_density", "charge_density"):
                np.testing.assert_allclose(ours[name], theirs[name], rtol=2e-6, atol=2e-7)
                np.testing.assert_allclose(ours[f"{name}_stddev"], theirs[f"{name}_stddev"], rtol=2e-5, atol=1e-6)
            assert ours.slice_volume == pytest.approx(theirs.slice_volume)
            np.testing.assert_allclose(ours.hist_bin_edges, theirs.hist_bin_edges, rtol=1e-6)


def expected_counts(positions: Any, cell: Any, axis: int, n: int) -> Any:
    """(frames, bins) numbers of atoms, by reduced coordinates."""
    parts = np.asarray(positions, np.float32).astype(np.float64) @ np.linalg.inv(cell)
    places = np.floor((parts[..., axis] % 1.0) * n).astype(int)
    return np.array([np.bincount(row, minlength=n) for row in places])


def test_a_triclinic_cell(tmp_path: Path) -> None:
    positions = random_positions(4, 301, TRICLINIC)
    traj = trajectory(tmp_path, positions, TRICLINIC)
    found = LinearDensity(traj, axis="y", binsize=1.0, quantity="number").run()
    heights = 1 / np.linalg.norm(np.linalg.inv(TRICLINIC), axis=0)
    volume = np.linalg.det(TRICLINIC)
    for place, axis in enumerate("xyz"):
        n = int(heights[place])
        counts = expected_counts(positions, TRICLINIC, place, n)
        of_axis = found.results[axis]
        np.testing.assert_allclose(of_axis.number_density, counts.mean(axis=0) / (volume / n), rtol=1e-6)
        np.testing.assert_allclose(of_axis.number_density_stddev, counts.std(axis=0) / (volume / n), rtol=1e-6)
        assert of_axis.hist_bin_edges[-1] == pytest.approx(heights[place], rel=1e-6)
    np.testing.assert_array_equal(found.results.number, found.results.y.number_density)
    assert any("not right-angled" in note for note in found.notes)


def test_widths_are_the_mean_of_the_frames(tmp_path: Path) -> None:
    edges = np.array([20.0, 22.0, 24.0])
    parts = np.random.default_rng(3).uniform(0, 1, (3, 50, 3))
    positions = (parts * edges[:, None, None]).astype(np.float32)
    write_dcd(tmp_path / "a.dcd", positions, cell=(np.eye(3) * edges[:, None, None]).astype(np.float32))
    traj = kn.open(tmp_path / "a.dcd", topology=atoms(50), stored=False)
    found = LinearDensity(traj, binsize=2.0, quantity="number").run()
    counts = np.array([np.bincount((one[:, 2] * 10).astype(int), minlength=10) for one in parts])
    np.testing.assert_allclose(found.results.edges, np.linspace(0, 22, 11), rtol=1e-6)
    np.testing.assert_allclose(found.results.number, counts.mean(axis=0) / ((edges**3).mean() / 10), rtol=1e-6)


def test_sums_are_exact_in_fixed_point(tmp_path: Path) -> None:
    n, n_frames = 97, 6
    weights = np.random.default_rng(5).normal(size=n)
    positions = random_positions(n_frames, n, np.eye(3) * EDGE)
    traj = trajectory(tmp_path, positions, np.eye(3) * EDGE, atoms(n, charges=weights))
    found = LinearDensity(traj, axis="x", binsize=5.0, quantity="charge").run()
    sums = [Fraction(0)] * 4
    counts = [0] * 4
    for frame in positions.astype(np.float32).astype(np.float64):
        for x, weight in zip(frame[:, 0], traj.atoms.charges, strict=True):
            place = int((x / EDGE % 1.0) * 4)
            sums[place] += Fraction(float(weight))
            counts[place] += 1
    half_units = float(found.provenance().parameters["largest rounding of a weight"].split()[-1]) * 1.1
    scale = EDGE**3 / 4 * n_frames
    for value, exact, count in zip(found.results.charge * scale, sums, counts, strict=True):
        # then rounded to double precision a few times
        assert abs(Fraction(float(value)) - exact) <= count * half_units + 1e-14 * (1 + abs(float(exact)))


def test_two_charged_sheets(tmp_path: Path) -> None:
    n = 30
    positions = np.random.default_rng(1).uniform(0, EDGE, (2, 2 * n, 3))
    positions[:, :n, 2], positions[:, n:, 2] = 5.05, 15.05
    charges = np.repeat([0.1, -0.1], n)
    traj = trajectory(tmp_path, positions, np.eye(3) * EDGE, atoms(2 * n, charges=charges))
    found = LinearDensity(traj, binsize=0.1, potential=True, quantity="charge").run()
    z, phi = found.results.bins, found.results.potential
    # sigma / epsilon_0, V/angstrom: between the sheets the potential falls with it
    field = 180.95128 * 0.1 * n / EDGE**2
    assert np.abs(phi[z < 5]).max() < 1e-9
    inside = (z > 5.2) & (z < 14.9)
    np.testing.assert_allclose(phi[inside], -field * (z[inside] - 5.05), atol=1e-3 * field)
    np.testing.assert_allclose(phi[z > 15.2], -field * 10.0, rtol=1e-6)
    # a net charge is noted, and taken off
    some = atoms(2 * n, charges=np.repeat([0.1, -0.05], n))
    net = LinearDensity(
        trajectory(tmp_path, positions, np.eye(3) * EDGE, some), potential=True, quantity="charge"
    ).run()
    assert any("net charge of 1.5 e" in note for note in net.notes)
    off = LinearDensity(net.trajectory, potential=True, quantity="charge", correct=True).run()
    last = off.results.potential[-1] - off.results.potential[-2]
    assert abs(last) < abs(net.results.potential[-1] - net.results.potential[-2]) / 3


def test_a_layer_across_the_face_is_centred(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    layer = random.uniform(0, EDGE, (4, 60, 3))
    layer[..., 2] = random.normal(0, 1.5, (4, 60))
    water = random.uniform(0, EDGE, (4, 90, 3))
    positions = np.concatenate([layer, water], axis=1)
    middle = LinearDensity(
        trajectory(tmp_path, positions + np.array([0, 0, 10.0]), np.eye(3) * EDGE),
        relative_to="index 0:59",
        quantity="number",
    ).run()
    (tmp_path / "b").mkdir()
    across = LinearDensity(
        trajectory(tmp_path / "b", positions, np.eye(3) * EDGE), relative_to="index 0:59", quantity="number"
    ).run()
    assert across.results.edges[0] == pytest.approx(-EDGE / 2, rel=1e-6)
    # atoms at the edges of slices may be rounded to other sides
    apart = np.abs(middle.results.number - across.results.number) * across.results.z.slice_volume * 4
    assert apart.sum() <= 4
    both = LinearDensity(across.trajectory, relative_to="index 0:59", quantity="number", symmetrize=True).run()
    one = across.results.number
    np.testing.assert_allclose(both.results.number, (one + one[::-1]) / 2, rtol=1e-12)
    np.testing.assert_array_equal(both.results.x.number_density, across.results.x.number_density)
    spread = LinearDensity(across.trajectory, relative_to="index 0:59", quantity="number", axis="x").run()
    assert any("its centre there is not sure" in note for note in spread.notes)


def test_blocks_and_their_standard_error(tmp_path: Path) -> None:
    positions = random_positions(7, 100, np.eye(3) * EDGE)
    traj = trajectory(tmp_path, positions, np.eye(3) * EDGE)
    found = LinearDensity(traj, binsize=2.0, n_blocks=3).run(workers=2)
    parts = [LinearDensity(traj, binsize=2.0).run(start, stop) for start, stop in ((0, 2), (2, 4), (4, 7))]
    for name in ("mass", "number", "charge", "electrons"):
        blocks = np.array([one.results[name] for one in parts])
        error = blocks.std(axis=0, ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(found.results[f"{name}_error"], error, rtol=1e-9, atol=1e-14)
    with pytest.raises(kn.ArgumentError, match="n_blocks=8 needs as many frames"):
        LinearDensity(traj, n_blocks=8).run()


def test_quantities_of_water(tmp_path: Path) -> None:
    traj = trajectory(tmp_path, random_positions(2, 300, np.eye(3) * EDGE), np.eye(3) * EDGE)
    found = LinearDensity(traj, binsize=2.0).run()
    width, volume = 2.0, EDGE**3
    assert found.results.number.mean() == pytest.approx(300 / volume)
    assert found.results.mass.mean() == pytest.approx(100 * 18.0154 * 1.66053907 / volume)
    # ten electrons a molecule
    assert found.results.electrons.mean() == pytest.approx(1000 / volume)
    assert abs(found.results.charge.sum() * width * EDGE**2) < 1e-9
    np.testing.assert_allclose(found.results.z.charge_density, found.results.charge * 1.66053907, rtol=1e-8)
    table = found.table()
    assert [column.name for column in table.columns] == ["z", "mass", "number", "charge", "electrons"]
    nm = table.change_units("nm", "ps")
    np.testing.assert_allclose(nm.columns[3].values, found.results.charge * 1000)
    assert nm.columns[3].unit == "e/nm^3"
    found.plot(tmp_path / "profile.png")


def test_groups_are_counted_by_their_centres_of_mass(tmp_path: Path) -> None:
    write_solvated_peptide(tmp_path, 3)
    traj = kn.open(tmp_path / "peptide.dcd", topology=tmp_path / "peptide.psf", stored=False)
    table = traj.atoms
    for grouping, marks in (("residues", table.resindices), ("fragments", table.fragindices())):
        with kn.base.notes.collected():
            found = LinearDensity(traj, grouping=grouping, binsize=1.0, quantity="mass").run()
        frames = traj.read(slice(None)).astype(np.float64)
        cell = np.asarray(traj[0].cell, np.float64)
        n = len(found.results.bins)
        masses = np.bincount(marks, weights=table.masses)
        expected = np.zeros(n)
        for positions in frames:
            weighted = [np.bincount(marks, weights=table.masses * positions[:, x]) for x in range(3)]
            parts = (np.array(weighted) / masses).T @ np.linalg.inv(cell)
            expected += np.bincount(((parts[:, 2] % 1.0) * n).astype(int), weights=masses, minlength=n)
        volume = np.linalg.det(cell) / n
        np.testing.assert_allclose(found.results.mass, expected / 3 / volume * 1.66053907, rtol=1e-6, atol=1e-9)


def test_what_is_missing_is_refused_by_name(tmp_path: Path) -> None:
    positions = random_positions(2, 30, np.eye(3) * EDGE)
    bare = trajectory(tmp_path, positions, np.eye(3) * EDGE, kn.Atoms(30, masses=np.ones(30)))
    with pytest.raises(kn.ArgumentError, match="no charges"):
        LinearDensity(bare)
    with pytest.raises(kn.ArgumentError, match="no charges"):
        LinearDensity(bare, quantity="charge")
    charged = trajectory(tmp_path, positions, np.eye(3) * EDGE, kn.Atoms(30, charges=np.ones(30)))
    with pytest.raises(kn.ArgumentError, match="no masses"):
        LinearDensity(charged, quantity="mass")
    with pytest.raises(kn.ArgumentError, match="no elements"):
        LinearDensity(charged, quantity="electrons")
    LinearDensity(charged, quantity="charge").run()
    with pytest.raises(kn.ArgumentError, match="binsize=21 is more than the height"):
        LinearDensity(charged, quantity="charge", binsize=21.0).run()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"binsize": 0.0}, "binsize is a length above 0"),
        ({"binsize": float("nan")}, "binsize is a length above 0"),
        ({"correct": True}, "correct= is of the potential"),
        ({"symmetrize": True}, "symmetrize= needs a centre"),
        ({"potential": True, "quantity": "mass"}, "potential= is that of charges"),
    ]
    for wrong, match in cases:
        with pytest.raises(kn.ArgumentError, match=match):
            LinearDensity(charged, **({"quantity": "charge"} | wrong))
    write_dcd(tmp_path / "open.dcd", positions.astype(np.float32))
    without = kn.open(tmp_path / "open.dcd", topology=atoms(30), stored=False)
    with pytest.raises(kn.ArgumentError, match=r"open\.dcd: frame 0 has no cell with a volume"):
        LinearDensity(without).run()
    nan = positions.copy()
    nan[1, 4, 1] = np.nan
    with pytest.raises(kn.CorruptFileError, match="frame 1"):
        LinearDensity(trajectory(tmp_path, nan, np.eye(3) * EDGE)).run()


def test_elements_by_mass() -> None:
    table = kn.Atoms(4, masses=[15.9994, 1.008, 35.45, 0.0])
    with kn.base.notes.collected() as notes:
        np.testing.assert_array_equal(atomic_numbers(table, "a test"), [8, 1, 17, 0])
        np.testing.assert_array_equal(neutron_lengths(table, "a test"), [5.803, -3.739, 9.577, 0])
    assert "they are those with the masses" in notes[0]
    # a united atom CH2 is not a nitrogen
    with pytest.raises(kn.ArgumentError, match=r"a mass of 14\.027 u is that of no element"):
        atomic_numbers(kn.Atoms(1, masses=[14.027]), "a test")
    with pytest.raises(kn.ArgumentError, match="'XX'"):
        atomic_numbers(kn.Atoms(1, elements=["Xx"]), "a test")
