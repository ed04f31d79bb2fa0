"""Lines of trace files, plain or of gzip members, in batches; also of files cut when their process was killed.

It knows nothing of what the lines say.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from kinema.base.errors import ArgumentError, CorruptFileError, FileNotFound, os_errors
from kinema.base.input_files import file_key, open_regular

SUFFIXES = (".pfw", ".pfw.gz")
_GZIP = b"\x1f\x8b"
# bytes to read, and to decompress, at once
_PIECE = 1 << 20
# an event has a few hundred bytes; a file without lines is not a trace
_LONGEST_LINE = 16 << 20


def is_trace(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder, or has the name of a trace file; run reports are neither."""
    return os.path.isdir(path) or os.fspath(path).endswith(SUFFIXES)


def trace_files(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The trace files in folders and among files, in the given order, sorted within a folder; each file appears once.

    Raises FileNotFound for what is not there and for a folder without trace files, ArgumentError for no path.
    """
    found: list[str] = []
    for path in [os.fspath(one) for one in paths]:
        if not os.path.isdir(path):
            found.append(path)
            continue
        with os_errors("cannot read the folder", path):
            inside = sorted(str(one) for one in Path(path).iterdir() if one.name.endswith(SUFFIXES))
        if not inside:
            raise FileNotFound(f"has no trace, expected files that end with {' or '.join(SUFFIXES)}", at=path)
        found += inside
    if not found:
        raise ArgumentError("no trace is named; give its folder, or its files")
    names: dict[object, str] = {}
    for path in found:
        names.setdefault(file_key(os.path.abspath(path)), path)
    return list(names.values())


def lines_of(path: str, note: Callable[[str], None]) -> Iterator[tuple[int, list[bytes]]]:
    """Number of the first line, from 1, and lines without their ends, some megabytes at a time.

    The last line of a file may lack an end. `note` is called if the file ends within a gzip member.

    Raises CorruptFileError for a line that is too long to be an event, and for bytes that are not gzip members; errors
    of the system as `open_regular`.
    """
    number, rest = 1, b""
    with open_regular(path, "trace") as file:
        for piece in _pieces(path, file, note):
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            if len(rest) > _LONGEST_LINE:
                raise CorruptFileError(
                    f"line {number + len(lines)}: is not an event, expected at most {_LONGEST_LINE:,} bytes, "
                    "found more",
                    at=path,
                )
            if lines:
                yield number, lines
            number += len(lines)
    if rest:
        yield number, [rest]


def _pieces(path: str, file: IO[bytes], note: Callable[[str], None]) -> Iterator[bytes]:
    """The bytes of the file, or of its gzip members."""
    data = _read(path, file)
    if not data.startswith(_GZIP):
        while data:
            yield data
            data = _read(path, file)
        return
    member, place = zlib.decompressobj(31), 0
    begun = True
    while data:
        try:
            made = member.decompress(data, _PIECE)
        except zlib.error as error:
            raise CorruptFileError(f"gzip member near byte {place}: {error}", at=path, offset=place) from None
        rest = member.unused_data if member.eof else member.unconsumed_tail
        place += len(data) - len(rest)
        begun = not member.eof
        data = rest or _read(path, file)
        if member.eof:
            member = zlib.decompressobj(31)
        if made:
            yield made
    # output of the last bytes that did not fit
    left = member.flush() if begun else b""
    if left:
        yield left
    if begun and not member.eof:
        note(f"{path}: ends within a gzip member: its process was killed or still runs; the events before are there")


def _read(path: str, file: IO[bytes]) -> bytes:
    with os_errors("cannot read the trace", path):
        return file.read(_PIECE)
