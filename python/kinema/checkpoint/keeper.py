"""Keeps the checkpoint of one run: refuses one of another run, gives back what is done, saves now and then.

It does not run anything and hands nothing out; what a run is, its items, is told by its caller.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from kinema import _core
from kinema.checkpoint.file import Checkpoint, Item, Node, RoundContent, Writer, load
from kinema.checkpoint.signals import heeding
from kinema.errors import ArgumentError, CorruptFileError, Error, FileIOError
from kinema.output import check_folder, write_whole

__all__ = ["Keeper"]

# saving takes this share of a run at the most
_SHARE = 1 / 20
# the level that the root of a finished round is given: one that covers any tree
_ROOT = 63


class Keeper:
    """The checkpoint of a run, round by round.

    Parameters
    ----------
    checkpoint : Checkpoint
    items : list of Item
        All that decides the results of the run.

    Attributes
    ----------
    path : str
    before_save : function or None
        Called before a file is renamed: what the saved nodes rely on is to be on disk then.
    worth_keeping : bool
        Whether the file holds anything that took time.

    Raises
    ------
    ArgumentError
        For the checkpoint of another run; the message says what differs.
    CorruptFileError, TruncatedFileError, UnsupportedFormatError
        For a file that is damaged or no checkpoint.
    FileNotFound, FileAccessError, FileIOError
        For a folder that cannot be written, or a full disk.
    """

    def __init__(self, checkpoint: Checkpoint, items: Sequence[Item]) -> None:
        self.path = checkpoint.name
        self.before_save: Callable[[], None] | None = None
        self._checkpoint = checkpoint
        self._items = list(items)
        self._rounds: list[RoundContent] = []  # finished ones, and the one at work without its nodes
        self._requested = False
        self._next = 0.0
        self._written: tuple[int, int, int] | None = None  # identity of the file that this run knows
        check_folder(self.path)
        found = load(self.path)
        checkpoint.remove_leftovers()
        if found is not None:
            self._written = _stamp(self.path)
            self._refuse(found.items, self._items)
        self._found = [] if found is None else found.rounds
        self.worth_keeping = any(one.nodes for one in self._found)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Saves on SIGUSR1 and SIGTERM within the block, and tidies up at its end; see `signals.heeding`."""
        with heeding(self._request):
            try:
                yield
            except BaseException as error:
                if self.worth_keeping:
                    error.add_note(f"what was done is in {self.path}; the same call goes on from there")
                elif self._written is not None:
                    self._checkpoint.remove()
                raise

    def begin_round(self, items: Sequence[Item]) -> list[Node]:
        """The nodes that an earlier run has gathered of the next round; saves, so that a full disk is told now."""
        number = len(self._rounds)
        found = self._found[number] if number < len(self._found) else None
        if found is not None:
            self._refuse(found.items, items)
        self._rounds.append(RoundContent(list(items), 0))
        self._next = time.monotonic() + self._checkpoint.interval
        if found is None:
            self._save(None)
            return []
        nodes, found.nodes = found.nodes, []  # not held twice
        return nodes

    def look(self, tree: _core.MergeTree) -> None:
        """Saves where it is time; to be called about ten times a second, from one thread."""
        if self._requested or time.monotonic() >= self._next:
            self.save(tree)

    def save(self, tree: _core.MergeTree) -> None:
        """Saves what the tree holds."""
        self._requested = False
        began = time.monotonic()
        self._save(tree)
        now = time.monotonic()
        self._next = now + max(self._checkpoint.interval, (now - began) / _SHARE)

    def save_after(self, error: BaseException, tree: _core.MergeTree) -> None:
        """Saves what is there when `error` has ended the round; a failure to do so is noted on it."""
        try:
            self.save(tree)
        except Error as second:
            error.add_note(f"and the checkpoint could not be saved: {second}")

    def end_round(self, partials: Sequence[_core.Partial], last: bool) -> None:
        """Takes in the root of the round; it is saved with the next one, or at the end where it is kept."""
        if last and not self._checkpoint.keep:
            return
        self._rounds[-1].nodes = [(_ROOT, 0, [partial.to_bytes() for partial in partials])]
        self.worth_keeping = True

    def finish(self) -> None:
        """The run is done: removes the file, or saves it whole where it is kept."""
        if self._checkpoint.keep:
            self._save(None)
        else:
            self._checkpoint.remove()

    def damaged(self, what: str) -> CorruptFileError:
        """The error for nodes that contradict each other or their kernels."""
        at = self._found[len(self._rounds) - 1].at
        message = f"{self.path}: byte {at}: the checkpoint is damaged: {what}; remove it to begin anew"
        return CorruptFileError(message, path=self.path, offset=at)

    def _request(self) -> None:
        self._requested = True

    def _save(self, tree: _core.MergeTree | None) -> None:
        """Rounds that are finished with their roots, and the one at work with the nodes of `tree`."""
        if _stamp(self.path) not in (None, self._written):
            raise FileIOError(
                f"{self.path}: the checkpoint was changed by somebody else; give every run a checkpoint of its own",
                path=self.path,
            )
        n_nodes = 0

        def write(file: IO[bytes]) -> None:
            nonlocal n_nodes
            writer = Writer(file)
            writer.run(self._items)
            for one in self._rounds:
                writer.round(one.items)
                for node in one.nodes:
                    writer.node(*node)
            if tree is not None:
                tree.pack(writer.node)
            writer.end()
            n_nodes = writer.n_nodes
            if self.before_save is not None:
                self.before_save()

        write_whole(self.path, write)
        self._written = _stamp(self.path)
        self.worth_keeping = n_nodes > 0

    def _refuse(self, stored: Sequence[Item], now: Sequence[Item]) -> None:
        difference = _difference(stored, now)
        if difference is not None:
            raise ArgumentError(
                f"{self.path}: the checkpoint is of another run: {difference}; run as before to go on, or remove the "
                "file to begin anew",
                path=self.path,
            )


def _difference(stored: Sequence[Item], now: Sequence[Item]) -> str | None:
    """The first thing in which two runs differ, in words."""
    for one, other in zip(stored, now, strict=False):
        if one.what != other.what:
            return f"expected {one.what} ({one.told}), found {other.what} ({other.told})"
        if one.exact != other.exact:
            same_words = one.told == other.told
            told, found = (one.exact, other.exact) if same_words else (one.told, other.told)
            return f"{one.what}, expected {told}, found {found}"
    if len(stored) != len(now):
        more = (stored if len(stored) > len(now) else now)[min(len(stored), len(now))]
        return f"{more.what} ({more.told}) is {'missing' if len(stored) > len(now) else 'new'}"
    return None


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
