"""`RowVerification`: rows of an HDF5 file that are read back by another rank than the one that encoded them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.errors import CorruptFileError, Error, from_os
from kinema.formats.h5md.write.encoding import ChunkEncoder
from kinema.formats.hdf5.file import open_hdf5
from kinema.writing.parallel.agreement import Agreement
from kinema.writing.parallel.placers import bytes_of
from kinema.writing.parallel.rank_file import FileRequest
from kinema.writing.parallel.verification import shift_between_nodes

__all__ = ["RowVerification"]

_BYTES = 8 << 20


@dataclass(frozen=True)
class EncodedSums:
    """Rows of a field that a rank has encoded, and a checksum of the stored values of each."""

    field: str
    first: int
    checksums: tuple[int, ...]


class RowVerification:
    """What this rank has encoded since the last check. Made and used by all ranks.

    Checksums are those of values in the units and the type of the file, so that chunks which are written again with
    more rows can be compared as well.

    Attributes
    ----------
    words : str
        How it is done, for people.
    """

    def __init__(self, agreement: Agreement, request: FileRequest) -> None:
        self._agreement, self._request = agreement, request
        self._rows: list[EncodedSums] = []
        self._shift, self.words = shift_between_nodes(agreement)

    def add(self, field: str, encoder: ChunkEncoder, first: int, values: Iterable[NDArray[Any]]) -> None:
        """These rows of a field, from `first` on, are encoded by this rank."""
        prepared = (encoder.prepared(one[None]) for one in values)
        self._rows.append(EncodedSums(field, first, tuple(_checksum(one) for one in prepared)))

    def found(self, path: str, places: Mapping[str, str]) -> Error | None:
        """What is not in the file as it was encoded, or could not be read, as this rank finds; collective.

        `path` is where the file is now, with all rows, and `places` has the name of the data set of each field.
        """
        agreement, rows = self._agreement, self._rows
        self._rows = []
        encoded_by = (agreement.rank + self._shift) % agreement.size
        reader = (agreement.rank - self._shift) % agreement.size
        rows = agreement.comm.sendrecv(rows, reader, source=encoded_by)
        try:
            _drop_pages(path)
            with open_hdf5(path) as h5:
                for one in rows:
                    error = self._compared(h5[places[one.field]], one, encoded_by)
                    if error is not None:
                        return error
        except OSError as error:
            return from_os("cannot verify the file", error, path=self._request.path)
        except Error as error:
            return error
        return None

    def _compared(self, dataset: Any, rows: EncodedSums, encoded_by: int) -> CorruptFileError | None:
        at_once = max(1, _BYTES // max(1, dataset.dtype.itemsize * int(np.prod(dataset.shape[1:]))))
        for done in range(0, len(rows.checksums), at_once):
            begin, part = rows.first + done, rows.checksums[done : done + at_once]
            # fewer where the file has fewer
            values = dataset[begin : begin + len(part)]
            for number, expected in enumerate(part, begin):
                is_there = number - begin < len(values)
                if is_there and _checksum(values[number - begin]) == expected:
                    continue
                path, format = self._request.path, self._request.format
                what = (
                    f"{path}: {format} frame {number}: {dataset.name} is not as it was written, expected the values "
                    f"that rank {encoded_by} encoded, found {'other values' if is_there else f'{len(dataset)} rows'}"
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
