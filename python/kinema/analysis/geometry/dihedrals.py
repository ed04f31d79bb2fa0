"""Dihedral angles per frame: of quadruples of atoms, or phi, psi, omega and chi1 to chi5 of residues.

    d(t) = atan2( |b_2| b_1 . (b_2 x b_3), (b_1 x b_2) . (b_2 x b_3) ),   b_k = x_(k+1)(t) - x_k(t), nearest images

Degrees from -180 to 180, positive if, seen along the middle bond, the last bond is turned clockwise from the first; 0
is cis; nan if three successive atoms are in a line. Sources: A. Blondel, M. Karplus, J. Comput. Chem. 17, 1132 (1996)
for the formula; IUPAC-IUB, Biochemistry 9, 3471 (1970) for names and signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.tuples import TupleAnalysis, named_dihedrals, tuples_of
from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["Dihedrals"]

_NAMES = ("phi", "psi", "omega", "chi1", "chi2", "chi3", "chi4", "chi5")


class Dihedrals(TupleAnalysis):
    """Dihedral angles over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        For angles by name: the residues that have an atom in this selection; None: all.
    quadruples : (n, 4) array of atom numbers from 0, or n atom groups of four atoms
    phi, psi, omega, chi1, chi2, chi3, chi4, chi5 : bool, instead of quadruples
        The angles of all residues that have them, one name after the other. A note names residues that lack atoms.
    minimum_image : bool
        Use the nearest images for the bonds; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.phi, results.psi, ..., or results.dihedral : (frames, residues) float64, degrees
        The angles of each name; `dihedral` has the angles of quadruples.
    results.values : (frames, n) float64
        All angles.
    results.frames, results.time : (frames,)

    Attributes
    ----------
    tuples : (n, 4) atoms of each angle

    Examples
    --------
    >>> dihedrals = kn.analysis.Dihedrals(traj, select="resid 50-52", phi=True, psi=True).run()
    >>> dihedrals.results.phi.shape, dihedrals.results.psi.shape
    ((196, 3), (196, 3))
    """

    command_name = "dihedrals"
    summary = "Dihedral angles of quadruples of atoms, or of residues: phi, psi, omega, chi."
    quantities = (
        Quantity("dihedral", "degree", "dihedral angle", "one for each quadruple", period=360.0),
        *(Quantity(name, "degree", name, "one for each residue", period=360.0) for name in _NAMES),
    )
    reference = "MDAnalysis.analysis.dihedrals.Dihedral; IUPAC-IUB, Biochemistry 9, 3471 (1970)"
    kernel_name, kernel_tuples = "dihedrals", "quadruples"
    tuple_name = "quadruple"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        quadruples: Annotated[
            Any, Option("--quadruples", "File of four atom numbers from 1 a line.", takes="tuples", atoms_each=4)
        ] = None,
        phi: Annotated[bool, Option("--phi", "C N CA C of residues, about N - CA.")] = False,
        psi: Annotated[bool, Option("--psi", "N CA C N, about CA - C.")] = False,
        omega: Annotated[bool, Option("--omega", "CA C N CA, about the bond to the next residue.")] = False,
        chi1: Annotated[bool, Option("--chi1", "In side chains, about CA - CB.")] = False,
        chi2: Annotated[bool, Option("--chi2", "About CB - CG.")] = False,
        chi3: Annotated[bool, Option("--chi3", "About CG - CD.")] = False,
        chi4: Annotated[bool, Option("--chi4", "About CD - CE or NE.")] = False,
        chi5: Annotated[bool, Option("--chi5", "About NE - CZ of arginine.")] = False,
        minimum_image: Annotated[
            bool, Option("--minimum-image/--no-minimum-image", "Use the nearest images in the cell.")
        ] = True,
    ) -> None:
        chosen = zip(_NAMES, (phi, psi, omega, chi1, chi2, chi3, chi4, chi5), strict=True)
        names = [name for name, wanted in chosen if wanted]
        self.check_arguments({"quadruples": quadruples, **dict.fromkeys(names, True)})
        notes: list[str] = []
        if names:
            of = {one.name: one for one in self.quantities}
            tuples, labels, notes = named_dihedrals(trajectory, select, names)
            self._labels = [(f"{name} {residue}", of[name]) for name, residue in labels]
        else:
            if select is not None:
                # a selection of all atoms does not count as given
                self.check_arguments(
                    {"quadruples": quadruples, "select": trajectory.select(select).n_atoms < trajectory.n_atoms}
                )
            tuples = tuples_of(trajectory, {"quadruples": quadruples}, "quadruples", 4)
        super().__init__(
            trajectory, tuples, minimum_image, select=select, quadruples=quadruples, **dict.fromkeys(names, True)
        )
        self._add_notes(notes)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        """See `DeclaredAnalysis`."""
        named = [name for name in _NAMES if given.get(name)]
        if given.get("quadruples") is not None and given.get("select"):
            raise ArgumentError("select= chooses residues for angles by name, not quadruples=; give one of both")
        if bool(named) == (given.get("quadruples") is not None):
            found = ", ".join(f"{name}=" for name in ("quadruples", *named)) if named else "neither"
            names = ", ".join(f"{name}=" for name in _NAMES)
            raise ArgumentError(f"dihedrals are given by quadruples=, or by names, {names}, found {found}")
