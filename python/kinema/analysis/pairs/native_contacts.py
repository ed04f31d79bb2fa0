"""Fraction of native contacts per frame: the contacts of a reference structure that a frame still has.

A native contact is a pair of atoms, one of each group, with a distance r0 <= radius in the reference. With r its
distance in the frame (nearest images), and n the number of native contacts:

    hard_cut      q(t) = sum [r(t) <= r0] / n
    radius_cut    q(t) = sum [r(t) <= radius] / n
    soft_cut      q(t) = sum 1 / (1 + exp(beta (r(t) - lambda r0))) / n

Angstrom; beta is 5 per angstrom, lambda 1.8, for coarse-grained models 1.5. A pair counts once, and an atom is not a
contact of itself; MDAnalysis counts both atoms' turns and each atom with itself, as `count_self` does. Source of
soft_cut: R. B. Best, G. Hummer, W. A. Eaton, PNAS 110, 17874 (2013), doi:10.1073/pnas.1311599110; of the others
MDAnalysis.analysis.contacts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.declaration import Match, MinimumImage, Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis
from kinema.base.choices import check_choice, positive_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.execution.computation import SideBySide

if TYPE_CHECKING:
    from kinema.analysis.base import KernelResults, Results
    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.trajectory import Trajectory
    from kinema.transforms.reference import Reference

__all__ = ["Contacts"]

METHODS = ("hard_cut", "soft_cut", "radius_cut")
BY = ("frame", "residue")
# what `kwargs` may have, as in MDAnalysis
_KWARGS = {"hard_cut": (), "soft_cut": ("beta", "lambda_constant"), "radius_cut": ("radius",)}
_SOFT = _KWARGS["soft_cut"]

_HARD_NOTE = (
    "hard_cut loses a contact as soon as it is longer than in the reference, as about half of all contacts are in any "
    "frame by thermal motion; method='soft_cut' (--method soft_cut) allows for it"
)


class NativeContacts(NamedTuple):
    """The native contacts of one reference: `pairs` (n, 2) uint32, atoms from 0; `distances` (n,), angstrom."""

    pairs: NDArray[np.uint32]
    distances: NDArray[np.float64]


class Contacts(PerFrameAnalysis):
    """Fraction of native contacts over time.

    Arguments and results are those of MDAnalysis' `Contacts`, except that a pair counts once, and an atom is not a
    contact of itself.

    Parameters
    ----------
    trajectory : Trajectory
    select : pair of groups, or one group as `Trajectory.select`
        Contacts are between the atoms of two groups, or within one. None: within all atoms.
    refgroup : pair of AtomGroups or (n, 3) arrays, or a list of such pairs, optional
        The groups in the reference structure, with as many atoms, at the frame where their Universe is; one column for
        each pair. An array has no cell.
    method : {"hard_cut", "soft_cut", "radius_cut"} or function
        A function is called as `method(r, r0, **kwargs)` with the distances of the native contacts in the frame and in
        the reference, (n,) float64 in angstrom, and returns a number, q.
    radius : float
        Largest distance of a native contact in the reference, angstrom; and in a frame, with radius_cut.
    pbc : bool
        MDAnalysis' name of `minimum_image`; False for either: positions as stored.
    kwargs : dict, optional
        As in MDAnalysis: `beta` and `lambda_constant` of soft_cut; `radius` of radius_cut, for the frames alone;
        arguments of a function.
    other : as `Trajectory.select`, optional
        The second group, if `select` is one.
    reference : Trajectory, Universe, path or array, optional
        Structure with the native contacts, instead of `refgroup`; by default the trajectory itself. The trajectory's
        transforms are applied to it.
    ref_frame : int
        Frame of the reference.
    match : {"masses", "names", "order"}
        Property that must agree between the atoms of the reference and of the trajectory.
    beta : float
        Softness of soft_cut, 1/angstrom.
    lambda_constant : float
        Factor of soft_cut by which a contact may be longer than in the reference: at that length it counts half.
    min_separation : int
        Pairs of one chain that are fewer residues apart are left out; 4 in the publication of soft_cut, for all-atom
        models.
    count_self : bool
        Count as MDAnalysis: an atom of both groups with itself, and a pair of such atoms twice.
    by : {"frame", "residue"}
        One fraction a frame, or one for each residue that has native contacts, of those.
    minimum_image : bool
        Distances of the nearest images. Without a cell both are the same.

    After `run`
    -----------
    results.timeseries : (frames, 1 + columns) float64
        Frame number, and q of each reference, or of each residue.
    results.q : (frames, columns) float64
    results.values : the same
    results.frames, results.time : (frames,)

    Attributes
    ----------
    native : list of NativeContacts
        `pairs` (n, 2), atoms from 0, and `distances` (n,) in angstrom, of each reference.
    r0 : list of (n,) float64
        The distances alone.
    n_initial_contacts : int
        Number of native contacts of the first reference.

    Raises
    ------
    ArgumentError if a reference has no native contact.

    Examples
    --------
    >>> contacts = kn.analysis.Contacts(traj, "name CA", method="soft_cut", radius=8.0, min_separation=4).run(step=50)
    >>> contacts.results.timeseries.shape  # frame, q
    (4, 2)
    """

    command_name = "native-contacts"
    summary = "Fraction of the native contacts of a reference that each frame has."
    quantities = (Quantity("q", "1", "fraction of native contacts", "one for each reference, or residue"),)
    reference = "R. B. Best, G. Hummer, W. A. Eaton, PNAS 110, 17874 (2013); MDAnalysis.analysis.contacts.Contacts"
    summarised_column = None

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice | tuple[AtomChoice, AtomChoice] = None,
        refgroup: Any = None,
        method: Annotated[Any, Option("--method", "How a contact is counted.", choices=METHODS)] = "hard_cut",
        radius: Annotated[
            float,
            Option("--radius", "Largest distance of a contact in the reference.", unit="angstrom", least=0),
        ] = 4.5,
        pbc: bool = True,
        kwargs: Mapping[str, Any] | None = None,
        other: Annotated[
            Any, Option("--other", "Second group: contacts are with the atoms of --select.", takes="atoms")
        ] = None,
        reference: Annotated[
            Any, Option("--reference", "Structure file with the native contacts, instead of a frame.", takes="file")
        ] = None,
        ref_frame: Annotated[
            int, Option("--ref-frame", "Frame with the native contacts; 0 by default.", show_default=False)
        ] = 0,
        match: Match = "masses",
        beta: Annotated[float, Option("--beta", "Softness of soft_cut, per angstrom.", least=0)] = 5.0,
        lambda_constant: Annotated[
            float, Option("--lambda-constant", "Factor of the distance at which soft_cut counts half.", least=0)
        ] = 1.8,
        min_separation: Annotated[
            int, Option("--min-separation", "Least distance in a chain, in residues, of the two atoms.", least=0)
        ] = 0,
        count_self: Annotated[
            bool, Option("--count-self", "Count an atom with itself, and pairs within a group twice, as MDAnalysis.")
        ] = False,
        by: Annotated[str, Option("--by", "One fraction a frame, or one for each residue.", choices=BY)] = "frame",
        minimum_image: MinimumImage = True,
    ) -> None:
        first, second = _two_groups(trajectory, select, other)
        self._method = _Method.from_arguments(method, radius, beta, lambda_constant, kwargs)
        check_choice("by", by, BY)
        if isinstance(min_separation, bool) or not hasattr(min_separation, "__index__") or min_separation < 0:
            raise ArgumentError(f"min_separation is a whole number from 0 on, found {min_separation!r}")
        self._groups = (first, second)
        self._minimum_image = bool(minimum_image) and bool(pbc)
        self._count_self, self._min_separation, self._by = bool(count_self), int(min_separation), by
        super().__init__(
            trajectory,
            first,
            other=second,
            refgroup=refgroup,
            reference=reference,
            ref_frame=ref_frame,
            method=self._method.name,
            radius=radius,
            kwargs=", ".join(f"{name}={_shown(value)}" for name, value in self._method.kwargs.items()) or None,
            min_separation=min_separation,
            count_self=count_self,
            by=by,
            minimum_image=self._minimum_image,
        )
        with self._noting():
            self._references = _references(trajectory, refgroup, reference, ref_frame, match)
            self.native = [self._native(*pair) for pair in self._references]
        if self._method.method == "hard_cut":
            self._add_notes([_HARD_NOTE])
        self._columns_and_contacts = self._divided()

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        super().check_arguments(given, followed=followed)
        if given.get("method") != "soft_cut":
            named = next((name for name in _SOFT if name in given), None)
            if named is not None:
                raise ArgumentError(f"{named}= is of method='soft_cut', found {given.get('method', 'hard_cut')!r}")
        for name in ("radius", *_SOFT):
            positive_number(name, given.get(name, 1.0))

    @property
    def selections(self) -> Sequence[Selection]:
        """The two groups."""
        return self._groups

    @property
    def other_files(self) -> tuple[str, ...]:
        files = [name for pair in self._references for one in pair for name in one.files]
        return tuple(dict.fromkeys((*super().other_files, *files)))

    @property
    def r0(self) -> list[NDArray[np.float64]]:
        """Distances of the native contacts in each reference."""
        return [one.distances for one in self.native]

    @property
    def n_initial_contacts(self) -> int:
        """Number of native contacts of the first reference."""
        return len(self.native[0].distances)

    @property
    def subject(self) -> str:
        numbers = " and ".join(f"{len(one.distances):,}" for one in self.native)
        return f"fraction of {numbers} native contact{'' if numbers == '1' else 's'}"

    @property
    def summarised_over(self) -> str | None:
        frames, columns = super().summarised_over, len(self._columns())
        if columns == 1:
            return frames
        return f"{counted(columns, 'residue' if self._by == 'residue' else 'reference')} and {frames}"

    def _native(self, *references: Reference) -> NativeContacts:
        """The native contacts of a reference, from which the positions of either group are read."""
        for reference, group in zip(references, self._groups, strict=True):
            reference.check(group, whole=not self._minimum_image)
        rows = [one.positions(group).astype(np.float32) for one, group in zip(references, self._groups, strict=True)]
        cell, periodic = references[0].cell() if self._minimum_image else (np.zeros((3, 3)), (False, False, False))
        places, _ = _core.near_pairs(rows[0], rows[1], cell, periodic, self._method.radius)
        # as the kernel computes them, so that in the reference itself all pairs are in contact
        first, second = (np.ascontiguousarray(rows[i][places[:, i]]) for i in (0, 1))
        distances = _core.pair_distances(first, second, cell, periodic)
        pairs = np.column_stack([group.indices[places[:, i]] for i, group in enumerate(self._groups)])
        kept = self._kept(pairs)
        if not len(kept):
            raise ArgumentError(
                f"the reference has no native contact within radius={self._method.radius:g} angstrom"
                + (f", at least {self._min_separation} residues apart" if self._min_separation else "")
                + "; give a larger radius, or other groups"
            )
        return NativeContacts(np.ascontiguousarray(pairs[kept]), distances[kept])

    def _kept(self, pairs: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Places of the pairs that count."""
        kept = np.arange(len(pairs))
        if not self._count_self and len(kept):
            kept = kept[pairs[:, 0] != pairs[:, 1]]
            ordered = np.sort(pairs[kept].astype(np.int64), axis=1)
            _, first = np.unique(ordered[:, 0] * self.trajectory.n_atoms + ordered[:, 1], return_index=True)
            kept = kept[np.sort(first)]
        if self._min_separation:
            from kinema.model.selection.chains import are_apart

            atoms = self.trajectory.atoms
            residues = atoms.resindices[pairs[kept]]
            kept = kept[are_apart(atoms, residues[:, 0], residues[:, 1], self._min_separation)]
        return kept

    def _divided(self) -> list[tuple[str, NativeContacts]]:
        """Names of the columns, and the contacts of each."""
        several = len(self.native) > 1
        names = [f"q{i}" if several else "q" for i in range(1, 1 + len(self.native))]
        if self._by == "frame":
            return list(zip(names, self.native, strict=True))
        from kinema.model.selection.residue_dihedrals import residue_labels

        atoms, found = self.trajectory.atoms, []
        for name, native in zip(names, self.native, strict=True):
            residues = atoms.resindices[native.pairs]
            present = np.unique(residues)
            for residue, label in zip(present, residue_labels(atoms, present), strict=True):
                of_it = (residues == residue).any(axis=1)
                column = NativeContacts(native.pairs[of_it], native.distances[of_it])
                found.append((f"{name} {label}" if several else label, column))
        return found

    def _kernel(self) -> _core.Kernel:
        contacts = [one for _, one in self._columns_and_contacts]
        if callable(self._method.method):
            return self._kernel_of_function(contacts, self._method.method)
        return _core.Kernel(
            "native_contacts",
            self.trajectory.n_atoms,
            pairs=np.concatenate([one.pairs for one in contacts]),
            distances=np.concatenate([one.distances for one in contacts]),
            ends=np.cumsum([len(one.distances) for one in contacts]).astype(np.uint32),
            minimum_image=self._minimum_image,
            method=self._method.method,
            **self._method.kwargs,
        )

    def _kernel_of_function(self, contacts: Sequence[NativeContacts], function: Callable[..., Any]) -> _core.Kernel:
        from kinema.analysis.custom import python_kernel
        from kinema.analysis.pairs.contact_function import FunctionOfContacts

        atoms = np.unique(np.concatenate([one.pairs for one in contacts]))
        placed = [(np.searchsorted(atoms, one.pairs), one.distances) for one in contacts]
        kernel = FunctionOfContacts(function, self._method.kwargs, placed, minimum_image=self._minimum_image)
        return python_kernel(self, kernel, atoms)

    def _columns(self) -> list[tuple[str, Quantity]]:
        return [(name, self.quantities[0]) for name, _ in self._columns_and_contacts]

    def _quantity_values(self, found: Results, kernel_results: KernelResults) -> dict[str, Any]:
        from kinema.execution.result_arrays import columns_of

        table = kernel_results.get("table")
        if table is None:
            series: Any = SideBySide((found.frames, found.values))
        else:
            # without the time
            series = columns_of(table, [0, *range(2, 2 + len(self._columns_and_contacts))])
        return super()._quantity_values(found, kernel_results) | {"timeseries": series}


class _Method(NamedTuple):
    """How contacts are counted: `radius` is that of the reference, `kwargs` are arguments of the kernel."""

    method: str | Callable[..., Any]
    radius: float
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        """The word, or the function's name."""
        return self.method if isinstance(self.method, str) else getattr(self.method, "__qualname__", repr(self.method))

    @classmethod
    def from_arguments(
        cls, method: Any, radius: float, beta: float, lambda_constant: float, kwargs: Mapping[str, Any] | None
    ) -> _Method:
        if callable(method):
            return cls(method, positive_number("radius", radius), dict(kwargs or {}))
        check_choice("method", method, METHODS)
        known, given = _KWARGS[method], dict(kwargs or {})
        unknown = next((name for name in given if name not in known), None)
        if unknown is not None:
            raise ArgumentError(f"kwargs of {method} are {', '.join(known) or 'none'}, found {unknown!r}")
        named = {"radius": radius, "beta": beta, "lambda_constant": lambda_constant} | given
        numbers = {name: positive_number(name, value) for name, value in named.items()}
        return cls(method, positive_number("radius", radius), {name: numbers[name] for name in known})


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else repr(value)


def _two_groups(trajectory: Trajectory, select: Any, other: AtomChoice) -> tuple[Selection, Selection]:
    """The groups whose atoms are in contact; the same group twice for contacts within it."""
    from kinema.transforms.arguments import select_atoms

    is_pair = isinstance(select, (tuple, list)) and len(select) == 2 and not all(isinstance(i, int) for i in select)
    if is_pair and other is not None:
        raise ArgumentError("select is a pair of groups already; leave out other=")
    first, second = select if is_pair else (select, select if other is None else other)
    groups = select_atoms(trajectory, first, may_change=True), select_atoms(trajectory, second, may_change=True)
    for group in groups:
        if group.changes:
            raise ArgumentError(
                f"the atoms of {group.description!r} change with the frame, but native contacts are pairs of the "
                "reference, whose distances are compared in all frames; Neighbors (kinema neighbors) counts the pairs "
                "of groups that change, and select(..., frame=0) of the trajectory takes the atoms of one frame"
            )
        group.check_unique()
    return groups


def _references(
    trajectory: Trajectory, refgroup: Any, reference: Any, ref_frame: int, match: str
) -> list[tuple[Reference, Reference]]:
    """For each reference where the positions of the two groups come from."""
    from kinema.transforms.reference import Reference

    if refgroup is None:
        one = Reference(trajectory, ref_frame, reference, match)
        return [(one, one)]
    if reference is not None or ref_frame != 0:
        raise ArgumentError("refgroup= excludes reference= and ref_frame=; give one of them")
    pairs = [refgroup] if isinstance(refgroup, tuple) else list(refgroup)
    if not pairs or any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in pairs):
        raise ArgumentError("refgroup is a pair of AtomGroups or arrays, or a list of such pairs")
    return [tuple(_of_group(trajectory, one, match) for one in pair) for pair in pairs]  # type: ignore[misc]


def _of_group(trajectory: Trajectory, group: Any, match: str) -> Reference:
    """A group where its Universe is."""
    from kinema.model.topology import is_atom_group
    from kinema.transforms.reference import Reference

    if is_atom_group(group):
        return Reference(trajectory, group.universe.trajectory.frame, group, match)
    if not isinstance(group, np.ndarray):
        raise ArgumentError(f"refgroup takes AtomGroups or arrays, found {type(group).__name__}; see reference=")
    return Reference(trajectory, 0, group, match)
