"""HDF5 files open for reading: opening without a lock, errors of libhdf5 as Kinema's errors, checks of claimed sizes.

Without a lock a simulation may keep writing to the file.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import (
    ArgumentError,
    CorruptFileError,
    Error,
    FileAccessError,
    FileIOError,
    FileNotFound,
    InternalError,
    TruncatedFileError,
)
from kinema.base.input_files import check_regular
from kinema.storage.hdf5.chunk_maps import ChunkMaps
from kinema.storage.hdf5.trust.other_files import check_other_files
from kinema.storage.hdf5.trust.verdicts import Status, status_of
from kinema.storage.hdf5.trust.walk import open_h5py

_REASON_LENGTH = 160
# most rows that a data set may claim: without any storage, in a virtual data set, and for each stored byte
_FREE_ROWS = 1 << 24
_VIRTUAL_ROWS = 1 << 28
_ROWS_A_BYTE = 64


@dataclass
class OpenFile:
    """An open HDF5 file, with the notes made while it is described."""

    path: str
    file: Any
    """`h5py.File`."""
    size: int
    """Bytes of the file when it was opened; bytes that a program has appended since do not count."""
    remarks: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    other_files: list[str] = field(default_factory=list)
    maps: ChunkMaps = field(default_factory=ChunkMaps)
    """Places of chunks, as stored by earlier openings."""
    series: dict[tuple[Any, ...], NDArray[Any]] = field(default_factory=dict)
    """`step` and `time` arrays by the address of their object: hard links are read once."""
    format: str = "H5MD"
    """In errors."""

    def remark(self, text: str) -> None:
        """Notes a choice that Kinema made."""
        text = text.lstrip("/")
        if text not in self.remarks:
            self.remarks.append(text)

    def warn(self, text: str) -> None:
        """Notes something that may surprise the user."""
        text = text.lstrip("/")
        if text not in self.warnings:
            self.warnings.append(text)

    def number_of(self, path: str) -> int:
        """Number of a file in the description: 0 for this file, n for the n-th other file, which is added if new."""
        if os.path.realpath(path) == os.path.realpath(self.path):
            return 0
        real = os.path.realpath(path)
        for number, other in enumerate(self.other_files, 1):
            if os.path.realpath(other) == real:
                return number
        self.other_files.append(path)
        return len(self.other_files)

    def size_of(self, number: int) -> int:
        """Bytes of a file in the description."""
        return self.size if number == 0 else os.path.getsize(self.other_files[number - 1])

    def corrupt(self, message: str) -> CorruptFileError:
        """The error for contents that contradict themselves."""
        return CorruptFileError(f"{message}", at=self.path, format=self.format)


@contextmanager
def reading(path: str, what: str = "structure") -> Iterator[None]:
    """Context that turns errors of h5py into CorruptFileError with the path; the message says that `what` cannot be
    read."""
    try:
        yield
    except Error:
        raise
    except RecursionError:
        raise CorruptFileError("groups are nested too deeply", at=path, format="H5MD") from None
    except Exception as error:
        if not isinstance(error, (OSError, KeyError, UnicodeError, MemoryError)) and not _is_from_h5py(error):
            raise InternalError(
                f"{type(error).__name__} while reading the {what}: {error}", at=path, format="H5MD"
            ) from error
        raise CorruptFileError(f"HDF5 {what} cannot be read: {_reason(error)}", at=path, format="H5MD") from None


@contextmanager
def open_hdf5(path: str, *, cache: int | None = None, external: str = "folder", stored: bool = True) -> Iterator[Any]:
    """An `h5py.File` for reading, without a lock; `cache` is the size of the chunk cache in bytes.

    `external`: other files that it may draw in. `stored`: whether stored verdicts on its structure are used.

    Raises FileNotFound, FileAccessError, TruncatedFileError and CorruptFileError, and the errors of `check_structure`.
    """
    file = open_file(path, cache=cache, external=external, stored=stored)
    try:
        yield file
    finally:
        file.close()


def open_file(path: str, *, cache: int | None = None, external: str = "folder", stored: bool = True) -> Any:
    """As `open_hdf5`; the caller closes it."""
    status = check_structure(path, external=external, stored=stored)
    file = open_checked(path, cache=cache)
    # the file under the name must be the one that was checked; a growing file may have grown
    if status_of(file.id.get_vfd_handle())[:2] != status[:2]:
        file.close()
        raise FileIOError("is another file than a moment ago, when its structure was looked at", at=path)
    return file


def open_checked(path: str, *, cache: int | None = None) -> Any:
    """As `open_file`, for a file that this run has already checked, or made."""
    check_regular(path, "HDF5 file")
    more: dict[str, Any] = {} if cache is None else {"rdcc_nbytes": cache}
    try:
        return open_h5py(path, **more)
    except (OSError, RuntimeError, ValueError) as error:
        raise _open_error(path, error) from None


def check_structure(path: str, *, external: str = "folder", stored: bool = True) -> Status:
    """Checks the structure of a file, and of all files that it draws in, before libhdf5 reads it in this process.

    Returns the file's status at that time. Raises CorruptFileError if libhdf5 crashes on the structure or never
    finishes, UnsupportedFormatError and ArgumentError as `check_other_files`, and the errors of `check_regular`.
    """
    check_regular(path, "HDF5 file")
    status = status_of(path)
    check_other_files(path, external, stored=stored)
    return status


def is_link_broken(group: Any, name: str) -> bool:
    """Whether a member of a group is a link to an object that does not exist."""
    return bool(group.id.links.exists(name.encode())) and group.get(name) is None


def objects_below(group: Any) -> Iterator[tuple[str, Any]]:
    """All objects below a group to which hard links lead, each once, with its path from the group, at any depth of
    nesting. Unlike h5py's `visititems`, it reacts to a signal between any two objects."""
    seen = {object_key(group)}
    waiting = [("", group, iter(list(group)))]
    while waiting:
        above, holder, names = waiting[-1]
        name = next(names, None)
        if name is None:
            waiting.pop()
            continue
        if not isinstance(holder.get(name, getlink=True), h5py.HardLink):
            continue
        node, path = holder[name], above + name
        key = object_key(node)
        if key in seen:
            continue
        seen.add(key)
        yield path, node
        if isinstance(node, h5py.Group):
            waiting.append((f"{path}/", node, iter(list(node))))


def check_claim(opened: OpenFile, dataset: Any) -> None:
    """Raises CorruptFileError for a data set with far more rows than its bytes can hold."""
    rows = dataset.shape[0] if dataset.shape else 1
    if rows <= _FREE_ROWS:
        return  # libhdf5 goes through all chunks for the bytes that are stored
    stored = dataset.id.get_storage_size()
    if rows > (_VIRTUAL_ROWS if dataset.is_virtual else _FREE_ROWS + _ROWS_A_BYTE * stored):
        raise opened.corrupt(f"{dataset.name} claims {rows} rows, but only {stored} bytes are stored")


def _open_error(path: str, error: Exception) -> Error:
    if os.path.isdir(path):
        return ArgumentError("is a directory, expected a file", at=path)
    if isinstance(error, FileNotFoundError) or not os.path.exists(path):
        return FileNotFound("no such file", at=path)
    if isinstance(error, PermissionError):
        return FileAccessError("the file may not be read", at=path)
    message = str(error)
    if "truncated file" in message:
        return TruncatedFileError(f"HDF5 file is cut off: {_reason(error)}", at=path, format="H5MD")
    if "signature not found" in message:
        return CorruptFileError("no HDF5 file: its signature is missing", at=path, format="H5MD")
    if "already open for write" in message or "SWMR" in message:
        return CorruptFileError(
            "HDF5 file is marked as open for writing: its program still runs or was killed; "
            "in the latter case `h5clear -s` clears the mark",
            at=path,
            format="H5MD",
        )
    if isinstance(error, OSError) and error.errno is not None:
        return FileIOError(f"opening: {os.strerror(error.errno).lower()}", at=path, format="H5MD")
    return CorruptFileError(f"HDF5 file cannot be opened: {_reason(error)}", at=path, format="H5MD")


def _reason(error: BaseException) -> str:
    """The error message of libhdf5 in one line; its own brackets hold the cause."""
    message = " ".join(str(error.args[0] if error.args else error).split()) or type(error).__name__
    if "(" in message and message.endswith(")"):
        message = message[message.index("(") + 1 : -1]
    return message[:_REASON_LENGTH].rstrip(". ")


def _is_from_h5py(error: BaseException) -> bool:
    """Whether h5py raised the error, or NumPy called by h5py."""
    frames = traceback.extract_tb(error.__traceback__)
    return any("h5py" in frame.filename.replace("\\", "/").split("/") for frame in frames[-4:])


def object_key(node: Any) -> tuple[Any, ...]:
    """A key of an object: the same for all its hard links, and for no other object, while its file is open."""
    # h5o.get_info goes through all chunks to compute the size of their index
    info = h5py.h5g.get_objinfo(node.id)
    return (*info.fileno, *info.objno)


def numbers(value: Any) -> NDArray[Any] | None:
    """A stored value as an array of numbers; None for text, references and compound values."""
    array = np.asarray(value)
    return array if array.dtype.kind in "iufb" else None
