"""`GatheredFile`: frames of differing sizes (XTC), each gathered on one rank, which encodes it and writes it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.formats.record_writer import vector_names
from kinema.model.frame import VECTOR_FIELDS
from kinema.parallel.agreement import Agreement
from kinema.parallel.exchange import Exchange, Owners
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.record_files.base import UNFINISHED, RecordsFile, Stamp
from kinema.parallel.serial import whole_vectors

__all__ = ["GatheredFile"]

FIELDS = ("positions",)


@dataclass
class GatheredFrame:
    """A frame on the rank that writes it; the others have its stamp alone.

    Attributes
    ----------
    positions : (n_atoms, 3), or None
    losses : what of it is lost, and whether that is of its step, time or cell
    """

    stamp: Stamp
    positions: NDArray[Any] | None
    data: bytes = b""
    losses: list[tuple[str, bool]] = field(default_factory=list)


class GatheredFile(RecordsFile):
    """The strategy "gather" of formats whose records differ in size: frame k is written by writer k mod A of A writers.

    As many frames as there are writers (or `buffer_frames`, if these are more) are encoded together; their places
    follow from their sizes. The first bytes of the first of them are written last, which commits them all.
    """

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._exchange = Exchange(agreement, self.state.n_atoms)
        self._room = max(len(self.gathering), request.buffer_frames or 0)
        self._waiting: list[GatheredFrame] = []
        self._asked = vector_names(request.options.get("fields"))
        self._named: set[str] = set()
        precision = request.options.get("precision")
        self._precision = self.opened.precision if precision is None else float(precision)

    def take(self, frame: RankFrame) -> None:
        """As `RankFile.take`."""
        stamp = self.next_stamp(frame)
        self._check_fields(frame, stamp.number)
        owners = Owners.one(self.gathering[stamp.number % len(self.gathering)], self.state.n_atoms)
        positions = RankFrame(
            frame.ids, {FIELDS[0]: frame.vectors[FIELDS[0]]}, frame.counts, frame.step, frame.time, frame.cell
        )
        whole = whole_vectors(self._exchange, owners, positions, self.request.hints.batch_bytes)
        is_mine = len(owners.of(self.agreement.rank)) > 0
        self._waiting.append(GatheredFrame(stamp, whole[FIELDS[0]] if is_mine else None))
        left_out = [name for name in VECTOR_FIELDS if name in frame.vectors and name not in FIELDS]
        self.lose(f"{name} are not written: the file holds {', '.join(FIELDS)}" for name in left_out)
        self.took(stamp, self.end, FIELDS)
        if len(self._waiting) >= self._room:
            self.flush_records()

    def flush_records(self) -> None:
        """As `RecordsFile.flush_records`."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        error = self.announce(self.end)
        failed, refused = self._encode(waiting)
        sizes = np.array([len(one.data) for one in waiting], np.int64)
        state = np.array([error is not None, len(waiting) if failed is None else failed, *sizes], np.int64)
        rows = self.agreement.gathered(state)
        self._share_losses(waiting)
        self.check(error)
        n_sound = int(rows[:, 1].min())
        sizes = rows[:, 2:].sum(axis=0)[:n_sound]
        if n_sound:
            self._write(waiting[:n_sound], sizes)
        if n_sound < len(waiting):
            self._end_at(waiting[n_sound].stamp, refused, failed == n_sound)

    def marker(self, n_frames: int) -> tuple[int, bytes] | None:
        """As `RecordsFile.marker`: there is no count."""
        return None

    def finish_losses(self) -> None:
        """As `RecordsFile.finish_losses`: they are noted when frames are written."""

    def _check_fields(self, frame: RankFrame, number: int) -> None:
        if self._asked is not None and tuple(self._asked) != FIELDS:
            raise ArgumentError(f"{self.request.format} holds {', '.join(FIELDS)}, found fields={self._asked}")
        if FIELDS[0] not in frame.vectors:
            path = self.request.path
            raise ArgumentError(f"{path}: {self.request.format} frame {number}: the frame lacks positions", path=path)

    def _encode(self, waiting: list[GatheredFrame]) -> tuple[int | None, BaseException | None]:
        """Encodes what this rank has; the place of the first frame that cannot be, and why."""
        for place, one in enumerate(waiting):
            if one.positions is None:
                continue
            try:
                with self.agreement.timings.of("encode"):
                    self._encode_frame(one)
            except BaseException as error:
                return place, error
            one.positions = None
        return None, None

    def _encode_frame(self, one: GatheredFrame) -> None:
        stamp = one.stamp
        one.data, losses, of_stamp = _core.RecordFile.encoded(
            self.request.format,
            self.state.n_atoms,
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
        """Notes on all ranks what each has found to be lost, each once."""
        new = [
            (one.stamp.number, text, of_stamp)
            for one in waiting
            for text, of_stamp in one.losses
            if text not in self._named
        ]
        if not self.agreement.gathered(np.array([len(new)], np.int64)).any():
            return
        for number, text, of_stamp in sorted(itertools.chain.from_iterable(self.agreement.comm.allgather(new))):
            if text not in self._named:
                self._named.add(text)
                self.lose([f"{text}; frame {number} is the first" if of_stamp else text])

    def _write(self, waiting: list[GatheredFrame], sizes: NDArray[np.int64]) -> None:
        """Writes frames one behind the other, the first bytes of the first one last."""
        offsets = (self.end + np.cumsum(sizes) - sizes).tolist()
        first = len(UNFINISHED)

        def write() -> None:
            for place, one in enumerate(waiting):
                skipped = first if place == 0 else 0
                if one.data:
                    self.put(offsets[place] + skipped, one.data[skipped:], one.stamp.number)

        def commit() -> None:
            if waiting[0].data:
                self.put(offsets[0], waiting[0].data[:first], waiting[0].stamp.number)

        self.checked(write)
        self.checked(commit)
        self.end += int(sizes.sum())
        self.committed(waiting[-1].stamp.number + 1, self.end)

    def _end_at(self, stamp: Stamp, error: BaseException | None, is_mine: bool) -> None:
        """A frame cannot be encoded: those before it are kept, and no other is taken."""
        self.state.n_frames = stamp.number
        self.commit_count()
        self.check(error if is_mine else None)
