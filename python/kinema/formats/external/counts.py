"""Frames of text files counted by lines, to check the number that MDAnalysis' readers find.

These readers take the number of atoms of the first frame for all frames, and divide the file's lines by it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice
from typing import IO, Any

from kinema.base.errors import CorruptFileError, UnsupportedFormatError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import open_text
from kinema.base.printable import printable
from kinema.formats.external.frames import EXTERNAL, FrameReader

# most digits of a number of atoms
_DIGITS = 18


@dataclass(frozen=True)
class LineCount:
    """Number of whole frames of a file, by its lines."""

    n_frames: int
    cut_at: int | None = None
    """Start of a frame that lacks lines."""
    unended_at: int | None = None
    """Start of the last frame, if its last line does not end."""


@dataclass(frozen=True)
class _FrameLines:
    """Lines of each frame: `head` before the number of atoms, `others` besides the lines of the atoms."""

    head: int
    others: int


Check = Callable[[], None]
"""Called at each frame; raises CancelledError if the call is to end."""


def count_frames(reader: FrameReader, check: Check) -> LineCount | None:
    """The frames of a text file; None for a format whose lines do not tell.

    Raises UnsupportedFormatError if frames differ in their number of atoms, CorruptFileError if lines after the first
    frame do not form a frame.
    """
    counted = _COUNTS.get(reader.name)
    if counted is None:
        return None
    with open_text(reader.path, "file") as file:
        return counted(reader, file, check)


def refuse_other_atoms(path: str, frame: int, expected: int, found: int) -> UnsupportedFormatError:
    """The error for a frame whose number of atoms differs from the first."""
    return UnsupportedFormatError(
        f"{EXTERNAL} frame {frame}: number of atoms, expected {expected} as in frame 0, found {found}",
        at=path,
        format=EXTERNAL,
        frame=frame,
    )


def _count_by_heads(path: str, file: IO[bytes], each: _FrameLines, check: Check) -> LineCount | None:
    """Counts frames that state their number of atoms; None if the first does not."""
    n_frames, n_atoms, at = 0, 0, 0
    unended_at = None
    while True:
        check()
        head = list(islice(file, each.head + 1))
        if not any(line.strip() for line in head):
            break
        if len(head) <= each.head:
            return LineCount(n_frames, at)
        word = head[each.head].split()[:1]
        found = int(word[0]) if word and word[0].isdigit() and len(word[0]) <= _DIGITS else None
        if found is None and n_frames == 0:
            return None
        if found is None:
            raise _no_frame(path, n_frames, at, "number of atoms, expected a whole number", head[each.head])
        if n_frames == 0:
            n_atoms = found
        if found != n_atoms:
            raise refuse_other_atoms(path, n_frames, n_atoms, found)
        lines = n_atoms + each.others - len(head)
        there, size, last = 0, sum(map(len, head)), head[-1]
        for last in islice(file, lines):
            there, size = there + 1, size + len(last)
        if there < lines:
            return LineCount(n_frames, at)
        unended_at = None if last.endswith(b"\n") else at
        at += size
        n_frames += 1
    more = next((line for line in file if line.strip()), None)
    if more is not None:
        raise _no_frame(path, n_frames, at, "empty lines, expected none between frames, then", more)
    return LineCount(n_frames, unended_at=unended_at)


def _no_frame(path: str, frame: int, offset: int, what: str, line: bytes) -> CorruptFileError:
    found = printable(repr(line.strip()[:40])[1:])
    return CorruptFileError(
        f"{EXTERNAL} frame {frame}, byte {offset}: {what}, found {found}",
        at=path,
        format=EXTERNAL,
        frame=frame,
        offset=offset,
    )


def _xyz(reader: FrameReader, file: IO[bytes], check: Check) -> LineCount | None:
    return _count_by_heads(reader.path, file, _FrameLines(head=0, others=2), check)


def _lammps_dump(reader: FrameReader, file: IO[bytes], check: Check) -> LineCount | None:
    return _count_by_heads(reader.path, file, _FrameLines(head=3, others=9), check)


def _tinker(reader: FrameReader, file: IO[bytes], check: Check) -> LineCount | None:
    return _count_by_heads(reader.path, file, _FrameLines(head=0, others=2 if reader.fact("periodic") else 1), check)


def _amber(reader: FrameReader, file: IO[bytes], check: Check) -> LineCount:
    """Counts lines of ten numbers after a title; frames do not state their number of atoms."""
    lines = -(-3 * reader.options["n_atoms"] // 10) + bool(reader.fact("periodic"))
    at = len(file.readline())
    for frame in count():
        check()
        sizes = [len(line) for line in islice(file, lines) if line.strip()]
        if len(sizes) < lines:
            return LineCount(frame, at if sizes else None)
        at += sum(sizes)
    raise AssertionError("the loop ends where the file does")


_COUNTS: dict[str, Callable[[FrameReader, Any, Check], LineCount | None]] = {
    "XYZ": _xyz,
    "TXYZ": _tinker,
    "LAMMPSDUMP": _lammps_dump,
    "TRJ": _amber,
}

COUNTED = frozenset({*_COUNTS, "PDB", "MOL2"})
"""Formats whose number of frames is known, including those in which MDAnalysis counts the first lines of frames."""
