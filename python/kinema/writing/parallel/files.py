"""Which `RankFile` a strategy is, by format."""

from __future__ import annotations

from kinema.errors import InternalError
from kinema.writing.parallel.agreement import Agreement
from kinema.writing.parallel.rank_file import FileRequest, RankFile
from kinema.writing.parallel.serial import SerialFile

__all__ = ["opened_file"]


def opened_file(request: FileRequest, agreement: Agreement) -> RankFile:
    """The file, opened by all ranks together; the same error on all of them."""
    if request.strategy == "serial":
        return SerialFile(request, agreement)
    raise InternalError(f"strategy {request.strategy} is in the table and nowhere else")
