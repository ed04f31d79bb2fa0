"""`Verification`: each rank reads what another rank has written, and compares checksums taken before the write."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import CorruptFileError, Error, from_os
from kinema.parallel.agreement import Agreement
from kinema.parallel.node_memory import nodes_of
from kinema.parallel.placers import Data, bytes_of
from kinema.parallel.rank_file import FileRequest

# bytes per checksum: the resolution to which damage is located
_PIECE = 64 << 10
# shortest run of NULs that counts as bytes that never arrived
_RUN = 8


@dataclass(frozen=True)
class Region:
    """Bytes that a rank has written, and the checksums of their pieces."""

    frame: int
    offset: int
    length: int
    checksums: tuple[int, ...]


class Verification:
    """Data that this rank has written since the last check. Made and used by all ranks.

    `words`: description of the method for users.
    """

    def __init__(self, agreement: Agreement, request: FileRequest) -> None:
        self._agreement, self._request = agreement, request
        self._regions: list[Region] = []
        self._distance, self.words = shift_between_nodes(agreement)

    def add(self, frame: int, offset: int, data: Data) -> None:
        """Adds bytes of a frame that were written."""
        view = bytes_of(data)
        sums = tuple(zlib.crc32(view[begin : begin + _PIECE]) for begin in range(0, len(view), _PIECE))
        self._regions.append(Region(frame, offset, len(view), sums))

    def found(self, path: str) -> Error | None:
        """The error, as this rank finds it, if data are not in the file as written, or cannot be read; collective.

        All ranks have synced the file before; it is at `path` now.
        """
        agreement, regions = self._agreement, self._regions
        self._regions = []
        writer = (agreement.rank + self._distance) % agreement.size
        reader = (agreement.rank - self._distance) % agreement.size
        regions = agreement.comm.sendrecv(regions, reader, source=writer)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            return from_os("cannot verify the file", error, path=self._request.path)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            for region in regions:
                error_here = self._compared(handle, region, writer)
                if error_here is not None:
                    return error_here
        except OSError as error:
            return from_os("cannot verify the file", error, path=self._request.path)
        finally:
            os.close(handle)
        return None

    def _compared(self, handle: int, region: Region, writer: int) -> CorruptFileError | None:
        for number, expected in enumerate(region.checksums):
            begin = region.offset + number * _PIECE
            length = min(_PIECE, region.offset + region.length - begin)
            found = os.pread(handle, length, begin)
            if len(found) == length and zlib.crc32(found) == expected:
                continue
            nuls = _nuls(np.frombuffer(found, np.uint8)) if len(found) == length else None
            byte = begin + (len(found) if len(found) < length else nuls[0] if nuls else 0)
            seen = f"{nuls[1]} NULs" if nuls else "the end of the file" if len(found) < length else "other bytes"
            path, format = self._request.path, self._request.format
            what = (
                f"{path}: {format} frame {region.frame}, byte {byte}: the file is not as it was written, expected what "
                f"rank {writer} wrote from byte {region.offset} on ({region.length} bytes), found {seen}"
            )
            return CorruptFileError(what, path=path, format=format, frame=region.frame, offset=byte)
        return None


def shift_between_nodes(agreement: Agreement) -> tuple[int, str]:
    """The distance to the rank whose bytes each rank reads, and a description of the method for users; collective."""
    nodes = nodes_of(agreement)
    distance = _distance(nodes)
    n_far = int(np.count_nonzero(nodes != np.roll(nodes, -distance)))
    if n_far == agreement.size:
        return distance, "verified: each rank has read what a rank of another node wrote"
    if n_far:
        words = f"verified: {n_far} of {agreement.size} ranks have read what a rank of another node wrote, "
        return distance, words + "the others what one of their own wrote, after its pages were dropped from the cache"
    who = "each rank has read what another wrote" if agreement.size > 1 else "what was written was read"
    return distance, f"verified: {who}, on this node, after its pages were dropped from the cache"


def _distance(nodes: NDArray[np.int64]) -> int:
    """The distance to the rank whose bytes each rank reads: the shortest that leads most ranks to another node."""
    distances = range(1, max(2, len(nodes)))
    return max(distances, key=lambda distance: np.count_nonzero(nodes != np.roll(nodes, -distance))) % len(nodes)


def _nuls(data: NDArray[np.uint8]) -> tuple[int, int] | None:
    """Begin and length of the longest run of NULs, if it is long."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], data == 0, [False]]).astype(np.int8)))
    begins, lengths = edges[::2], edges[1::2] - edges[::2]
    if not len(lengths) or lengths.max() < _RUN:
        return None
    longest = int(np.argmax(lengths))
    return int(begins[longest]), int(lengths[longest])
