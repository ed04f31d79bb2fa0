"""Outputs of `convert`: their format and names, the options that formats take, and what was written."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass

from kinema import _core
from kinema.errors import ArgumentError, UnsupportedFormatError
from kinema.writing.output_checks import is_stream
from kinema.writing.writer import Writer

__all__ = ["WRITERS", "WrittenFile", "format_of", "numbered", "options_of"]

# formats that are written frame by frame, and by what; others have an encoder in Rust
WRITERS: Mapping[str, type[Writer]] = {"H5MD": Writer}
# options of encoders
_OF_RECORDS: Mapping[str, tuple[str, ...]] = {"XTC": ("precision",)}
# of the arguments of a writer those that the source and `convert` decide
_DECIDED = (
    *("self", "path", "n_atoms", "format", "mode", "overwrite", "keep_partial", "workers"),
    *("fields", "particles", "n_frames", "cell", "atoms", "topology", "native", "provenance"),
)


@dataclass(frozen=True)
class WrittenFile:
    """A file that is there: `kinema.Converted` is made of these, with their meaning."""

    path: str
    fields: tuple[str, ...]
    size: int
    seconds: float
    workers: int
    timings: Mapping[str, float]
    compared: int
    losses: tuple[str, ...]
    n_restored: int = 0
    notes: tuple[str, ...] = ()


def format_of(out: str | os.PathLike[str], format: str | None) -> str:
    """The name of the format to write, by its name or the suffix of the file."""
    name = os.fspath(out)
    known = _core.formats()
    made = {
        one["name"]: [f".{ending}" for ending in one["extensions"]]
        for one in known
        if one["encodes"] or one["name"] in WRITERS
    }
    if is_stream(name):
        raise ArgumentError(f"{name}: trajectories are written to files, not into streams; name a file", path=name)
    suffix = os.path.splitext(name)[1]
    wanted = (format if format is not None else suffix).lstrip(".").lower()
    found = [one["name"] for one in known if wanted in (one["name"].lower(), *one["extensions"])]
    if not found or found[0] not in made:
        endings = ", ".join(f"{kind} ({', '.join(suffixes)})" for kind, suffixes in made.items())
        raise UnsupportedFormatError(
            f"{name}: convert writes {endings}, found {format or suffix or 'a name without suffix'}",
            path=name,
            format=found[0] if found else None,
        )
    if suffix and suffix.lower() not in made[found[0]]:
        raise ArgumentError(
            f"{name}: the suffix is none of {found[0]}, expected {' or '.join(made[found[0]])}, found {suffix}",
            path=name,
        )
    return found[0]


def options_of(format: str) -> tuple[str, ...]:
    """The options of a format, as its writer declares them."""
    if format not in WRITERS:
        return _OF_RECORDS.get(format, ())
    declared = inspect.signature(WRITERS[format].__init__).parameters
    return tuple(name for name in declared if name not in _DECIDED)


def numbered(name: str, count: int) -> list[str]:
    """Names of several files, as `gmx trjconv` numbers them: out0.xtc, out1.xtc, ..."""
    stem, suffix = os.path.splitext(name)
    return [f"{stem}{number}{suffix}" for number in range(count)]
