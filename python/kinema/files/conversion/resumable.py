"""Files that `convert` writes under a temporary name, in several calls if there is a checkpoint.

A checkpoint holds the items that identify the call, the path of the temporary file, and one node of 24 bytes with three
little-endian uint64: the number of whole frames at the front of the file, the offset of the byte after them (for H5MD
the size of the file), and the inode of the file. The checkpoint is renamed only after these bytes are synced. From then
on the file has a name under which nobody removes it.

`RecordFile` is written by an encoder (XTC, DCD, ...), `BlockFile` by a Writer that commits its frames (H5MD).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, Error, FileIOError, TruncatedFileError, os_errors
from kinema.base.progress import Report
from kinema.execution.checkpoint.counted import Run
from kinema.execution.checkpoint.file import Checkpoint, IdentityItem, load
from kinema.execution.checkpoint.identity_items import array, digest_of, item_of_frames, items_of_files, plain
from kinema.execution.checkpoint.manager import CheckpointManager
from kinema.model.atom_table import Atoms
from kinema.model.selection.frames import FrameSelection
from kinema.storage.hdf5.output import OutputPart
from kinema.storage.output_checks import check_not_input
from kinema.storage.output_file import OutputFile, is_temporary_of, publish, write_index
from kinema.trajectory import Trajectory

T = TypeVar("T", bound="_ResumableFile")


class _State(NamedTuple):
    """State of a file on the disk."""

    frames: int
    n_bytes: int
    inode: int

    @classmethod
    def from_nodes(cls, nodes: Sequence[tuple[int, int, list[bytes]]]) -> _State | None:
        """The state in a checkpoint, None if it has no node. Raises ValueError if the nodes are invalid."""
        if not nodes:
            return None
        try:
            ((_, _, (stored,)),) = nodes
            return cls(*struct.unpack("<QQQ", stored))
        except struct.error:
            raise ValueError("a node is not that of a converted file") from None

    def to_bytes(self) -> bytes:
        """The bytes to store."""
        return struct.pack("<QQQ", *self)

    def is_of(self, path: str) -> bool:
        """Whether the file at `path` is the one that was written, and ends at the same byte."""
        with suppress(OSError):
            status = os.stat(path)
            return (status.st_ino, status.st_size) == (self.inode, self.n_bytes)
        return False


def items_of_convert(
    name: str,
    checkpoint: Checkpoint,
    trajectory: Trajectory,
    frames: FrameSelection,
    atoms: NDArray[np.uint32] | None,
    **options: object,
) -> list[IdentityItem]:
    """All inputs that decide the bytes of the file, and its place.

    Raises ArgumentError if the checkpoint is the output or an input.
    """
    if os.path.abspath(name) == os.path.abspath(checkpoint.name):
        raise ArgumentError("the output and checkpoint are two files; give two names", at=name)
    check_not_input(checkpoint.name, *trajectory.paths, trajectory.topology_name)
    chosen = np.arange(trajectory.n_atoms, dtype=np.uint32) if atoms is None else atoms
    folder = os.path.dirname(os.path.abspath(checkpoint.name))
    return [
        # another version may encode differently
        plain("the version of Kinema", _core.__version__),
        plain("the command", "convert"),
        *items_of_files(trajectory),
        item_of_frames(frames),
        array("the atoms", chosen, f"{len(chosen)} of {trajectory.n_atoms}"),
        *(plain(f"the {option}", str(value)) for option, value in options.items()),
        # relative, so that both files can be moved together
        plain("the output", os.path.relpath(os.path.abspath(name), folder)),
    ]


def item_of_atoms(atoms: Atoms | None) -> IdentityItem:
    """The atom data that the file will store; None if it stores none."""
    if atoms is None:
        return plain("what is known of the atoms", "nothing")
    known = {column: np.asarray(atoms.get(column)) for column in atoms.columns}
    digests = [
        f"{column} {digest_of(values.astype(str) if values.dtype.hasobject else values)}"
        for column, values in sorted(known.items())
    ]
    return IdentityItem("what is known of the atoms", " ".join(digests), ", ".join(sorted(known)))


def is_published(name: str, checkpoint: Checkpoint | None) -> bool:
    """Whether a file is the result of the checkpoint's call, which ended before it removed the checkpoint."""
    if checkpoint is None or not os.path.exists(name):
        return False
    content = load(checkpoint.name)
    if content is None or content.rows is None or not content.passes:
        return False
    rows = os.path.join(os.path.dirname(checkpoint.name), content.rows)
    with suppress(ValueError):
        state = _State.from_nodes(content.passes[0].nodes)
        return state is not None and not os.path.lexists(rows) and state.is_of(name)
    return False


@contextmanager
def record_file(
    name: str, checkpoint: Checkpoint | None, items: Callable[[Checkpoint], list[IdentityItem]]
) -> Iterator[RecordFile]:
    """A file that is renamed after the block; if the block raises, it is removed unless a checkpoint relies on it.

    Raises ArgumentError if another run writes the file, if the checkpoint belongs to another call or lacks its file;
    else as `OutputFile` and `CheckpointManager`.
    """
    if checkpoint is None:
        with OutputFile(name, alone=True) as output:
            yield RecordFile(output.temporary, name)
        return
    with _resumed(name, CheckpointManager(checkpoint, items(checkpoint)), _ResumableRecords) as file:
        yield file


@contextmanager
def block_file(
    name: str, checkpoint: Checkpoint, items: Callable[[Checkpoint], list[IdentityItem]]
) -> Iterator[BlockFile]:
    """As `record_file`, for a file that a Writer makes."""
    with _resumed(name, CheckpointManager(checkpoint, items(checkpoint)), BlockFile) as file:
        yield file


@contextmanager
def _resumed(name: str, manager: CheckpointManager, kind: type[T]) -> Iterator[T]:
    with manager.saving():
        file = kind(name, manager)
        try:
            yield file
            file.publish()
        except BaseException:
            file.leave()
            raise
        finally:
            file.close()
        manager.finish()


class RecordFile:
    """A file that is written in one call.

    `n_restored`: number of frames that an earlier call has written.
    """

    def __init__(self, temporary: str, name: str) -> None:
        self.temporary = temporary
        self.n_restored = 0
        self._name = name
        self._index: _core.WrittenIndex | None = None

    def write(self, how: Callable[..., _core.Written], *, progress: Report | None) -> _core.Written:
        """Writes all missing frames: `how` is called as `Encoder.write` without `workers` and `memory`.

        Raises as `how`.
        """
        written = how(self.temporary, self._name, progress=progress)
        self._index = written["index"]
        return written

    def reject(self) -> None:
        """Marks the file as wrong, so that no later call continues it."""

    def store_index(self) -> tuple[str, ...]:
        """Stores the index of the file, which has its final name; returns notes."""
        if self._index is None:
            return ()
        try:
            note = self._index.store(self._name, write_index)[1]
        except Error as error:
            note = f"{self._name}: the index could not be stored: {error}"
        return () if note is None else (note,)


class _ResumableFile:
    """A file that a checkpoint names: started by one call, continued by another.

    `n_restored`: number of frames that earlier calls have written.
    """

    def __init__(self, name: str, manager: CheckpointManager) -> None:
        self._name, self._manager = name, manager
        nodes = manager.begin_pass([], save=False)
        try:
            self._restored = _State.from_nodes(nodes)
        except ValueError as error:
            raise manager.damaged(str(error)) from None
        self._output, self.temporary = self._begun(name) if self._restored is None else self._found(name)
        self.n_restored = 0 if self._restored is None else self._restored.frames
        self._descriptor = -1
        with os_errors("cannot write", self.temporary):
            link = 0 if self.temporary == name else os.O_NOFOLLOW
            self._descriptor = os.open(self.temporary, os.O_RDWR | os.O_CLOEXEC | link)
            self._inode = os.fstat(self._descriptor).st_ino
        manager.before_save = self._sync
        manager.counted = lambda _: {self.temporary: self._settled()}

    def _begun(self, name: str) -> tuple[OutputFile, str]:
        manager = self._manager
        if manager.rows_file is not None and is_temporary_of(manager.rows_file, name):
            with suppress(FileNotFoundError):
                os.unlink(manager.rows_file)  # the call was ended before its checkpoint relied on a frame
        output = OutputFile(name, alone=True)
        try:
            # the file is named before it is protected, so a kill in between leaves nothing that later runs keep
            manager.rows_file = output.protected_name
            manager.save_start()
            output.protect()
        except BaseException:
            output.discard()
            raise
        return output, output.temporary

    def _found(self, name: str) -> tuple[OutputFile, str]:
        assert self._restored is not None
        part = self._manager.rows_file or name
        # an empty file of this process shows other runs that the output is being written
        output = OutputFile(name, alone=True, resumed=part)
        try:
            if is_temporary_of(part, name):
                self._manager.check_counted(part)
                return output, part
            if self._restored.is_of(name):
                # the run ended when only its checkpoint remained to be removed
                self._manager.check_counted(name, part)
                return output, name
        except BaseException:
            output.discard()
            raise
        output.discard()
        raise ArgumentError(
            f"not found beside {os.path.basename(name)}, but the checkpoint relies on the frames in it; bring "
            "it back, or remove the checkpoint to start again",
            at=part,
        )

    def serialize(self, write: Callable[[int, int, list[bytes]], None]) -> None:
        """Writes the node of the checkpoint."""
        state = self._state
        if state.frames:
            write(0, 0, [state.to_bytes()])

    def reject(self) -> None:
        """Removes the checkpoint and the file when the error leaves the block."""
        self._manager.worth_resuming = False

    def publish(self) -> None:
        """Gives the file its name."""
        self._manager.end_pass([self._state], last=True)
        if self.temporary == self._name:
            return
        try:
            if not os.path.samestat(os.stat(self.temporary), os.fstat(self._descriptor)):
                raise FileIOError("was replaced by another run; give every run a file of its own", at=self.temporary)
        except FileNotFoundError:
            raise FileIOError("was removed during the run", at=self.temporary) from None
        publish(self.temporary, self._name)
        if self._output.temporary == self.temporary:
            self._output.keep()

    def leave(self) -> None:
        """After an error: keeps the file if the checkpoint relies on it."""
        if not self._manager.worth_resuming and self.temporary != self._name:
            with suppress(FileNotFoundError):
                os.unlink(self.temporary)
        if self._output.temporary == self.temporary:
            self._output.keep()

    def close(self) -> None:
        """Releases the file at the end of this call."""
        os.close(self._descriptor)
        self._manager.before_save = self._manager.counted = None
        # no effect if the file is kept, because then the temporary file is the file itself
        self._output.discard()
        self._output.end()

    @property
    def _state(self) -> _State:
        """State of the file now."""
        raise NotImplementedError

    def _settled(self) -> Iterable[Run]:
        """The byte runs that `_state` counts and that no later write changes."""
        raise NotImplementedError

    def _sync(self) -> None:
        with os_errors("cannot write", self.temporary):
            os.fsync(self._descriptor)


class _ResumableRecords(_ResumableFile, RecordFile):
    """A file of records with a checkpoint."""

    def __init__(self, name: str, manager: CheckpointManager) -> None:
        super().__init__(name, manager)
        self._index = None
        self._commits = _core.Commits()

    def write(self, how: Callable[..., _core.Written], *, progress: Report | None) -> _core.Written:
        """Continues after the committed frames, and saves the progress."""
        if self.temporary == self._name:
            assert self._restored is not None
            return {"bytes": self._restored.n_bytes, "workers": 0, "wall": 0.0, "phases": {}, "index": None}

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(done, total)
            self._manager.poll(self)

        resumed = None if self._restored is None else self._restored[:2]
        try:
            written = how(self.temporary, self._name, progress=report, commits=self._commits, resumed=resumed)
        except BaseException as error:
            self._manager.is_running = self._has_begun
            if self._has_begun:
                self._manager.save_after(error, self)
            raise
        self._index = written["index"]
        self._manager.is_running = True
        # from here on nothing needs to be written again, however this call ends
        self._manager.save(self)
        return written

    @property
    def _has_begun(self) -> bool:
        """Whether the file of an earlier call was found."""
        return self._commits.committed()[0] >= max(self.n_restored, 1)

    def _settled(self) -> Iterable[Run]:
        # the head contains the number of frames, which is written last
        return [(self._commits.head(), self._state.n_bytes)]

    @property
    def _state(self) -> _State:
        """State of the file now."""
        frames, n_bytes = self._commits.committed()
        if self._restored is not None and frames <= self._restored.frames:
            return self._restored
        return _State(frames, n_bytes, self._inode)


class Growing(Protocol):
    """A sink that fills a file from its front on with frames or samples: a Writer, or the maker of a sample archive."""

    def __enter__(self) -> Any: ...

    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> Any: ...

    @property
    def n_frames(self) -> int:
        """Number taken so far, including those that were in the file."""

    @property
    def n_flushed(self) -> int:
        """Number of these that are in the file for good."""

    def flush(self) -> None:
        """Writes everything taken to the file."""

    def settled(self) -> list[Run]:
        """The bytes that `n_flushed` counts and that, with few exceptions, no later write changes."""


class BlockFile(_ResumableFile):
    """A file with a checkpoint whose frames a Writer commits: it grows from its first frame on."""

    def __init__(self, name: str, manager: CheckpointManager) -> None:
        super().__init__(name, manager)
        self._runs: list[Run] = []
        # the Writer, while open
        self._writer: Growing | None = None
        self._n_committed = self.n_restored

    def write(
        self,
        opened: Callable[[OutputPart], Growing],
        fill: Callable[[Any, Callable[[], None]], None],
        *,
        progress: Callable[[int], object],
    ) -> None:
        """Continues after the frames in the file; saves the progress.

        `fill(writer, taken)` gives the writer all frames after those it already has, and calls `taken` from time to
        time; `progress(n)` is called with the number of frames done. Raises as the Writer does, and TruncatedFileError
        if the file lacks frames that the checkpoint counts.
        """
        if self.temporary == self._name:
            return
        try:
            self._write(opened, fill, progress)
        except BaseException as error:
            if self._manager.is_running and self._n_committed:
                self._manager.save_after(error, self)
            raise
        # from here on nothing needs to be written again, however this call ends
        self._manager.save(self)

    def _write(
        self,
        opened: Callable[[OutputPart], Growing],
        fill: Callable[[Any, Callable[[], None]], None],
        progress: Callable[[int], object],
    ) -> None:
        writer = opened(OutputPart(self._name, self.temporary))
        try:
            with writer:
                if writer.n_frames < self.n_restored:
                    raise TruncatedFileError(
                        "the file is shorter than what was written of it: expected "
                        f"{self.n_restored} frames, found {writer.n_frames}",
                        at=self.temporary,
                    )
                # includes frames that were committed after the checkpoint was saved
                self.n_restored = writer.n_frames
                self._manager.is_running = True
                self._writer = writer

                def taken() -> None:
                    self._manager.poll(self)
                    progress(writer.n_frames)

                fill(writer, taken)
        finally:
            self._writer = None
            self._n_committed = writer.n_flushed

    def _settled(self) -> Iterable[Run]:
        return self._runs

    @property
    def _state(self) -> _State:
        if self._writer is not None:
            self._writer.flush()
            self._n_committed = self._writer.n_flushed
            self._runs = self._writer.settled()
        return _State(self._n_committed, os.fstat(self._descriptor).st_size, self._inode)
