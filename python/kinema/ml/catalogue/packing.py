"""Numbers, text and arrays as bytes and back, for files that may come from somebody else: nothing is unpickled.

The bytes are a length (uint64), JSON of that length padded to 8 bytes, and the bytes of arrays. In the JSON an array is
its number in the list "arrays", where each is [type, shape, how it is stored]:

    "bytes"     as it is, after the array before it, from a multiple of 8 on
    "line"      one dimension: first + i * step, which gives the same bits; first and step as bytes
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")
# arrays with fewer elements are not tested for a line
_SHORT = 4
# elements that a line may have: limits the memory that a few bytes of a file can claim
_LONGEST_LINE = 1 << 28
_TYPES = {"|u1", "<u4", "<u8", "<i8", "<f8"}


class Packer:
    """Gathers the arrays of a structure that is packed."""

    def __init__(self) -> None:
        self._described: list[Any] = []
        self._parts: list[bytes] = []

    def array(self, values: NDArray[Any], most: int = 0) -> int:
        """The number by which JSON names an array. `most`: elements that it may have as a line."""
        kept = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        name = kept.dtype.str
        assert name in _TYPES, f"arrays of {name} are not packed"
        line = _as_line(kept) if _SHORT <= len(kept) <= min(most, _LONGEST_LINE) else None
        data = kept.tobytes() if line is None else line
        self._described.append([name, list(kept.shape), "bytes" if line is None else "line"])
        self._parts.append(data + bytes(-len(data) % 8))
        return len(self._described) - 1

    def packed(self, structure: dict[str, Any]) -> bytes:
        """The bytes of a structure of text, numbers, lists and mappings."""
        text = json.dumps(structure | {"arrays": self._described}, separators=(",", ":"), allow_nan=False).encode()
        text = text.ljust(-(-len(text) // 8) * 8)
        return b"".join([_LENGTH.pack(len(text)), text, *self._parts])


class Unpacker:
    """A structure that was packed. Raises ValueError, and JSON's errors, for other bytes."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _LENGTH.size:
            raise ValueError("it ends early")
        (length,) = _LENGTH.unpack_from(data)
        if length > len(data) - _LENGTH.size:
            raise ValueError("its text is longer than it")
        self._data, self._at = data, _LENGTH.size + length
        self.structure: dict[str, Any] = json.loads(data[_LENGTH.size : self._at])
        self._arrays = self._described = self.structure["arrays"]
        self._places = self._placed()

    def array(self, number: int, dtype: str, most: int = 0) -> NDArray[Any]:
        """An array of a type. Raises ValueError for lines of more than `most` elements."""
        name, shape, stored = self._described[_natural(number)]
        if name != dtype:
            raise ValueError(f"an array of {dtype} is one of {name!r}")
        n = math.prod(shape)
        at = self._places[number]
        if stored == "bytes":
            return np.frombuffer(self._data, name, n, at).reshape(shape)
        if len(shape) != 1 or n > min(most, _LONGEST_LINE):
            raise ValueError(f"a line of {n} elements is longer than its file lets it be")
        first, step = np.frombuffer(self._data, name, 2, at)
        return _line(first, step, n)

    def _placed(self) -> list[int]:
        """Where the bytes of each array begin. Raises ValueError if they reach beyond the end."""
        places, at = [], self._at
        for name, shape, stored in self._described:
            if name not in _TYPES or stored not in ("bytes", "line") or not isinstance(shape, list):
                raise ValueError("it has an array of an unknown kind")
            n = math.prod(_natural(one) for one in shape)
            places.append(at)
            length = (n if stored == "bytes" else 2) * np.dtype(name).itemsize
            at += -(-length // 8) * 8
            if at > len(self._data):
                raise ValueError("its arrays reach beyond its end")
        if at != len(self._data):
            raise ValueError("it has bytes left over")
        return places


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"a number from 0 up is {value!r}")
    return value


def _as_line(values: NDArray[Any]) -> bytes | None:
    """First element and step of an array that is a line, bit for bit; None for other arrays."""
    if values.ndim != 1:
        return None
    with np.errstate(all="ignore"):
        step = values[1] - values[0]
        same = _line(values[0], step, len(values)).tobytes() == values.tobytes()
    return np.array([values[0], step], values.dtype).tobytes() if same else None


def _line(first: Any, step: Any, n: int) -> NDArray[Any]:
    """first + i * step in the arithmetic of their type; integers wrap."""
    with np.errstate(all="ignore"):
        values: NDArray[Any] = first + np.arange(n, dtype=first.dtype) * step
    return values.astype(first.dtype, copy=False)
