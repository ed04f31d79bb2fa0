"""Tuples of atoms, such as pairs for distances: checked arrays, and text files of them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError, OutOfRangeError
from kinema.base.input_files import read_regular

# 10^9 pairs
_MOST_BYTES = 16 << 30


def atom_tuples(given: Any, atoms_each: int, n_atoms: int, what: str, *, distinct: bool = True) -> NDArray[np.uint32]:
    """An array or list of tuples as (n, atoms_each) uint32, atom numbers from 0.

    Raises ArgumentError, naming the argument `what`, for another shape or type, for an empty list and, if tuples must
    be `distinct`, for a tuple that names an atom twice. Raises OutOfRangeError for atoms that the trajectory lacks.
    """
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.empty(0)
    if array.ndim != 2 or array.shape[1] != atoms_each or len(array) == 0 or array.dtype.kind not in "iu":
        raise ArgumentError(
            f"{what} is an array of atom numbers of the shape (n, {atoms_each}), found {array.dtype} {array.shape}"
        )
    wrong = (array < 0) | (array >= n_atoms)
    if wrong.any():
        row = int(wrong.any(axis=1).argmax())
        raise OutOfRangeError(
            f"{what}: atom {array[row][wrong[row]][0]} of row {row} is out of range, the trajectory has {n_atoms} "
            f"atoms (0 to {n_atoms - 1})"
        )
    repeated = (np.diff(np.sort(array, axis=1), axis=1) == 0).any(axis=1)
    if distinct and repeated.any():
        row = int(repeated.argmax())
        raise ArgumentError(f"{what}: row {row} names an atom twice: {', '.join(map(str, array[row]))}")
    return np.ascontiguousarray(array, dtype=np.uint32)


def read_atom_tuples(path: str | os.PathLike[str], atoms_each: int) -> NDArray[np.int64]:
    """Reads a text file with one tuple a line, counted from 1 as in .ndx: (n, atoms_each) int64, atom numbers from 0.

    The rest of a line after ; or # is a comment. Raises FileNotFound, FileAccessError, ArgumentError if the path is not
    a regular file, and CorruptFileError with the line.
    """
    name = os.fspath(path)
    rows: list[list[int]] = []
    for number, line in enumerate(read_regular(name, "file of atom numbers", most=_MOST_BYTES).split(b"\n"), start=1):
        words = line.partition(b";")[0].partition(b"#")[0].split()
        if not words:
            continue
        row = [int(word) if word.isdigit() and len(word) < 19 else 0 for word in words]
        if len(row) != atoms_each or min(row) < 1:
            found = line.strip()[:40].decode("utf-8", "backslashreplace")
            raise CorruptFileError(
                f"line {number}: expected {atoms_each} atom numbers from 1 on, found {found!r}", at=name
            )
        rows.append(row)
    return np.array(rows, dtype=np.int64).reshape(-1, atoms_each) - 1
