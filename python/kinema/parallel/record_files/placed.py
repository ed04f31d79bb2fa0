"""`PlacedFile`: records in which each atom has a fixed place; each rank writes some atoms of each, or whole ones."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, Error
from kinema.formats.all_formats import format_named
from kinema.formats.record_writer import vector_names
from kinema.model.frame import VECTOR_FIELDS, float_name
from kinema.parallel.agreement import Agreement
from kinema.parallel.atom_records import AtomRecordsLike, FrameLayoutLike
from kinema.parallel.batches import VECTOR_BYTES, VECTORS
from kinema.parallel.exchange import Exchange, Owners, Route, even_owners
from kinema.parallel.placers import WRITEBACK_BYTES, FilePlacer
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.record_files.base import RecordsFile, Stamp
from kinema.parallel.write_behind import WriteBehind

__all__ = ["PlacedFile"]

# a rank that writes less of a frame costs more than it does
_LEAST_SHARE = 64 << 10
# batches of a frame that a thread writes while the next one is made
_AHEAD = 2
# bytes of the values of a batch, where nobody has said another size: between exchange and encoding they stay in caches
_CACHED = 3 << 19
_NOTHING = np.empty(0, np.uint8)


@dataclass(frozen=True)
class FramePlace:
    """The record of a frame: `offset` is the byte of the file at which it begins."""

    stamp: Stamp
    records: AtomRecordsLike
    layout: FrameLayoutLike
    offset: int


@dataclass(frozen=True)
class AtomRows:
    """Values of some atoms of a frame.

    Attributes
    ----------
    first : the place in the record of the first row
    numbers : of the atoms of the rows, (n,); None: first and on
    values : positions, velocities, forces, (n, 3), or None
    longest : the most rows that a rank has
    """

    first: int
    numbers: NDArray[np.uint32] | None
    values: list[NDArray[Any] | None]
    longest: int

    def __len__(self) -> int:
        return next(len(one) for one in self.values if one is not None)


class PlacedFile(RecordsFile):
    """The strategies "direct", "mpiio" and "mpiio-collective", and "gather" of records of a fixed size.

    Bytes of atoms are written first; when all ranks have written theirs rank 0 writes what makes the record whole.
    """

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._format = format_named(request.format)
        self._exchange = Exchange(agreement, self.state.n_atoms)
        self._asked = vector_names(request.options.get("fields"))
        # by fields: a TRR file has records of different ones
        self._made: dict[tuple[str, ...], AtomRecordsLike] = {}
        self._wide: set[str] = set()
        self._buffers: dict[tuple[int, int], NDArray[np.uint8]] = {}
        self._turn = 0
        # what the second frame says of the steps and times of all, and where
        self._times: tuple[int, bytes] | None = None
        # frames that are taken and not committed
        self._waiting: deque[tuple[FramePlace, AtomRows]] = deque()
        self._n_done = 0
        self._room = request.buffer_frames or (len(self.gathering) if request.strategy == "gather" else 0)
        self._behind = WriteBehind(self._room or _AHEAD) if request.strategy == "direct" else None

    @property
    def _streams(self) -> bool:
        """Whether a frame is written while it is exchanged."""
        return self.request.order == "sorted" and not self._room

    # frames

    def take(self, frame: RankFrame) -> None:
        """As `RankFile.take`."""
        stamp = self.next_stamp(frame)
        fields = self._fields_of(frame, stamp.number)
        records = self._records(fields, frame, stamp)
        place = self._placed(stamp, records)
        if self._room and len(self._waiting) >= self._room:
            self._write_waiting(self._room - 1)
        error = self.announce(place.offset)
        values = [frame.vectors[name] if name in fields else None for name in VECTOR_FIELDS]
        try:
            batch = self._batch_atoms(place.records if self._streams else None)
            route = self._exchange.route(frame.ids, self._owners(place), batch, counts=frame.counts, error=error)
        except ArgumentError:
            self.cut(self.end)
            raise
        except Error:
            # of the announcement
            self.break_off()
            raise
        except BaseException:
            self.is_broken = True
            raise
        if stamp.number < 2:
            self._times = records.time_by(*self.first_stamps(stamp)) or self._times
            place = self._placed(stamp, records)
        if self._streams:
            self._finish(place, self._stream(place, route, values))
        else:
            rows = self._as_given(frame, values) if self.request.order == "given" else self._in_hand(route, values)
            if self._room:
                self._keep(place, rows)
            else:
                self._finish(place, self._write(place, rows))
        self._made.setdefault(fields, records)
        self._note_losses(fields, frame, records)
        self.took(stamp, place.offset + place.layout.bytes, fields)
        self.note_stamp(self._stamp_losses(records), stamp)

    def flush_records(self) -> None:
        """As `RecordsFile.flush_records`."""
        self._write_waiting(0)

    def marker(self, n_frames: int) -> tuple[int, bytes] | None:
        """As `RecordsFile.marker`."""
        return next(iter(self._made.values())).marker(n_frames) if self._made else None

    def finish_losses(self) -> None:
        """As `RecordsFile.finish_losses`."""
        self.note_first(self._stamp_losses(next(iter(self._made.values()))))

    def abort(self) -> None:
        """As `RankFile.abort`."""
        if self._behind is not None:
            self._behind.close()
        super().abort()

    def close(self) -> None:
        """As `RankFile.close`."""
        super().close()
        if self._behind is not None:
            self._behind.close()

    # records

    def _fields_of(self, frame: RankFrame, number: int) -> tuple[str, ...]:
        """What is written of a frame; ArgumentError where it lacks what the file holds, the same on all ranks."""
        given = [name for name in VECTOR_FIELDS if name in frame.vectors]
        if self._format.fields_of_each_frame:
            fields = tuple(name for name in given if self._asked is None or name in self._asked)
            if not fields:
                raise ArgumentError(f"frame {number} has none of {', '.join(self._asked or ())}, expected one at least")
            return fields
        held = self.state.fields or self.opened.fields or self._asked or self._format.usual_fields(given)
        missing = [name for name in held if name not in given]
        if missing:
            path = self.request.path
            what = f"the frame lacks {', '.join(missing)}, which the file holds"
            raise ArgumentError(f"{path}: {self.request.format} frame {number}: {what}", path=path, frame=number)
        return tuple(name for name in VECTOR_FIELDS if name in held)

    def _records(self, fields: tuple[str, ...], frame: RankFrame, stamp: Stamp) -> AtomRecordsLike:
        """What makes the records of these fields; of the first frame, or one with other fields, it is made."""
        records = self._made.get(fields)
        if records is None:
            records = self.agreement.together(lambda: self._new_records(fields, frame, stamp))
        return records

    def _new_records(self, fields: tuple[str, ...], frame: RankFrame, stamp: Stamp) -> AtomRecordsLike:
        options, opened = self.request.options, self.opened
        cell = stamp.cell if opened.cell is None else opened.cell
        dtype, title = options.get("dtype"), options.get("title")
        dtype = opened.dtype if dtype is None else float_name(dtype)
        wide = [name for name, values in frame.vectors.items() if values.dtype == np.float64 and name in fields]
        known = {
            "fields": fields,
            "wide": wide,
            "title": title,
            "dtype": dtype if self._format.wide_records else None,
            "kinds": opened.kinds,
            "codes": self.codes,
        }
        if opened.trajectory is not None and not self._made:
            resumed = _core.AtomRecords.resume(opened.trajectory.core, **known)
            if resumed is not None:
                return resumed
        cell = cell if cell.any() else None
        return _core.AtomRecords(self.request.format, self.state.n_atoms, cell=cell, **known)

    def _note_losses(self, fields: tuple[str, ...], frame: RankFrame, records: AtomRecordsLike) -> None:
        left_out = [name for name in VECTOR_FIELDS if name in frame.vectors and name not in fields]
        self.lose(f"{name} are not written: the file holds {', '.join(fields)}" for name in left_out)
        if self.state.n_frames == 0:
            self.lose(records.losses)
        wide = {name for name in fields if frame.vectors[name].dtype == np.float64}
        if wide - self._wide and self.state.n_frames:
            self.lose(self._new_records(fields, frame, self.next_stamp(frame)).losses)
        self._wide |= wide

    @staticmethod
    def _stamp_losses(records: AtomRecordsLike) -> Any:
        return lambda stamp: records.stamp_losses(stamp.number, stamp.step, stamp.time, stamp.cell)

    # values

    def _owners(self, place: FramePlace) -> Owners:
        """Who writes which atoms of a frame."""
        n_atoms, size = self.state.n_atoms, self.agreement.size
        if self.request.order == "given":
            # who looks whether each atom is there
            return even_owners(n_atoms, size, size)
        if self.request.strategy == "gather":
            return Owners.one(self.gathering[place.stamp.number % len(self.gathering)], n_atoms)
        most = max(1, place.layout.bytes // _LEAST_SHARE)
        return even_owners(n_atoms, size, self.request.hints.writers or min(size, most))

    def _placed(self, stamp: Stamp, records: AtomRecordsLike) -> FramePlace:
        offset = self.end if stamp.number else len(records.head)
        return FramePlace(stamp, records, records.frame(stamp.number, stamp.step, stamp.time, stamp.cell), offset)

    def _finish(self, place: FramePlace, error: BaseException | None) -> None:
        """The frame is written, or has failed on this rank."""
        self.check(error)
        self._commit([place])

    def _as_given(self, frame: RankFrame, values: list[NDArray[Any] | None]) -> AtomRows:
        """The atoms of this rank, as they are: behind those of the ranks before it."""
        numbers = frame.ids.astype(np.uint32)
        if self._room:
            values = [None if one is None else one.copy() for one in values]
        counts = frame.counts
        return AtomRows(int(counts[: self.agreement.rank].sum()), numbers, values, int(counts.max()))

    def _in_hand(self, route: Route, values: list[NDArray[Any] | None]) -> AtomRows:
        """All values that this rank writes of the frame."""
        own = route.owners.of(self.agreement.rank)
        whole = [None if one is None else np.empty((len(own), 3), one.dtype) for one in values]
        for batch in route.batches():
            rows = slice(batch.atoms.start - own.start, batch.atoms.stop - own.start)
            given = [one for one in values if one is not None]
            batch.all_values(given, [one[rows] for one in whole if one is not None])
        return AtomRows(own.start, None, whole, route.owners.longest)

    def _stream(self, place: FramePlace, route: Route, values: list[NDArray[Any] | None]) -> BaseException | None:
        """Exchanges and writes the frame batch by batch, so that no rank has more than a batch of what others give.

        Of a frame of several batches a thread writes those before, where that is not for all ranks together.
        """
        error: BaseException | None = None
        behind = self._behind if route.n_batches > 1 else None
        given = [one for one in values if one is not None]
        for batch in route.batches():
            found = iter(batch.all_values(given, [None] * len(given)))
            arrays = [None if one is None else next(found) for one in values]
            rows = AtomRows(batch.atoms.start, None, arrays, len(batch.atoms))
            error = self._write_rows(place, rows, 0, len(rows), error, behind)
        if behind is not None:
            try:
                behind.wait()
            except BaseException as raised:
                error = error or raised
        return error

    def _batch_atoms(self, records: AtomRecordsLike | None = None) -> int:
        hints, widths = self.request.hints, [72] if records is None else records.widths
        most = hints.batch_bytes // sum(widths)
        if "cb_buffer_size" not in hints.info:
            # but no writes that would be left to the sync at the end
            most = min(most, max(_CACHED // (VECTORS * VECTOR_BYTES), WRITEBACK_BYTES // min(widths)))
        return max(1, most)

    # bytes

    def _write(self, place: FramePlace, rows: AtomRows) -> BaseException | None:
        """Writes what this rank has of a frame, in batches; as many on all ranks where they write together."""
        error: BaseException | None = None
        batch = self._batch_atoms(place.records)
        for begin in range(0, rows.longest if self.placer.is_collective else len(rows), batch):
            error = self._write_rows(place, rows, min(begin, len(rows)), min(begin + batch, len(rows)), error)
        return error

    def _write_rows(
        self,
        place: FramePlace,
        rows: AtomRows,
        start: int,
        stop: int,
        error: BaseException | None,
        behind: WriteBehind | None = None,
    ) -> BaseException | None:
        """Encodes and writes some rows; after an error nothing, but together with the others where they wait for it.

        `behind`: what writes them, while the next ones are made.
        """
        widths = place.records.widths
        out = [_NOTHING] * len(widths)
        if error is None and stop > start:
            try:
                with self.agreement.timings.of("encode"):
                    out = self._room_for(stop - start, widths, 1 + _AHEAD if behind is not None else 1)
                    place.records.encode(rows.values, start, stop, rows.numbers, rows.first, out)
            except BaseException as raised:
                error, out = raised, [_NOTHING] * len(widths)
        planes = zip(out, place.layout.planes, strict=True)
        pieces = [(place.offset + offset + (rows.first + start) * width, data) for data, (offset, width) in planes]
        if not self.placer.is_collective:
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
        """Writes bytes of a frame, all of them also where one fails, others may wait; then raises the first error."""
        error: BaseException | None = None
        for offset, data in pieces:
            try:
                self.put(offset, data, number)
            except BaseException as raised:
                error = error or raised
        if error is not None:
            raise error

    def _room_for(self, n_atoms: int, widths: list[int], n_turns: int) -> list[NDArray[np.uint8]]:
        """Buffers that are used again, after as many others as are written meanwhile."""
        self._turn = (self._turn + 1) % n_turns
        found = []
        for plane, width in enumerate(widths):
            key, n_bytes = (self._turn, plane), n_atoms * width
            if key not in self._buffers or len(self._buffers[key]) < n_bytes:
                self._buffers[key] = np.empty(n_bytes, np.uint8)
            found.append(self._buffers[key][:n_bytes])
        return found

    # commits

    def _keep(self, place: FramePlace, rows: AtomRows) -> None:
        """Takes a frame that is written later, or in a thread."""
        self._waiting.append((place, rows))
        if self._behind is None:
            return
        error: BaseException | None = None
        try:
            self._behind.add(lambda: self._write_or_raise(place, rows))
        except BaseException as raised:
            error = raised
        self._commit_done(error)

    def _write_or_raise(self, place: FramePlace, rows: AtomRows) -> None:
        error = self._write(place, rows)
        if error is not None:
            raise error

    def _write_waiting(self, most_left: int) -> None:
        """Writes and commits frames that were kept until not more than so many are left."""
        if len(self._waiting) <= most_left:
            return
        error: BaseException | None = None
        if self._behind is None:
            for place, rows in self._waiting:
                # all of them, as other ranks may wait in a collective call
                found = self._write(place, rows)
                error = error or found
            self.check(error)
            self._commit([place for place, _ in self._waiting])
            self._waiting.clear()
            return
        try:
            self._behind.wait(most_left)
        except BaseException as raised:
            error = raised
        self._commit_done(error)

    def _commit_done(self, error: BaseException | None) -> None:
        """Commits the frames that the threads of all ranks have written."""
        assert self._behind is not None
        state = np.array([error is not None, self._behind.n_done], np.int64)
        rows = self.agreement.gathered(state)
        if rows[:, 0].any():
            self.break_off()
            self.agreement.fail(int(np.argmax(rows[:, 0])), error)
        done = int(rows[:, 1].min()) - self._n_done
        if done:
            self._n_done += done
            self._commit([self._waiting.popleft()[0] for _ in range(done)])

    def break_off(self) -> None:
        """As `RecordsFile.break_off`."""
        if self._behind is not None:
            # a thread that still writes would do so after the cut
            self._behind.close()
            self.agreement.failed(None)
        super().break_off()

    def _commit(self, places: list[FramePlace]) -> None:
        """Has rank 0 write what makes these records whole, the first bytes of each last."""

        def write(placer: FilePlacer) -> None:
            for place in places:
                self._write_pieces(placer, place)

        last = places[-1]
        self.commit_on_root(write, last.stamp.number + 1, last.offset + last.layout.bytes)

    def _write_pieces(self, placer: FilePlacer, place: FramePlace) -> None:
        number = place.stamp.number
        if number == 0:
            placer.write_at(0, place.records.head)
        elif number == 1:
            # what it says of the steps and times of all; the count is among these bytes in some formats
            for one in (self._times, place.records.marker(self.state.n_flushed)):
                if self._times is not None and one is not None:
                    placer.write_at(*one)
        for offset, piece in reversed(place.layout.pieces):
            placer.write_at(place.offset + offset, piece)
            self.wrote(number, place.offset + offset, piece)
