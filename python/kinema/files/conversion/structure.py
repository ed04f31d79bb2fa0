"""The topology of a converted file, as PDB or GRO: the atoms that were written, with positions of the first frame."""

from __future__ import annotations

import os
import warnings

import numpy as np

from kinema.base.errors import ArgumentError, UnsupportedFormatError, from_os
from kinema.base.notes import emit
from kinema.files.conversion.source_frames import SourceFrames
from kinema.model.universe import import_mdanalysis, universe_of
from kinema.storage.output_checks import check_target, is_stream

_SUFFIXES = (".pdb", ".gro")
# columns that a useful structure needs
_SAID = ("names", "resnames", "resids", "elements")


def check_structure(path: str | os.PathLike[str], source: SourceFrames, *, overwrite: bool) -> str:
    """The name; raises any reason that would keep the file from being made, before anything is written."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1]
    if is_stream(name) or suffix.lower() not in _SUFFIXES:
        raise UnsupportedFormatError(
            f"topology_out= is a file {' or '.join(_SUFFIXES)}, found {suffix or 'a name without suffix'}", at=name
        )
    check_target(name, overwrite=overwrite)
    source.trajectory.check_fields(("positions",))
    _ = source.trajectory.atoms
    return name


def write_structure(source: SourceFrames, path: str, name: str) -> None:
    """Writes the file `path` with MDAnalysis' writer; messages call it `name`.

    The atoms are those of `source` in their order. A note names what the format needs and the topology lacks.
    """
    table = source.trajectory.atoms
    first = source.trajectory.core.read(source.frames[:1], atoms=source.atoms, fields=("positions",), workers=1)
    if not first["present"]["positions"][0]:
        raise ArgumentError(f"frame {source.frames[0]} has no positions, choose another first frame", at=name)
    import_mdanalysis()
    from MDAnalysis.lib.mdamath import triclinic_box

    universe = universe_of(table if source.atoms is None else table[source.atoms.astype(np.int64)])
    cell = triclinic_box(*first["cells"][0]) if first["present"]["cells"][0] else None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        universe.load_new(first["positions"], order="fac", dimensions=cell)
        try:
            universe.atoms.write(path)
        except OSError as error:
            raise from_os("cannot write", error, path=name) from None
        except ValueError as error:
            what = " ".join(str(error).split()).replace(path, name).rstrip(".")
            raise UnsupportedFormatError(f"MDAnalysis cannot write these atoms: {what}", at=name) from None
    unknown = [column for column in _SAID if any(f"'{column}'" in str(one.message) for one in said)]
    if unknown:
        emit([f"{name}: the topology has no {', '.join(unknown)}; MDAnalysis has put words of its own there"])
