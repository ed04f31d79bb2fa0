"""`Hdf5Sink`, `H5mdSink`: the file of a writer, for processes that read, encode or write frames together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kinema.formats.frame_sink import StoredFrames
from kinema.formats.given_frames import AnnouncedRows, FrameArrays
from kinema.formats.h5md.write.encoding import ChunkEncoder
from kinema.formats.h5md.write.series import CountedRows
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.hdf5.writer import Hdf5Writer
from kinema.storage.hdf5.output import GrowingFile

__all__ = ["H5mdSink", "Hdf5Sink"]


class Hdf5Sink:
    """See `kinema.formats.frame_sink.FrameSink`. The writer makes the data sets, and what it notes is its.

    Attributes
    ----------
    writer : Hdf5Writer
    """

    def __init__(self, writer: Hdf5Writer) -> None:
        self.writer = writer

    @property
    def n_frames(self) -> int:
        """As `FrameSink.n_frames`."""
        return self.writer.n_frames

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        """As `FrameSink.begin`: how chunks of each field are made, for processes that encode what `stored` takes."""
        self.writer._require_open()
        self.writer._begin(self.writer._checked(first))
        return self.encoders

    def check(self, frames: FrameArrays, *, ahead: int = 0) -> None:
        """Raises as `rows` would for frames of which there may be no values, after `ahead` others."""
        self.writer._require_open()
        self.writer._check(self.writer._checked(frames), self.n_frames + ahead)

    def rows(self, frames: FrameArrays) -> None:
        """As `FrameSink.rows`."""
        self.writer.write(
            frames.fields.get("positions"),
            velocities=frames.fields.get("velocities"),
            forces=frames.fields.get("forces"),
            cell=frames.cells,
            step=frames.steps,
            time=frames.times,
        )

    def stored(self, frames: StoredFrames) -> None:
        """As `FrameSink.stored`."""
        self.writer._require_open()
        for chunks in frames.chunks:
            for name, encoded in chunks.items():
                self._fields[name].announce(encoded)
        if frames.not_finite is not None:
            self.writer._note_not_finite_frame(frames.not_finite)
        fields: dict[str, Any] = {name: AnnouncedRows(frames.n_frames, kind) for name, kind in frames.kinds.items()}
        self.writer._take(FrameArrays(fields, frames.cells, frames.steps, frames.times))

    def commit(self) -> None:
        """As `FrameSink.commit`."""
        self.writer.flush()

    def finish(self, check: Callable[[str], object] | None = None) -> None:
        """As `FrameSink.finish`."""
        self.writer.close(check)

    # for others who write values into the file

    @property
    def path(self) -> str:
        """Where the bytes are now."""
        file = self.writer._file
        return file.path if isinstance(file, GrowingFile) else file.temporary

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
        return self.path, {name: dataset.name for name, dataset in self.datasets.items()}

    @property
    def last_step(self) -> int | None:
        """Of the last frame that was taken."""
        return None if self.writer._group is None else self.writer._group.last_step

    def leave_fields(self) -> None:
        """From here on rows of all fields are written by others, and counted here."""
        for name, series in self._fields.items():
            self._fields[name] = CountedRows(series.encoder, series.dataset, series.rows)

    def release(self) -> str:
        """Commits and closes the file, for others who write into it until `take_back`; returns where it is."""
        self.commit()
        file = self.writer._file
        assert isinstance(file, GrowingFile)
        file.finish()
        return file.path

    def take_back(self) -> None:
        """Opens the file again that was released, and that all others have closed; they go on writing its fields."""
        file = self.writer._file
        assert isinstance(file, GrowingFile)
        self.writer._go_on_in(file.path)
        self.leave_fields()

    @property
    def _fields(self) -> dict[str, Any]:
        return {} if self.writer._group is None else self.writer._group.fields


class H5mdSink(Hdf5Sink):
    """The sink of an H5MD file, whose fields others may write into space that is made for them."""

    writer: H5mdWriter

    @property
    def group_name(self) -> str:
        """Of the particles group of a new file."""
        return self.writer._options.group

    def allocate_early(self) -> None:
        """Data sets of fields that are made later have their space from the beginning: others write into it."""
        self.writer._options = replace(self.writer._options, allocate_early=True)

    def make_room(self, rows: int) -> None:
        """Fields of a file that grows get this many rows at the least, whose values others write before they count."""
        with self.writer._all_or_nothing():
            for dataset in self.datasets.values():
                if len(dataset) < rows:
                    dataset.resize(rows, axis=0)

    def trim(self) -> None:
        """Fields of a file that grows, all of which is committed, lose the rows after the last frame."""
        file = self.writer._file
        assert isinstance(file, GrowingFile)
        with self.writer._all_or_nothing():
            for dataset in self.datasets.values():
                dataset.resize(self.n_frames, axis=0)
            file.commit(shrinks=True)

    def places_of_fields(self, first: FrameArrays) -> dict[str, int]:
        """The byte at which the values of each field begin, with layout "contiguous"; to be asked before any frame is
        taken. Data sets are made for frames such as `first`, and `leave_fields` holds from here on."""
        self.allocate_early()
        self.begin(first)
        self.leave_fields()
        return {name: int(dataset.id.get_offset()) for name, dataset in self.datasets.items()}
