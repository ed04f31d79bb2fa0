"""Every setting of HDF5's filters that `kn.Writer` and `repack` take: written, read by h5py, and by Kinema."""

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest

import kinema as kn
from kinema.storage.hdf5.filters import Compression, encoded_by_core
from kinema.testing import random_walk
from kinema.testing.amounts import each

# some filters leave a chunk as it is where they make it no smaller
POSITIONS = np.round(random_walk(37, 40))
# neighbouring chunks of four frames, of which one gets smaller and the other does not
MIXED = np.where((np.arange(37) // 4 % 2 == 0)[:, None, None], random_walk(37, 40), POSITIONS)
VALUE = "particles/trajectory/position/value"
LZF, SZIP, SHUFFLE, GZIP, FLETCHER32, ZSTD = 32000, 4, 2, 1, 3, 32015

SETTINGS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "lzf": ({"compression": "lzf"}, [SHUFFLE, LZF]),
    "lzf without shuffle": ({"compression": "lzf", "shuffle": False}, [LZF]),
    "lzf with checksum": ({"compression": "lzf", "checksum": True}, [SHUFFLE, LZF, FLETCHER32]),
    "szip": ({"compression": "szip"}, [SZIP]),
    "szip with shuffle": ({"compression": "szip", "shuffle": True}, [SHUFFLE, SZIP]),
    "szip with checksum": ({"compression": "szip", "checksum": True}, [SZIP, FLETCHER32]),
    "szip by number": ({"compression": (SZIP, (4, 16))}, [SZIP]),
    "checksum alone": ({"checksum": True}, [FLETCHER32]),
    "gzip without shuffle": ({"compression": "gzip", "shuffle": False}, [GZIP]),
    "gzip with checksum": ({"compression": "gzip", "level": 4, "checksum": True}, [SHUFFLE, GZIP, FLETCHER32]),
    "gzip by number": ({"compression": (GZIP, (7,))}, [GZIP]),
    "gzip by number with shuffle": ({"compression": (GZIP, (7,)), "shuffle": True}, [SHUFFLE, GZIP]),
    "zstd without shuffle": ({"compression": "zstd", "shuffle": False, "checksum": True}, [ZSTD, FLETCHER32]),
    "zstd by number": ({"compression": (ZSTD, (5,)), "shuffle": True}, [SHUFFLE, ZSTD]),
    "lz4 with checksum": ({"compression": "lz4", "checksum": True}, [SHUFFLE, 32004, FLETCHER32]),
    "bitshuffle with checksum": ({"compression": "bitshuffle-zstd", "checksum": True}, [32008, FLETCHER32]),
    "blosc2 with checksum": (
        {"compression": (32026, hdf5plugin.Blosc2().filter_options), "checksum": True},
        [32026, 3],
    ),
    "bzip2": ({"compression": (307, (9,))}, [307]),
    "lzf by number": ({"compression": (LZF, ())}, [LZF]),
}
LAYOUTS: tuple[Any, ...] = ("frames", "atoms", (5, 11, 2))

pytestmark = pytest.mark.usefixtures("nobody_changes_files")


def check(path: Path, filters: list[int], positions: np.ndarray) -> None:
    with h5py.File(path) as file:
        dataset = file[VALUE]
        plist = dataset.id.get_create_plist()
        assert [plist.get_filter(i)[0] for i in range(plist.get_nfilters())] == filters
        assert (dataset.shuffle, dataset.fletcher32) == (SHUFFLE in filters, FLETCHER32 in filters)
        np.testing.assert_array_equal(dataset[()], positions)
        # nothing was skipped: chunks are filtered as the data set says; Blosc2 gives up earlier than others
        infos = [dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())]
        assert 32026 in filters or all(info.filter_mask == 0 for info in infos)
    traj = kn.open(path, stored=False)
    np.testing.assert_array_equal(traj.read(workers=2), positions)
    np.testing.assert_array_equal(traj.read([30, 2], [39, 4]), positions[[30, 2]][:, [39, 4]])


@pytest.mark.parametrize(("name", "layout"), each(tuple(SETTINGS), LAYOUTS), ids=str)
def test_what_is_written_is_read(name: str, layout: Any, tmp_path: Path) -> None:
    options, filters = SETTINGS[name]
    path = tmp_path / "made.h5md"
    with kn.Writer(path, 40, layout=layout, chunk_bytes=4 * 40 * 12, **options) as out:
        for start in range(0, 37, 10):
            out.write(positions=POSITIONS[start : start + 10])
    check(path, filters, POSITIONS)


@pytest.mark.parametrize("name", [*SETTINGS, "bitshuffle alone"])
def test_files_that_grow(name: str, tmp_path: Path) -> None:
    # bitshuffle without compression: as many bytes as without filters
    options, filters = (SETTINGS | {"bitshuffle alone": ({"compression": (32008, (0, 0))}, [32008])})[name]
    positions = MIXED
    path = tmp_path / "grows.h5md"
    with kn.Writer(path, 40, mode="a", chunk_bytes=4 * 40 * 12, **options) as out:
        for number, frame in enumerate(positions[:21]):
            out.write(positions=frame)
            # after 1, 4, 7 and 10 frames: a chunk that is complete, or lacks one, two or three
            if number % 3 == 0 and number < 12:
                out.flush()
                np.testing.assert_array_equal(kn.open(path, stored=False).read(), positions[: number + 1])
    with kn.Writer(path, mode="a") as out:
        out.write(positions=positions[21:])
    with h5py.File(path) as file:
        plist = file[VALUE].id.get_create_plist()
        assert [plist.get_filter(i)[0] for i in range(plist.get_nfilters())] == filters
        np.testing.assert_array_equal(file[VALUE][()], positions)
    np.testing.assert_array_equal(kn.open(path, stored=False).read(), positions)


@pytest.mark.parametrize("name", SETTINGS)
def test_repack(name: str, tmp_path: Path) -> None:
    options, filters = SETTINGS[name]
    plain, out, again = (tmp_path / f"{one}.h5md" for one in ("plain", "out", "again"))
    with kn.Writer(plain, 40) as writer:
        writer.write(positions=POSITIONS)
    if "compression" not in options:
        options = {"compression": None, **options}
    kn.repack(plain, out, layout=(5, 11, 2), **options)
    check(out, filters, POSITIONS)
    # and back to what it was
    kn.repack(out, again, compression=None)
    check(again, [], POSITIONS)


def test_properties_are_those_of_h5py(tmp_path: Path) -> None:
    path = tmp_path / "made.h5md"
    with kn.Writer(path, 40, compression=(SZIP, (32, 16)), checksum=True) as out:
        out.write(positions=POSITIONS)
    with h5py.File(path) as file, h5py.File(tmp_path / "by-h5py.h5", "w") as other:
        mine = file[VALUE]
        peer = other.create_dataset(
            "x", data=POSITIONS, chunks=mine.chunks, compression="szip", compression_opts=("nn", 16), fletcher32=True
        )
        assert (mine.compression, mine.compression_opts, mine.fletcher32, mine.shuffle) == (
            ("szip", ("nn", 16), True, False)
        )
        ours, theirs = (
            {plist.get_filter(i)[0]: plist.get_filter(i)[2] for i in range(plist.get_nfilters())}
            for plist in (mine.id.get_create_plist(), peer.id.get_create_plist())
        )
        assert ours == theirs


def test_who_encodes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, expected in {"gzip": True, "lzf": False, "szip": False}.items():
            dataset = file.create_dataset(name, (8, 5, 3), "f4", chunks=(2, 5, 3), compression=name, fletcher32=True)
            assert encoded_by_core(dataset) == expected


def test_an_encoder_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    info = h5py.h5z.get_filter_info
    monkeypatch.setattr(h5py.h5z, "get_filter_info", lambda n: info(n) & ~h5py.h5z.FILTER_CONFIG_ENCODE_ENABLED)
    with pytest.raises(kn.ArgumentError, match=r"compression szip: HDF5 .* reads this filter and has no encoder"):
        Compression("szip")
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda n: False)
    with pytest.raises(kn.ArgumentError, match="compression lzf: neither Kinema nor HDF5"):
        Compression("lzf")
