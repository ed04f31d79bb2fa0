"""HDF5 data sets opened with the MPI-IO driver: descriptions that name them, and independent or collective reads.

`collective` decides the order of collective reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, InternalError
from kinema.base.input_files import check_regular
from kinema.formats.h5md.description import FieldDescription, H5mdDescription
from kinema.formats.h5md.read.row_readers import CellRows, Floats, StoredRows
from kinema.storage.hdf5.file import reading
from kinema.storage.hdf5.filters import filters_of, missing_filters
from kinema.storage.hdf5.stored_dataset import NOT_STORED, StoredDataset

_FIELDS: tuple[Literal["positions", "velocities", "forces", "cell"], ...] = (
    "positions",
    "velocities",
    "forces",
    "cell",
)
_CHUNK_CACHE = 8 << 20


@dataclass(frozen=True)
class MpioSet:
    """A data set and its file."""

    path: str
    name: str
    fixed: bool
    """One row serves all frames."""
    cache: int
    """Bytes for decoded chunks."""
    flaw: str | None
    """Why it cannot be read collectively, in words; "" if it can, None if this is checked after opening.

    In collective reads, HDF5 1.10.8 returns wrong numbers for chunks that were stored without their filters, which it
    decodes as if they had been filtered, and for chunks that were never written."""


@dataclass(frozen=True)
class RowRange:
    """Rows `first`, `first + step`, ... of a data set, `count` of them."""

    first: int
    step: int
    count: int


ReadRows = Callable[[MpioSet, NDArray[np.int64]], NDArray[Any]]


@dataclass(frozen=True)
class MpioRows:
    """Rows of a data set, (n,) -> (n, ...) in the file's own numbers. Picklable; it can read after it is `bound`."""

    source: MpioSet
    read: ReadRows | None = None

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows, in any order and repeated as asked; a fixed data set gives the same for every row."""
        if self.read is None:
            raise InternalError(f"{self.source.path}: rows are asked of a file that is not open")
        return self.read(self.source, rows)


@dataclass(frozen=True)
class _Refused:
    """Stands in for a reader of rows: raises an error when rows are needed."""

    path: str
    what: str

    def __call__(self, _rows: NDArray[np.int64]) -> NoReturn:
        raise ArgumentError(
            f"{self.what} cannot be read through MPI-IO; take access='direct' (KinemaReader: no driver=)",
            at=self.path,
            format="H5MD",
        )


# -- descriptions ------------------------------------------------------------------------------------------------------


def through_mpio(description: H5mdDescription) -> H5mdDescription:
    """The same file with all fields read through MPI-IO; picklable, and not usable until it is `bound`.

    A field that libhdf5 does not return as stored (images, ids, virtual data sets) raises ArgumentError when read.
    """
    return _with_readers(description, lambda field, name: _through_mpio(description, field, name))


def bound(description: H5mdDescription, read: ReadRows) -> H5mdDescription:
    """The same description, with `read` in all readers that `through_mpio` has made."""

    def bind(field: FieldDescription, _name: str) -> Any:
        reader = field.reader
        if isinstance(reader, Floats | CellRows) and isinstance(reader.rows, MpioRows):
            return replace(reader, rows=MpioRows(reader.rows.source, read))
        return reader

    return _with_readers(description, bind)


def sets_of(descriptions: Iterable[H5mdDescription]) -> list[MpioSet]:
    """The data sets that `through_mpio` has found, in the same order on all ranks."""
    found: dict[MpioSet, None] = {}
    for description in descriptions:
        for name in _FIELDS:
            field: FieldDescription | None = getattr(description, name)
            rows = getattr(None if field is None else field.reader, "rows", None)
            if isinstance(rows, MpioRows):
                found[rows.source] = None
    return list(found)


def _with_readers(description: H5mdDescription, reader: Callable[[FieldDescription, str], Any]) -> H5mdDescription:
    changed: dict[str, Any] = {}
    for name in _FIELDS:
        field: FieldDescription | None = getattr(description, name)
        if field is not None:
            # the pieces stay, because identities are made from their bytes
            changed[name] = replace(field, reader=reader(field, name))
    return replace(description, **changed)


def _through_mpio(description: H5mdDescription, field: FieldDescription, name: str) -> Any:
    path = description.path
    if isinstance(field.reader, Floats | CellRows) and isinstance(field.reader.rows, StoredRows):
        # libhdf5 reads it, because of its filters, or because this libhdf5 does not list chunks
        stored = field.reader.rows
        return replace(field.reader, rows=MpioRows(MpioSet(path, stored.name, field.fixed, stored.cache, None)))
    if field.reader is not None:
        return _Refused(path, f"{name} ({field.reason})")
    if len(field.pieces) != 1 or field.pieces[0][1].file != 0:
        return _Refused(path, f"{name} (a virtual data set, or one of another file)")
    array = field.pieces[0][1]
    if array.inline is not None:
        return None  # its values are in the description
    chunk = int(np.prod(array.chunks or (0,), dtype=np.object_)) * np.dtype(array.dtype).itemsize
    rows = MpioRows(MpioSet(path, array.name, field.fixed, max(_CHUNK_CACHE, 2 * chunk), _flaw(array)))
    return CellRows(rows) if name == "cell" else Floats(rows, (description.n_atoms, 3))


# -- files -------------------------------------------------------------------------------------------------------------


class MpioFiles:
    """HDF5 files that all ranks of a communicator have open; `open` and `close` are collective.

    MPI_Finalize closes files that are still open when the process ends. If `collective`, `read` and `take_part` are
    collective too: all ranks call one of them, for the same data set.
    """

    def __init__(self, comm: Any, sets: Iterable[MpioSet], *, collective: bool) -> None:
        self._comm = comm
        self._collective = collective
        self._wanted = list(sets)
        self._files: dict[str, Any] = {}
        self._sets: dict[MpioSet, Any] = {}
        self._refused: dict[MpioSet, str] = {}
        self._transfer = h5py.h5p.create(h5py.h5p.DATASET_XFER)
        self._transfer.set_dxpl_mpio(h5py.h5fd.MPIO_COLLECTIVE if collective else h5py.h5fd.MPIO_INDEPENDENT)

    def open(self) -> None:
        """Opens files and data sets; after an error, `close` closes those that are open."""
        for path in dict.fromkeys(one.path for one in self._wanted):
            cache = max(one.cache for one in self._wanted if one.path == path)
            check_regular(path, "HDF5 file")
            with reading(path):
                file = self._files[path] = h5py.File(
                    path, "r", driver="mpio", comm=self._comm, locking=False, rdcc_nbytes=cache
                )
                # only `close` closes it: ranks collect garbage at different times, and would wait for each other
                h5py.h5i.inc_ref(file.id)
        for one in self._wanted:
            with reading(one.path):
                self._sets[one] = self._files[one.path][one.name]
                self._check(one, self._sets[one])

    def shape(self, source: MpioSet) -> tuple[int, ...]:
        """The shape of a data set."""
        return tuple(self._sets[source].shape)

    def empty(self, source: MpioSet, shape: tuple[int, ...]) -> NDArray[Any]:
        """An empty array with the data set's type."""
        return np.empty(shape, self._sets[source].dtype.str)

    def read(self, source: MpioSet, rows: RowRange, out: NDArray[Any]) -> None:
        """Fills `out`, (rows.count, ...) in the data set's own type; with all of a fixed data set.

        Raises ArgumentError, and reads nothing, if libhdf5 cannot read the data set in this way.
        """
        if source in self._refused:
            raise ArgumentError(f"{self._refused[source]}", at=source.path, format="H5MD")
        dataset = self._sets[source]
        space = dataset.id.get_space()
        if not source.fixed:
            rest = tuple(dataset.shape[1:])
            space.select_hyperslab(
                (rows.first, *(0 for _ in rest)), (rows.count, *rest), (rows.step, *(1 for _ in rest))
            )
        self._read(source, h5py.h5s.create_simple(out.shape), space, out)

    def take_part(self, source: MpioSet) -> None:
        """Reads nothing, while other ranks read this data set collectively."""
        space, memory = self._sets[source].id.get_space(), h5py.h5s.create_simple((1,))
        space.select_none()
        memory.select_none()
        self._read(source, memory, space, self.empty(source, (1,)))

    def close(self) -> None:
        """Closes the files; collective."""
        self._sets.clear()
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _check(self, source: MpioSet, dataset: Any) -> None:
        """Loads filters that libhdf5 lacks, and notes the reason if a data set must not be read."""
        if dataset.is_virtual:
            self._refused[source] = (
                f"{source.name} is a virtual data set; take access='direct' (KinemaReader: no driver=)"
            )
            return
        missing_filters(dataset)  # registers the filters that are available
        if self._collective:
            flaw = _flaw_of_unlisted(dataset, len(filters_of(dataset))) if source.flaw is None else source.flaw
            if flaw:
                self._refused[source] = f"{source.name} {flaw}; take access='hdf5-mpio-independent'"

    def _read(self, source: MpioSet, memory: Any, space: Any, out: NDArray[Any]) -> None:
        with reading(source.path, "values"):
            self._sets[source].id.read(memory, space, out, dxpl=self._transfer)


def evenly_spaced(rows: NDArray[np.int64]) -> Iterator[RowRange]:
    """Ascending rows without repeats, in as few runs as one common step or runs of neighbours allow."""
    steps = np.diff(rows)
    if len(steps) == 0 or (steps == steps[0]).all():
        yield RowRange(int(rows[0]), int(steps[0]) if len(steps) else 1, len(rows))
        return
    for run in np.split(rows, np.flatnonzero(steps != 1) + 1):
        yield RowRange(int(run[0]), 1, len(run))


def _flaw(array: StoredDataset) -> str:
    """See `MpioSet`."""
    if array.filters and (array.masks.any() or array.partial_chunks_unfiltered):
        return "has chunks that were stored without its filters"
    if array.chunks is not None and (array.addresses == np.uint64(NOT_STORED)).any():
        return "has chunks that were never written"
    return ""


def _flaw_of_unlisted(dataset: Any, n_filters: int) -> str:
    """As `_flaw`, if chunks are counted but not listed."""
    if n_filters:
        return "may have chunks that were stored without its filters"
    if dataset.chunks is not None:
        whole = np.prod([-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True)], dtype=np.object_)
        if dataset.id.get_num_chunks() != whole:
            return "has chunks that were never written"
    return ""
