"""`OneSided`: ranks get blocks out of each other's node caches by MPI's one-sided operations.

A directory in an MPI window, spread over the ranks, says of each block that nobody has it, that a rank is reading it,
or in which rank's memory it is, and where. A rank that finds nothing claims the block, reads it from its source into
the cache of its node, maps the file of the cache and attaches the map to a second window, from which others get it.
"""

from __future__ import annotations

import mmap
import threading
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.base import notes
from kinema.base.errors import ArgumentError, CorruptFileError, Error, WaitTimeoutError
from kinema.cache.mpi.progress import progressing, sleep_between
from kinema.cache.mpi.ranks import run_on_all_ranks

# places of one rank in the directory; number of places that are searched for a block
_PLACES = 1 << 16
_PROBES = 8
# words of a place: a hash of the block, its state, and the entry once a rank has the block
_KEY, _STATE, _ENTRY = 0, 1, 2
# words of an entry: a second hash of the block; address, length and checksum
_ENTRY_WORDS = 4
_WORDS = _ENTRY + _ENTRY_WORDS
# the word after all places: number of ranks that are getting a block of this rank
_GETTING = _PLACES * _WORDS
# states: being read; no rank has the block any more; otherwise the rank that has it, plus one
_READING, _NOBODY = 0, -1
# bytes of one transfer
_PIECE = 8 << 20
# most mapped blocks of a rank
_MOST_BLOCKS = 1 << 14
# seconds for which a rank that was too slow is not asked
_PAUSE = 10.0
_SHORTEST, _LONGEST = 0.0005, 0.02
# seconds between two tests whether a transfer is done
_TEST = 0.00002
_ALL_BITS = (1 << 64) - 1

Place = tuple[int, int]


class OneSided:
    """One-sided transfers of blocks between ranks; making and closing are collective.

    `comm`: mpi4py communicator; a duplicate is used.
    `step`: seconds that another rank may take to read a block, and that each piece of the block may take to arrive.
    `most`: most bytes of blocks that this rank maps for the others.

    Raises WorkerError on all ranks, if MPI was not started with MPI_THREAD_MULTIPLE on one of them.
    """

    def __init__(self, comm: Any, step: float, most: int) -> None:
        self._step, self._room = step, most
        self._comm = comm.Dup()
        try:
            run_on_all_ranks(self._comm, _check_threads)
        except Error:
            self._comm.Free()
            raise
        self._rank: int = self._comm.Get_rank()
        self._size: int = self._comm.Get_size()
        self._directory = MPI.Win.Allocate((_GETTING + 1) * 8, 8, comm=self._comm)
        words = np.asarray(self._directory.tomemory(), np.uint8).view(np.int64)
        words[:] = 0
        self._blocks = MPI.Win.Create_dynamic(comm=self._comm)
        for window in (self._directory, self._blocks):
            window.Lock_all()
        self._directory.Sync()
        sleep_between(self._comm.Ibarrier())
        self._changed = threading.Condition()
        self._users, self._closed = 0, False
        self._claims: dict[bytes, Place] = {}
        self._mapped: list[mmap.mmap] = []
        # abandoned transfers, to whose memory MPI may still write
        self._late: list[tuple[Any, bytearray | NDArray[np.int64]]] = []
        self._slow: dict[int, float] = {}
        self._noted = False
        self._thread = ExitStack()
        self._thread.enter_context(progressing(self._comm, lambda: bool(words[_GETTING])))

    # -- called by the cache, from any thread -------------------------------------------------------------------------

    def fetch(self, name: bytes) -> tuple[list[bytes], int] | None:
        """The pieces of a block and the checksum that they should have; None if this rank is to read the source.

        `name` is a hash of 16 bytes. Raises WaitTimeoutError if another rank takes too long, and MPI's own errors.
        Directory operations wait for MPI without a limit.
        """
        if not self._enter():
            return None
        try:
            key, check = _hashes(name)
            for probe in range(_PROBES):
                place = self._place(key, probe)
                found = self._swap(place, _KEY, 0, key)
                if found == key:
                    return self._from_place(place, name, check)
                if found == 0:
                    self._claims[name] = place
                    return None
            return None
        finally:
            self._leave()

    def stored(self, name: bytes, block: tuple[str, int, int] | None) -> None:
        """Reports a block for which `fetch` returned None: its path, length and checksum in the cache, or None."""
        place = self._claims.pop(name, None)
        if place is None or not self._enter():
            return
        try:
            if block is None or block[1] > self._room or len(self._mapped) >= _MOST_BLOCKS:
                state = _NOBODY
            else:
                state = self._given(place, name, *block)
            self._swap(place, _STATE, _READING, state)
        except MPI.Exception as error:
            self._note(f"other ranks do not hear of a block: {error}")
        finally:
            self._leave()

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the transfers; collective. The cache reads the sources from now on."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.wait_for(lambda: self._users == 0)
        for request, _ in self._late:
            sleep_between(request)
        # from here on nobody gets blocks of this rank
        sleep_between(self._comm.Ibarrier())
        self._thread.close()
        for window in (self._directory, self._blocks):
            window.Unlock_all()
        for memory in self._mapped:
            self._blocks.Detach(memory)
        self._directory.Free()
        self._blocks.Free()
        self._comm.Free()
        for memory in self._mapped:
            memory.close()
        self._mapped.clear()

    def _enter(self) -> bool:
        with self._changed:
            self._users += not self._closed
            return not self._closed

    def _leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._changed.notify_all()

    # -- the directory ------------------------------------------------------------------------------------------------

    def _place(self, key: int, probe: int) -> Place:
        """Rank and first word of a place."""
        rank, number = key % self._size, key // self._size % _PLACES
        return rank, (number + probe) % _PLACES * _WORDS

    def _swap(self, place: Place, word: int, expected: int, new: int) -> int:
        """Writes a word if it has the expected value; returns the value that it had."""
        rank, at = place
        result = np.empty(1, np.int64)
        values = np.array([new, expected], np.int64)
        self._directory.Compare_and_swap(values[:1], values[1:], result, rank, at + word)
        self._directory.Flush(rank)
        return int(result[0])

    def _from_place(self, place: Place, name: bytes, check: int) -> tuple[list[bytes], int] | None:
        """The block of a place that some rank has claimed."""
        deadline, pause = time.monotonic() + self._step, _SHORTEST
        while (state := self._swap(place, _STATE, _NOBODY, _READING)) == _READING:
            if time.monotonic() >= deadline:
                raise WaitTimeoutError(f"another rank has not read it in {self._step:g} s")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
        if state == _NOBODY:
            self._claims[name] = place
            return None
        entry = np.empty(_ENTRY_WORDS, np.int64)
        rank, at = place
        self._finish(
            self._directory.Rget([entry, MPI.INT64_T], rank, (at + _ENTRY, _ENTRY_WORDS, MPI.INT64_T)), entry, rank
        )
        found, address, length, checksum = map(int, entry)
        if found != check:
            return None  # another block with the same key
        return self._get(state - 1, address, length), checksum & _ALL_BITS

    # -- bytes --------------------------------------------------------------------------------------------------------

    def _given(self, place: Place, name: bytes, path: str, length: int, checksum: int) -> int:
        """Maps a block, which the cache may remove, and enters it; returns the new state of its place."""
        try:
            with open(path, "rb") as file:
                # private, and not read-only: some networks take no other memory
                memory = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_COPY)
            self._blocks.Attach(memory)
        except (OSError, MPI.Exception) as error:
            self._note(f"{path}: is not given to other ranks: {error}")
            return _NOBODY
        self._mapped.append(memory)
        self._room -= length
        words = [_hashes(name)[1], MPI.Get_address(memory), length, checksum]
        entry = np.array([word & _ALL_BITS for word in words], np.uint64)
        rank, at = place
        self._directory.Put([entry.view(np.int64), MPI.INT64_T], rank, (at + _ENTRY, _ENTRY_WORDS, MPI.INT64_T))
        self._directory.Flush(rank)
        return self._rank + 1

    def _get(self, rank: int, address: int, length: int) -> list[bytes]:
        if time.monotonic() < self._slow.get(rank, 0.0):
            raise WaitTimeoutError(f"rank {rank} was too slow a moment ago")
        if not 0 < length < 1 << 40:
            raise CorruptFileError(f"rank {rank} gives a block of {length} bytes")
        pieces = []
        self._announce(rank, 1)
        try:
            for first in range(0, length, _PIECE):
                piece = bytearray(min(_PIECE, length - first))
                request = self._blocks.Rget([piece, MPI.BYTE], rank, (address + first, len(piece), MPI.BYTE))
                self._finish(request, piece, rank)
                pieces.append(bytes(piece))
        finally:
            self._announce(rank, -1)
        return pieces

    def _announce(self, rank: int, change: int) -> None:
        """Changes the count of readers of a rank: until it is 0 again, its thread calls MPI without pauses."""
        value = np.array([change], np.int64)
        self._directory.Accumulate([value, MPI.INT64_T], rank, (_GETTING, 1, MPI.INT64_T), op=MPI.SUM)
        self._directory.Flush_local(rank)

    def _finish(self, request: Any, memory: bytearray | NDArray[np.int64], rank: int) -> None:
        if not sleep_between(request, time.monotonic() + self._step, _TEST):
            self._late.append((request, memory))
            self._slow[rank] = time.monotonic() + _PAUSE
            raise WaitTimeoutError(f"rank {rank} does not answer in {self._step:g} s")

    def _note(self, text: str) -> None:
        """Emits the first note only."""
        if not self._noted:
            self._noted = True
            notes.emit([text])


def _hashes(name: bytes) -> tuple[int, int]:
    """Two hashes of a block: the first, never 0, gives the place; the second confirms the block."""
    key, check = (int(word) for word in np.frombuffer(name, "<i8"))
    return (key & (_ALL_BITS >> 1)) | 1, check


def _check_threads() -> None:
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise ArgumentError(
            "transfer='one-sided' needs an MPI library with MPI_THREAD_MULTIPLE; use transfer='tcp', or leave "
            "mpi4py.rc.thread_level as it is"
        )
