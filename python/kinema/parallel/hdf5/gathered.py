"""`GatheredChunks`: the strategy "gather": some ranks gather and encode rows of chunks, and rank 0 commits them.

Chunk row c (all chunks of some frames) is made by aggregator c mod A. When each aggregator has a row, all encode at the
same time and send their rows to rank 0 in the order of the file.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.base.resources import default_workers, worker_count
from kinema.formats.given_frames import EncodedRows
from kinema.parallel.agreement import Agreement, wait_for
from kinema.parallel.exchange import Exchange, Owners, gathering_ranks
from kinema.parallel.hdf5.hdf5_file import Hdf5File
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.serial import whole_vectors

_TAG = 7


@dataclass
class ChunkRow:
    """Frames of one row of chunks; the same on all ranks except `values`, which only the aggregator has.

    `first`: the file row of its first frame.
    `values`: {"positions": [(atoms, 3), ...], ...}.
    """

    first: int
    aggregator: int
    n_frames: int = 0
    values: dict[str, list[NDArray[Any]]] = field(default_factory=dict)


class GatheredChunks(Hdf5File):
    """See the module."""

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._exchange = Exchange(agreement, self.state.n_atoms)
        self._aggregators = gathering_ranks(agreement.size, request.hints.writers)
        shared = max(1, default_workers() // agreement.size)
        self._threads = shared if request.workers is None else worker_count(request.workers)
        self._rows: list[ChunkRow] = []

    def take_values(self, frame: RankFrame, row: int) -> None:
        chunk_rows = self._chunk_rows
        begins = not self._rows or row // chunk_rows != self._rows[-1].first // chunk_rows
        number = row // chunk_rows
        aggregator = self._aggregators[number % len(self._aggregators)]
        owners = Owners.one(aggregator, self.state.n_atoms)
        vectors = whole_vectors(self._exchange, owners, frame, self.request.hints.batch_bytes)
        error: Exception | None = None
        try:
            for name, values in vectors.items():
                self.encoders[name].preparation.check(values)
        except Exception as raised:
            error = raised
        self.agreement.check(error)
        if begins:
            self._rows.append(ChunkRow(row, aggregator))
        current = self._rows[-1]
        current.n_frames += 1
        if self.agreement.rank == aggregator:
            for name, values in vectors.items():
                current.values.setdefault(name, []).append(values)

    def took(self) -> None:
        if self.state.n_frames % self._chunk_rows == 0 and len(self._rows) >= self._most_rows:
            self.bring()

    def bring(self) -> None:
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        packed: dict[int, bytes] = {}
        error: BaseException | None = None
        try:
            with self.agreement.timings.measure("encode"):
                for number, one in enumerate(rows):
                    if one.aggregator == self.agreement.rank:
                        packed[number] = pickle.dumps(self._encoded(one), protocol=5)
        except BaseException as raised:
            error = raised
        self.check(error)
        sizes = np.zeros(len(rows), np.int64)
        for number, content in packed.items():
            sizes[number] = len(content)
        sizes = self.agreement.gathered(sizes).sum(axis=0)
        if self.agreement.is_root:
            error = self._commit(rows, sizes, packed)
        else:
            with self.agreement.timings.measure("communicate"):
                sent = [self.agreement.comm.Isend([content, MPI.BYTE], 0, _TAG) for content in packed.values()]
                for request in sent:
                    wait_for(request)
        self.check(error)
        self._update_on_root(self._state)

    # how

    @property
    def _chunk_rows(self) -> int:
        return max(encoder.chunk_rows for encoder in self.encoders.values())

    @property
    def _most_rows(self) -> int:
        """Rows of chunks to gather before encoding: one per aggregator, fewer if `buffer_frames` says so."""
        most = len(self._aggregators)
        if self._asked_buffer is not None:
            most = min(most, max(1, self._asked_buffer // self._chunk_rows))
        return most

    def _encoded(self, row: ChunkRow) -> dict[str, EncodedRows]:
        if self._verification is not None:
            for name, values in row.values.items():
                self._verification.add(name, row.first, [self.encoders[name].prepared(one) for one in values])
        return {
            name: self.encoders[name].encoded(np.stack(values), row.first, workers=self._threads)
            for name, values in row.values.items()
        }

    def _commit(self, rows: list[ChunkRow], sizes: NDArray[np.int64], own: dict[int, bytes]) -> BaseException | None:
        """On rank 0: writes the rows in order as they arrive; receives all of them even if a write fails."""
        error: BaseException | None = None
        coming = self._received(rows, sizes, 0)
        for number, row in enumerate(rows):
            buffer, request = coming
            if request is not None:
                with self.agreement.timings.measure("communicate"):
                    wait_for(request)
            # the next row arrives while this one is written
            coming = self._received(rows, sizes, number + 1)
            if error is not None:
                continue
            try:
                with self.agreement.timings.measure("write"):
                    content: Any = own[number] if buffer is None else buffer
                    made: dict[str, EncodedRows] = pickle.loads(content)
                    kinds = {name: one.dtype for name, one in made.items()}
                    self.sink.stored(self.stamps.taken(row.n_frames, kinds, made))
            except BaseException as raised:
                error = raised
        return error

    def _received(
        self, rows: list[ChunkRow], sizes: NDArray[np.int64], number: int
    ) -> tuple[NDArray[np.uint8] | None, MPI.Request | None]:
        if number >= len(rows) or rows[number].aggregator == 0:
            return None, None
        buffer = np.empty(int(sizes[number]), np.uint8)
        return buffer, self.agreement.comm.Irecv([buffer, MPI.BYTE], rows[number].aggregator, _TAG)
