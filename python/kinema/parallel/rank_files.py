"""The `RankFile` for each strategy and format."""

from __future__ import annotations

from kinema.base.errors import ArgumentError
from kinema.formats.all_formats import FORMATS, format_named
from kinema.parallel.agreement import Agreement
from kinema.parallel.hdf5.direct import DirectFields
from kinema.parallel.hdf5.gathered import GatheredChunks
from kinema.parallel.hdf5.mpiio import MpiioFields
from kinema.parallel.hdf5.serial import SerialFields
from kinema.parallel.hdf5.subfiles import Subfiles
from kinema.parallel.rank_file import FileRequest, RankFile
from kinema.parallel.record_files.base import RecordsFile
from kinema.parallel.record_files.gathered import GatheredRecords
from kinema.parallel.record_files.placed import PlacedRecords
from kinema.parallel.serial import SerialFile

# strategies for data sets in chunks
_H5MD: dict[str, type[SerialFile]] = {
    "serial": SerialFields,
    "gather": GatheredChunks,
    "mpiio": MpiioFields,
    "mpiio-collective": MpiioFields,
    "subfiles": Subfiles,
}


def check_order(format: str, strategy: str, order: str) -> None:
    """Raises ArgumentError for order="given" if records do not identify atoms, or ranks do not write their own."""
    labelled = [one.name for one in FORMATS.values() if one.labelled_records]
    if order == "given" and (not format_named(format).labelled_records or strategy in ("serial", "gather")):
        raise ArgumentError(
            f"order='given' is for {' and '.join(labelled)} with 'direct', 'mpiio' and 'mpiio-collective', found "
            f"{format} with {strategy!r}"
        )


def opened_file(request: FileRequest, agreement: Agreement) -> RankFile:
    """The file, opened by all ranks together; the same error on all of them."""
    format = format_named(request.format)
    has_places = "direct" in format.strategies[format.written_kind(request.options)].atoms
    if format.chunked:
        contiguous = has_places and request.strategy != "serial"
        return (DirectFields if contiguous else _H5MD[request.strategy])(request, agreement)
    if request.strategy == "serial":
        return SerialFile(request, agreement)
    return RecordsFile(request, agreement, PlacedRecords if has_places else GatheredRecords)
