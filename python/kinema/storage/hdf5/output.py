"""HDF5 files open for writing: new files, whole or not at all, and files that grow from commit to commit."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import h5py

from kinema.base.errors import CorruptFileError, Error, FileIOError
from kinema.storage.hdf5.file import check_structure
from kinema.storage.hdf5.journal import CommittedFile, NewBytes
from kinema.storage.output_checks import check_no_link, check_target
from kinema.storage.output_file import OutputFile, publish

# HDF5's format of version 1.8, which H5MD recommends. It is the latest format in which a killed process leaves files
# readable: later formats mark a file that is open for writing, and refuse it afterwards.
LIBVER = ("v108", "v108")
# objects smaller than this are HDF5's metadata, which is not worth aligning
_ALIGN_FROM = 4096


class NewFile:
    """A new HDF5 file, open as `h5`; an `OutputFile`, which `finish` commits."""

    def __init__(
        self,
        path: str,
        *,
        overwrite: bool,
        align: int | None = None,
        ordered: bool = False,
        libver: tuple[str, str] = LIBVER,
    ) -> None:
        """Raises ArgumentError if `path` exists without `overwrite`, or if another run writes it; FileNotFound,
        FileAccessError or FileIOError if it cannot be made. `ordered`: members of the root group are listed in the
        order of creation, as netCDF-C needs for writing."""
        check_target(path, overwrite=overwrite)
        self.path, self._overwrite = path, overwrite
        self._output = OutputFile(path, alone=True)
        try:
            self._new = _NewHdf5(self._output.temporary, path, align, libver, ordered=ordered)
        except BaseException:
            self._output.discard()
            raise
        self.h5 = self._new.h5
        self._discard = weakref.finalize(self, _close_and_discard, self._new, self._output)

    @property
    def temporary(self) -> str:
        """The name under which the file can be read before `finish`, after `h5` is closed."""
        return self._output.temporary

    def finish(self) -> str:
        """Closes, syncs and renames the file, and returns its name; a failure leaves nothing."""
        try:
            self.close()
            self.publish()
        except BaseException:
            self.discard()
            raise
        return self.path

    def check(self) -> None:
        """Raises FileIOError if some of the written bytes are not in the file, as on a full disk; HDF5 is not told."""
        self._new.check()

    def close(self) -> None:
        """Closes the file under its temporary name. Raises as `check`."""
        self._new.close()

    def publish(self) -> None:
        """Syncs and renames the closed file. If something has appeared under its name, it keeps its temporary name."""
        check_target(self.path, overwrite=self._overwrite)
        publish(self.temporary, self.path)
        self._discard.detach()
        self._output.keep()
        self._output.end()

    def flush(self) -> None:
        """Brings all written bytes into the file, which no later run removes from now on: see `OutputFile.protect`."""
        self.h5.flush()
        self.check()
        self._output.protect()

    def keep(self, *, protect: bool = True) -> str:
        """Closes the file and returns its name; it stays, whatever happens, until `publish` or `discard`.

        Without `protect` a later run removes the file if this process is killed.
        """
        self.close()
        self._discard.detach()
        if protect:
            self._output.protect()
        self._output.keep()
        return self.temporary

    def forget(self) -> None:
        """Stops writing: this process writes nothing into the file from now on."""
        self._new.bytes.forget()

    def end(self) -> None:
        """Ends the writing of a file that `keep` has closed: nobody writes into it any more."""
        self._output.end()

    def discard(self) -> None:
        """Removes the file."""
        self._discard()


@dataclass(frozen=True)
class OutputPart:
    """The output `path` under its temporary name: the maker of that file gives it its final name, or removes it."""

    path: str
    temporary: str

    def __fspath__(self) -> str:
        return self.path


class OutputPartFile:
    """The temporary file of an `OutputPart`, created and open as `h5`. It keeps its name whatever happens."""

    def __init__(self, part: OutputPart, *, align: int | None = None) -> None:
        """Raises FileNotFound, FileAccessError or FileIOError if the file cannot be made."""
        self.temporary = part.temporary
        self._new = _NewHdf5(part.temporary, part.path, align)
        self.h5 = self._new.h5

    def check(self) -> None:
        """As `NewFile.check`."""
        self._new.check()

    def finish(self) -> str:
        """Closes the file, and returns its current name. Raises as `check`."""
        self._new.close()
        return self.temporary

    def forget(self) -> None:
        """As `NewFile.forget`."""
        self._new.bytes.forget()

    def discard(self) -> None:
        """Closes the incomplete file."""
        self._new.give_up()


class GrowingFile:
    """An existing HDF5 file that is written in place; whatever happens, it stays as it was last committed."""

    def __init__(self, path: str) -> None:
        """Raises as `CommittedFile`, and CorruptFileError if HDF5 cannot open the file."""
        self.path = path
        self._file = CommittedFile(path)
        try:
            # the targets of links are not read here
            check_structure(path, external="any")
            # registers filters for chunks that are read back
            import hdf5plugin  # noqa: F401

            with damaged_file_errors(path):
                self.h5 = h5py.File(self._file, "r+", libver=LIBVER)
        except BaseException:
            self._file.discard()
            self._file.close()
            raise
        self._discard = weakref.finalize(self, _leave, self.h5, self._file)

    def check(self) -> None:
        """As `NewFile.check`, but raises OSError."""
        self._file.check()

    def commit(self, *, shrinks: bool = False) -> None:
        """Brings all written bytes into the file; `shrinks`: data sets have lost rows, and none has gained any."""
        self.h5.flush()
        self._file.commit(shrinks=shrinks)

    def finish(self) -> None:
        """Commits, waits until the system has written the file to its storage, and closes it."""
        try:
            with hdf5_errors(self.path):
                self.h5.close()
                self._file.commit()
                self._file.sync()
        finally:
            self.discard()

    def forget(self) -> None:
        """As `NewFile.forget`."""
        self._file.discard()

    def discard(self) -> None:
        """Closes the file as it was last committed."""
        self._discard()


@contextmanager
def written_in_place(path: str, mode: Literal["w", "r+"], *, libver: tuple[str, str] = LIBVER) -> Iterator[Any]:
    """Context with a file of our own, open as an h5py file: a new file, or one that gets more structure.

    HDF5 is not told of system errors, after which it would keep objects that it has freed. Raises OSError when the file
    is closed if some of the written bytes are not in it.
    """
    content = NewBytes(path, new=mode == "w")
    try:
        h5 = h5py.File(content, mode, libver=libver)
        try:
            yield h5
        except BaseException:
            content.forget()
            # bytes that HDF5 reads back may be missing
            with suppress(OSError, RuntimeError):
                h5.close()
            raise
        h5.close()
        content.check()
    except RuntimeError:
        # an error from bytes that HDF5 has read back and that are not there
        content.check()
        raise
    finally:
        content.close()


@contextmanager
def hdf5_errors(path: str) -> Iterator[None]:
    """Context that turns exceptions of h5py into FileIOError with the path; Kinema's own errors pass."""
    try:
        yield
    except Error:
        raise
    except (OSError, RuntimeError) as error:
        raise FileIOError(f"cannot write: {_reason_of(error)}", at=path, format="H5MD") from None


@contextmanager
def damaged_file_errors(path: str) -> Iterator[None]:
    """Context that turns exceptions of h5py about an existing file into CorruptFileError; Kinema's own errors pass."""
    try:
        yield
    except Error:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, IndexError) as error:
        what = f"{path}: cannot append: {_reason_of(error)}"
        raise CorruptFileError(what, path=path, format="H5MD") from error


class _NewHdf5:
    """A new file, open as `h5` over its `bytes`; messages name it `path`."""

    def __init__(
        self,
        name: str,
        path: str,
        align: int | None,
        libver: tuple[str, str] = LIBVER,
        *,
        ordered: bool = False,
    ) -> None:
        options: dict[str, Any] = {"libver": libver, "track_order": ordered}
        if align is not None:
            options |= {"alignment_threshold": _ALIGN_FROM, "alignment_interval": align}
        check_no_link(name)
        self.path = path
        with hdf5_errors(path):
            self.bytes = NewBytes(name)
            self.h5 = h5py.File(self.bytes, "w", **options)

    def check(self) -> None:
        """As `NewFile.check`."""
        # asked after each block
        if self.bytes.failed:
            with hdf5_errors(self.path):
                self.bytes.check()

    def close(self) -> None:
        """Closes the file, once. Raises FileIOError if some of the written bytes are not in it."""
        if self.bytes.closed:
            return
        with hdf5_errors(self.path):
            self.h5.close()
        self.check()
        self.bytes.close()

    def give_up(self) -> None:
        """Closes the file without writing the bytes that HDF5 still holds."""
        if not self.bytes.closed:
            self.bytes.forget()
            # bytes that HDF5 reads back may be missing
            with suppress(OSError, RuntimeError):
                self.h5.close()
            self.bytes.close()


def _reason_of(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _close_and_discard(new: _NewHdf5, output: OutputFile) -> None:
    new.give_up()
    output.discard()


def _leave(h5: h5py.File, file: CommittedFile) -> None:
    file.discard()
    with suppress(OSError, RuntimeError):
        h5.close()
    file.close()
