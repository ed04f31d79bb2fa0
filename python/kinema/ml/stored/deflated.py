"""Samples of deflated members of `.npz` archives: decompressed from the beginning, and kept if they are small.

The checksum of a member is verified each time that it is decompressed.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import CorruptFileError
from kinema.base.input_files import open_regular
from kinema.cache.file_objects import open as open_cached
from kinema.cache.node_cache import NodeCache
from kinema.ml.stored.samples import Deflated, SampleFile

# bytes that zlib is given at a time: it copies what it does not take, so these usually give less than a piece
_STORED = 256 << 10
# maximum that zlib returns at a time
_PIECE = 1 << 20


class DeflatedMembers:
    """Reads rows of deflated members. Members that fit are kept decompressed, at most `memory` bytes in all.

    Other members are decompressed as a stream for each batch, and only the wanted rows are copied.
    """

    def __init__(self, memory: int, node_cache: NodeCache | None = None) -> None:
        self._memory, self._node_cache = memory, node_cache
        self._kept: OrderedDict[tuple[str, str], NDArray[np.uint8]] = OrderedDict()
        self._lock = threading.Lock()
        self.decompressed = 0
        """Number of members decompressed so far."""

    def is_kept(self, member: SampleFile) -> bool:
        """Whether the samples of a member are in memory."""
        return (member.path, member.name) in self._kept

    def read(
        self, member: SampleFile, rows: NDArray[np.int64], out: NDArray[np.uint8], places: NDArray[np.intp]
    ) -> None:
        """Reads `rows`, in any order, into the rows `places` of `out`, (samples, bytes of a sample)."""
        key, size = (member.path, member.name), member.rows * out.shape[1]
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        if kept is None and size <= self._memory:
            kept = np.empty((member.rows, out.shape[1]), np.uint8)
            everything = np.arange(member.rows)
            self._stream(member, everything, kept, everything)
            with self._lock:
                self._kept[key] = kept
                while sum(array.nbytes for array in self._kept.values()) > self._memory:
                    self._kept.popitem(last=False)
        if kept is not None:
            out[places] = kept[rows]
        else:
            self._stream(member, rows, out, places)

    def _stream(
        self, member: SampleFile, rows: NDArray[np.int64], out: NDArray[np.uint8], places: NDArray[np.intp]
    ) -> None:
        place, row_bytes = member.place, out.shape[1]
        assert isinstance(place, Deflated)
        order = np.argsort(rows, kind="stable")
        wanted, places = rows[order], places[order]
        done = 0  # decompressed bytes so far, the header included
        rest = np.zeros(0, np.uint8)
        for piece in inflated(member, self._node_cache):
            first = done - len(rest)
            done += len(piece)
            rest = np.concatenate([rest, np.frombuffer(piece, np.uint8)])
            # whole rows of what is there
            begin = max(0, -(-(first - place.header) // row_bytes))
            end = min(member.rows, max(0, (done - place.header) // row_bytes))
            if end > begin:
                low, high = np.searchsorted(wanted, [begin, end])
                skipped = place.header + begin * row_bytes - first
                there = rest[skipped : skipped + (end - begin) * row_bytes].reshape(end - begin, row_bytes)
                out[places[low:high]] = there[wanted[low:high] - begin]
                rest = rest[skipped + (end - begin) * row_bytes :]
        self.decompressed += 1


def inflated(member: SampleFile, node_cache: NodeCache | None = None) -> Iterator[bytes]:
    """The bytes of a deflated member, including its header, in pieces; the GIL is released while each is decompressed.

    Raises CorruptFileError with path and byte if it cannot be decompressed, and at the end if the member has fewer
    bytes than its samples, or another checksum.
    """
    place = member.place
    assert isinstance(place, Deflated)
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    done = checksum = 0
    path = member.path
    with open_regular(path, "samples") if node_cache is None else open_cached(path, node_cache) as file:
        file.seek(place.start)
        left = place.stored
        while not inflate.eof:
            stored = inflate.unconsumed_tail or file.read(min(_STORED, left))
            left -= 0 if inflate.unconsumed_tail else len(stored)
            try:
                piece = inflate.decompress(stored, _PIECE)
            except zlib.error as error:
                raise _damaged(member, place, str(error)) from None
            if not piece and not stored:
                raise _damaged(member, place, "it ends early")
            checksum = zlib.crc32(piece, checksum)
            done += len(piece)
            yield piece
    needed = place.header + member.rows * member.row_bytes
    if done < needed:
        raise _damaged(member, place, f"it has {done} bytes, {needed} are needed")
    if checksum != place.checksum:
        raise _damaged(member, place, f"checksum, expected {place.checksum:08x}, found {checksum:08x}")


def _damaged(member: SampleFile, place: Deflated, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"byte {place.start}: member {member.name} cannot be decompressed: {why}", at=member.path, offset=place.start
    )
