"""`Hdf5Writer`: formats that are stored in HDF5 (H5MD, NetCDF-4), in new files and in files that grow.

When bytes are in a file, and what a killed process leaves, is decided here; what they mean by the class of a format.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
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

__all__ = ["FrameGroup", "GrowingData", "Hdf5Writer"]


class GrowingData(Protocol):
    """Data sets of a file that grow together."""

    def flush(self) -> None:
        """Writes all rows; more may follow."""

    def finish(self) -> None:
        """Writes all rows; none may follow."""


class FrameGroup(GrowingData, Protocol):
    """The data sets of frames, of which each has all fields."""

    rows: int

    @property
    def fields(self) -> Any:
        """Names of the fields, in their order."""

    def check(self, frames: FrameArrays, first: int) -> None:
        """Raises ArgumentError for frames that the file cannot take, UnsupportedFormatError, without the path, for
        those that a reader would not give back; `first` is the number of the first frame."""

    def losses_of(self, frames: FrameArrays) -> list[str]:
        """What of frames that `check` has passed is not kept."""

    def extend(self, frames: FrameArrays) -> None:
        """Takes frames that `check` has passed."""


class Hdf5Writer(Writer):
    """What the writers of formats in HDF5 share; each sets `_file`, `_h5`, `_workers`, and `_group` if it opens a file.

    A new file is closed by its first flush, and continued as one that grows. With mode="a" it gets its name then,
    whole, with all frames so far.

    Each is a `FrameSink`. Users call `write`, `flush` and `close`; processes that write one file together call `rows`,
    `stored`, `commit` and `finish`.
    """

    _file: NewFile | OutputPartFile | GrowingFile
    _h5: Any
    # with mode="w" a file that grows under its temporary name, from the first `flush` on
    _new: NewFile | None = None
    _group: Any = None
    # fields that were asked for
    _asked_fields: tuple[str, ...] | None = None

    @property
    def n_frames(self) -> int:
        return 0 if self._group is None else self._group.rows

    @property
    def fields(self) -> tuple[str, ...] | None:
        return self._asked_fields if self._group is None else tuple(self._group.fields)

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        """As `FrameSink.begin`: how chunks of each field are made, for processes that encode what `stored` takes."""
        self._require_open()
        self._begin(self._checked(first))
        return self.encoders

    def check(self, frames: FrameArrays, *, ahead: int = 0) -> None:
        """Raises as `rows` would for frames of which there may be no values, after `ahead` others."""
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
        # of announced rows others make and write the bytes
        announced = any(isinstance(value, AnnouncedRows) for value in frames.fields.values())
        traced = nullcontext() if announced else self._span("write", len(frames))
        with traced, self._all_or_nothing():
            self._group.extend(frames)

    def _check(self, frames: FrameArrays, first: int) -> None:
        """As `FrameGroup.check`, with the path in each error; and that no more frames come than were announced."""
        with self._named():
            self._group.check(frames, first)
        if self._mode == "w":
            self._check_announced(first + len(frames), complete=False)

    def flush(self) -> None:
        """Brings all frames taken so far into the file.

        As `Writer.flush`. From the first call on a new file (mode="w") has a row of `step` and `time` for each frame.
        With layout "contiguous" (H5MD) it has its frames only when it is closed.
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
                assert isinstance(self._file, GrowingFile)  # since its first frames
                for part in self._parts():
                    part.flush()
                self._file.commit()
        self._n_flushed = self.n_frames

    def settled(self) -> list[tuple[int, int]]:
        """Bytes of the chunks in the file that hold all of their frames: no later write changes them."""
        return [] if self._group is None else full_chunks(self._h5)

    def close(self, check: Callable[[str], object] | None = None) -> None:
        """Writes what is left and closes the file; a new one appears under its name now. Closing twice does nothing.

        `check` is called before with the temporary name of a new file, which is whole and can be read; what it raises
        keeps the file from its name. Where anything fails, a new file stays with the frames that are in it, under its
        temporary name.
        """
        if self._closed:
            return
        try:
            if self._broken:
                raise ArgumentError(
                    f"{self.path}: an earlier error broke the writer; what was not flushed is lost", path=self.path
                )
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
        # what HDF5 still holds is not written when this process ends
        self._file.forget()

    def _span(self, name: str, n_frames: int) -> Any:
        """An event of the trace: calls of h5py, with what HDF5 does in them."""
        return span(name, "writer", self.path, frames=n_frames)

    # for others who write values into the file

    @property
    def current_path(self) -> str:
        """Where the bytes are now."""
        return self._file.path if isinstance(self._file, GrowingFile) else self._file.temporary

    @property
    def encoders(self) -> dict[str, ChunkEncoder]:
        """How chunks of each field are made; none before `begin`."""
        return {name: series.encoder for name, series in self._fields.items()}

    @property
    def datasets(self) -> dict[str, Any]:
        """The data set of each field; none before `begin`."""
        return {name: series.dataset for name, series in self._fields.items()}

    @property
    def place_of_fields(self) -> tuple[str, dict[str, str]]:
        """Where the bytes are now, and the name of the data set of each field."""
        return self.current_path, {name: dataset.name for name, dataset in self.datasets.items()}

    @property
    def last_step(self) -> int | None:
        """Of the last frame that was taken."""
        return None if self._group is None else self._group.last_step

    def leave_fields(self) -> None:
        """From here on rows of all fields are written by others, and counted here."""
        for name, series in self._fields.items():
            self._fields[name] = CountedRows(series.encoder, series.dataset, series.rows)

    def release(self) -> str:
        """Commits and closes the file, for others who write into it until `take_back`; returns where it is."""
        self.commit()
        assert isinstance(self._file, GrowingFile)
        self._file.finish()
        return self._file.path

    def take_back(self) -> None:
        """Opens the file again that was released, and that all others have closed; they go on writing its fields."""
        assert isinstance(self._file, GrowingFile)
        self._go_on_in(self._file.path)
        self.leave_fields()

    # what a format adds

    def _checked(self, frames: FrameArrays) -> FrameArrays:
        """The frames, with what the format has of them; ArgumentError where they contradict themselves."""
        frames.check_series()
        return frames

    def _check_first(self, first: FrameArrays | None) -> None:
        """Raises ArgumentError where the first frame contradicts the options, UnsupportedFormatError, without the path,
        where a reader would not give it back; nothing is created yet."""

    def _make_group(self, first: FrameArrays | None) -> FrameGroup:
        """Makes the data sets for frames such as `first`, in the new file."""
        raise NotImplementedError

    def _go_on_in(self, path: str) -> None:
        """Opens a file that was closed here as one that grows, and its group."""
        raise NotImplementedError

    def _parts(self) -> list[GrowingData]:
        return [] if self._group is None else [self._group]

    def _check_announced(self, n_frames: int, *, complete: bool) -> None:
        """Raises ArgumentError for other numbers of frames than were announced."""

    # how

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
        """Makes the data sets of frames, with what the first frame has."""
        if self._group is not None:
            return
        with self._named():
            self._check_first(first)
        with self._all_or_nothing():
            group = self._make_group(first)
        if not isinstance(self._file, OutputPartFile):
            self._group = group
            return
        # it has its name already
        with self._all_or_nothing():
            group.flush()
            self._grow(self._file.finish)

    def _grow(self, close: Callable[[], str]) -> None:
        """Goes on in a new file as one that grows, after `close` has closed it under the name that it returns."""
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
        """Whatever is raised inside, also Ctrl-C, leaves parts of frames behind: nothing more is written then."""
        try:
            with hdf5_errors(self.path):
                yield
                self._file.check()
        except BaseException as error:
            self._broken = unless is None or not isinstance(error, unless)
            raise
