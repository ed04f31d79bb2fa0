"""Secondary structure of proteins per frame, by the hydrogen bonds of the backbone.

    E = 0.42 * 0.20 * 332 (1/r_ON + 1/r_CH - 1/r_OH - 1/r_CN) kcal/mol,   a bond if E < -0.5

States: H alpha helix, B bridge, E strand, G 3-10 helix, I pi helix, T turn, S bend, blank. Helices are two turns in a
row; bridges that lie beside each other make strands. Distances are of nearest images. Source: W. Kabsch, C. Sander,
Biopolymers 22, 2577 (1983); as the program DSSP of version 2.2, pi helices come before alpha helices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis
from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.runners.base import Rows
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.analysis.base import KernelResults, Results
    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["DSSP"]

HYDROGENS = ("placed", "file")
PI_HELICES = ("first", "1983")
BY = ("frame", "residue")
_STATES = {
    "H": "alpha helix",
    "B": "bridge",
    "E": "strand",
    "G": "3-10 helix",
    "I": "pi helix",
    "T": "turn",
    "S": "bend",
    " ": "none",
}
_SIMPLE_STATES = {"H": "helix", "E": "strand", "C": "coil"}
# a blank in text, where it would be lost
_BLANK = "-"


class DSSP(PerFrameAnalysis):
    """Secondary structure of residues over time.

    Parameters
    ----------
    trajectory : Trajectory
        With a topology that has names and residues.
    select : as `Trajectory.select`
        Residues that have an atom in this selection; None: all. Residues without N, CA and C have no state. Hydrogen
        bonds are those within the selection.
    hydrogens : {"placed", "file"}
        "placed": the hydrogen of N is placed 1 angstrom from it, opposite to the C=O before it; "file": atoms H or HN
        of the file. The first residue of a chain and proline have none.
    pi : {"first", "1983"}
        If a helix may be of both kinds: "first" takes pi (I), as DSSP from version 2.2 on; "1983" takes alpha (H).
    simplified : bool
        Three states: H for H, G and I; E for E and B; C for all others.
    by : {"frame", "residue"}
        Rows of the table: shares of the states in each frame, or of each residue in all frames.

    After `run`
    -----------
    results.dssp : (frames, residues) bytes of one letter, b"H"
        Blank is b" ".
    results.values : (frames, residues) uint8, the same as numbers
    results.frames, results.time : (frames,)

    Attributes
    ----------
    residues : (residues,) int64
        As `Atoms.resindices`.
    labels : list of str
        "LEU12" of each residue.

    Raises
    ------
    ArgumentError if no residue has N, CA and C; for a residue without O; with hydrogens="file" if no residue has one.

    Examples
    --------
    >>> dssp = kn.analysis.DSSP(traj, select="resid 12-17").run()
    >>> dssp.results.dssp.shape
    (196, 6)
    """

    command_name = "dssp"
    summary = "Secondary structure of proteins (DSSP), for each frame and residue."
    quantities = (Quantity("dssp", "1", "secondary structure", "one letter for each residue"),)
    reference = "Kabsch and Sander, Biopolymers 22, 2577 (1983); mdtraj.compute_dssp"
    summarised_column = None
    _minimum_image = True

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        hydrogens: Annotated[
            str, Option("--hydrogens", "Where the hydrogen of N is: placed, or as in the file.", choices=HYDROGENS)
        ] = "placed",
        pi: Annotated[
            str, Option("--pi", "Pi helices come first, or after alpha helices (1983).", choices=PI_HELICES)
        ] = "first",
        simplified: Annotated[bool, Option("--simplified", "Three states: H, E and C.")] = False,
        by: Annotated[
            str, Option("--by", "Rows of the table: shares of each frame, or of each residue.", choices=BY)
        ] = "frame",
    ) -> None:
        from kinema.model.selection.backbone import backbone_of
        from kinema.model.selection.residue_dihedrals import residue_labels

        check_choice("hydrogens", hydrogens, HYDROGENS)
        check_choice("pi", pi, PI_HELICES)
        check_choice("by", by, BY)
        super().__init__(trajectory, select, hydrogens=hydrogens, pi=pi, simplified=simplified)
        atoms = trajectory.atoms
        found = backbone_of(atoms, self.selection.indices)
        self.residues = found.residues
        self.labels = residue_labels(atoms, found.residues)
        self._atoms = found.atoms.astype(np.uint32)
        self._placed = hydrogens == "placed"
        without = found.is_proline if self._placed else found.atoms[:, 4] == found.atoms[:, 0]
        if not self._placed and without.all():
            raise ArgumentError(f"{atoms.name}: no residue has an atom H or HN; hydrogens='placed' places them")
        self._no_donors = np.flatnonzero(without).astype(np.uint32)
        self._pi, self._simplified, self._by = pi, bool(simplified), by

    @property
    def subject(self) -> str:
        return f"{self.quantities[0].description} of {counted(len(self.residues), 'residue')}"

    @property
    def summarised_over(self) -> str | None:
        return None

    @property
    def states(self) -> dict[str, str]:
        """Letters and names of the states."""
        return _SIMPLE_STATES if self._simplified else _STATES

    def _kernel(self) -> _core.Kernel:
        return _core.Kernel(
            "dssp",
            self.trajectory.n_atoms,
            residues=self._atoms,
            no_donors=self._no_donors,
            place_hydrogens=self._placed,
            pi=self._pi,
            simplified=self._simplified,
        )

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        return [(label, self.quantities[0]) for label in self.labels]

    def _rows(self) -> Rows:
        return Rows(len(self.residues), "uint8")

    def _quantity_values(self, found: Results, kernel_results: KernelResults) -> dict[str, Any]:
        from kinema.execution.result_arrays import letters_of

        return {"dssp": letters_of(found.values)}

    def shares(self, by: str = "frame") -> NDArray[np.float64]:
        """(frames, states) or, by "residue", (residues, states): shares of the states, in the order of `states`."""
        check_choice("by", by, BY)
        values = self.results.values
        n_frames, n_residues = values.shape
        counts = np.zeros((len(self.states), n_frames if by == "frame" else n_residues))
        start = 0
        for rows in values.chunks() if hasattr(values, "chunks") else [np.asarray(values)]:
            for state, letter in enumerate(self.states):
                here = rows == ord(letter)
                if by == "frame":
                    counts[state, start : start + len(rows)] = here.sum(axis=1)
                else:
                    counts[state] += here.sum(axis=0)
            start += len(rows)
        shares: NDArray[np.float64] = counts.T / (n_residues if by == "frame" else n_frames)
        return shares

    def _table(self) -> Table:
        shares = self.shares(self._by).T
        columns = [
            Column(f"{letter.replace(' ', _BLANK)} {name}", share, "1", digits=7)
            for (letter, name), share in zip(self.states.items(), shares, strict=True)
        ]
        if self._by == "residue":
            numbers = Column("residue", np.arange(1, 1 + len(self.residues)))
            return Table(self._title, (numbers, Column("name", np.array(self.labels)), *columns), "residue", "name")
        width = len(self.residues)
        texts = np.ascontiguousarray(self.results.values).view(f"S{width}")[:, 0].astype(f"U{width}")
        states = Column("dssp", np.char.replace(np.char.ljust(texts, width), " ", _BLANK))
        return Table(self._title, (*self._frames_and_times(), states, *columns))

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_shares, draw_states

        if self._by == "residue":
            return draw_shares(table.columns[0], table.columns[-len(self.states) :], self._title)
        codes = np.asarray(self.results.values)
        x = next(column for column in table.columns if column.name == "time")
        names = {ord(letter): f"{letter.replace(' ', _BLANK)} {name}" for letter, name in self.states.items()}
        return draw_states(x, codes.T, self.labels, names, self._title)
