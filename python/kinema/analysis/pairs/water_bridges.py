"""Water bridges of each frame: chains of hydrogen bonds from one group through waters to another.

    group 1 - water - group 2,   group 1 - water - water - group 2,   ...   up to `order` waters

Each hydrogen bond has H-A <= 3.0 angstrom and D-H-A >= 120 degrees, or meets a criterion of `hbonds`; donor and
acceptor may be on either side. No water occurs twice in a bridge, no bridge leads from an atom to itself, and each
sequence of hydrogen bonds counts once. Nearest images in the frame's cell; donors and acceptors are those of `hbonds`.
Source: MDAnalysis' `WaterBridgeAnalysis`, which takes atoms by CHARMM's names and by default no images.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.lists import RowKey
from kinema.analysis.pairs.bonding import (
    AcceptorsSelect,
    BondAnalysis,
    DonorHydrogenCutoff,
    DonorsSelect,
    HydrogensSelect,
    Sulfur,
    atom_arguments,
    bonding_atoms_of,
    criterion_arguments,
    only_among,
)
from kinema.base.choices import DISTANCE_TYPE, HYDROGEN_BOND_CRITERION, check_choice, positive_number, whole_number
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.base.printable import counted
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinema.model.selection.atoms import Selection
    from kinema.trajectory import Trajectory

__all__ = ["WaterBridgeAnalysis"]


class WaterBridgeAnalysis(BondAnalysis):
    """Water bridges over time; a row is a hydrogen bond of a bridge.

    Parameters
    ----------
    trajectory : Trajectory
    selection1, selection2 : as `Trajectory.select`
        The groups that bridges join, "protein" and "not water" by default. Bridges do not end
        at atoms that can be of `water_selection`. The atoms of either group may change with the frame.
    water_selection : as `Trajectory.select`
        Waters, a residue each; "water" by default. Any residues that form hydrogen bonds will do. The atoms
        may change with the frame; `byres` takes waters as a whole.
    order : int
        The most waters of a bridge. The time rises steeply with it.
    distance_type : {"hydrogen", "heavy"}
        Whether the limit is of H-A or of D-A, without a `criterion`.
    distance : float, angstrom
        That limit, by default 3.0; with a `criterion` the distance of it.
    angle : float, degrees
        Least D-H-A, by default 120; with a `criterion` the angle of it.
    criterion : {"distance-angle", "gromacs", "baker-hubbard", "wernet-nilsson"}, optional
        As in `HydrogenBondAnalysis`.
    donors_sel, hydrogens_sel, acceptors_sel, d_h_cutoff, sulfur : as in `HydrogenBondAnalysis`

    After `run`
    -----------
    results.bridge : (n,) uint32
        The bridge that the bond belongs to, counted from 0 in the frame; bridges of fewer waters come first, and the
        bonds of each go from selection1 to selection2.
    results.waters : (n,) uint32
        How many waters the bridge has; it has one bond more.
    results.start : (n,) uint32
        The donor or the acceptor, whichever is on the side of selection1.
    results.donor, results.hydrogen, results.acceptor : (n,) uint32
        Atoms from 0.
    results.distance : (n,) float64, angstrom
        H-A or D-A, as the criterion limits it.
    results.angle : (n,) float64, degrees, D-H-A
    results.counts : (frames,)
        Number of rows of each frame; `count_by_time` counts bridges.
    results.frames, results.time : (frames,)

    Examples
    --------
    >>> rest = "protein and not resname SER"
    >>> bridges = kn.analysis.WaterBridgeAnalysis(traj, rest, rest, water_selection="resname SER").run(stop=3)
    >>> bridges.count_by_time()  # serines take the part of waters here
    array([18, 12,  6])
    """

    command_name = "water-bridges"
    summary = "Chains of hydrogen bonds through waters, for each frame."
    quantities = (
        Quantity("distance", "angstrom", "distance of the acceptor"),
        Quantity("angle", "degree", "angle at the hydrogen"),
    )
    row_name = "hydrogen bond of water bridge"
    takes_changing = True
    keys = (
        RowKey("bridge", "number"),
        RowKey("waters", "number"),
        RowKey("start", by_residue=False),
        RowKey("donor"),
        RowKey("hydrogen", by_residue=False),
        RowKey("acceptor"),
    )
    reference = "MDAnalysis.analysis.hydrogenbonds.WaterBridgeAnalysis"

    def __init__(
        self,
        trajectory: Trajectory,
        selection1: Annotated[Any, Option("--selection1", "One group that bridges join.", takes="atoms")] = "protein",
        selection2: Annotated[Any, Option("--selection2", "The other group.", takes="atoms")] = "not water",
        water_selection: Annotated[
            Any, Option("--water-selection", "Waters, a residue each.", takes="atoms")
        ] = "water",
        order: Annotated[int, Option("--order", "The most waters of a bridge.", least=1, most=20)] = 1,
        distance_type: Annotated[
            str,
            Option("--distance-type", "The atom that is within --distance of the acceptor.", choices=DISTANCE_TYPE),
        ] = "hydrogen",
        distance: Annotated[
            float | None,
            Option(
                "--distance",
                "Greatest distance of the acceptor; by default 3.0, or that of --criterion.",
                takes="number",
                unit="angstrom",
                least=0,
            ),
        ] = None,
        angle: Annotated[
            float | None,
            Option(
                "--angle",
                "Least angle at the hydrogen; by default 120, or that of --criterion.",
                takes="number",
                unit="degree",
                least=0,
                most=180,
            ),
        ] = None,
        criterion: Annotated[
            str | None,
            Option("--criterion", "Instead: a criterion of hbonds.", choices=("none", *HYDROGEN_BOND_CRITERION)),
        ] = None,
        donors_sel: DonorsSelect = None,
        hydrogens_sel: HydrogensSelect = None,
        acceptors_sel: AcceptorsSelect = None,
        d_h_cutoff: DonorHydrogenCutoff = 1.2,
        sulfur: Sulfur = False,
    ) -> None:
        select_atoms(trajectory, None)
        limits = _limits(distance_type, distance, angle, criterion)
        d_h_cutoff = positive_number("d_h_cutoff", d_h_cutoff)
        order = whole_number("order", order)
        chosen = (selection1, selection2, water_selection)
        groups = [select_atoms(trajectory, one, may_change=True) for one in chosen]
        self._changing = [one for one in groups if one.changes]
        with collected() as notes:
            atoms = bonding_atoms_of(trajectory, donors_sel, hydrogens_sel, acceptors_sel, sulfur=sulfur)
        atoms = only_among(atoms, groups, "selection1=, selection2= and water_selection=")
        first, second, waters = (one.indices for one in groups)
        super().__init__(
            trajectory,
            np.unique(np.concatenate([first, second, waters])),
            selection1=groups[0],
            selection2=groups[1],
            water_selection=groups[2],
            order=order,
            distance_type=distance_type,
            distance=limits["distance"],
            angle=limits["angle"],
            criterion=criterion,
            donors_sel=donors_sel,
            hydrogens_sel=hydrogens_sel,
            acceptors_sel=acceptors_sel,
            d_h_cutoff=d_h_cutoff,
            sulfur=sulfur,
        )
        self._add_notes(notes)
        for name, group in (("selection1", first), ("selection2", second)):
            if np.isin(group, waters).all():
                raise ArgumentError(f"{name} has no atom besides atoms of water_selection; bridges need an end in it")
        waters = np.unique(waters)
        self._arguments = limits | atom_arguments(atoms, d_h_cutoff)
        ends = {"first": groups[0].expression or first, "second": groups[1].expression or second}
        self._arguments |= ends | {"order": order}
        self._arguments |= {"waters": waters, "molecules": _residues(trajectory, waters)}
        if groups[2].changes:
            self._arguments["waters_group"] = groups[2].expression

    @property
    def selections(self) -> Sequence[Selection]:
        """The atoms that can take part, and the groups that change with the frame."""
        return (self.selection, *self._changing)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        names = ("distance_type", "distance", "angle", "criterion")
        _limits(*(given.get(name, "hydrogen" if name == "distance_type" else None) for name in names))
        super().check_arguments(given, followed=followed)

    def _kernel(self) -> _core.Kernel:
        return _core.Kernel("water_bridges", self.trajectory.n_atoms, **self._arguments)

    # -- bridges ---------------------------------------------------------------------------------------------------

    def bridges(self) -> list[list[tuple[int, ...]]]:
        """The atoms of each bridge, for each frame: an atom of selection1, one of each water, an atom of selection2.

        An atom is the donor or the acceptor of a bond; of a water it is that of the bond towards selection2. Raises
        ArgumentError before `run`.
        """
        frames, firsts = self._firsts()
        starts, donors, acceptors = (np.asarray(self.results[name]) for name in ("start", "donor", "acceptor"))
        ends = np.where(starts == donors, acceptors, donors)
        found: list[list[tuple[int, ...]]] = [[] for _ in self.results.counts]
        for frame, first, last in zip(frames.tolist(), firsts[:-1].tolist(), firsts[1:].tolist(), strict=True):
            found[frame].append((*starts[first:last].tolist(), int(ends[last - 1])))
        return found

    def network(self) -> list[dict[tuple[Any, ...], Any]]:
        """Bridges of each frame as nested mappings, in the form of MDAnalysis' `results.network`.

        A key is a hydrogen bond (from, its donor, to, its donor, distance, angle), atoms from 0: "from" lies on the
        side of selection1. A hydrogen comes with its donor, an acceptor with None. The value has the bonds that follow,
        or is None at selection2. MDAnalysis' mapping also has bonds of selection1 and selection2 without a water.
        Raises ArgumentError before `run`.
        """
        frames, firsts = self._firsts()
        names = ("start", "donor", "hydrogen", "acceptor", "distance", "angle")
        rows = list(zip(*(np.asarray(self.results[name]).tolist() for name in names), strict=True))
        found: list[dict[tuple[Any, ...], Any]] = [{} for _ in self.results.counts]
        for frame, first, last in zip(frames.tolist(), firsts[:-1].tolist(), firsts[1:].tolist(), strict=True):
            level = found[frame]
            for row in range(first, last):
                start, donor, hydrogen, acceptor, *measured = rows[row]
                given, taken = (hydrogen, donor), (acceptor, None)
                key = (*given, *taken, *measured) if start == donor else (*taken, *given, *measured)
                level = level.setdefault(key, None if row == last - 1 else {})
        return found

    def count_by_time(self) -> NDArray[np.int64]:
        """(frames,) number of bridges in each frame. Raises ArgumentError before `run`."""
        frames, _ = self._firsts()
        return np.bincount(frames, minlength=len(self.results.counts))

    def count_by_type(self) -> list[tuple[int, int, str, int, str, str, int, str, float]]:
        """For each pair of ends: both atoms from 0; residue name, residue and name of each; share of frames.

        The most frequent come first. Raises ArgumentError before `run`.
        """
        counts = Counter(ends for bridges in self.bridges() for ends in {(bridge[0], bridge[-1]) for bridge in bridges})
        atoms = self.trajectory.atoms
        resnames, resids, names = atoms.resnames, atoms.resids, atoms.names

        def described(atom: int) -> tuple[str, int, str]:
            return str(resnames[atom]), int(resids[atom]), str(names[atom])

        n_frames = len(self.results.frames)
        order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        return [(first, last, *described(first), *described(last), count / n_frames) for (first, last), count in order]

    def _firsts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(bridges,) frame of each bridge, counted from 0 in the results; (bridges + 1,) row at which each begins."""
        counts, bridges = self._result("counts"), self._result("bridge")
        frames = np.repeat(np.arange(len(counts)), counts)
        key = np.column_stack([frames, bridges])
        firsts = np.flatnonzero(np.any(np.diff(key, axis=0, prepend=-1), axis=1))
        return frames[firsts], np.append(firsts, len(bridges))


def _limits(distance_type: str, distance: float | None, angle: float | None, criterion: str | None) -> dict[str, Any]:
    check_choice("distance_type", distance_type, DISTANCE_TYPE)
    if criterion is not None:
        check_choice("criterion", criterion, HYDROGEN_BOND_CRITERION)
        if distance_type != "hydrogen":
            raise ArgumentError("distance_type= and criterion= exclude each other; give one of them")
    return criterion_arguments(criterion or distance_type, distance, angle, ("distance", "angle"))


def _residues(trajectory: Trajectory, atoms: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The residue of each atom. Raises ArgumentError if the topology has no residues, or one that is not a molecule."""
    topology = trajectory.topology
    residues = None if topology is None else topology.atoms.get("resindices")
    if residues is None:
        raise ArgumentError("water bridges need residues, one for each water: open the trajectory with topology=")
    found = residues[atoms].astype(np.uint32)
    largest = int(np.bincount(found).max())
    if largest > 100:
        raise ArgumentError(f"water_selection has a residue of {counted(largest, 'atom')}; each water is a residue")
    return found
