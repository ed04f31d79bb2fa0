"""`cluster`: keeps molecules together, such as the two halves of a dimer, or a ligand and its protein."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.model.selection.atoms import AtomChoice
from kinema.trajectory.bonds import is_of_any_atoms
from kinema.trajectory.transform import Transform, names_by_words, words_of
from kinema.transforms.arguments import describe
from kinema.transforms.periodic.order import check_order
from kinema.transforms.periodic.wrapping import NO_GROUP, check_labels_unwrapped, labels_of, masses_of

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory


class Cluster(Transform):
    """See `cluster`."""

    name: ClassVar[str] = "cluster"

    def __init__(self, select: AtomChoice, anchor: AtomChoice, bonds: Any) -> None:
        self._select, self._anchor, self._bonds = select, anchor, bonds

    @property
    def arguments(self) -> Mapping[str, str]:
        arguments = {"select": describe(self._select)}
        if self._anchor is not None:
            arguments |= {"anchor": describe(self._anchor)}
        return arguments if self._bonds is None else arguments | {"bonds": describe(self._bonds)}

    def for_other_atoms(self, bound: _core.Transform) -> Cluster | None:
        """See `Transform`: the structure's own molecules are used."""
        if not names_by_words(self._select, self._anchor) or not is_of_any_atoms(self._bonds):
            return None
        return Cluster(words_of(self._select), words_of(self._anchor), self._bonds)

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        check_order(self.name, trajectory)
        labels = labels_of(trajectory, "molecules", self._bonds)
        chosen = labels[trajectory.select(self._select).indices]
        members, sizes = np.unique(labels[np.isin(labels, chosen)], return_counts=True)
        if self._anchor is None:
            anchor = int(members[np.argmax(sizes)])
        else:
            anchor = int(trajectory.select(self._anchor).indices[0])
            if labels[anchor] not in members:
                raise ArgumentError(f"the anchor {describe(self._anchor)} is none of the molecules that stay together")
        labels = np.where(np.isin(labels, members), labels, NO_GROUP).astype(np.uint32)
        check_labels_unwrapped(self.name, trajectory, labels)
        return _core.Transform(
            self.name,
            trajectory.n_atoms,
            label=self.label,
            labels=labels,
            masses=masses_of(trajectory),
            anchor=anchor,
        )


def cluster(select: AtomChoice, *, anchor: AtomChoice = None, bonds: Any = None) -> Cluster:
    """Keeps molecules together: moves each to the image nearest to the molecules that are in place.

    The anchor stays. Then, one by one, the molecule whose centre of mass is nearest to one in place is moved, until all
    are in place.

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms whose molecules stay together. Apply `whole` first.
    anchor : as `Trajectory.select`
        The molecule of the first of these atoms stays; by default the largest.
    bonds : as in `whole`

    Returns
    -------
    Cluster
        For `Trajectory.with_transform`.
    """
    return Cluster(select, anchor, bonds)
