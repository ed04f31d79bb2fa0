"""GROMACS index files (.ndx): named groups of atom numbers.

Source: GROMACS reference manual, file formats, ndx: "[ name ]" lines, each followed by atom numbers from 1.
"""

from __future__ import annotations

import os
import re

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.input_files import read_regular
from kinema.base.resources import physical_memory
from kinema.model.selection.atoms import AtomChoice, Selection, from_indices

# a group of all atoms of the largest systems takes about a GiB
_MOST_BYTES = 4 << 30
# atoms are numbered in 32 bits
_MOST_ATOMS = 1 << 32
_HEAD = re.compile(rb"^[ \t]*\[([^\n]*)", re.MULTILINE)
_COMMENT = re.compile(rb";[^\n]*")
_DIGITS_AND_SPACES = b"0123456789 \t\n\v\f"


def group_of_file(
    select: AtomChoice, path: str | os.PathLike[str] | None, group: str | None, n_atoms: int
) -> Selection:
    """The group as a selection of the `n_atoms` of a trajectory.

    Raises ArgumentError if `select` is given as well, or no file; else as `read_group` and `from_indices`.
    """
    if path is None:
        raise ArgumentError("group= names a group of an index file; give index_file= as well")
    if select is not None:
        raise ArgumentError("select= and index_file= cannot be combined; give one of them")
    name, atoms = read_group(path, group)
    file = os.fspath(path)
    return from_indices(atoms, n_atoms, f"group {name!r} of {file}", file=file)


def read_groups(path: str | os.PathLike[str]) -> dict[str, NDArray[np.int64]]:
    """All groups of an index file by name, atom numbers from 0 in the file's order.

    If two groups have the same name, the first counts, as in GROMACS. Raises FileNotFound, FileAccessError,
    CorruptFileError with the line, and ArgumentError if the path is not a regular file, or the file exceeds 4 GiB or an
    eighth of the memory.
    """
    name = os.fspath(path)
    # the text and the numbers made from it take several times the file's size
    memory = physical_memory()
    data = read_regular(name, "index file", most=_MOST_BYTES if memory is None else min(_MOST_BYTES, memory // 8))
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    heads = list(_HEAD.finditer(data))
    before = data[: heads[0].start()] if heads else data
    for number, line in enumerate(before.split(b"\n"), start=1):
        if line.split(b";", 1)[0].strip():
            raise CorruptFileError(f"line {number}: not an index file, expected '[ group ]' first", at=name)
    if not heads:
        raise CorruptFileError("not an index file, it has no '[ group ]' line", at=name)
    groups: dict[str, NDArray[np.int64]] = {}
    for place, head in enumerate(heads):
        text = head.group(1).split(b";", 1)[0].rstrip()
        if not text.endswith(b"]"):
            number = _line_of(data, head.start())
            raise CorruptFileError(f"line {number}: group name without closing bracket", at=name)
        stop = heads[place + 1].start() if place + 1 < len(heads) else len(data)
        atoms = _atoms(data[head.end() : stop])
        if atoms is None:
            raise _wrong_number(data, head.end(), stop, name)
        groups.setdefault(text[:-1].strip().decode("utf-8", errors="replace"), atoms)
    return groups


def read_group(path: str | os.PathLike[str], group: str | None = None) -> tuple[str, NDArray[np.int64]]:
    """Name and atoms (from 0) of one group; without `group`, of the only group in the file.

    Raises ArgumentError, listing the groups, if `group` is not among them, or is missing and the file has several.
    """
    groups = read_groups(path)
    listed = ", ".join(repr(name) for name in list(groups)[:20]) + (", ..." if len(groups) > 20 else "")
    if group is None:
        if len(groups) > 1:
            raise ArgumentError(f"{os.fspath(path)}: has {len(groups)} groups, say which with group=: {listed}")
        group = next(iter(groups))
    if group not in groups:
        raise ArgumentError(f"{os.fspath(path)}: has no group {group!r}, its groups are {listed}")
    return group, groups[group]


def _atoms(body: bytes) -> NDArray[np.int64] | None:
    """Atom numbers from 0 in the lines after the name of a group; None if a word is not an atom number."""
    if b";" in body:
        body = _COMMENT.sub(b"", body)
    if body.translate(None, _DIGITS_AND_SPACES):
        return None
    if not body.strip():
        return np.empty(0, np.int64)
    # one call: a loop over words takes ten times as long; numbers beyond int64 become the largest
    atoms = np.fromstring(body, dtype=np.int64, sep=" ") - 1
    return atoms if atoms.min() >= 0 and atoms.max() < _MOST_ATOMS else None


def _wrong_number(data: bytes, start: int, stop: int, name: str) -> CorruptFileError:
    """The error for the first word in data[start:stop] that is not an atom number."""
    first = _line_of(data, start)
    for number, line in enumerate(data[start:stop].split(b"\n"), start=first):
        for word in line.split(b";", 1)[0].decode("utf-8", errors="replace").split():
            if not (word.isascii() and word.isdecimal() and 1 <= int(word[:20]) <= _MOST_ATOMS):
                return CorruptFileError(
                    f"line {number}: atom numbers are whole and from 1 on, found {word[:40]!r}", at=name
                )
    return CorruptFileError(f"line {first}: the atom numbers of this group cannot be read", at=name)


def _line_of(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1
