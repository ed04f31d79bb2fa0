"""`Hdf5Writer`: formats that are stored in HDF5 (H5MD, NetCDF-4), in new files and in growing files.

This module decides when bytes are in a file and what a killed process leaves; the class of a format decides what the
bytes mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Protocol

from kinema.base.errors import ArgumentError, Error, UnsupportedFormatError
from kinema.base.tracing.recording import span
from kinema.formats.frame_sink import StoredFrames
from kinema.formats.given_frames import AnnouncedRows, FrameArrays, frame_arrays
from kinema.formats.hdf5.encoding import ChunkEncoder
from kinema.formats.hdf5.series import CountedRows
from kinema.formats.writer import Writer, not_finite_note
from kinema.storage.hdf5.chunk_index import full_chunks
from kinema.storage.hdf5.output import GrowingFile, NewFile, OutputPartFile, hdf5_errors


def check_given(path: str, given: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Raises ArgumentError if a given value (None: not given) differs from that of a file that is extended."""
    for name, value in given.items():
        if value is not None and value != stored[name]:
            what = f"{path}: cannot append with {name}={value}, the file has {stored[name]}"
            raise ArgumentError(what, path=path)


class GrowingData(Protocol):
    """Data sets of a file that grow together."""

    def flush(self) -> None:
        """Writes all rows; more may follow."""

    def finish(self) -> None:
        """Writes all rows; no more may follow."""


class FrameGroup(GrowingData, Protocol):
    """The data sets of frames; each frame has all fields."""

    rows: int

    @property
    def fields(self) -> Any:
        """Names of the fields, in their order."""

    def check(self, frames: FrameArrays, first: int) -> None:
        """Raises errors for frames that cannot be written; `first` is the number of the first frame.

        ArgumentError if the file cannot take them; UnsupportedFormatError, without the path, if a reader would not give
        them back.
        """

    def losses_of(self, frames: FrameArrays) -> list[str]:
        """Losses in frames that `check` has passed."""

    def extend(self, frames: FrameArrays) -> None:
        """Takes frames that `check` has passed."""


class Hdf5Writer(Writer):
    """Common part of the writers of formats in HDF5.

    Each sets `_file`, `_h5`, `_workers`, and `_group` if it opens a file. The first flush of a new file closes it, and
    continues it as a growing file. With mode="a" it gets its name then, whole, with all frames so far.

    Each is a `FrameSink`. Users call `write`, `flush` and `close`; processes that write one file together call `rows`,
    `stored`, `commit` and `finish`.
    """

    _file: NewFile | OutputPartFile | GrowingFile
    _h5: Any
    # with mode="w" a file that grows under its temporary name, from the first `flush` on
    _new: NewFile | None = None
    _group: Any = None
    # fields that the user asked for
    _asked_fields: tuple[str, ...] | None = None

    @property
    def n_frames(self) -> int:
        return 0 if self._group is None else self._group.rows

    @property
    def fields(self) -> tuple[str, ...] | None:
        return self._asked_fields if self._group is None else tuple(self._group.fields)

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        """As `FrameSink.begin`: the encoder of each field, for processes that encode what `stored` takes."""
        self._require_open()
        self._begin(self._checked(first))
        return self.encoders

    def check(self, frames: FrameArrays, *, ahead: int = 0) -> None:
        """Raises as `rows` would after `ahead` more frames; the values of the frames may be missing."""
        self._require_open()
        self._check(self._checked(frames), self.n_frames + ahead)

    def rows(self, frames: FrameArrays) -> None:
        """As `FrameSink.rows`."""
        self._require_open()
        given = frame_arrays(self.n_atoms, dict(frames.fields), frames.cells, frames.steps, frames.times)
        if len(given):
            self._take(given)

    def stored(self, frames: StoredFrames) -> None:
        """As `FrameSink.stored`."""
        self._require_open()
        for chunks in frames.chunks:
            for name, encoded in chunks.items():
                self._fields[name].announce(encoded)
        if frames.not_finite is not None and not self._not_finite_noted:
            self._not_finite_noted = True
            self._note([not_finite_note(frames.not_finite)])
        fields: dict[str, Any] = {name: AnnouncedRows(frames.n_frames, kind) for name, kind in frames.kinds.items()}
        self._take(FrameArrays(fields, frames.cells, frames.steps, frames.times))

    def commit(self) -> None:
        """As `FrameSink.commit`."""
        self.flush()

    def finish(self, check: Callable[[str], object] | None = None) -> None:
        """As `FrameSink.finish`."""
        self.close(check)

    def _take(self, frames: FrameArrays) -> None:
        frames = self._checked(frames)
        frames.check_present(frames.fields)
        self._begin(frames)
        self._check(frames, self.n_frames)
        self._note_not_finite(frames, self.n_frames)
        self._lose(self._group.losses_of(frames))
        # others make and write the bytes of announced rows
        announced = any(isinstance(value, AnnouncedRows) for value in frames.fields.values())
        traced = nullcontext() if announced else self._span("write", len(frames))
        with traced, self._all_or_nothing():
            self._group.extend(frames)

    def _check(self, frames: FrameArrays, first: int) -> None:
        """As `FrameGroup.check`, with the path in each error; also refuses more frames than were announced."""
        with self._named():
            self._group.check(frames, first)
        if self._mode == "w":
            self._check_announced(first + len(frames), complete=False)

    def flush(self) -> None:
        """Brings all frames taken so far into the file.

        As `Writer.flush`. From the first call on a new file (mode="w") has a row of `step` and `time` for each frame.
        With layout "contiguous" (H5MD) the file gets its frames only when it is closed.
        """
        self._require_open()
        if self._mode == "a":
            self._begin(None)
        with self._span("commit", self.n_frames - self._n_flushed), self._all_or_nothing():
            if isinstance(self._file, NewFile):
                if not self._can_grow:
                    if self.n_frames:
                        self._file.flush()
                    return
                if self._mode == "a":
                    self._grow(self._file.finish)
                    self._n_flushed = self.n_frames
                    return
                self._new = self._file
                self._grow(self._file.keep)
            else:
                assert isinstance(self._file, GrowingFile)  # set since the first frames
                for part in self._parts():
                    part.flush()
                self._file.commit()
        self._n_flushed = self.n_frames

    def settled(self) -> list[tuple[int, int]]:
        """Byte ranges of the chunks in the file that hold all of their frames: no later write changes them."""
        return [] if self._group is None else full_chunks(self._h5)

    def close(self, check: Callable[[str], object] | None = None) -> None:
        """Writes what is left and closes the file; a new one now appears under its name. Closing twice does nothing.

        `check` is called first, with the temporary name of a new file, which is whole and can be read; if it raises,
        the file does not get its name. If anything fails, a new file stays under its temporary name, with the frames
        that are in it.
        """
        if self._closed:
            return
        try:
            if self._broken:
                raise ArgumentError("an earlier error broke the writer; what was not flushed is lost", at=self.path)
            self._begin(None)
            if self._mode == "a" or isinstance(self._file, GrowingFile):
                self.flush()
                assert isinstance(self._file, GrowingFile)
                self._file.finish()
            else:
                assert isinstance(self._file, NewFile)
                self._check_announced(self.n_frames, complete=True)
                with self._span("commit", self.n_frames - self._n_flushed):
                    with hdf5_errors(self.path):
                        for part in self._parts():
                            part.finish()
                    self._new = self._file
                    self._new.keep(protect=self._keep_partial)
            self._n_flushed = self.n_frames
            if self._new is not None:
                if check is not None:
                    check(self._new.temporary)
                self._new.publish()
        except BaseException as error:
            self._stop(error)
            raise
        self._closed = True

    def abort(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._new is None:
            self._file.discard()
            return
        if isinstance(self._file, GrowingFile):
            self._file.discard()
        self._new.end()
        if not (self._keep_partial and self._n_flushed):
            with suppress(FileNotFoundError):
                os.unlink(self._new.temporary)

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        # when this process ends, HDF5's buffers must not be written
        self._file.forget()

    def _span(self, name: str, n_frames: int) -> Any:
        """An event of the trace for calls of h5py, including the work of HDF5 in them."""
        return span(name, "writer", self.path, frames=n_frames)

    # for others who write values into the file

    @property
    def current_path(self) -> str:
        """Current path of the file."""
        return self._file.path if isinstance(self._file, GrowingFile) else self._file.temporary

    @property
    def encoders(self) -> dict[str, ChunkEncoder]:
        """The encoder of each field; empty before `begin`."""
        return {name: series.encoder for name, series in self._fields.items()}

    @property
    def datasets(self) -> dict[str, Any]:
        """The data set of each field; empty before `begin`."""
        return {name: series.dataset for name, series in self._fields.items()}

    @property
    def place_of_fields(self) -> tuple[str, dict[str, str]]:
        """Current path of the file, and the name of the data set of each field."""
        return self.current_path, {name: dataset.name for name, dataset in self.datasets.items()}

    @property
    def last_step(self) -> int | None:
        """Step of the last frame that was taken."""
        return None if self._group is None else self._group.last_step

    def leave_fields(self) -> None:
        """From now on others write rows of all fields, and this object counts them."""
        for name, series in self._fields.items():
            self._fields[name] = CountedRows(series.encoder, series.dataset, series.rows)

    def release(self) -> str:
        """Commits and closes the file, so that others can write into it until `take_back`; returns its path."""
        self.commit()
        assert isinstance(self._file, GrowingFile)
        self._file.finish()
        return self._file.path

    def take_back(self) -> None:
        """Reopens a released file, which all others have closed; they continue to write its fields."""
        assert isinstance(self._file, GrowingFile)
        self._go_on_in(self._file.path)
        self.leave_fields()

    # what a format adds

    def _checked(self, frames: FrameArrays) -> FrameArrays:
        """The frames, completed with what the format knows of them; raises ArgumentError if they are inconsistent."""
        frames.check_series()
        return frames

    def _check_first(self, first: FrameArrays | None) -> None:
        """Raises errors for a first frame that cannot be written; nothing is created yet.

        ArgumentError if it contradicts the options; UnsupportedFormatError, without the path, if a reader would not
        give it back.
        """

    def _make_group(self, first: FrameArrays | None) -> FrameGroup:
        """Makes the data sets for frames such as `first`, in the new file."""
        raise NotImplementedError

    def _go_on_in(self, path: str) -> None:
        """Opens a file that was closed here as a growing file, and its group."""
        raise NotImplementedError

    def _parts(self) -> list[GrowingData]:
        return [] if self._group is None else [self._group]

    def _check_announced(self, n_frames: int, *, complete: bool) -> None:
        """Raises ArgumentError if the number of frames differs from the announced one."""

    @property
    def _fields(self) -> dict[str, Any]:
        return {} if self._group is None else self._group.fields

    @property
    def _can_grow(self) -> bool:
        """Whether the frames of a new file can be committed one after the other."""
        return self._group is not None

    @property
    def _temporary(self) -> str | None:
        return None if self._new is None else self._new.temporary

    @property
    def _keeps_taken(self) -> bool:
        grows = self._mode == "a" or isinstance(self._file, GrowingFile)
        return not self._broken and (grows or self._keep_partial) and (grows or self._can_grow)

    def _begin(self, first: FrameArrays | None) -> None:
        """Makes the data sets of frames, with the fields of the first frame."""
        if self._group is not None:
            return
        with self._named():
            self._check_first(first)
        with self._all_or_nothing():
            group = self._make_group(first)
        if not isinstance(self._file, OutputPartFile):
            self._group = group
            return
        # the file has its final name already
        with self._all_or_nothing():
            group.flush()
            self._grow(self._file.finish)

    def _grow(self, close: Callable[[], str]) -> None:
        """Continues a new file as a growing one, after `close` has closed it and returned its path."""
        for part in self._parts():
            part.flush()
        self._go_on_in(close())

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Puts the path into errors about frames that a reader would not give back."""
        try:
            yield
        except UnsupportedFormatError as error:
            what = f"{self.path}: {self.format} {error}"
            raise UnsupportedFormatError(what, path=self.path, format=self.format, frame=error.frame) from None

    @contextmanager
    def _all_or_nothing(self, unless: type[Error] | None = None) -> Iterator[None]:
        """If anything is raised inside, also Ctrl-C, parts of frames may remain: nothing more is written then."""
        try:
            with hdf5_errors(self.path):
                yield
                self._file.check()
        except BaseException as error:
            self._broken = unless is None or not isinstance(error, unless)
            raise
