"""Structure factors: brute force in NumPy, peaks of a crystal, an ideal gas, partial ones, and freud's."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import StructureFactor
from kinema.testing.writers import write_dcd

TRICLINIC = np.array([[9.0, 0, 0], [4, 8, 0], [-2, 3, 7.5]])


def trajectory(folder: Path, positions: Any, cell: Any, **columns: Any) -> kn.Trajectory:
    positions = np.asarray(positions, np.float32)
    cells = np.broadcast_to(np.asarray(cell, np.float32), (len(positions), 3, 3))
    write_dcd(folder / "a.dcd", positions, cell=cells)
    return kn.open(folder / "a.dcd", topology=kn.Atoms(positions.shape[1], **columns), stored=False)


def random_positions(n_frames: int, n_atoms: int, cell: Any, seed: int = 1) -> Any:
    return np.random.default_rng(seed).uniform(-1, 2, (n_frames, n_atoms, 3)) @ np.asarray(cell)


def wave_vectors(cell: Any, kmax: float) -> Any:
    """(n, 3) of a cell, without 0."""
    dual = 2 * np.pi * np.linalg.inv(cell).T
    most = [int(kmax * np.linalg.norm(edge) / (2 * np.pi)) for edge in cell]
    numbers = np.array(list(product(*(range(-m, m + 1) for m in most))))
    k = numbers @ dual
    lengths = np.linalg.norm(k, axis=1)
    return k[(lengths > 0) & (lengths <= kmax)]


def test_brute_force_in_a_triclinic_cell(tmp_path: Path) -> None:
    positions = random_positions(3, 41, TRICLINIC)
    factors = np.random.default_rng(2).normal(size=41)
    symbols = np.array(["O", "H"])[(np.arange(41) % 3 > 0).astype(int)]
    traj = trajectory(tmp_path, positions, TRICLINIC, elements=symbols)
    k = wave_vectors(TRICLINIC, 4.0)
    bins = np.digitize(np.linalg.norm(k, axis=1), np.linspace(0, 4, 21)) - 1
    number = np.bincount(bins, minlength=20)
    assert number[4:].all()

    def expected(f: Any, g: Any) -> Any:
        total = np.zeros(20)
        for frame in positions.astype(np.float32).astype(np.float64):
            waves = np.exp(1j * frame @ k.T)
            total += np.bincount(bins, weights=((f @ waves) * (g @ waves).conj()).real, minlength=20)
        with np.errstate(invalid="ignore"):
            return total / 3 / number

    plain = StructureFactor(traj, kmax=4.0, nbins=20).run(workers=2)
    np.testing.assert_allclose(plain.results.structure_factor, expected(np.ones(41), np.ones(41)) / 41, rtol=1e-9)
    np.testing.assert_array_equal(plain.results.wave_vectors, number)
    weighted = StructureFactor(traj, kmax=4.0, nbins=20, weights=factors).run()
    np.testing.assert_allclose(
        weighted.results.structure_factor, expected(factors, factors) / (factors**2).sum(), rtol=1e-9
    )
    partial = StructureFactor(traj, kmax=4.0, nbins=20, weights="neutron", by="element").run()
    assert partial.pairs == [("H", "H"), ("H", "O"), ("O", "O")]
    is_of = {symbol: (symbols == symbol).astype(float) for symbol in "HO"}
    for column, (one, other) in enumerate(partial.pairs):
        f, g = is_of[one], is_of[other]
        np.testing.assert_allclose(
            partial.results.partial[:, column], expected(f, g) / np.sqrt(f.sum() * g.sum()), rtol=1e-8, atol=1e-12
        )
    neutron = np.where(symbols == "O", 5.803, -3.739)
    np.testing.assert_allclose(
        partial.results.structure_factor, expected(neutron, neutron) / (neutron**2).sum(), rtol=1e-9
    )
    names = [column.name for column in partial.table().columns]
    assert names == ["k", "structure_factor", "wave_vectors", "H-H", "H-O", "O-O"]
    partial.plot(tmp_path / "partial.png")
    some = StructureFactor(traj, kmax=4.0, kmin=2.0, nbins=10, weights=factors).run()
    np.testing.assert_allclose(some.results.structure_factor, weighted.results.structure_factor[10:], rtol=1e-12)


def test_peaks_of_a_crystal(tmp_path: Path) -> None:
    # 4 x 4 x 4 cubic cells of 2 angstrom: N at multiples of 2 pi / 2, 0 elsewhere
    crystal = np.array(list(product(range(4), repeat=3))) * 2.0
    traj = trajectory(tmp_path, [crystal], np.eye(3) * 8.0)
    found = StructureFactor(traj, kmax=5.0, nbins=500).run()
    is_peak = found.results.structure_factor > 1e-6
    expected = [np.pi * length for length in (1, np.sqrt(2))]
    np.testing.assert_allclose(found.results.bins[is_peak], expected, atol=0.01)
    at_first = is_peak & (found.results.bins < 3.5)
    assert found.results.wave_vectors[at_first] == 6
    assert found.results.structure_factor[at_first] == pytest.approx(64.0)
    assert np.nanmax(np.abs(found.results.structure_factor[~is_peak])) < 1e-9


def test_an_ideal_gas_is_one(tmp_path: Path) -> None:
    traj = trajectory(tmp_path, random_positions(60, 100, np.eye(3) * 12.0), np.eye(3) * 12.0)
    found = StructureFactor(traj, kmax=4.0, nbins=10).run()
    n = found.results.wave_vectors * 60 / 2
    # values of a wave vector are distributed as exp(-S), with a deviation of 1
    known = n > 0
    assert (np.abs(found.results.structure_factor[known] - 1) < 5 / np.sqrt(n[known])).all()


def test_the_same_bits_for_any_number_of_workers(tmp_path: Path) -> None:
    traj = trajectory(tmp_path, random_positions(37, 20, TRICLINIC), TRICLINIC)
    runs = [StructureFactor(traj, kmax=3.0).run(workers=workers) for workers in (1, 2, 3)]
    bits = {run.results.structure_factor.tobytes() for run in runs}
    assert len(bits) == 1


def test_as_freud(tmp_path: Path) -> None:
    stored = np.load(Path(__file__).parent.parent / "data" / "freud" / "freud.npz")
    traj = trajectory(tmp_path, stored["mirrored positions"][None], np.eye(3) * 10.0)
    found = StructureFactor(traj, kmax=1.85, nbins=300).run()
    known = found.results.wave_vectors > 0
    assert known.sum() == 7
    np.testing.assert_allclose(
        found.results.structure_factor[known], stored["mirrored S(k)"][known], rtol=1e-4, atol=1e-5
    )


def test_bad_input(tmp_path: Path) -> None:
    positions = random_positions(2, 9, np.eye(3) * 8.0)
    traj = trajectory(tmp_path, positions, np.eye(3) * 8.0, elements=["O"] * 8 + ["Xe"], types=list("aaaabbbbc"))
    for wrong, match in (
        ({"kmax": 0.0}, "0 <= kmin < kmax"),
        ({"kmin": 6.0}, "0 <= kmin < kmax"),
        ({"nbins": 0}, "nbins"),
        ({"weights": "xray"}, "weights"),
        ({"weights": np.ones(4)}, "9 finite numbers"),
        ({"weights": np.zeros(9)}, "all 0"),
        ({"weights": np.arange(9.0), "by": "type"}, "several weights"),
        ({"by": "residue"}, "by"),
    ):
        with pytest.raises(kn.ArgumentError, match=match):
            StructureFactor(traj, **wrong)
    with pytest.raises(kn.Error, match="too many wave vectors"):
        StructureFactor(traj, kmax=1e6).run()
    none = StructureFactor(traj, kmax=0.5).run()
    assert np.isnan(none.results.structure_factor).all()
    assert "no wave vectors" in none.notes[-1]
    write_dcd(tmp_path / "open.dcd", positions.astype(np.float32))
    without = kn.open(tmp_path / "open.dcd", topology=kn.Atoms(9), stored=False)
    with pytest.raises(kn.ArgumentError, match="no cell with a volume, which a structure factor needs"):
        StructureFactor(without).run()


def test_standard_errors_of_parts_and_memory(tmp_path: Path) -> None:
    positions = random_positions(7, 41, TRICLINIC)
    symbols = np.array(["O", "H"])[(np.arange(41) % 3 > 0).astype(int)]
    traj = trajectory(tmp_path, positions, TRICLINIC, elements=symbols)
    given: Any = {"kmax": 4.0, "kmin": 1.0, "nbins": 12, "by": "element"}
    found = StructureFactor(traj, **given, n_blocks=3).run(workers=2)
    whole = StructureFactor(traj, **given).run()
    parts = [StructureFactor(traj, **given).run(frames=frames).results for frames in ([0, 1], [2, 3], [4, 5, 6])]
    for name in ("structure_factor", "partial"):
        np.testing.assert_allclose(found.results[name], whole.results[name], rtol=1e-12)
        expected = np.std([one[name] for one in parts], axis=0, ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(found.results[f"{name}_error"], expected, rtol=1e-9)
    names = [column.name for column in found.table().columns]
    assert names[:3] == ["k", "structure_factor", "structure_factor_error"]
    assert names[4:6] == ["H-H", "H-H_error"]
    with pytest.raises(kn.ArgumentError, match="n_blocks=8 needs as many frames"):
        StructureFactor(traj, n_blocks=8).run()
    # Fourier sums of a worker are part of its memory
    large = trajectory(tmp_path, positions, 10 * TRICLINIC)
    with pytest.raises(kn.MemoryLimitError, match="memory"):
        StructureFactor(large, kmax=9.0).run(memory="40 MiB")
