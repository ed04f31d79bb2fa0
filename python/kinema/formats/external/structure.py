"""One structure as PDB or GRO: atoms of a topology with positions, through MDAnalysis' writers."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import numpy as np

from kinema.base.errors import UnsupportedFormatError, from_os
from kinema.base.notes import emit
from kinema.model.universe import import_mdanalysis, universe_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.atom_table import Atoms

SUFFIXES = (".pdb", ".gro")
#: the largest number that the columns of a PDB file hold for a B factor, angstrom^2
MOST_FACTOR = 999.99
# columns that a useful structure needs
_SAID = ("names", "resnames", "resids", "elements")


def write_structure(
    path: str | os.PathLike[str],
    table: Atoms,
    positions: NDArray[np.floating],
    cell: NDArray[np.floating] | None = None,
    b_factors: NDArray[np.floating] | None = None,
    *,
    name: str | None = None,
) -> None:
    """Writes the file `path`, whose suffix sets the format; messages call it `name`.

    `positions` (atoms, 3), angstrom, in the order of `table`; `cell` (3, 3), angstrom; `b_factors` (atoms,),
    angstrom^2, for PDB alone. A note names the columns that the format needs and the table lacks. Another counts the B
    factors that are larger than the file can hold; the largest that fits is written for them. Raises
    UnsupportedFormatError for atoms that MDAnalysis cannot write, and errors of files.
    """
    where = os.fspath(path)
    name = where if name is None else name
    import_mdanalysis()
    from MDAnalysis.lib.mdamath import triclinic_box

    universe = universe_of(table)
    if b_factors is not None:
        large = b_factors > MOST_FACTOR
        if large.any():
            share = f"{int(large.sum()):,} of {len(large):,} B factors are"
            emit([f"{name}: {share} above {MOST_FACTOR} angstrom^2, the most that the file can hold, which is written"])
        universe.add_TopologyAttr("tempfactors", np.minimum(b_factors, MOST_FACTOR))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dimensions = None if cell is None else triclinic_box(*cell)
        universe.load_new(np.asarray(positions, np.float32), order="fac", dimensions=dimensions)
        try:
            universe.atoms.write(where)
        except OSError as error:
            raise from_os("cannot write", error, path=name) from None
        except ValueError as error:
            what = " ".join(str(error).split()).replace(where, name).rstrip(".")
            raise UnsupportedFormatError(f"MDAnalysis cannot write these atoms: {what}", at=name) from None
    unknown = [column for column in _SAID if any(f"'{column}'" in str(one.message) for one in said)]
    if unknown:
        emit([f"{name}: the topology has no {', '.join(unknown)}; MDAnalysis has put words of its own there"])
