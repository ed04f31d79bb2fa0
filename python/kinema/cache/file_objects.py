"""Files through a node cache for foreign code: `open` gives a file object, `open_hdf5` h5py's file over one."""

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

__all__ = ["CachedFile", "open", "open_hdf5"]


class CachedFile(io.RawIOBase):
    """A file for reading, through a node cache; it fills what it is given unless the file ends.

    It is no file of the system: `fileno` raises, so `numpy.fromfile` and memory maps cannot take it; `numpy.load`,
    `zipfile`, `gzip` and h5py can. `pread` may be called by several threads at a time, what moves the position not.

    Attributes
    ----------
    name : str
    size : int
        Bytes, as the file had them when it was opened.
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
        """Fills the buffer from the position on; how many bytes, fewer at the end of the file alone."""
        view = memoryview(buffer).cast("B")
        number = max(0, min(len(view), self.size - self._position))
        file = self._opened()
        if number:
            file.readinto_at(self._position, view[:number])
            emit_troubles()
            self._position += number
        return number

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes from the position on, or all; fewer at the end of the file alone."""
        number = self.size if size is None or size < 0 else size
        data = self.pread(number, self._position)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """All bytes from the position on."""
        return self.read()

    def pread(self, size: int, offset: int) -> bytes:
        """Bytes at a place, as `os.pread`: fewer at the end of the file alone. The position stays."""
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
    """A file object for reading bytes through a cache, or its folder.

        with kinema.cache.open("/shared/samples.npz", "/local/cache") as file:
            samples = numpy.load(file)["x"]

    Raises
    ------
    FileNotFound, FileAccessError, FileIOError, ArgumentError
        ArgumentError also for what is no regular file.
    """
    chosen = node_cache_of(cache)
    if chosen is None:
        raise ArgumentError("kinema.cache.open takes a kinema.cache.NodeCache or its folder, found None")
    name = os.path.abspath(os.fspath(path))
    return CachedFile(name, chosen.core.open(name))


def open_hdf5(path: str | os.PathLike[str], cache: NodeCacheChoice, **options: Any) -> h5py.File:
    """h5py's file for reading through a cache; `options` are those of `h5py.File`.

    HDF5 reads by calls of Python, one at a time under its lock: for data sets of many gigabytes Kinema's own readers
    are faster. Files that it refers to by name (external links, virtual data sets, external storage) are opened by HDF5
    itself, not through the cache, and relative names of them are not found.

    Raises
    ------
    As `open`, MissingPackageError without h5py, and what h5py raises for a file that is none of HDF5.
    """
    import h5py

    return h5py.File(open(path, cache), "r", **options)
