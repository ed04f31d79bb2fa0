"""`SerialFields`: the strategy "serial" of H5MD, whose values another rank than rank 0 can read back."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from kinema.base.errors import Error
from kinema.formats.h5md.writer import H5mdWriter
from kinema.parallel.agreement import Agreement
from kinema.parallel.hdf5.on_root import place_of_fields
from kinema.parallel.hdf5.verification import RowVerification
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.serial import SerialFile

__all__ = ["SerialFields"]


class SerialFields(SerialFile):
    """See the module."""

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._verification = RowVerification(agreement, request) if request.verify else None
        self.verified_by = "" if self._verification is None else self._verification.words

    def wrote(self, vectors: dict[str, NDArray[Any]]) -> None:
        """As `SerialFile.wrote`."""
        if self._verification is None:
            return
        assert isinstance(self._writer, H5mdWriter)
        for name, values in vectors.items():
            encoder = self._writer._group.fields[name].encoder
            self._verification.add(name, self._writer.n_frames - 1, [encoder.prepared(values)])

    def found(self) -> Error | None:
        """As `SerialFile.found`."""
        assert self._verification is not None

        def place() -> tuple[str, dict[str, str]]:
            assert isinstance(self._writer, H5mdWriter)
            return place_of_fields(self._writer)

        return self._verification.found(*self.on_root(place))
