"""`SerialFile`: all values go to rank 0, which writes them with the format's ordinary writer; for every format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import Error
from kinema.formats.writer import Writer
from kinema.parallel.agreement import Agreement
from kinema.parallel.exchange import Exchange, Owners
from kinema.parallel.rank_file import FileRequest, FileState, RankFile
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.write_behind import WriteBehind

T = TypeVar("T")


class SerialFile(RankFile):
    """Rank 0's ordinary writer. With `buffer_frames` it writes in a thread while the program computes.

    `verified_by`: description, for users, of the way in which `found` verifies.
    """

    verified_by = ""
    writer_class: type[Writer] = Writer
    _is_noted = False

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._writer: Writer | None = None
        self._behind: WriteBehind | None = None
        self.state = agreement.call_on_root(self._opened)
        self._exchange = Exchange(agreement, self.state.n_atoms)
        self._owners = Owners.one(0, self.state.n_atoms)

    def take(self, frame: RankFrame) -> None:
        vectors = whole_vectors(self._exchange, self._owners, frame, self.request.hints.batch_bytes)
        taken = self.state.n_frames + 1

        def write() -> None:
            assert self._writer is not None
            with self.agreement.timings.measure("write"):
                self._writer.write(
                    vectors.get("positions"),
                    velocities=vectors.get("velocities"),
                    forces=vectors.get("forces"),
                    cell=frame.cell,
                    step=frame.step,
                    time=frame.time,
                )
            self.wrote(vectors)

        def take() -> FileState:
            if self._behind is None:
                write()
                return self._state()
            # its notes are known after the write
            self._behind.add(write)
            return FileState(**{**vars(self.state), "n_frames": taken})

        self._update_on_root(take)

    def flush(self) -> None:
        """As `RankFile.flush`; data since the last flush are verified, if asked for."""

        def flush() -> FileState:
            assert self._writer is not None
            if self._behind is not None:
                self._behind.wait()
            with self.agreement.timings.measure("sync"):
                self._writer.flush()
            return self._state()

        self._update_on_root(flush)
        if self.request.verify:
            self._verify()

    def close(self) -> None:
        if self.request.verify and not self.state.is_broken:
            SerialFile.flush(self)

        def close() -> FileState:
            assert self._writer is not None
            if self._behind is not None:
                self._behind.wait()
                self._behind.close()
            with self.agreement.timings.measure("sync"):
                self._writer.close()
            return self._state()

        self._update_on_root(close)

    def abort(self) -> None:
        if self._behind is not None:
            self._behind.close()
        if self._writer is not None:
            self._writer.abort()

    def add_observable(self, name: str, value: Any, **options: Any) -> None:
        self._call_writer(lambda writer: writer.add_observable(name, value, **options))

    def write_observable(self, name: str, value: Any, **options: Any) -> None:
        self._call_writer(lambda writer: writer.write_observable(name, value, **options))

    # for strategies

    def wrote(self, vectors: dict[str, NDArray[Any]]) -> None:
        """On rank 0: called with the vectors of a frame, (n_atoms, 3) each, after they were given to the writer."""

    def found(self) -> Error | None:
        """The error, if this rank finds that frames flushed by rank 0 are not in the file as expected.

        Only for strategies that verify; collective.
        """
        raise NotImplementedError

    def call_on_root(self, call: Callable[[], T]) -> T:
        """The result of a call on rank 0, on all ranks."""
        try:
            return self.agreement.call_on_root(call)
        except BaseException:
            self.state.is_broken = self.agreement.call_on_root(lambda: self._writer is None or self._writer._broken)
            raise

    def check(self, error: BaseException | None) -> None:
        """Raises a rank's error on all ranks; parts of frames may have been written then."""
        try:
            self.agreement.check(error)
        except BaseException:
            self.break_off()
            raise

    def break_off(self) -> None:
        """Takes no more frames."""
        self.state.is_broken = True
        if self._writer is not None:
            self._writer._broken = True

    # how

    def _verify(self) -> None:
        with self.agreement.timings.measure("verify"):
            error = self.found()
        self.check(error)
        if not self._is_noted and self.state.n_frames:
            self._is_noted = True
            self._update_on_root(self._noted)

    def _noted(self) -> FileState:
        """On rank 0: notes how the file was verified."""
        assert self._writer is not None
        self._writer._note([self.verified_by])
        return self._state()

    def _call_writer(self, call: Callable[[Writer], None]) -> None:
        def called() -> FileState:
            assert self._writer is not None
            if self._behind is not None:
                self._behind.wait()
            call(self._writer)
            return self._state()

        self._update_on_root(called)

    def _opened(self) -> FileState:
        request = self.request
        options: dict[str, Any] = dict(request.options)
        if request.resume_from is not None:
            options["resume_from"] = request.resume_from
        self._writer = self.writer_class(
            request.path,
            request.n_atoms,
            mode=request.mode,
            overwrite=request.overwrite,
            keep_partial=request.keep_partial,
            workers=request.workers,
            **options,
        )
        if request.buffer_frames is not None:
            self._behind = WriteBehind(request.buffer_frames)
        return self._state()

    def _state(self) -> FileState:
        out = self._writer
        assert out is not None
        notes, temporary = list(out.notes), out._temporary
        return FileState(
            out.n_atoms, out.n_frames, out.n_flushed, out.fields, notes, out.losses, temporary, out._broken
        )

    def _update_on_root(self, call: Callable[[], FileState]) -> None:
        self.state = self.call_on_root(call)


def whole_vectors(exchange: Exchange, owners: Owners, frame: RankFrame, batch_bytes: int) -> dict[str, NDArray[Any]]:
    """The vectors of a frame, (n_atoms, 3) each in order of atom numbers, on the rank that takes all atoms; arrays
    without rows on the others. Collective."""
    n_taken = len(owners.rank_atoms(exchange.agreement.rank))
    whole = {name: np.empty((n_taken, 3), values.dtype) for name, values in frame.vectors.items()}
    widest = max(values.dtype.itemsize for values in frame.vectors.values())
    route = exchange.route(frame.ids, owners, max(1, batch_bytes // (3 * widest)), counts=frame.counts)
    for batch in route.batches():
        for name, values in frame.vectors.items():
            batch.values(values, whole[name][batch.atoms.start : batch.atoms.stop])
    return whole
