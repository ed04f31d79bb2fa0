"""The transforms that the words of `--pbc` and its companion options name, in their fixed order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.model.selection.atoms import Selection
from kinema.trajectory.bonds import GUESS, bonds_of, first_atoms
from kinema.trajectory.transform import Transform
from kinema.transforms.first_passes.base import FirstPass, checkpoint_beside
from kinema.transforms.first_passes.kinds import EdgeSums, JumpCounts, Rotations
from kinema.transforms.group_centers import centers
from kinema.transforms.periodic.centering import center
from kinema.transforms.periodic.clustering import cluster
from kinema.transforms.periodic.displacements import displacement
from kinema.transforms.periodic.unwrapping import nojump
from kinema.transforms.periodic.whole_molecules import whole
from kinema.transforms.periodic.wrapping import labels_of, wrap
from kinema.transforms.superposition import PREVIOUS, superpose

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

# the compounds that each word of a wrap puts into the cell
_WRAPS = {"mol": "molecules", "res": "residues", "atom": "atoms"}
# a value of --fit, beside the modes of `superpose`
PROGRESSIVE = "progressive"
WORDS = ("whole", "nojump", "displacement", "cluster", *_WRAPS)


@dataclass(frozen=True)
class Asked:
    """The options of the command line.

    `pbc`: words of `WORDS`, separated by commas; words that wrap residues or molecules, or keep molecules together,
        make molecules whole first.
    `nojump_count`: as `count` of `nojump`.
    `nojump_reference`: "first" or the name of a structure.
    `ur`, `bonds`, `centers`: as in `wrap`, `whole`, and `of` in `centers`.
    `fit`: as `mode` of `superpose`, or "progressive".
    `cluster_group`, `center_group`, `fit_group`: selections, or names of groups.
    `fit_reference`: file of the structure to superpose on; without it, the first frame.
    """

    pbc: str | None = None
    ur: str | None = None
    bonds: str | None = None
    cluster_group: str | None = None
    center: bool = False
    center_group: str | None = None
    fit: str | None = None
    fit_group: str | None = None
    fit_reference: str | None = None
    centers: str | None = None
    nojump_count: str | None = None
    nojump_reference: str | None = None

    @property
    def words(self) -> frozenset[str]:
        """The words of `pbc`. Raises ArgumentError for unknown words, and for two that wrap."""
        words = [] if self.pbc is None else [word.strip() for word in self.pbc.split(",")]
        for word in words:
            if word not in WORDS:
                raise ArgumentError(f"--pbc takes {', '.join(WORDS)}, with commas between, found {word!r}")
        wraps = [word for word in words if word in _WRAPS]
        if len(wraps) > 1:
            raise ArgumentError(f"--pbc puts one of {', '.join(_WRAPS)} into the cell, found {' and '.join(wraps)}")
        return frozenset(words)

    def check(self) -> None:
        """Raises ArgumentError for unknown words, and for options without the option that they belong to."""
        wraps = self.words & _WRAPS.keys()
        if self.ur is not None and not wraps:
            raise ArgumentError("--ur is the shape of the cell that --pbc mol, res or atom fills; add one of these")
        of_molecules = self.words & {"whole", "mol", "res", "cluster"} or self.centers in ("molecules", "fragments")
        if self.bonds is not None and not of_molecules:
            raise ArgumentError(
                "--bonds says which atoms are a molecule, for --pbc whole, cluster, mol or res, and --centers "
                "molecules; add one of these"
            )
        if ("cluster" in self.words) != (self.cluster_group is not None):
            raise ArgumentError("--pbc cluster keeps the molecules of --cluster-group together; give both")
        if {"nojump", "displacement"} <= self.words:
            raise ArgumentError("--pbc nojump and displacement are two schemes of unwrapping; leave one out")
        for name, value in (("count", self.nojump_count), ("reference", self.nojump_reference)):
            if value is not None and "nojump" not in self.words:
                raise ArgumentError(f"--nojump-{name} is of --pbc nojump; add it")
        if self.nojump_reference not in (None, "first") and "cluster" in self.words:
            raise ArgumentError(
                "--pbc nojump,cluster begins with the first frame, clustered, and --nojump-reference names another "
                "structure; leave one out"
            )
        if self.center_group is not None and not self.center:
            raise ArgumentError("--center-group is the group that --center moves; add --center")
        if self.fit_group is not None and self.fit is None:
            raise ArgumentError("--fit-group is the group that --fit superposes; add --fit")
        if self.fit_reference is not None and self.fit in (None, PROGRESSIVE):
            raise ArgumentError("--reference is the structure that --fit rot+trans or trans superposes on; add one")

    @property
    def needs_frames(self) -> bool:
        """Whether making the transforms reads frames."""
        reads_all = bool(self.words & {"nojump", "displacement"})
        return self.fit is not None or self.centers is not None or self.bonds == GUESS or reads_all

    def transforms(
        self,
        trajectory: Trajectory,
        selected: Selection | None,
        group: Callable[[str, str], Selection],
        of_passes: Mapping[str, Any],
    ) -> list[Transform]:
        """The transforms that the options ask for.

        `selected` are the atoms of the command, or None for all. `group` finds the atoms of an option, such as
        "--fit-group", from its text. `of_passes` are arguments for the runs of first passes, with the command's
        checkpoint, beside which the passes save.
        """
        clustered = None if self.cluster_group is None else group("--cluster-group", self.cluster_group)
        fitted: Selection | None = None
        if self.fit is not None:
            fitted = selected if self.fit_group is None else group("--fit-group", self.fit_group)
            fitted = fitted or self._largest(trajectory, "--fit-group")
        centered: Selection | None = None
        if self.center:
            centered = fitted if self.center_group is None else group("--center-group", self.center_group)
            centered = centered or self._largest(trajectory, "--center-group")
        made: list[Transform] = []
        if self.words & {"whole", "mol", "res", "cluster"}:
            made.append(whole(bonds=self.bonds))
        together = None if clustered is None else cluster(clustered, bonds=self.bonds)
        if self.words & {"nojump", "displacement"}:
            used = [one.indices for one in (selected, clustered, fitted, centered) if one is not None]
            tracked = None if selected is None else self._moved_as_one(trajectory, np.concatenate(used))
        if "displacement" in self.words:
            made.append(displacement(tracked, **_pass_options(EdgeSums, of_passes)))
        if "nojump" in self.words:
            # molecules that are together in the first frame stay together
            options = _pass_options(JumpCounts, of_passes)
            first = together if self.nojump_reference in (None, "first") else self.nojump_reference
            made.append(nojump(tracked, first=first, count=self.nojump_count or "all", **options))
        elif together is not None:
            made.append(together)
        if centered is not None:
            made.append(center(centered))
        for word in self.words & _WRAPS.keys():
            made.append(wrap(compound=_WRAPS[word], ur=self.ur or "rect", bonds=self.bonds))
        if fitted is not None:
            follows = self.fit == PROGRESSIVE
            mode = "rot+trans" if follows or self.fit is None else self.fit
            reference: dict[str, Any] = {"reference": self.fit_reference}
            if follows:
                reference = {"reference": PREVIOUS, **_pass_options(Rotations, of_passes)}
            made.append(superpose(fitted, mode=mode, **reference))
        if self.centers is not None:
            made.append(centers(self.centers, bonds=self.bonds))
        return made

    def _moved_as_one(self, trajectory: Trajectory, atoms: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The atoms, ascending, with all other atoms of residues or molecules that later move by their centres."""
        compounds = {_WRAPS[word] for word in self.words & _WRAPS.keys()}
        if "cluster" in self.words:
            compounds.add("molecules")
        for compound in sorted(compounds):
            labels = labels_of(trajectory, compound, self.bonds)
            atoms = np.flatnonzero(np.isin(labels, labels[atoms])).astype(np.uint32)
        return np.unique(atoms)

    def _largest(self, trajectory: Trajectory, option: str) -> Selection:
        found = largest_molecule(trajectory, self.bonds)
        emit([f"{option} is not given: it is the largest molecule, {found.description}"])
        return found


def _pass_options(made: type[FirstPass], options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for the run of a first pass, with a checkpoint of its own."""
    kept = options.get("checkpoint")
    return {**options, "checkpoint": None if kept is None else checkpoint_beside(kept, made)}


def largest_molecule(trajectory: Trajectory, bonds: Any = None) -> Selection:
    """The atoms of the molecule with the most atoms; the first of equal ones.

    Raises ArgumentError if bonds are neither stated nor guessed: residues are not molecules.
    """
    known = bonds_of(trajectory, bonds)
    if bonds is None and not known.known:
        raise ArgumentError(
            f"{trajectory.atoms.name}: which molecule is the largest is known of bonds, which this topology lacks; "
            "name a group of atoms, or take bonds='guess' or bonds=FILE"
        )
    first = first_atoms(trajectory.n_atoms, known.pairs)
    number = int(np.argmax(np.bincount(first)))
    atoms = np.flatnonzero(first == number).astype(np.uint32)
    return Selection(atoms, f"{len(atoms)} atoms from atom {number + 1} on")
