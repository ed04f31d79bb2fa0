"""`kinema.ml.SampleDataset`: samples of archives of each kind against NumPy and h5py; what is read, opened, refused."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from kinema import _core
from kinema.base import errors
from kinema.base.notes import Note
from kinema.cache import NodeServer, publish
from kinema.ml import Batch, Loader, Order, SampleDataset, Subset
from kinema.ml.processes import file_pool, replace_pool

sys.path.insert(0, str(Path(__file__).parent))
import torch_stand_in

N, FEATURES = 300, 37


@pytest.fixture
def pool() -> Iterator[_core.FilePool]:
    """A pool that records what is read, for data sets that a test makes."""
    before, recording = file_pool(), _core.FilePool(2000, record_reads=True)
    replace_pool(recording)
    yield recording
    replace_pool(before)


def values(n: int = N, features: int | tuple[int, ...] = FEATURES, dtype: str = "<f8") -> NDArray[Any]:
    shape = (n, features) if isinstance(features, int) else (n, *features)
    random = np.random.default_rng(7)
    if np.dtype(dtype).kind == "b":
        return random.random(shape) < 0.5
    return (random.standard_normal(shape) * 100).astype(dtype)


def hdf5(**options: Any) -> Callable[[Path, NDArray[Any]], Path]:
    def write(folder: Path, array: NDArray[Any]) -> Path:
        path = folder / "samples.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=array, **options)
        return path

    return write


def npy(folder: Path, array: NDArray[Any]) -> Path:
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


def npz(folder: Path, array: NDArray[Any]) -> Path:
    np.savez(folder / "x.npz", x=array)
    return folder / "x.npz"


def deflated(folder: Path, array: NDArray[Any]) -> Path:
    np.savez_compressed(folder / "x.npz", x=array)
    return folder / "x.npz"


KINDS = {
    "npy": npy,
    "npz": npz,
    "deflated": deflated,
    "contiguous": hdf5(),
    "chunks of one": hdf5(chunks=(1, FEATURES)),
    "chunks of 64": hdf5(chunks=(64, FEATURES)),
    "chunks that cut samples": hdf5(chunks=(50, 10)),
    "gzip": hdf5(chunks=(64, FEATURES), compression="gzip", shuffle=True),
    "gzip that cuts samples": hdf5(chunks=(50, 10), compression="gzip"),
    "lzf, checksums": hdf5(chunks=(7, FEATURES), compression="lzf", fletcher32=True),
}
IDS = np.array([299, 0, 5, 5, 4, 6, 128, 127, 64, 63, -1, 5, 250])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["<f8", "<f4", ">f8", "<i2"])
def test_batches_are_the_rows_of_the_array(tmp_path: Path, kind: str, dtype: str) -> None:
    array = values(dtype=dtype)
    samples = SampleDataset(KINDS[kind](tmp_path, array))
    name = samples.fields[0]
    assert len(samples) == N and samples.shape(name) == (FEATURES,)
    for workers in (1, 3):
        batch = samples.read(IDS, workers=workers)
        assert batch[name].dtype.isnative
        np.testing.assert_array_equal(batch[name], array[IDS])
    np.testing.assert_array_equal(samples.read(np.arange(N))[name], array)
    np.testing.assert_array_equal(samples[-2][name], array[-2])
    assert samples.read([]).n_samples == 0


@pytest.mark.parametrize("dtype", ["|b1", "<c16", "|u1", "<f2", [("a", "<f4"), ("b", "<i8", (3,))]])
def test_types_that_are_no_numbers_of_one_kind(tmp_path: Path, dtype: Any) -> None:
    kind = np.dtype(dtype)
    array = np.frombuffer(np.random.default_rng(3).integers(0, 2, 40 * kind.itemsize, np.uint8).tobytes(), kind)
    array = array.reshape(20, 2)
    for write in (npy, npz, hdf5()):
        samples = SampleDataset(write(tmp_path, array), None if write is not hdf5 else "x")
        np.testing.assert_array_equal(samples.read([3, 1, 19])[samples.fields[0]], array[[3, 1, 19]])


@pytest.mark.parametrize("features", [(), (4, 3), (2, 3, 4)])
def test_samples_of_any_shape(tmp_path: Path, features: tuple[int, ...]) -> None:
    array = values(50, features)
    for write in (npy, npz, hdf5(), hdf5(chunks=(8, *features), compression="gzip")):
        samples = SampleDataset(write(tmp_path, array))
        np.testing.assert_array_equal(samples.read([7, 49, 7])[samples.fields[0]], array[[7, 49, 7]])


def test_several_arrays_and_files_in_one_batch(tmp_path: Path) -> None:
    x, y = values(90), np.arange(90.0)
    paths = []
    for i, part in enumerate(np.split(np.arange(90), [20, 21, 60])):
        path = tmp_path / f"{i}.npz"
        (np.savez if i != 2 else np.savez_compressed)(path, x=x[part], y=y[part])
        paths.append(path)
    samples = SampleDataset(paths)
    assert samples.fields == ("x", "y") and samples.bounds.tolist() == [0, 20, 21, 60, 90]
    ids = np.random.default_rng(0).integers(0, 90, 200)
    batch = samples.read(ids)
    np.testing.assert_array_equal(batch["x"], x[ids])
    np.testing.assert_array_equal(batch["y"], y[ids])
    assert SampleDataset(paths, "y", dtype="float32").read([3])["y"].dtype == np.float32
    with pytest.raises(errors.ArgumentError, match="cannot hold"):
        SampleDataset(paths, "y", dtype="int8")


def test_a_folder_with_a_sample_a_file(tmp_path: Path) -> None:
    array = values(12, (5, 3))
    for i, sample in enumerate(array):
        np.save(tmp_path / f"{i:03}.npy", sample)
    samples = SampleDataset(tmp_path, file_is_sample=True)
    np.testing.assert_array_equal(samples.read([11, 2, 2])["samples"], array[[11, 2, 2]])
    np.save(tmp_path / "003.npy", array[3, :4])
    with pytest.raises(errors.ArgumentError, match=r"003\.npy: samples has .* \(4, 3\) float64, expected .*_sample=F"):
        SampleDataset(tmp_path, file_is_sample=True)


def archives(folder: Path, kind: str, rows: list[int]) -> None:
    """Files of `rows` samples each, which count on from file to file."""
    begin = 0
    for number, n in enumerate(rows):
        x = begin + np.arange(n)[:, None] + 0.5 * np.arange(FEATURES)
        if kind == "npy":
            np.save(folder / f"{number}.npy", x)
        elif kind == "values":
            np.save(folder / f"{number}.npy", x[:, 0])
        elif kind == "npz":
            np.savez(folder / f"{number}.npz", x=x, y=x[:, 0])
        else:
            with h5py.File(folder / f"{number}.h5", "w") as file:
                file["x"], file["y"] = x, x[:, :2]
        begin += n


@pytest.mark.parametrize("kind", ["npy", "values", "npz", "hdf5"])
@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        ([5, 5, 5], "3 files with 5 rows in each array may be archives of 5 samples or one sample each"),
        ([4], "1 file with 4 rows in each array may be archives"),
        ([5, 3, 5], "archives of different numbers of samples, expected one sample each, found 3 rows in .*1\\."),
        ([5, 1], "archives of different numbers of samples"),
    ],
)
def test_a_folder_that_may_be_of_archives_is_refused_until_told(
    tmp_path: Path, kind: str, rows: list[int], cause: str
) -> None:
    archives(tmp_path, kind, rows)
    with pytest.raises(errors.ArgumentError, match=f"{cause}.* give file_is_sample=False \\(--no-file-is-sample\\)"):
        SampleDataset(tmp_path)
    told = SampleDataset(tmp_path, file_is_sample=False)
    first = told.read(np.arange(sum(rows)))[told.fields[0]].reshape(sum(rows), -1)[:, 0]
    assert told.bounds.tolist() == [0, *np.cumsum(rows)] and first.tolist() == list(range(sum(rows)))
    if len(set(rows)) == 1:
        assert len(SampleDataset(tmp_path, file_is_sample=True)) == len(rows)
    else:
        with pytest.raises(errors.ArgumentError, match="archives of different numbers of samples need file_is_sample="):
            SampleDataset(tmp_path, file_is_sample=True)
    # files that are named one by one are archives
    assert len(SampleDataset(sorted(tmp_path.iterdir()))) == sum(rows)


def test_a_folder_of_samples_that_are_no_archives(tmp_path: Path) -> None:
    for i in range(3):
        np.savez(tmp_path / f"{i}.npz", positions=np.full((4, 3), i), cell=np.eye(3))
    with pytest.warns(Note, match="each file is taken for one sample; for archives of several give file_is_sample=F"):
        samples = SampleDataset(tmp_path)
    assert len(samples) == 3 and samples.shape("positions") == (4, 3)
    rows = tmp_path / "rows"
    rows.mkdir()
    for i in range(3):
        np.save(rows / f"{i}.npy", np.full((1, 7), i))
    assert SampleDataset(rows).read([2])["samples"].tolist() == [[[2.0] * 7]]


@pytest.mark.parametrize("fields", [None, ["x"]])
@pytest.mark.parametrize(
    "odd",
    [
        np.float64(3),
        np.array([{"a": 1}, None], object),
        np.zeros(7),
        np.zeros((20, 0)),
        np.asfortranarray(np.zeros((20, 3))),
    ],
    ids=["a single value", "pickled objects", "of another length", "without values", "in Fortran order"],
)
def test_an_odd_member_is_left_out_by_fields(tmp_path: Path, odd: Any, fields: list[str] | None) -> None:
    np.savez(tmp_path / "a.npz", x=values(20), odd=odd)
    if fields is None:
        with pytest.raises(errors.Error, match=r"a\.npz: .*fields= \(--fields\)"):
            SampleDataset(tmp_path / "a.npz")
    else:
        assert len(SampleDataset(tmp_path / "a.npz", fields)) == 20


def test_odd_members_of_other_kinds_and_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=values(20), y=np.zeros((20, 2)))
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive, zipfile.ZipFile(tmp_path / "a.npz") as source:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, source.read(name))
        archive.writestr("notes.txt", "from the first run")
    with pytest.raises(
        errors.UnsupportedFormatError, match=r"member notes\.txt is no \.npy array; .*fields=.*, of x, y"
    ):
        SampleDataset(tmp_path / "text.npz")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["y"] = values(20), np.zeros((20, 2))
        file["odd"] = 3.0
        file.create_dataset("bits", data=np.zeros((20, 2), bool), chunks=(4, 2))
    with pytest.raises(errors.UnsupportedFormatError, match=r"bits holds bool.*fields=.*, of x, y"):
        SampleDataset(tmp_path / "a.h5")
    # in one of several files
    np.savez(tmp_path / "b.npz", x=values(20))
    np.savez(tmp_path / "c.npz", x=values(20), y=np.zeros((20, 3)))
    for name, message in (("b", "there is no member y, only x; choose"), ("c", r"y has samples of \(3,\).*; choose")):
        paths = [tmp_path / "a.npz", tmp_path / f"{name}.npz"]
        with pytest.raises(errors.ArgumentError, match=rf"{name}\.npz: {message} .* fields= \(--fields\)"):
            SampleDataset(paths)
        assert len(SampleDataset(paths, "x")) == 40


def test_patterns(tmp_path: Path) -> None:
    for number in (10, 9, 2):
        np.savez(tmp_path / f"part{number}.npz", x=np.full((number, 3), number))
    (tmp_path / "part9.npz.part-host-k1").write_bytes(b"half")
    samples = SampleDataset(str(tmp_path / "part*.npz"))
    assert samples.bounds.tolist() == [0, 2, 11, 21] and not samples.file_is_sample
    assert [Path(path).name for path in samples.paths] == ["part2.npz", "part9.npz", "part10.npz"]
    assert len(SampleDataset([tmp_path / "part9.npz", str(tmp_path / "*10.npz")])) == 19
    with pytest.raises(errors.FileNotFound, match=r"none\*\.npz: no file fits this pattern"):
        SampleDataset(str(tmp_path / "none*.npz"))
    # a file of that very name
    np.savez(tmp_path / "part[29].npz", x=np.zeros((1, 3), int))
    assert len(SampleDataset(tmp_path / "part[29].npz")) == 1
    assert SampleDataset(tmp_path, file_is_sample=False).bounds.tolist() == [0, 10, 12, 21, 22]


@pytest.mark.parametrize("name", ["a1.npz", "a*.npz", "."])
def test_files_that_another_node_has_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    producer, consumer, shared = tmp_path / "producer", tmp_path / "consumer", tmp_path / "shared"
    producer.mkdir(0o700)
    shared.mkdir()
    array = values(10, 3)
    with NodeServer(producer, address="127.0.0.1"):
        np.savez(producer / "a1.npz", x=array)
        publish(shared / "a1.npz", local=producer)
        source = shared / name
        with pytest.raises(errors.ArgumentError, match=r"a1\.npz: the file is kept on .* node_cache= \(--node-cache\)"):
            SampleDataset(source, file_is_sample=False)
        samples = SampleDataset(source, file_is_sample=False, node_cache=consumer)
    np.testing.assert_array_equal(samples.read([7, 3])["x"], array[[7, 3]])
    assert samples.paths[0].startswith(str(consumer)) and not (shared / "a1.npz").exists()


def test_slices_lists_and_masks(tmp_path: Path) -> None:
    array = values()
    samples = SampleDataset(npy(tmp_path, array))
    mask = np.random.default_rng(3).random(N) < 0.3
    subset = Subset(samples, mask)
    for data, expected in ((samples, array), (subset, array[mask])):
        n = len(data)
        own = np.random.default_rng(4).random(n) < 0.5
        for index in (slice(2, 9), slice(None, None, -7), slice(5, n + 90), slice(3, 3), [4, -1, 4], own, own.tolist()):
            found = data[index]
            assert isinstance(found, Batch) and found.n_samples == len(expected[index])
            if found.n_samples:
                np.testing.assert_array_equal(found["samples"], expected[index])
            np.testing.assert_array_equal(data.read(index).ids, found.ids)  # type: ignore[arg-type]
    for wrong in (mask[:-1], np.append(mask, True), np.stack([mask, mask])):
        with pytest.raises(errors.ArgumentError, match=f"a mask has a value for each of {N} samples, found shape"):
            samples[wrong]
    with pytest.raises(errors.ArgumentError, match="chosen by its number"):
        samples["x"]  # type: ignore[call-overload]


def test_buffers_are_used_again(tmp_path: Path) -> None:
    array = values()
    samples = SampleDataset(npy(tmp_path, array))
    batch = samples.read(np.arange(50))
    address = batch["samples"].ctypes.data
    again = samples.read([3, 2], out=batch)
    assert again is batch and batch["samples"].ctypes.data == address and batch["samples"].shape == (2, FEATURES)
    np.testing.assert_array_equal(batch["samples"], array[[3, 2]])
    kept = batch.copy()
    samples.read([9, 8], out=batch)
    np.testing.assert_array_equal(kept["samples"], array[[3, 2]])
    asked: list[int] = []
    own = Batch(allocate=lambda size: asked.append(size) or np.zeros(size, np.uint8))  # type: ignore[func-returns-value]
    np.testing.assert_array_equal(samples.read([1], out=own)["samples"], array[[1]])
    assert asked == [FEATURES * 8]


def test_a_transform_changes_arrays_or_gives_others(tmp_path: Path) -> None:
    array = values()
    path = npy(tmp_path, array)

    def doubled(batch: Batch) -> None:
        batch["samples"][...] *= 2

    np.testing.assert_array_equal(SampleDataset(path, transform=doubled).read([4])["samples"], 2 * array[[4]])
    others = SampleDataset(path, transform=lambda batch: {"mean": batch["samples"].mean(axis=1)})
    batch = others.read([4, 5])
    assert list(batch) == ["mean"]
    np.testing.assert_array_equal(batch["mean"], array[[4, 5]].mean(axis=1))
    with pytest.raises(errors.ArgumentError, match="mapping"):
        SampleDataset(path, transform=lambda batch: 3).read([0])  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("kind", ["npy", "npz", "contiguous", "chunks of 64", "gzip", "gzip that cuts samples"])
def test_permuted_neighbours_read_what_sorted_ones_do(tmp_path: Path, pool: _core.FilePool, kind: str) -> None:
    samples = SampleDataset(KINDS[kind](tmp_path, values()))
    ids = np.concatenate([np.arange(40, 90), np.arange(95, 110), [200, 290]])
    samples.read(ids, workers=1)
    extents = pool.take_reads()
    useful = len(ids) * FEATURES * 8
    assert len(extents) < len(ids) / 4 and sum(length for _, _, length in extents) <= 5 * useful
    for seed in range(3):
        mixed = np.random.default_rng(seed).permutation(np.concatenate([ids, ids[:20]]))
        samples.read(mixed, workers=1)
        assert pool.take_reads() == extents
    plan = samples.plan(ids)
    assert (plan.read, plan.useful) == (sum(length for _, _, length in extents), useful)


def test_samples_of_chunks_without_filters_are_read_alone(tmp_path: Path) -> None:
    array = values(4000, 60)
    samples = SampleDataset(hdf5(chunks=(64, 60))(tmp_path, array))
    few = samples.plan(np.arange(0, 4000, 64))
    assert samples.chunk_samples == 1 and few.decoded == few.useful
    assert "decoded together" not in samples.explain(64)
    with h5py.File(samples.paths[0], "a") as file:
        file.create_dataset("y", data=array, chunks=(32, 60), compression="gzip")
    both = SampleDataset(samples.paths[0])
    assert both.chunk_samples == 32 and SampleDataset(samples.paths[0], "x").chunk_samples == 1


@pytest.mark.parametrize(
    ("memory", "reads"), [("10 MB", 32), ("1 MB", 200)], ids=["windows that fit", "windows that do not"]
)
def test_windows_over_chunks_without_filters(tmp_path: Path, pool: _core.FilePool, memory: str, reads: int) -> None:
    # 32 KB a sample: too far from each other to be read with what is between them
    array = values(256, 4096)
    samples = SampleDataset(hdf5(chunks=(16, 4096))(tmp_path, array))
    order = Order(256, 3, window=64, lanes=1, chunk=8)
    loader = Loader(samples, 8, order=order, memory=memory, next_epoch=False, workers=1, tensors=False)
    samples.read([0])
    pool.take_reads()
    for batch in loader:
        np.testing.assert_array_equal(batch["x"], array[batch.ids])
    extents = pool.take_reads()
    # each byte once in an epoch, whatever the window; eight neighbours by one read where memory holds whole windows
    assert sum(length for _, _, length in extents) == array.nbytes
    assert len(extents) <= reads if reads == 32 else len(extents) >= reads
    assert ("would read 8 neighbours together" in loader.explain()) == (reads != 32)


@pytest.mark.parametrize("workers", [1, 3])
def test_each_chunk_is_decoded_once_a_batch(tmp_path: Path, workers: int) -> None:
    array = values(4000, 60)
    path = hdf5(chunks=(64, 60), compression="gzip", compression_opts=1)(tmp_path, array)
    samples = SampleDataset(path)
    ids = np.random.default_rng(5).integers(0, 4000, 3000)
    rows = samples._opened.get().arrays["x"]._rows
    assert rows is not None
    out = np.empty((3000, 60))
    done = rows.read(ids, out.view(np.uint8).reshape(-1), workers)
    np.testing.assert_array_equal(out, array[ids])
    assert done["chunks"] == len(np.unique(ids // 64)) and done["decoded"] == done["chunks"] * 64 * 60 * 8
    assert samples.chunk_samples == 64
    said = samples.explain(64)
    assert "samples are decoded together" in said and "windows of 64 samples: " in said
    few = samples.plan(np.arange(0, 4000, 64))
    assert few.decoded == 64 * few.useful


def test_600_shuffled_files_are_opened_at_most_600_times(tmp_path: Path, pool: _core.FilePool) -> None:
    array = values(1200, 4)
    for i in range(600):
        np.save(tmp_path / f"{i:03}.npy", array[2 * i : 2 * i + 2])
    samples = SampleDataset(sorted(tmp_path.iterdir()))
    order = np.random.default_rng(1).permutation(1200)
    for ids in order.reshape(-1, 40):
        np.testing.assert_array_equal(samples.read(ids)["samples"], array[ids])
    opens = pool.take_opens()
    assert len(opens) == len(set(opens)) == 600


def test_few_open_files_give_the_same_values(tmp_path: Path) -> None:
    array = values(60, 4)
    for i in range(30):
        np.save(tmp_path / f"{i:03}.npy", array[2 * i : 2 * i + 2])
    before, small = file_pool(), _core.FilePool(3, record_reads=True)
    replace_pool(small)
    try:
        samples = SampleDataset(sorted(tmp_path.iterdir()))
        ids = np.random.default_rng(1).permutation(60)
        np.testing.assert_array_equal(samples.read(ids)["samples"], array[ids])
        assert small.n_open <= 3 and len(small.take_opens()) == 30
    finally:
        replace_pool(before)


def test_members_larger_than_the_memory_are_streamed_for_each_batch(tmp_path: Path) -> None:
    array = values(9000, 31)  # more than one piece of a MiB, and rows that lie across pieces
    samples = SampleDataset(deflated(tmp_path, array), memory="1 MiB")
    ids = np.array([8999, 0, 4242, 4242, 4241])
    for _ in range(2):
        np.testing.assert_array_equal(samples.read(ids)["x"], array[ids])
    assert samples._opened.get().arrays["x"]._members.decompressed == 2
    assert samples.chunk_samples == 9000 and "numpy.savez (stored)" in samples.explain()
    kept = SampleDataset(tmp_path / "x.npz")
    np.testing.assert_array_equal(kept.read(np.arange(9000))["x"], array)
    np.testing.assert_array_equal(kept.read(ids)["x"], array[ids])
    assert kept._opened.get().arrays["x"]._members.decompressed == 1


def test_a_copy_for_another_process_has_no_open_files(tmp_path: Path) -> None:
    array = values()
    samples = SampleDataset(hdf5(chunks=(64, FEATURES), compression="gzip")(tmp_path, array))
    samples.read([1])
    other = pickle.loads(pickle.dumps(samples))
    np.testing.assert_array_equal(other.read(IDS)["x"], array[IDS])
    os.utime(samples.paths[0], ns=(1, 1))
    with pytest.raises(errors.CorruptFileError, match="has changed since it was opened: it was changed in place"):
        pickle.loads(pickle.dumps(samples)).read([1])


def test_a_subset_names_samples_of_the_whole_data_set(tmp_path: Path) -> None:
    array = values()
    whole = SampleDataset(npy(tmp_path, array))
    subset = Subset(whole, [9, 4, 200])
    batch = subset.read([2, 0, -1])
    np.testing.assert_array_equal(batch["samples"], array[[200, 9, 200]])
    assert batch.ids.tolist() == [200, 9, 200] and len(subset) == 3
    np.testing.assert_array_equal(subset[1]["samples"], array[4])
    # a part of a part, in batches of a loader
    part = Subset(Subset(whole, np.arange(N)[::-1]), np.arange(5, 45))
    for order in ("random", "windowed", "stored"):
        for batch in Loader(part, 7, order=order, tensors=False):
            np.testing.assert_array_equal(batch["samples"], array[batch.ids])
            files, rows = part.origin(batch.ids)
            assert rows.tolist() == batch.ids.tolist() and set(files) == set(whole.paths)
    with pytest.raises(errors.OutOfRangeError, match="sample 3 of the whole data set is not in this part"):
        subset.origin([9, 3])


@pytest.mark.parametrize("kind", ["npy", "deflated", "gzip"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_torch_loaders_take_the_data_set_as_it_is(tmp_path: Path, kind: str, shuffle: bool) -> None:
    array = values()
    samples = SampleDataset(KINDS[kind](tmp_path, array))
    name = samples.fields[0]
    subset = Subset(samples, np.arange(N)[::-1])
    for data, expected in ((samples, array), (subset, array[::-1])):
        whole = list(torch_stand_in.batches(data, 8, shuffle=shuffle))
        assert [len(one[name]) for one in whole] == [8] * 37 + [4]
        found = np.concatenate([one[name] for one in whole])
        rows = np.concatenate(list(torch_stand_in.batches(range(N), 8, shuffle=shuffle, collate_fn=list)))
        np.testing.assert_array_equal(found, expected[rows])
        # the batch that was read, without a copy
        batches = list(torch_stand_in.batches(data, 8, shuffle=shuffle, collate_fn=data.collate))
        assert all(isinstance(one, Batch) for one in batches)
        np.testing.assert_array_equal(np.concatenate([one[name] for one in batches]), found)


def test_samples_one_by_one_and_together(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=values(20, 3), y=np.arange(20.0))
    samples = SampleDataset(tmp_path / "a.npz")
    together = samples.__getitems__([7, -1, 7])
    assert len(together) == 3 and together.batch.ids.tolist() == [7, 19, 7]
    for place, number in ((0, 7), (1, 19), (-1, 7)):
        assert {name: one.tolist() for name, one in together[place].items()} == {
            name: one.tolist() for name, one in samples[number].items()
        }
    assert [one["y"].item() for one in together] == [one["y"].item() for one in together[:]] == [7, 19, 7]
    with pytest.raises(IndexError):
        together[3]
    shapeless = SampleDataset(tmp_path / "a.npz", transform=lambda batch: {"mean": batch["x"].mean(axis=0)})
    with pytest.raises(errors.ArgumentError, match=r"mean has shape \(3,\), expected a row for each of 2 samples"):
        next(torch_stand_in.batches(shapeless, 2))
    # as torch pins the memory of a mapping: it makes a dictionary after this error
    with pytest.raises(TypeError, match="found dict"):
        Batch({"x": np.zeros(3)})  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", [[N], [-N - 1], [0, 1 << 40]])
def test_samples_that_are_not_there(tmp_path: Path, ids: list[int]) -> None:
    samples = SampleDataset(npy(tmp_path, values()))
    with pytest.raises(errors.OutOfRangeError, match=f"of {N} samples"):
        samples.read(ids)
    with pytest.raises(errors.ArgumentError):
        samples.read([[1, 2]])
    with pytest.raises(errors.ArgumentError):
        samples.read([0.5])
    assert sum(1 for _ in samples) == N


class TestBadInput:
    def test_cut_files_name_the_byte(self, tmp_path: Path) -> None:
        for write in (npy, hdf5()):
            path = write(tmp_path, values())
            data = path.read_bytes()
            path.write_bytes(data[:-1000])
            with pytest.raises(errors.TruncatedFileError, match=str(path)):
                SampleDataset(path)
        path = npy(tmp_path, values())
        path.write_bytes(path.read_bytes()[:-1000])
        with pytest.raises(errors.TruncatedFileError) as caught:
            SampleDataset(path)
        assert caught.value.offset == path.stat().st_size and caught.value.path == str(path)

    def test_every_cut_of_an_archive_is_an_error(self, tmp_path: Path) -> None:
        data = npz(tmp_path, values(20)).read_bytes()
        for kept in [*range(0, 200, 7), len(data) // 2, len(data) - 30, len(data) - 1]:
            path = tmp_path / "cut.npz"
            path.write_bytes(data[:kept])
            with pytest.raises((errors.TruncatedFileError, errors.UnsupportedFormatError), match=r"cut\.npz: byte"):
                SampleDataset(path)

    def test_a_file_that_is_cut_later(self, tmp_path: Path) -> None:
        path = npy(tmp_path, values())
        samples = SampleDataset(path)
        os.truncate(path, 500)
        with pytest.raises(errors.CorruptFileError, match="has changed since it was opened: it is shorter"):
            samples.read([299])

    def test_a_directory_that_says_more_than_there_is(self, tmp_path: Path) -> None:
        path = npz(tmp_path, values(20))
        with zipfile.ZipFile(path) as archive:
            info = archive.infolist()[0]
        data = bytearray(path.read_bytes())
        at = data.rindex(b"PK\x01\x02")
        data[at + 20 : at + 24] = struct.pack("<I", info.compress_size + 100_000)
        path.write_bytes(data)
        with pytest.raises(errors.TruncatedFileError, match=r"member x\.npy ends early, expected"):
            SampleDataset(path)
        data[at + 42 : at + 46] = struct.pack("<I", 3)
        path.write_bytes(data)
        with pytest.raises(errors.CorruptFileError, match="byte 3: no local header"):
            SampleDataset(path)

    def test_pickled_arrays_are_refused(self, tmp_path: Path) -> None:
        for name, save in (("x.npy", np.save), ("x.npz", lambda path, array: np.savez(path, x=array))):
            save(tmp_path / name, np.array([{"a": 1}, None], object))  # type: ignore[operator]
            with pytest.raises(errors.UnsupportedFormatError, match=r"byte \d+: pickled Python objects"):
                SampleDataset(tmp_path / name)

    def test_headers_that_are_no_headers(self, tmp_path: Path) -> None:
        good = npy(tmp_path, values(3)).read_bytes()
        path = tmp_path / "bad.npy"
        for change in (b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, -7), }", b"__import__('os')", b"{}"):
            path.write_bytes(good[:10] + change.ljust(118) + good[128:])
            with pytest.raises(errors.CorruptFileError, match=r"byte 10: the \.npy header cannot be read"):
                SampleDataset(path)
        path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31))
        with pytest.raises(errors.CorruptFileError, match=r"byte 8: length of the \.npy header"):
            SampleDataset(path)
        np.save(path, np.asfortranarray(values(9)))
        with pytest.raises(errors.UnsupportedFormatError, match="Fortran order"):
            SampleDataset(path)

    def test_members_of_different_length(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", x=np.zeros((4, 2)), y=np.zeros(5))
        with pytest.raises(errors.ArgumentError, match=r"different numbers of samples \(x: 4, y: 5\)"):
            SampleDataset(tmp_path / "x.npz")
        assert len(SampleDataset(tmp_path / "x.npz", "y")) == 5
        with pytest.raises(errors.ArgumentError, match="there is no member z, only x, y"):
            SampleDataset(tmp_path / "x.npz", "z")

    def test_a_damaged_member_is_an_error_and_no_values(self, tmp_path: Path) -> None:
        path = deflated(tmp_path, values(2000))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x10
        path.write_bytes(data)
        for memory in ("256 MiB", "1 KiB"):
            with pytest.raises(errors.CorruptFileError, match=r"x\.npz: byte \d+: member x cannot be decompressed"):
                SampleDataset(path, memory=memory).read([0])

    def test_a_damaged_chunk_names_the_file(self, tmp_path: Path) -> None:
        path = hdf5(chunks=(64, FEATURES), compression="gzip")(tmp_path, values())
        samples = SampleDataset(path)
        with h5py.File(path) as file:
            info = file["x"].id.get_chunk_info(1)
        data = bytearray(path.read_bytes())
        data[info.byte_offset + 5 : info.byte_offset + 200] = bytes(195)
        path.write_bytes(data)
        samples = SampleDataset(path)
        np.testing.assert_array_equal(samples.read([0])["x"], values()[[0]])
        with pytest.raises(errors.CorruptFileError, match=r"samples\.h5.*chunk 1"):
            samples.read([0, 70])

    def test_other_files(self, tmp_path: Path) -> None:
        (tmp_path / "x.txt").write_text("1 2 3")
        with pytest.raises(errors.UnsupportedFormatError, match="byte 0: neither HDF5 nor"):
            SampleDataset(tmp_path / "x.txt")
        with pytest.raises(errors.ArgumentError, match="has no files of samples"):
            SampleDataset(tmp_path)
        with pytest.raises(errors.FileNotFound):
            SampleDataset(tmp_path / "none.npy")
        buffer = io.BytesIO()
        np.save(buffer, np.float64(3))
        (tmp_path / "one.npy").write_bytes(buffer.getvalue())
        with pytest.raises(errors.ArgumentError, match="a single value"):
            SampleDataset(tmp_path / "one.npy")
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["a/x"] = ["text"]
        with pytest.raises(errors.ArgumentError, match="has no array"):
            SampleDataset(tmp_path / "x.h5")
