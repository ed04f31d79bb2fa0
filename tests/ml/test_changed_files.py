"""Files of data sets that are changed while they are open: kinds of change x formats x ways to read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from kinema.base import errors
from kinema.ml import FrameDataset, Loader, SampleDataset, statistics
from kinema.testing import random_walk, write_dcd, write_h5md, write_trr, write_xtc
from kinema.testing.amounts import pairs
from kinema.testing.changes import CHANGES, HARMLESS
from kinema.testing.keepers import settle
from kinema.testing.synthetic import Synthetic

N, FEATURES = 96, 37


def npy(path: Path, x: Any) -> Any:
    np.save(path, x)


def npz(path: Path, x: Any) -> Any:
    np.savez(path, x=x)


def deflated(path: Path, x: Any) -> Any:
    np.savez_compressed(path, x=x)


def hdf5(**options: Any) -> Callable[[Path, Any], Any]:
    def write(path: Path, x: Any) -> Any:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, **options)

    return write


def h5md(path: Path, x: Any) -> None:
    steps = np.arange(len(x))
    write_h5md(path, Synthetic(x, None, np.zeros((len(x), 3, 3), np.float32), steps, steps.astype(np.float64)))


ARCHIVES: dict[str, tuple[str, Callable[[Path, Any], Any]]] = {
    "npy": (".npy", npy),
    "npz": (".npz", npz),
    "deflated": (".npz", deflated),
    "contiguous": (".h5", hdf5()),
    "chunks": (".h5", hdf5(chunks=(8, FEATURES), compression="gzip")),
}
TRAJECTORIES: dict[str, tuple[str, Callable[[Path, Any], Any]]] = {
    "dcd": (".dcd", write_dcd),
    "trr": (".trr", write_trr),
    "xtc": (".xtc", write_xtc),
    "h5md": (".h5md", h5md),
}


def archive_samples(path: Path, **options: Any) -> SampleDataset:
    return SampleDataset(path, **options)


def frame_samples(path: Path, **options: Any) -> FrameDataset:
    return FrameDataset([path], **options)


def batches(data: Any) -> Iterator[None]:
    data.read([3, 1])
    yield
    data.read([3, 1])


def first_batch(data: Any) -> Iterator[None]:
    yield
    data.read([3, 1])


def unpickled(data: Any) -> Iterator[None]:
    other = pickle.loads(pickle.dumps(data))
    other.read([5])
    yield
    other.read([5])


def loader(data: Any) -> Iterator[None]:
    # closed before the folder of the test goes: what it fetches ahead would miss its cache
    with closing(Loader(data, 8, tensors=False, next_epoch=False)) as batches:
        assert sum(batch.n_samples for batch in batches) == N
        yield
        for _ in batches:
            pass


def normalising(data: Any) -> Iterator[None]:
    yield
    statistics(data)


WAYS = {one.__name__: one for one in (batches, first_batch, unpickled, loader, normalising)}


def made(
    folder: Path, suffix: str, write: Callable[[Path, Any], Any], values: Callable[[int, int], Any]
) -> tuple[Path, Path, Path]:
    names = [folder / f"{name}{suffix}" for name in ("open", "other", "longer")]
    for seed, (name, n) in enumerate(zip(names, (N, N, N + 40), strict=True)):
        write(name, values(n, seed))
    settle(names[0])
    return names[0], names[1], names[2]


def samples(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(n, FEATURES)).astype(np.float32)


def positions(n: int, seed: int) -> Any:
    return random_walk(n, 12, seed=seed)


CASES = {name: (archive_samples, *how, samples) for name, how in ARCHIVES.items()} | {
    name: (frame_samples, *how, positions) for name, how in TRAJECTORIES.items()
}


@pytest.mark.parametrize(
    ("name", "change", "cached"),
    pairs(list(CASES), list(CHANGES), [False, True]),
    ids=lambda one: {False: "plain", True: "cached"}.get(one, one),
)
def test_a_file_that_is_changed_is_an_error_of_the_batch(tmp_path: Path, name: str, change: str, cached: bool) -> None:
    dataset, suffix, write, values = CASES[name]
    ways = ["batches", "loader"] if cached else list(WAYS)
    if change == "touched" and dataset is frame_samples:
        # a process that opens so small a trajectory compares all of it with what the data set knows
        ways = [way for way in ways if way not in ("first_batch", "normalising")]
    for number, way in enumerate(ways):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, other, longer = made(folder, suffix, write, values)
        options = {"node_cache": folder / "cache"} if cached else {}
        reading = WAYS[way](dataset(path, **options))
        next(reading)
        make, said = CHANGES[change]
        make(path, other, longer)
        # a process that opens a trajectory compares it with what the data set knows, by its content
        kinds = (errors.CorruptFileError, errors.TruncatedFileError)
        with pytest.raises(
            kinds, match=f"has changed since it was opened.*: .*({said}|its content is another)"
        ) as caught:
            next(reading, None)
        assert caught.value.path == str(path)


@pytest.mark.parametrize("what", HARMLESS)
@pytest.mark.parametrize("name", CASES)
def test_what_is_no_change(tmp_path: Path, name: str, what: str) -> None:
    dataset, suffix, write, values = CASES[name]
    if name == "deflated" and what in ("moved", "removed"):
        pytest.skip("the member is decompressed when it is first read, by the name of the file")
    path, _, _ = made(tmp_path, suffix, write, values)
    data = dataset(path)
    expected = data.read([4, 2]).copy()
    HARMLESS[what](path)
    found = data.read([4, 2])
    for field in data.fields:
        np.testing.assert_array_equal(found[field], expected[field])


def test_a_simulation_may_go_on(tmp_path: Path) -> None:
    path, longer = tmp_path / "md.trr", tmp_path / "longer.trr"
    values = positions(30, 1)
    write_trr(path, values[:20])
    write_trr(longer, values)
    data = FrameDataset([path])
    expected = data.read([7, 19]).copy()
    with path.open("ab") as file:
        file.write(longer.read_bytes()[path.stat().st_size :])
    np.testing.assert_array_equal(data.read([7, 19])["positions"], expected["positions"])


def test_members_that_are_kept_in_memory_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    deflated(path, samples(N, 1))
    data = SampleDataset(path, memory="64 MiB")
    data.read([1])
    deflated(path, samples(N, 2))
    with pytest.raises(errors.CorruptFileError, match=r"x\.npz: the file has changed since it was opened"):
        data.read([1])
