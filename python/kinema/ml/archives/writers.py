"""The archive while it is written: space allocated at the beginning, or data sets of filtered chunks that grow.

A conversion with a checkpoint can continue either: see `kinema.files.conversion.resumable.BlockFile`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import Error, UnsupportedFormatError
from kinema.formats.hdf5.series import Series
from kinema.ml.archives.layout import ArrayLayout
from kinema.ml.archives.tasks import WholeRows
from kinema.ml.stored.origin import SampleOrigin
from kinema.ml.stored.samples import OWN_GROUP, SampleFile, samples_of
from kinema.parallel.placers import FilePlacer
from kinema.storage.hdf5.chunk_index import full_chunks
from kinema.storage.hdf5.output import GrowingFile, NewFile, OutputPart, OutputPartFile, hdf5_errors
from kinema.storage.hdf5.storage import Storage, create_dataset, write_dataset
from kinema.storage.provenance import Provenance

# bytes of a file after which the kernel is told to begin writing
_WRITEBACK_BYTES = 32 << 20


def write_structure(
    h5: Any, fields: Sequence[ArrayLayout], origin: SampleOrigin, provenance: Provenance, path: str
) -> dict[str, Any]:
    """Creates data sets without values, the origin of samples and the provenance. Returns the data sets."""
    made = {}
    with hdf5_errors(path):
        write_dataset(h5, f"{OWN_GROUP}/provenance", np.array(provenance.json().encode()))
        for name, values in origin.table().items():
            write_dataset(h5, name, values)
        for one in fields:
            storage = one.storage
            if storage.filters:
                storage = Storage((0, *storage.shape[1:]), storage.dtype, storage.chunks, storage.filters)
            try:
                made[one.name] = create_dataset(h5, one.name, storage)
            except (TypeError, ValueError) as error:
                raise UnsupportedFormatError(f"HDF5 cannot hold {one}: {error}", at=path) from None
    return made


class _Archive:
    """Base class: a context manager that closes the archive."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(whole=error is None)

    def close(self, *, whole: bool) -> None:
        """Closes the file; `whole`: all samples were taken."""
        raise NotImplementedError


class PlacedArchive(_Archive):
    """Writes samples to their places, from any thread, in any order.

    `path`: the file with the structure, closed.
    `name`: name of the archive in messages.
    `first`: number of samples at the front that are already there.
    """

    def __init__(self, path: str, name: str, fields: Sequence[str], first: int = 0) -> None:
        self._files: Mapping[str, SampleFile] = {one.name: one for one in samples_of(path, fields, whole=False)}
        self._placer = FilePlacer(path, name)
        self._done = WholeRows(first, fields)
        self._unsynced, self._lock = 0, threading.Lock()
        self.n_flushed = first

    @property
    def n_frames(self) -> int:
        """Number of whole samples at the front."""
        return self._done.front

    def flush(self) -> None:
        """Makes sure that the samples counted by `n_frames` are in the file."""
        self.n_flushed = self.n_frames

    def settled(self) -> list[tuple[int, int]]:
        """Bytes of the samples counted by `n_frames`: in the file, but perhaps not yet on the storage."""
        runs = []
        for one in self._files.values():
            place: Any = one.place
            if isinstance(place, tuple):
                runs.append((place[0], place[0] + self.n_frames * one.row_bytes))
                continue
            length = place.chunks[0] * one.row_bytes
            runs += [(int(at), int(at) + length) for at in place.addresses[: self.n_frames // place.chunks[0]]]
        return runs

    def write(self, name: str, first: int, rows: NDArray[np.uint8]) -> None:
        """Writes rows of an array, (n, bytes of a sample), to their places."""
        one = self._files[name]
        if isinstance(one.place, tuple):
            self._placer.write_at(one.place[0] + first * one.row_bytes, rows.reshape(-1))
        else:
            place: Any = one.place
            length, at, stop = place.chunks[0], first, first + len(rows)
            while at < stop:
                end = min(stop, at - at % length + length)
                address = int(place.addresses[at // length]) + at % length * one.row_bytes
                self._placer.write_at(address, rows[at - first : end - first].reshape(-1))
                at = end
        self._done.add(name, first, first + len(rows))
        with self._lock:
            self._unsynced += rows.nbytes
            due = self._unsynced >= _WRITEBACK_BYTES
            self._unsynced = 0 if due else self._unsynced
        if due:
            self._placer.begin_sync()

    def close(self, *, whole: bool) -> None:
        """As `_Archive.close`: synced if whole."""
        self.flush()
        try:
            if whole:
                self._placer.sync()
        finally:
            self._placer.close()


class GrowingArchive(_Archive):
    """Takes samples in their order; threads in Rust encode the chunks."""

    def __init__(self, file: NewFile | GrowingFile, fields: Sequence[ArrayLayout], workers: int) -> None:
        """`file` already has its structure."""
        self._file = file
        with hdf5_errors(file.path):
            datasets = {one.name: file.h5[one.name] for one in fields}
            rows = min(len(dataset) for dataset in datasets.values())
            self._series = {name: Series(dataset, rows=rows, workers=workers) for name, dataset in datasets.items()}
        self.n_flushed = rows
        # stays false if an error or Ctrl-C stops `extend` in the middle
        self._is_between = True

    @property
    def n_frames(self) -> int:
        """Number of samples taken."""
        return min(series.rows for series in self._series.values())

    def extend(self, name: str, values: NDArray[Any]) -> None:
        """Takes the next samples of an array."""
        self._is_between = False
        with hdf5_errors(self._file.path):
            self._series[name].extend(values)
        self._is_between = True

    def flush(self) -> None:
        """Commits the samples taken, if the file grows."""
        if isinstance(self._file, GrowingFile):
            with hdf5_errors(self._file.path):
                for series in self._series.values():
                    series.flush()
                self._file.commit()
            self.n_flushed = self.n_frames

    def settled(self) -> list[tuple[int, int]]:
        """Bytes of the chunks in the file that have all their samples."""
        return full_chunks(self._file.h5)

    def close(self, *, whole: bool) -> None:
        """As `_Archive.close`. A file that grows keeps the samples taken."""
        if not whole:
            with suppress(Error):
                if self._is_between:
                    self.flush()
            self._file.discard()
            return
        with hdf5_errors(self._file.path):
            for series in self._series.values():
                series.finish()
        if isinstance(self._file, GrowingFile):
            self._file.finish()
        else:
            self._file.keep(protect=False)
        self.n_flushed = self.n_frames


def make_part(part: OutputPart, fields: Sequence[ArrayLayout], origin: SampleOrigin, provenance: Provenance) -> None:
    """Makes the structure in the temporary file of a conversion with a checkpoint; does nothing if it is there."""
    if os.path.getsize(part.temporary):
        return
    file = OutputPartFile(part)
    try:
        write_structure(file.h5, fields, origin, provenance, part.path)
        file.finish()
    except BaseException:
        file.discard()
        raise
