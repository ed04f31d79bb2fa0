"""`kinema.cache.open` and `open_hdf5`: files through a node cache for other people's code."""

from __future__ import annotations

import gzip
import os
import threading
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema import cache
from kinema.cache import NodeCache
from kinema.cache.counts import counts_of_all


@pytest.fixture
def node(tmp_path: Path) -> NodeCache:
    return NodeCache(tmp_path / "node", limit="1 GiB", block="64 KiB")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a.bin"
    made.write_bytes(np.random.default_rng(1).bytes(300_001))
    return made


def test_it_is_a_file(path: Path, node: NodeCache) -> None:
    data = path.read_bytes()
    with cache.open(path, node) as file:
        assert (file.readable(), file.seekable(), file.writable(), file.closed) == (True, True, False, False)
        assert (file.name, file.size) == (str(path), len(data))
        assert file.read(10) == data[:10] and file.tell() == 10
        assert file.seek(-5, os.SEEK_END) == len(data) - 5
        assert file.read(100) == data[-5:] and file.read(1) == b""
        assert file.seek(70_000) == 70_000 and file.seek(-4464, os.SEEK_CUR) == 65_536
        assert file.read(70_000) == data[65_536:135_536]
        buffer = np.zeros(1000, np.uint32)
        assert file.readinto(buffer) == 4000 and buffer.tobytes() == data[135_536:139_536]
        assert file.pread(9, 65_530) == data[65_530:65_539] and file.tell() == 139_536
        assert file.pread(100, len(data) - 3) == data[-3:] and file.pread(3, len(data) + 9) == b""
        file.seek(0)
        assert file.read() == data == (file.seek(0), file.readall())[1]
        # lines, as of any file
        file.seek(0)
        assert next(iter(file)) == data[: data.index(b"\n") + 1]
        for wrong in (lambda: file.seek(-1), lambda: file.seek(0, 7), lambda: file.pread(-1, 0)):
            with pytest.raises(ValueError):
                wrong()
        with pytest.raises(OSError):
            file.fileno()
        with pytest.raises(OSError):
            file.write(b"a")
    with pytest.raises(ValueError, match="closed"):
        file.read(1)


def test_many_threads_read_one_file(path: Path, node: NodeCache) -> None:
    data, before = path.read_bytes(), counts_of_all()
    wrong: list[int] = []
    with cache.open(path, str(node.root)) as file:

        def read(seed: int) -> None:
            for at in np.random.default_rng(seed).integers(0, len(data), 200).tolist():
                if file.pread(500, at) != data[at : at + 500]:
                    wrong.append(at)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    # by the folder the block is that of the default: all of this file
    assert (counts_of_all() - before).bytes_source == len(data)


def test_numpy_zip_and_gzip(tmp_path: Path, node: NodeCache) -> None:
    values = np.random.default_rng(2).standard_normal((500, 40))
    np.savez(tmp_path / "a.npz", x=values)
    np.save(tmp_path / "a.npy", values)
    (tmp_path / "a.gz").write_bytes(gzip.compress(values.tobytes()))
    for _ in range(2):
        before = counts_of_all()
        with cache.open(tmp_path / "a.npz", node) as file:
            np.testing.assert_array_equal(np.load(file)["x"], values)
        with cache.open(tmp_path / "a.npz", node) as file:
            assert zipfile.ZipFile(file).testzip() is None
        with cache.open(tmp_path / "a.npy", node) as file:
            np.testing.assert_array_equal(np.load(file), values)
        with cache.open(tmp_path / "a.gz", node) as file, gzip.open(file) as stream:
            assert stream.read() == values.tobytes()
    assert (counts_of_all() - before).bytes_source == 0


def test_h5py(tmp_path: Path, node: NodeCache) -> None:
    values = np.random.default_rng(3).standard_normal((400, 60))
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made.create_dataset("x", data=values)
        made.create_dataset("group/packed", data=values, chunks=(32, 60), compression="gzip", shuffle=True)
        made["group"].attrs["unit"] = "nm"
    for _ in range(2):
        before = counts_of_all()
        with cache.open_hdf5(tmp_path / "a.h5", node) as file:
            np.testing.assert_array_equal(file["x"][5:300:7], values[5:300:7])
            np.testing.assert_array_equal(file["group/packed"][()], values)
            assert file["group"].attrs["unit"] == "nm"
            with pytest.raises((OSError, ValueError)):
                file.create_dataset("y", data=values)
    assert (counts_of_all() - before).bytes_source == 0
    (tmp_path / "b.h5").write_bytes(b"nothing" * 500)
    with pytest.raises(OSError, match="signature"):
        cache.open_hdf5(tmp_path / "b.h5", node)


def test_bad_files(tmp_path: Path, node: NodeCache) -> None:
    with pytest.raises(kn.FileNotFound, match=r"none\.bin"):
        cache.open(tmp_path / "none.bin", node)
    with pytest.raises(kn.ArgumentError, match="directory"):
        cache.open(tmp_path, node)
    with pytest.raises(kn.ArgumentError, match="found None"):
        cache.open(tmp_path, None)
