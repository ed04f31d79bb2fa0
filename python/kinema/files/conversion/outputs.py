"""Outputs of `convert`: formats and names, the options of formats, and records of written files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinema.base.errors import UnsupportedFormatError
from kinema.formats.all_formats import format_named
from kinema.formats.all_writers import format_of, format_of_file_name, is_variant, options_of
from kinema.storage.output_checks import is_stream

if TYPE_CHECKING:
    from kinema.execution.checkpoint import CheckpointChoice
    from kinema.files.conversion.compare import Verification

DECIDED = ("fields", "particles", "n_frames", "cell", "atoms", "topology", "native", "provenance", "resume_from")
"""Options of writers that the source and `convert` decide."""


@dataclass(frozen=True)
class ConvertingOptions:
    """Options of `convert` for every format, besides its named arguments; documented as options of formats are."""

    dump: float | None = None
    """float, ps

    Write only the frame nearest to this time, as `gmx trjconv -dump`; the first if two are equally near."""

    index_file: str | os.PathLike[str] | None = None
    """path

    As for `Trajectory.select`, like `group`."""

    group: str | None = None
    """str

    A group of the index file."""

    split: int | None = None
    """int

    Write files of this many frames each (the last may have fewer): out0.xtc, out1.xtc, ... for "out.xtc". Each
    appears when it is complete."""

    topology_out: str | os.PathLike[str] | None = None
    """path

    Also write a PDB or GRO file of the written atoms, in their order, with the positions and cell of the first written
    frame. Needs a topology, and appears after the trajectory."""

    strategy: str = "auto"
    """str

    How workers write one file. "direct": each worker writes what it has encoded; "serial": one process writes all
    bytes; "mpiio" and "mpiio-collective": through MPI-IO; "auto": "direct" if the format has it. See
    docs/parallel-writing.md."""

    hints: Mapping[str, Any] | None = None
    """mapping

    Hints with ROMIO's names. cb_buffer_size: bytes that a worker encodes and writes at a time; others are for
    MPI-IO."""

    memory: int | str | None = None
    """int or str

    Limit of working memory, such as "256 MiB"."""

    append: bool = False
    """bool

    Append the frames to `out` if it exists, as `kinema.Writer` does with mode="a". They are not read back."""

    verify: Verification = True
    """bool or "all"

    Read some frames back, or all, and compare them with the source, before a file gets its name."""

    rotate_cell: bool = False
    """bool

    Rotate each frame whose cell is not in standard orientation (first edge along x, second in the xy plane,
    right-handed), with positions, velocities and forces: `kinema.transforms.rotate_cell`, after all other transforms;
    noted."""

    checkpoint: CheckpointChoice = None
    """path or Checkpoint

    File that records the progress: however a call ends, the same call continues after the written frames and makes the
    same bytes (for H5MD the same values). It is removed when the output is complete. For one file of any format except
    PDB and GRO; not if an H5MD file is repacked."""

    checkpoint_interval: float | None = None
    """float

    Seconds between two saves of the checkpoint; 30 by default."""

    skip_damaged: bool = False
    """bool

    Leave out frames that cannot be decoded, with a note that names them; without it they are an error. Finding them
    decodes all frames once more, unless that was done before."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that has been written; the fields have the meaning of `kinema.Converted`, which is made from them."""

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
    """The name of the format to write, from `format`, or the suffix or name of the file; raises as `format_of`."""
    name = os.fspath(out)
    if format is None and not (is_stream(name) or os.path.splitext(name)[1] or format_of_file_name(name)):
        raise UnsupportedFormatError("a name without suffix does not say the format; give format=", at=name)
    return format_of(name, format)


def own_options(format: str) -> tuple[str, ...]:
    """The options of a format that users of `convert` may set, as its writer declares them."""
    return tuple(name for name in options_of(format) if name not in DECIDED)


def is_written_in_blocks(out: str, format: str, options: Mapping[str, Any]) -> bool:
    """Whether `kn.Writer` writes the file to HDF5, from blocks of frames."""
    return format_named(format).chunked or is_variant(out, format, options)


def numbered(name: str, count: int) -> list[str]:
    """Names of several files, as `gmx trjconv` numbers them: out0.xtc, out1.xtc, ..."""
    stem, suffix = os.path.splitext(name)
    return [f"{stem}{number}{suffix}" for number in range(count)]
