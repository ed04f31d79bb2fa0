"""`SerialFields`: H5MD with the strategy "serial"; a rank other than rank 0 can read the values back."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from kinema.base.errors import Error
from kinema.formats.h5md.writer import H5mdWriter
from kinema.parallel.agreement import Agreement
from kinema.parallel.hdf5.verification import RowVerification
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.serial import SerialFile


class SerialFields(SerialFile):
    """See the module."""

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._verification = RowVerification(agreement, request) if request.verify else None
        self.verified_by = "" if self._verification is None else self._verification.words

    def wrote(self, vectors: dict[str, NDArray[Any]]) -> None:
        if self._verification is None:
            return
        sink = self._sink()
        for name, values in vectors.items():
            self._verification.add(name, sink.n_frames - 1, [sink.encoders[name].prepared(values)])

    def found(self) -> Error | None:
        assert self._verification is not None

        return self._verification.found(*self.call_on_root(lambda: self._sink().place_of_fields))

    def _sink(self) -> H5mdWriter:
        """Rank 0's writer."""
        assert isinstance(self._writer, H5mdWriter)
        return self._writer
