"""Solvent-accessible surface area per frame, of all atoms, of residues or of atoms.

    A_i = 4 pi (r_i + probe)^2 n_i / n,   n_i of the n points on the sphere are in no other sphere

angstrom^2. The spheres are those of the atoms of `surface` and of their periodic images, so that molecules need not be
whole. Relative areas are those of residues divided by the theoretical maxima of M. Z. Tien et al., PLoS ONE 8, e80635
(2013). Source: A. Shrake, J. A. Rupley, J. Mol. Biol. 79, 351 (1973).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis
from kinema.analysis.structure.surface_atoms import (
    AREA,
    BY,
    NPoints,
    Probe,
    Radii,
    SurfaceAtoms,
    groups_by,
    polar_atoms,
)
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.model.selection.residue_dihedrals import residue_labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["SASA"]

_MAXIMA = {
    "ALA": 129, "ARG": 274, "ASN": 195, "ASP": 193, "CYS": 167, "GLN": 225, "GLU": 223, "GLY": 104, "HIS": 224,
    "ILE": 197, "LEU": 201, "LYS": 236, "MET": 224, "PHE": 240, "PRO": 159, "SER": 155, "THR": 172, "TRP": 285,
    "TYR": 263, "VAL": 174,
}  # fmt: skip
_SHOWN = 6


class SASA(PerFrameAnalysis):
    """Solvent-accessible surface area over time.

    Parameters
    ----------
    trajectory : Trajectory
        With a topology that has elements or names, unless `radii` is an array.
    select : as `Trajectory.select`
        Atoms whose area is given; None or "all": the atoms of `surface`.
    surface : as `select`
        Atoms that make the surface; None: the atoms of `select`. An atom that is in neither covers nothing.
    radii : {"bondi", "protor", "column"}, path or (n_atoms,) array
        Van der Waals radii in angstrom. "bondi": of elements, hydrogens 1.20. "protor": of the atoms of amino acids
        with their hydrogens, which are left out (J. Tsai et al., J. Mol. Biol. 290, 253, 1999). "column":
        `Atoms.radii`. A file has lines `ELEMENT RADIUS` or `RESNAME NAME RADIUS`, * is any. The radius 0 leaves an atom
        out.
    probe : float
        Radius of the solvent, angstrom.
    n_points : int
        Points on each sphere, along a golden spiral.
    by : {"total", "residue", "atom"}
        Columns: the sum, or one for each residue or atom.
    relative : bool
        With by="residue": areas divided by the largest that the amino acid can have; nan for other residues. Values
        above 1 are possible, at ends of chains above all.
    polar : bool
        With by="total" or "residue": also the areas of polar atoms, N, O and the hydrogens bonded to them, and of all
        others.

    After `run`
    -----------
    results.sasa : (frames,) float64, angstrom^2; (frames, residues) or (frames, atoms) by "residue" and "atom"
    results.polar, results.apolar : the same, with polar
    results.relative : (frames, residues) float64, with relative, instead of results.sasa
    results.values : (frames, columns), all of these
    results.frames, results.time : (frames,)

    Attributes
    ----------
    labels : list of str
        "LEU12" or "LEU12:CA" of each column, by "residue" and "atom".

    Raises
    ------
    ArgumentError for atoms without a radius or of unknown element, which it names, and for atoms of `select` that are
    not in `surface`.

    Examples
    --------
    >>> sasa = kn.analysis.SASA(traj, select="protein", radii="protor").run(step=50)
    >>> sasa.results.sasa.shape
    (4,)
    """

    command_name = "sasa"
    summary = "Solvent-accessible surface area of atoms, residues or all, for each frame."
    quantities = (
        Quantity("sasa", AREA, "solvent-accessible surface area", "one for each residue or atom, with --by"),
        Quantity("relative", "1", "relative solvent accessibility", "one for each residue, with --relative"),
        Quantity("polar", AREA, "polar surface area", "with --polar"),
        Quantity("apolar", AREA, "apolar surface area", "with --polar"),
    )
    reference = "Shrake and Rupley, J. Mol. Biol. 79, 351 (1973); mdtraj.shrake_rupley"
    short_run = {"by": "residue", "n_points": 40}  # noqa: RUF012
    # images count
    _minimum_image = True

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        surface: Annotated[
            Any,
            Option(
                "--surface", "Atoms that make the surface; by default as --select.", takes="atoms", example="resid 1:6"
            ),
        ] = None,
        radii: Radii = "bondi",
        probe: Probe = 1.4,
        n_points: NPoints = 960,
        by: Annotated[str, Option("--by", "Columns: the sum, or each residue or atom.", choices=BY)] = "total",
        relative: Annotated[
            bool, Option("--relative", "With --by residue: as a part of the largest area that the amino acid can have.")
        ] = False,
        polar: Annotated[bool, Option("--polar", "Also the areas of polar and of apolar atoms.")] = False,
    ) -> None:
        from kinema.transforms.arguments import select_atoms

        self.check_arguments(
            {"by": by, **({"relative": True} if relative else {}), **({"polar": True} if polar else {})}
        )
        making = select_atoms(trajectory, select if surface is None else surface)
        # without --select the command line gives all atoms
        if select is None or select_atoms(trajectory, select).description == trajectory.select(None).description:
            select = making
        super().__init__(
            trajectory,
            select,
            surface=making,
            radii=radii,
            probe=probe,
            n_points=n_points,
            by=by,
            relative=relative,
            polar=polar,
        )
        self.selection.check_unique()
        with self._noting():
            self._surface = SurfaceAtoms(trajectory, making, radii, probe, n_points, "its surface")
            atoms = self._measured(making.indices)
            groups, self.labels = groups_by(trajectory, atoms, by)
            self._by, self._relative, self._polar = by, bool(relative), bool(polar)
            self._scales = _scales(trajectory, groups) if relative else None
            if polar:
                is_polar = np.isin(atoms, atoms[polar_atoms(trajectory, atoms, "the polar area")])
                chosen = [np.isin(group, atoms[is_polar]) for group in groups]
                groups = [
                    *groups,
                    *(group[mask] for group, mask in zip(groups, chosen, strict=True)),
                    *(group[~mask] for group, mask in zip(groups, chosen, strict=True)),
                ]
        self._members = self._surface.members(groups)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        super().check_arguments(given, followed=followed)
        by = given.get("by", "total")
        if given.get("relative") and by != "residue":
            raise ArgumentError("relative= divides areas of residues; give by='residue'")
        if given.get("polar") and (by == "atom" or given.get("relative")):
            raise ArgumentError("polar= needs areas of by='total' or by='residue', without relative=")

    @property
    def subject(self) -> str:
        return f"{self._columns()[0][1].description} of {self.selection.count(self.trajectory.n_atoms)}"

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        return self.results.values, self._columns()[0][1]

    @property
    def summarised_over(self) -> str | None:
        return super().summarised_over if self._by == "total" else None

    @property
    def _title(self) -> str:
        return self._columns()[0][1].title

    def _kernel(self) -> _core.Kernel:
        arguments = {**self._surface.arguments, **self._members, "scales": self._scales}
        return _core.Kernel("sasa", self.trajectory.n_atoms, **arguments)

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        names = [0, 2, 3] if self._polar else [1] if self._relative else [0]
        found = [self.quantities[i] for i in names]
        if self._by == "total":
            return [(one.name, replace(one, columns="")) for one in found]
        return [(f"{one.name} {label}" if self._polar else label, one) for one in found for label in self.labels]

    def _measured(self, surface: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Atoms of the selection that have a radius, in its order."""
        chosen = self.selection.indices
        outside = ~np.isin(chosen, surface)
        if outside.any():
            raise ArgumentError(
                f"{counted(int(outside.sum()), 'atom')} of select={self.selection.description!r} are not in surface=; "
                "the area is that of atoms that make the surface"
            )
        atoms = chosen[np.isin(chosen, self._surface.atoms)]
        if not len(atoms):
            raise ArgumentError(f"no atom of select={self.selection.description!r} has a radius above 0")
        return atoms


def _scales(trajectory: Trajectory, groups: list[NDArray[Any]]) -> NDArray[np.float64]:
    """One over the largest area of each residue; nan if that is not known.

    Emits notes on these, and on residues of which heavy atoms are missing in the groups.
    """
    from kinema.model.elements import element_by_name
    from kinema.model.residue_names import amino_acid

    atoms = trajectory.atoms
    heads = np.array([group[0] for group in groups])
    names = atoms.resnames[heads].tolist()
    found = np.array([_MAXIMA.get(amino_acid(name), np.nan) for name in names])
    residues = atoms.resindices
    missing = np.isin(residues, residues[heads])
    missing[np.concatenate(groups)] = False
    rows = np.flatnonzero(missing)
    heavy = [element_by_name(*of) != "H" for of in zip(atoms.names[rows], atoms.resnames[rows], strict=True)]
    notes = []
    for which, problem in (
        (np.isnan(found), "no largest area is known of {}: the relative area is nan"),
        (np.isin(residues[heads], residues[rows[heavy]]), "atoms of {} are left out, whose relative area is too small"),
    ):
        if which.any():
            labels = residue_labels(atoms, residues[heads[which]])
            more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
            notes.append(problem.format(", ".join(labels[:_SHOWN]) + more))
    emit(notes)
    return 1.0 / found
