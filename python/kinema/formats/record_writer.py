"""`RecordWriter`: formats whose frames are records (XTC, TRR, NetCDF, DCD, DL_POLY), over the core's `RecordFile`.

The core handles bytes, threads and the remains of a killed process; this module handles file names, arguments and
notes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import whole_number
from kinema.base.errors import ArgumentError, Error, UnsupportedFormatError, os_errors
from kinema.base.notes import collected
from kinema.base.resources import worker_count
from kinema.formats.declared import RecordWriting
from kinema.formats.given_frames import FrameArrays, LastStamps
from kinema.formats.writer import Target, Writer
from kinema.model.frame import VECTOR_FIELDS, Part
from kinema.storage.output_checks import check_target
from kinema.storage.output_file import OutputFile, lock_alone, publish, write_index

# the core's type for numbers of atoms
_MOST_ATOMS = 2**32 - 1


class RecordWriter(Writer):
    """Common part of the writers of these formats.

    Frames are gathered until there are enough to encode on all threads; `flush` writes them. Frames without a step or
    time continue from the last one at the distance of the last two; steps start at 0 and rise by 1.
    """

    takes = RecordWriting
    # whether each frame says which fields it has
    _fields_of_each = False
    # a file that does not have its final name yet
    _output: OutputFile | None

    def _start(self, target: Target, options: Any) -> None:
        self._open(target, options.resume_from, fields=vector_names(options.fields))

    def _open(self, target: Target, resume_from: int | None, **options: Any) -> None:
        """Opens the file, with options of the core."""
        n_atoms = target.n_atoms
        self._overwrite = target.overwrite
        # whether it has frames that were flushed
        self._output = None
        self._holds_frames = False
        # a growing file: open as long as it is locked
        self._locked: int | None = None
        self._stamps = LastStamps()
        self._options = {**options, "workers": worker_count(target.workers)}
        if n_atoms is not None and not 0 < whole_number("n_atoms", n_atoms) <= _MOST_ATOMS:
            raise ArgumentError(f"n_atoms is a number from 1 to {_MOST_ATOMS}, found {n_atoms}")
        target.check_cut(resume_from)
        try:
            if target.is_there:
                self._core = self._resumed(n_atoms, resume_from)
            else:
                self._core = self._created(n_atoms)
        except BaseException:
            self._release()
            self._discard()
            raise
        self._closed = False

    @property
    def n_frames(self) -> int:
        return self._core.n_frames

    @property
    def fields(self) -> tuple[str, ...] | None:
        fields = self._core.fields
        return None if fields is None else tuple(fields)

    def flush(self) -> None:
        self._require_open()
        self._commit()

    def close(self) -> None:
        if self._closed:
            return
        try:
            if self._broken:
                raise ArgumentError("an earlier error broke the writer; what was not flushed is lost", at=self.path)
            self._commit()
            self._core.finish_notes()
            self._note_losses()
            if self._output is not None and self._core.n_frames:
                check_target(self.path, overwrite=self._overwrite)
                self._publish(self._output)
        except BaseException as error:
            self._salvage_and_stop(error)
            raise
        self._closed = True
        self._release()
        if self._discard():
            self._note(["no frame was written, so no file was made"])
        elif self._core.n_frames:
            self._store_index()

    def abort(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._release()
        if self._output is None:
            return
        if not self._holds_frames:
            self._output.discard()
            return
        self._output.end()
        if not self._keep_partial:
            with suppress(FileNotFoundError):
                os.unlink(self._output.temporary)

    def _take(self, frames: FrameArrays) -> None:
        fields = self._core.fields or self._options["fields"]
        usual = next(name for name in VECTOR_FIELDS if name in frames.fields)
        if self._fields_of_each:
            wanted = self._options["fields"] or VECTOR_FIELDS
            runs = list(frames.runs(wanted))
            left_out = [name for name in frames.fields if name not in wanted]
            self._lose(f"{name} are not written: the file holds {', '.join(wanted)}" for name in left_out)
            for run in runs:
                self._add(run)
            return
        frames.check_present([usual] if fields is None else fields)
        self._add(frames)

    def _add(self, frames: FrameArrays) -> None:
        rows = len(frames)
        steps = self._stamps.steps_of(frames.steps, rows)
        times = self._stamps.times_of(frames.times, rows)
        cells = np.zeros((rows, 3, 3)) if frames.cells is None else frames.cells.astype(np.float64)
        vectors = [None if (one := frames.fields.get(name)) is None else _numbers(one) for name in VECTOR_FIELDS]
        before = self._core.n_frames
        try:
            self._calling(lambda: self._core.add(vectors, cells, steps, times))
        finally:
            # a signal may have come when they were taken
            taken = max(self._core.n_frames - before, 0)
            self._stamps.took(steps[:taken], times[:taken])
        # XTC cannot hold them and raises an error when they are encoded
        if "positions" in (self._core.fields or ()) and self.format != "XTC":
            self._note_not_finite(frames, self.n_frames - rows)
        if self._mode == "a" and self._output is not None and self._core.n_written:
            self._commit()

    def _created(self, n_atoms: int | None) -> _core.RecordFile:
        if n_atoms is None:
            raise ArgumentError("n_atoms is needed to make a file")
        check_target(self.path, overwrite=self._overwrite, or_else=", mode='a' appends to it")
        self.n_atoms = n_atoms
        self._output = OutputFile(self.path, alone=True)
        if self._mode == "a":
            self._locked = self._lock(self._output.temporary)
        return _core.RecordFile(self._output.temporary, self.path, self.format, n_atoms, **self._options)

    def _resumed(self, n_atoms: int | None, resume_from: int | None) -> _core.RecordFile:
        self._locked = self._lock(self.path)
        if os.fstat(self._locked).st_size == 0:
            if n_atoms is None:
                raise ArgumentError("is empty; n_atoms is needed to begin it", at=self.path)
            self.n_atoms = n_atoms
            return _core.RecordFile(self.path, self.path, self.format, n_atoms, **self._options)
        # notes on reading do not matter here
        with collected():
            found = _core.Trajectory([self.path], write_index=write_index)
            found.scan(worker_count(None))
        part = Part.from_core(found.parts()[0])
        if part.format != self.format:
            what = f"{self.path}: cannot append {self.format} frames, the file is {part.format}"
            raise UnsupportedFormatError(what, path=self.path, format=part.format)
        if n_atoms not in (None, found.n_atoms):
            what = f"{self.path}: cannot append with n_atoms={n_atoms}, the file has {found.n_atoms}"
            raise ArgumentError(what, path=self.path)
        self.n_atoms = found.n_atoms
        steps, times = found.steps(), found.times()
        kept = None if resume_from is None else self._frames_up_to(resume_from, steps)
        core = _core.RecordFile.resume(found, self.path, n_frames=kept, **self._options)
        if part.truncation is not None:
            self._note([f"{part.truncation.removeprefix(f'{self.path}: ')}; it is cut off"])
        self._note(f"{warning}; this is put right" for warning in part.warnings if "header says" in warning)
        self._stamps = LastStamps(
            [] if steps is None else steps[:kept][-2:].tolist(), [] if times is None else times[:kept][-2:].tolist()
        )
        self._n_flushed = core.n_flushed
        return core

    def _frames_up_to(self, step: int, steps: NDArray[np.int64] | None) -> int:
        """Number of frames to keep: up to the last whose step is not greater. Raises ArgumentError if there is none."""
        if isinstance(step, bool) or not hasattr(step, "__index__"):
            raise ArgumentError(f"resume_from is the number of a step, found {step!r}")
        if steps is None:
            raise ArgumentError("no steps are known, by which resume_from= cuts", at=self.path)
        places = np.flatnonzero(steps <= step)
        if not len(places):
            first = f"the first frame has step {steps[0]}" if len(steps) else "the file has no frame"
            raise ArgumentError(f"no frame with a step of {step} or less, {first}", at=self.path)
        return int(places[-1]) + 1

    def _lock(self, path: str) -> int:
        with os_errors("cannot append", self.path):
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            lock_alone(handle, self.path)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _discard(self) -> bool:
        """Removes a file without frames that has no name yet; returns whether there was one."""
        if self._output is None:
            return False
        self._output.discard()
        return True

    def _release(self) -> None:
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None

    def _commit(self) -> None:
        """Brings the frames taken into the file: all, or those before a frame that cannot be encoded."""
        self._calling(self._core.flush)
        if self._core.n_flushed:
            self.name_committed()
        self._n_flushed = self._core.n_flushed

    def name_committed(self) -> None:
        """Gives a file with its first committed frames its lasting name."""
        if self._output is not None:
            if self._mode == "a":
                check_target(self.path, overwrite=False)
                self._publish(self._output)
            elif not self._holds_frames:
                self._output.protect()
                self._output.keep()
                self._holds_frames = True

    @property
    def written_path(self) -> str:
        """Current path of the file."""
        return self.path if self._output is None else self._output.temporary

    def finish_names(self) -> None:
        """Names and releases a file that others have written and synced; a file without frames is removed."""
        if self._output is not None and self._holds_frames:
            check_target(self.path, overwrite=self._overwrite)
            self._publish(self._output)
        self._closed = True
        self._release()
        self._discard()

    def _publish(self, output: OutputFile) -> None:
        publish(output.temporary, self.path)
        output.keep()
        output.end()
        self._output = None

    def _calling(self, call: Callable[[], None]) -> None:
        try:
            call()
        finally:
            self._broken = self._core.has_ended
            self._note_losses()

    def _note_losses(self) -> None:
        self._lose(self._core.losses)

    def _store_index(self) -> None:
        try:
            noted = self._core.store_index(self.path, write_index)
        except Error as error:
            noted = f"the index could not be stored: {error}"
        self._note([] if noted is None else [noted])

    def _salvage(self) -> None:
        self._commit()

    @property
    def _keeps_taken(self) -> bool:
        return (self._mode == "a" or self._keep_partial) and not self._core.has_failed

    @property
    def _temporary(self) -> str | None:
        return self._output.temporary if self._output is not None and self._holds_frames else None


def vector_names(fields: str | Sequence[str] | None) -> list[str] | None:
    """Names of vectors as a list; ArgumentError for others."""
    names = None if fields is None else [fields] if isinstance(fields, str) else list(fields)
    if names is not None and (not names or any(name not in VECTOR_FIELDS for name in names)):
        raise ArgumentError(f"fields are names out of {', '.join(VECTOR_FIELDS)}, found {fields!r}")
    return names


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """The same as float32 if that holds them all, else as float64."""
    narrow = np.can_cast(values.dtype, np.float32, "safe")
    return np.ascontiguousarray(values, np.float32 if narrow else np.float64)
