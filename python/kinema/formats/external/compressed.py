"""Compressed files: their content, and the command that decompresses them."""

from __future__ import annotations

import os
import shlex
import zlib
from collections.abc import Callable
from typing import IO, Any

from kinema import _core
from kinema.base.errors import CorruptFileError, UnsupportedFormatError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import open_regular
from kinema.base.printable import printable
from kinema.formats.external.frames import LAMMPS_DUMP, names_of, reader_class

# bytes by which the core recognises a format
_HEAD = 2056
# for zstd, whose blocks hold 128 KiB at most
_FIRST_BLOCKS = 1 << 18


def _gzip(file: IO[bytes]) -> bytes:
    import gzip

    return gzip.GzipFile(fileobj=file).read(_HEAD)


def _bzip2(file: IO[bytes]) -> bytes:
    import bz2

    return bz2.BZ2File(file).read(_HEAD)


def _zstd(file: IO[bytes]) -> bytes:
    return _core.zstd_head(file.read(_FIRST_BLOCKS), _HEAD)


@dataclass(frozen=True)
class _CompressedBy:
    name: str
    ending: str
    begins: bytes
    command: str
    head: Callable[[IO[bytes]], bytes]


_COMPRESSIONS = (
    _CompressedBy("gzip", ".gz", b"\x1f\x8b", "gunzip -k", _gzip),
    _CompressedBy("bzip2", ".bz2", b"BZh", "bunzip2 -k", _bzip2),
    _CompressedBy("zstd", ".zst", b"\x28\xb5\x2f\xfd", "unzstd", _zstd),
)


def refuse_compressed(path: str) -> None:
    """Raises UnsupportedFormatError for a compressed file, naming its content and the command that decompresses it."""
    with open_regular(path, "file") as file:
        begins = file.read(4)
        found = next((one for one in _COMPRESSIONS if begins.startswith(one.begins)), None)
        if found is None:
            return
        file.seek(0)
        try:
            holds = _named(found.head(file), path.removesuffix(found.ending))
        except (OSError, EOFError, zlib.error, CorruptFileError) as error:
            holds = f"what cannot be decompressed ({printable(str(error))})"
    raise UnsupportedFormatError(
        f"is compressed ({found.name}) and holds {holds}; decompress it first: {found.command} {shlex.quote(path)}",
        at=path,
    )


def _named(head: bytes, name: str) -> str:
    """The kind of a decompressed file with these first bytes and this name."""
    own = _core.format_of(head)
    if own is not None:
        return own
    if head.startswith(LAMMPS_DUMP):
        return "a LAMMPS dump"
    reader: Any = reader_class(os.path.basename(name))
    if reader is not None:
        return str(names_of(reader)[0])
    return f"no format that Kinema knows, beginning with {printable(repr(head[:16])[1:])}"
