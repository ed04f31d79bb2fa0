"""Writing in order on a Dask cluster: bytes stay on the worker that made them; the client gets their sizes.

Each piece takes three tasks: `make_bytes`, whose result stays on its worker; `describe_bytes`, which sends the size to
the client; and `place_bytes`, after all earlier sizes are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Future

from kinema.cache.counts import SentCounts, add_counts, take_counts
from kinema.runners.calls import CalledFunction, Received
from kinema.runners.dask.task_submitter import TaskSubmitter
from kinema.runners.dask.tasks import TaskFailure, task_error, task_failure

# seconds between two polls for results
_TICK = 0.1


class MadeBytes:
    """Bytes with a note, and the counts of node caches of the worker that made them, kept in a worker's data."""

    def __init__(self, data: Any, note: Any, counts: SentCounts | None) -> None:
        self.data, self.note, self.counts = data, note, counts

    def __sizeof__(self) -> int:
        return memoryview(self.data).nbytes


def make_bytes(function: CalledFunction, numbered: tuple[int, bytes]) -> MadeBytes | TaskFailure:
    """Task: the bytes of a computation."""
    try:
        data, note = function.value(numbered[1])
        # now: another worker may describe the bytes
        return MadeBytes(data, note, take_counts())
    except BaseException as error:
        return task_failure(error)


def describe_bytes(
    _function: CalledFunction, _number: int, made: MadeBytes | TaskFailure
) -> tuple[int, Any, SentCounts | None] | TaskFailure:
    """Task: the number of bytes, their note, and the counts of node caches."""
    return made if isinstance(made, TaskFailure) else (memoryview(made.data).nbytes, made.note, made.counts)


def place_bytes(
    function: CalledFunction, numbered: tuple[int, int], made: MadeBytes | TaskFailure
) -> TaskFailure | None:
    """Task: writes the bytes at an offset."""
    try:
        if isinstance(made, TaskFailure):
            return made
        function.get().place(numbered[1], made.data)
    except BaseException as error:
        return task_failure(error)
    return None


@dataclass(eq=False)
class _Piece:
    """A computation in progress: its bytes on a worker, and their size and note once known."""

    made: Future
    size: int | None = None
    note: Any = None
    placed: bool = False


class OrderedTasks:
    """The pieces of one call of `write_in_order`.

    `submitter`: submits `make_bytes` tasks.
    `most`: most pieces that are in progress at a time.
    `received`: as in `Runner.write_in_order`.
    """

    def __init__(
        self, submitter: TaskSubmitter, packed: Sequence[bytes], *, offset: int, most: int, received: Received
    ) -> None:
        self._submitter, self._packed, self._received = submitter, packed, received
        self._most = most
        # offset and number of the first piece that is not placed yet
        self._offset, self._next_placed = offset, 0
        self._next_received = 0
        self._following = 0
        self._pieces: dict[int, _Piece] = {}

    def run(self) -> None:
        """Submits pieces and takes results until all bytes are in the file."""
        try:
            while self._next_received < len(self._packed):
                self._begin()
                for (number, offset), result in self._submitter.completed(_TICK):
                    if isinstance(result, TaskFailure):
                        raise task_error(result, self._name(number))
                    self._take(number, offset, result)
        finally:
            for piece in self._pieces.values():
                piece.made.release()

    def _name(self, number: int) -> str:
        return f"part {number + 1} of {len(self._packed)}"

    def _begin(self) -> None:
        while self._following < len(self._packed) and len(self._pieces) < self._most:
            number = self._following
            self._following += 1
            made = self._submitter.keep((number, self._packed[number]))
            self._pieces[number] = _Piece(made)
            self._submitter.submit((number, None), self._name(number), function=describe_bytes, inputs=[made])

    def _take(self, number: int, offset: int | None, result: Any) -> None:
        piece = self._pieces[number]
        if offset is None:
            piece.size, piece.note, counts = result
            add_counts(counts)
        else:
            piece.placed = True
            # the bytes are not needed any more
            piece.made.release()
        self._place()
        while (first := self._pieces.get(self._next_received)) is not None and first.placed:
            del self._pieces[self._next_received]
            self._next_received += 1
            assert first.size is not None
            self._received(self._next_received - 1, first.size, first.note)

    def _place(self) -> None:
        """Submits the writing of all pieces whose offset is now known."""
        while (piece := self._pieces.get(self._next_placed)) is not None and piece.size is not None:
            number = self._next_placed
            self._submitter.submit(
                (number, self._offset), self._name(number), function=place_bytes, inputs=[piece.made]
            )
            self._offset += piece.size
            self._next_placed += 1
