"""GROMACS index files (.ndx): named groups of atom numbers.

It writes none, and it knows no topology: the numbers are taken as they stand.

Source: GROMACS reference manual, file formats, ndx: "[ name ]" lines, each followed by atom numbers from 1.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, CorruptFileError, from_os

__all__ = ["read_group", "read_groups"]


def read_groups(path: str | os.PathLike[str]) -> dict[str, NDArray[np.int64]]:
    """All groups of an index file by name, atom numbers from 0 in the file's order.

    Of two groups of one name the first counts, as in GROMACS. Raises FileNotFound, FileAccessError or
    CorruptFileError with the line.
    """
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise from_os("cannot read the index file", error, path=name) from None
    groups: dict[str, list[int]] = {}
    current: list[int] | None = None
    for number, line in enumerate(lines, start=1):
        text = line.split(";", 1)[0].strip()
        if text.startswith("["):
            if not text.endswith("]"):
                raise CorruptFileError(f"{name}: line {number}: group name without closing bracket", path=name)
            found: list[int] = []
            groups.setdefault(text[1:-1].strip(), found)
            current = found
        elif text:
            if current is None:
                raise CorruptFileError(
                    f"{name}: line {number}: not an index file, expected '[ group ]' first", path=name
                )
            current.extend(_atom_numbers(text, name, number))
    if not groups:
        raise CorruptFileError(f"{name}: not an index file, it has no '[ group ]' line", path=name)
    return {group: np.array(atoms, dtype=np.int64) for group, atoms in groups.items()}


def read_group(path: str | os.PathLike[str], group: str | None = None) -> tuple[str, NDArray[np.int64]]:
    """Name and atoms (from 0) of one group; without `group` the file's only one.

    Raises ArgumentError that lists the groups where `group` is none of them, or is needed.
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


def _atom_numbers(text: str, name: str, line: int) -> list[int]:
    numbers = []
    for word in text.split():
        if not word.isdecimal() or int(word) < 1:
            raise CorruptFileError(
                f"{name}: line {line}: atom numbers are whole and from 1 on, found {word!r}", path=name
            )
        numbers.append(int(word) - 1)
    return numbers
