"""2-D histograms: NumPy's counts, a harmonic well, periodic edges, weights, frames that are joined, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.statistics import FrameSeries, Histogram2D
from kinema.testing.programs.imports import lazy

RT = 8.31446261815324e-3 * 300.0
plotting = lazy("matplotlib")


def series(values: Any, frames: Any = None, **facts: Any) -> FrameSeries:
    numbers = np.arange(len(values)) if frames is None else np.asarray(frames)
    return FrameSeries("value", np.asarray(values, float), frames=numbers, **facts)


def counts_of(*arguments: Any, **keywords: Any) -> Histogram2D:
    return kn.histogram2d(*arguments, quantity="counts", **keywords)


@pytest.mark.parametrize("bins", [1, 7, (5, 12)])
def test_counts_are_those_of_numpy(bins: Any) -> None:
    rng = np.random.default_rng(1)
    # many values on edges
    x, y = rng.integers(0, 40, 3000) / 4.0, rng.normal(size=3000)
    found = counts_of(x, y, bins=bins)
    expected, *edges = np.histogram2d(x, y, bins=bins)
    np.testing.assert_array_equal(found.counts, expected)
    np.testing.assert_array_equal(found.x_edges, edges[0])
    np.testing.assert_array_equal(found.y_edges, edges[1])
    assert found.probability.sum() == pytest.approx(1.0)
    assert found.n_frames == 3000
    weights = rng.random(3000)
    weighed = counts_of(x, y, bins=bins, weights=weights)
    sums, *_ = np.histogram2d(x, y, bins=bins, weights=weights)
    np.testing.assert_allclose(weighed.probability, sums / weights.sum(), rtol=1e-12)
    np.testing.assert_array_equal(weighed.counts, expected)


def test_a_range_leaves_frames_out_with_a_note() -> None:
    x, y = np.arange(10.0), np.arange(10.0)
    with pytest.warns(kn.Note, match="4 of 10 frames lie outside of the bins"):
        found = counts_of(x, y, bins=5, x_range=(2.0, 7.0))
    expected, *_ = np.histogram2d(x, y, bins=5, range=[(2.0, 7.0), (0.0, 9.0)])
    np.testing.assert_array_equal(found.counts, expected)
    assert (found.n_outside, found.probability.sum()) == (4, 1.0)
    assert found.notes == ("4 of 10 frames lie outside of the bins and are not counted",)


@pytest.mark.parametrize("seed", range(8))
def test_values_on_edges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    number, first, width = int(rng.integers(1, 400)), rng.normal() * 10.0 ** rng.integers(-3, 4), rng.random() + 0.01
    edges = np.linspace(first, first + width, number + 1)
    values = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
    found = counts_of(values, values, bins=(number, 1), x_range=(edges[0], edges[-1]))
    np.testing.assert_array_equal(found.counts[:, 0], np.histogram(values, edges)[0])


def test_edges_that_are_hardly_distinct() -> None:
    values = 1e8 + np.arange(40) * np.spacing(1e8)
    found = counts_of(values, values, bins=(30, 1))
    np.testing.assert_array_equal(found.counts[:, 0], np.histogram(values, 30)[0])


def test_one_value_has_a_bin() -> None:
    found = counts_of([3.0, 3.0], [1.0, 2.0], bins=2)
    np.testing.assert_array_equal(found.x_edges, [2.5, 3.0, 3.5])


def test_the_free_energy_of_a_harmonic_well() -> None:
    rng = np.random.default_rng(7)
    stiffness = np.array([4.0, 25.0])
    x, y = (rng.normal(size=400_000) * np.sqrt(RT / one) for one in stiffness)
    found = kn.histogram2d(x, y, bins=41, x_range=(-1.4, 1.4), y_range=(-0.6, 0.6), temperature=300.0)
    energy = found.free_energy
    assert np.nanmin(energy) == 0.0 and not np.signbit(np.nanmin(energy))
    np.testing.assert_array_equal(np.isnan(energy), found.counts == 0)
    centres = [(edges[1:] + edges[:-1]) / 2 for edges in (found.x_edges, found.y_edges)]
    places = np.meshgrid(*centres, indexing="ij")
    many = found.counts > 20
    # a fit of a + k_x x^2 / 2 + k_y y^2 / 2
    terms = np.column_stack([np.ones(many.sum()), *(one[many] ** 2 / 2 for one in places)])
    fitted = np.linalg.lstsq(terms * np.sqrt(found.counts[many])[:, None], energy[many] * np.sqrt(found.counts[many]))
    np.testing.assert_allclose(fitted[0][1:], stiffness, rtol=0.03)


def test_weights_undo_a_bias() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-1, 1, 200_000), rng.uniform(-1, 1, 200_000)
    found = kn.histogram2d(x, y, bins=10, weights=np.exp(-(3.0 * x) / RT), temperature=300.0)
    along = np.nanmean(found.free_energy, axis=1)
    centres = (found.x_edges[1:] + found.x_edges[:-1]) / 2
    assert np.polyfit(centres, along, 1)[0] == pytest.approx(3.0, rel=0.02)


def test_periodic_values_are_moved_into_the_range() -> None:
    # 180 is -180; 190 is -170; 540 is 180
    angles = np.array([180.0, -180.0, 190.0, 540.0, 179.0, 0.0])
    found = counts_of(series(angles, period=360.0), np.zeros(6), bins=(36, 1))
    assert (found.x_edges[0], found.x_edges[-1]) == (-180.0, 180.0)
    expected = np.zeros(36)
    expected[0], expected[1], expected[35], expected[18] = 3, 1, 1, 1
    np.testing.assert_array_equal(found.counts[:, 0], expected)
    # the same about another edge, and by the argument
    about = counts_of(angles, np.zeros(6), bins=(36, 1), x_range=(0.0, 360.0), periodic=(360.0, None))
    assert about.counts[18, 0] == 3 and about.n_outside == 0
    plain = counts_of(series(angles, period=360.0), np.zeros(6), bins=(36, 1), periodic=0)
    assert plain.x_edges[-1] == 540.0


def test_a_value_just_below_the_first_edge() -> None:
    below = np.nextafter(-180.0, -np.inf)
    found = counts_of([below, 0.0], [below, 0.0], bins=4, periodic=360)
    assert found.n_outside == 0 and found.counts.sum() == 2


def test_series_are_joined_by_frames() -> None:
    x = series([1.0, 2.0, 3.0, 4.0], frames=[10, 20, 30, 40])
    y = series([40.0, 20.0, 50.0], frames=[40, 20, 50])
    with pytest.warns(kn.Note, match="are not in the others"):
        found = counts_of(x, y, bins=2)
    np.testing.assert_array_equal(found.x.values, [2.0, 4.0])
    np.testing.assert_array_equal(found.y.values, [20.0, 40.0])
    assert found.notes == (
        "value: 2 of 4 frames are not in the others and are left out",
        "value: 1 of 3 frames are not in the others and are left out",
    )
    weights = series([1.0, 5.0], frames=[40, 20])
    with pytest.warns(kn.Note):
        weighed = counts_of(x, y, bins=2, weights=weights)
    np.testing.assert_allclose(np.diag(weighed.probability), [5 / 6, 1 / 6])


def test_series_without_frames_are_joined_by_time() -> None:
    x = FrameSeries("a", np.array([1.0, 2.0]), time=np.array([0.1, 0.2]))
    y = series([1.0, 2.0], time=np.array([0.2, np.float64(np.float32(0.1))]))
    found = counts_of(x, y, bins=1)
    np.testing.assert_array_equal(found.y.values, [2.0, 1.0])


def test_frames_of_other_times_are_noted() -> None:
    x = series([1.0, 2.0], time=np.array([0.0, 1.0]))
    with pytest.warns(kn.Note, match="frame 1 has the time 1 ps in value and 2 ps in value: .* different trajectories"):
        counts_of(x, series([1.0, 2.0], time=np.array([0.0, 2.0])))


def test_a_frame_with_two_rows_is_refused() -> None:
    with pytest.raises(kn.ArgumentError, match="value: frame 4 has 2 rows, expected one"):
        counts_of(series([1.0, 2.0], frames=[4, 4]), series([1.0], frames=[4]))


def test_analyses_and_their_files(adk_dcd: Any, tmp_path: Path) -> None:
    traj = kn.open(adk_dcd.trajectory, adk_dcd.topology, stored=False)
    rmsd = kn.analysis.RMSD(traj, select="name CA").run()
    rgyr = kn.analysis.RadiusOfGyration(traj, select="name CA", axes=True).run()
    file = tmp_path / "rgyr.csv"
    rgyr.save(file)
    found = kn.histogram2d(rmsd, (rgyr, "rgyr"), bins=12, temperature=300.0)
    values = rmsd.results.values[:, 0]
    expected, *_ = np.histogram2d(values, rgyr.results.rgyr, bins=12)
    np.testing.assert_array_equal(found.counts, expected)
    assert found.x.label == "rmsd (angstrom)"
    assert [Path(one.path).name for one in found.inputs] == ["adk_dims.dcd", "adk.psf"]
    of_file = kn.histogram2d(rmsd, f"{file}:rgyr", bins=12, temperature=300.0)
    assert of_file.inputs[-1].path == str(file)
    assert abs(of_file.counts - expected).sum() <= 2  # seven digits
    with pytest.raises(kn.ArgumentError, match=r"y is one column, found 4 columns .*name one: \(analysis, 'rgyr'\)"):
        kn.histogram2d(rmsd, rgyr, temperature=300.0)


def test_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, y = (FrameSeries(name, rng.normal(size=500), "angstrom") for name in ("one", "other"))
    found = kn.histogram2d(x, y, bins=(4, 3), temperature=310.0)
    for name in ("f.csv", "f.npz", "f.h5", "f.png"):
        path = tmp_path / name
        (found.plot if name == "f.png" else found.save)(path)
        # by ours it is replaced, others need overwrite=True
        (found.plot if name == "f.png" else found.save)(path)
    header, *rows = [line for line in (tmp_path / "f.csv").read_text().splitlines() if not line.startswith("#")]
    assert header == "one (angstrom),other (angstrom),counts (1),probability (1),free_energy (kJ/mol)"
    assert len(rows) == 12
    with np.load(tmp_path / "f.npz") as arrays:
        np.testing.assert_array_equal(arrays["counts"], found.counts)
        np.testing.assert_array_equal(arrays["free_energy"], found.free_energy)
        np.testing.assert_array_equal(arrays["y_edges"], found.y_edges)
        assert "temperature: 310 K" in str(found.provenance("call").lines()) and arrays["provenance"][0][:6] == "kinema"
    import h5py

    with h5py.File(tmp_path / "f.h5") as file:
        np.testing.assert_array_equal(file["probability"], found.probability)
        assert file["x_edges"].attrs["unit"] == "angstrom"
    (tmp_path / "own.npz").write_bytes(b"PK")
    with pytest.raises(kn.ArgumentError, match="exists already"):
        found.save(tmp_path / "own.npz")
    with pytest.raises(kn.UnsupportedFormatError, match=r"\.npz, \.h5"):
        found.save(tmp_path / "f.png")


@pytest.mark.parametrize("quantity", ["free-energy", "probability", "counts"])
def test_pictures(quantity: Any) -> None:
    found = kn.histogram2d(
        series([-170.0, 170.0, 10.0], period=360.0, unit="degree"), [1.0, 2.0, 2.0], bins=6, temperature=300.0
    )
    figure = found.plot(quantity=quantity)
    axes, bar = figure.axes
    assert axes.get_xlabel() == "value (degree)"
    assert list(axes.get_xticks()) == [-240.0, -180.0, -120.0, -60.0, 0.0, 60.0, 120.0, 180.0, 240.0]
    drawn = axes.collections[0].get_array()
    assert np.ma.count_masked(drawn) == 33
    label = {"free-energy": "free energy (kJ/mol) at 300 K", "probability": "probability of a bin", "counts": "frames"}
    assert bar.get_ylabel() == label[quantity]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantity": "free-energy"}, "needs temperature= in K"),
        ({"temperature": 0.0}, "temperature is a finite number above 0"),
        ({"temperature": np.nan}, "temperature is a finite number above 0"),
        ({"bins": 0}, "bins is a whole number"),
        ({"bins": (3, 4, 5)}, "bins is a number, or one for x and one for y"),
        ({"bins": (1 << 17, 1 << 16)}, r"expected at most 2\^32"),
        ({"x_range": (2.0, 2.0)}, "x_range is two finite numbers"),
        ({"y_range": (0.0, np.inf)}, "y_range is two finite numbers"),
        ({"y_range": (0.0, np.nan)}, "y_range is two finite numbers"),
        ({"x_range": (5.0, 6.0)}, "no frame is in the bins"),
        ({"x_range": (0.0, 400.0), "periodic": 360}, "x_range is wider than the period 360"),
        ({"periodic": -1}, "periodic is a finite number above 0"),
        ({"periodic": (1, 2, 3)}, "periodic is a period"),
        ({"weights": [1.0, np.nan, 1.0]}, "value, row 1: expected a finite number, found nan"),
        ({"weights": [1.0, -1.0, 1.0]}, "row 1: expected a number from 0 on, found -1"),
        ({"weights": [0.0, 0.0, 0.0]}, "all weights are 0"),
        ({"weights": [1.0]}, "must be equally many"),
        ({"x_range": (-1.7e308, 1.7e308)}, "x_range is two finite numbers"),
        ({"quantity": "energy"}, "quantity must be one of"),
    ],
)
@pytest.mark.filterwarnings("ignore::kinema.Note")
def test_bad_arguments_are_refused(arguments: Any, message: str) -> None:
    keywords = {"quantity": "counts", **arguments}
    with pytest.raises(kn.ArgumentError, match=message):
        kn.histogram2d([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], **keywords)


def test_bins_that_do_not_fit_into_memory() -> None:
    with pytest.raises(kn.MemoryLimitError, match="take fewer"):
        counts_of([1.0], [1.0], bins=1 << 16)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (series([1.0, np.nan], frames=[4, 6]), "value, frame 6: expected a finite number, found nan"),
        ([1.0, 2.0, 3.0], "must be equally many, found value 3, value 2"),
        ("nothing.csv", "nothing.csv"),
        ([], "values are empty"),
    ],
)
def test_bad_values_are_refused(x: Any, message: str) -> None:
    y = series([1.0, 2.0], frames=[4, 6]) if isinstance(x, FrameSeries) else [1.0, 2.0]
    with pytest.raises(kn.Error, match=message):
        counts_of(x, y)


def test_no_frame_in_common() -> None:
    with pytest.raises(kn.ArgumentError, match="have no frame in common"):
        counts_of(series([1.0], frames=[1]), series([1.0], frames=[2]))


def test_a_histogram_without_a_temperature_has_no_free_energy() -> None:
    found = counts_of([1.0], [1.0], bins=1)
    with pytest.raises(kn.ArgumentError, match="needs temperature="):
        _ = found.free_energy
    assert [one.name for one in found.table().columns] == ["value x", "value y", "counts", "probability"]
    assert str(found).splitlines()[0] == "value over value: 1 frame in 1 of 1 x 1 bins"
