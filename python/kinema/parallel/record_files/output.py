"""`RecordOutput`: rank 0's side of a file of records: it makes, continues, names and abandons the file."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, Error, InternalError
from kinema.base.notes import collected
from kinema.formats.all_formats import format_named
from kinema.formats.dlpoly.atoms import Kinds, kinds_of
from kinema.formats.record_writer import RecordWriter
from kinema.formats.writer import Writer
from kinema.model.atom_table import Atoms
from kinema.parallel.placers import FilePlacer
from kinema.parallel.rank_file import FileRequest, FileState
from kinema.trajectory import Trajectory, opening


@dataclass
class OpenedRecords:
    """Facts about the file that all ranks learn.

    `written_path`: the current name of the file.
    `end`: the byte after its last record; 0 for a new file.
    `first`, `last`: steps and times (ps) of the first and the last two frames.
    `cell`: (3, 3) of the first frame; None if there is no frame.
    `fields`, `dtype`, `precision`, `kinds`: of a file that is continued.
    `trajectory`: the frames of such a file.
    """

    written_path: str
    state: FileState
    end: int = 0
    first: tuple[list[int], list[float]] = field(default_factory=lambda: ([], []))
    last: tuple[list[int], list[float]] = field(default_factory=lambda: ([], []))
    cell: NDArray[np.float64] | None = None
    fields: list[str] | None = None
    dtype: str | None = None
    precision: float | None = None
    kinds: Kinds | None = None
    trajectory: Trajectory | None = None


class RecordOutput:
    """On rank 0: the format's ordinary writer holds name, lock and temporary file, and is given no frame.

    Rank 0 also writes the bytes that complete records, and the count.
    """

    def __init__(self, request: FileRequest) -> None:
        options: dict[str, Any] = dict(request.options)
        if request.resume_from is not None:
            options["resume_from"] = request.resume_from
        writer = Writer(
            request.path,
            request.n_atoms,
            mode=request.mode,
            overwrite=request.overwrite,
            keep_partial=request.keep_partial,
            workers=1,
            **{name: value for name, value in options.items() if name != "atoms"},
        )
        if not isinstance(writer, RecordWriter):
            raise InternalError(f"{request.path}: no file of records")
        self._writer, self._request = writer, request
        self._placer: FilePlacer | None = None
        self.codes: NDArray[np.uint32] | None = None

    def opened(self) -> OpenedRecords:
        """Facts about the file; `codes` has the kind of each atom."""
        writer, request = self._writer, self._request
        state = FileState(
            writer.n_atoms, writer.n_frames, writer.n_flushed, writer.fields, list(writer.notes), writer.losses
        )
        made = OpenedRecords(writer.written_path, state)
        table = request.options.get("atoms")
        if writer.n_frames:
            self._read(made)
            if format_named(request.format).labelled_records and table is None:
                with collected():
                    table = opening.open(self._request.path).atoms
        if table is not None:
            self._take_table(made, table)
        self._placer = FilePlacer(made.written_path, request.path)
        return made

    @property
    def placer(self) -> FilePlacer:
        """Rank 0's placer for the open file."""
        assert self._placer is not None
        return self._placer

    def _take_table(self, made: OpenedRecords, table: Atoms) -> None:
        kinds, self.codes = kinds_of(table)
        if len(self.codes) != self._writer.n_atoms:
            raise ArgumentError(f"atoms= has {len(self.codes)} atoms, and n_atoms= is {self._writer.n_atoms}")
        made.kinds = kinds

    def _read(self, made: OpenedRecords) -> None:
        """Reads the facts of a file that is continued."""
        path = self._request.path
        with collected():
            trajectory = opening.open(path)
            trajectory.scan()
        (part,) = trajectory.core.parts()
        steps, times = trajectory.steps, trajectory.times
        made.end = os.path.getsize(path)
        made.first = steps[:2].tolist(), times[:2].tolist()
        made.last = steps[-2:].tolist(), times[-2:].tolist()
        made.cell = trajectory[0].cell.astype(np.float64)
        made.fields = list(part["fields"])
        made.dtype = "float64" if part["wide_fields"] else "float32"
        made.trajectory = trajectory
        made.precision = format_named(self._request.format).written_precision(path, self._writer.n_atoms)

    def count(self, marker: tuple[int, bytes] | None) -> tuple[str, str | None]:
        """After frames are committed: writes the count, and gives the file the name under which they stay.

        Returns that name, and the temporary file that holds the frames, or None.
        """
        self.placer.sync()
        if marker is not None:
            self.placer.write_at(*marker)
            self.placer.sync()
        self._writer.name_committed()
        return self._writer.written_path, self._writer._temporary

    def publish(self, n_frames: int) -> list[str]:
        """Gives a finished file its name; removes a file without frames.

        The index is stored as the writer of one process does; the file is scanned, because each rank knows only some
        frames. Returns notes on that.
        """
        self._writer.finish_names()
        if not n_frames or not format_named(self._request.format).indexed:
            return []
        with collected() as notes:
            try:
                opening.open(self._request.path).scan()
            except Error as error:
                return [f"{self._request.path}: the index could not be stored: {error}"]
        return [note for note in notes if "index" in note]

    def abort(self) -> None:
        """As `kinema.Writer.abort`."""
        if self._placer is not None:
            self._placer.abandon()
        self._writer.abort()

    def cut(self, end: int) -> None:
        """Cuts the file after its last whole record, after a failure; if it cannot be cut, it stays torn."""
        with suppress(OSError):
            os.truncate(self._writer.written_path, end)
