"""How samples are stored in a file: HDF5 data sets, `.npy`, members of `.npz`. Only headers are read here."""

from __future__ import annotations

import ast
import os
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError, Error, TruncatedFileError, UnsupportedFormatError
from kinema.base.input_files import is_hdf5, open_regular
from kinema.storage.hdf5.chunks import NeedsLibrary, complete_rows, numeric_type, stored_array
from kinema.storage.hdf5.file import OpenFile, objects_below, open_hdf5, reading
from kinema.storage.hdf5.stored_dataset import NOT_STORED, StoredDataset

_NPY = b"\x93NUMPY"
_LOCAL = b"PK\x03\x04"
_LOCAL_BYTES = 30
_LARGEST_HEADER = 1 << 20
# list of the shards in an exported folder
LIST_OF_FILES = "export.json"
# by which a file is recognised in a folder
ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".h5py")
# group with the origin of the samples and the provenance, in an archive that Kinema has written
OWN_GROUP = "kinema"


@dataclass(frozen=True)
class Deflated:
    """A compressed member of an archive, which can only be read from its beginning."""

    start: int
    """Byte of the file at which the compressed bytes begin."""
    stored: int
    """Compressed bytes."""
    header: int
    """Decompressed bytes before the first sample."""
    checksum: int
    """CRC-32 of the decompressed bytes."""


@dataclass(frozen=True)
class StoredMember:
    """A member of an archive that is stored without compression: its header, then the samples."""

    start: int
    """Byte of the file at which it begins."""
    size: int
    """Bytes."""
    checksum: int
    """CRC-32 of these bytes."""


@dataclass(frozen=True)
class SampleFile:
    """The samples of one array of one file."""

    path: str
    name: str
    """Name of the array: "x", the member or the data set."""
    rows: int
    shape: tuple[int, ...]
    """Shape of a sample."""
    dtype: np.dtype[Any]
    """In the byte order of the file."""
    place: tuple[int, int] | StoredDataset | Deflated
    """(Offset of the first sample, bytes between samples); chunks, seen as (rows, units, components); a member."""
    member: StoredMember | None = None
    """The member that has the samples, if it has a checksum. `SampleDataset.read` does not check it."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a sample, as stored."""
        return _bytes(self.shape, self.dtype)

    @property
    def chunk_rows(self) -> int:
        """Number of neighbouring samples that are decoded together."""
        if isinstance(self.place, Deflated):
            return max(self.rows, 1)
        if isinstance(self.place, StoredDataset) and self.place.chunks is not None and self.place.filters:
            return self.place.chunks[0]
        return 1


def extents_of(
    one: SampleFile, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Byte ranges of rows, in the order of the rows: (n,) offsets, lengths, and positions of the row in `rows`.

    A row of a data set in chunks has several ranges; for a deflated member the range is the whole member.
    """
    place, which = one.place, np.arange(len(rows))
    if isinstance(place, Deflated):
        return np.full(len(rows), place.start), np.full(len(rows), place.stored), which
    if isinstance(place, tuple):
        return place[0] + place[1] * rows, np.full(len(rows), one.row_bytes), which
    if place.inline is not None:
        none = np.zeros(0, np.int64)
        return none, none, none
    if place.chunks is None:
        return int(place.addresses[0]) + one.row_bytes * rows, np.full(len(rows), one.row_bytes), which
    of_a_row = int(np.prod([-(-n // c) for n, c in zip(place.shape[1:], place.chunks[1:], strict=True)]))
    chunks = (rows // place.chunks[0])[:, None] * of_a_row + np.arange(of_a_row)
    there = place.addresses[chunks] != NOT_STORED
    which = np.repeat(which, of_a_row).reshape(chunks.shape)[there]
    return place.addresses[chunks][there].astype(np.int64), place.sizes[chunks][there].astype(np.int64), which


def samples_of(path: str, names: Sequence[str] | None, *, whole: bool) -> list[SampleFile]:
    """The arrays of a file: those in `names`, in that order, or all.

    `whole`: an array is one sample, as in a folder with one file for each sample.

    Raises as `arrays_of` and `as_samples`.
    """
    return as_samples(arrays_of(path, names), whole=whole)


def arrays_of(path: str, names: Sequence[str] | None) -> list[SampleFile]:
    """As `samples_of`, but the rows of each array are its samples, even if the arrays differ in their number of rows.

    Raises ArgumentError for arrays that are not there; CorruptFileError, TruncatedFileError and UnsupportedFormatError
    with path and byte.
    """
    if is_hdf5(path):
        return _describe_hdf5(path, names)
    with open_regular(path, "samples") as file:
        magic = file.read(6)
        if magic == _NPY:
            size = os.fstat(file.fileno()).st_size
            if names is not None and len(names) != 1:
                raise ArgumentError(f"has one array, expected {', '.join(names)}", at=path)
            return [_describe_npy(path, file, 0, size, names[0] if names else "samples")]
        if magic[:4] == _LOCAL or magic[:4] == b"PK\x05\x06":
            return _describe_npz(path, file, names)
    raise UnsupportedFormatError(f"byte 0: neither HDF5 nor .npy nor .npz, found {magic!r}", at=path, offset=0)


def as_samples(arrays: Sequence[SampleFile], *, whole: bool) -> list[SampleFile]:
    """The arrays of a file, each as one sample if `whole`. Raises ArgumentError if the numbers of samples differ."""
    found = [_as_one(one) for one in arrays] if whole else list(arrays)
    if len({one.rows for one in found}) > 1:
        path, listed = found[0].path, ", ".join(f"{one.name}: {one.rows}" for one in found)
        raise ArgumentError(
            f"its arrays have different numbers of samples ({listed}); choose with fields= (--fields)", at=path
        )
    return found


def _as_one(one: SampleFile) -> SampleFile:
    shape = (one.rows, *one.shape)
    place = one.place
    if isinstance(place, tuple):
        place = (place[0], _bytes(shape, one.dtype))
    elif isinstance(place, StoredDataset):
        n, units, components = place.shape
        if place.chunks is not None and (place.chunks[1] < units or place.chunks[2] < components):
            raise UnsupportedFormatError(
                f"{one.name} is one sample whose chunks cut its last dimensions; store it contiguous", at=one.path
            )
        chunks = None if place.chunks is None else (1, place.chunks[0], units * components)
        place = replace(place, shape=(1, n, units * components), chunks=chunks)
    return replace(one, rows=1, shape=shape, place=place)


# -- NumPy ------------------------------------------------------------------------------------------------------


def _describe_npy(path: str, file: IO[bytes], start: int, size: int, name: str) -> SampleFile:
    """Describes an array in `.npy` format that has `size` bytes from byte `start`."""
    file.seek(start)
    shape, dtype, header = _npy_header(path, file, start)
    if not shape:
        raise ArgumentError(f"{name} is a single value, expected samples x features", at=path)
    needed, there = _bytes(shape, dtype), size - header
    if there < needed:
        raise TruncatedFileError(
            f"byte {start + size}: {name} ends early, expected {needed} bytes of samples, found {max(there, 0)}",
            at=path,
            offset=start + size,
        )
    return SampleFile(path, name, shape[0], shape[1:], dtype, (start + header, _bytes(shape[1:], dtype)))


def _npy_header(path: str, file: IO[bytes], start: int) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and number of bytes before the values; the stream is at the beginning of the header (NEP 1)."""
    head = _exactly(path, file, 8, start)
    if head[:6] != _NPY:
        raise CorruptFileError(f"byte {start}: no .npy header, found {head[:6]!r}", at=path, offset=start)
    wide = head[6] >= 2
    (length,) = struct.unpack("<I" if wide else "<H", _exactly(path, file, 4 if wide else 2, start + 8))
    before = 8 + (4 if wide else 2)
    if length > _LARGEST_HEADER:
        raise CorruptFileError(
            f"byte {start + 8}: length of the .npy header, expected at most {_LARGEST_HEADER}, found {length}",
            at=path,
            offset=start + 8,
        )
    text = _exactly(path, file, length, start + before).decode("latin-1" if head[6] < 3 else "utf-8", "replace")
    at = start + before
    try:
        described = ast.literal_eval(text.strip())
        shape, order, descr = described["shape"], described["fortran_order"], described["descr"]
        dtype = np.lib.format.descr_to_dtype(descr)
        if not all(isinstance(n, int) and 0 <= n < 1 << 62 for n in shape):
            raise ValueError("a shape of other than whole numbers of elements")
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise CorruptFileError(
            f"byte {start + before}: the .npy header cannot be read ({error}), found {text[:80]!r}", at=path, offset=at
        ) from None
    if dtype.hasobject:
        raise UnsupportedFormatError(
            f"byte {start + before}: pickled Python objects (dtype {descr!r}), which are never unpickled; "
            "save an array of numbers",
            at=path,
            offset=at,
        )
    if order and sum(n > 1 for n in shape) > 1:
        raise UnsupportedFormatError(
            f"byte {start + before}: the array is in Fortran order, so that no sample lies together; save "
            "np.ascontiguousarray of it",
            at=path,
            offset=at,
        )
    return tuple(shape), dtype, before + length


def _describe_npz(path: str, file: IO[bytes], names: Sequence[str] | None) -> list[SampleFile]:
    """Describes the members of an archive; stored members are read in place."""
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        size = os.fstat(file.fileno()).st_size
        raise TruncatedFileError(
            f"byte {size}: the .npz archive has no directory at its end: it is cut off ({error})", at=path, offset=size
        ) from None
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    chosen = list(members) if names is None else list(names)
    missing = [name for name in chosen if name not in members]
    if missing or not chosen:
        raise ArgumentError(f"there is no member {', '.join(missing)}, only {', '.join(members) or 'none'}", at=path)

    def member(name: str) -> SampleFile:
        info = members[name]
        try:
            return _describe_member(path, file, archive, info, name)
        except CorruptFileError:
            if info.filename.endswith(".npy"):
                raise
            raise UnsupportedFormatError(
                f"byte {info.header_offset}: member {info.filename} is no .npy array",
                at=path,
                offset=info.header_offset,
            ) from None

    return _each(chosen, member, is_choice=names is not None)


def _each(names: Sequence[str], read: Callable[[str], SampleFile], *, is_choice: bool) -> list[SampleFile]:
    """The arrays of these names. If one cannot be read, the error names the others, unless a user chose the names."""
    found = []
    for name in names:
        try:
            found.append(read(name))
        except (ArgumentError, UnsupportedFormatError) as error:
            others = ", ".join(one for one in names if one != name)
            if is_choice or not others:
                raise
            message = f"{error}; choose other arrays with fields= (--fields), of {others}"
            raise type(error)(message, path=error.path, offset=error.offset) from None
    return found


def _describe_member(
    path: str, file: IO[bytes], archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str
) -> SampleFile:
    at = info.header_offset
    file.seek(at)
    local = _exactly(path, file, _LOCAL_BYTES, at)
    # the extra field of the local header may differ in length from the directory's: PKWARE APPNOTE 4.3.7
    if local[:4] != _LOCAL:
        raise CorruptFileError(
            f"byte {at}: no local header of member {info.filename}, expected {_LOCAL!r}, found {local[:4]!r}",
            at=path,
            offset=at,
        )
    name_length, extra = struct.unpack("<HH", local[26:30])
    start = at + _LOCAL_BYTES + name_length + extra
    size = os.fstat(file.fileno()).st_size
    if start + info.compress_size > size:
        raise TruncatedFileError(
            f"byte {size}: member {info.filename} ends early, expected {info.compress_size} bytes from byte "
            f"{start} on, found {max(size - start, 0)}",
            at=path,
            offset=size,
        )
    if info.flag_bits & 1:
        raise UnsupportedFormatError(f"byte {at}: member {info.filename} is encrypted", at=path, offset=at)
    if info.compress_type == zipfile.ZIP_STORED:
        member = StoredMember(start, info.compress_size, info.CRC)
        return replace(_describe_npy(path, file, start, info.compress_size, name), member=member)
    if info.compress_type != zipfile.ZIP_DEFLATED:
        raise UnsupportedFormatError(
            f"byte {at}: member {info.filename} is compressed by method {info.compress_type}, expected stored "
            "or deflated",
            at=path,
            offset=at,
        )
    try:
        with archive.open(info) as stream:
            shape, dtype, header = _npy_header(path, stream, 0)
    except Error:
        raise
    except (zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
        raise CorruptFileError(
            f"byte {start}: member {info.filename} cannot be decompressed: {error}", at=path, offset=start
        ) from None
    if not shape:
        raise ArgumentError(f"{name} is a single value, expected samples x features", at=path)
    if info.file_size - header < _bytes(shape, dtype):
        raise TruncatedFileError(
            f"byte {start}: {name} ends early, expected {_bytes(shape, dtype)} bytes of samples, found "
            f"{info.file_size - header}",
            at=path,
            offset=start,
        )
    place = Deflated(start, info.compress_size, header, info.CRC)
    return SampleFile(path, name, shape[0], shape[1:], dtype, place)


def _exactly(path: str, file: IO[bytes], n: int, at: int) -> bytes:
    data = file.read(n)
    if len(data) < n:
        end = at + len(data)
        raise TruncatedFileError(
            f"byte {end}: the header ends early, expected {n} bytes, found {len(data)}", at=path, offset=end
        )
    return data


def _bytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    return int(np.prod(shape, dtype=np.object_)) * dtype.itemsize


# -- HDF5 -------------------------------------------------------------------------------------------------------


def _describe_hdf5(path: str, names: Sequence[str] | None) -> list[SampleFile]:
    with open_hdf5(path) as file, reading(path):
        opened = OpenFile(path, file, os.path.getsize(path), format="HDF5")
        chosen = _arrays(path, file) if names is None else list(names)
        return _each(chosen, lambda name: _describe_dataset(opened, name), is_choice=names is not None)


def _arrays(path: str, file: Any) -> list[str]:
    """The data sets at the root; if there are none, the data sets of deeper groups."""
    import h5py

    def usable(node: Any) -> bool:
        return isinstance(node, h5py.Dataset) and bool(node.shape) and node.dtype.kind in "iufbcV"

    names = [name for name in file if usable(file.get(name))]
    if not names:
        # the group in which `kinema.ml.convert` describes the samples
        below = objects_below(file)
        names = [name for name, node in below if usable(node) and not name.startswith(f"{OWN_GROUP}/")]
    if not names:
        raise ArgumentError("has no array of samples x features", at=path)
    return names


def _describe_dataset(opened: Any, name: str) -> SampleFile:
    import h5py

    path = opened.path
    node = opened.file.get(name)
    if not isinstance(node, h5py.Dataset):
        listed = ", ".join(_arrays(path, opened.file))
        raise ArgumentError(f"there is no data set {name}, only {listed}", at=path)
    if not node.shape:
        raise ArgumentError(f"{name} is a single value, expected samples x features", at=path)
    shape, label = tuple(node.shape), name.strip("/")
    if numeric_type(node) is None or h5py.check_enum_dtype(node.dtype) is not None:
        return _describe_other_type(path, node, label)
    try:
        array = stored_array(opened, node)
    except NeedsLibrary as error:
        raise UnsupportedFormatError(
            f"data set {name} cannot be read in place: {error}; `h5repack` or `kinema repack` rewrites it", at=path
        ) from None
    dtype = np.dtype(array.dtype)
    if array.file:
        raise UnsupportedFormatError(
            f"data set {name} lies in another file, {opened.other_files[array.file - 1]}; name that one", at=path
        )
    there = complete_rows(opened, array)
    if there < array.shape[0]:
        raise TruncatedFileError(
            f"byte {opened.size}: data set {name} ends early, expected {shape[0]} samples, found {there}",
            at=path,
            offset=opened.size,
        )
    if array.shape[0] < shape[0]:
        raise CorruptFileError(
            f"data set {name}: no storage after sample {array.shape[0]} of {shape[0]}: it was never written", at=path
        )
    if array.chunks is None and array.inline is None and len(array.addresses) and int(array.sizes[0]):
        place: Any = (int(array.addresses[0]), _bytes(shape[1:], dtype))
    else:
        place = _three(path, array)
    return SampleFile(path, label, shape[0], shape[1:], dtype, place)


def _describe_other_type(path: str, node: Any, label: str) -> SampleFile:
    """Describes booleans, complex and compound values; if contiguous, HDF5 stores them in NumPy's own form."""
    import h5py

    dtype = np.dtype(node.dtype)
    plain = not dtype.hasobject and h5py.h5t.py_create(dtype, logical=True).equal(node.id.get_type())
    offset = node.id.get_offset()
    if not plain or offset is None or node.chunks is not None or node.id.get_create_plist().get_external_count():
        raise UnsupportedFormatError(
            f"data set {node.name} holds {dtype}; other values than integers and floats are read of contiguous "
            "data sets of NumPy's own types only",
            at=path,
        )
    needed, there = _bytes(node.shape, dtype), os.path.getsize(path) - offset
    if there < needed:
        raise TruncatedFileError(
            f"byte {offset + there}: data set {node.name} ends early, expected {needed} bytes, found {there}",
            at=path,
            offset=offset + there,
        )
    place = (offset, _bytes(node.shape[1:], dtype))
    return SampleFile(path, label, node.shape[0], tuple(node.shape[1:]), dtype, place)


def _three(path: str, array: StoredDataset) -> StoredDataset:
    """The array as rows x units x components: its last dimensions are merged if each chunk has all of them."""
    shape, chunks = list(array.shape), None if array.chunks is None else list(array.chunks)
    while len(shape) > 3:
        if chunks is not None and chunks[-1] != shape[-1]:
            raise UnsupportedFormatError(
                f"data set {array.name}: chunks {array.chunks} cut more than three dimensions of "
                f"{array.shape}; store whole samples in a chunk",
                at=path,
            )
        shape[-2:] = [shape[-2] * shape[-1]]
        if chunks is not None:
            chunks[-2:] = [chunks[-2] * chunks[-1]]
    while len(shape) < 3:
        shape.append(1)
        if chunks is not None:
            chunks.append(1)
    return replace(array, shape=tuple(shape), chunks=None if chunks is None else tuple(chunks))
