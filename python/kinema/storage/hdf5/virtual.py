"""Virtual data sets resolved into the stored data sets that their values come from.

A missing source is an error: libhdf5 would silently return fill values instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import h5py

from kinema import _core
from kinema.base.errors import CorruptFileError, FileNotFound, UnsupportedFormatError
from kinema.storage.hdf5.chunks import NeedsLibrary, stored_array, take_rows
from kinema.storage.hdf5.file import OpenFile, open_checked
from kinema.storage.hdf5.filters import missing_filters, most_compressed
from kinema.storage.hdf5.stored_dataset import StoredDataset
from kinema.storage.hdf5.trust.other_files import drawn_in, find_file, numbered

Pieces = tuple[tuple[int, StoredDataset], ...]

_DEEPEST = 8
# bytes that a virtual data set may claim without any stored bytes
_FREE_BYTES = 1 << 24
# bytes of values that may be read if nothing was written
_FREE_VALUES = 1 << 27
# most reads of data sets that one read may cause
_MOST_READS = 1 << 18


def pieces_of(opened: OpenFile, dataset: Any) -> tuple[Pieces, int]:
    """(First row, array) for each part of a data set, in order and without holes; and the number of rows.

    Raises NeedsLibrary if sources do not follow one another along the frames, FileNotFound if a source is missing.
    """
    check_nesting(opened, dataset)
    with ExitStack() as files:
        pieces = _pieces(opened, dataset, files, _DEEPEST)
    if not dataset.shape:
        return pieces, 1
    return pieces, sum(array.shape[0] for _, array in pieces)


def values_of(opened: OpenFile, dataset: Any, rows: slice | int | None = None) -> Any:
    """Values of a data set: all, or of these rows.

    Values are held in memory: raises CorruptFileError if they are far more than the stored bytes can hold with any
    compression, and UnsupportedFormatError for filters that are not installed.
    """
    if dataset.is_virtual:
        check_virtual_claim(opened, dataset)
    elif rows is None:
        check_values_claim(opened, dataset, dataset.nbytes)
    else:
        n_rows = 1 if isinstance(rows, int) else len(range(dataset.shape[0])[rows])
        check_values_claim(opened, dataset, n_rows * (dataset.nbytes // max(1, dataset.shape[0])))
    if not dataset.is_virtual:
        _check_filters(opened, dataset)
    return dataset[()] if rows is None else dataset[rows]


def check_values_claim(opened: OpenFile, dataset: Any, wanted: int) -> None:
    """Raises CorruptFileError if `wanted` bytes of values would be held, and the stored bytes cannot hold as many."""
    if wanted <= _FREE_VALUES:
        return  # libhdf5 goes through all chunks to count the stored bytes
    stored = _bytes_behind(opened) if dataset.is_virtual else dataset.id.get_storage_size()
    if wanted > most_compressed(dataset) * stored:
        raise opened.corrupt(f"{dataset.name} claims {wanted} bytes, but only {stored} bytes are stored")


def check_row_claim(opened: OpenFile, dataset: Any, row_bytes: int) -> None:
    """As `check_values_claim` for one row, which is held whole; skips a data set without written values."""
    if row_bytes > _FREE_VALUES and (dataset.is_virtual or dataset.id.get_storage_size()):
        check_values_claim(opened, dataset, row_bytes)


def _bytes_behind(opened: OpenFile) -> int:
    """Bytes of a file and of all files that it draws in."""
    return opened.size + sum(os.path.getsize(one) for one in drawn_in(opened.path, "any"))


def check_virtual_claim(opened: OpenFile, dataset: Any) -> None:
    """Raises CorruptFileError for a virtual data set with far more values than its files can hold with any compression:
    a copy holds all values in memory. Also raises it for virtual data sets that are nested without end."""
    check_nesting(opened, dataset)
    behind = _bytes_behind(opened)
    if dataset.nbytes > _FREE_BYTES and dataset.nbytes > most_compressed(dataset) * behind:
        raise opened.corrupt(
            f"{dataset.name} claims {dataset.nbytes} bytes, and the files that it takes them from have {behind}"
        )


def check_nesting(opened: OpenFile, dataset: Any) -> None:
    """Raises CorruptFileError for nested virtual data sets that would keep libhdf5 busy for hours: in circles, at great
    depth, or each many times."""
    counts: dict[tuple[str, str], int | None] = {}
    with ExitStack() as files:
        opened_before: dict[str, Any] = {}

        def reads_of(node: Any, depth: int) -> int:
            """Number of reads of data sets that a read of this one causes."""
            if not node.is_virtual:
                return 1
            key = (os.path.realpath(node.file.filename), node.name)
            if key in counts:
                known = counts[key]
                if known is None:
                    raise opened.corrupt(f"{dataset.name} is a virtual data set of virtual data sets in a circle")
                return known
            if depth == 0:
                raise opened.corrupt(f"{dataset.name} is a virtual data set of virtual data sets without end")
            counts[key] = None
            total = 1
            for path, name in _sources_of(node):
                file = opened_before.get(path)
                if file is None:
                    file = opened_before[path] = files.enter_context(closing(open_checked(path)))
                source = file.get(name)
                if isinstance(source, h5py.Dataset):
                    total += reads_of(source, depth - 1)
            if total > _MOST_READS:
                raise opened.corrupt(f"{dataset.name} is a virtual data set that reads others more than {total} times")
            counts[key] = total
            return total

        reads_of(dataset, _DEEPEST)


def _sources_of(dataset: Any) -> Iterator[tuple[str, str]]:
    """Yields (existing file, name of data set) of all sources of a virtual data set, including matches of patterns."""
    holder = dataset.file.filename
    for source in dataset.virtual_sources():
        pattern = "%b" in source.file_name or "%b" in source.dset_name
        for number in range(_MOST_READS if pattern else 1):
            file, name = (
                (numbered(source.file_name, number), numbered(source.dset_name, number))
                if pattern
                else (source.file_name, source.dset_name)
            )
            path = holder if file == "." else find_file(holder, "virtual", file)
            if path is None:
                break
            if pattern:
                with closing(open_checked(path)) as there:
                    if name not in there:
                        break
            yield path, name


def check_sources(opened: OpenFile, dataset: Any, depth: int = _DEEPEST) -> None:
    """Checks the sources of a virtual data set. Raises FileNotFound for a missing file, CorruptFileError for a missing
    data set, and UnsupportedFormatError if not even h5py can decode the values of a data set."""
    if depth == _DEEPEST:
        check_nesting(opened, dataset)
    if not dataset.is_virtual:
        _check_filters(opened, dataset)
        return
    seen: set[tuple[str, str]] = set()
    for source in dataset.virtual_sources():
        name = (source.file_name, source.dset_name)
        if name in seen or "%b" in source.file_name or "%b" in source.dset_name:
            continue  # a pattern matches any number of sources; the existing ones determine the extent
        seen.add(name)
        with ExitStack() as files:
            origin = _source(opened, dataset, source, files)
            if depth > 0:
                check_sources(opened, origin, depth - 1)


def _check_filters(opened: OpenFile, dataset: Any) -> None:
    missing = missing_filters(dataset)
    if missing:
        names = ", ".join(f"{number} ({_core.filter_name(number) or 'unknown'})" for number in missing)
        raise UnsupportedFormatError(
            f"{dataset.name} is compressed with HDF5 filter {names}, which is not installed",
            at=opened.path,
            format=opened.format,
        )


def _pieces(opened: OpenFile, dataset: Any, files: ExitStack, depth: int) -> Pieces:
    if not dataset.is_virtual:
        return ((0, stored_array(opened, dataset)),)
    if depth == 0:
        raise opened.corrupt(f"{dataset.name} is a virtual data set of virtual data sets without end")
    pieces: list[tuple[int, StoredDataset]] = []
    for source in dataset.virtual_sources():
        if "%b" in source.file_name or "%b" in source.dset_name:
            raise NeedsLibrary("the sources of the virtual data set are named by a pattern")
        origin = _source(opened, dataset, source, files)
        target = _box(source.vspace, dataset.shape)
        taken = _box(source.src_space, origin.shape)
        if target is None or taken is None or origin.dtype != dataset.dtype or origin.ndim != dataset.ndim:
            raise NeedsLibrary("the virtual data set maps more than runs of whole frames")
        if target[1:] != tuple((0, n) for n in dataset.shape[1:]) or taken[1:] != tuple(
            (0, n) for n in origin.shape[1:]
        ):
            raise NeedsLibrary("the virtual data set joins atoms or components, not frames")
        row, (start, stop) = target[0][0], taken[0]
        for first, array in _pieces(opened, origin, files, depth - 1):
            begin, end = max(start, first), min(stop, first + array.shape[0])
            if begin < end:
                pieces.append((row + begin - start, take_rows(array, begin - first, end - first)))
    pieces.sort(key=lambda piece: piece[0])
    expected = 0
    for first, array in pieces:
        if first != expected:
            raise NeedsLibrary("the virtual data set has frames that no source gives, or that two give")
        expected += array.shape[0]
    if expected != dataset.shape[0]:
        raise NeedsLibrary("the virtual data set has frames that no source gives")
    return tuple(pieces)


def _source(opened: OpenFile, dataset: Any, source: Any, files: ExitStack) -> Any:
    """The data set, in its own file, from which a virtual data set takes values."""
    holder = dataset.file
    if source.file_name == ".":
        file, path = holder, holder.filename
    else:
        path = find_file(holder.filename, "virtual", source.file_name)
        if path is None:
            raise FileNotFound(
                f"{source.file_name} is missing, from which virtual data set {dataset.name} takes values",
                at=opened.path,
            )
        opened.maps.watch(path)
        # it was checked together with the file that draws it in
        file = files.enter_context(closing(open_checked(path)))
    node = file.get(source.dset_name)
    if not isinstance(node, h5py.Dataset):
        raise CorruptFileError(
            f"virtual data set {dataset.name} takes values from {source.dset_name} of {path}, "
            "which has no such data set",
            at=opened.path,
            format="H5MD",
        )
    return node


def _box(space: Any, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
    """(Start, stop) along every dimension of a selection that is a single box; None for other selections."""
    kind = space.get_select_type()
    if kind == h5py.h5s.SEL_ALL:
        return tuple((0, n) for n in shape)
    if kind != h5py.h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        return None
    result = []
    for start, stride, count, block in zip(*space.get_regular_hyperslab(), strict=True):
        if h5py.h5s.UNLIMITED in (count, block):
            return None
        if count != 1 and stride != block:
            return None
        result.append((int(start), int(start + count * block)))
    return tuple(result)
