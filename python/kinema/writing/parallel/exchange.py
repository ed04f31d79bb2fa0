"""Exchange of atoms: from the ranks that have them to those that write them, in order of their numbers, in batches.

Of each frame the numbers of all atoms are exchanged first (4 bytes each): whoever receives them finds those that are
missing or given twice before a value is sent, and knows which rows of which rank belong where. Values follow batch by
batch and field by field, so that no rank ever has more than a batch of what others have given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.errors import ArgumentError
from kinema.writing.parallel.agreement import Agreement, wait_for

__all__ = ["Exchange", "Owners", "Route", "even_owners"]

Ids = NDArray[np.uint32]
# places for all atoms, of 4 bytes, for each atom of a rank
_MOST_PLACES = 4

# an atom that a rank gives by a wrong number is missing where another rank looks for it: the former is what went wrong
_FOUND_BY_ANOTHER, _OF_A_RANK = 1, 2


@dataclass(frozen=True)
class Owners:
    """Which ranks take which atoms: `ranks[i]`, in rising order, those from `bounds[i]` up to `bounds[i + 1]`."""

    ranks: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @property
    def longest(self) -> int:
        """The most atoms that a rank takes."""
        return int(np.diff(self.bounds).max())

    def of(self, rank: int) -> range:
        """The atoms that a rank takes."""
        place = np.flatnonzero(self.ranks == rank)
        if not len(place):
            return range(0)
        return range(int(self.bounds[place[0]]), int(self.bounds[place[0] + 1]))


def even_owners(n_atoms: int, n_ranks: int, n_writers: int) -> Owners:
    """`n_writers` ranks, spread over all of them, which take as many atoms each; the last ones perhaps one fewer."""
    n_writers = max(1, min(n_writers, n_ranks, n_atoms))
    places = np.arange(n_writers + 1, dtype=np.int64)
    return Owners(places[:-1] * n_ranks // n_writers, places * n_atoms // n_writers)


class Exchange:
    """Exchanges atoms among the ranks of an agreement.

    Parameters
    ----------
    agreement : Agreement
    n_atoms : int
        Of each frame, over all ranks.
    """

    def __init__(self, agreement: Agreement, n_atoms: int) -> None:
        self.agreement, self.n_atoms = agreement, n_atoms

    def route(self, ids: NDArray[np.integer[Any]], owners: Owners, *, error: BaseException | None = None) -> Route:
        """Where the atoms of a frame go; collective.

        Parameters
        ----------
        ids : (n_mine,) numbers of the atoms that this rank has, in any order
        owners : those who take them
        error : of what this rank has done for the frame before; raised on all ranks

        Raises
        ------
        ArgumentError
            The same on all ranks: a number out of range, of no rank, or of two; it names rank and number.
        """
        agreement, timings = self.agreement, self.agreement.timings
        with timings.of("sort"):
            if error is None:
                error = _range_error(ids, self.n_atoms, agreement.rank)
            mine = ids.astype(np.uint32) if error is None else np.empty(0, np.uint32)
            order = _order(mine, self.n_atoms)
            mine = mine if order is None else mine[order]
            ends = _places(mine, owners.bounds)
        counts = np.zeros(agreement.size, np.int64)
        counts[owners.ranks] = np.diff(ends)
        received = np.empty(agreement.size, np.int64)
        with timings.of("communicate"):
            wait_for(agreement.comm.Ialltoall(counts, received))
            taken = np.empty(int(received.sum()), np.uint32)
            wait_for(_alltoallv(agreement.comm, mine, counts, taken, received, MPI.UINT32_T))
        weight = _OF_A_RANK
        with timings.of("sort"):
            if error is None:
                error = self._wrong_ids(taken, received, owners)
                weight = _FOUND_BY_ANOTHER
        agreement.check(error, weight)
        return Route(agreement, owners, order, mine, taken, np.concatenate([[0], np.cumsum(received)]))

    def _wrong_ids(self, taken: Ids, received: NDArray[np.int64], owners: Owners) -> ArgumentError | None:
        """What is wrong with the numbers that this rank was sent; None where it has each of its range once."""
        own = owners.of(self.agreement.rank)
        seen = np.zeros(len(own), np.uint8)
        seen[taken - np.uint32(own.start)] = 1
        if len(taken) == len(own) and seen.all():
            return None
        if len(taken) > np.count_nonzero(seen):
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
class Route:
    """Where the atoms of a frame go.

    Attributes
    ----------
    order : this rank's rows in order of their numbers; None where they are given so
    mine : their numbers, sorted
    taken : numbers of the atoms that this rank takes, sorted for each rank that gives some
    starts : where those of each rank begin in `taken`
    """

    agreement: Agreement
    owners: Owners
    order: NDArray[np.integer[Any]] | None
    mine: Ids
    taken: Ids
    starts: NDArray[np.int64]

    def batches(self, batch_atoms: int) -> list[ExchangedBatch]:
        """The frame in batches of so many atoms of each owner; as many on all ranks."""
        return [
            ExchangedBatch(self, begin, min(begin + batch_atoms, self.owners.longest))
            for begin in range(0, self.owners.longest, batch_atoms)
        ]


class ExchangedBatch:
    """The atoms `begin` to `end` of the range of each owner.

    Attributes
    ----------
    atoms : range
        Those of this rank.
    """

    def __init__(self, route: Route, begin: int, end: int) -> None:
        self._route = route
        owners, agreement = route.owners, route.agreement
        own = owners.of(agreement.rank)
        self.atoms = own[begin:end]
        with agreement.timings.of("sort"):
            stops = owners.bounds[1:]
            first = _places(route.mine, np.minimum(owners.bounds[:-1] + begin, stops))
            last = _places(route.mine, np.minimum(owners.bounds[:-1] + end, stops))
            self._sent = np.zeros(agreement.size, np.int64)
            self._sent[owners.ranks] = last - first
            self._rows = self._rows_between(first, last)
            pieces = [self._piece(source) for source in range(agreement.size)] if len(self.atoms) else []
            self._received = np.zeros(agreement.size, np.int64)
            self._places: NDArray[np.int64] | None = None
            if pieces:
                self._received[:] = [len(piece) for piece in pieces]
                self._places = self._inverse(pieces)

    def values(self, given: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Values of this rank's batch, (len(atoms), 3), of those that all ranks have given; collective.

        Parameters
        ----------
        given : (n_mine, 3) of the same type of numbers on all ranks
        out : where they are put, C-contiguous
        """
        route = self._route
        agreement, kind = route.agreement, MPI._typedict[given.dtype.char]
        with agreement.timings.of("sort"):
            rows = self._rows
            sent = given[rows] if isinstance(rows, slice) else np.take(given, rows, axis=0)
            sent = np.ascontiguousarray(sent)
        if out is None:
            out = np.empty((len(self.atoms), 3), given.dtype)
        in_order = self._places is None
        received = out if in_order else np.empty((len(self.atoms), 3), given.dtype)
        with agreement.timings.of("communicate"):
            wait_for(_alltoallv(agreement.comm, sent, 3 * self._sent, received, 3 * self._received, kind))
        if self._places is not None:
            with agreement.timings.of("sort"):
                np.take(received, self._places, axis=0, out=out, mode="clip")
        return out

    def _rows_between(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> slice | NDArray[np.integer[Any]]:
        """Rows of this rank's arrays that are sent, one owner behind the other."""
        order = self._route.order
        pieces = [slice(int(a), int(b)) for a, b in zip(first, last, strict=True) if a < b]
        if order is None:
            if len(pieces) <= 1:
                return pieces[0] if pieces else slice(0, 0)
            return np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces])
        return np.concatenate([order[piece] for piece in pieces]) if pieces else np.empty(0, np.int64)

    def _piece(self, source: int) -> Ids:
        """Numbers of the atoms of this batch that `source` gives."""
        route = self._route
        taken = route.taken[int(route.starts[source]) : int(route.starts[source + 1])]
        first, last = _places(taken, np.array([self.atoms.start, self.atoms.stop]))
        return taken[first:last]

    def _inverse(self, pieces: list[Ids]) -> NDArray[np.int64] | None:
        """Where in what is received each atom of the batch is; None where it comes in order."""
        arrived = np.concatenate(pieces)
        if np.array_equal(arrived, np.arange(self.atoms.start, self.atoms.stop)):
            return None
        places = np.empty(len(arrived), np.int64)
        places[arrived - np.uint32(self.atoms.start)] = np.arange(len(arrived))
        return places


def _range_error(ids: NDArray[np.integer[Any]], n_atoms: int, rank: int) -> ArgumentError | None:
    if not len(ids):
        return None
    least, most = int(ids.min()), int(ids.max())
    if 0 <= least and most < n_atoms:
        return None
    wrong = least if least < 0 else most
    return ArgumentError(f"ids: rank {rank} gives atom {wrong}, expected numbers from 0 to {n_atoms - 1}")


def _places(ids: Ids, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where bounds lie in sorted numbers; of one type, or NumPy would widen all numbers first."""
    return np.searchsorted(ids, bounds.astype(ids.dtype))


def _order(ids: Ids, n_atoms: int) -> NDArray[np.integer[Any]] | None:
    """The order that sorts numbers below `n_atoms`; None where they rise already.

    A rank with many of all atoms looks at a place for each of them; others sort, in two passes over halves of 16 bits.
    """
    if (ids[1:] >= ids[:-1]).all():
        return None
    if n_atoms <= min(_MOST_PLACES * len(ids), 1 << 31):
        rows = np.full(n_atoms, -1, np.int32)
        rows[ids] = np.arange(len(ids), dtype=np.int32)
        found = rows[rows >= 0]
        if len(found) == len(ids):
            return found
        # some number is there twice
    low = (ids & np.uint32(0xFFFF)).astype(np.uint16)
    order = np.argsort(low, kind="stable")
    high = (ids >> np.uint32(16)).astype(np.uint16)
    if high.any():
        order = order[np.argsort(high[order], kind="stable")]
    return order


def _alltoallv(
    comm: MPI.Intracomm,
    sent: NDArray[Any],
    counts: NDArray[np.int64],
    received: NDArray[Any],
    received_counts: NDArray[np.int64],
    kind: MPI.Datatype,
) -> MPI.Request:
    offsets, received_offsets = np.cumsum(counts) - counts, np.cumsum(received_counts) - received_counts
    return comm.Ialltoallv([sent, (counts, offsets), kind], [received, (received_counts, received_offsets), kind])
