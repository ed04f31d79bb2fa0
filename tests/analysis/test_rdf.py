"""Radial distribution functions: against brute force, MDAnalysis, a crystal and an ideal gas."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema.analysis.density.shells import first_shell
from kinema.testing import write_dcd
from kinema.testing.analyses import write_solvated_peptide

TILTED = np.array([[9.0, 0, 0], [3.0, 8.0, 0], [-2.0, 3.5, 7.0]])


@pytest.fixture(scope="module")
def peptide(tmp_path_factory: pytest.TempPathFactory) -> kn.Trajectory:
    topology, trajectory = write_solvated_peptide(tmp_path_factory.mktemp("rdf"), 6)
    return kn.open(trajectory, topology=topology)


def written(folder: Path, positions: NDArray[Any], cell: NDArray[Any] | None) -> kn.Trajectory:
    path = folder / "a.dcd"
    cells = None if cell is None else np.broadcast_to(cell, (len(positions), 3, 3)).astype(np.float32)
    write_dcd(path, positions.astype(np.float32), cell=cells)
    return kn.open(path)


def brute_force(frame: NDArray[Any], cell: NDArray[Any], most: float) -> NDArray[np.float64]:
    """Distances of all ordered pairs of atoms and their images, but not of an atom and itself."""
    frame = frame.astype(np.float64)
    found = []
    for shift in product(range(-8, 9), repeat=3):
        apart = frame[None] - frame[:, None] + np.array(shift) @ cell
        distances = np.sqrt((apart**2).sum(axis=2))
        keep = np.ones_like(distances, bool) if any(shift) else ~np.eye(len(frame), dtype=bool)
        found.append(distances[keep])
    distances = np.concatenate(found)
    return distances[distances <= most]


def test_counts_are_those_of_all_images_beyond_the_cell(tmp_path: Path) -> None:
    positions = np.random.default_rng(3).uniform(-10, 10, (3, 15, 3))
    trajectory = written(tmp_path, positions, TILTED)
    # as they are read
    frames, cells = trajectory.read(fields=["positions"])["positions"], trajectory.read(fields=["positions"])["cells"]
    found = kn.analysis.InterRDF(trajectory, nbins=120, range=(0, 12)).run()
    distances = np.concatenate([brute_force(*one, 12.0) for one in zip(frames, cells, strict=True)])
    expected, edges = np.histogram(distances, bins=120, range=(0, 12))
    np.testing.assert_array_equal(found.results.count, expected)
    np.testing.assert_allclose(found.results.edges, edges)
    volume = abs(np.linalg.det(TILTED))
    np.testing.assert_allclose(found.results.volume, volume, rtol=1e-6)
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    np.testing.assert_allclose(found.results.rdf, expected / (shells * 3 * 15 * 14 / volume), rtol=1e-6)
    np.testing.assert_allclose(found.results.coordination, np.cumsum(expected) / (3 * 15))


CELLS = {
    "cube": np.eye(3) * 8.0,
    "box": np.diag([7.0, 9.0, 8.0]),
    "hexagonal": [[8.0, 0, 0], [-4.0, 48**0.5, 0], [0, 0, 9.0]],
    "rhombic dodecahedron": [[9.0, 0, 0], [0, 9.0, 0], [4.5, 4.5, 40.5**0.5]],
    "truncated octahedron": [[9.0, 0, 0], [3.0, 72**0.5, 0], [-3.0, 18**0.5, 54**0.5]],
    "monoclinic": [[8.0, 0, 0], [0, 7.0, 0], [-3.5, 0, 8.0]],
    "steep": [[6.0, 0, 0], [2.9, 7.0, 0], [2.9, 3.4, 6.5]],
    "flat": np.diag([12.0, 11.0, 3.0]),
}


@pytest.mark.parametrize("kind", CELLS)
def test_as_freud(kind: str, tmp_path: Path) -> None:
    """Up to half of the least height of the cell."""
    with np.load(Path(__file__).parent.parent / "data" / "freud" / "freud.npz") as file:
        stored = {name: file[f"{kind} {name}"] for name in ("cell", "positions", "most", "counts", "rdf")}
    trajectory = written(tmp_path, stored["positions"][None], stored["cell"])
    found = kn.analysis.InterRDF(trajectory, nbins=20, range=(0, float(stored["most"]))).run().results
    # distances and edges there are in single precision
    assert np.abs(found.count - stored["counts"]).sum() <= 4
    assert stored["counts"].sum() > 500
    same = found.count == stored["counts"]
    np.testing.assert_allclose(found.rdf[same], stored["rdf"][same], rtol=1e-5)


@pytest.mark.parametrize("kind", CELLS)
def test_counts_are_those_of_double_precision_in_eight_kinds_of_cell(kind: str, tmp_path: Path) -> None:
    """Each bin, within half of the cell and beyond all of it."""
    positions = np.random.default_rng(5).uniform(-9, 9, (2, 12, 3))
    trajectory = written(tmp_path, positions, np.array(CELLS[kind]))
    read = trajectory.read(fields=["positions"])
    for most in (3.0, 10.0):
        distances = [brute_force(*one, most) for one in zip(read["positions"], read["cells"], strict=True)]
        expected, _ = np.histogram(np.concatenate(distances), bins=50, range=(0, most))
        assert expected.sum() > 20
        found = kn.analysis.InterRDF(trajectory, nbins=50, range=(0, most)).run()
        np.testing.assert_array_equal(found.results.count, expected)


def differ(found: Any, expected: Any) -> int:
    """Number of counts that differ: MDAnalysis' distances and edges are in single precision."""
    return int(np.abs(found.results.count.astype(int) - expected.results.count.astype(int)).sum())


def test_mdanalysis_has_the_same_counts(peptide: kn.Trajectory) -> None:
    import MDAnalysis
    from MDAnalysis.analysis.rdf import InterRDF

    universe = MDAnalysis.Universe(peptide.topology_name, peptide.paths[0])
    oxygens, hydrogens = (universe.select_atoms(f"name {name}") for name in ("OH2", "H1"))
    given: Any = {"nbins": 40, "range": (0.5, 9.0)}
    for groups, names in (((oxygens, oxygens), ("name OH2", None)), ((oxygens, hydrogens), ("name OH2", "name H1"))):
        for exclude in (None, "residue"):
            expected = InterRDF(*groups, exclude_same=exclude, **given).run()
            more: Any = {"exclude_same": exclude, "images": "minimum", "volume": "mean", **given}
            found = kn.analysis.InterRDF(peptide, *names, **more).run()
            assert differ(found, expected) <= 4
            if exclude is None and names[1] is not None:
                np.testing.assert_allclose(found.results.rdf, expected.results.rdf, rtol=0.05)
    # theirs counts an atom and itself, and takes the exclusion of a block off the number of pairs
    expected = InterRDF(oxygens, oxygens, nbins=40, range=(0.0, 9.0)).run()
    found = kn.analysis.InterRDF(peptide, "name OH2", nbins=40, range=(0, 9), count_self=True, images="minimum").run()
    assert differ(found, expected) <= 4
    np.testing.assert_allclose(found.results.rdf, expected.results.rdf, rtol=0.05)
    expected = InterRDF(oxygens, oxygens, exclusion_block=(1, 1), **given).run()
    found = kn.analysis.InterRDF(peptide, "name OH2", images="minimum", **given).run()
    np.testing.assert_allclose(found.results.rdf, expected.results.rdf, rtol=0.05)
    density = InterRDF(oxygens, oxygens, norm="density", exclusion_block=(1, 1), **given).run().results.rdf
    found = kn.analysis.InterRDF(peptide, "name OH2", norm="density", images="minimum", **given).run()
    np.testing.assert_allclose(found.results.rdf, density, rtol=0.05)


def test_shells_of_a_cubic_lattice(tmp_path: Path) -> None:
    places = np.array(list(product(range(3), repeat=3)), float) * 2.0
    trajectory = written(tmp_path, places[None], np.eye(3) * 6.0)
    found = kn.analysis.InterRDF(trajectory, nbins=50, range=(0.0, 5.0)).run().results
    neighbours = {2.0: 6, 8**0.5: 12, 12**0.5: 8, 4.0: 6, 20**0.5: 24, 24**0.5: 24}
    expected = np.zeros(50, int)
    for distance, number in neighbours.items():
        expected[int(np.searchsorted(found.edges, distance + 1e-6)) - 1] += 27 * number
    np.testing.assert_array_equal(found.count, expected)
    assert found.coordination[-1] == sum(neighbours.values())


def test_an_ideal_gas_has_no_structure(tmp_path: Path) -> None:
    from scipy.stats import chisquare

    positions = np.random.default_rng(11).uniform(0, 1, (60, 60, 3)) @ TILTED
    found = kn.analysis.InterRDF(written(tmp_path, positions, TILTED), nbins=20, range=(0.0, 3.0)).run().results
    # each pair once: its two orders are not independent
    shells = np.diff(found.edges**3) / found.edges[-1] ** 3
    counts = found.count / 2
    assert chisquare(counts, shells * counts.sum()).pvalue > 1e-4
    assert abs(found.rdf[5:].mean() - 1) < 0.02


def test_what_is_left_out_is_left_out_of_the_number_of_pairs(peptide: kn.Trajectory) -> None:
    atoms = peptide.atoms
    water = peptide.select("resname TIP3").indices
    of = atoms.resindices[water]
    same = of[:, None] == of[None]
    n = len(water)
    every = kn.analysis.InterRDF(peptide, "resname TIP3", nbins=30, range=(0, 6)).run().results
    parts = {}
    for intra in ("only", "none"):
        parts[intra] = kn.analysis.InterRDF(peptide, "resname TIP3", nbins=30, range=(0, 6), intra=intra).run().results
    assert every.n_pairs == [n * (n - 1)]
    assert parts["only"].n_pairs == [same.sum() - n] and parts["none"].n_pairs == [n * n - same.sum()]
    np.testing.assert_array_equal(parts["only"].count + parts["none"].count, every.count)
    bonds = kn.analysis.InterRDF(peptide, "resname TIP3", nbins=30, range=(0, 6), exclude_bonds=2).run().results
    np.testing.assert_array_equal(bonds.n_pairs, parts["none"].n_pairs)
    np.testing.assert_array_equal(bonds.count, parts["none"].count)
    blocks = kn.analysis.InterRDF(peptide, "resname TIP3", nbins=30, range=(0, 6), exclusion_block=(3, 3)).run().results
    np.testing.assert_array_equal(blocks.count, parts["none"].count)
    shared = kn.analysis.InterRDF(peptide, "resname TIP3", "name OH2", nbins=30, range=(0, 6)).run().results
    uneven = kn.analysis.InterRDF(peptide, "name OH2", nbins=30, range=(0, 6), exclusion_block=(1, 2)).run().results
    oxygens = n // 3
    # (0, 0), (0, 1), (1, 2), (1, 3) and so on: the first is an atom and itself
    assert uneven.n_pairs == [oxygens**2 - oxygens - oxygens + 1]
    assert shared.n_pairs == [n * n // 3 - n // 3] and shared.count[0] == 0


def test_a_column_for_each_pair_of_types(peptide: kn.Trajectory) -> None:
    given: Any = {"nbins": 20, "range": (0, 7)}
    found = kn.analysis.InterRDF(peptide, "resname TIP3", by="name", **given).run()
    columns = [one.name for one in found.table().columns]
    assert columns[1:7] == ["H1 - H1", "H1 - H2", "H1 - OH2", "H2 - H2", "H2 - OH2", "OH2 - OH2"]
    for k, (first, second) in enumerate((("H1", None), ("H1", "H2"), ("H1", "OH2"))):
        other = None if second is None else f"name {second}"
        alone = kn.analysis.InterRDF(peptide, f"resname TIP3 and name {first}", other, **given).run().results
        np.testing.assert_array_equal(found.results.count[:, k], alone.count)
        np.testing.assert_allclose(found.results.rdf[:, k], alone.rdf)
        np.testing.assert_allclose(found.results.coordination[:, k], alone.coordination)


def test_errors_from_blocks_are_those_of_runs_of_the_parts(peptide: kn.Trajectory) -> None:
    given: Any = {"select": "name OH2", "nbins": 10, "range": (2.0, 8.0)}
    found = kn.analysis.InterRDF(peptide, n_blocks=3, **given).run().results
    parts = [kn.analysis.InterRDF(peptide, **given).run(start=i, stop=i + 2).results.rdf for i in (0, 2, 4)]
    np.testing.assert_allclose(found.rdf_error, np.std(parts, axis=0, ddof=1) / 3**0.5)
    np.testing.assert_array_equal(found.count, kn.analysis.InterRDF(peptide, **given).run().results.count)
    elements = kn.analysis.InterRDF(peptide, by="element", nbins=5).run().table()
    assert "O - O" in [one.name for one in elements.columns]
    with pytest.raises(kn.ArgumentError, match="n_blocks=7 needs as many frames"):
        kn.analysis.InterRDF(peptide, n_blocks=7, **given).run()


def test_rings_in_a_plane(tmp_path: Path) -> None:
    positions = np.random.default_rng(5).uniform(0, 6.9, (2, 30, 3))
    cell = np.diag([9.0, 8.0, 7.0])
    trajectory = written(tmp_path, positions, cell)
    found = kn.analysis.InterRDF(trajectory, nbins=12, range=(0.0, 6.0), dimensions="xy").run().results
    flat = positions.astype(np.float32) * np.array([1, 1, 0], np.float32)
    plane = np.diag([9.0, 8.0, 1e6])
    distances = np.concatenate([brute_force(frame, plane, 6.0) for frame in flat])
    expected, edges = np.histogram(distances, bins=12, range=(0, 6))
    np.testing.assert_array_equal(found.count, expected)
    np.testing.assert_allclose(found.rdf, expected / (np.pi * np.diff(edges**2) * 2 * 30 * 29 / 72), rtol=1e-6)
    # atoms outside of the cell along an edge that leans over count at their place in it
    leaning = np.array([[9.0, 0, 0], [0, 8.0, 0], [2.0, 1.0, 7.0]])
    moved = positions + np.array([-1, 2] * 15)[:, None] * leaning[2]
    again = kn.analysis.InterRDF(written(tmp_path, moved, leaning), nbins=12, range=(0.0, 6.0), dimensions="xy").run()
    assert np.abs(again.results.count.astype(int) - expected).sum() <= 4


def test_cells_without_a_volume_are_refused_unless_it_does_not_matter(tmp_path: Path) -> None:
    trajectory = written(tmp_path, np.random.default_rng(1).uniform(0, 9, (2, 20, 3)), None)
    with pytest.raises(
        kn.ArgumentError,
        match=r"a.dcd: frame 0 has no cell with a volume, which norm='rdf' needs; give volume=, or norm='none'",
    ):
        kn.analysis.InterRDF(trajectory).run()
    counts = kn.analysis.InterRDF(trajectory, norm="none").run().results
    assert counts.count.sum() > 0 and (counts.rdf * 2 == counts.count).all()
    given = kn.analysis.InterRDF(trajectory, volume=729.0).run().results.rdf
    assert np.isfinite(given).all()


def test_the_mean_volume_of_cells_that_change(tmp_path: Path) -> None:
    """MDAnalysis' number: counts by T N / <V>; by default the sum of N / V."""
    edges = np.array([9.0, 12.0, 18.0])
    positions = np.random.default_rng(2).uniform(0, 1, (3, 40, 3)) * edges[:, None, None]
    trajectory = written(tmp_path, positions, edges[:, None, None] * np.eye(3))
    mean, default = (
        kn.analysis.InterRDF(trajectory, nbins=10, range=(0, 4), volume=volume).run().results
        for volume in ("mean", None)
    )
    np.testing.assert_array_equal(mean.count, default.count)
    shells, volumes = 4 / 3 * np.pi * np.diff(mean.edges**3), edges**3
    np.testing.assert_allclose(mean.rdf, mean.count / (shells * 3 * 40 * 39 / volumes.mean()), rtol=1e-6)
    np.testing.assert_allclose(default.rdf, mean.count / (shells * 40 * 39 * (1 / volumes).sum()), rtol=1e-6)
    none = written(tmp_path, positions, None)
    with pytest.raises(kn.ArgumentError, match="frame 0 has no cell with a volume, which norm='rdf' needs"):
        kn.analysis.InterRDF(none, volume="mean").run()


def test_the_first_shell(peptide: kn.Trajectory) -> None:
    distances = np.linspace(0.1, 12, 120)
    wave = np.where(distances < 2, 0, 1 + 2 * np.exp(-distances / 3) * np.cos(2 * np.pi * (distances - 2.8) / 3))
    place = first_shell(wave)
    assert place is not None and abs(distances[place] - 4.3) < 0.2
    assert first_shell(np.ones(50)) is None
    nothing = kn.analysis.InterRDF(peptide, "name OH2", range=(0, 1)).run()
    assert np.isnan(nothing.first_shell).all()


def test_pairs_that_are_missing_at_large_distances_are_noted(peptide: kn.Trajectory) -> None:
    for images, words in (("minimum", r"beyond 12 angstrom, half of"), ("none", "across the faces of the cell")):
        with pytest.warns(kn.Note, match=words):
            kn.analysis.InterRDF(peptide, "name OH2", range=(0, 15), images=images).run()
    within = kn.analysis.InterRDF(peptide, "name OH2", range=(0, 11.9), images="minimum").run()
    every = kn.analysis.InterRDF(peptide, "name OH2", range=(0, 11.9)).run()
    np.testing.assert_array_equal(within.results.count, every.results.count)
    # an image of an atom is not another atom of its molecule
    only = kn.analysis.InterRDF(peptide, "name OH2", range=(0, 30), intra="only").run().results
    assert only.n_pairs == [0] and not only.count.any()


def test_functions_of_single_pairs_of_atoms(peptide: kn.Trajectory) -> None:
    import MDAnalysis
    from MDAnalysis.analysis.rdf import InterRDF_s

    universe = MDAnalysis.Universe(peptide.topology_name, peptide.paths[0])
    water, nitrogens, carbons = (universe.select_atoms(f"name {name}") for name in ("OH2", "N", "CA"))
    groups = [[water[:4], nitrogens], [nitrogens, carbons]]
    ags: Any = [[group.indices.astype(np.int64) for group in pair] for pair in groups]
    given: Any = {"nbins": 25, "range": (0.0, 11.0)}
    theirs = InterRDF_s(universe, groups, **given).run()
    ours = kn.analysis.InterRDF_s(peptide, ags, **given).run()
    for k, pair in enumerate(groups):
        assert np.abs(ours.results.count[k].astype(int) - theirs.results.count[k]).sum() <= 2
        np.testing.assert_allclose(ours.results.rdf[k].sum(), theirs.results.rdf[k].sum(), rtol=0.02)
        for found, expected in zip(ours.results.indices[k], pair, strict=True):
            np.testing.assert_array_equal(found, expected.indices)
        assert np.abs(ours.get_cdf()[k] - theirs.get_cdf()[k]).max() <= 1.01 / 6
    assert ours.results.cdf[0].shape == ours.results.count[0].shape
    alone = kn.analysis.InterRDF(peptide, ags[1][0][:1], ags[1][1][2:3], **given).run().results
    np.testing.assert_array_equal(ours.results.count[1][0, 2], alone.count)
    np.testing.assert_allclose(ours.results.rdf[1][0, 2], alone.rdf)
    with pytest.raises(kn.ArgumentError, match="two groups for each set of pairs, found 1"):
        kn.analysis.InterRDF_s(peptide, ["name N"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"range": (3, 3)}, "range must be two finite distances"),
        ({"range": (0, np.inf)}, "range must be two finite distances"),
        ({"range": (0, 1, 2)}, "range must be two finite distances"),
        ({"nbins": 0}, "nbins is a whole number from 1 on"),
        ({"nbins": 2**32}, "nbins must be below"),
        ({"norm": "g"}, "norm must be one of"),
        ({"exclusion_block": (1.5, 2)}, "exclusion_block is two whole numbers"),
        ({"exclude_same": "residue", "intra": "none"}, "exclude_same and intra exclude each other"),
        ({"volume": 0.0}, "volume must be finite and above 0"),
        ({"volume": "median"}, "volume must be a number or 'mean', found 'median'"),
        ({"by": "resname", "select": None, "exclude_same": "chain", "exclusion_block": (1, 1)}, "exclude each other"),
    ],
)
def test_bad_arguments_are_refused(peptide: kn.Trajectory, given: dict[str, Any], words: str) -> None:
    with pytest.raises(kn.ArgumentError, match=words):
        kn.analysis.InterRDF(peptide, **{"select": "name OH2", **given})


def test_atoms_that_change_with_the_frame(peptide: kn.Trajectory) -> None:
    """Counts, pairs and n(r) are those of runs of single frames with the atoms of that frame."""
    import MDAnalysis

    words = "name OH2 and around 4 segid PEP"
    group = MDAnalysis.Universe(peptide.topology_name, peptide.paths[0]).select_atoms(words, updating=True)
    given: Any = {"nbins": 20, "range": (0.0, 9.0)}
    for other in (None, "name OH2", "name H1"):
        found = kn.analysis.InterRDF(peptide, words, other, **given).run(workers=2).results
        alone = []
        for frame, _ in enumerate(group.universe.trajectory):
            atoms = group.indices.copy()
            alone.append(kn.analysis.InterRDF(peptide, atoms, other, **given).run(frames=[frame]).results)
            assert found.n_pairs[frame] == alone[-1].n_pairs[0]
        counts = np.sum([one.count for one in alone], axis=0)
        np.testing.assert_array_equal(found.count, counts)
        shells = 4 / 3 * np.pi * np.diff(found.edges**3)
        expected = counts / (shells * np.sum(found.n_pairs / found.volume))
        np.testing.assert_allclose(found.rdf, expected, rtol=1e-12)
        n_atoms = sum(one.count.sum() / one.coordination[-1] for one in alone)
        assert found.coordination[-1] == pytest.approx(counts.sum() / n_atoms, rel=1e-12)
    with pytest.raises(kn.ArgumentError, match="exclude_same= needs the same atoms in all frames"):
        kn.analysis.InterRDF(peptide, words, exclude_same="residue")


def test_centres_of_molecules(peptide: kn.Trajectory, tmp_path: Path) -> None:
    """As the atoms of a trajectory that has a point for each centre of mass."""
    import MDAnalysis

    universe = MDAnalysis.Universe(peptide.topology_name, peptide.paths[0])
    waters = universe.select_atoms("resname TIP3").residues
    centres, cells = [], []
    for step in universe.trajectory:
        centres.append(waters.center_of_mass(compound="residues"))
        cells.append(step.triclinic_dimensions)
    points = written(tmp_path, np.array(centres), cells[0])
    given: Any = {"nbins": 25, "range": (0.0, 10.0)}
    expected = kn.analysis.InterRDF(points, **given).run().results
    for selections in (("resname TIP3",), ("resname TIP3", "resname TIP3")):
        found = kn.analysis.InterRDF(peptide, *selections, compound="residues", **given).run().results
        # centres in single precision, from positions as they are stored
        assert np.abs(found.count.astype(int) - expected.count.astype(int)).sum() <= 4
        np.testing.assert_array_equal(found.n_pairs, expected.n_pairs)
        assert found.coordination[-1] == pytest.approx(expected.coordination[-1], rel=1e-3)
    with pytest.raises(kn.ArgumentError, match="by= is of atoms, not of the centres"):
        kn.analysis.InterRDF(peptide, compound="residues", by="name")
