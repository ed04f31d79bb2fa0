"""`RowVerification`: rows of an HDF5 file are read back by a rank other than the one that wrote or encoded them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import CorruptFileError, Error, from_os
from kinema.parallel.agreement import Agreement
from kinema.parallel.placers import bytes_of
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.verification import shift_between_nodes
from kinema.storage.hdf5.file import open_checked

_BYTES = 8 << 20


@dataclass(frozen=True)
class WrittenRows:
    """Rows of a field that a rank has written or encoded for its atoms, with a checksum of each row's stored values."""

    field: str
    first: int
    first_atom: int
    n_atoms: int
    checksums: tuple[int, ...]


class RowVerification:
    """Data that this rank has written or encoded since the last check. Made and used by all ranks.

    Checksums are taken of values in the units and type of the file, so that chunks which are rewritten with more rows
    can be compared too.

    `words`: description of the method for users.
    """

    def __init__(self, agreement: Agreement, request: FileRequest) -> None:
        self._agreement, self._request = agreement, request
        self._rows: list[WrittenRows] = []
        self._shift, self.words = shift_between_nodes(agreement)

    def add(self, field: str, first: int, prepared: Sequence[NDArray[Any]], first_atom: int = 0) -> None:
        """Adds rows of a field, (n_atoms, 3) each in the units and type of the file, from row `first` and atom
        `first_atom` of the data set on."""
        n_atoms = len(prepared[0])
        self._rows.append(WrittenRows(field, first, first_atom, n_atoms, tuple(_checksum(one) for one in prepared)))

    def found(self, path: str, places: Mapping[str, str]) -> Error | None:
        """The error, as this rank finds it, if data are not in the file as written, or cannot be read; collective.

        `path` is the current path of the file with this rank's rows, and `places` gives the name of each field's data
        set. All ranks have closed or flushed their data.
        """
        agreement, mine = self._agreement, (path, dict(places), self._rows)
        self._rows = []
        written_by = (agreement.rank + self._shift) % agreement.size
        reader = (agreement.rank - self._shift) % agreement.size
        path, places, rows = agreement.comm.sendrecv(mine, reader, source=written_by)
        if not rows:
            return None
        try:
            _drop_pages(path)
            with closing(open_checked(path)) as h5:
                for one in rows:
                    error = self._compared(h5[places[one.field]], one, written_by)
                    if error is not None:
                        return error
        except OSError as error:
            return from_os("cannot verify the file", error, path=self._request.path)
        except Error as error:
            return error
        return None

    def _compared(self, dataset: Any, rows: WrittenRows, written_by: int) -> CorruptFileError | None:
        at_once = max(1, _BYTES // max(1, dataset.dtype.itemsize * 3 * rows.n_atoms))
        atoms = slice(rows.first_atom, rows.first_atom + rows.n_atoms)
        for done in range(0, len(rows.checksums), at_once):
            begin, part = rows.first + done, rows.checksums[done : done + at_once]
            # fewer if the file has fewer
            values = dataset[begin : begin + len(part), atoms]
            for number, expected in enumerate(part, begin):
                is_there = number - begin < len(values)
                if is_there and _checksum(values[number - begin]) == expected:
                    continue
                path, format = self._request.path, self._request.format
                what = (
                    f"{path}: {format} frame {number}: {dataset.name} is not as it was written, expected the values "
                    f"of rank {written_by}, found {'other values' if is_there else f'{len(dataset)} rows'}"
                )
                return CorruptFileError(what, path=path, format=format, frame=number)
        return None


def _checksum(values: NDArray[Any]) -> int:
    return zlib.crc32(bytes_of(np.ascontiguousarray(values)))


def _drop_pages(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
