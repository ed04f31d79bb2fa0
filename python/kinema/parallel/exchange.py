"""Exchange of atoms: from the ranks that have them to the ranks that write them, by atom number, in batches.

Atom numbers of a frame are exchanged first (4 bytes each), so receivers find missing and repeated atoms before any
value is sent. Values follow batch by batch, so that no rank holds more than a batch of other ranks' values. On one node
each rank puts its values in place, in memory that the ranks share; between nodes they are sent. If each rank has
exactly the atoms that it takes, no value is exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.parallel.agreement import AWAKE_BRIEFLY, Agreement, wait_for
from kinema.parallel.batches import (
    VECTOR_BYTES,
    VECTORS,
    AtomBatch,
    LocalBatch,
    MessageBatch,
    SharedBatch,
    all_to_all,
    joined,
)
from kinema.parallel.node_memory import NodeMemory, nodes_of

Ids = NDArray[np.uint32]
_ID_TYPES = tuple(np.dtype(name) for name in ("u4", "i8", "i4", "u8"))

# an atom given with a wrong number is also missing on another rank; the wrong number is the cause, so it is reported
_FOUND_BY_ANOTHER, _OF_A_RANK = 1, 2

# approximate bytes of shared memory of all ranks together; it counts as each rank's memory
_MOST_SHARED = 32 << 20


@dataclass(frozen=True)
class Owners:
    """Ranks that take atoms: `ranks[i]`, in ascending order, takes atoms `bounds[i]` to `bounds[i + 1]` (exclusive)."""

    ranks: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def one(cls, rank: int, n_atoms: int) -> Owners:
        """One rank that takes all atoms."""
        return cls(np.array([rank], np.int64), np.array([0, n_atoms], np.int64))

    @property
    def longest(self) -> int:
        """The largest number of atoms that a rank takes."""
        return int(np.diff(self.bounds).max())

    def rank_atoms(self, rank: int) -> range:
        """The atoms that a rank takes."""
        place = np.flatnonzero(self.ranks == rank)
        if not len(place):
            return range(0)
        return range(int(self.bounds[place[0]]), int(self.bounds[place[0] + 1]))


def even_owners(n_atoms: int, n_ranks: int, n_writers: int) -> Owners:
    """`n_writers` ranks, spread evenly over all, that take equally many atoms; the last ones perhaps one fewer."""
    n_writers = max(1, min(n_writers, n_ranks, n_atoms))
    places = np.arange(n_writers + 1, dtype=np.int64)
    return Owners(places[:-1] * n_ranks // n_writers, places * n_atoms // n_writers)


def gathering_ranks(n_ranks: int, n_writers: int | None) -> list[int]:
    """The ranks that take turns gathering whole frames: `n_writers` spread evenly over all of them, or all."""
    ranks: list[int] = even_owners(n_ranks, n_ranks, n_writers or n_ranks).ranks.tolist()
    return ranks


class Exchange:
    """Exchanges atoms among the ranks of an agreement.

    `n_atoms`: number of atoms in each frame, over all ranks.
    """

    def __init__(self, agreement: Agreement, n_atoms: int) -> None:
        self.agreement, self.n_atoms = agreement, n_atoms
        self._buffers: dict[tuple[str, int], NDArray[np.uint8]] = {}
        self._is_one_node: bool | None = None
        self._shared: NodeMemory | None = None
        self._table: NodeMemory | None = None
        # number of batches exchanged so far; the same on all ranks
        self._n_shared = 0

    def route(
        self,
        ids: NDArray[np.integer[Any]],
        owners: Owners,
        batch_atoms: int | None = None,
        *,
        counts: NDArray[np.int64] | None = None,
        error: BaseException | None = None,
    ) -> Route:
        """Decides the target of each atom of a frame; collective.

        Parameters
        ----------
        ids : (n_mine,) numbers of the atoms that this rank has, in any order
        owners : the ranks that take the atoms
        batch_atoms : the most atoms of a batch for one owner; all by default
        counts : (ranks,) number of atoms on each rank, if all ranks know it; on one node these are then not sent
        error : error of this rank from earlier work on the frame; raised on all ranks

        Raises
        ------
        ArgumentError
            The same on all ranks: if a number is out of range, or given by no rank or by two; it names rank and number.
        """
        agreement, timings = self.agreement, self.agreement.timings
        begins = np.arange(0, owners.longest, self._batch_atoms(owners, batch_atoms))
        table = None if counts is None else self._shared_table(counts, len(begins))
        n_of_owners, sent = np.zeros((len(owners.ranks), len(begins)), np.int64), _Sorted.none()
        with timings.measure("sort"):
            if error is None:
                try:
                    packed = self._numbers("numbers", len(ids)) if table is None else table.ids_of(agreement.rank)
                    n_of_owners, sent = self._sorted(ids, owners, begins, packed)
                except ArgumentError as raised:
                    error = _range_error(ids, self.n_atoms, agreement.rank) or raised
        n_sent = np.zeros((agreement.size, len(begins)), np.int64)
        n_sent[owners.ranks] = n_of_owners
        state = np.array([0, int(n_sent.sum() - n_sent[agreement.rank].sum()) > 0], np.int64)
        weight = _OF_A_RANK
        if table is not None:
            state[0] = 0 if error is None else weight
            table.n_sent[agreement.rank] = n_sent
            self._agreed(state, error)
            n_received, taken = table.received(agreement.rank)
        elif agreement.size > 1:
            n_received = np.empty_like(n_sent)
            with timings.measure("communicate"):
                wait_for(agreement.comm.Ialltoall(n_sent, n_received), AWAKE_BRIEFLY)
                taken = self._numbers("numbers taken", int(n_received.sum()))
                n_from = n_received.sum(axis=1)
                wait_for(all_to_all(agreement.comm, sent.ids, n_sent.sum(axis=1), taken, n_from, MPI.UINT32_T))
        else:
            n_received, taken = n_sent, sent.ids
        with timings.measure("sort"):
            if error is None:
                error = self._wrong_ids(taken, n_received.sum(axis=1), owners)
                weight = _FOUND_BY_ANOTHER
        state[0] = 0 if error is None else weight
        rows = self._agreed(state, error)
        return Route(self, owners, begins, sent, taken, n_sent, n_received, not rows[:, 1].any())

    def _agreed(self, state: NDArray[np.int64], error: BaseException | None) -> NDArray[np.int64]:
        """The state of each rank, (ranks, n); raises the error of a rank whose first number is not 0."""
        rows = self.agreement.gathered(state)
        if rows[:, 0].any():
            self.agreement.fail(int(np.argmax(rows[:, 0])), error)
        return rows

    def _shared_table(self, counts: NDArray[np.int64], n_batches: int) -> _SharedTable | None:
        """Shared table of all ranks' numbers on one node; None on several nodes or for too many numbers. Collective."""
        total, size = int(counts.sum()), self.agreement.size
        if not self._is_one_node or total > self.n_atoms:
            return None
        n_counts = 8 * size * size * n_batches
        self._table = self._enough(self._table, n_counts + 4 * self.n_atoms)
        if self._table is None:
            return None
        assert self._table.data is not None
        n_sent = self._table.data[:n_counts].view(np.int64).reshape(size, size, n_batches)
        ids = self._table.data[n_counts : n_counts + 4 * total].view(np.uint32)
        return _SharedTable(n_sent, ids, np.concatenate([[0], np.cumsum(counts)]))

    def _batch_atoms(self, owners: Owners, most: int | None) -> int:
        """Atoms in a batch: the number for which shared memory, if there is any, holds two batches of each owner."""
        if self._is_one_node is None:
            self._is_one_node = self.agreement.size > 1 and not nodes_of(self.agreement).any()
        most = owners.longest if most is None else min(most, owners.longest)
        if self._is_one_node:
            most = min(most, _MOST_SHARED // (2 * VECTORS * VECTOR_BYTES * len(owners.ranks)))
        return max(1, most)

    def _sorted(
        self, ids: NDArray[np.integer[Any]], owners: Owners, begins: NDArray[np.int64], packed: Ids
    ) -> tuple[NDArray[np.int64], _Sorted]:
        """Number of rows of each owner and batch, and all rows sorted by owner, then by batch."""
        first, last = owners.bounds[:-1, None], owners.bounds[1:, None]
        bounds = [*np.minimum(first + begins, last).ravel().tolist(), int(owners.bounds[-1])]
        order = self._numbers("order", len(ids))
        counts, is_sorted = _core.partition_atoms(_as_ids(ids), bounds, packed, order)
        ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        found = counts.astype(np.int64).reshape(len(owners.ranks), len(begins))
        return found, _Sorted(ends, packed, None if is_sorted else order)

    def shared(self, batch_atoms: int, n_owners: int) -> NodeMemory | None:
        """Shared memory of all ranks for two batches of each owner; None if there is none. Collective."""
        self._shared = self._enough(self._shared, 2 * n_owners * VECTORS * VECTOR_BYTES * batch_atoms)
        return self._shared

    def _enough(self, memory: NodeMemory | None, n_bytes: int) -> NodeMemory | None:
        """`memory`, or a new one of at least `n_bytes`; None if ranks cannot share memory. Collective."""
        if not self._is_one_node:
            return None
        if memory is None or memory.data is None or len(memory.data) < n_bytes:
            memory = NodeMemory(self.agreement, n_bytes)
            self._is_one_node = memory.data is not None
        return memory if self._is_one_node else None

    def next_shared(self) -> int:
        """The half of the shared memory for the next batch: other ranks may still read the previous one."""
        self._n_shared += 1
        return self._n_shared % 2

    def room(self, use: str, number: int, n_atoms: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """An array (n_atoms, 3); the next call with the same use and number reuses its memory."""
        return self._bytes(use, number, 3 * n_atoms * kind.itemsize).view(kind).reshape(n_atoms, 3)

    def _numbers(self, use: str, n: int) -> Ids:
        """An array (n,); the next frame reuses its memory, because touching new pages costs more than filling them."""
        return self._bytes(use, 0, 4 * n).view(np.uint32)

    def _bytes(self, use: str, number: int, n_bytes: int) -> NDArray[np.uint8]:
        buffer = self._buffers.get((use, number))
        if buffer is None or len(buffer) < n_bytes:
            buffer = self._buffers[use, number] = np.empty(n_bytes, np.uint8)
        return buffer[:n_bytes]

    def _wrong_ids(self, taken: Ids, received: NDArray[np.int64], owners: Owners) -> ArgumentError | None:
        """The error in the numbers sent to this rank; None if it has each number of its range once."""
        own = owners.rank_atoms(self.agreement.rank)
        seen = np.zeros(len(own), np.uint8)
        n_twice, _, n_missing, _ = _core.scatter_atoms(taken, own.start, [], [], seen)
        if not n_twice and not n_missing:
            return None
        if n_twice:
            order = np.argsort(taken, kind="stable")
            first = int(np.flatnonzero(np.diff(taken[order]) == 0)[0])
            twice = int(taken[order[first]])
            sources = np.repeat(np.arange(len(received)), received)[order[first : first + 2]].tolist()
            who = f"rank {sources[0]} twice" if sources[0] == sources[1] else f"ranks {sources[0]} and {sources[1]}"
            return ArgumentError(f"ids: atom {twice} is given by {who}, expected each atom from one rank, once")
        missing = np.flatnonzero(seen == 0)
        more = "" if len(missing) == 1 else f" (nor are {len(missing) - 1} others of those that rank"
        more += f" {self.agreement.rank} writes)" if more else ""
        return ArgumentError(
            f"ids: atom {own.start + int(missing[0])} is given by no rank{more}, as rank {self.agreement.rank} finds; "
            f"expected each of 0 to {self.n_atoms - 1} once"
        )


@dataclass(frozen=True)
class _Sorted:
    """Rows sorted by the range of their numbers: `ends` of the ranges (range i + 1 begins at the end of range i); the
    numbers; the row of each number, None if the rows are in order."""

    ends: NDArray[np.int64]
    ids: Ids
    order: Ids | None

    @classmethod
    def none(cls) -> _Sorted:
        return cls(np.zeros(1, np.int64), np.empty(0, np.uint32), None)

    def part(self, number: int) -> tuple[Ids, Ids | int]:
        """The numbers of a range, and their rows, or the first row if they are consecutive."""
        piece = slice(int(self.ends[number]), int(self.ends[number + 1]))
        return self.ids[piece], piece.start if self.order is None else self.order[piece]


@dataclass(frozen=True)
class _SharedTable:
    """Atom numbers of all ranks: each rank writes its own, and the others read them after all have agreed.

    Attributes
    ----------
    n_sent : (ranks, ranks, batches) number of atoms in each batch that a rank (first index) has for another
    ids : the numbers, sorted by the rank that has them, the rank that takes them, and batch
    starts : (ranks + 1,) first position of each rank's numbers
    """

    n_sent: NDArray[np.int64]
    ids: Ids
    starts: NDArray[np.int64]

    def ids_of(self, rank: int) -> Ids:
        """Numbers that a rank has."""
        return self.ids[self.starts[rank] : self.starts[rank + 1]]

    def received(self, rank: int) -> tuple[NDArray[np.int64], Ids]:
        """Number of atoms in each batch from each rank, (ranks, batches), and the atom numbers."""
        n_received = self.n_sent[:, rank].copy()
        begins = self.starts[:-1] + self.n_sent[:, :rank].sum(axis=(1, 2))
        ends = begins + n_received.sum(axis=1)
        pieces = zip(begins.tolist(), ends.tolist(), strict=True)
        return n_received, joined([self.ids[begin:end] for begin, end in pieces if begin < end])


@dataclass(frozen=True)
class Route:
    """The targets of a frame's atoms; valid until the next frame.

    Attributes
    ----------
    begins : first atom of each batch, relative to its owner's first atom
    sent : this rank's rows, by owner and batch
    taken : numbers of the atoms that this rank takes, ordered by source rank, then by batch
    n_sent, n_received : (ranks, batches) number of atoms in each batch sent to, and received from, each rank
    is_local : whether each rank has exactly the atoms that it takes
    """

    exchange: Exchange
    owners: Owners
    begins: NDArray[np.int64]
    sent: _Sorted
    taken: Ids
    n_sent: NDArray[np.int64]
    n_received: NDArray[np.int64]
    is_local: bool

    @property
    def n_batches(self) -> int:
        """Number of batches of the frame, the same on all ranks."""
        return len(self.begins)

    def batches(self) -> Iterator[AtomBatch]:
        """The batches of the frame, one of each owner at a time."""
        own = self.owners.rank_atoms(self.exchange.agreement.rank)
        batch_atoms = int(self.begins[1]) if self.n_batches > 1 else self.owners.longest
        shared = None if self.is_local else self.exchange.shared(batch_atoms, len(self.owners.ranks))
        kind = LocalBatch if self.is_local else MessageBatch if shared is None else SharedBatch
        for number, begin in enumerate(self.begins.tolist()):
            yield kind(self, number, own[begin : begin + batch_atoms], batch_atoms, shared)


def _as_ids(ids: NDArray[np.integer[Any]]) -> Any:
    """The same numbers in an array that can be sorted; a copy only if needed."""
    if ids.dtype not in _ID_TYPES:
        ids = ids.astype(np.uint64 if ids.dtype.kind == "u" else np.int64)
    return np.ascontiguousarray(ids)


def _range_error(ids: NDArray[np.integer[Any]], n_atoms: int, rank: int) -> ArgumentError | None:
    if not len(ids):
        return None
    least, most = int(ids.min()), int(ids.max())
    if 0 <= least and most < n_atoms:
        return None
    wrong = least if least < 0 else most
    return ArgumentError(f"ids: rank {rank} gives atom {wrong}, expected numbers from 0 to {n_atoms - 1}")
