"""Python values as bytes and back: numbers, text, arrays, lists, tuples and mappings directly, all others pickled.

Reading bytes runs no code unless they begin with the mark of a pickle. Before reading such bytes from a file, the
caller asks for a proof of who wrote them (`is_pickled`; `file` does so for checkpoints).

A value is a letter and its content; lengths and counts are uint64, everything is little-endian:

    N T F            None, True, False
    i f c            int: length, bytes, two's complement; float; complex
    s b              text as UTF-8, bytes: length, content
    a g              array, number of NumPy: length and text of its type, number of dimensions, shape, "C" or "F", bytes
    l t d            list, tuple, mapping: count, then its items, or its keys as a list and its values as a list
    I D              list of ints of 64 bits, list of floats: count, numbers
"""

from __future__ import annotations

import pickle
import re
import struct
from typing import Any

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.base.serialisation import serialize

# partials of this package's kernels begin with the length of their name, which is less than 255
_PICKLED = b"\xffkinema pickle\0"
_COUNT = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")
_COMPLEX = struct.Struct("<dd")
_TYPE = re.compile(r"[<>|=]([biufcSU][1-9]\d{0,8}|[mM]8(\[[0-9]{0,9}[a-zA-Zμ]{1,7}\])?)")
_MOST_DIMENSIONS = 32
_DEEPEST = 50


def to_bytes(value: Any) -> bytes:
    """A value as bytes. Raises as pickling does for an object that cannot be stored."""
    try:
        return _Encoder().encoded(value)
    except _NotPlain:
        pass
    try:
        return _PICKLED + pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError):
        # from a class of the script, which workers cannot import: it is sent with its code
        return _PICKLED + serialize(value)


def from_bytes(data: bytes) -> Any:
    """The value; bytes for which `is_pickled` is true may run code.

    Raises ValueError for bytes that `to_bytes` has not made; ArgumentError if a pickle names a module or class that no
    longer exists.
    """
    if is_pickled(data):
        try:
            return pickle.loads(memoryview(data)[len(_PICKLED) :])
        except (ImportError, AttributeError) as error:
            what = f"a stored value is of a class that cannot be imported here ({error})"
            raise ArgumentError(f"{what}; remove the checkpoint, and the run starts from its first frame") from error
    try:
        decoder = _Decoder(memoryview(data))
        value = decoder.value(0)
    except (struct.error, TypeError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"a value is damaged: {error}") from None
    if decoder.at != len(data):
        raise ValueError(f"a value is damaged: it has {len(data)} bytes, expected {decoder.at}")
    return value


def is_pickled(data: bytes) -> bool:
    """Whether reading these bytes may run code."""
    return data.startswith(_PICKLED)


class _NotPlain(Exception):
    """A value that must be pickled."""


class _Encoder:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        # mutable objects seen: if one object in two places became two, a kernel could give other results
        self._seen: set[int] = set()

    def encoded(self, value: Any) -> bytes:
        self._put(value, 0)
        return b"".join(self._parts)

    def _put(self, value: Any, depth: int) -> None:
        kind = type(value)
        if value is None or kind is bool:
            self._parts.append(b"N" if value is None else b"T" if value else b"F")
        elif kind is float:
            self._parts += [b"f", _FLOAT.pack(value)]
        elif kind is int:
            self._put_bytes(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
        elif kind is complex:
            self._parts += [b"c", _COMPLEX.pack(value.real, value.imag)]
        elif kind is str:
            self._put_bytes(b"s", value.encode("utf-8", "surrogatepass"))
        elif kind is bytes:
            self._put_bytes(b"b", value)
        elif kind is np.ndarray or isinstance(value, np.generic):
            self._put_array(value)
        elif kind in (list, tuple, dict) and depth < _DEEPEST:
            self._put_items(value, depth + 1)
        else:
            raise _NotPlain

    def _put_bytes(self, letter: bytes, content: bytes) -> None:
        self._parts += [letter, _COUNT.pack(len(content)), content]

    def _put_array(self, value: Any) -> None:
        name = value.dtype.str
        if not _TYPE.fullmatch(name) or value.dtype.metadata or value.ndim > _MOST_DIMENSIONS:
            raise _NotPlain
        is_array = isinstance(value, np.ndarray)
        if is_array:
            self._once(value)
        order = "F" if is_array and value.flags.fnc else "C"
        self._put_bytes(b"a" if is_array else b"g", name.encode())
        self._parts += [_COUNT.pack(one) for one in (value.ndim, *value.shape)]
        self._parts += [order.encode(), value.tobytes(order=order)]

    def _put_items(self, value: Any, depth: int) -> None:
        if type(value) is not tuple:
            self._once(value)
        if type(value) is list:
            self._put_list(value, depth)
        elif type(value) is dict:
            self._parts += [b"d", _COUNT.pack(len(value))]
            self._put_list(list(value), depth)
            self._put_list(list(value.values()), depth)
        else:
            self._parts += [b"t", _COUNT.pack(len(value))]
            for item in value:
                self._put(item, depth)

    def _put_list(self, values: list[Any], depth: int) -> None:
        kinds = set(map(type, values))
        for only, letter, name in ((float, b"D", "<f8"), (int, b"I", "<i8")):
            if kinds == {only}:
                try:
                    numbers = np.array(values, name)
                except OverflowError:
                    break  # more than 64 bits: one by one
                self._parts += [letter, _COUNT.pack(len(values)), numbers.tobytes()]
                return
        self._parts += [b"l", _COUNT.pack(len(values))]
        for item in values:
            self._put(item, depth)

    def _once(self, value: Any) -> None:
        if id(value) in self._seen:
            raise _NotPlain
        self._seen.add(id(value))


class _Decoder:
    """Reads a value; every length is compared with the remaining bytes before memory of that size is allocated."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def value(self, depth: int) -> Any:
        letter = bytes(self._taken(1))
        if letter in (b"N", b"T", b"F"):
            return {b"N": None, b"T": True, b"F": False}[letter]
        if letter == b"f":
            return _FLOAT.unpack(self._taken(8))[0]
        if letter == b"c":
            return complex(*_COMPLEX.unpack(self._taken(16)))
        if letter == b"i":
            return int.from_bytes(self._content(), "little", signed=True)
        if letter == b"s":
            return str(self._content(), "utf-8", "surrogatepass")
        if letter == b"b":
            return bytes(self._content())
        if letter in (b"a", b"g"):
            values = self._array()
            return values if letter == b"a" else values[()]
        if letter in (b"I", b"D"):
            return np.frombuffer(self._taken(8 * self._count()), "<i8" if letter == b"I" else "<f8").tolist()
        if letter in (b"l", b"t", b"d") and depth < _DEEPEST:
            return self._items(letter, depth + 1)
        raise ValueError(f"a value is damaged: byte {self.at - 1}: there is no kind {letter!r} here")

    def _items(self, letter: bytes, depth: int) -> Any:
        count = self._count()
        if letter == b"d":
            keys, values = self.value(depth), self.value(depth)
            if type(keys) is not list or type(values) is not list or not len(keys) == len(values) == count:
                raise ValueError("a value is damaged: a mapping lacks a value for each key")
            return dict(zip(keys, values, strict=True))
        # each item takes at least one byte
        if count > len(self._data) - self.at:
            raise ValueError(f"a value is damaged: {count} items reach beyond its end")
        items = [self.value(depth) for _ in range(count)]
        return items if letter == b"l" else tuple(items)

    def _array(self) -> Any:
        name = str(self._content(), "ascii")
        if not _TYPE.fullmatch(name):
            raise ValueError(f"a value is damaged: there is no array of {name[:20]!r}")
        dimensions = self._count()
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(f"a value is damaged: an array of {dimensions} dimensions")
        shape = [self._count() for _ in range(dimensions)]
        order: Any = str(self._taken(1), "latin-1")
        if order not in ("C", "F"):
            raise ValueError("a value is damaged: the order of an array")
        dtype = np.dtype(name)
        count = 1
        for length in shape:
            count *= length
        content = self._taken(count * dtype.itemsize)
        values: Any = np.empty(shape, dtype, order=order)
        # with its own memory, so that it is writable
        values.reshape(-1, order=order)[:] = np.frombuffer(content, dtype, count) if count else ()
        return values

    def _content(self) -> memoryview:
        return self._taken(self._count())

    def _count(self) -> int:
        count: int = _COUNT.unpack(self._taken(8))[0]
        return count

    def _taken(self, length: int) -> memoryview:
        if length > len(self._data) - self.at:
            raise ValueError(f"a value is damaged: byte {self.at}: {length} bytes reach beyond its end")
        self.at += length
        return self._data[self.at - length : self.at]
