"""`PlacedRecords`: records with a fixed place for each atom; each rank writes some atoms of each, or whole records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, Error
from kinema.model.frame import VECTOR_FIELDS
from kinema.parallel.atom_records import AtomRecordsLike
from kinema.parallel.exchange import Exchange, Owners, Route, even_owners
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.record_files.field_records import FieldRecords, MakeRecords
from kinema.parallel.record_files.planes import AtomRows, FramePlace, PlaneWriter
from kinema.parallel.record_files.shared_records import SharedRecords
from kinema.parallel.record_files.stamps import Stamp

# if a rank writes less of a frame, the overhead exceeds the gain
_LEAST_SHARE = 64 << 10


class PlacedRecords:
    """The strategies "direct", "mpiio" and "mpiio-collective", and "gather" for records of a fixed size.

    Bytes of atoms are written first; after all ranks have written theirs, rank 0 completes the record.

    Parameters
    ----------
    file, make : as in `FieldRecords`
    """

    def __init__(self, file: SharedRecords, make: MakeRecords | None = None) -> None:
        request = file.request
        self._file, self._agreement, self._request = file, file.agreement, request
        self._exchange = Exchange(file.agreement, file.state.n_atoms)
        self._records, self._planes = FieldRecords(file, make), PlaneWriter(file)
        # offset and bytes that the second frame adds about the steps and times of all frames
        self._times: tuple[int, bytes] | None = None
        # frames that were taken but not committed
        self._waiting: deque[tuple[FramePlace, AtomRows]] = deque()
        self._n_done = 0
        self._room = request.buffer_frames or (len(file.gathering) if request.strategy == "gather" else 0)
        self._sorts = request.order == "sorted"
        # whether a frame is written during its exchange
        self._streams = self._sorts and not self._room

    def rows(self, frame: RankFrame) -> None:
        """As `RecordStrategy.rows`."""
        file = self._file
        stamp = file.stamps.next(frame, file.state.n_frames)
        fields = self._records.fields_of(frame, stamp.number)
        records = self._records.of(fields, frame, stamp)
        place = self._placed(stamp, records)
        if self._room:
            self._write_waiting(self._room - 1)
        error = file.announce(place.offset)
        try:
            batch = self._planes.batch_atoms(records if self._streams else None)
            route = self._exchange.route(frame.ids, self._owners(place), batch, counts=frame.counts, error=error)
        except ArgumentError:
            file.cut(file.end)
            raise
        except Error:
            # the error of the announcement
            file.break_off()
            raise
        except BaseException:
            file.state.is_broken = True
            raise
        if stamp.number < 2:
            self._times = records.time_by(*file.stamps.first_two(stamp)) or self._times
            place = self._placed(stamp, records)
        values = [frame.vectors[name] if name in fields else None for name in VECTOR_FIELDS]
        if self._streams:
            file.check(self._stream(place, route, values))
            self._commit([place])
        else:
            self._keep(place, self._exchanged_rows(route, values) if self._sorts else self._as_given(frame, values))
        self._records.took(fields, frame, stamp, records)
        file.took(stamp, place.end, fields)
        file.losses.of_stamp(stamp, lambda one: records.stamp_losses(one.number, one.step, one.time, one.cell))

    def commit(self) -> None:
        """As `RecordStrategy.commit`."""
        self._write_waiting(0)

    # values

    def _owners(self, place: FramePlace) -> Owners:
        """The ranks that write the atoms of a frame."""
        n_atoms, size, request = self._file.state.n_atoms, self._agreement.size, self._request
        if not self._sorts:
            # these ranks only check that each atom is there
            return even_owners(n_atoms, size, size)
        if request.strategy == "gather":
            gathering = self._file.gathering
            return Owners.one(gathering[place.stamp.number % len(gathering)], n_atoms)
        most = max(1, place.layout.bytes // _LEAST_SHARE)
        return even_owners(n_atoms, size, request.hints.writers or min(size, most))

    def _placed(self, stamp: Stamp, records: AtomRecordsLike) -> FramePlace:
        offset = self._file.end if stamp.number else len(records.head)
        return FramePlace(stamp, records, records.frame(stamp.number, stamp.step, stamp.time, stamp.cell), offset)

    def _as_given(self, frame: RankFrame, values: list[NDArray[Any] | None]) -> AtomRows:
        """The atoms of this rank in the given order, after the atoms of the ranks before it."""
        numbers = frame.ids.astype(np.uint32)
        if self._room:
            values = [None if one is None else one.copy() for one in values]
        counts = frame.counts
        return AtomRows(int(counts[: self._agreement.rank].sum()), numbers, values, int(counts.max()))

    def _exchanged_rows(self, route: Route, values: list[NDArray[Any] | None]) -> AtomRows:
        """All values of the frame that this rank writes."""
        own = route.owners.rank_atoms(self._agreement.rank)
        whole = [None if one is None else np.empty((len(own), 3), one.dtype) for one in values]
        for batch in route.batches():
            rows = slice(batch.atoms.start - own.start, batch.atoms.stop - own.start)
            given = [one for one in values if one is not None]
            batch.all_values(given, [one[rows] for one in whole if one is not None])
        return AtomRows(own.start, None, whole, route.owners.longest)

    def _stream(self, place: FramePlace, route: Route, values: list[NDArray[Any] | None]) -> BaseException | None:
        """Exchanges and writes the frame batch by batch, so that no rank holds more than a batch of others' values.

        If a frame has several batches, a thread writes the previous ones, unless all ranks must write together.
        """
        error: BaseException | None = None
        behind = self._file.behind if route.n_batches > 1 else None
        given = [one for one in values if one is not None]
        for batch in route.batches():
            found = iter(batch.all_values(given, [None] * len(given)))
            arrays = [None if one is None else next(found) for one in values]
            rows = AtomRows(batch.atoms.start, None, arrays, len(batch.atoms))
            error = self._planes.write_rows(place, rows, 0, len(rows), error, behind)
        if behind is not None:
            try:
                behind.wait()
            except BaseException as raised:
                error = error or raised
        return error

    # commits

    def _keep(self, place: FramePlace, rows: AtomRows) -> None:
        """Takes a frame, which is written at once, later, or in a thread."""
        self._waiting.append((place, rows))
        behind = self._file.behind
        if not self._room:
            self._write_waiting(0)
        elif behind is not None:
            self._commit_done(lambda: behind.add(lambda: self._planes.write([(place, rows)])))

    def _write_waiting(self, most_left: int) -> None:
        """Writes and commits kept frames until at most `most_left` are left."""
        if len(self._waiting) <= most_left:
            return
        behind = self._file.behind if self._room else None
        if behind is not None:
            self._commit_done(lambda: behind.wait(most_left))
            return
        self._file.checked(lambda: self._planes.write(self._waiting))
        self._commit([place for place, _ in self._waiting])
        self._waiting.clear()

    def _commit_done(self, call: Callable[[], None]) -> None:
        """Makes a call on the thread, and commits the frames that the threads of all ranks have written."""
        behind = self._file.behind
        error: BaseException | None = None
        assert behind is not None
        try:
            call()
        except BaseException as raised:
            error = raised
        done = int(self._file.check(error, behind.n_done).min()) - self._n_done
        if done:
            self._n_done += done
            self._commit([self._waiting.popleft()[0] for _ in range(done)])

    def _commit(self, places: list[FramePlace]) -> None:
        """Lets rank 0 complete these records; the first bytes of each are written last."""
        self._file.checked(lambda: self._make_whole(places))
        self._file.committed(places[-1].stamp.number + 1, places[-1].end)

    def _make_whole(self, places: list[FramePlace]) -> None:
        if not self._agreement.is_root:
            return
        put = self._file.put_on_root
        with self._agreement.timings.measure("write"):
            for place in places:
                number = place.stamp.number
                if number == 0:
                    put(None, 0, place.records.head)
                elif number == 1 and self._times is not None:
                    # steps and times of all frames; in some formats the count is among these bytes
                    for one in (self._times, place.records.marker(self._file.state.n_flushed)):
                        if one is not None:
                            put(None, *one)
                for offset, piece in reversed(place.layout.pieces):
                    put(number, place.offset + offset, piece)
