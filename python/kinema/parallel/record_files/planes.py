"""`PlaneWriter`: encodes atoms of a frame, and writes each of their planes to its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.parallel.atom_records import AtomRecordsLike, FrameLayoutLike
from kinema.parallel.batches import VECTOR_BYTES, VECTORS
from kinema.parallel.placers import WRITEBACK_BYTES
from kinema.parallel.record_files.shared_records import AHEAD, SharedRecords
from kinema.parallel.record_files.stamps import Stamp
from kinema.parallel.write_behind import WriteBehind

# bytes of values per batch, if no size was given: from exchange to encoding they stay in caches
_CACHED = 3 << 19
_NOTHING = np.empty(0, np.uint8)


@dataclass(frozen=True)
class FramePlace:
    """The record of a frame, which begins at byte `offset` of the file."""

    stamp: Stamp
    records: AtomRecordsLike
    layout: FrameLayoutLike
    offset: int

    @property
    def end(self) -> int:
        """The byte after the record."""
        return self.offset + self.layout.bytes


@dataclass(frozen=True)
class AtomRows:
    """Values of some atoms of a frame.

    Attributes
    ----------
    first : the place in the record of the first row
    numbers : atom numbers of the rows, (n,); None: consecutive from `first`
    values : positions, velocities, forces, (n, 3), or None
    longest : the largest number of rows on any rank
    """

    first: int
    numbers: NDArray[np.uint32] | None
    values: list[NDArray[Any] | None]
    longest: int

    def __len__(self) -> int:
        return next(len(one) for one in self.values if one is not None)


class PlaneWriter:
    """One rank's writer. After an error it still takes part in collective writes, and raises the error at the end."""

    def __init__(self, file: SharedRecords) -> None:
        self._file, self.is_collective = file, file.placer.is_collective
        self._buffers: dict[tuple[int, int], NDArray[np.uint8]] = {}
        self._turn = 0

    def batch_atoms(self, records: AtomRecordsLike | None = None) -> int:
        """The largest number of atoms that are encoded and written at once."""
        hints, widths = self._file.request.hints, [72] if records is None else records.widths
        most = hints.batch_bytes // sum(widths)
        if "cb_buffer_size" not in hints.info:
            # but not so small that writeback is left to the final sync
            most = min(most, max(_CACHED // (VECTORS * VECTOR_BYTES), WRITEBACK_BYTES // min(widths)))
        return max(1, most)

    def write(self, frames: Iterable[tuple[FramePlace, AtomRows]]) -> None:
        """Writes this rank's rows of frames, in batches; equally many on all ranks if they write together."""
        error: BaseException | None = None
        for place, rows in frames:
            batch = self.batch_atoms(place.records)
            for begin in range(0, rows.longest if self.is_collective else len(rows), batch):
                error = self.write_rows(place, rows, min(begin, len(rows)), min(begin + batch, len(rows)), error)
        if error is not None:
            raise error

    def write_rows(
        self,
        place: FramePlace,
        rows: AtomRows,
        start: int,
        stop: int,
        error: BaseException | None,
        behind: WriteBehind | None = None,
    ) -> BaseException | None:
        """Encodes and writes some rows. After an error it writes nothing, but still joins collective writes.

        `behind`: writes them in a thread, while the next rows are made.
        """
        widths = place.records.widths
        out = [_NOTHING] * len(widths)
        if error is None and stop > start:
            try:
                with self._file.agreement.timings.measure("encode"):
                    out = self._room_for(stop - start, widths, 1 + AHEAD if behind is not None else 1)
                    place.records.encode(rows.values, start, stop, rows.numbers, rows.first, out)
            except BaseException as raised:
                error, out = raised, [_NOTHING] * len(widths)
        planes = zip(out, place.layout.planes, strict=True)
        pieces = [(place.offset + offset + (rows.first + start) * width, data) for data, (offset, width) in planes]
        if not self.is_collective:
            pieces = [piece for piece in pieces if len(piece[1])]
        try:
            if behind is None or not pieces:
                self._put_all(pieces, place.stamp.number)
            else:
                behind.add(lambda: self._put_all(pieces, place.stamp.number))
        except BaseException as raised:
            error = error or raised
        return error

    def _put_all(self, pieces: list[tuple[int, NDArray[np.uint8]]], number: int) -> None:
        """Writes all pieces of a frame even if one fails, because others may wait; then raises the first error."""
        error: BaseException | None = None
        for offset, data in pieces:
            try:
                self._file.put(number, offset, data)
            except BaseException as raised:
                error = error or raised
        if error is not None:
            raise error

    def _room_for(self, n_atoms: int, widths: list[int], n_turns: int) -> list[NDArray[np.uint8]]:
        """Buffers that are used in turn: the previous ones may still be waiting to be written."""
        self._turn = (self._turn + 1) % n_turns
        found = []
        for plane, width in enumerate(widths):
            key, n_bytes = (self._turn, plane), n_atoms * width
            if key not in self._buffers or len(self._buffers[key]) < n_bytes:
                self._buffers[key] = np.empty(n_bytes, np.uint8)
            found.append(self._buffers[key][:n_bytes])
        return found
