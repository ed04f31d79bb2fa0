"""HDF5 filters against libhdf5 and its plugins: what they write is decoded, what is encoded they read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema import _core

Chunk = tuple[tuple[int, ...], int, bytes]

SHAPE, CHUNKS = (23, 37, 3), (5, 16, 3)

LOSSLESS: dict[str, dict[str, Any]] = {
    "none": {},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "gzip-1": {"compression": "gzip", "compression_opts": 1},
    "gzip-9": {"compression": "gzip", "compression_opts": 9},
    "shuffle gzip-6": {"compression": "gzip", "compression_opts": 6, "shuffle": True},
    "shuffle gzip-0": {"compression": "gzip", "compression_opts": 0, "shuffle": True},
    "shuffle gzip-4 fletcher32": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "shuffle fletcher32": {"shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "shuffle lzf fletcher32": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "zstd": dict(hdf5plugin.Zstd()),
    "zstd-19": dict(hdf5plugin.Zstd(clevel=19)),
    "shuffle zstd-1 fletcher32": {**hdf5plugin.Zstd(clevel=1), "shuffle": True, "fletcher32": True},
    "lz4": dict(hdf5plugin.LZ4()),
    "lz4 in blocks of 100 bytes": dict(hdf5plugin.LZ4(nbytes=100)),
    "shuffle lz4": {**hdf5plugin.LZ4(), "shuffle": True},
    "bitshuffle": dict(hdf5plugin.Bitshuffle(cname="none")),
    "bitshuffle-lz4": dict(hdf5plugin.Bitshuffle(cname="lz4")),
    "bitshuffle-lz4 in blocks of 24": dict(hdf5plugin.Bitshuffle(nelems=24, cname="lz4")),
    "bitshuffle-zstd": dict(hdf5plugin.Bitshuffle(cname="zstd", clevel=3)),
    "bitshuffle-zstd in blocks of 64, fletcher32": {
        **hdf5plugin.Bitshuffle(nelems=64, cname="zstd", clevel=1),
        "fletcher32": True,
    },
}
NOT_WRITTEN = ("lzf",)


@pytest.fixture
def file() -> Iterator[h5py.File]:
    """A file in memory."""
    with h5py.File("filters.h5", "w", driver="core", backing_store=False) as file:
        yield file


def walk(dtype: str, shape: tuple[int, ...] = SHAPE) -> NDArray[Any]:
    """Values that compress somewhat, as coordinates do."""
    random = np.random.default_rng(17)
    steps = random.normal(0, 3, shape).cumsum(axis=0)
    return (steps * 10).round().astype(dtype) if np.dtype(dtype).kind in "iu" else steps.astype(dtype)


def filters_of(dataset: h5py.Dataset) -> list[tuple[int, tuple[int, ...]]]:
    """(id, client values) as the file has them."""
    properties = dataset.id.get_create_plist()
    return [(f[0], f[2]) for f in (properties.get_filter(i) for i in range(properties.get_nfilters()))]


def chunks_of(dataset: h5py.Dataset) -> Iterator[Chunk]:
    """(offset, filter mask, stored bytes) of every chunk."""
    for i in range(dataset.id.get_num_chunks()):
        info = dataset.id.get_chunk_info(i)
        mask, stored = dataset.id.read_direct_chunk(info.chunk_offset)
        yield info.chunk_offset, mask, stored


def decoded(dataset: h5py.Dataset) -> NDArray[Any]:
    """The whole array, every chunk decoded by Kinema."""
    filters = filters_of(dataset)
    size = dataset.dtype.itemsize
    out = np.zeros(dataset.shape, dataset.dtype)
    for offset, mask, stored in chunks_of(dataset):
        raw = _core._decode_chunk(stored, mask, filters, size, int(np.prod(dataset.chunks)) * size)
        place = tuple(slice(at, at + n) for at, n in zip(offset, dataset.chunks, strict=True))
        inside = out[place]
        chunk = np.frombuffer(raw, dataset.dtype).reshape(dataset.chunks)
        inside[...] = chunk[tuple(slice(n) for n in inside.shape)]
    return out


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", "|u1", "<f8"])
@pytest.mark.parametrize("name", LOSSLESS)
def test_what_libhdf5_writes_is_decoded(file: h5py.File, name: str, dtype: str) -> None:
    values = walk(dtype)
    dataset = file.create_dataset("x", data=values, chunks=CHUNKS, **LOSSLESS[name])
    assert same_bits(decoded(dataset), values)


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("chunks", [(1, 1, 1), (1, 5, 1), (7, 1, 3), (23, 37, 3), (64, 64, 3)])
def test_chunks_of_odd_sizes_are_decoded(file: h5py.File, name: str, chunks: tuple[int, ...]) -> None:
    # of the smallest chunks fewer, as each costs as much as a large one
    values = walk("<f4") if np.prod(chunks) > 21 else walk("<f4")[:9, :13].copy()
    dataset = file.create_dataset("x", data=values, chunks=chunks, maxshape=(None, None, None), **LOSSLESS[name])
    assert same_bits(decoded(dataset), values)


@pytest.mark.parametrize("size", [3, 12, 16, 40])
@pytest.mark.parametrize("name", ["shuffle", "shuffle gzip-6", "bitshuffle", "bitshuffle-lz4", "bitshuffle-zstd"])
def test_elements_of_odd_sizes_are_decoded_and_encoded(file: h5py.File, name: str, size: int) -> None:
    values = np.random.default_rng(2).integers(0, 9, (50, 11 * size), dtype="u1").view(f"V{size}")
    dataset = file.create_dataset("x", data=values, chunks=(9, 11), **LOSSLESS[name])
    assert same_bits(decoded(dataset), values)
    assert same_bits(encoded_by_kinema(file, (9, 11), LOSSLESS[name], values), values)


def encoded_by_kinema(
    file: h5py.File, chunks: tuple[int, ...], options: dict[str, Any], values: NDArray[Any], workers: int = 2
) -> NDArray[Any]:
    """Values that libhdf5 reads from a data set whose chunks Kinema has encoded."""
    largest = (None,) * values.ndim
    dataset = file.create_dataset(None, values.shape, values.dtype, chunks=chunks, maxshape=largest, **options)
    for offset, chunk in _core.encode_chunks(values, chunks, filters_of(dataset), workers):
        dataset.id.write_direct_chunk(offset, chunk)
    return dataset[...]


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", "|u1"])
@pytest.mark.parametrize("name", [name for name in LOSSLESS if not any(word in name for word in NOT_WRITTEN)])
def test_libhdf5_reads_what_is_encoded(file: h5py.File, name: str, dtype: str) -> None:
    values = walk(dtype)
    assert same_bits(encoded_by_kinema(file, CHUNKS, LOSSLESS[name], values), values)


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((1000,), (300,)),
        ((1000,), (1000,)),
        ((10, 20), (3, 20)),
        ((10, 20), (10, 7)),
        ((4, 5, 6, 7), (2, 5, 4, 3)),
        ((4, 5, 6, 7), (2, 5, 6, 7)),
        ((3, 4), (5, 9)),
        ((0, 4), (5, 4)),
    ],
)
@pytest.mark.parametrize("workers", [1, 4])
def test_arrays_are_cut_on_the_chunk_grid(
    file: h5py.File, shape: tuple[int, ...], chunks: tuple[int, ...], workers: int
) -> None:
    values = walk("<f4", shape)
    assert same_bits(encoded_by_kinema(file, chunks, LOSSLESS["shuffle gzip-6"], values, workers), values)
    offsets = [offset for offset, _ in _core.encode_chunks(values, chunks, (), workers)]
    starts = [range(0, n, step) for n, step in zip(shape, chunks, strict=True)]
    assert offsets == list(itertools.product(*starts))


def test_edges_are_padded_with_zeros() -> None:
    (_, first), (offset, last) = _core.encode_chunks(np.arange(1, 6, dtype="<u2"), (3,), (), 1)
    assert np.frombuffer(first, "<u2").tolist() == [1, 2, 3]
    assert offset == (3,)
    assert np.frombuffer(last, "<u2").tolist() == [4, 5, 0]


@pytest.mark.parametrize("mask", range(8))
def test_filters_that_a_chunk_has_skipped(tmp_path: Path, mask: int) -> None:
    values = walk("<f4", (8, 16, 3))
    with h5py.File(tmp_path / "masks.h5", "w") as file:
        options = {"shuffle": True, "compression": "gzip", "fletcher32": True}
        dataset = file.create_dataset("x", values.shape, "<f4", chunks=values.shape, **options)
        applied = [one for i, one in enumerate(filters_of(dataset)) if not mask >> i & 1]
        ((offset, chunk),) = _core.encode_chunks(values, values.shape, applied, 1)
        dataset.id.write_direct_chunk(offset, chunk, filter_mask=mask)
    # libhdf5 2.0 forgets the mask as long as the file is open
    with h5py.File(tmp_path / "masks.h5") as file:
        assert list(chunks_of(file["x"])) == [(offset, mask, chunk)]
        assert same_bits(file["x"][...], values)
        assert same_bits(decoded(file["x"]), values)


SCALE_OFFSET: dict[str, Callable[[], tuple[NDArray[Any], dict[str, Any]]]] = {
    "int8": lambda: (walk("<i4").astype("i1"), {"scaleoffset": 0}),
    "uint16 big-endian": lambda: (walk("<i4").astype(">u2"), {"scaleoffset": 0}),
    "int32": lambda: (walk("<i4"), {"scaleoffset": 0}),
    "int32 big-endian": lambda: (walk(">i4"), {"scaleoffset": 0}),
    "int64": lambda: (walk("<i8") * 10**12, {"scaleoffset": 0}),
    "int64 of the whole range": lambda: (
        np.random.default_rng(1).integers(-(2**63), 2**63 - 1, SHAPE, dtype="i8"),
        {"scaleoffset": 0},
    ),
    "int32 of 13 bits": lambda: (walk("<i4") % 8191, {"scaleoffset": 13}),
    "int32 of all its bits": lambda: (walk("<i4"), {"scaleoffset": 32}),
    "int32 all equal": lambda: (np.full(SHAPE, -5, "<i4"), {"scaleoffset": 0}),
    "int32 with fill values": lambda: (
        np.where(walk("<i4") > 20, 99, walk("<i4")),
        {"scaleoffset": 0, "fillvalue": 99},
    ),
    "int64 with fill values": lambda: (
        np.where(walk("<i8") > 20, -(2**40), walk("<i8")),
        {"scaleoffset": 0, "fillvalue": -(2**40)},
    ),
    "float32": lambda: (walk("<f4"), {"scaleoffset": 3}),
    "float32 big-endian": lambda: (walk(">f4"), {"scaleoffset": 2}),
    "float32 beyond all bits": lambda: (walk("<f4") * np.float32(1e30), {"scaleoffset": 2}),
    "float32 with fill values": lambda: (
        np.where(walk("<f4") > 5, np.float32(-1), walk("<f4")),
        {"scaleoffset": 3, "fillvalue": -1.0},
    ),
    "float64": lambda: (walk("<f8"), {"scaleoffset": 6}),
    "float64 big-endian": lambda: (walk(">f8"), {"scaleoffset": 4}),
    "float64, gzip on top": lambda: (walk("<f8"), {"scaleoffset": 4, "compression": "gzip"}),
    "int32, shuffle and gzip on top": lambda: (
        walk("<i4"),
        {"scaleoffset": 0, "compression": "gzip", "shuffle": True},
    ),
    "int32, zstd on top": lambda: (walk("<i4"), {"scaleoffset": 0, **hdf5plugin.Zstd()}),
}


# their numbers need all bits and are stored as they are, which libhdf5 1.14 writes and cannot read
STORED_AS_THEY_ARE = ("int8", "uint16 big-endian", "int64 of the whole range", "float32 beyond all bits")


@pytest.mark.parametrize("name", SCALE_OFFSET)
def test_scale_offset_gives_the_bits_that_libhdf5_gives(file: h5py.File, name: str) -> None:
    values, options = SCALE_OFFSET[name]()
    dataset = file.create_dataset("x", data=values, dtype=values.dtype, chunks=CHUNKS, **options)
    assert 6 in [number for number, _ in filters_of(dataset)]
    if name in STORED_AS_THEY_ARE:
        assert same_bits(decoded(dataset), values)
    if name not in STORED_AS_THEY_ARE or h5py.version.hdf5_version_tuple >= (2,):
        assert same_bits(decoded(dataset), dataset[...])


@pytest.mark.parametrize(
    ("name", "level", "options"),
    [
        ("none", None, {}),
        ("gzip", None, {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
        ("gzip", 9, {"compression": "gzip", "compression_opts": 9, "shuffle": True}),
        ("zstd", None, {**hdf5plugin.Zstd(clevel=3), "shuffle": True}),
        ("zstd", 22, {**hdf5plugin.Zstd(clevel=22), "shuffle": True}),
        ("lz4", None, {**hdf5plugin.LZ4(), "shuffle": True}),
        ("bitshuffle", None, dict(hdf5plugin.Bitshuffle(cname="none"))),
        ("bitshuffle-lz4", None, dict(hdf5plugin.Bitshuffle(cname="lz4"))),
        ("bitshuffle-zstd", 7, dict(hdf5plugin.Bitshuffle(cname="zstd", clevel=7))),
    ],
)
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_creation_filters_are_those_that_the_plugins_store(
    file: h5py.File, name: str, level: int | None, options: dict[str, Any], dtype: str
) -> None:
    dataset = file.create_dataset("x", SHAPE, dtype, chunks=CHUNKS, **options)
    filters = _core.creation_filters(name, level, np.dtype(dtype).itemsize)
    assert [(number, tuple(values)) for number, values in filters] == filters_of(dataset)


@pytest.mark.parametrize(
    ("name", "level", "message"),
    [
        ("gzip", 10, 'level 10 of compression "gzip" is not one of 0 to 9'),
        ("zstd", 0, 'level 0 of compression "zstd" is not one of 1 to 22'),
        ("lz4", 3, 'compression "lz4" has no levels'),
        ("brotli", None, 'no compression "brotli"'),
    ],
)
def test_compression_that_there_is_not_is_refused(name: str, level: int | None, message: str) -> None:
    with pytest.raises(kn.ArgumentError, match=message):
        _core.creation_filters(name, level, 4)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        # not Blosc: its first version cannot be registered if another library (numcodecs, netCDF4) has brought one
        (dict(hdf5plugin.Blosc2()), "blosc2"),
        (dict(hdf5plugin.BZip2()), "bzip2"),
        (dict(hdf5plugin.Zfp(rate=16)), "zfp"),
    ],
)
def test_other_filters_are_refused_by_name(file: h5py.File, options: dict[str, Any], name: str) -> None:
    dataset = file.create_dataset("x", data=walk("<f4"), chunks=CHUNKS, **options)
    with pytest.raises(kn.UnsupportedFormatError, match=rf"HDF5 filter \d+ \({name}\), for which Kinema has no code"):
        decoded(dataset)


@pytest.mark.parametrize("name", [name for name in LOSSLESS if name not in ("none", "shuffle", "bitshuffle")])
def test_damaged_chunks_are_corrupt_or_have_their_size(file: h5py.File, name: str) -> None:
    dataset = file.create_dataset("x", data=walk("<f4"), chunks=CHUNKS, **LOSSLESS[name])
    filters, size = filters_of(dataset), int(np.prod(CHUNKS)) * 4
    _, mask, stored = next(chunks_of(dataset))
    random = np.random.default_rng(5)
    corrupt = 0
    for _ in range(200):
        damaged = bytearray(stored)
        damaged[random.integers(len(damaged))] ^= 1 << random.integers(8)
        try:
            assert len(_core._decode_chunk(bytes(damaged), mask, filters, 4, size)) == size
        except kn.CorruptFileError:
            corrupt += 1
    assert corrupt == 200 or not ("gzip" in name or "fletcher32" in name), "a checksum was not looked at"
    for length in {0, 1, 4, 12, 13, len(stored) // 2, len(stored) - 1}:
        with pytest.raises(kn.CorruptFileError):
            _core._decode_chunk(stored[:length], mask, filters, 4, size)


@pytest.mark.parametrize("name", ["shuffle gzip-6", "zstd", "lz4", "lzf", "bitshuffle-lz4", "bitshuffle-zstd"])
@pytest.mark.parametrize("bytes_more", [-4, 4, 4000, 2**40])
def test_chunks_of_another_size_are_corrupt(file: h5py.File, name: str, bytes_more: int) -> None:
    dataset = file.create_dataset("x", data=walk("<f4"), chunks=CHUNKS, **LOSSLESS[name])
    _, mask, stored = next(chunks_of(dataset))
    with pytest.raises(kn.CorruptFileError):
        _core._decode_chunk(stored, mask, filters_of(dataset), 4, int(np.prod(CHUNKS)) * 4 + bytes_more)


def test_what_cannot_be_encoded_is_refused() -> None:
    values = walk("<f4")
    with pytest.raises(kn.ArgumentError, match="must be contiguous"):
        _core.encode_chunks(values.T, CHUNKS, (), 1)
    with pytest.raises(kn.ArgumentError, match="cannot be cut into chunks of 2"):
        _core.encode_chunks(values, (5, 16), (), 1)
    with pytest.raises(kn.ArgumentError, match="cannot be"):
        _core.encode_chunks(values, (5, 0, 3), (), 1)
    with pytest.raises(kn.ArgumentError, match="Python objects"):
        _core.encode_chunks(np.array([None, 1]), (2,), (), 1)
    with pytest.raises(kn.UnsupportedFormatError, match="reads but does not write"):
        _core.encode_chunks(values, CHUNKS, [(32000, (4, 261, 960))], 2)
    with pytest.raises(kn.ArgumentError, match="deflate level 11"):
        _core.encode_chunks(values, CHUNKS, [(1, (11,))], 2)
