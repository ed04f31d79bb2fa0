"""`GatheredRecords`: frames of different sizes (XTC); one rank gathers, encodes and writes each frame."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.formats.record_writer import vector_names
from kinema.model.frame import VECTOR_FIELDS
from kinema.parallel.exchange import Exchange, Owners
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.record_files.shared_records import UNFINISHED, SharedRecords
from kinema.parallel.record_files.stamps import Stamp
from kinema.parallel.serial import whole_vectors

FIELDS = ("positions",)


@dataclass
class GatheredFrame:
    """A frame on the rank that writes it; the other ranks have only its stamp.

    `positions`: (n_atoms, 3), or None.
    `losses`: losses of the frame, and whether they concern its step, time or cell.
    """

    stamp: Stamp
    positions: NDArray[Any] | None
    data: bytes = b""
    losses: list[tuple[str, bool]] = field(default_factory=list)


class GatheredRecords:
    """The strategy "gather" for formats whose records differ in size: of A writers, writer k mod A writes frame k.

    As many frames as there are writers (or `buffer_frames`, if larger) are encoded together; their places follow from
    their sizes. The first bytes of the first frame are written last, which commits all of them.
    """

    def __init__(self, file: SharedRecords) -> None:
        self._file, self._agreement, request = file, file.agreement, file.request
        self._exchange = Exchange(file.agreement, file.state.n_atoms)
        self._room = max(len(file.gathering), request.buffer_frames or 0)
        self._waiting: list[GatheredFrame] = []
        self._asked = vector_names(request.options.get("fields"))
        self._named: set[str] = set()
        precision = request.options.get("precision")
        self._precision = file.opened.precision if precision is None else float(precision)

    def rows(self, frame: RankFrame) -> None:
        """As `RecordStrategy.rows`."""
        file = self._file
        stamp = file.stamps.next(frame, file.state.n_frames)
        self._check_fields(frame, stamp.number)
        owners = Owners.one(file.gathering[stamp.number % len(file.gathering)], file.state.n_atoms)
        given = replace(frame, vectors={FIELDS[0]: frame.vectors[FIELDS[0]]})
        whole = whole_vectors(self._exchange, owners, given, file.request.hints.batch_bytes)
        is_mine = len(owners.rank_atoms(self._agreement.rank)) > 0
        self._waiting.append(GatheredFrame(stamp, whole[FIELDS[0]] if is_mine else None))
        left_out = [name for name in VECTOR_FIELDS if name in frame.vectors and name not in FIELDS]
        file.losses.lose(f"{name} are not written: the file holds {', '.join(FIELDS)}" for name in left_out)
        file.took(stamp, file.end, FIELDS)
        if len(self._waiting) >= self._room:
            self.commit()

    def commit(self) -> None:
        """As `RecordStrategy.commit`."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        error = self._file.announce(self._file.end)
        failed, refused = self._encode(waiting)
        sizes = [len(one.data) for one in waiting]
        rows = self._agreement.gathered(np.array([len(waiting) if failed is None else failed, *sizes], np.int64))
        self._share_losses(waiting)
        self._file.check(error)
        n_sound = int(rows[:, 0].min())
        if n_sound:
            self._write(waiting[:n_sound], rows[:, 1:].sum(axis=0)[:n_sound])
        if n_sound < len(waiting):
            self._end_at(waiting[n_sound].stamp, refused, failed == n_sound)

    def _check_fields(self, frame: RankFrame, number: int) -> None:
        path, format = self._file.request.path, self._file.request.format
        if self._asked is not None and tuple(self._asked) != FIELDS:
            raise ArgumentError(f"{format} holds {', '.join(FIELDS)}, found fields={self._asked}")
        if FIELDS[0] not in frame.vectors:
            raise ArgumentError(f"{format} frame {number}: the frame lacks positions", at=path)

    def _encode(self, waiting: list[GatheredFrame]) -> tuple[int | None, BaseException | None]:
        """Encodes this rank's frames; returns the position of the first frame that fails, and the error."""
        for place, one in enumerate(waiting):
            if one.positions is None:
                continue
            try:
                with self._agreement.timings.measure("encode"):
                    self._encode_frame(one)
            except BaseException as error:
                return place, error
            one.positions = None
        return None, None

    def _encode_frame(self, one: GatheredFrame) -> None:
        stamp = one.stamp
        one.data, losses, of_stamp = _core.RecordFile.encoded(
            self._file.request.format,
            self._file.state.n_atoms,
            stamp.number,
            [one.positions, None, None],
            stamp.cell,
            stamp.step,
            stamp.time,
            fields=FIELDS,
            precision=self._precision,
        )
        one.losses = [(text, False) for text in losses] + [(text, True) for text in of_stamp]

    def _share_losses(self, waiting: list[GatheredFrame]) -> None:
        """Notes on all ranks the losses that each has found, each once."""
        new = [
            (one.stamp.number, text, of_stamp)
            for one in waiting
            for text, of_stamp in one.losses
            if text not in self._named
        ]
        if not self._agreement.gathered(np.array([len(new)], np.int64)).any():
            return
        for number, text, of_stamp in sorted(itertools.chain.from_iterable(self._agreement.comm.allgather(new))):
            if text not in self._named:
                self._named.add(text)
                self._file.losses.lose([f"{text}; frame {number} is the first" if of_stamp else text])

    def _write(self, waiting: list[GatheredFrame], sizes: NDArray[np.int64]) -> None:
        """Writes frames in sequence; the first bytes of the first one are written last."""
        file, first = self._file, len(UNFINISHED)
        offsets = (file.end + np.cumsum(sizes) - sizes).tolist()

        def write() -> None:
            for place, one in enumerate(waiting):
                skipped = first if place == 0 else 0
                if one.data:
                    file.put(one.stamp.number, offsets[place] + skipped, one.data[skipped:])

        def commit() -> None:
            if waiting[0].data:
                file.put(waiting[0].stamp.number, offsets[0], waiting[0].data[:first])

        file.checked(write)
        file.checked(commit)
        file.end += int(sizes.sum())
        file.committed(waiting[-1].stamp.number + 1, file.end)

    def _end_at(self, stamp: Stamp, error: BaseException | None, is_mine: bool) -> None:
        """Ends the file at a frame that cannot be encoded: earlier frames are kept, and no other is taken."""
        self._file.state.n_frames = stamp.number
        self._file.commit()
        self._file.check(error if is_mine else None)
