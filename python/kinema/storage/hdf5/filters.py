"""HDF5 filter pipelines: compressions by name, the filters of an existing data set, filters set on a new one.

Rust declares the numbers and client values of the compressions that it encodes (`creation_filters`). LZF, szip and
filters given by number go through libhdf5's own pipeline.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass

Filters = tuple[tuple[int, tuple[int, ...]], ...]
"""(Number, client values) of each filter, in the order of writing."""

_DEFLATE, _SHUFFLE, _FLETCHER32, _SZIP, _LZF, _BITSHUFFLE = 1, 2, 3, 4, 32000, 32008
_NBIT, _SCALE_OFFSET = 5, 6
# nearest neighbour, blocks of 8 elements: as h5py
_SZIP_VALUES = (32, 8)
# entropy coding, nearest neighbour
_SZIP_METHODS = 4 | 32
_LARGEST_FILTER = 65535
# name -> (default level, highest level); (None, None): no levels. Higher levels of gzip take up to twice the time for
# 2 to 5 % of the size, because most of the mantissas are noise.
COMPRESSIONS: dict[str, tuple[int | None, int | None]] = {
    "gzip": (1, 9),
    "zstd": (3, 22),
    "lz4": (None, None),
    "bitshuffle-lz4": (None, None),
    "bitshuffle-zstd": (3, 22),
    "lzf": (None, None),
    "szip": (None, None),
}
_BY_LIBRARY: dict[str, Filters] = {"lzf": ((_LZF, ()),), "szip": ((_SZIP, _SZIP_VALUES),)}
GZIP: Filters = ((_SHUFFLE, ()), (_DEFLATE, (4,)))
"""Replaces filters that Kinema does not encode."""

_ENCODED = {_FLETCHER32} | {
    number for name in COMPRESSIONS if name not in _BY_LIBRARY for number, _ in _core.creation_filters(name, None, 4)
}
_WITHOUT_PLUGIN = {_DEFLATE, _SHUFFLE, _FLETCHER32}
# bytes for each that is stored
_MOST_OF_DEFLATE, _MOST_OF_OTHERS = 1100, 1 << 15


@dataclass(frozen=True)
class Compression:
    """Filters of chunks; without a name chunks are not compressed.

    HDF5 itself reads `gzip` and `szip`, the HDF5 library of h5py also `lzf`; all others need the plugins of the package
    hdf5plugin.

    Attributes
    ----------
    name : a name out of `COMPRESSIONS`, or (number of a registered filter, its client values)
    level : for compressions that have levels
    shuffle : bytes of equal significance side by side before compression; None: whatever is best for the compression
    checksum : a Fletcher32 checksum of each stored chunk
    """

    name: str | tuple[int, Sequence[int]] | None = None
    level: int | None = None
    shuffle: bool | None = None
    checksum: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.checksum, bool) or not (self.shuffle is None or isinstance(self.shuffle, bool)):
            raise ArgumentError(f"shuffle and checksum are True or False, found {self.shuffle!r}, {self.checksum!r}")
        if self.name is None:
            for option, value in (("level", self.level), ("shuffle", self.shuffle or None)):
                if value is not None:
                    raise ArgumentError(f"{option}={value} needs compression=, one of {', '.join(COMPRESSIONS)}")
            return
        if not isinstance(self.name, str):
            self._check_number()
            return
        if self.name not in COMPRESSIONS:
            raise ArgumentError(
                f"compression is None or one of {', '.join(COMPRESSIONS)}, or (number of a filter, its values), found "
                f"{self.name!r}"
            )
        if self.shuffle and self.name.startswith("bitshuffle"):
            raise ArgumentError(f"shuffle=True is not for {self.name}, which shuffles bits itself")
        for number, _ in _BY_LIBRARY.get(self.name, ()):
            _check_encoder(number, str(self.name))
        default, highest = COMPRESSIONS[self.name]
        if highest is None:
            if self.level is not None:
                raise ArgumentError(f"compression {self.name} has no levels, found level={self.level!r}")
            return
        level = default if self.level is None else self.level
        if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= highest:
            raise ArgumentError(f"level of {self.name} is a whole number from 1 to {highest}, found {level!r}")
        object.__setattr__(self, "level", level)

    def _check_number(self) -> None:
        given = self.name
        expected = f"compression by number is (number of a filter, its values), found {given!r}"
        if not isinstance(given, Sequence) or len(given) != 2 or isinstance(given[1], (str, bytes)):
            raise ArgumentError(expected)
        number: Any = given[0]
        values = given[1] if isinstance(given[1], Sequence) else None
        if values is None or not all(_is_whole(one, 0, 2**32 - 1) for one in values):
            raise ArgumentError(expected)
        if not _is_whole(number, 1, _LARGEST_FILTER):
            raise ArgumentError(f"the number of a filter is from 1 to {_LARGEST_FILTER}, found {number!r}")
        for named, instead in {
            _SHUFFLE: "shuffle=True",
            _FLETCHER32: "checksum=True",
            _NBIT: "dtype=",
            _SCALE_OFFSET: "max_error=",
        }.items():
            if number == named:
                raise ArgumentError(f"filter {number} is not a compression to choose by number; give {instead}")
        if number in (_DEFLATE, _SZIP) and len(values) != {_DEFLATE: 1, _SZIP: 2}[number]:
            raise ArgumentError(f"filter {number} has {'a level' if number == _DEFLATE else 'a mask and a block size'}")
        if self.level is not None:
            raise ArgumentError(f"level={self.level} is that of a compression by name; filter {number} has its values")
        _check_encoder(number, f"filter {number}")
        object.__setattr__(self, "name", (int(number), tuple(int(one) for one in values)))

    def filters(self, element_bytes: int) -> Filters:
        """The pipeline for elements of `element_bytes` bytes."""
        if self.name is None:
            made: Filters = ()
        elif not isinstance(self.name, str):
            made = ((self.name[0], tuple(self.name[1])),)
        elif self.name in _BY_LIBRARY:
            made = _BY_LIBRARY[self.name]
        else:
            made = _given(_core.creation_filters(self.name, self.level, element_bytes))
        # Rust's declarations use shuffle if that is best; LZF is almost useless without it, szip models values itself
        wanted = self.shuffle if self.shuffle is not None else self.name == "lzf" or (_SHUFFLE, ()) in made
        made = tuple(one for one in made if one[0] != _SHUFFLE)
        before: Filters = ((_SHUFFLE, ()),) if wanted else ()
        after: Filters = ((_FLETCHER32, ()),) if self.checksum else ()
        return before + made + after


def _is_whole(value: object, lowest: int, highest: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and lowest <= int(value) <= highest


def _check_encoder(number: int, name: str) -> None:
    """Raises ArgumentError if neither this HDF5 nor Rust has an encoder for a filter."""
    import h5py

    if number in _ENCODED:
        return
    if number >= 256:
        # registers the filters with HDF5
        import hdf5plugin  # noqa: F401
    if not h5py.h5z.filter_avail(number):
        raise ArgumentError(f"compression {name}: neither Kinema nor HDF5 {h5py.version.hdf5_version} has this filter")
    if not h5py.h5z.get_filter_info(number) & h5py.h5z.FILTER_CONFIG_ENCODE_ENABLED:
        raise ArgumentError(
            f"compression {name}: HDF5 {h5py.version.hdf5_version} reads this filter and has no encoder"
        )


def encoded_by_core(dataset: Any) -> bool:
    """Whether Rust encodes the chunks of a stored data set; otherwise libhdf5 does."""
    filters, element = filters_of(dataset), dataset.dtype.itemsize
    chunk_bytes = element * math.prod(dataset.chunks or (1,))
    known = all(number in _ENCODED for number, _ in filters)
    return known and (not filters or _core.undecodable(filters, element, chunk_bytes) is None)


def filters_of(dataset: Any) -> Filters:
    """The pipeline of a data set, with the client values that HDF5 has stored; () for a virtual data set."""
    plist = dataset.id.get_create_plist()
    stored = (plist.get_filter(i) for i in range(plist.get_nfilters()))
    return tuple((int(number), tuple(map(int, values))) for number, _, values, _ in stored)


def encodable(filters: Filters) -> Filters | None:
    """A stored pipeline in the form for `set_filters`; None if one of its filters cannot be written again."""
    known = _ENCODED | {_LZF, _SZIP}
    return _given(filters) if all(number in known for number, _ in filters) else None


def encodable_again(filters: Filters) -> Filters:
    """A stored pipeline in the form for `set_filters`, with any filters."""
    return _given(filters)


def built_in_filters(filters: Filters) -> Filters | None:
    """The same pipeline if libhdf5 itself decodes all its filters; None if one of them needs a plugin."""
    return _given(filters) if all(number in _WITHOUT_PLUGIN for number, _ in filters) else None


def most_compressed(dataset: Any) -> int:
    """Upper bound of the bytes of values that one stored byte of a data set can hold: 1,100 if libhdf5 alone decodes it
    (deflate holds at most 1,032), otherwise 32,768 (Zstandard, RFC 8878: a block of 128 KiB in four bytes). The other
    compressions hold fewer in chunks of some MiB."""
    return _MOST_OF_DEFLATE if built_in_filters(filters_of(dataset)) is not None else _MOST_OF_OTHERS


def missing_filters(dataset: Any) -> list[int]:
    """Numbers of the filters of a data set that HDF5 lacks, even after hdf5plugin, if installed, has registered its
    filters."""
    import h5py

    wanted = [number for number, _ in filters_of(dataset)]
    if not all(h5py.h5z.filter_avail(number) for number in wanted):
        with contextlib.suppress(ImportError):
            import hdf5plugin  # noqa: F401, which registers its filters
    return [number for number in wanted if not h5py.h5z.filter_avail(number)]


def set_filters(plist: Any, filters: Filters) -> None:
    """Adds filters to the creation properties of a data set."""
    import h5py

    for number, values in filters:
        if number == _SHUFFLE:
            plist.set_shuffle()
        elif number == _FLETCHER32:
            plist.set_fletcher32()
        elif number == _DEFLATE:
            plist.set_deflate(values[0])
        elif number == _SZIP:
            plist.set_szip(*values)
        else:
            # registers the filters with HDF5
            import hdf5plugin  # noqa: F401

            # loads the filter: HDF5 writes the name of a filter only if it is loaded, and the bytes of a file must not
            # depend on what this process has read before
            h5py.h5z.filter_avail(number)
            plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, values)


def _given(stored: Sequence[tuple[int, Sequence[int]]]) -> Filters:
    """Filters with the client values that their creator gave, without the values that HDF5 and the filters add."""
    # bitshuffle adds its version and the size of an element; shuffle and Fletcher32 have no values of their creator
    first = {_SHUFFLE: 1, _FLETCHER32: 1, _BITSHUFFLE: 3, _LZF: 3}
    given: list[tuple[int, tuple[int, ...]]] = []
    for number, values in stored:
        if number == _SZIP and len(values) >= 2:
            # szip adds bits of the mask, and values that it takes from the type and the chunks
            given.append((number, (values[0] & _SZIP_METHODS, values[1])))
        else:
            given.append((number, tuple(values[first.get(number, 0) :])))
    return tuple(given)
