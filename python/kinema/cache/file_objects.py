"""Files through a node cache for other libraries: `open` returns a file object, `open_hdf5` an h5py file over one."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.cache.counts import emit_troubles
from kinema.cache.node_cache import NodeCacheChoice, node_cache_of

if TYPE_CHECKING:
    import h5py


class CachedFile(io.RawIOBase):
    """A file for reading through a node cache; a read fills its buffer unless the file ends.

    The system does not know this file: `fileno` raises, so `numpy.fromfile` and memory maps cannot take it;
    `numpy.load`, `zipfile`, `gzip` and h5py can. Several threads may call `pread` at a time, but not methods that move
    the position.

    `size`: bytes of the file when it was opened.
    """

    def __init__(self, name: str, file: _core.CachedFile) -> None:
        super().__init__()
        self.name = name
        self.size = int(file.size)
        self._file: _core.CachedFile | None = file
        self._position = 0

    def _opened(self) -> _core.CachedFile:
        if self._file is None:
            raise ValueError(f"{self.name}: the file was closed")
        return self._file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._opened()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._opened()
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence)
        if begin is None or begin + offset < 0:
            raise ValueError(f"{self.name}: cannot seek to {offset} from {whence}")
        self._position = begin + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer from the position on; returns the number of bytes, fewer only at the end of the file."""
        view = memoryview(buffer).cast("B")
        number = max(0, min(len(view), self.size - self._position))
        file = self._opened()
        if number:
            file.readinto_at(self._position, view[:number])
            emit_troubles()
            self._position += number
        return number

    def read(self, size: int | None = -1) -> bytes:
        """`size` bytes from the position on, or all; fewer only at the end of the file."""
        number = self.size if size is None or size < 0 else size
        data = self.pread(number, self._position)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """All bytes from the position on."""
        return self.read()

    def pread(self, size: int, offset: int) -> bytes:
        """`size` bytes at `offset`, as `os.pread`: fewer only at the end of the file. The position stays."""
        file = self._opened()
        if size < 0 or offset < 0:
            raise ValueError(f"{self.name}: cannot read {size} bytes at {offset}")
        number = max(0, min(size, self.size - offset))
        data = bytes(file.read_at(offset, number)) if number else b""
        emit_troubles()
        return data

    def write(self, data: Any) -> int:
        """Not writable."""
        raise io.UnsupportedOperation(f"{self.name}: is open for reading through a node cache")

    def close(self) -> None:
        self._file = None
        super().close()

    def __repr__(self) -> str:
        return f"<CachedFile {self.name}: {self.size} bytes>"


def open(path: str | os.PathLike[str], cache: NodeCacheChoice) -> CachedFile:
    """Opens a file for reading bytes through a cache, which may be given as its folder.

    Parameters
    ----------
    path : path
    cache : NodeCache or path
        A cache, or its folder.

    Returns
    -------
    CachedFile

    Raises
    ------
    FileNotFound, FileAccessError, FileIOError, ArgumentError
        ArgumentError also if the path is not a regular file.

    Examples
    --------
    >>> np.savez("samples.npz", x=np.ones(3))
    >>> with kinema.cache.open("samples.npz", "local") as file:
    ...     samples = np.load(file)["x"]
    """
    chosen = node_cache_of(cache)
    if chosen is None:
        raise ArgumentError("kinema.cache.open takes a kinema.cache.NodeCache or its folder, found None")
    name = os.path.abspath(os.fspath(path))
    return CachedFile(name, chosen.core.open(name))


def open_hdf5(path: str | os.PathLike[str], cache: NodeCacheChoice, **options: Any) -> h5py.File:
    """Opens an HDF5 file for reading through a cache.

    Parameters
    ----------
    path : path
    cache : NodeCache or path
        A cache, or its folder.
    **options
        Options of `h5py.File`.

    Returns
    -------
    h5py.File

    Raises
    ------
    As `open`, MissingPackageError without h5py, and the errors of h5py for a file that is not HDF5.

    Notes
    -----
    HDF5 reads by calls of Python, one at a time under its lock: for data sets of many gigabytes Kinema's own readers
    are faster. HDF5 itself opens files that the file refers to by name (external links, virtual data sets, external
    storage): it does not read them through the cache, and does not find their relative names.
    """
    import h5py

    return h5py.File(open(path, cache), "r", **options)
