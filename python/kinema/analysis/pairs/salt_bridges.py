"""Salt bridges of each frame: acidic and basic groups of proteins that are near each other.

    d(t) = min |x_j(t) - x_i(t)| <= cutoff,   i of an acidic group, j of a basic group

Angstrom, nearest images in the frame's cell. Acidic groups are the carboxylate oxygens OD1, OD2 of ASP and OE1, OE2 of
GLU; basic groups are NE, NH1, NH2 of ARG, NZ of LYS, and ND1, NE2 of a histidine with two protons, which has the name
HIP, HSP or HISH, or both HD1 and HE2. Residues that are neutral by name (ASH, GLH, LYN and others) or by their
hydrogens are left out. Source: D. J. Barlow, J. M. Thornton, J. Mol. Biol. 168, 867 (1983), who take 4.0 angstrom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.declaration import MinimumImage, Option, Quantity
from kinema.analysis.lists import ListAnalysis, RowKey
from kinema.base.choices import positive_number
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.base.printable import counted
from kinema.model.selection.charged_groups import ACIDIC, BASIC, charged_groups
from kinema.model.selection.compounds import GroupedAtoms, groups_of
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["SaltBridges"]

# more than any place in a chain: all groups of one kind are one chain, of which no two are joined
_NEVER = (1 << 32) - 1


class SaltBridges(ListAnalysis):
    """Salt bridges over time.

    Parameters
    ----------
    trajectory : Trajectory
    cutoff : float
        Largest distance of the nearest atoms of two groups, angstrom.
    acidic, basic : as `Trajectory.select`, optional
        Charged atoms, instead of the guess by names and hydrogens of residues; the atoms of a residue are one group.
    minimum_image : bool
        Distances of the nearest images; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.acid, results.base : (rows,) uint32
        The nearest atoms of the two groups, from 0; `traj.atoms.resindices[results.acid]` are the residues.
    results.distance : (rows,) float64, angstrom
    results.counts : (frames,) int64
        Number of salt bridges of each frame.
    results.frames, results.time : (frames,)
    results.first_row : (frames + 1,) int64
        Frame k has the rows first_row[k]:first_row[k + 1].

    Raises
    ------
    ArgumentError
        Without residues and names of atoms; if there is no acidic or no basic group; for a cutoff that is not above 0.

    Examples
    --------
    >>> bridges = kn.analysis.SaltBridges(traj).run(step=50)
    >>> bridges.results.counts.shape, bridges.occupancy().by
    ((4,), 'residue')
    """

    command_name = "salt-bridges"
    notes_open_frames = True
    summary = "Salt bridges of acidic and basic residues, in each frame."
    quantities = (Quantity("distance", "angstrom", "least distance"),)
    reference = "D. J. Barlow, J. M. Thornton, J. Mol. Biol. 168, 867 (1983)"
    row_name = "salt bridge"
    keys = (RowKey("acid"), RowKey("base"))

    def __init__(
        self,
        trajectory: Trajectory,
        cutoff: Annotated[
            float, Option("--cutoff", "Largest distance of two charged groups.", unit="angstrom", least=0)
        ] = 4.0,
        acidic: Annotated[
            Any,
            Option("--acidic", "Acidic atoms, instead of atoms of ASP and GLU.", takes="atoms", example="name O"),
        ] = None,
        basic: Annotated[
            Any,
            Option("--basic", "Basic atoms, instead of atoms of ARG, LYS and HIS.", takes="atoms", example="name N"),
        ] = None,
        minimum_image: MinimumImage = True,
    ) -> None:
        select_atoms(trajectory, None)
        with collected() as notes:
            acids = _groups(trajectory, acidic, ACIDIC)
            bases = _groups(trajectory, basic, BASIC)
        shared = np.intersect1d(acids.atoms, bases.atoms)
        if len(shared):
            raise ArgumentError(
                f"acidic= and basic= share {counted(len(shared), 'atom')}, the first is {shared[0] + 1}"
            )
        taking_part = np.union1d(acids.atoms, bases.atoms)
        super().__init__(
            trajectory, taking_part, cutoff=cutoff, acidic=acidic, basic=basic, minimum_image=minimum_image
        )
        self._add_notes(notes)
        self._n_groups = len(acids.ends), len(bases.ends)
        self._atoms = np.concatenate([acids.atoms, bases.atoms])
        self._ends = np.concatenate([acids.ends, acids.ends[-1] + bases.ends])
        self._cutoff, self._minimum_image = positive_number("cutoff", cutoff), bool(minimum_image)

    @classmethod
    def default_by(cls) -> str:
        """See `ListAnalysis`: residues distinguish rows."""
        return "residue"

    @property
    def subject(self) -> str:
        return f"salt bridges of {self._n_groups[0]:,} acidic and {self._n_groups[1]:,} basic groups"

    def _kernel(self) -> _core.Kernel:
        chains = np.repeat(np.arange(2, dtype=np.uint32), self._n_groups)
        return _core.Kernel(
            "residue_contacts",
            self.trajectory.n_atoms,
            atoms=self._atoms,
            ends=self._ends,
            chains=chains,
            places=np.zeros(len(chains), np.uint32),
            separation=_NEVER,
            cutoff=self._cutoff,
            minimum_image=self._minimum_image,
        )

    def _kernel_columns(self) -> list[tuple[str, str]]:
        return [("i", ""), ("j", ""), ("distance", "angstrom")]

    def _rows_of(self, found: Any) -> dict[str, Any]:
        # groups are acidic ones first, and the kernel gives the first of a pair as i
        return {"acid": found.i, "base": found.j, "distance": found.distance}


def _groups(trajectory: Trajectory, given: Any, kind: str) -> GroupedAtoms:
    """Groups of charged atoms, one a residue. Raises ArgumentError if there are none."""
    if given is not None:
        chosen = trajectory.select(given)
        chosen.check_unique()
        return GroupedAtoms.from_groups(groups_of(chosen, trajectory.atoms, "residues"))
    found = charged_groups(trajectory.atoms, kind)
    if not len(found.ends):
        raise ArgumentError(
            f"{trajectory.atoms.name} has no {kind} groups, by names of residues and atoms; "
            f"name their atoms with {kind}="
        )
    return found
