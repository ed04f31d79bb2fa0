"""HDF5 filter pipelines: compressions by name, the filters of an existing data set, filters set on a new one.

Numbers and client values of the named compressions are declared in Rust (`creation_filters`), which also encodes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kinema import _core
from kinema.errors import ArgumentError

__all__ = [
    "COMPRESSIONS",
    "GZIP",
    "Compression",
    "Filters",
    "encodable",
    "filters_of",
    "missing_filters",
    "set_filters",
    "without_plugin",
]

Filters = tuple[tuple[int, tuple[int, ...]], ...]
"""(Number, client values) of each filter, in the order of writing."""

_DEFLATE, _SHUFFLE, _FLETCHER32, _BITSHUFFLE = 1, 2, 3, 32008
# name -> (default level, highest level); (None, None): it has none. Higher levels of gzip take up to twice the time for
# 2 to 5 % of the size, as most of the mantissas are noise.
COMPRESSIONS: dict[str, tuple[int | None, int | None]] = {
    "gzip": (1, 9),
    "zstd": (3, 22),
    "lz4": (None, None),
    "bitshuffle-lz4": (None, None),
    "bitshuffle-zstd": (3, 22),
}
GZIP: Filters = ((_SHUFFLE, ()), (_DEFLATE, (4,)))
"""Replaces filters that Kinema does not encode."""

_ENCODED = {_FLETCHER32} | {number for name in COMPRESSIONS for number, _ in _core.creation_filters(name, None, 4)}
_WITHOUT_PLUGIN = {_DEFLATE, _SHUFFLE, _FLETCHER32}


@dataclass(frozen=True)
class Compression:
    """A compression by name, with its level; `None` for no compression.

    `gzip` (after HDF5's shuffle) is read by every HDF5; all others need the plugins of the package hdf5plugin.
    """

    name: str | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        if self.name is None:
            if self.level is not None:
                raise ArgumentError(f"level={self.level} needs compression=, one of {', '.join(COMPRESSIONS)}")
            return
        if self.name not in COMPRESSIONS:
            raise ArgumentError(f"compression is None or one of {', '.join(COMPRESSIONS)}, found {self.name!r}")
        default, highest = COMPRESSIONS[self.name]
        if highest is None:
            if self.level is not None:
                raise ArgumentError(f"compression {self.name} has no levels, found level={self.level!r}")
            return
        level = default if self.level is None else self.level
        if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= highest:
            raise ArgumentError(f"level of {self.name} is a whole number from 1 to {highest}, found {level!r}")
        object.__setattr__(self, "level", level)

    def filters(self, element_bytes: int) -> Filters:
        """The pipeline for elements of so many bytes."""
        if self.name is None:
            return ()
        return _given(_core.creation_filters(self.name, self.level, element_bytes))


def filters_of(dataset: Any) -> Filters:
    """The pipeline of a data set, with the client values as HDF5 has stored them; () for a virtual data set."""
    plist = dataset.id.get_create_plist()
    stored = (plist.get_filter(i) for i in range(plist.get_nfilters()))
    return tuple((int(number), tuple(map(int, values))) for number, _, values, _ in stored)


def encodable(filters: Filters) -> Filters | None:
    """A stored pipeline as `set_filters` takes it; None where Kinema cannot encode one of its filters."""
    return _given(filters) if all(number in _ENCODED for number, _ in filters) else None


def without_plugin(filters: Filters) -> Filters | None:
    """The same where libhdf5 itself decodes all filters; None where one of them needs a plugin."""
    return _given(filters) if all(number in _WITHOUT_PLUGIN for number, _ in filters) else None


def missing_filters(dataset: Any) -> list[int]:
    """Numbers of the filters of a data set that HDF5 lacks, also when those of hdf5plugin, if that is installed, are
    registered."""
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
        else:
            # registers the filters with HDF5
            import hdf5plugin  # noqa: F401

            plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, values)


def _given(stored: Sequence[tuple[int, Sequence[int]]]) -> Filters:
    """Filters with the client values that their creator gave, without those that HDF5 and the filters add."""
    # bitshuffle adds its version and the size of an element; shuffle and Fletcher32 have no values of their creator
    first = {_SHUFFLE: 1, _FLETCHER32: 1, _BITSHUFFLE: 3}
    return tuple((number, tuple(values[first.get(number, 0) :])) for number, values in stored)
