"""`DirectFields`: the strategy "direct" of layout "contiguous": ranks write their atoms into space made first.

All else of the file (steps, times, cells, atoms) is written by rank 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.errors import Error
from kinema.formats.h5md.write.encoding import ChunkEncoder
from kinema.writing.frames import FrameArrays
from kinema.writing.parallel.agreement import Agreement
from kinema.writing.parallel.exchange import Exchange, even_owners
from kinema.writing.parallel.frames import RankFrame
from kinema.writing.parallel.hdf5.on_root import Hdf5File
from kinema.writing.parallel.placers import FilePlacer
from kinema.writing.parallel.rank_file import FileRequest, FileState
from kinema.writing.parallel.verification import Verification

__all__ = ["DirectFields"]


class DirectFields(Hdf5File):
    """See the module."""

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._exchange = Exchange(agreement, self.state.n_atoms)
        writers = request.hints.writers or agreement.size
        self._owners = even_owners(self.state.n_atoms, agreement.size, writers)
        self._placer: FilePlacer | None = None
        self._places: dict[str, int] = {}
        self._kinds: dict[str, np.dtype[Any]] = {}
        self._verification = Verification(agreement, request) if request.verify else None
        self.verified_by = "" if self._verification is None else self._verification.words

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        """As `Hdf5File.begin`."""
        self._places = self.writer.places_of_fields(first)
        return super().begin(first)

    def take_values(self, frame: RankFrame, row: int) -> None:
        """As `Hdf5File.take_values`."""
        if self._placer is None:
            path, self._places = self.on_root(lambda: (self.writer.written_path, self._places))
            self._placer = self.agreement.together(lambda: FilePlacer(path, self.request.path))
        timings, error = self.agreement.timings, None
        widest = max(3 * values.dtype.itemsize for values in frame.vectors.values())
        batch_atoms = max(1, self.request.hints.batch_bytes // widest)
        route = self._exchange.route(frame.ids, self._owners, batch_atoms, counts=frame.counts)
        for batch in route.batches():
            for name, given in frame.vectors.items():
                values = batch.values(given)
                if error is not None or not len(values):
                    continue
                try:
                    encoder = self.encoders[name]
                    with timings.of("encode"):
                        stored = encoder.prepared(values)
                    width = 3 * encoder.preparation.dtype.itemsize
                    place = self._places[name] + (row * self.state.n_atoms + batch.atoms.start) * width
                    data = stored.view("u1").reshape(-1)
                    with timings.of("write"):
                        self._placer.write_at(place, data)
                    if self._verification is not None:
                        self._verification.add(row, place, data)
                except BaseException as raised:
                    error = raised
        self.check(error)
        self._kinds = {name: values.dtype for name, values in frame.vectors.items()}

    def bring(self) -> None:
        """As `Hdf5File.bring`: ranks sync what they have written before rank 0 says that it is there."""
        if self._placer is not None:
            placer = self._placer
            with self.agreement.timings.of("sync"):
                self.agreement.together(placer.sync)

    def found(self) -> Error | None:
        """As `Hdf5File.found`."""
        assert self._verification is not None
        return self._verification.found(self.on_root(lambda: self.writer.written_path))

    def took(self) -> None:
        """As `Hdf5File.took`: rank 0 counts the frame."""

        def count() -> FileState:
            self.writer.write_announced(1, self._kinds, **self.stamps.taken(1))
            return self._state()

        self._on_root(count)

    def close(self) -> None:
        """As `RankFile.close`."""
        super().close()
        if self._placer is not None:
            self._placer.close()

    def abort(self) -> None:
        """As `RankFile.abort`."""
        if self._placer is not None:
            self._placer.close()
        super().abort()
