"""`FieldRecords`: encoders of frame records, one for each set of fields, and the losses of such records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.formats.record_writer import vector_names
from kinema.model.frame import VECTOR_FIELDS, float_name
from kinema.parallel.atom_records import AtomRecordsLike
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.record_files.shared_records import SharedRecords
from kinema.parallel.record_files.stamps import Stamp

MakeRecords = Callable[[tuple[str, ...], RankFrame, Stamp], AtomRecordsLike]


class FieldRecords:
    """The encoders of one file; a TRR file has records with different fields.

    `make`: makes the records for the fields of a frame, instead of the format's own.
    """

    def __init__(self, file: SharedRecords, make: MakeRecords | None = None) -> None:
        self._file, self._make = file, self._of_format if make is None else make
        self._asked = vector_names(file.request.options.get("fields"))
        self._made: dict[tuple[str, ...], AtomRecordsLike] = {}
        self._wide: set[str] = set()

    def fields_of(self, frame: RankFrame, number: int) -> tuple[str, ...]:
        """The fields to write of a frame; ArgumentError, the same on all ranks, if it lacks a field of the file."""
        file = self._file
        given = [name for name in VECTOR_FIELDS if name in frame.vectors]
        if file.format.fields_of_each_frame:
            fields = tuple(name for name in given if self._asked is None or name in self._asked)
            if not fields:
                raise ArgumentError(f"frame {number} has none of {', '.join(self._asked or ())}, expected one at least")
            return fields
        held = file.state.fields or file.opened.fields or self._asked or file.format.usual_fields(given)
        missing = [name for name in held if name not in given]
        if missing:
            path, format = file.request.path, file.request.format
            what = f"{path}: {format} frame {number}: the frame lacks {', '.join(missing)}, which the file holds"
            raise ArgumentError(what, path=path, frame=number)
        return tuple(name for name in VECTOR_FIELDS if name in held)

    def of(self, fields: tuple[str, ...], frame: RankFrame, stamp: Stamp) -> AtomRecordsLike:
        """The encoder for these fields; made for the first frame, and when the fields change. Collective."""
        records = self._made.get(fields)
        if records is None:
            records = self._file.agreement.together(lambda: self._make(fields, frame, stamp))
            if not self._made:
                self._file.marker = records.marker
        return records

    def took(self, fields: tuple[str, ...], frame: RankFrame, stamp: Stamp, records: AtomRecordsLike) -> None:
        """After a frame was taken: keeps its encoder for later frames, and notes the losses."""
        file = self._file
        self._made.setdefault(fields, records)
        left_out = [name for name in VECTOR_FIELDS if name in frame.vectors and name not in fields]
        file.losses.lose(f"{name} are not written: the file holds {', '.join(fields)}" for name in left_out)
        if stamp.number == 0:
            file.losses.lose(records.losses)
        wide = {name for name in fields if frame.vectors[name].dtype == np.float64}
        if wide - self._wide and stamp.number:
            file.losses.lose(self._make(fields, frame, stamp).losses)
        self._wide |= wide

    def _of_format(self, fields: tuple[str, ...], frame: RankFrame, stamp: Stamp) -> AtomRecordsLike:
        file, options, opened = self._file, self._file.request.options, self._file.opened
        dtype = options.get("dtype")
        dtype = opened.dtype if dtype is None else float_name(dtype)
        known: dict[str, Any] = {
            "fields": fields,
            "wide": [name for name, values in frame.vectors.items() if values.dtype == np.float64 and name in fields],
            "title": options.get("title"),
            "dtype": dtype if file.format.wide_records else None,
            "kinds": opened.kinds,
            "codes": file.codes,
        }
        if opened.trajectory is not None and not self._made:
            resumed = _core.AtomRecords.resume(opened.trajectory.core, **known)
            if resumed is not None:
                return resumed
        cell = stamp.cell if opened.cell is None else opened.cell
        return _core.AtomRecords(file.request.format, file.state.n_atoms, cell=cell if cell.any() else None, **known)
