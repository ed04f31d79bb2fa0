"""CRC-32 of joined pieces, and of a stored member of a `.npz` archive from the CRC-32 of its samples.

A CRC-32 is the remainder of a polynomial over GF(2). For two pieces joined, it is the first one times x to the number
of bits of the second, plus the second. Bits are in zlib's order: the highest bit is x^0.
"""

from __future__ import annotations

import threading
import zlib
from functools import cache

from kinema.base.errors import CorruptFileError
from kinema.base.input_files import open_regular
from kinema.ml.stored.samples import SampleFile

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31


def _product(a: int, b: int) -> int:
    """Product of two polynomials, modulo the polynomial of the CRC."""
    found = 0
    for power in range(32):
        if a & (_ONE >> power):
            found ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return found


@cache
def _x_to(bits: int) -> int:
    """x to the power of `bits`, modulo the polynomial."""
    if bits == 0:
        return _ONE
    half = _x_to(bits // 2)
    square = _product(half, half)
    return _product(square, _ONE >> 1) if bits % 2 else square


def combined(first: int, second: int, n_bytes: int) -> int:
    """CRC-32 of two pieces joined; the second one has `n_bytes`."""
    return _product(_x_to(8 * n_bytes), first) ^ second


class MemberChecksum:
    """Compares the CRC-32 of a stored member once all its samples were added, in any order."""

    def __init__(self, one: SampleFile) -> None:
        self._one = one
        # runs of rows: checksum and number of rows, by the first row
        self._runs: dict[int, tuple[int, int]] = {}
        self._rows = 0
        self._lock = threading.Lock()

    def add(self, first: int, rows: int, checksum: int) -> None:
        """Adds the checksum of some rows, each row once.

        Raises CorruptFileError with path and byte if these are the last rows and the sum does not fit.
        """
        with self._lock:
            self._runs[first] = (checksum, rows)
            self._rows += rows
            last = self._rows == self._one.rows
        if last:
            self._compare()

    def _compare(self) -> None:
        one, member = self._one, self._one.member
        assert member is not None and isinstance(one.place, tuple)
        begin, end = one.place[0], one.place[0] + one.rows * one.row_bytes
        with open_regular(one.path, "samples") as file:
            file.seek(member.start)
            found = zlib.crc32(file.read(begin - member.start))
            for first in sorted(self._runs):
                checksum, rows = self._runs[first]
                found = combined(found, checksum, rows * one.row_bytes)
            file.seek(end)
            found = zlib.crc32(file.read(member.start + member.size - end), found)
        if found != member.checksum:
            raise CorruptFileError(
                f"byte {member.start}: member {one.name} is damaged: checksum, expected "
                f"{member.checksum:08x}, found {found:08x}",
                at=one.path,
                offset=member.start,
            )
