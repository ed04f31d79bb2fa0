"""`layout_of`: how an H5MD file stores its frames, what this costs for common ways of reading, and advice.

All numbers are computed from the chunk index; nothing is measured and no frame is read.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import renamed
from kinema.base.errors import Error
from kinema.files.h5md.elements import Contents, TimedElement, contents_of, group_of
from kinema.formats import h5md
from kinema.formats.h5md.description import FieldDescription, H5mdDescription, H5mdReading
from kinema.formats.h5md.file import check_hdf5, opened
from kinema.formats.h5md.schema import METADATA, OBSERVABLES, PARTICLES
from kinema.storage.hdf5.filters import filters_of
from kinema.storage.hdf5.storage import has_tiny_chunks
from kinema.storage.hdf5.stored_dataset import NOT_STORED, StoredDataset
from kinema.storage.hdf5.text import text_attribute
from kinema.storage.hdf5.trust.other_files import drawn_in

ONE_BY_ONE, IN_BLOCKS, SUBSET, ONE_ATOM = "frame by frame", "in blocks", "some atoms", "one atom"
PATTERNS: Mapping[str, str] = {
    ONE_BY_ONE: "all atoms, one frame after the other, with HDF5's usual cache of 1 MiB",
    IN_BLOCKS: "all atoms, in blocks of as many frames as the chunks have, as Kinema reads",
    SUBSET: "some atoms in all frames, in such blocks",
    ONE_ATOM: "one atom in all frames, in such blocks",
}
"""Ways of reading, by name."""

# cache of HDF5 up to version 1.14, for each data set
_CACHE = 1 << 20

# the least that a file system reads
_PAGE = 4096
_SHOWN_ALIGNMENT = 1 << 20
# period, in frames, after which rows of unchunked data begin at the same offset in a page (3 x 4-byte numbers)
_PERIOD = 1024
_SMALL_CHUNK, _DEAR, _LONG = 16 << 10, 2.0, 100
_SUBSET_SHARE = 10


@dataclass(frozen=True)
class FieldLayout:
    """Layout of one field of a group.

    Attributes
    ----------
    name : "positions", ...
    unit : as given in the file, or None
    shape, dtype : of the data set; it may have fewer or more rows than frames
    chunks : shape of a chunk; None without chunks, or for several data sets (virtual)
    n_chunks : stored chunks
    chunk_bytes : bytes of a chunk before filters
    alignment : bytes; the largest power of 2, up to 1 MiB, that divides the offsets of all chunks
    filters : names, in the order of writing
    stored_bytes, raw_bytes : bytes in the file, and bytes of the numbers
    amplification : {pattern: bytes touched / bytes wanted}; empty if the map of chunks is unknown
    through_library : the reason to read it through h5py, "" if it is not read so
    """

    name: str
    unit: str | None
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...] | None
    n_chunks: int
    chunk_bytes: int
    alignment: int
    filters: tuple[str, ...]
    stored_bytes: int
    raw_bytes: int
    amplification: Mapping[str, float]
    through_library: str


@dataclass(frozen=True)
class GroupLayout:
    """Layout of one particles group; `problem` says why it cannot be read as a trajectory, or is ""."""

    name: str
    n_atoms: int
    n_frames: int
    fields: tuple[FieldLayout, ...]
    warnings: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True)
class FileLayout:
    """Layout of an H5MD file.

    Attributes
    ----------
    path, size : size in bytes
    creator, author : as given in the file, or ""
    groups : GroupLayout, ...
    observables : names
    subset : description of "some atoms" in the access patterns
    advice : sentences, with the command if there is one
    draws_in : other files whose data sets it holds, by external links and virtual data sets
    """

    path: str
    size: int
    creator: str
    author: str
    groups: tuple[GroupLayout, ...]
    observables: tuple[str, ...]
    subset: str
    advice: tuple[str, ...]
    draws_in: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """All fields as plain values, for JSON."""
        return asdict(self)


@renamed(**H5mdReading.old_names)
def layout_of(
    path: str | os.PathLike[str],
    *,
    atoms: Sequence[int] | NDArray[Any] | None = None,
    particles: str | None = None,
    root: str | None = None,
    units: Mapping[str, str] | None = None,
    external: str = "folder",
    stored: bool = True,
) -> FileLayout:
    """Describes how an H5MD file is stored, and what this costs.

    Parameters
    ----------
    path : file name
    atoms : (n,) atom numbers, optional
        Atoms of the access pattern "some atoms"; by default the first tenth.
    particles : str, optional
        Describe only this particles group.
    root, units, external, stored : as `kinema.open`

    Notes
    -----
    Bytes touched count whole chunks before filters, as every HDF5 library reads them; without chunks, whole pages of
    4096 bytes. Bytes wanted count the requested numbers.

    Raises as `kinema.open`.

    Examples
    --------
    >>> _ = kn.convert("md.xtc", "chunked.h5md", layout=(10, 3341, 3))
    >>> kn.layout_of("chunked.h5md").groups[0].fields[0].chunks
    (10, 3341, 3)
    """
    name = os.fspath(path)
    check_hdf5(name, "layout_of")
    options = h5md.H5mdOptions(root=root, units=units, external=external, stored=stored)
    with opened(name, options) as source:
        contents = contents_of(source)
        metadata = contents.root.get(METADATA, {})
        creator = " ".join(filter(None, (_text(metadata, "creator", part) for part in ("name", "version"))))
        author = _text(metadata, "author", "name")
        chosen = contents.groups if particles is None else (group_of(source, contents, particles),)
        groups = tuple(_group(name, contents, one.path, one.n_atoms, one.n_frames, atoms, options) for one in chosen)
        prefix = f"{contents.root.name.rstrip('/')}/{OBSERVABLES}/"
        observables = tuple(one.path.removeprefix(prefix) for one in contents.elements if one.path.startswith(prefix))
        tiny = [
            node.name.strip("/")
            for one in contents.elements
            for node in (one.step, one.time)
            if node is not None and has_tiny_chunks(node)
        ]
    subset = f"the first {_SUBSET_SHARE} %" if atoms is None else f"{len(atoms):,} selected"
    others = drawn_in(name, external, stored=stored)
    advice = tuple(_advice(name, groups, sorted(set(tiny))))
    return FileLayout(name, os.path.getsize(name), creator, author or "", groups, observables, subset, advice, others)


def _text(metadata: Any, group: str, name: str) -> str:
    node = metadata.get(group)
    return "" if node is None else text_attribute(node, name) or ""


def _group(
    path: str, contents: Contents, group: str, n_atoms: int, n_frames: int, atoms: Any, options: h5md.H5mdOptions
) -> GroupLayout:
    short = group.rsplit("/", 1)[1]
    name = f"{PARTICLES}/{short}"
    try:
        described = h5md.describe(path, replace(options, particles=short, absent="nan"))
    except Error as error:
        return GroupLayout(name, n_atoms, n_frames, (), (), str(error))
    fields = []
    for field in ("positions", "velocities", "forces", "cell"):
        described_field: FieldDescription | None = getattr(described, field)
        if described_field is not None:
            fields.append(_field(field, described_field, _element(contents, group, field), described, atoms))
    return GroupLayout(name, described.n_atoms, described.n_frames, tuple(fields), described.warnings)


def _element(contents: Contents, group: str, field: str) -> TimedElement | None:
    words = {"positions": "position", "velocities": "velocity", "forces": "force", "cell": "box/edges"}
    names = (words[field], field)
    return next((one for one in contents.elements if one.particles == group and one.name in names), None)


def _field(
    name: str, field: FieldDescription, element: TimedElement | None, described: H5mdDescription, atoms: Any
) -> FieldLayout:
    value = None if element is None else element.value
    arrays = [array for _, array in field.pieces]
    chunks = {array.chunks for array in arrays}
    if not arrays and value is not None:
        chunks = {value.chunks}
    filters: tuple[str, ...] = ()
    if arrays:
        filters = tuple(_filter_name(number) for number, _ in arrays[0].filters)
    elif value is not None:
        filters = tuple(_filter_name(number) for number, _ in filters_of(value))
    itemsize = np.dtype(arrays[0].dtype).itemsize if arrays else (value.dtype.itemsize if value is not None else 0)
    shape = tuple(value.shape) if value is not None else arrays[0].shape if arrays else ()
    one_shape = chunks.pop() if len(chunks) == 1 else None
    stored = [array.addresses != np.uint64(NOT_STORED) for array in arrays]
    stored_bytes = sum(
        int(array.sizes[there].sum()) if array.inline is None else len(array.inline)
        for array, there in zip(arrays, stored, strict=True)
    )
    if not arrays and value is not None:
        stored_bytes = int(value.id.get_storage_size())
    return FieldLayout(
        name=name,
        unit=field.unit,
        shape=shape,
        dtype=arrays[0].dtype if arrays else "" if value is None else value.dtype.str,
        chunks=one_shape,
        n_chunks=sum(int(there.sum()) for array, there in zip(arrays, stored, strict=True) if array.chunks),
        chunk_bytes=0 if one_shape is None else math.prod(one_shape) * itemsize,
        alignment=_alignment([array.addresses[there] for array, there in zip(arrays, stored, strict=True)]),
        filters=filters,
        stored_bytes=stored_bytes,
        raw_bytes=math.prod(shape) * itemsize,
        amplification={} if name == "cell" or field.fixed else _amplification(arrays, described.n_atoms, atoms),
        through_library=field.reason,
    )


# most atoms for which amplification is computed
_MOST_ATOMS = 1 << 24


def _filter_name(number: int) -> str:
    return _core.filter_name(number) or f"filter {number}"


def _alignment(addresses: list[NDArray[np.uint64]]) -> int:
    every = np.concatenate(addresses) if addresses else np.zeros(0, np.uint64)
    bits = int(np.bitwise_or.reduce(every)) if every.size else 0
    return min(_SHOWN_ALIGNMENT, bits & -bits) if bits else _SHOWN_ALIGNMENT


# -- amplification ----------------------------------------------------------------------------------------------


def _amplification(arrays: list[StoredDataset], n_atoms: int, atoms: Any) -> dict[str, float]:
    """Bytes touched / bytes wanted, for each pattern; all arrays are (rows, atoms, 3) or (rows, 3 atoms).

    Empty if there are too many atoms to handle one by one: a file may claim any number of them.
    """
    if (
        n_atoms > _MOST_ATOMS
        or not arrays
        or any(array.inline is not None for array in arrays)
        or not any(a.shape[0] for a in arrays)
    ):
        return {}
    everyone = np.arange(n_atoms)
    some = everyone[: max(1, n_atoms // _SUBSET_SHARE)] if atoms is None else np.unique(np.asarray(atoms, np.int64))
    # an atom in the middle, whose place is typical
    one = everyone[n_atoms // 2 : n_atoms // 2 + 1]
    result = {}
    for pattern, chosen in ((ONE_BY_ONE, everyone), (IN_BLOCKS, everyone), (SUBSET, some), (ONE_ATOM, one)):
        touched = wanted = 0.0
        for array in arrays:
            numbers = math.prod(array.shape[1:]) // n_atoms
            wanted += array.shape[0] * len(chosen) * numbers * np.dtype(array.dtype).itemsize
            touched += _touched(array, chosen, numbers, kept=pattern != ONE_BY_ONE or _fits_in_cache(array))
        result[pattern] = touched / wanted
    return result


def _fits_in_cache(array: StoredDataset) -> bool:
    """Whether all chunks of a row stay in HDF5's cache until the next row is read."""
    if array.chunks is None:
        return True
    pairs = zip(array.shape[1:], array.chunks[1:], strict=True)
    return math.prod(-(-n // c) * c for n, c in pairs) * array.chunks[0] * np.dtype(array.dtype).itemsize <= _CACHE


def _touched(array: StoredDataset, atoms: NDArray[np.int64], numbers: int, *, kept: bool) -> float:
    """Bytes touched by reading these atoms of all rows; without `kept`, each row is read independently."""
    itemsize = np.dtype(array.dtype).itemsize
    if array.chunks is None:
        return _touched_pages(array, atoms, numbers * itemsize, kept=kept)
    grid = tuple(-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))
    there = (array.addresses != np.uint64(NOT_STORED)).reshape(grid)
    if len(grid) == 2:  # (rows, 3 atoms): an atom's numbers may be in two chunks
        places = (atoms[:, None] * numbers + np.arange(numbers)).reshape(-1)
    else:
        places = atoms
    hit = there[:, np.unique(places // array.chunks[1])]
    rows = array.shape[0]
    if not kept:  # a chunk is read again for each of its rows
        lengths = np.minimum(array.chunks[0], rows - np.arange(grid[0]) * array.chunks[0])
        count = float((hit.reshape(grid[0], -1).sum(axis=1) * lengths).sum())
    else:
        count = float(hit.sum())
    return count * math.prod(array.chunks) * itemsize


def _touched_pages(array: StoredDataset, atoms: NDArray[np.int64], atom_bytes: int, *, kept: bool) -> float:
    """As `_touched`, for data without chunks: whole pages."""
    start = int(array.addresses[0])
    if start == NOT_STORED:
        return 0.0
    rows, row_bytes = array.shape[0], math.prod(array.shape[1:]) * np.dtype(array.dtype).itemsize
    breaks = np.flatnonzero(np.diff(atoms) != 1) + 1
    firsts, lasts = atoms[np.r_[0, breaks]], atoms[np.r_[breaks - 1, len(atoms) - 1]]
    looked = min(rows, _PERIOD)
    pages, last_page = 0, -1
    for row in range(looked):
        begin = (start + row * row_bytes + firsts * atom_bytes) // _PAGE
        end = (start + row * row_bytes + (lasts + 1) * atom_bytes - 1) // _PAGE
        # neighbouring runs may share a page, and so may neighbouring rows
        before = np.r_[last_page if kept else -1, end[:-1]]
        pages += int((end - np.maximum(begin, before + 1) + 1).clip(min=0).sum())
        last_page = int(end[-1])
    return pages * _PAGE * rows / looked


# -- advice -----------------------------------------------------------------------------------------------------


def _advice(path: str, groups: Sequence[GroupLayout], tiny: list[str]) -> list[str]:
    command = f"kinema repack {shlex.quote(path)} OUT.h5md"
    places_of: dict[str, list[str]] = {}
    for group in groups:
        for field in group.fields:
            for sentence in _field_advice(field, group.n_frames, command):
                places_of.setdefault(sentence, []).append(f"{group.name}/{field.name}")
    lines = [f"{', '.join(places)}: {sentence}" for sentence, places in places_of.items()]
    if tiny:
        names = ", ".join(tiny[:3]) + (", ..." if len(tiny) > 3 else "")
        lines.append(
            f"{names}: stored in chunks of a few bytes, which makes opening slow for other programs: {command}"
        )
    return lines or ["nothing to improve for reading frame by frame"]


def _field_advice(field: FieldLayout, n_frames: int, command: str) -> list[str]:
    advice, cost = [], field.amplification
    if field.through_library:
        advice.append(f"read through h5py, which is slow ({field.through_library}): {command} --compress zstd")
    if not cost:
        return advice
    if cost[IN_BLOCKS] > _DEAR:
        advice.append(f"chunks are {cost[IN_BLOCKS]:.1f} times as large as what is in them: {command} --layout frames")
    elif cost[ONE_BY_ONE] > _DEAR:
        advice.append(
            f"programs that read frame by frame (MDAnalysis, h5py) touch {cost[ONE_BY_ONE]:,.0f} times the bytes they "
            f"want: {command} --layout frames"
        )
    if 0 < field.chunk_bytes < _SMALL_CHUNK and field.n_chunks > 1000:
        advice.append(
            f"{field.n_chunks:,} chunks of {field.chunk_bytes:,} bytes, each with a cost of its own: "
            f"{command} --layout frames"
        )
    if cost[ONE_ATOM] > 100 and n_frames >= _LONG:
        advice.append(
            f"the time series of one atom costs {cost[ONE_ATOM]:,.0f} times its bytes; if you read many of those (time "
            f"correlations): {command} --layout atoms"
        )
    return advice
