"""How the samples of an archive are stored, and what that costs a training loop: layouts by name, advice in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.storage.hdf5.filters import Compression, filters_of
from kinema.storage.hdf5.storage import Layout, Storage, dataset_in_memory

# of chunks of samples, if no number is given: large enough for a request, small enough for samples in random order
_CHUNK_BYTES = 64 << 10
# smaller chunks cost more in the file's index than they hold
_LEAST_CHUNK = 4 << 10
# HDF5 stores the size of a chunk in 32 bits
_LARGEST_CHUNK = (1 << 32) - 1
_WORDS = "contiguous, samples (about 64 KiB of samples in a chunk) or samples:N (N samples in a chunk)"


@dataclass(frozen=True)
class ArrayLayout:
    """Layout of one array in the archive: `storage` has all its rows."""

    name: str
    storage: Storage

    @property
    def row_bytes(self) -> int:
        """Bytes of a sample."""
        return self.storage.row_bytes

    @property
    def chunk_rows(self) -> int | None:
        """Samples in a chunk; None: contiguous."""
        return None if self.storage.chunks is None else self.storage.chunks[0]

    @property
    def is_placed(self) -> bool:
        """Whether each byte has its place in the file before the first is written."""
        return not self.storage.filters

    def decoded_per_useful(self, batch: int, n: int) -> float:
        """Bytes decoded for each byte used, for batches in exact random order."""
        if self.is_placed or self.chunk_rows is None:
            return 1.0
        # chunks that are touched; each drawn sample may be in any of them
        chunks = -(-n // self.chunk_rows)
        touched = chunks * (1.0 - (1.0 - 1.0 / chunks) ** batch)
        return float(touched * min(self.chunk_rows, n) / batch)

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.storage.shape))
        lies = "contiguous" if self.chunk_rows is None else f"chunks of {self.chunk_rows} samples"
        return f"{self.name} {shape} {self.storage.dtype}, {lies}"


def field_layouts(
    fields: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    n: int,
    layout: str | Sequence[int] | None,
    compression: Compression,
) -> tuple[ArrayLayout, ...]:
    """The layout of each of `fields` (shape of a sample, type) with `n` samples.

    `layout=None` is "contiguous", or "samples" if chunks are compressed or have checksums.

    Raises ArgumentError for other names; UnsupportedFormatError for types that HDF5, or its chunks, do not have.
    """
    asked = chunk_samples(layout, compression)
    widest = max(_row_bytes(shape, dtype) for shape, dtype in fields.values())
    return tuple(
        _field_layout(name, shape, dtype, n, asked, compression, is_widest=_row_bytes(shape, dtype) == widest)
        for name, (shape, dtype) in fields.items()
    )


def chunk_samples(layout: str | Sequence[int] | None, compression: Compression) -> int | None:
    """Samples in a chunk; None: contiguous; 0: a good number is chosen. As `field_layouts`."""
    filtered = compression.name is not None or compression.checksum
    chosen = layout if layout is not None else "samples" if filtered else "contiguous"
    if chosen == "contiguous":
        # raises for compression
        Layout("contiguous", compression)
        return None
    if chosen == "samples":
        return 0
    if isinstance(chosen, str):
        word, colon, number = chosen.partition(":")
        if word == "samples" and colon and number.isdecimal() and 1 <= int(number[:30]) < 1 << 62:
            return int(number)
    raise ArgumentError(f"layout is {_WORDS}, found {layout!r}")


def _field_layout(
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    n: int,
    asked: int | None,
    compression: Compression,
    *,
    is_widest: bool,
) -> ArrayLayout:
    if asked is None:
        return ArrayLayout(name, Storage((n, *shape), dtype, early=True))
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise UnsupportedFormatError(
            f"{name} holds {dtype}: other values than integers and floats of 8 bytes or less are read of contiguous "
            "data sets only; give layout='contiguous' without compression, or leave the array out with fields="
        )
    row_bytes = _row_bytes(shape, dtype)
    as_asked = asked and (is_widest or asked * row_bytes >= _LEAST_CHUNK)
    rows = min(asked if as_asked else max(1, _CHUNK_BYTES // row_bytes), n)
    if rows * row_bytes > _LARGEST_CHUNK:
        raise ArgumentError(
            f"{rows} samples of {name} are {rows * row_bytes} bytes, and a chunk of HDF5 has at most {_LARGEST_CHUNK}; "
            "give layout=samples:N with fewer samples, or contiguous"
        )
    filters = compression.filters(dtype.itemsize)
    made = ArrayLayout(name, Storage((n, *shape), dtype, (rows, *shape), filters, early=not filters))
    if filters:
        _check_decodable(made)
    return made


def _check_decodable(field: ArrayLayout) -> None:
    """Raises UnsupportedFormatError for filters that data sets for training do not read."""
    storage = field.storage
    empty = Storage((0, *storage.shape[1:]), storage.dtype, storage.chunks, storage.filters)
    stored = filters_of(dataset_in_memory(empty))
    assert storage.chunks is not None
    why = _core.undecodable(stored, storage.dtype.itemsize, storage.chunks[0] * field.row_bytes)
    if why is not None:
        raise UnsupportedFormatError(f"{field.name} would be stored by a filter that data sets do not read: {why}")


def _row_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return max(1, int(np.prod(shape, dtype=np.object_)) * dtype.itemsize)


def advice(fields: Sequence[ArrayLayout], n: int, batch: int = 256) -> list[str]:
    """Bytes read for each useful byte of the archive in the orders of a training loop, and what to choose."""
    size = min(batch, n)
    bytes_of = sum(one.row_bytes for one in fields)
    random = sum(one.decoded_per_useful(size, n) * one.row_bytes for one in fields) / bytes_of
    lines = [
        f"archive, bytes decoded for each useful byte in batches of {size}: {random:.2f} in exact random order, 1.00 "
        "in windows of whole chunks, 1.00 as stored"
    ]
    if random > 1.1:
        lines.append(
            "order='windowed' decodes each chunk once; samples:1, or contiguous without compression, serves exact "
            "random order"
        )
    elif all(one.is_placed for one in fields):
        lines.append("samples are read in place, in any order")
    return lines
