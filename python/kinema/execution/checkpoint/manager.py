"""`CheckpointManager`: the checkpoint of one run. It refuses other runs' files, restores nodes, saves at intervals."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Protocol, TypeAlias

from kinema.base.errors import ArgumentError, CorruptFileError, Error, FileIOError
from kinema.base.notes import emit
from kinema.execution.checkpoint.counted import CountedBytes, Run
from kinema.execution.checkpoint.file import Checkpoint, CheckpointWriter, IdentityItem, Node, PassContent, load
from kinema.execution.checkpoint.signals import save_on_signals
from kinema.storage.output_checks import check_target, open_temporary
from kinema.storage.output_file import OutputFile

# largest share of a run that saving may take
_SHARE = 1 / 20
# the level of the root of a finished pass: such a node covers any tree
_ROOT = 63
# inode, time of modification, size
_FileState: TypeAlias = tuple[int, int, int]


class SavesNodes(Protocol):
    """Progress of a pass: a merge tree, or all that is needed to continue an output."""

    def serialize(self, write: Callable[[int, int, list[bytes]], None]) -> None:
        """Writes each node: level, index, partials."""


class SavesBytes(Protocol):
    """A part of a pass's results."""

    def to_bytes(self) -> bytes:
        """The bytes to store."""


class CheckpointManager:
    """The checkpoint of a run, pass by pass.

    `items`: all facts that decide the results of the run.

    `before_save`: called before a file is renamed: all data that the saved nodes rely on must be on disk after it.
    `rows_file`: the temporary file of results that the nodes rely on.
    `counted`: returns, by file name, the runs of bytes that the saved nodes, given by level and index, rely on.
    `is_running`: whether the run continues from the file: it was found to be complete and of this run.

    Raises ArgumentError if the checkpoint belongs to another run; the message says what differs.
    Raises CorruptFileError, TruncatedFileError, UnsupportedFormatError if the file is damaged or not a checkpoint.
    Raises FileNotFound, FileAccessError, FileIOError if the folder cannot be written, or the disk is full;
    FileAccessError also for pickled values without a proof.
    """

    def __init__(self, checkpoint: Checkpoint, items: Sequence[IdentityItem]) -> None:
        self.path = checkpoint.name
        self.before_save: Callable[[], None] | None = None
        self.counted: Callable[[list[tuple[int, int]]], Mapping[str, Iterable[Run]]] | None = None
        self._counted_bytes = CountedBytes()
        self._checkpoint = checkpoint
        self._items = list(items)
        self._passes: list[PassContent] = []  # finished passes, and the current pass without its nodes
        self._requested = False
        self._next = 0.0
        self._written: _FileState | None = None  # the file that this run has read or written
        # the file to be renamed next, and whether it is worth resuming: an interrupt may come after the renaming
        self._next_file: tuple[_FileState | None, bool] | None = None
        self._output: OutputFile | None = None
        self._is_noted = False
        self.is_running = False
        check_target(self.path)
        stored = load(self.path)
        if stored is not None:
            self._written = _state_of(self.path)
            self._refuse(stored.items, self._items)
        self._stored = [] if stored is None else stored.passes
        self._worth_resuming = any(one.nodes for one in self._stored)
        self._stored_digests = {} if stored is None else stored.counted
        folder = os.path.dirname(self.path)
        self.rows_file = None if stored is None or stored.rows is None else os.path.join(folder, stored.rows)

    @property
    def worth_resuming(self) -> bool:
        """Whether the file holds anything that took time to compute."""
        self._settle()
        return self._worth_resuming

    @worth_resuming.setter
    def worth_resuming(self, worth: bool) -> None:
        self._settle()
        self._worth_resuming = worth

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Saves on SIGUSR1 and SIGTERM within the block; a file that is not worth resuming is removed at its end.

        Raises ArgumentError if another run uses the same checkpoint: each run keeps a temporary file beside it.
        """
        self._output = OutputFile(self.path, alone=True)
        # a SIGTERM without a handler ends the process at the end of the signals' block
        with save_on_signals(self._request):
            try:
                yield
            except BaseException as error:
                self._settle()
                if _state_of(self.path) == self._written is not None:
                    if not self.worth_resuming:
                        self._checkpoint.remove()
                    elif self.is_running:
                        error.add_note(f"what was done is in {self.path}; the same call continues from there")
                raise
            finally:
                if self._output is not None:
                    self._output.discard()

    def begin_pass(self, items: Sequence[IdentityItem], *, save: bool = True) -> list[Node]:
        """The nodes of the next pass from an earlier run; saves, so that a full disk is an error now."""
        number = len(self._passes)
        stored = self._stored[number] if number < len(self._stored) else None
        if stored is not None:
            self._refuse(stored.items, items)
        self._passes.append(PassContent(list(items), 0))
        self._next = time.monotonic() + self._checkpoint.interval
        if stored is None:
            if save:
                self.save_start()
            return []
        nodes, stored.nodes = stored.nodes, []  # not held twice
        return nodes

    def save_start(self) -> None:
        """Saves the pass that has just begun, without nodes."""
        self._save(None)

    def poll(self, tree: SavesNodes) -> None:
        """Saves if it is time; to be called about ten times a second, from one thread."""
        if self._requested or time.monotonic() >= self._next:
            self.save(tree)

    def save(self, tree: SavesNodes) -> None:
        """Saves the nodes of the tree."""
        self._requested = False
        began = time.monotonic()
        self._save(tree)
        now = time.monotonic()
        self._next = now + max(self._checkpoint.interval, (now - began) / _SHARE)

    def save_after(self, error: BaseException, tree: SavesNodes) -> None:
        """Saves the tree after `error` has ended the pass; a failure to save becomes a note on it."""
        try:
            self.save(tree)
        except Error as second:
            error.add_note(f"and the checkpoint could not be saved: {second}")

    def end_pass(self, partials: Sequence[SavesBytes], last: bool) -> None:
        """Stores the root of the pass; it is saved with the next pass, or at the end if the file is kept."""
        if last and not self._checkpoint.keep:
            return
        self._passes[-1].nodes = [(_ROOT, 0, [partial.to_bytes() for partial in partials])]
        self.worth_resuming = True

    def finish(self) -> None:
        """Ends the run: removes the file, or saves it complete if it is kept."""
        if self._checkpoint.keep:
            self._save(None)
        else:
            self._checkpoint.remove()

    def check_counted(self, path: str, name: str | None = None) -> None:
        """Compares a file with the digests that the checkpoint stored for it, or for its earlier name.

        Raises CorruptFileError or TruncatedFileError if they differ.
        """
        stored = self._stored_digests
        CountedBytes.check(path, stored.get(os.path.basename(path)) or stored.get(os.path.basename(name or path), []))

    def damaged(self, what: str) -> CorruptFileError:
        """The error for nodes that contradict each other or their kernels."""
        at = self._stored[len(self._passes) - 1].at
        message = f"{self.path}: byte {at}: the checkpoint is damaged: {what}; remove it to start again"
        return CorruptFileError(message, path=self.path, offset=at)

    def _request(self) -> None:
        self._requested = True

    def _save(self, tree: SavesNodes | None) -> None:
        """Saves finished passes with their roots, and the current pass with the nodes of `tree`."""
        self._settle()
        if _state_of(self.path) not in (None, self._written):
            raise FileIOError(
                "the checkpoint was changed by somebody else; give every run a checkpoint of its own", at=self.path
            )

        def write(file: IO[bytes]) -> CheckpointWriter:
            writer = CheckpointWriter(file)
            writer.run(self._items)
            if self.rows_file is not None:
                # relative, so that both files can be moved together
                writer.rows(os.path.relpath(self.rows_file, os.path.dirname(self.path) or os.curdir))
            for one in self._passes:
                writer.begin_pass(one.items)
                for node in one.nodes:
                    writer.node(*node)
            if tree is not None:
                nodes: list[tuple[int, int]] = []

                def write_node(level: int, index: int, partials: list[bytes]) -> None:
                    nodes.append((level, index))
                    writer.node(level, index, partials)

                tree.serialize(write_node)
                if self.counted is not None and nodes:
                    runs = self.counted(nodes).items()
                    digests = {name: self._counted_bytes.digests(name, of) for name, of in runs}
                    writer.counted({os.path.basename(name): of for name, of in digests.items()})
            writer.end()
            if self.before_save is not None:
                self.before_save()
            return writer

        output = self._output or OutputFile(self.path)
        self._output = None
        with output:
            with open_temporary(output.temporary, "wb") as stream:
                writer = write(stream)
            self._next_file = _state_of(output.temporary), writer.n_nodes > 0
        self._settle()
        self._output = OutputFile(self.path)
        if writer.is_pickled and not self._is_noted:
            from kinema.storage.user_key import key_file

            self._is_noted = True
            emit(
                [
                    f"{self.path}: the checkpoint holds pickled values, signed with the key {key_file()}: a run "
                    "that continues from it needs that key; numbers, text, arrays, lists and mappings of them need none"
                ]
            )

    def _settle(self) -> None:
        """Records the state of a written file, if it was renamed."""
        if self._next_file is not None and _state_of(self.path) == self._next_file[0]:
            self._written, self._worth_resuming = self._next_file
            self._next_file = None

    def _refuse(self, stored: Sequence[IdentityItem], now: Sequence[IdentityItem]) -> None:
        difference = _difference(stored, now)
        if difference is not None:
            raise ArgumentError(
                f"the checkpoint is of another run: {difference}; run as before to continue, or remove "
                "the file to start again",
                at=self.path,
            )


def _difference(stored: Sequence[IdentityItem], now: Sequence[IdentityItem]) -> str | None:
    """The first difference between two runs, in words."""
    for one, other in zip(stored, now, strict=False):
        difference = one.difference(other)
        if difference is not None:
            return difference
    if len(stored) != len(now):
        more = (stored if len(stored) > len(now) else now)[min(len(stored), len(now))]
        return f"{more.what} ({more.label}) is {'missing' if len(stored) > len(now) else 'new'}"
    return None


def _state_of(path: str) -> _FileState | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
