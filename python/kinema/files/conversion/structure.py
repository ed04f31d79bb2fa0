"""The topology of a converted file, as PDB or GRO: the atoms that were written, with positions of the first frame."""

from __future__ import annotations

import os

import numpy as np

from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.files.conversion.source_frames import SourceFrames
from kinema.formats.external.structure import SUFFIXES, write_structure
from kinema.storage.output_checks import check_target, is_stream


def check_structure(path: str | os.PathLike[str], source: SourceFrames, *, overwrite: bool) -> str:
    """The name; raises any reason that would keep the file from being made, before anything is written."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1]
    if is_stream(name) or suffix.lower() not in SUFFIXES:
        raise UnsupportedFormatError(
            f"topology_out= is a file {' or '.join(SUFFIXES)}, found {suffix or 'a name without suffix'}", at=name
        )
    check_target(name, overwrite=overwrite)
    source.trajectory.check_fields(("positions",))
    _ = source.trajectory.atoms
    return name


def write_first(source: SourceFrames, path: str, name: str) -> None:
    """Writes the file `path` with the first frame of `source`, its atoms in their order; messages call it `name`."""
    table = source.trajectory.atoms
    first = source.trajectory.core.read(source.frames[:1], atoms=source.atoms, fields=("positions",), workers=1)
    if not first["present"]["positions"][0]:
        raise ArgumentError(f"frame {source.frames[0]} has no positions, choose another first frame", at=name)
    chosen = table if source.atoms is None else table[source.atoms.astype(np.int64)]
    cell = first["cells"][0] if first["present"]["cells"][0] else None
    write_structure(path, chosen, first["positions"][0], cell, name=name)
