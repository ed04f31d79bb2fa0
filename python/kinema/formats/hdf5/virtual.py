"""Virtual data sets resolved into the stored data sets that their values come from.

A missing source is an error: libhdf5 would give fill values in its place, silently.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

import h5py

from kinema import _core
from kinema.errors import CorruptFileError, FileNotFound, UnsupportedFormatError
from kinema.formats.hdf5.chunks import NeedsLibrary, stored_array, take_rows
from kinema.formats.hdf5.file import OpenFile, open_checked
from kinema.formats.hdf5.filters import missing_filters
from kinema.formats.hdf5.stored_dataset import StoredDataset
from kinema.formats.hdf5.trust.other_files import find_file

__all__ = ["Pieces", "check_sources", "pieces_of"]

Pieces = tuple[tuple[int, StoredDataset], ...]

_DEEPEST = 8


def pieces_of(opened: OpenFile, dataset: Any) -> tuple[Pieces, int]:
    """(First row, array) of everything that a data set consists of, in order and without holes; and its number of rows.

    Raises NeedsLibrary where sources do not lie one behind the other along the frames, FileNotFound for a source that
    is missing.
    """
    with ExitStack() as files:
        pieces = _pieces(opened, dataset, files, _DEEPEST)
    if not dataset.shape:
        return pieces, 1
    return pieces, sum(array.shape[0] for _, array in pieces)


def check_sources(opened: OpenFile, dataset: Any, depth: int = _DEEPEST) -> None:
    """Raises FileNotFound for a file, CorruptFileError for a data set that a virtual data set takes values from, and
    UnsupportedFormatError where not even h5py can decode the values of a data set."""
    if not dataset.is_virtual:
        _check_filters(opened, dataset)
        return
    seen: set[tuple[str, str]] = set()
    for source in dataset.virtual_sources():
        name = (source.file_name, source.dset_name)
        if name in seen or "%b" in source.file_name or "%b" in source.dset_name:
            continue  # a pattern is for any number of sources; those that are there make the extent
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
            f"{opened.path}: {dataset.name} is compressed with HDF5 filter {names}, which is not installed",
            path=opened.path,
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
    """The data set that a virtual one takes values from, in its own file."""
    holder = dataset.file
    if source.file_name == ".":
        file, path = holder, holder.filename
    else:
        path = find_file(holder.filename, "virtual", source.file_name)
        if path is None:
            raise FileNotFound(
                f"{opened.path}: {source.file_name} is missing, from which virtual data set {dataset.name} takes "
                "values",
                path=opened.path,
            )
        opened.maps.watch(path)
        # it was looked at with the file that draws it in
        file = files.enter_context(closing(open_checked(path)))
    node = file.get(source.dset_name)
    if not isinstance(node, h5py.Dataset):
        raise CorruptFileError(
            f"{opened.path}: virtual data set {dataset.name} takes values from {source.dset_name} of {path}, "
            "which has no such data set",
            path=opened.path,
            format="H5MD",
        )
    return node


def _box(space: Any, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
    """(Start, stop) along every dimension of a selection that is one box; None for anything else."""
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
