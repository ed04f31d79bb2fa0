"""`DirectFields`: layout "contiguous": ranks write their atoms into preallocated space, by pwrite or through MPI-IO.

Rank 0 writes everything else (steps, times, cells, atoms). Serves the strategies "direct", "mpiio" and
"mpiio-collective"; HDF5 with MPI is not needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import Error
from kinema.formats.given_frames import FrameArrays
from kinema.formats.hdf5.encoding import ChunkEncoder
from kinema.parallel.agreement import Agreement
from kinema.parallel.exchange import Exchange, even_owners
from kinema.parallel.hdf5.hdf5_file import Hdf5File
from kinema.parallel.placers import Placer, opened_placer
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.verification import Verification

_NOTHING = np.empty(0, np.uint8)


class DirectFields(Hdf5File):
    """See the module."""

    _verifies_by = Verification

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._exchange = Exchange(agreement, self.state.n_atoms)
        writers = request.hints.writers or agreement.size
        self._owners = even_owners(self.state.n_atoms, agreement.size, writers)
        self._placer: Placer | None = None
        self._places: dict[str, int] = {}

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        self._places = self.sink.places_of_fields(first)
        return super().begin(first)

    def take_values(self, frame: RankFrame, row: int) -> None:
        if self._placer is None:
            path, self._places = self.call_on_root(lambda: (self.sink.current_path, self._places))
            request, comm = self.request, self.agreement.comm
            self._placer = self.agreement.together(
                lambda: opened_placer(comm, path, request.path, request.strategy, request.hints)
            )
        error: BaseException | None = None
        widest = max(3 * values.dtype.itemsize for values in frame.vectors.values())
        batch_atoms = max(1, self.request.hints.batch_bytes // widest)
        route = self._exchange.route(frame.ids, self._owners, batch_atoms, counts=frame.counts)
        for batch in route.batches():
            for name, given in frame.vectors.items():
                error = self._write_batch(name, row, batch.atoms.start, batch.values(given), error)
        self.check(error)

    def _write_batch(
        self, name: str, row: int, first: int, values: NDArray[Any], error: BaseException | None
    ) -> BaseException | None:
        """Writes atoms from `first` on. After an error it writes nothing, but still joins collective writes."""
        assert self._placer is not None
        timings, place, data = self.agreement.timings, 0, _NOTHING
        if error is None and len(values):
            try:
                with timings.measure("encode"):
                    encoder = self.encoders[name]
                    data = encoder.prepared(values).view("u1").reshape(-1)
                place = self._places[name] + (row * self.state.n_atoms + first) * 3 * encoder.preparation.dtype.itemsize
            except BaseException as raised:
                error = raised
        if not len(data) and not self._placer.is_collective:
            return error
        try:
            with timings.measure("write"):
                self._placer.write_at(place, data)
            if self._verification is not None and len(data):
                self._verification.add(row, place, data)
        except BaseException as raised:
            error = error or raised
        return error

    def bring(self) -> None:
        """As `Hdf5File.bring`: ranks sync their data before rank 0 counts the frames."""
        if self._placer is not None:
            placer = self._placer
            with self.agreement.timings.measure("sync"):
                self.agreement.together(placer.sync)

    def found(self) -> Error | None:
        assert self._verification is not None
        error: Error | None = self._verification.found(self.call_on_root(lambda: self.sink.current_path))
        return error

    def took(self) -> None:
        """As `Hdf5File.took`: rank 0 counts the frame."""
        self.count(1)

    def close(self) -> None:
        super().close()
        if self._placer is not None:
            self.agreement.together(self._placer.close)

    def abort(self) -> None:
        if self._placer is not None:
            self._placer.abandon()
        super().abort()
