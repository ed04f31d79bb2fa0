"""`ParallelWriter`: writes frames to which every rank of a communicator gives atoms; see `kinema.Writer(comm=)`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinema.base.choices import check_choice, whole_number
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected, emit
from kinema.formats.all_formats import format_named
from kinema.formats.declared import current_names
from kinema.formats.strategies import check_strategy, check_verify, hints_of
from kinema.formats.writer import RanksWriter
from kinema.formats.writer_choice import check_options, format_of, is_variant, old_names
from kinema.model.frame import Block, Frame
from kinema.parallel.agreement import Agreement, WriterTimings
from kinema.parallel.rank_file import FileRequest, FileState, RankFile
from kinema.parallel.rank_files import check_order, opened_file
from kinema.parallel.rank_frames import COLUMNS, GivenPart, agreed_frame, given_part
from kinema.runners.mpi.communicator import check_communicator, check_size

ORDERS = ("sorted", "given")
MOST_BUFFERED = 1024
"""Largest `buffer_frames`: up to this many frames may be unfinished at the end of a file whose ranks were killed."""

# actions of a rank; each rank announces one at the start of a call, in the first column
_WRITE, _FLUSH, _CLOSE, _LEAVE, _OBSERVABLE = 1, 2, 3, 4, 5
_WORDS = {_WRITE: "write", _FLUSH: "flush", _CLOSE: "close", _LEAVE: "left its block", _OBSERVABLE: "an observable"}
# seconds for which a rank ended by an exception waits until the others know of it
_FAREWELL = 2.0


class ParallelWriter(RanksWriter):
    """Writes frames into one file from all ranks of a communicator, each of which has some of the atoms.

        out = kn.Writer("run.dcd", n_atoms, comm=MPI.COMM_WORLD)
        out.write(positions, ids=mine, step=step, time=time, cell=cell)

    The constructor, `write`, `flush` and `close` are collective: all ranks call them, in the same order. Each rank
    gives the atoms that it has now, in any order; in the next frame it may give others, or none. If a call fails on one
    rank, it raises the same error on all ranks at its end, with the number of that rank in a note; `comm` is as before.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial : as `Writer`
        `n_atoms`: size of the whole system; ranks other than 0 may leave it out.
    comm : mpi4py intracommunicator
        A duplicate of it is used.
    workers : int
        Threads that encode, for strategies that gather whole frames.
    strategy : str
        "auto", or one that `docs/parallel-writing.md` lists for the format.
    hints : {name: value}
        ROMIO's names: "cb_nodes" (number of ranks that write) and "cb_buffer_size" (bytes of a batch, 8 MiB by
        default) apply to all strategies; all hints go to MPI with "mpiio" and "mpiio-collective".
    order : {"sorted", "given"}
        By atom number; or, for HISTORY and CONFIG files, in the given order: each rank's atoms follow the atoms of the
        ranks before it, and no values are exchanged.
    verify : bool
        Each rank reads what another rank has written, and compares checksums; a note says how. ArgumentError for
        "serial" with formats other than H5MD, because only rank 0 knows the written data.
    buffer_frames : int
        Keep up to this many frames and write them together; with "serial" and "direct" in a thread, while the program
        computes. Each takes the memory of this rank's share of a frame (of a whole frame on ranks that gather).
    resume_from : int
        With mode="a": cut the file after the last frame whose step is not greater; ArgumentError if there is none.
    **given
        Options of the format; `atoms` and `topology` are taken from rank 0.

    Attributes
    ----------
    timings : {"sort", "communicate", "encode", "write", "sync", "verify": seconds}
        Times of this rank, summed over all calls.
    strategy : str
        The strategy in use.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        comm: Any,
        format: str | None = None,
        mode: Literal["w", "a"] = "w",
        overwrite: bool = False,
        keep_partial: bool = True,
        workers: int | None = None,
        strategy: str = "auto",
        hints: Mapping[str, object] | None = None,
        order: Literal["sorted", "given"] = "sorted",
        verify: bool = False,
        buffer_frames: int | None = None,
        resume_from: int | None = None,
        **given: Any,
    ) -> None:
        check_communicator(comm)
        check_size()
        self.timings: dict[str, float] = WriterTimings()
        assert isinstance(self.timings, WriterTimings)
        self._ranks = Agreement(comm.Dup(), self.timings)
        self._file: RankFile | None = None

        def checked() -> FileRequest:
            self._share(path, mode, overwrite=overwrite, keep_partial=keep_partial)
            options = current_names("Writer", given, old_names())
            self.format = format_of(path, format)  # type: ignore[misc]
            check_options(path, self.format, options)
            by_library = is_variant(path, self.format, {**options, "mode": mode})
            name = format_named(self.format).written_kind(options, by_library=by_library)
            self.strategy = check_strategy(name, "atoms", strategy)
            check_choice("order", order, ORDERS)
            check_order(self.format, self.strategy, order)
            if verify:
                check_verify(name, self.strategy)
            if buffer_frames is not None and not 0 < whole_number("buffer_frames", buffer_frames) <= MOST_BUFFERED:
                raise ArgumentError(f"buffer_frames is a number from 1 to {MOST_BUFFERED}, found {buffer_frames}")
            if resume_from is not None and mode != "a":
                raise ArgumentError("resume_from= is for mode='a', which continues a file")
            return FileRequest(
                self.path, n_atoms, self.format, self.strategy, hints_of(hints, self.strategy), mode, overwrite,
                keep_partial, workers, order, verify, buffer_frames, resume_from, {**options, "format": format},
            )  # fmt: skip

        try:
            request = self._ranks.together(checked)
            self._check_same(request, n_atoms)
            with self._emitting_on_root():
                self._file = opened_file(request, self._ranks)
        except BaseException:
            self._ranks.comm.Free()
            raise
        self._closed = False
        self._update()
        unused = request.hints.unused
        self._note(f"hint {name} has no effect with strategy {self.strategy!r}" for name in unused)

    # the interface of a writer

    @property
    def n_frames(self) -> int:
        return self._state.n_frames

    @property
    def fields(self) -> tuple[str, ...] | None:
        return self._state.fields

    def write(
        self,
        positions: ArrayLike | Frame | Block | None = None,
        *,
        ids: ArrayLike | None = None,
        velocities: ArrayLike | None = None,
        forces: ArrayLike | None = None,
        cell: ArrayLike | None = None,
        step: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> None:
        """Takes one frame, to which each rank gives the atoms that it has; collective.

        Parameters
        ----------
        positions : (n_mine, 3) in angstrom
        ids : (n_mine,) whole numbers from 0
            Atom numbers in the system; exactly one rank must give each, once.
        velocities, forces : (n_mine, 3), in angstrom/ps and kJ/(mol angstrom)
            Given by all ranks that have atoms, or by none.
        cell, step, time : as `Writer.write`
            Taken from rank 0; other ranks may leave them out, or give the same.

        If it raises ArgumentError for its arguments (wrong shapes or types, atoms that are missing or given twice; rank
        and number are named), nothing is taken and the writer stays usable. The arrays may be changed after the call.
        Frames may be written later; an error of such a write is raised by a later call, on all ranks.
        """
        values = {"positions": positions, "velocities": velocities, "forces": forces}
        part, error = GivenPart(), None
        try:
            self._require_open()
            part = given_part(ids, values, cell, step, time)
        except Exception as raised:
            error = raised
        rows = self._begin(_WRITE, error, part.row)
        frame = agreed_frame(part, rows)
        taken = self._state.n_frames
        self._calling(lambda file: file.take(frame))
        if rows[:, 3].any() and not self._not_finite_noted and not format_named(self.format).packed:
            self._not_finite_noted = True
            self._note([f"frame {taken} has positions that are not numbers (NaN or infinite)"])

    def fail(self, error: BaseException) -> NoReturn:
        """As `RanksWriter.fail`; collective."""
        self._begin(_WRITE, error)
        raise error

    def flush(self) -> None:
        """As `Writer.flush`; collective."""
        self._begin(_FLUSH, self._unusable())
        self._calling(lambda file: file.flush())

    def close(self) -> None:
        """As `Writer.close`; collective."""
        if self._closed:
            return
        self._begin(_CLOSE, self._unusable())
        try:
            self._calling(lambda file: file.close())
        except BaseException as error:
            self._salvage_and_stop(error)
            raise
        self._closed = True
        if not self.n_frames and self._mode == "w" and not self.notes:
            self._note(["no frame was written, so no file was made"])
        self._ranks.comm.Free()

    def abort(self) -> None:
        """As `Writer.abort`; not collective: closes this rank's open files."""
        if not self._closed:
            self._closed = True
            if self._file is not None:
                self._file.abort()

    def add_observable(
        self,
        name: str,
        value: ArrayLike | None = None,
        *,
        shape: tuple[int, ...] = (),
        dtype: DTypeLike | None = None,
        unit: str | None = None,
    ) -> None:
        """As `Writer.add_observable`, for an H5MD file with strategy "serial": values of rank 0; collective."""
        self._begin(_OBSERVABLE, self._unusable())
        self._calling(lambda file: file.add_observable(name, value, shape=shape, dtype=dtype, unit=unit))

    def write_observable(
        self, name: str, value: ArrayLike, *, step: ArrayLike | None = None, time: ArrayLike | None = None
    ) -> None:
        """As `Writer.write_observable`, for an H5MD file with strategy "serial": values of rank 0; collective."""
        self._begin(_OBSERVABLE, self._unusable())
        self._calling(lambda file: file.write_observable(name, value, step=step, time=time))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or self._closed:
            self.close()
            return
        self._salvage_and_stop(error)

    def _salvage_and_stop(self, error: BaseException) -> None:
        """If an exception has ended all ranks, flushes the taken frames.

        If it has ended only some, the others learn of it in their next call, and the flushed frames stay.
        """
        with_all = self._leave(error)
        if with_all and self._keeps_taken:
            try:
                self._calling(lambda file: file.flush())
            except Exception as second:
                error.add_note(f"and what was not flushed is lost: {second}")
        self._stop(error)

    # how

    @property
    def _state(self) -> FileState:
        assert self._file is not None
        return self._file.state

    @property
    def _keeps_taken(self) -> bool:
        return (self._mode == "a" or self._keep_partial) and not self._broken

    @property
    def _temporary(self) -> str | None:
        return None if self._file is None else self._state.temporary

    def _unusable(self) -> ArgumentError | None:
        try:
            self._require_open()
        except ArgumentError as error:
            return error
        return None

    def _check_same(self, request: FileRequest, n_atoms: int | None) -> None:
        """Raises ArgumentError on all ranks if their arguments differ; ranks other than 0 may leave out n_atoms."""
        arguments = {**vars(request), **request.options}
        of_root = {name: arguments.pop(name, None) for name in ("options", "n_atoms", "atoms", "topology")}
        self._ranks.same(arguments)
        stated = self._ranks.call_on_root(lambda: n_atoms)
        wrong = None
        if n_atoms not in (None, stated):
            wrong = ArgumentError(
                f"n_atoms= differs between ranks, expected {stated} as on rank 0, found {n_atoms} on rank "
                f"{self._ranks.rank}"
            )
        self._ranks.check(wrong)
        if not self._ranks.is_root:
            for name in of_root.keys() & request.options.keys():
                request.options[name] = None

    def _begin(
        self, doing: int, error: BaseException | None, row: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Announcements of all ranks at the start of a call, (ranks, COLUMNS); raises the error of a failed rank."""
        rows = self._ranks.announced(self._announced(doing, error, row))
        left, failed = rows[:, 0] == _LEAVE, rows[:, 1] != 0
        if left.any():
            self._ranks.fail_with_left(int(np.argmax(left)))
        if failed.any():
            self._ranks.fail(int(np.argmax(failed)), error)
        different = rows[:, 0] != rows[0, 0]
        if different.any():
            rank = int(np.argmax(different))
            raise ArgumentError(
                f"ranks call different methods, expected {_WORDS[int(rows[0, 0])]} as on rank 0, found "
                f"{_WORDS[int(rows[rank, 0])]} on rank {rank}",
                at=self.path,
            )
        return rows[:, 2:]

    @staticmethod
    def _announced(doing: int, error: BaseException | None, row: NDArray[np.int64] | None) -> NDArray[np.int64]:
        announced = np.zeros(2 + COLUMNS, np.int64)
        announced[0], announced[1] = doing, error is not None
        if row is not None:
            announced[2:] = row
        return announced

    def _leave(self, error: BaseException) -> bool:
        """Announces that an exception has ended this rank; returns whether it has ended all ranks."""
        if self._closed or self._ranks.is_broken:
            return False
        self._ranks.leave(error)
        rows = self._ranks.gathered_within(_FAREWELL, self._announced(_LEAVE, error, None))
        if rows is None or not (rows[:, 0] == _LEAVE).all():
            return False
        self._ranks.hear_all()
        return True

    def _calling(self, call: Callable[[RankFile], None]) -> None:
        """Makes a call on the file that all ranks make, then updates the writer's state from it."""
        assert self._file is not None
        try:
            with self._emitting_on_root():
                call(self._file)
        finally:
            self._update()

    def _update(self) -> None:
        assert self._file is not None
        state = self._state
        self.n_atoms, self.losses, self.notes = state.n_atoms, state.losses, state.notes
        self._n_flushed, self._broken = state.n_flushed, state.is_broken

    def _emitting_on_root(self) -> AbstractContextManager[object]:
        """Lets notes of the block reach the caller on rank 0 only."""
        return nullcontext() if self._ranks.is_root else collected()

    def _note(self, texts: Any) -> None:
        noted = [f"{self.path}: {text}" for text in texts]
        self.notes += noted
        if self._ranks.is_root:
            emit(noted)
