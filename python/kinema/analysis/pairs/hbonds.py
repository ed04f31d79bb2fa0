"""Hydrogen bonds D-H...A of each frame.

    criterion="distance-angle" :  1 < D-A <= 3.0,  D-H-A > 150         MDAnalysis; cpptraj has 3.0, 135
    criterion="gromacs"        :  D-A <= 3.5,      H-D-A <= 30         gmx hbond
    criterion="baker-hubbard"  :  H-A < 2.5,       D-H-A > 120
    criterion="wernet-nilsson" :  D-A < 3.3 - 0.00044 (H-D-A)^2

Angstrom and degrees; nearest images in the frame's cell. Hydrogens are guessed as MDAnalysis guesses them (0.9 < mass <
1.1 u, charge > 0.3), and acceptors (charge < -0.5), each with all atoms of the same residue name and name; donors are
what these hydrogens are bonded to. Sources: P. Smith, R. M. Ziolek, E. Gazzarrini, D. M. Owen, C. D. Lorenz,
Phys. Chem. Chem. Phys. 21, 9845 (2019); E. N. Baker, R. E. Hubbard, Prog. Biophys. Mol. Biol. 44, 97 (1984);
P. Wernet et al., Science 304, 995 (2004).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.lists import RowKey
from kinema.analysis.occupancy import distinct_rows, survival
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
from kinema.base.choices import HYDROGEN_BOND_CRITERION, check_choice, positive_number
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected, emit
from kinema.execution.computation import SideBySide
from kinema.storage.output_checks import check_not_input
from kinema.storage.tables import Column, Table, write_table
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinema.analysis.base import Passes, Results
    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["HydrogenBondAnalysis"]

# arguments of the kernel that find the hydrogens of donors in each frame
_NEAR = ("donors", "hydrogens", "d_h_cutoff")


class HydrogenBondAnalysis(BondAnalysis):
    """Hydrogen bonds over time.

    Parameters
    ----------
    trajectory : Trajectory
    donors_sel, hydrogens_sel, acceptors_sel : as `Trajectory.select`, or atoms that change with the frame
        None: guessed from masses and charges. Without charges N and O (and S with `sulfur`) are donors and acceptors.
    between : two groups as `donors_sel`, or a list of such pairs
        Bonds with the donor in one of the two and the acceptor in the other; None: all bonds. MDAnalysis takes the
        atoms that such a group has in the first frame; here the group changes.
    d_h_cutoff : float, angstrom
        Greatest distance of a hydrogen from its donor, with donors_sel or if the topology has no bonds.
    d_a_cutoff : float, angstrom
        Distance of the criterion, by default that of its source: D-A, with "baker-hubbard" H-A.
    d_h_a_angle_cutoff : float, degrees
        Angle of the criterion, by default that of its source: D-H-A, with "gromacs" H-D-A.
    update_selections : bool
        Look for the hydrogens that are near donors in each frame; False: in the first frame of the run alone, and all
        groups must have the same atoms in all frames.
    criterion : {"distance-angle", "gromacs", "baker-hubbard", "wernet-nilsson"}
    sulfur : bool
        S is a donor and an acceptor too, if these are by element.

    After `run`
    -----------
    results.hbonds : (n, 6) float64
        Frame, donor, hydrogen and acceptor from 0, D-A in angstrom, D-H-A in degrees, as MDAnalysis.
    results.donor, results.hydrogen, results.acceptor : (n,) uint32
    results.distance : (n,) float64, angstrom, D-A
    results.angle : (n,) float64, degrees, D-H-A
    results.counts : (frames,)
    results.frames, results.time : (frames,)

    Examples
    --------
    >>> hbonds = kn.analysis.HydrogenBondAnalysis(traj, between=["protein", "protein"]).run()
    >>> hbonds.results.hbonds.shape
    (21690, 6)
    """

    command_name = "hbonds"
    takes_changing = True
    has_lifetime = True
    summary = "Hydrogen bonds, for each frame."
    quantities = (
        Quantity("distance", "angstrom", "distance of donor and acceptor"),
        Quantity("angle", "degree", "angle at the hydrogen"),
    )
    row_name = "hydrogen bond"
    keys = (RowKey("donor"), RowKey("hydrogen", by_residue=False), RowKey("acceptor"))
    reference = "MDAnalysis.analysis.hydrogenbonds.HydrogenBondAnalysis; mdtraj.baker_hubbard, mdtraj.wernet_nilsson"

    def __init__(
        self,
        trajectory: Trajectory,
        donors_sel: DonorsSelect = None,
        hydrogens_sel: HydrogensSelect = None,
        acceptors_sel: AcceptorsSelect = None,
        between: Annotated[
            Any,
            Option(
                "--between",
                "Two groups, an option each: the donor is in one, the acceptor in the other; more pairs may follow.",
                takes="list of atoms",
            ),
        ] = None,
        d_h_cutoff: DonorHydrogenCutoff = 1.2,
        d_a_cutoff: Annotated[
            float | None,
            Option(
                "--d-a-cutoff",
                "Distance of donor and acceptor; by default that of the criterion.",
                takes="number",
                unit="angstrom",
                least=0,
            ),
        ] = None,
        d_h_a_angle_cutoff: Annotated[
            float | None,
            Option(
                "--d-h-a-angle-cutoff",
                "Angle at the hydrogen; by default that of the criterion.",
                takes="number",
                unit="degree",
                least=0,
                most=180,
            ),
        ] = None,
        update_selections: Annotated[
            bool,
            Option(
                "--update-selections/--no-update-selections",
                "Find the donors of hydrogens without known bonds in each frame, not in the first alone.",
            ),
        ] = True,
        criterion: Annotated[
            str, Option("--criterion", "Definition of a hydrogen bond.", choices=HYDROGEN_BOND_CRITERION)
        ] = "distance-angle",
        sulfur: Sulfur = False,
    ) -> None:
        select_atoms(trajectory, None)
        limits = _limits(criterion, d_a_cutoff, d_h_a_angle_cutoff)
        d_h_cutoff = positive_number("d_h_cutoff", d_h_cutoff)
        groups = _pairs_of_groups(trajectory, between)
        with collected() as notes:
            atoms = bonding_atoms_of(
                trajectory, donors_sel, hydrogens_sel, acceptors_sel, sulfur=sulfur, may_change=True
            )
        if groups:
            atoms = only_among(atoms, [one for pair in groups for one in pair], "between=")
        made = atom_arguments(atoms, d_h_cutoff)
        only = _changing(trajectory, donors_sel, hydrogens_sel, acceptors_sel)
        self._changing = [*only.values(), *(one for pair in groups for one in pair if one.changes)]
        if self._changing and not update_selections:
            raise ArgumentError(
                f"update_selections=False needs the same atoms in all frames, but the atoms of "
                f"{self._changing[0].description!r} change; select(..., frame=0) of the trajectory takes the atoms of "
                "one frame"
            )
        taking_part = np.unique(np.concatenate([one.ravel() for one in made.values() if isinstance(one, np.ndarray)]))
        super().__init__(
            trajectory,
            taking_part,
            donors_sel=donors_sel,
            hydrogens_sel=hydrogens_sel,
            acceptors_sel=acceptors_sel,
            between=[one for pair in groups for one in pair] or None,
            d_h_cutoff=d_h_cutoff,
            d_a_cutoff=limits["distance"],
            d_h_a_angle_cutoff=limits["angle"],
            update_selections=update_selections,
            criterion=criterion,
            sulfur=sulfur,
        )
        self._add_notes(notes)
        self._arguments = limits | made | {name: one.expression for name, one in only.items()}
        self._pairs_of_first = not update_selections and atoms.pairs is None
        #: pairs of donor and hydrogen in the first frame of the last run
        self._pairs: NDArray[np.uint32] | None = None
        if groups:
            self._arguments["between"] = [[one.expression or one.indices for one in pair] for pair in groups]

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        names = ("d_a_cutoff", "d_h_a_angle_cutoff")
        _limits(given.get("criterion", "distance-angle"), *(given.get(name) for name in names))
        super().check_arguments(given, followed=followed)

    @property
    def selections(self) -> Sequence[Selection]:
        """The atoms that can take part, and the groups that change with the frame."""
        return (self.selection, *self._changing)

    def _kernel(self) -> _core.Kernel:
        arguments = self._arguments
        if self._pairs is not None:
            arguments = {name: one for name, one in arguments.items() if name not in _NEAR} | {"pairs": self._pairs}
        return _core.Kernel("hbonds", self.trajectory.n_atoms, **arguments)

    def _passes(self, frames: FrameSelection) -> Passes:
        if self._pairs_of_first:
            near = [self._arguments[name] for name in _NEAR]
            first = _NearHydrogens(self.trajectory, *near).run(frames=frames.numbers()[:1], runner="serial").results
            if not len(first.donor):
                raise ArgumentError(f"no hydrogen is within {near[2]:g} angstrom of a donor in the first frame")
            self._pairs = np.column_stack([first.donor, first.acceptor])
        return (yield from super()._passes(frames))

    def _rows_of(self, found: Results) -> dict[str, Any]:
        columns = super()._rows_of(found)
        frames = np.repeat(np.asarray(found.frames), np.asarray(found.counts))
        return columns | {"hbonds": SideBySide((frames, *columns.values()))}

    # -- counts ----------------------------------------------------------------------------------------------------

    def count_by_time(self) -> NDArray[np.int64]:
        """(frames,) number of bonds in each frame."""
        return np.asarray(self._result("counts"))

    def count_by_type(self) -> NDArray[np.str_]:
        """(n, 3) text: residue name and type of the donor, "ALA:54", of the acceptor, and the number of bonds."""
        donors, acceptors = (self._types(self._result(name)) for name in ("donor", "acceptor"))
        pairs, counts = np.unique(np.column_stack([donors, acceptors]), axis=0, return_counts=True)
        return np.column_stack([pairs, counts.astype(np.str_)]) if len(counts) else np.zeros((0, 3), np.str_)

    def count_by_ids(self) -> NDArray[np.int64]:
        """(n, 4) ids of donor, hydrogen and acceptor as the topology has them, and in how many frames they are bonded.

        The most frequent come first.
        """
        atoms = np.column_stack([self._result(name) for name in ("donor", "hydrogen", "acceptor")])
        found, counts = np.unique(atoms.astype(np.int64), axis=0, return_counts=True)
        topology = self.trajectory.topology
        ids = None if topology is None else topology.atoms.get("ids")
        order = np.argsort(-counts, kind="stable")
        return np.column_stack([found if ids is None else ids[found], counts])[order]

    def lifetime(self, tau_max: int = 20, window_step: int = 1, intermittency: int = 0) -> NDArray[np.float64]:
        """How long bonds last: the share of the bonds of a frame that are there in each of the next tau frames.

        A bond is a pair of hydrogen and acceptor. MDAnalysis gives the same numbers.

        Parameters
        ----------
        tau_max : int
            Largest number of analysed frames between the first and the last.
        window_step : int
            Analysed frames between the first frames that are averaged over.
        intermittency : int
            A bond that is absent in at most this number of consecutive frames, and returns, counts as present there.

        Returns
        -------
        (2, tau_max + 1) float64
            tau from 0 on, in analysed frames, and the shares; nan if no frame with bonds is followed by tau frames.

        Raises
        ------
        ArgumentError
            Before `run`; for frames that are not equally spaced; for a tau_max that is not below their number.
        """
        given = {"tau_max": tau_max, "window_step": window_step, "intermittency": intermittency}
        for name, value in given.items():
            least = 0 if name == "intermittency" else 1
            if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
                raise ArgumentError(f"{name} is a whole number from {least} on, found {value!r}")
        hydrogens, acceptors = (self._result(name) for name in ("hydrogen", "acceptor"))
        frames = self._result("frames")
        if tau_max >= len(frames):
            raise ArgumentError(f"tau_max must be below the number of frames, {len(frames)}, found {tau_max}")
        steps = np.diff(frames)
        if (steps != steps[0]).any() or steps[0] < 1:
            raise ArgumentError("lifetimes need frames that are equally spaced and ascend")
        if steps[0] > 1:
            emit([f"frames are {steps[0]} apart: bonds that break in between and return count as unbroken"])
        pairs = np.sort(np.column_stack([hydrogens, acceptors]), axis=1)
        _, places = distinct_rows([pairs[:, 0], pairs[:, 1]])
        shares = survival(places, self._frame_of_rows(), len(frames), tau_max, window_step, intermittency)
        return np.stack([np.arange(tau_max + 1, dtype=np.float64), shares])

    def save_lifetime(
        self,
        path: str | os.PathLike[str],
        tau_max: int | None = None,
        window_step: int = 1,
        intermittency: int = 0,
        *,
        output_time_unit: str = "ps",
        overwrite: bool = False,
    ) -> None:
        """Writes the shares of `lifetime` as a table, with tau in frames and as time.

        Without tau_max it is 20, or one less than the number of frames if there are fewer. Other arguments and errors
        are those of `lifetime` and `save`.
        """
        times = np.asarray(self._result("time"))
        longest = min(20, len(times) - 1) if tau_max is None else tau_max
        tau, shares = self.lifetime(longest, window_step, intermittency)
        step = float(times[-1] - times[0]) / (len(times) - 1)
        columns = (
            Column("tau", tau.astype(np.int64)),
            Column("time", tau * step, "ps"),
            Column("share", shares, "1"),
        )
        table = Table("Hydrogen bonds that last for tau frames", columns, x="tau")
        check_not_input(path, *self.trajectory.paths, *self.other_files)
        write_table(path, table.change_units("angstrom", output_time_unit), self.provenance(), overwrite=overwrite)

    def _types(self, indices: NDArray[Any]) -> NDArray[np.str_]:
        """Residue name and type of atoms: "ALA:54"; without types the name."""
        topology = self.trajectory.topology
        if topology is None:
            raise ArgumentError("count_by_type needs residue names and types: open the trajectory with topology=")
        table = topology.atoms
        types = table.get("types")
        names = np.char.add(np.char.add(table.resnames, ":"), table.names if types is None else types)
        return np.asarray(names[indices])


class _NearHydrogens(HydrogenBondAnalysis):
    """Hydrogens (results.acceptor) within a distance of donors.

    Each donor is taken as a hydrogen of its own, so that the kernel lists what is near it at any angle.
    """

    def __init__(
        self, trajectory: Trajectory, donors: NDArray[np.uint32], hydrogens: NDArray[np.uint32], d_h_cutoff: float
    ) -> None:
        BondAnalysis.__init__(self, trajectory, np.union1d(donors, hydrogens))
        self._pairs_of_first, self._pairs, self._changing = False, None, []
        self._arguments = {"pairs": np.column_stack([donors, donors]), "acceptors": hydrogens}
        self._arguments |= {"criterion": "heavy", "distance": d_h_cutoff, "angle": 0.0}


def _limits(criterion: str, distance: float | None, angle: float | None) -> dict[str, Any]:
    check_choice("criterion", criterion, HYDROGEN_BOND_CRITERION)
    return criterion_arguments(criterion, distance, angle, ("d_a_cutoff", "d_h_a_angle_cutoff"))


def _changing(trajectory: Trajectory, *chosen: Any) -> dict[str, Selection]:
    """The selections of donors, hydrogens and acceptors that change with the frame, by the kernel's names."""
    names = ("donors_group", "hydrogens_group", "acceptors_group")
    given = {
        name: select_atoms(trajectory, one, may_change=True)
        for name, one in zip(names, chosen, strict=True)
        if one is not None
    }
    return {name: one for name, one in given.items() if one.changes}


def _pairs_of_groups(trajectory: Trajectory, between: Any) -> list[tuple[Selection, Selection]]:
    """The pairs of groups that `between` names: [a, b], [[a, b], [c, d]], or [a, b, c, d].

    Raises ArgumentError for anything else.
    """
    if between is None:
        return []
    if isinstance(between, str) or not hasattr(between, "__len__") or not len(between):
        raise ArgumentError(f"between is two groups, or a list of pairs of groups, found {between!r}")
    flat: Sequence[Any] = between
    if all(isinstance(one, (list, tuple)) and not isinstance(one[0], (int, np.integer)) for one in between if len(one)):
        if any(len(one) != 2 for one in between):
            raise ArgumentError(f"between is a list of pairs of groups, found one of {[len(one) for one in between]}")
        flat = [one for pair in between for one in pair]
    if len(flat) % 2:
        raise ArgumentError(f"between names groups in pairs, found {len(flat)}")
    groups = [select_atoms(trajectory, one, may_change=True) for one in flat]
    return list(zip(groups[::2], groups[1::2], strict=True))
