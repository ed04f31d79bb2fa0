"""Pairs of residues that are near each other, per frame.

    d(t) = min |x_j(t) - x_i(t)| <= cutoff,   i of one residue, j of the other, nearest images in the frame's cell

Angstrom. The scheme says which atoms of a residue count. Residues of one chain are at least three places apart, as in
MDTraj's `compute_contacts`, which gives distances of all pairs, as `ResidueDistances` does; residues of different
chains need not be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from kinema import _core
from kinema.analysis.declaration import MinimumImage, Option, Quantity
from kinema.analysis.lists import ListAnalysis, RowKey
from kinema.base.choices import positive_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.model.selection.chains import places_in_chains
from kinema.model.selection.residue_atoms import SCHEMES, residue_atoms

if TYPE_CHECKING:
    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["ResidueContacts"]


class ResidueContacts(ListAnalysis):
    """Contacts of residues over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms that count; None: all.
    cutoff : float
        Largest distance of residues in contact, angstrom.
    scheme : {"closest-heavy", "closest", "ca", "sidechain-heavy"}
        Atoms of a residue that count. Without elements, hydrogens are known by names, which is noted.
    min_separation : int
        Least number of places between residues of one chain, which is a segment or has a chain identifier.
    minimum_image : bool
        Distances of the nearest images; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.i, results.j : (rows,) uint32
        The two nearest atoms of the residues, from 0; `traj.atoms.resindices[results.i]` are the residues. Rows of a
        frame ascend by residue.
    results.distance : (rows,) float64, angstrom
    results.frames, results.time : (frames,)
    results.counts : (frames,) int64
        Number of contacts of each frame.
    results.first_row : (frames + 1,) int64
        Frame k has the rows first_row[k]:first_row[k + 1].

    Examples
    --------
    >>> contacts = kn.analysis.ResidueContacts(traj, select="resid 1:60", scheme="ca", cutoff=8.0).run(step=50)
    >>> contacts.results.counts.shape, contacts.occupancy().by
    ((4,), 'residue')
    """

    command_name = "residue-contacts"
    notes_open_frames = True
    summary = "Pairs of residues that are near each other, in each frame."
    quantities = (Quantity("distance", "angstrom", "least distance"),)
    reference = "mdtraj.compute_contacts"
    row_name = "residue contact"
    keys = (RowKey("i"), RowKey("j"))

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        cutoff: Annotated[
            float, Option("--cutoff", "Largest distance of residues in contact.", unit="angstrom", least=0)
        ] = 4.5,
        scheme: Annotated[str, Option("--scheme", "Atoms of a residue that count.", choices=SCHEMES)] = "closest-heavy",
        min_separation: Annotated[
            int, Option("--min-separation", "Least distance of residues in a chain, in residues.", least=0)
        ] = 3,
        minimum_image: MinimumImage = True,
    ) -> None:
        super().__init__(
            trajectory,
            select,
            cutoff=cutoff,
            scheme=scheme,
            min_separation=min_separation,
            minimum_image=minimum_image,
        )
        self.selection.check_unique()
        with self._noting():
            self._residues = residue_atoms(trajectory.atoms, self.selection.indices, scheme)
        if len(self._residues.residues) < 2:
            raise ArgumentError(f"the selection has one residue for scheme {scheme!r}, expected at least two")
        self._cutoff, self._separation = positive_number("cutoff", cutoff), int(min_separation)
        self._minimum_image = bool(minimum_image)

    @classmethod
    def default_by(cls) -> str:
        """See `ListAnalysis`: residues distinguish rows."""
        return "residue"

    @property
    def subject(self) -> str:
        return f"contacts of {counted(len(self._residues.residues), 'residue')}"

    def _kernel(self) -> _core.Kernel:
        residues = self._residues.residues
        chains, places = places_in_chains(self.trajectory.atoms)
        return _core.Kernel(
            "residue_contacts",
            self.trajectory.n_atoms,
            atoms=self._residues.atoms,
            ends=self._residues.ends,
            chains=chains[residues].astype(np.uint32),
            places=places[residues].astype(np.uint32),
            separation=self._separation,
            cutoff=self._cutoff,
            minimum_image=self._minimum_image,
        )
