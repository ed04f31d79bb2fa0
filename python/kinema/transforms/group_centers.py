"""`centers`: one position for each residue, molecule, segment or group of atoms, in place of the atoms.

The transformed trajectory has one atom per group, and an atom table of its own: selections, analyses and output files
work on centres.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import CENTERS_OF, check_choice
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.model.atom_table import Atoms
from kinema.model.selection.atoms import AtomChoice
from kinema.model.selection.compounds import divided, marks_of
from kinema.model.topology import Topology
from kinema.trajectory.bonds import bonds_of, first_atoms
from kinema.trajectory.broken_molecules import NobodyLooked, find_broken
from kinema.trajectory.transform import CENTERS, Transform
from kinema.transforms.arguments import describe
from kinema.transforms.periodic.order import check_order, check_unwrapped_together

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

WEIGHTS = ("mass", "geometry")
# groups that are listed in words
_SHOWN = 8
# columns that a group takes from its first atom
_OF_FIRST = ("resnames", "resids", "icodes", "segids", "chainIDs")


class _Groups(NamedTuple):
    """Atoms of the first group, of the second, and so on; the size of each group; names if groups have names."""

    members: NDArray[np.uint32]
    sizes: NDArray[np.int64]
    names: list[str] | None = None

    @property
    def firsts(self) -> NDArray[np.int64]:
        """Places of the first members."""
        return np.cumsum(self.sizes) - self.sizes


class GroupCenters(Transform):
    """See `centers`."""

    name: ClassVar[str] = CENTERS

    def __init__(
        self, of: str | Sequence[Any] | Mapping[str, Any], select: AtomChoice, weights: str, bonds: Any
    ) -> None:
        check_choice("weights", weights, WEIGHTS)
        if isinstance(of, str):
            check_choice("of", of, CENTERS_OF)
        elif select is not None:
            raise ArgumentError(
                "select names the atoms whose residues, molecules or segments have centres; groups are "
                "given with all their atoms, without select"
            )
        elif not len(of):
            raise ArgumentError("of is a list of groups of atoms, at least one, found none")
        self._of, self._select, self._weights, self._bonds = of, select, weights, bonds

    @property
    def arguments(self) -> Mapping[str, str]:
        if isinstance(self._of, str):
            arguments = {"of": describe(self._of)}
        else:
            named = isinstance(self._of, Mapping)
            words = [
                f"{one}: {describe(self._of[one])}" if named else describe(one) for one in islice(self._of, _SHOWN)
            ]
            more = f", and {len(self._of) - _SHOWN} more" if len(self._of) > _SHOWN else ""
            arguments = {"of": f"[{', '.join(words)}{more}]"}
        if self._select is not None:
            arguments["select"] = describe(self._select)
        arguments["weights"] = describe(self._weights)
        return arguments if self._bonds is None else arguments | {"bonds": describe(self._bonds)}

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        return self.bind_with_topology(trajectory)[0]

    def bind_with_topology(self, trajectory: Trajectory) -> tuple[_core.Transform, Topology]:
        check_order(self.name, trajectory)
        groups = self._named(trajectory) if not isinstance(self._of, str) else self._divided(trajectory)
        numbers = np.repeat(np.arange(len(groups.sizes)), groups.sizes)
        check_unwrapped_together(self.name, trajectory, groups.members, numbers)
        table = Atoms(trajectory.n_atoms) if trajectory.topology is None else trajectory.atoms
        bound = _core.Transform(
            self.name,
            trajectory.n_atoms,
            label=self.label,
            members=groups.members,
            sizes=groups.sizes.astype(np.uint32)[:, None],
            weights=None if self._weights == "geometry" else _masses(trajectory, groups),
        )
        broken = find_broken(trajectory, trajectory.select(np.unique(groups.members)))
        if isinstance(broken, NobodyLooked):
            emit([f"{trajectory.paths[0]}: {broken}"])
        elif broken is not None:
            emit([f"{trajectory.paths[0]}: centres are of atoms where they stand, and {broken} (transforms.whole)"])
        return bound, Topology(_table(table, groups))

    def _divided(self, trajectory: Trajectory) -> _Groups:
        selection = trajectory.select(self._select)
        selection.check_unique()
        table = None if trajectory.topology is None else trajectory.atoms
        numbers = None if table is None or self._of != "molecules" or self._bonds is not None else table.get("molnums")
        if numbers is not None:
            # these include atoms without bonds, such as the virtual sites of water
            marks: NDArray[Any] = numbers
        elif self._of in ("molecules", "fragments"):
            known = bonds_of(trajectory, self._bonds)
            emit(known.notes)
            marks = first_atoms(trajectory.n_atoms, known.pairs)
        else:
            marks = marks_of(table, str(self._of), "of")
        places, sizes = divided(marks[selection.indices])
        return _Groups(selection.indices[places], sizes)

    def _named(self, trajectory: Trajectory) -> _Groups:
        given: list[Any] = list(self._of.values()) if isinstance(self._of, Mapping) else list(self._of)
        selections = [trajectory.select(group) for group in given]
        for selection in selections:
            selection.check_unique()
        names = list(self._of) if isinstance(self._of, Mapping) else [f"G{number + 1}" for number in range(len(given))]
        members = np.concatenate([selection.indices for selection in selections])
        return _Groups(members, np.array([selection.n_atoms for selection in selections]), names)


def _masses(trajectory: Trajectory, groups: _Groups) -> NDArray[np.float64]:
    """Masses of all members. Raises ArgumentError if a group has no mass."""
    if trajectory.topology is None:
        raise ArgumentError(
            "weights='mass' needs a topology, from which masses come: give one with topology= (-s), or "
            "weights='geometry'"
        )
    masses = trajectory.atoms[groups.members].mass_weights()
    empty = np.flatnonzero(np.add.reduceat(masses, groups.firsts) == 0)
    if len(empty):
        head = int(groups.members[groups.firsts[empty[0]]]) + 1
        raise ArgumentError(
            f"{len(empty)} groups have no mass, the first is that of atom {head} (counted from 1); leave them out with "
            "select=, or take weights='geometry'"
        )
    return masses


def _table(atoms: Atoms, groups: _Groups) -> Atoms:
    """The atom table of the centres: masses and charges are summed; residue and segment names come from the first
    atom; a centre is named after its residue."""
    n_groups, firsts = len(groups.sizes), groups.firsts
    heads = atoms[groups.members[firsts]]
    columns: dict[str, Any] = {column: heads.get(column) for column in _OF_FIRST if column in atoms.columns}
    if groups.names is not None:
        columns |= {"names": groups.names, "resnames": groups.names, "resids": np.arange(n_groups) + 1, "icodes": None}
    else:
        columns["names"] = heads.get("resnames" if "resnames" in atoms.columns else "names")
    for column in ("masses", "charges"):
        values = atoms.get(column)
        if values is not None:
            columns[column] = np.add.reduceat(values[groups.members], firsts)
    columns["resindices"] = np.arange(n_groups)
    guessed = atoms.guessed & {"masses"}
    return Atoms(n_groups, name=f"centres of {atoms.name}", guessed=guessed, **columns)


def centers(
    of: str | Sequence[Any] | Mapping[str, Any] = "residues",
    select: AtomChoice = None,
    *,
    weights: str = "mass",
    bonds: Any = None,
) -> GroupCenters:
    """Replaces each group of atoms by one position: a small trajectory of centres.

    Positions are `sum w x / sum w`, velocities `sum w v / sum w`, and forces the sum of the atoms' forces; cell, steps
    and times stay. This must be the last transform. Every `select` on such a trajectory chooses among centres:
    `traj.atoms` is their table, with the residue and segment names of each group's first atom, and sums of masses and
    charges. Index files of the atoms do not fit it.

    Parameters
    ----------
    of : {"residues", "molecules", "fragments", "segments"}, or list or dict of groups
        Atoms that share a centre: the selected atoms of each residue; of each molecule, as the topology numbers them or
        else by bonds; of each fragment of bonded atoms; or of each segment. Or groups of atoms (each as
        `Trajectory.select`), with names in a dict.
    select : as `Trajectory.select`
        Atoms that count; by default all.
    weights : {"mass", "geometry"}
        Centres of mass or of geometry.
    bonds : None, "guess", a file, or (n_bonds, 2) pairs of atoms
        As in `whole`, for molecules and fragments.

    Returns
    -------
    GroupCenters
        For `Trajectory.with_transform`. Positions are used as they are: a note names molecules that are broken at the
        faces of the cell; apply `whole` first to make them whole. A group without mass raises ArgumentError. Same
        values as `center_of_mass(compound=of)` of MDAnalysis' atom groups.

    Examples
    --------
    >>> residues = traj.with_transform(kn.transforms.centers("residues", "protein"))
    >>> residues.n_atoms  # number of residues
    214
    >>> rmsd = kn.RMSD(residues, "resname LYS").run()  # of the centres of these residues
    """
    return GroupCenters(of, select, weights, bonds)
