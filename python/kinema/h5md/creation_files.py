"""HDF5 files that are written: new ones, which appear whole or not at all, and those that grow from commit to commit.

It knows no H5MD.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import h5py

from kinema.errors import (
    ArgumentError,
    CorruptFileError,
    Error,
    FileAccessError,
    FileIOError,
    FileNotFound,
    from_os,
)
from kinema.h5md.creation_commit import CommittedFile

__all__ = ["GrowingFile", "NewFile", "check_target", "damaged_file_errors", "hdf5_errors"]

# HDF5's format of version 1.8: the one that H5MD recommends, and the latest whose files a killed process leaves
# readable: later formats mark a file that is open for writing, and refuse it afterwards.
LIBVER = ("v108", "v108")
# Smaller pieces than this are HDF5's own book-keeping, which is not worth aligning.
_ALIGN_FROM = 4096


class NewFile:
    """An HDF5 file under a temporary name beside `path`, until `finish` gives it its own.

    Whatever else happens (an error, Ctrl-C, the object is forgotten, the interpreter ends) removes it again; only a
    killed process leaves it, as `.NAME.*.part`.
    """

    def __init__(
        self, path: str, *, overwrite: bool, align: int | None = None, libver: tuple[str, str] = LIBVER
    ) -> None:
        """Raises ArgumentError where `path` exists and `overwrite` is not set, FileNotFound, FileAccessError or
        FileIOError where it cannot be made."""
        check_target(path, overwrite=overwrite)
        self.path, self._overwrite = path, overwrite
        folder = os.path.dirname(path) or "."
        try:
            handle, self._temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(path)}.", suffix=".part")
        except OSError as error:
            raise from_os("cannot write", error, path=path) from None
        os.close(handle)
        # locking: nobody else knows the temporary name, and some network file systems have no locks
        options = {"libver": libver, "locking": False}
        if align is not None:
            options |= {"alignment_threshold": _ALIGN_FROM, "alignment_interval": align}
        try:
            with hdf5_errors(path):
                self.h5 = h5py.File(self._temporary, "w", **options)
        except BaseException:
            os.unlink(self._temporary)
            raise
        self._discard = weakref.finalize(self, _remove, self.h5, self._temporary)

    @property
    def temporary(self) -> str:
        """The name under which the file can be read before `finish`, once `h5` is closed."""
        return self._temporary

    def finish(self) -> None:
        """Closes, syncs and renames the file; on failure nothing of it stays."""
        try:
            with hdf5_errors(self.path):
                self.h5.close()
            check_target(self.path, overwrite=self._overwrite)
            handle = os.open(self._temporary, os.O_RDWR)
            try:
                # mkstemp gives the owner alone access; the result gets what open() would have given it
                os.fchmod(handle, 0o666 & ~_umask())
                os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(self._temporary, self.path)
        except BaseException as error:
            self.discard()
            if isinstance(error, OSError) and not isinstance(error, FileIOError):
                raise from_os("cannot write", error, path=self.path) from None
            raise
        self._discard.detach()

    def discard(self) -> None:
        """Removes the file."""
        self._discard()


class GrowingFile:
    """An existing HDF5 file that is written in place, and stays as it was last committed whatever happens."""

    def __init__(self, path: str) -> None:
        """Raises as `CommittedFile`, and CorruptFileError for what HDF5 cannot open."""
        self.path = path
        self._file = CommittedFile(path)
        try:
            # registers filters, for chunks that are read back
            import hdf5plugin  # noqa: F401

            with damaged_file_errors(path):
                self.h5 = h5py.File(self._file, "r+", libver=LIBVER)
        except BaseException:
            self._file.discard()
            self._file.close()
            raise
        self._discard = weakref.finalize(self, _leave, self.h5, self._file)

    def commit(self) -> None:
        """Brings all that was written into the file."""
        self.h5.flush()
        self._file.commit()

    def finish(self) -> None:
        """Commits, waits until the system has it on its storage, and closes."""
        try:
            with hdf5_errors(self.path):
                self.h5.close()
                self._file.commit()
                self._file.sync()
        finally:
            self.discard()

    def discard(self) -> None:
        """Closes the file as it was last committed."""
        self._discard()


def check_target(path: str, *, overwrite: bool) -> None:
    """Raises what keeps a file from being made at `path`: it exists, or its folder does not."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise ArgumentError(f"{path}: is a directory, expected a file name", path=path)
    if os.path.exists(path) and not overwrite:
        raise ArgumentError(f"{path}: exists already; overwrite=True replaces it, mode='a' appends to it", path=path)
    if not os.path.isdir(folder):
        raise FileNotFound(f"{path}: its folder does not exist, make it first", path=path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileAccessError(f"{path}: its folder may not be written, choose another", path=path)


@contextmanager
def hdf5_errors(path: str) -> Iterator[None]:
    """Turns what h5py raises into FileIOError with the path; Kinema's own errors pass."""
    try:
        yield
    except Error:
        raise
    except (OSError, RuntimeError) as error:
        raise FileIOError(f"{path}: cannot write: {_said(error)}", path=path, format="H5MD") from None


@contextmanager
def damaged_file_errors(path: str) -> Iterator[None]:
    """Turns what h5py raises while it looks into an existing file into CorruptFileError; Kinema's own errors pass."""
    try:
        yield
    except Error:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, IndexError) as error:
        what = f"{path}: cannot append: {_said(error)}"
        raise CorruptFileError(what, path=path, format="H5MD") from error


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _remove(h5: h5py.File, temporary: str) -> None:
    try:
        h5.close()
    except (OSError, RuntimeError):
        # a full disk: HDF5 cannot write what it still holds, and nobody wants it any more
        pass
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _leave(h5: h5py.File, file: CommittedFile) -> None:
    file.discard()
    try:
        h5.close()
    except (OSError, RuntimeError):
        # HDF5 may not get rid of what it holds after an error, and it would have been discarded
        pass
    finally:
        file.close()


def _umask() -> int:
    # the system only tells the mask when it is set
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
