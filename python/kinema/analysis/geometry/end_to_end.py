"""End-to-end distances of chains per frame.

    d(t) = |x_last(t) - x_first(t)|

Angstrom. Positions are used as stored, so molecules must be whole: if a chain is longer than half of the cell, the
nearest image of the last atom is not its end. Source: P. J. Flory, "Statistical Mechanics of Chain Molecules" (1969).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.tuples import TupleAnalysis
from kinema.base.choices import COMPOUND
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["EndToEnd"]


class EndToEnd(TupleAnalysis):
    """Distance between the first and the last atom over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms of the chain, from end to end; None: all.
    compound : {"group", "residues", "segments", "molecules", "fragments"}
        Atoms that form a chain, as in `Centers`: all of them, or the selected atoms of each compound; one column per
        chain.
    minimum_image : bool
        Use the nearest images of both ends in the cell; by default the positions as stored.

    After `run`
    -----------
    results.end_to_end : (frames, chains) float64, angstrom
    results.values : the same
    results.frames, results.time : (frames,)

    Attributes
    ----------
    tuples : (chains, 2) first and last atoms
    """

    command_name = "end-to-end"
    summary = "Distance between the first and the last atom, for each frame."
    quantities = (Quantity("end_to_end", "angstrom", "end-to-end distance", "one for each chain"),)
    reference = "Flory, Statistical Mechanics of Chain Molecules (1969)"
    kernel_name, kernel_tuples = "distances", "pairs"
    tuple_name = "chain"
    always_defined = True

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        compound: Annotated[str, Option("--compound", "Atoms that form a chain.", choices=COMPOUND)] = "group",
        minimum_image: Annotated[
            bool, Option("--minimum-image/--no-minimum-image", "Use the nearest images of both ends.")
        ] = False,
    ) -> None:
        from kinema.model.selection.compounds import groups_of

        selection = select_atoms(trajectory, select)
        topology = None if compound == "group" else trajectory.topology
        with collected() as notes:
            groups = groups_of(selection, None if topology is None else topology.atoms, compound)
        short = [one.label or "the selection" for one in groups if len(one.indices) < 2]
        if short:
            raise ArgumentError(f"an end-to-end distance is of two atoms or more, found one in {short[0]}")
        super().__init__(
            trajectory,
            np.array([one.indices[[0, -1]] for one in groups]),
            minimum_image,
            select=select,
            compound=compound,
        )
        self._add_notes(notes)
        self._labels = [(one.label or "end_to_end", self.quantities[0]) for one in groups]
