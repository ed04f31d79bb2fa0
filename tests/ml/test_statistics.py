"""`kinema.ml.statistics`: moments against NumPy in float64, the same bits for any workers, and what is made of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
import kinema.ml
from kinema.base import errors
from kinema.base.notes import collected
from kinema.ml import FrameDataset, Loader, SampleDataset, Statistics, Subset

sys.path.insert(0, str(Path(__file__).parent / "export"))
from export_cases import topology, trajectory

KINDS = [
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    ">f8",
]


def statistics(data: Any, **options: Any) -> Statistics:
    with collected():
        return kinema.ml.statistics(data, **options)


def check(found: Any, values: np.ndarray[Any, Any]) -> None:
    """Against NumPy, in float64 with the mean taken away first."""
    exact = values.astype(np.longdouble)
    assert found.count == len(values)
    np.testing.assert_allclose(found.mean, exact.mean(axis=0).astype(float), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found.std, exact.std(axis=0).astype(float), rtol=1e-11)
    np.testing.assert_array_equal(found.least, values.min(axis=0))
    np.testing.assert_array_equal(found.largest, values.max(axis=0))


def bits(found: Statistics) -> str:
    """All numbers, as the file has them."""
    named: dict[str, Any] = {name: one.to_json() for name, one in found.arrays.items()}
    named |= {f"{name} {one}": of.to_json() for name, group in found.species.items() for one, of in group.items()}
    if found.energy is not None:
        named["energy"] = [found.energy.per_atom.to_json(), dict(found.energy.shifts)]
    return json.dumps(named)


# -- samples of archives -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_numpy(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(3)
    values = (random.normal(50, 10, (5003, 7, 3)) * (1 if np.dtype(kind).kind != "f" else 1.7)).astype(kind)
    np.save(tmp_path / "a.npy", values)
    data = SampleDataset(tmp_path / "a.npy", file_is_sample=False)
    check(statistics(data, workers=2).arrays["samples"], values)
    ids = np.sort(random.choice(5003, 1200, replace=False))
    found = statistics(Subset(data, ids[::-1]))
    check(found.arrays["samples"], values[ids])
    assert found.n_samples == 1200 and found.samples != statistics(data).samples


@pytest.mark.parametrize("features", [1, 3, 64, 600, 9000])
def test_same_bits_for_any_workers_and_layout(tmp_path: Path, features: int) -> None:
    random = np.random.default_rng(features)
    n = 60_000 // features + 300
    values = random.normal(1e3, 5, (n, features)).astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = values
    with h5py.File(tmp_path / "chunks.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(37, features), compression="gzip")
    np.savez(tmp_path / "a.npz", x=values)
    split = np.flatnonzero(random.random(n) < 0.7)
    expected: dict[str, str] = {}
    for name in ("a.h5", "a.npz", "chunks.h5"):
        data = SampleDataset(tmp_path / name)
        found = [bits(statistics(Subset(data, split), workers=workers)) for workers in (1, 2, 3, 5)]
        assert len(set(found)) == 1
        expected[name] = found[0]
        check(statistics(Subset(data, split)).arrays["x"], values[split])
    assert expected["a.h5"] == expected["a.npz"]


def test_deflated_members_transforms_and_several_files(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    parts = [random.normal(-3, 2, (rows, 5)) for rows in (300, 1, 700)]
    for i, part in enumerate(parts):
        np.savez_compressed(tmp_path / f"{i}.npz", x=part, y=part[:, 0].astype(np.float32), flag=part[:, 1] > 0)
    paths = [tmp_path / f"{i}.npz" for i in range(3)]
    with collected() as notes:
        found = kinema.ml.statistics(SampleDataset(paths))
    joined = np.concatenate(parts)
    check(found.arrays["x"], joined)
    check(found.arrays["y"], joined[:, 0].astype(np.float32))
    assert "flag" not in found.arrays and any("no statistics: flag" in note for note in notes)
    assert any("split=" in note for note in found.notes)

    def doubled(batch: Any) -> None:
        batch["x"][:] *= 2

    changed = statistics(SampleDataset(paths, transform=doubled))
    check(changed.arrays["x"], 2 * joined)


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    values = np.ones((100, 4))
    values[31, 2] = np.nan
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(errors.ArgumentError, match=r"samples: feature \[2\] has values that are not finite"):
        statistics(SampleDataset(tmp_path / "a.npy", file_is_sample=False))


def test_truncated_archives_are_errors(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((1000, 40)))
    data = SampleDataset(tmp_path / "a.npy", file_is_sample=False)
    with open(tmp_path / "a.npy", "r+b") as file:
        file.truncate(100_000)
    with pytest.raises(errors.CorruptFileError, match=r"a\.npy: the file has changed since it was opened"):
        statistics(data)
    with pytest.raises(errors.Error, match=r"a\.npy"):
        statistics(SampleDataset(tmp_path / "a.npy", file_is_sample=False))


# -- files and loaders -------------------------------------------------------------------------------------------------


def test_statistics_are_stored_and_applied(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    x, y = random.normal(7, 3, (400, 6)).astype(np.float32), random.normal(-1e5, 30, 400)
    x[:, 5] = 4.0  # without a deviation
    np.savez(tmp_path / "a.npz", x=x, y=y, step=np.arange(400))
    data = SampleDataset(tmp_path / "a.npz")
    split = kinema.ml.split_by_time(data, {"train": 0.7, "test": 0.3})
    split.save(tmp_path / "split.json")
    made = kinema.ml.statistics(data, split=tmp_path / "split.json")
    assert made.notes == () and made.part == "train"
    made.save(tmp_path / "stats.json")
    stats = Statistics.load(tmp_path / "stats.json")
    assert bits(stats) == bits(made)
    check(stats.arrays["x"], x[split["train"]])
    for part in ("train", "test"):
        own = split.of(data, part)
        loader = Loader(own, 64, normalise=stats, order="stored", tensors=False, next_epoch=False)
        batches = [(batch["x"].copy(), batch["y"].copy(), batch["step"].copy()) for batch in loader]
        found, labels, steps = (np.concatenate(column) for column in zip(*batches, strict=True))
        mean, std = x[split["train"]].mean(axis=0, dtype=float), x[split["train"]].std(axis=0, dtype=float)
        std[5] = 1
        np.testing.assert_allclose(found, (x[own.ids] - mean) / std, atol=2e-6)
        assert found.dtype == np.float32 and labels.dtype == np.float64
        assert steps.tolist() == own.ids.tolist()
        restored = stats.restore({"x": found, "y": labels})
        np.testing.assert_allclose(restored["x"], x[own.ids], rtol=1e-6, atol=2e-6)
        np.testing.assert_allclose(restored["y"], y[own.ids], rtol=1e-14)
    assert set(stats.of_arrays("x").normalise({"x": x, "y": y})) == {"x"}
    with pytest.raises(errors.ArgumentError, match="no statistics of z, only of x, y, step"):
        stats.of_arrays("z")
    # the same for a copy, and refused for other data
    (tmp_path / "copy.npz").write_bytes((tmp_path / "a.npz").read_bytes())
    Loader(SampleDataset(tmp_path / "copy.npz"), 64, normalise=stats)
    np.savez(tmp_path / "b.npz", x=x + 1, y=y, step=np.arange(400))
    with pytest.raises(errors.ArgumentError, match=r"of other data than this data set.*for_other_data\(\)"):
        Loader(SampleDataset(tmp_path / "b.npz"), 64, normalise=stats)
    Loader(SampleDataset(tmp_path / "b.npz"), 64, normalise=stats.for_other_data())


def test_files_that_are_no_statistics(tmp_path: Path) -> None:
    for content in ("{}", "[1]", '{"kinema_statistics": 2}', "\x00"):
        (tmp_path / "s.json").write_text(content)
        with pytest.raises(errors.CorruptFileError, match=r"s\.json: no statistics"):
            Statistics.load(tmp_path / "s.json")
    with pytest.raises(errors.FileNotFound):
        Statistics.load(tmp_path / "none.json")


# -- frames ------------------------------------------------------------------------------------------------------------


def frames_of(tmp_path: Path, **options: Any) -> tuple[FrameDataset, list[dict[str, Any]], list[str]]:
    """Three compositions, whose energies are those of their elements, and one for each frame."""
    elements = ["O H H " * 2, "C H H H H", "C O O"]
    shift = {"H": -13.5, "C": -1030.25, "O": -2041.0}
    random = np.random.default_rng(4)
    sources, tables = [], []
    for number, one in enumerate(elements):
        sources.append(trajectory(tmp_path / f"{number}.trr", one, 30, seed=number))
        atoms = one.split()
        base = sum(shift[element] for element in atoms)
        tables.append({"step": 10 * np.arange(30), "energy": base + len(atoms) * random.normal(0, 1e-3, 30)})
    fields = ["positions", "forces", "energy", "atomic_numbers"]
    return FrameDataset(sources, fields=fields, labels=tables, **options), tables, elements


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_forces_of_elements_and_energies_of_atoms(tmp_path: Path, dtype: str) -> None:
    data, tables, elements = frames_of(tmp_path, dtype=dtype)
    ids = np.r_[3:25, 31:60, 66:90]
    found = statistics(Subset(data, ids))
    batch = data.read(ids)
    for number, element in ((1, "H"), (6, "C"), (8, "O")):
        check(found.species["forces"][element], batch["forces"][batch["atomic_numbers"] == number])
        check(found.species["positions"][element], batch["positions"][batch["atomic_numbers"] == number])
    assert found.energy is not None and set(found.arrays) == set()
    counts = np.array([[one.split().count(element) for element in ("H", "C", "O")] for one in elements])
    of_frame = np.repeat(counts, [22, 29, 24], axis=0)
    energies = np.concatenate([table["energy"] for table in tables])[ids]
    expected = np.linalg.lstsq(of_frame, energies, rcond=None)[0]
    shifts = [found.energy.shifts[element] for element in ("H", "C", "O")]
    np.testing.assert_allclose(shifts, expected, rtol=1e-9)
    remaining = (energies - of_frame @ shifts) / of_frame.sum(axis=1)
    np.testing.assert_allclose(float(found.energy.per_atom.std), remaining.std(), rtol=1e-6)
    assert (
        bits(found) == bits(statistics(Subset(data, ids), workers=1)) == bits(statistics(Subset(data, ids), workers=3))
    )


def test_normalised_frames_and_back(tmp_path: Path) -> None:
    data, _, _ = frames_of(tmp_path, dtype="float64")
    found = statistics(data)
    found.save(tmp_path / "s.json")
    stats = Statistics.load(tmp_path / "s.json")
    loader = Loader(data, 90, normalise=stats, order="stored", tensors=False, next_epoch=False)
    (batch,) = list(loader)
    plain = data.read(np.arange(90))
    np.testing.assert_array_equal(batch["positions"], plain["positions"])
    for number in (1, 6, 8):
        own = batch["forces"][batch["atomic_numbers"] == number]
        assert np.sqrt(np.mean(own**2)) == pytest.approx(1, rel=1e-12)
    assert batch["energy"].std() == pytest.approx(1, rel=1e-6) and abs(batch["energy"].mean()) < 1e-6
    back = stats.restore(batch)
    np.testing.assert_allclose(back["energy"], plain["energy"], rtol=1e-13)
    np.testing.assert_allclose(back["forces"], plain["forces"], rtol=1e-13)
    one = trajectory(tmp_path / "n.trr", "N N", 3)
    other = FrameDataset(one, fields=["forces", "atomic_numbers"])
    with pytest.raises(errors.ArgumentError, match="no statistics of element N"):
        next(iter(Loader(other, 3, normalise=stats.for_other_data(), tensors=False)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fields", [["energy"], ["forces"], ["positions", "forces", "energy"]], ids="+".join)
@pytest.mark.parametrize("systems", [[0, 1, 2], [1]], ids=["ragged", "one system"])
def test_what_is_normalised_is_restored(tmp_path: Path, dtype: str, fields: list[str], systems: list[int]) -> None:
    data, tables, elements = frames_of(tmp_path, dtype=dtype)
    stats = statistics(data)
    paths = [data.paths[number] for number in systems]
    asked = list(dict.fromkeys([*fields, "positions", "atomic_numbers"]))
    labels = [tables[number] for number in systems]
    sources = [kn.open(path, topology=topology(elements[n])) for path, n in zip(paths, systems, strict=True)]
    part = FrameDataset(sources, fields=asked, labels=labels if "energy" in fields else None, dtype=dtype)
    batch = part.read(np.random.default_rng(1).permutation(len(part)))
    back = stats.restore(stats.normalise(batch))
    tight = {"rtol": 1e-13} if dtype == "float64" else {"rtol": 3e-7, "atol": 1e-4}
    for name in fields:
        np.testing.assert_allclose(back[name], batch[name], **tight)  # type: ignore[arg-type]
    assert back["atomic_numbers"].tolist() == batch["atomic_numbers"].tolist()
    # predictions, with what says of which atoms they are
    made = stats.normalise(batch)
    for beside in (("ptr",), ("batch",)) if part.is_ragged else ((),):
        few = {name: made[name] for name in (*fields, "atomic_numbers", *beside)}
        for name in fields:
            np.testing.assert_array_equal(stats.restore(few)[name], back[name])


def test_what_is_restored_without_its_atoms_is_an_error(tmp_path: Path) -> None:
    data, _, _ = frames_of(tmp_path)
    stats, batch = statistics(data), data.read([0, 40, 80, 3])
    made = stats.normalise(batch)
    named = {"energy": made["energy"], "atomic_numbers": made["atomic_numbers"]}
    for given, message in (
        (named, "energies of ragged samples need ptr or batch beside atomic_numbers"),
        ({"energy": made["energy"]}, "give positions or atomic_numbers too"),
        ({"energy": made["energy"], "ptr": made["ptr"]}, "statistics are of each element"),
        ({**named, "ptr": made["ptr"][:-1]}, "energy has 4 samples, and its atoms are of 3"),
        ({**named, "ptr": made["ptr"], "atomic_numbers": named["atomic_numbers"][:-1]}, "are of 19 atoms, expected 20"),
        (
            {"forces": made["forces"], "atomic_numbers": named["atomic_numbers"][:-1]},
            r"expected \(20,\), found \(19,\)",
        ),
    ):
        with pytest.raises(errors.ArgumentError, match=message):
            stats.restore(given)


def test_one_system_without_elements(tmp_path: Path) -> None:
    trajectory(tmp_path / "a.trr", "O H H", 20)
    data = FrameDataset(
        kn.open(tmp_path / "a.trr"),
        fields=["forces", "energy"],
        labels={"step": 10 * np.arange(20), "energy": np.arange(20.0)},
    )
    with collected() as notes:
        found = kinema.ml.statistics(data)
    assert any("of all atoms" in note for note in notes)
    check(found.species["forces"]["any"], data.read(np.arange(20))["forces"].reshape(-1, 3))
    assert found.energy is not None and not any(found.energy.shifts.values())
    check(found.energy.per_atom, np.arange(20) / 3)
    made = found.normalise(data.read([4, 2]))
    np.testing.assert_allclose(found.restore({**made, "positions": np.zeros((2, 3, 3))})["energy"], [4, 2], rtol=1e-12)


def test_refusals(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((10, 2)))
    data = SampleDataset(tmp_path / "a.npy", file_is_sample=False)
    split = kinema.ml.split_by_time(data, {"train": 0.5, "test": 0.5}, blocks=2)
    for options, message in (
        ({"split": split, "part": "training"}, "none of 'train', 'test'"),
        ({"energy": "energy"}, "energy= is of frames"),
    ):
        with pytest.raises(errors.ArgumentError, match=message):
            statistics(data, **options)
    with pytest.raises(errors.ArgumentError, match="no samples"):
        statistics(Subset(data, []))
    stats = statistics(data)
    with pytest.raises(errors.ArgumentError, match=r"expected that, found \(3,\)"):
        stats.normalise({"samples": np.ones((4, 3))})
