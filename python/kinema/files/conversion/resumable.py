"""Files that `convert` writes under a temporary name; with a checkpoint in several calls.

What a checkpoint holds: the items that identify the call, the temporary file, and one node of 24 bytes with three
little-endian uint64: frames at the front of the file that are whole, the byte behind them (of H5MD the size of the
file), the inode of the file. It is renamed only after these bytes are synced. The file has a name then under which
nobody removes it.

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
from kinema.base.errors import ArgumentError, Error, FileIOError, TruncatedFileError, from_os
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

__all__ = [
    "BlockFile",
    "Growing",
    "RecordFile",
    "block_file",
    "is_published",
    "item_of_atoms",
    "items_of_convert",
    "record_file",
]

T = TypeVar("T", bound="_ResumableFile")


class _State(NamedTuple):
    """What is on the disk of a file."""

    frames: int
    n_bytes: int
    inode: int

    @classmethod
    def from_nodes(cls, nodes: Sequence[tuple[int, int, list[bytes]]]) -> _State | None:
        """What a checkpoint holds; None for one without anything. ValueError for anything else."""
        if not nodes:
            return None
        try:
            ((_, _, (stored,)),) = nodes
            return cls(*struct.unpack("<QQQ", stored))
        except struct.error:
            raise ValueError("a node is not that of a converted file") from None

    def to_bytes(self) -> bytes:
        """To be stored."""
        return struct.pack("<QQQ", *self)

    def is_of(self, path: str) -> bool:
        """Whether a file is the one that was written, and ends where it did."""
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
    """All that decides the bytes of the file, and where it is.

    ArgumentError where the checkpoint is the output, or a file that is read.
    """
    if os.path.abspath(name) == os.path.abspath(checkpoint.name):
        raise ArgumentError(f"{name}: the output and checkpoint are two files; give two names", path=name)
    check_not_input(checkpoint.name, *trajectory.paths, trajectory.topology_name)
    chosen = np.arange(trajectory.n_atoms, dtype=np.uint32) if atoms is None else atoms
    folder = os.path.dirname(os.path.abspath(checkpoint.name))
    return [
        # other versions may encode otherwise
        plain("the version of Kinema", _core.__version__),
        plain("the command", "convert"),
        *items_of_files(trajectory),
        item_of_frames(frames),
        array("the atoms", chosen, f"{len(chosen)} of {trajectory.n_atoms}"),
        *(plain(f"the {option}", str(value)) for option, value in options.items()),
        # so that both can be moved together
        plain("the output", os.path.relpath(os.path.abspath(name), folder)),
    ]


def item_of_atoms(atoms: Atoms | None) -> IdentityItem:
    """Of what is known of the atoms that are written, where the file says it."""
    if atoms is None:
        return plain("what is known of the atoms", "nothing")
    known = {column: np.asarray(atoms.get(column)) for column in atoms.columns}
    digests = [
        f"{column} {digest_of(values.astype(str) if values.dtype.hasobject else values)}"
        for column, values in sorted(known.items())
    ]
    return IdentityItem("what is known of the atoms", " ".join(digests), ", ".join(sorted(known)))


def is_published(name: str, checkpoint: Checkpoint | None) -> bool:
    """Whether a file is what the call of a checkpoint has made, which was ended before it removed the checkpoint."""
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
    """A file that gets its name after the block; removed where the block raises, unless a checkpoint relies on it.

    ArgumentError where another run writes it, for the checkpoint of another call and one without its file; else as
    `OutputFile` and `CheckpointManager`.
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
    """A file that is written once.

    Attributes
    ----------
    temporary : str
    n_restored : int
        Frames that an earlier call has written.
    """

    def __init__(self, temporary: str, name: str) -> None:
        self.temporary = temporary
        self.n_restored = 0
        self._name = name
        self._index: _core.WrittenIndex | None = None

    def write(self, how: Callable[..., _core.Written], *, progress: Report | None) -> _core.Written:
        """Writes all frames that are not there: `how` is called as `Encoder.write` without `workers` and `memory`.

        Raises as that.
        """
        written = how(self.temporary, self._name, progress=progress)
        self._index = written["index"]
        return written

    def reject(self) -> None:
        """What was written is not what it should be: nobody goes on with it."""

    def store_index(self) -> tuple[str, ...]:
        """Stores the index of the file, which has its name; returns what is to be noted."""
        if self._index is None:
            return ()
        try:
            note = self._index.store(self._name, write_index)[1]
        except Error as error:
            note = f"{self._name}: the index could not be stored: {error}"
        return () if note is None else (note,)


class _ResumableFile:
    """A file that a checkpoint names: begun by one call, gone on with by another.

    Attributes
    ----------
    temporary : str
    n_restored : int
        Frames that earlier calls have written.
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
        try:
            link = 0 if self.temporary == name else os.O_NOFOLLOW
            self._descriptor = os.open(self.temporary, os.O_RDWR | os.O_CLOEXEC | link)
            self._inode = os.fstat(self._descriptor).st_ino
        except OSError as error:
            raise from_os("cannot write", error, path=self.temporary) from None
        manager.before_save = self._sync
        manager.counted = lambda _: {self.temporary: self._settled()}

    def _begun(self, name: str) -> tuple[OutputFile, str]:
        manager = self._manager
        if manager.rows_file is not None and is_temporary_of(manager.rows_file, name):
            with suppress(FileNotFoundError):
                os.unlink(manager.rows_file)  # the call was ended before the checkpoint relied on any frame in it
        output = OutputFile(name, alone=True)
        try:
            # named before it is protected: a run that is killed in between leaves nothing that a later one keeps
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
        # an empty file of this process shows others that the output is being written
        output = OutputFile(name, alone=True, resumed=part)
        try:
            if is_temporary_of(part, name):
                self._manager.check_counted(part)
                return output, part
            if self._restored.is_of(name):
                # the run was ended when nothing but its checkpoint was left to be removed
                self._manager.check_counted(name, part)
                return output, name
        except BaseException:
            output.discard()
            raise
        output.discard()
        raise ArgumentError(
            f"{part}: not found beside {os.path.basename(name)}, but the checkpoint relies on the frames in it; bring "
            "it back, or remove the checkpoint to start again",
            path=part,
        )

    def serialize(self, write: Callable[[int, int, list[bytes]], None]) -> None:
        """Gives the node of the checkpoint."""
        state = self._state
        if state.frames:
            write(0, 0, [state.to_bytes()])

    def reject(self) -> None:
        """The checkpoint and the file go when the error has left the block."""
        self._manager.worth_resuming = False

    def publish(self) -> None:
        """Gives the file its name."""
        self._manager.end_pass([self._state], last=True)
        if self.temporary == self._name:
            return
        try:
            if not os.path.samestat(os.stat(self.temporary), os.fstat(self._descriptor)):
                raise FileIOError(
                    f"{self.temporary}: was replaced by another run; give every run a file of its own",
                    path=self.temporary,
                )
        except FileNotFoundError:
            raise FileIOError(f"{self.temporary}: was removed while the run went on", path=self.temporary) from None
        publish(self.temporary, self._name)
        if self._output.temporary == self.temporary:
            self._output.keep()

    def leave(self) -> None:
        """An error has ended the call: the file stays where the checkpoint relies on it."""
        if not self._manager.worth_resuming and self.temporary != self._name:
            with suppress(FileNotFoundError):
                os.unlink(self.temporary)
        if self._output.temporary == self.temporary:
            self._output.keep()

    def close(self) -> None:
        """This call is done with the file."""
        os.close(self._descriptor)
        self._manager.before_save = self._manager.counted = None
        # nothing where it is kept: then it is the file itself
        self._output.discard()
        self._output.end()

    @property
    def _state(self) -> _State:
        """What is in the file."""
        raise NotImplementedError

    def _settled(self) -> Iterable[Run]:
        """The bytes of what `_state` counts that no later write changes."""
        raise NotImplementedError

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise from_os("cannot write", error, path=self.temporary) from None


class _ResumableRecords(_ResumableFile, RecordFile):
    """A file of records with a checkpoint."""

    def __init__(self, name: str, manager: CheckpointManager) -> None:
        super().__init__(name, manager)
        self._index = None
        self._commits = _core.Commits()

    def write(self, how: Callable[..., _core.Written], *, progress: Report | None) -> _core.Written:
        """Goes on behind what was committed, and saves how far it is."""
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
        # from here on nothing has to be written again, whatever ends this call
        self._manager.save(self)
        return written

    @property
    def _has_begun(self) -> bool:
        """Whether what an earlier call has left was found again."""
        return self._commits.committed()[0] >= max(self.n_restored, 1)

    def _settled(self) -> Iterable[Run]:
        # the head has the number of frames, which is written last
        return [(self._commits.head(), self._state.n_bytes)]

    @property
    def _state(self) -> _State:
        """What is in the file."""
        frames, n_bytes = self._commits.committed()
        if self._restored is not None and frames <= self._restored.frames:
            return self._restored
        return _State(frames, n_bytes, self._inode)


class Growing(Protocol):
    """What brings frames, or samples, into a file from its front on: a Writer, or what makes a sample archive."""

    def __enter__(self) -> Any: ...

    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> Any: ...

    @property
    def n_frames(self) -> int:
        """Taken so far, those that were there included."""

    @property
    def n_flushed(self) -> int:
        """Those of them that are in the file for good."""

    def flush(self) -> None:
        """Brings what was taken into the file."""

    def settled(self) -> list[Run]:
        """The bytes of what `n_flushed` counts that no later write changes, but for few."""


class BlockFile(_ResumableFile):
    """A file with a checkpoint whose frames a Writer commits: it is a file that grows, from its first frames on."""

    def __init__(self, name: str, manager: CheckpointManager) -> None:
        super().__init__(name, manager)
        self._runs: list[Run] = []
        # the Writer while it is open
        self._writer: Growing | None = None
        self._n_committed = self.n_restored

    def write(
        self,
        opened: Callable[[OutputPart], Growing],
        fill: Callable[[Any, Callable[[], None]], None],
        *,
        progress: Callable[[int], object],
    ) -> None:
        """Goes on behind the frames in the file; saves how far it is.

        `fill(writer, taken)` gives the writer all frames behind those that it has, and calls `taken` from time to time;
        `progress(n)` is called with what is done. Raises as the Writer does, and TruncatedFileError for a file
        that lacks frames which the checkpoint counts.
        """
        if self.temporary == self._name:
            return
        try:
            self._write(opened, fill, progress)
        except BaseException as error:
            if self._manager.is_running and self._n_committed:
                self._manager.save_after(error, self)
            raise
        # from here on nothing has to be written again, whatever ends this call
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
                        f"{self.temporary}: the file is shorter than what was written of it: expected "
                        f"{self.n_restored} frames, found {writer.n_frames}",
                        path=self.temporary,
                    )
                # also those that were committed after the checkpoint was saved
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
