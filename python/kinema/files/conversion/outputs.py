"""Outputs of `convert`: their format and names, the options that formats take, and what was written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinema.base.errors import UnsupportedFormatError
from kinema.formats.all_formats import format_named
from kinema.formats.all_writers import format_of, format_of_file_name, is_variant, options_of
from kinema.storage.output_checks import is_stream

__all__ = ["WrittenFile", "in_blocks", "numbered", "own_options", "target_format"]

# of the arguments of a writer those that the source and `convert` decide
_DECIDED = ("fields", "particles", "n_frames", "cell", "atoms", "topology", "native", "provenance", "resume_from")


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


def target_format(out: str | os.PathLike[str], format: str | None) -> str:
    """The name of the format to write, by its name, or the suffix or name of the file; raises as `format_of`."""
    name = os.fspath(out)
    if format is None and not (is_stream(name) or os.path.splitext(name)[1] or format_of_file_name(name)):
        raise UnsupportedFormatError(f"{name}: a name without suffix does not say the format; give format=", path=name)
    return format_of(name, format)


def own_options(format: str) -> tuple[str, ...]:
    """The options of a format that a user of `convert` chooses, as its writer declares them."""
    return tuple(name for name in options_of(format) if name not in _DECIDED)


def in_blocks(out: str, format: str, options: Mapping[str, Any]) -> bool:
    """Whether a file is written by `kn.Writer`, of blocks that were read, into HDF5."""
    return format_named(format).chunked or is_variant(out, format, options)


def numbered(name: str, count: int) -> list[str]:
    """Names of several files, as `gmx trjconv` numbers them: out0.xtc, out1.xtc, ..."""
    stem, suffix = os.path.splitext(name)
    return [f"{stem}{number}{suffix}" for number in range(count)]
