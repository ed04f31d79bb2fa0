"""Data sets and loaders through a node cache: the same batches, and each byte once from the source."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema import ml
from kinema.cache import NodeCache
from kinema.cache.blocks import amplification
from kinema.ml.loading import node_prefetch
from kinema.ml.loading.node_prefetch import local_ranks
from kinema.testing import random_walk, write_dcd, write_h5md, write_xtc
from kinema.testing.synthetic import synthetic

N, FEATURES = 600, 400
BLOCK = 64 << 10


def values() -> Any:
    return np.random.default_rng(5).standard_normal((N, FEATURES))


def hdf5(path: Path, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values(), **options)
    return path


def contiguous(folder: Path) -> Path:
    return hdf5(folder / "contiguous.h5")


def chunked(folder: Path) -> Path:
    return hdf5(folder / "chunked.h5", chunks=(7, 150))


def packed(folder: Path) -> Path:
    return hdf5(folder / "packed.h5", chunks=(16, FEATURES), compression="gzip", shuffle=True)


def npy(folder: Path) -> Path:
    np.save(folder / "x.npy", values())
    return folder / "x.npy"


def npz(folder: Path) -> Path:
    np.savez(folder / "x.npz", x=values())
    return folder / "x.npz"


def deflated(folder: Path) -> Path:
    np.savez_compressed(folder / "deflated.npz", x=values())
    return folder / "deflated.npz"


@pytest.fixture(params=[contiguous, chunked, packed, npy, npz, deflated], ids=lambda made: str(made.__name__))
def archive(request: Any, tmp_path: Path) -> Path:
    made: Path = request.param(tmp_path)
    return made


def cache_in(folder: Path, **options: Any) -> NodeCache:
    return NodeCache(folder / "node", **({"limit": "1 GiB", "block": BLOCK} | options))


def test_samples_are_the_same(archive: Path, tmp_path: Path, counted: Any) -> None:
    ids = np.random.default_rng(1).integers(0, N, 200)
    plain = ml.SampleDataset(archive)
    expected = {name: array.copy() for name, array in plain.read(ids).items()}
    for source in ("the files", "the cache"):
        samples = ml.SampleDataset(archive, node_cache=cache_in(tmp_path))
        for data in (samples, pickle.loads(pickle.dumps(samples))):
            batch = data.read(ids)
            assert {name: array.tobytes() for name, array in batch.items()} == {
                name: array.tobytes() for name, array in expected.items()
            }
        found = counted()
        assert found.hits
        assert (found.bytes_source > 0) == (source == "the files")
    # each byte once
    assert sum(size for _, _, size in [(0, 0, archive.stat().st_size)]) >= found.bytes_source


def test_a_file_that_was_replaced(tmp_path: Path) -> None:
    path = npy(tmp_path)
    ml.SampleDataset(path, node_cache=cache_in(tmp_path)).read(np.arange(N))
    times = path.stat()
    np.save(path, values() + 1)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    again = ml.SampleDataset(path, node_cache=cache_in(tmp_path)).read(np.arange(N))
    np.testing.assert_array_equal(again["samples"], values() + 1)


@pytest.mark.parametrize("kind", ["xtc", "dcd", "h5md"])
def test_frames_are_the_same(tmp_path: Path, counted: Any, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "h5md":
        write_h5md(path, synthetic(120, 80), chunks=(4, 80, 3), compression="gzip")
    else:
        {"xtc": write_xtc, "dcd": write_dcd}[kind](path, random_walk(120, 80))
    ids = np.random.default_rng(1).integers(0, 120, 60)
    expected = ml.FrameDataset(path).read(ids)["positions"].tobytes()
    opened = kn.open(path, node_cache=cache_in(tmp_path))
    for made in (
        # by its path, as it was opened, and a trajectory that was opened without one
        lambda: ml.FrameDataset(path, node_cache=cache_in(tmp_path)),
        lambda: ml.FrameDataset(opened),
        lambda: ml.FrameDataset([kn.open(path)], node_cache=tmp_path / "other"),
    ):
        frames = made()
        assert frames.read(ids)["positions"].tobytes() == expected
        assert pickle.loads(pickle.dumps(frames)).read(ids)["positions"].tobytes() == expected
        assert frames.node_cache is not None
    assert ml.FrameDataset(path).node_cache is None
    counted()
    again = ml.FrameDataset(path, node_cache=cache_in(tmp_path))
    assert again.read(ids)["positions"].tobytes() == expected
    assert (found := counted()).bytes_source == 0 < found.hits


def test_a_catalogue(tmp_path: Path, counted: Any) -> None:
    names = [tmp_path / f"{number}.dcd" for number in range(3)]
    for number, name in enumerate(names):
        write_dcd(name, random_walk(50, 80, seed=number))
    ml.make_catalogue([str(name) for name in names], tmp_path / "a.kinema-catalogue")
    catalogue = ml.Catalogue(tmp_path / "a.kinema-catalogue")
    expected = ml.FrameDataset(catalogue).read(np.arange(150))["positions"].tobytes()
    for source in (True, False):
        frames = ml.FrameDataset(catalogue, node_cache=cache_in(tmp_path))
        assert frames.read(np.arange(150))["positions"].tobytes() == expected
        assert (counted().bytes_source > 0) == source


# -- where samples are -------------------------------------------------------------------------------------------------


def test_extents_hold_the_samples(archive: Path, tmp_path: Path) -> None:
    data = ml.SampleDataset(archive, node_cache=cache_in(tmp_path))
    ids = np.array([5, 599, 0, 5, 300])
    extents = data.extents(ids)
    assert set(extents.sample.tolist()) == set(range(len(ids))) and (np.diff(extents.sample) >= 0).all()
    assert extents.paths == data.paths or list(extents.paths) == list(data.paths)
    content = archive.read_bytes()
    assert (extents.offset + extents.length <= len(content)).all()
    if archive.name in ("contiguous.h5", "x.npy", "x.npz"):
        for sample, offset, length in zip(extents.sample, extents.offset, extents.length, strict=True):
            row = np.frombuffer(content[offset : offset + length], np.float64)
            np.testing.assert_array_equal(row, values()[ids[sample]])
    elif archive.name == "chunked.h5":
        # three chunks of a row, which is 5 - 5 = 0 rows into the first, 599 % 7 into its own, ...
        assert len(extents.sample) == 3 * len(ids)
        for place, sample in enumerate(ids.tolist()):
            of_one = np.flatnonzero(extents.sample == place)
            chunks = [np.frombuffer(content[extents.offset[i] :][: extents.length[i]], np.float64) for i in of_one]
            row = np.concatenate([chunk.reshape(7, 150)[sample % 7] for chunk in chunks])[:FEATURES]
            np.testing.assert_array_equal(row, values()[sample])


def test_extents_of_frames_and_subsets(tmp_path: Path) -> None:
    names = [tmp_path / "a.xtc", tmp_path / "b.dcd"]
    write_xtc(names[0], random_walk(30, 80))
    write_dcd(names[1], random_walk(20, 80))
    frames = ml.FrameDataset(names, node_cache=cache_in(tmp_path))
    extents = frames.extents(np.array([49, 3]))
    assert [extents.paths[file] for file in extents.file] == [str(names[1]), str(names[0])]
    assert extents.offset[1] == kn.open(names[0]).core.locate(3)[2]
    part = ml.Subset(frames, [3, 49, 7])
    assert part.node_cache is frames.node_cache
    assert part.extents(np.array([1])).offset.tolist() == extents.offset[:1].tolist()
    pairs = ml.FrameDataset(names, lag=2.0, node_cache=cache_in(tmp_path))
    assert pairs.extents(np.array([0])).sample.tolist() == [0, 0]


def test_explain(tmp_path: Path) -> None:
    data = ml.SampleDataset(npy(tmp_path), node_cache=cache_in(tmp_path))
    text = data.explain(32)
    row = 8 * FEATURES
    assert f"node cache {tmp_path / 'node'}: headers and the structure of HDF5 files are read from the files" in text
    assert "1.00 of all" in text
    assert f"{amplification(row, BLOCK, 1 / 8):.2f} of 1/8" in text
    # a tenth of the samples, as of a node of ten
    part = ml.Subset(data, np.arange(60)).explain(32)
    assert f"{amplification(row, BLOCK, 0.1):.2f} of 1/10" in part
    assert "node cache" not in ml.SampleDataset(npy(tmp_path)).explain(32)
    assert "node cache" in ml.Loader(data, 32, tensors=False).explain()


# -- epochs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["random", "windowed", "stored"])
def test_epochs_with_a_prefetch(archive: Path, tmp_path: Path, counted: Any, order: str) -> None:
    def batches(data: ml.Dataset) -> list[bytes]:
        loader = ml.Loader(data, 32, order=order, seed=3, tensors=False, memory="4 MiB")
        found = [b"".join(array.tobytes() for array in batch.values()) for _ in range(3) for batch in loader]
        loader.close()
        return found

    expected = batches(ml.SampleDataset(archive))
    counted()
    assert batches(ml.SampleDataset(archive, node_cache=cache_in(tmp_path))) == expected
    first = counted()
    assert 0 < first.bytes_source <= archive.stat().st_size
    assert batches(ml.SampleDataset(archive, node_cache=cache_in(tmp_path))) == expected
    assert counted().bytes_source == 0


def test_frames_with_a_prefetch_and_a_small_cache(tmp_path: Path, counted: Any) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(900, 150))
    plain = ml.Loader(ml.FrameDataset(path), 16, seed=3, tensors=False)
    expected = [batch["positions"].tobytes() for _ in range(2) for batch in plain]
    small = cache_in(tmp_path, limit=600_000)
    assert small.limit < path.stat().st_size
    loader = ml.Loader(ml.FrameDataset(path, node_cache=small), 16, seed=3, tensors=False)
    assert [batch["positions"].tobytes() for _ in range(2) for batch in loader] == expected
    loader.close()
    assert counted().evicted
    # a loop that is left, and another epoch
    loader = ml.Loader(ml.FrameDataset(path, node_cache=cache_in(tmp_path)), 16, seed=3, tensors=False)
    for _, batch in zip(range(3), loader, strict=False):
        assert len(batch.ids) == 16
    loader.set_epoch(1)
    assert [batch["positions"].tobytes() for batch in loader] == expected[len(expected) // 2 :]
    loader.close()


def test_lists_follow_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ml.SampleDataset(npy(tmp_path), node_cache=cache_in(tmp_path))
    lists: list[list[tuple[str, int, int]]] = []
    places: list[int] = []

    class Core:
        def prefetch(self, reads: Any, ahead: int) -> Any:
            lists.append(list(reads))
            places.clear()
            return self

        def position(self, place: int) -> None:
            places.append(place)

        def stop(self) -> None:
            pass

    monkeypatch.setattr(type(data.node_cache), "core", property(lambda _: Core()))
    monkeypatch.setattr(node_prefetch, "_FIRST_PLANNED", 100)
    monkeypatch.setattr(node_prefetch, "_PLANNED", 100)
    loader = ml.Loader(data, 32, seed=3, tensors=False)
    ids = [loader.batch_ids(number) for number in range(len(loader))]
    loops = node_prefetch.prefetch_for(loader, 0, 0, ahead=1, on=False)
    assert loops is not None
    loops._thread.join()
    header = lists[0][0][1] - 8 * FEATURES * int(ids[0][0])

    def samples(reads: Any) -> list[int]:
        return [(offset - header) // (8 * FEATURES) for _, offset, _ in reads]

    assert samples(lists[0]) == np.concatenate(ids[:4]).tolist()
    gathers = [gather for gather, _ in loader.gathers(0)]
    for gather in gathers[:3]:
        loops.passed(gather)
    assert places == [0, 32, 64] and len(lists) == 1
    # the last one of a list begins the next one
    loops.passed(gathers[3])
    loops._thread.join()
    assert len(lists) == 2 and samples(lists[1]) == np.concatenate(ids[3:7]).tolist()
    for gather in gathers[4:]:
        loops.passed(gather)
        loops._thread.join()
    assert [one for reads in (lists[0][:96], *lists[1:]) for one in reads][-1:] == lists[-1][-1:]
    assert samples(lists[-1])[-1] == ids[-1][-1]


def test_ranks_of_a_node_prefetch_for_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_ranks(3, 8) == range(3, 4)
    for own, here, expected in (("1", "4", range(4, 8)), ("1", "9", range(5, 6)), ("x", "2", range(5, 6))):
        monkeypatch.setenv("LOCAL_RANK", own)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", here)
        assert local_ranks(5, 8) == expected
