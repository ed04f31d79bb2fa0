"""Superblock and chunk index of HDF5 files as bytes, as far as appending needs them.

Source of the layouts: HDF5 File Format Specification, version 3.0, superblock 2 (section II.A) and version 1 B-trees of
type 1 (section III.A.1). The checksum is Bob Jenkins' lookup3.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TREE = b"TREE"
# most chunks that are looked up in a data set: each takes a search through an index
_MOST = 256
# signature, type, level, entries used, both neighbours
TREE_HEAD = 24
# 2 K for HDF5's default, K = 32; a file with another K has it in an extension of the superblock
_ENTRIES = 64
_END_OF_FILE, _CHECKSUM = slice(28, 36), slice(44, 48)


@dataclass(frozen=True)
class ChunkEntry:
    """A chunk's entry in a leaf of the index.

    Attributes
    ----------
    address, size : bytes in the file
    content : the entry's bytes: size, filter mask, offsets, address
    place_of_address : where in the node the address stands
    """

    address: int
    size: int
    content: bytes
    place_of_address: int


def node_head(node: bytes) -> tuple[int, int, int] | None:
    """Type, level and number of entries of a B-tree node; None for other bytes."""
    if len(node) < 8 or not node.startswith(TREE):
        return None
    kind, level, used = struct.unpack_from("<BBH", node, 4)
    return kind, level, used


def chunk_entries(node: bytes) -> Iterator[ChunkEntry]:
    """The chunks of a leaf; none for other nodes."""
    head = node_head(node)
    keys = len(node) - TREE_HEAD - 8 * _ENTRIES
    if head is None or head[:2] != (1, 0) or head[2] > _ENTRIES or keys <= 0 or keys % (_ENTRIES + 1):
        return
    key = keys // (_ENTRIES + 1)
    for i in range(head[2]):
        start = TREE_HEAD + i * (key + 8)
        content = node[start : start + key + 8]
        size, address = struct.unpack_from("<I", content)[0], struct.unpack_from("<Q", content, key)[0]
        yield ChunkEntry(address, size, content, start + key)


def with_end_of_file(superblock: bytes, end: int) -> bytes:
    """The 48 bytes of a version 2 superblock, with another end of file."""
    changed = bytearray(superblock[:48])
    changed[_END_OF_FILE] = struct.pack("<Q", end)
    changed[_CHECKSUM] = struct.pack("<I", lookup3(bytes(changed[: _CHECKSUM.start])))
    return bytes(changed)


def lookup3(data: bytes) -> int:
    """The 32-bit hash "lookup3" (hashlittle) of Bob Jenkins (May 2006, public domain), with the seed 0."""
    mask = 0xFFFFFFFF
    x: int
    y: int
    z: int
    a = b = c = (0xDEADBEEF + len(data)) & mask
    start, left = 0, len(data)
    if not left:
        return c

    def rotated(x: int, k: int) -> int:
        return ((x << k) | (x >> (32 - k))) & mask

    while left > 12:
        x, y, z = struct.unpack_from("<III", data, start)
        a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
        for k in ((4, 6, 8), (16, 19, 4)):
            a, c = ((a - c) & mask) ^ rotated(c, k[0]), (c + b) & mask
            b, a = ((b - a) & mask) ^ rotated(a, k[1]), (a + c) & mask
            c, b = ((c - b) & mask) ^ rotated(b, k[2]), (b + a) & mask
        start, left = start + 12, left - 12
    x, y, z = struct.unpack("<III", data[start:].ljust(12, b"\0"))
    a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
    c = ((c ^ b) - rotated(b, 14)) & mask
    a = ((a ^ c) - rotated(c, 11)) & mask
    b = ((b ^ a) - rotated(a, 25)) & mask
    c = ((c ^ b) - rotated(b, 16)) & mask
    a = ((a ^ c) - rotated(c, 4)) & mask
    b = ((b ^ a) - rotated(a, 14)) & mask
    return ((c ^ b) - rotated(b, 24)) & mask


def full_chunks(file: Any) -> list[tuple[int, int]]:
    """(First byte, byte after the last) of full chunks of growing data sets: rows that are added later do not change
    them.

    If there are many full chunks: the last one, and evenly spread ones, which stay the same as the file grows. `file`
    is an `h5py.File`.
    """
    found: list[tuple[int, int]] = []

    def add(_: str, node: Any) -> None:
        if getattr(node, "chunks", None) is not None and node.maxshape[0] is None:
            found.extend(_full_chunks_of(node))

    file.visititems(add)
    return sorted(found)


def _full_chunks_of(dataset: Any) -> Iterator[tuple[int, int]]:
    lengths = dataset.chunks
    across = [-(-n // length) for n, length in zip(dataset.shape[1:], lengths[1:], strict=True)]
    n_full = dataset.shape[0] // lengths[0] * math.prod(across)
    stride = 1 << max(0, -(-n_full // _MOST) - 1).bit_length()
    for number in {*range(0, n_full, stride), max(0, n_full - 1)} if n_full else ():
        place = []
        for n in reversed(across):
            number, at = divmod(number, n)
            place.append(at)
        first = [at * length for at, length in zip((number, *reversed(place)), lengths, strict=True)]
        chunk = dataset.id.get_chunk_info_by_coord(tuple(first))
        if chunk.byte_offset is not None:
            yield int(chunk.byte_offset), int(chunk.byte_offset) + int(chunk.size)
