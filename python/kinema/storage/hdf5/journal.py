"""A file that HDF5 grows in place: a process killed at any moment leaves it readable, with everything it committed.

The module knows nothing of H5MD, and knows HDF5 only as far as it must tell apart the pieces that HDF5 writes. It
promises nothing for a power cut.

HDF5 changes its book-keeping in place, piece by piece in the order of addresses. If it is killed in between, a data set
is longer than its index knows, or a node of the index has given away entries that no other node has yet. Here HDF5
writes into this object instead of a file. New space beyond the last commit is written at once, because nothing points
there yet. Everything else waits for `commit`, which writes in an order in which each step leaves a consistent file:

1. copies, after the end, of chunks that will be overwritten although the index on disk points to them (HDF5 reuses the
   space of a chunk that it replaces); then the index on disk is pointed to the copies;
2. data in place, which only gain rows after the known ones;
3. the superblock, which states the end of the file (after everything else if the file gets shorter);
4. nodes of the chunk index, from the root down: if a node is split, the new node (in new space) is known before the old
   one gives up its entries;
5. object headers, which state the lengths of data sets.

In a node that gains entries, the entries are written before their number. For this the file must have HDF5's format 1.8
(superblock 2, version 1 B-trees); `open` refuses others. One write within a page is assumed to be whole.

`NewBytes` does the same for files that HDF5 makes: nobody needs them before they are whole, so nothing waits.

Source of the layouts: HDF5 File Format Specification, version 3.0, sections II.A and III.A.
"""

from __future__ import annotations

import errno
import io
import os
from typing import Any

from kinema import _core
from kinema.base.errors import CorruptFileError, TruncatedFileError, UnsupportedFormatError, os_errors
from kinema.storage.hdf5.chunk_index import TREE, TREE_HEAD, ChunkEntry, chunk_entries, node_head, with_end_of_file
from kinema.storage.output_file import lock_alone

# bytes that the kernel is asked to write at a time
_WRITEBACK_BYTES = 8 << 20
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# superblock 2: signature, version, sizes of offsets and lengths, flags; then base, extension, end: 8 bytes each
_SUPERBLOCK_VERSION, _END_OF_FILE = 8, slice(28, 36)
# place of the address of a superblock extension, which would state other sizes of index nodes
_EXTENSION, _UNDEFINED = slice(20, 28), b"\xff" * 8
_OBJECT_HEADERS = (b"OHDR", b"OCHK")


class FileForHdf5(io.RawIOBase):
    """A file-like object over a descriptor, for h5py's `fileobj` driver; HDF5 is told that every write succeeds.

    After an error HDF5 keeps objects that it has freed, and crashes when they are used or the interpreter ends. So the
    first system error is kept for `check`, and nothing is written after it.
    """

    def __init__(self, handle: int) -> None:
        super().__init__()
        self._handle = handle
        self._position = 0
        # number and text: an exception would hold its frames, and with them the writer
        self._error: tuple[int, str] | None = None

    @property
    def failed(self) -> bool:
        """Whether some of the written bytes are not in the file, for example on a full disk."""
        return self._error is not None

    def check(self) -> None:
        """Raises OSError if a write has `failed`."""
        if self._error is not None:
            raise OSError(*self._error)

    def close(self) -> None:
        """Closes the file; unwritten bytes are lost. HDF5 must have closed it before."""
        if not self.closed:
            os.close(self._handle)
        super().close()

    def _keep(self, error: OSError) -> None:
        self._error = self._error or (error.errno or 0, error.strerror or str(error))

    @property
    def _size(self) -> int:
        """Size in bytes, as HDF5 has written the file."""
        return os.fstat(self._handle).st_size

    def _write_at(self, offset: int, view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += os.pwrite(self._handle, view[done:], offset + done)

    # called by h5py

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def flush(self) -> None:
        """Does nothing: HDF5 calls it at times of its own choice."""

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            got = os.preadv(self._handle, [view[done:]], self._position + done)
            if got == 0:
                view[done:] = bytes(len(view) - done)
                break
            done += got
        self._position += len(view)
        return len(view)


class NewBytes(FileForHdf5):
    """A file that HDF5 makes, or a file of our own that it changes in place.

    The kernel writes it to the storage in the background, so the sync at the end waits less.
    """

    def __init__(self, name: str, *, new: bool = True) -> None:
        """Raises OSError if the file cannot be made or opened."""
        flags = os.O_CREAT | os.O_TRUNC if new else 0
        super().__init__(os.open(name, os.O_RDWR | os.O_CLOEXEC | flags, 0o666))
        self._waiting = 0

    def forget(self) -> None:
        """Stops writing: nothing is written from now on."""
        self._keep(OSError(errno.ECANCELED, os.strerror(errno.ECANCELED)))

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._error is None:
            try:
                done = os.pwrite(self._handle, data, self._position)
                if done < size:
                    self._write_at(self._position + done, memoryview(data).cast("B")[done:])
                self._waiting += size
                if self._waiting >= _WRITEBACK_BYTES:
                    _core.start_writeback(self._handle)
                    self._waiting = 0
            except OSError as error:
                self._keep(error)
        self._position += size
        return size

    def truncate(self, size: int | None = None) -> int:
        end = self._position if size is None else size
        if self._error is None:
            try:
                os.ftruncate(self._handle, end)
            except OSError as error:
                self._keep(error)
        return end


class CommittedFile(FileForHdf5):
    """An existing HDF5 file; changes of what exists are held until `commit`."""

    def __init__(self, path: str) -> None:
        """Opens an existing HDF5 file of format 1.8 and locks it against other writers.

        Raises FileNotFound, FileAccessError (also if another program has locked the file), CorruptFileError if it is
        not an HDF5 file, and UnsupportedFormatError if it has another format.
        """
        self.path = path
        with os_errors("cannot append", path):
            super().__init__(os.open(path, os.O_RDWR))
        try:
            lock_alone(self._handle, path)
            stated = self._check_format()
            self._end = os.fstat(self._handle).st_size
            if self._end < stated:
                raise TruncatedFileError(
                    f"the file is shorter than what was written of it: expected {stated} bytes, found {self._end}",
                    at=path,
                    offset=self._end,
                )
            # nothing points to the bytes that a killed process has written after the end that the superblock states
            self._committed = min(stated, self._end)
        except BaseException:
            self.close()
            raise
        self._pending: dict[int, bytes] = {}
        self._discarding = False

    def commit(self, *, shrinks: bool = False) -> None:
        """Writes all waiting pieces, in the order that keeps the file readable; then all of them are in the file.

        `shrinks`: data sets have lost rows and none has gained any. Their new lengths are written before everything
        else, so that nothing points to the lost rows.
        """
        self.check()
        self._set_aside()
        pieces = sorted(self._pending.items(), key=lambda piece: self._turn(*piece))
        if shrinks:
            pieces.sort(key=lambda piece: not piece[1].startswith(_OBJECT_HEADERS))
        for offset, piece in pieces:
            self._write_piece(offset, piece)
        self._pending.clear()
        if os.fstat(self._handle).st_size != self._end:
            os.ftruncate(self._handle, self._end)
        self._committed = self._end

    def sync(self) -> None:
        """Waits until the system has written the file to its storage."""
        os.fsync(self._handle)

    def discard(self) -> None:
        """Drops all waiting pieces, and all that HDF5 writes from now on: the file stays as last committed."""
        self._discarding = True
        self._pending.clear()

    @property
    def _size(self) -> int:
        return self._end

    # what h5py calls

    def readinto(self, buffer: Any) -> int:
        start, wanted = self._position, super().readinto(buffer)
        view = memoryview(buffer).cast("B")
        for offset, piece in self._pending.items():
            first, last = max(offset, start), min(offset + len(piece), start + wanted)
            if first < last:
                view[first - start : last - start] = piece[first - offset : last - offset]
        return wanted

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        start, size = self._position, len(view)
        self._position += size
        if self._discarding:
            return size
        self._end = max(self._end, start + size)
        if start >= self._committed:
            try:
                self._write_at(start, view)
            except OSError as error:
                self._keep(error)
                self.discard()
        else:
            self._hold(start, bytes(view))
        return size

    def truncate(self, size: int | None = None) -> int:
        end = self._position if size is None else size
        if self._discarding:
            return end
        self._end = end
        if end > os.fstat(self._handle).st_size:
            # new space that is not written yet; giving up space waits for the commit
            try:
                os.ftruncate(self._handle, end)
            except OSError as error:
                self._keep(error)
                self.discard()
        return end

    # how

    def _hold(self, start: int, data: bytes) -> None:
        """Keeps `data` for the next commit; older pieces keep only the bytes that do not overlap."""
        stop = start + len(data)
        for offset, piece in list(self._pending.items()):
            if offset < stop and start < offset + len(piece):
                del self._pending[offset]
                if offset < start:
                    self._pending[offset] = piece[: start - offset]
                if stop < offset + len(piece):
                    self._pending[stop] = piece[stop - offset :]
        self._pending[start] = data

    def _set_aside(self) -> None:
        """Copies chunks that the index on disk points to and that will be overwritten; points the index to the copies.

        Chunks that keep their place, size and filters only gain rows: they are overwritten in place.
        """
        before = {
            at: os.pread(self._handle, len(piece), at) for at, piece in self._pending.items() if piece[:4] == TREE
        }
        kept = {entry.content for at in before for entry in chunk_entries(self._pending[at])}
        spans = [(at, at + len(piece)) for at, piece in self._pending.items()]
        endangered: list[tuple[int, ChunkEntry]] = []
        for at, node in before.items():
            for entry in chunk_entries(node):
                stop = entry.address + entry.size
                if entry.content not in kept and any(a < stop and entry.address < b for a, b in spans):
                    endangered.append((at, entry))
        if not endangered:
            return
        end = max(self._end, os.fstat(self._handle).st_size)
        places = []
        for at, entry in endangered:
            self._write_at(end, memoryview(os.pread(self._handle, entry.size, entry.address)))
            places.append((at + entry.place_of_address, end))
            end += entry.size
        superblock = os.pread(self._handle, 48, 0)
        self._write_at(0, memoryview(with_end_of_file(superblock, end)))
        self._pending.setdefault(0, superblock)
        for place, address in places:
            self._write_at(place, memoryview(address.to_bytes(8, "little")))

    def _turn(self, offset: int, piece: bytes) -> tuple[int, int, int]:
        """Sort key of a piece: its turn to be written."""
        if piece.startswith(_SIGNATURE):
            return (1 if self._superblock_grows(piece) else 9, 0, offset)
        if piece.startswith(TREE):
            return (2, -piece[5], offset)
        if piece.startswith(_OBJECT_HEADERS):
            return (3, 0, offset)
        return (0, 0, offset)

    def _superblock_grows(self, piece: bytes) -> bool:
        before = os.pread(self._handle, _END_OF_FILE.stop, 0)[_END_OF_FILE]
        return int.from_bytes(piece[_END_OF_FILE], "little") >= int.from_bytes(before, "little")

    def _write_piece(self, offset: int, piece: bytes) -> None:
        if piece.startswith(TREE):
            # same level and not fewer entries: the new ones come after those that the number on disk counts
            old, new = node_head(os.pread(self._handle, 8, offset)), node_head(piece)
            if old is not None and new is not None and old[:2] == new[:2] and old[2] <= new[2]:
                self._write_at(offset + TREE_HEAD, memoryview(piece)[TREE_HEAD:])
                self._write_at(offset, memoryview(piece)[:TREE_HEAD])
                return
        self._write_at(offset, memoryview(piece))

    def _check_format(self) -> int:
        """Raises if the file cannot grow; returns the end of the file that its superblock states."""
        head = os.pread(self._handle, 48, 0)
        if not head.startswith(_SIGNATURE) or len(head) < 48:
            raise CorruptFileError("is no HDF5 file that begins with its superblock", at=self.path)
        if head[_SUPERBLOCK_VERSION] != 2:
            raise UnsupportedFormatError(
                f"cannot append to HDF5 superblock version {head[_SUPERBLOCK_VERSION]}, expected 2, that "
                "of HDF5 1.8: a killed process would leave the file damaged; rewrite it with kinema.Writer",
                at=self.path,
                format="H5MD",
            )
        if head[_EXTENSION] != _UNDEFINED:
            raise UnsupportedFormatError(
                "cannot append to a file whose HDF5 superblock has an extension", at=self.path, format="H5MD"
            )
        end = int.from_bytes(head[_END_OF_FILE], "little")
        if with_end_of_file(head, end) != head:
            raise CorruptFileError("checksum of the HDF5 superblock does not hold", at=self.path)
        return end
