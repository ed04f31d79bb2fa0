"""Radial distribution functions of two groups of atoms, and coordination numbers.

    g(r_k) = c_k / (v_k sum_t N_t / V_t)

c_k: ordered pairs (i of the first group, j of the second) with a distance in bin k, over all frames t, of atoms or of
centres of residues or molecules; v_k: volume of the shell, `4/3 pi (r_(k+1)^3 - r_k^3)`; N_t: number of pairs that
could count; V_t: volume of the cell. The coordination number n(r) is the number of counts up to r for each atom of the
first group and frame. Source: D. Frenkel, B. Smit, Understanding Molecular Simulation (2002), section 4.4; names and
defaults are those of MDAnalysis' `InterRDF`.

It differs from MDAnalysis in four ways. An atom and itself do not count, there they do (`count_self`). All exclusions
are taken off N, there `exclusion_block` alone is. N/V is averaged, there V is (`volume="mean"`): the same in
a constant cell. Images beyond half of the cell count as well, there only the nearest (`images`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.density.cells import check_volume, check_volumes, first_cell
from kinema.analysis.density.pair_points import POINTS, PairPoints, check_rules
from kinema.analysis.density.shells import check_bins, check_range, first_shell, shell_volumes
from kinema.analysis.profile import ProfileAnalysis, block_bounds, standard_error
from kinema.base.choices import check_choice, whole_number
from kinema.base.errors import ArgumentError
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.storage.tables import Table
    from kinema.trajectory import Trajectory

__all__ = ["InterRDF"]

NORM = ("rdf", "density", "none")
SAME = ("none", "residue", "segment", "chain")
INTRA = ("all", "only", "none")
IMAGES = ("all", "minimum", "none")
BY = ("none", "name", "type", "element", "resname")
DIMENSIONS = ("xyz", "xy")
_GIVE_VOLUME = "give volume=, or norm='none'"


class InterRDF(ProfileAnalysis):
    """Radial distribution function of two groups, and coordination numbers.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        The first group (MDAnalysis: g1); None: all atoms.
    other : as `select`, optional
        The second group (g2); by default the first.
    nbins : int
        Number of bins.
    range : (float, float), angstrom
        Edges of the first and of the last bin. Bins are half open, the last one closed.
    norm : {"rdf", "density", "none"}
        "rdf": relative to pairs that are spread evenly; "density": counts for each frame and volume of the shell,
        angstrom^-3; "none": counts for each frame.
    exclusion_block : (int, int), optional
        (a, b): leave out pairs with i // a = j // b, where i and j are places in the two groups.
    exclude_same : {None, "residue", "segment", "chain"}
        Leave out pairs of atoms of one residue, segment or chain.
    intra : {"all", "only", "none"}
        Pairs within a molecule count, or only these, or none of them.
    exclude_bonds : int
        Leave out pairs that at most this number of bonds connects.
    by : {None, "name", "type", "element", "resname"}
        A column for each pair of names, types, elements or residue names, in one pass.
    compound : {"atoms", "residues", "segments", "molecules", "fragments"}
        Points that pairs are counted of: the atoms, or the centres of mass (without masses: of geometry) of the
        selected atoms of each residue, segment, molecule or fragment.
    images : {"all", "minimum", "none"}
        Images that count: all within the range, or the nearest, or atoms as they stand.
    dimensions : {"xyz", "xy"}
        "xy": distances along x and y, rings in place of shells and areas in place of volumes. Two edges of the cell lie
        in that plane; if the third leans over, atoms count at their place in the cell along it.
    count_self : bool
        An atom and itself count as well, in the bin of distance 0, as in MDAnalysis.
    volume : float or "mean", optional, angstrom^3
        Volume for frames whose cell has none (slabs, wires, no cell); angstrom^2 with dimensions="xy". "mean": divide
        by the mean volume of the cells, as MDAnalysis, in place of the mean of 1 / V.
    n_blocks : int
        Number of consecutive parts of the run, from which standard errors are taken; 1: none.

    After `run`
    -----------
    results.bins : (bins,) float64, angstrom
        Centres of the bins.
    results.edges : (bins + 1,) float64, angstrom
    results.count : (bins,) uint64, or with `by` (bins, columns)
        Ordered pairs in all frames; with `by`, pairs of two types count once, as (first, second).
    results.rdf : the same shape, float64
        The function that `norm` names.
    results.coordination : the same shape, float64
        n(r) up to the upper edge of each bin: atoms of the second group for each atom of the first.
    results.rdf_error : the same shape, with n_blocks
    results.n_pairs : (columns,) uint64
        Pairs that could count in a frame; (frames,) of atoms that change with the frame.
    results.volume : (frames,) float64
        Volume (area) of each frame; nan if the cell has none.
    results.time : (frames,)

    Raises
    ------
    ArgumentError for a range that is empty or not finite, for no bins or 2^32 and more, for arguments that exclude each
    other, for exclusions and `by` with centres or with atoms that change with the frame, and for frames without a
    volume if `norm` or `volume` do not help.

    Examples
    --------
    >>> rdf = kn.analysis.InterRDF(traj, select="name CA", range=(2.0, 12.0), norm="none").run()
    >>> rdf.results.count.shape
    (75,)
    """

    command_name = "rdf"
    summary = "Radial distribution function of two groups, and coordination numbers."
    axis = Quantity("r", "angstrom", "distance")
    quantities = (
        Quantity("rdf", "1", "radial distribution function", "one for each pair of types with --by"),
        Quantity("coordination", "1", "coordination number", "one for each pair of types with --by"),
    )
    short_run: ClassVar[Mapping[str, Any]] = {"range": (0.0, 4.0)}
    takes_changing = True
    reference = "Frenkel, Smit, Understanding Molecular Simulation (2002); MDAnalysis.analysis.rdf.InterRDF"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        other: Annotated[
            Any, Option("--other", "Second group; without it, pairs within --select.", takes="atoms")
        ] = None,
        nbins: Annotated[int, Option("--nbins", "Number of bins.", least=1)] = 75,
        range: Annotated[
            Sequence[float], Option("--range", "Edges of the first and last bin.", takes="two numbers", unit="angstrom")
        ] = (0.0, 15.0),
        norm: Annotated[
            str, Option("--norm", "Function: relative, density of a shell, or counts.", choices=NORM)
        ] = "rdf",
        exclusion_block: Annotated[
            Sequence[int] | None,
            Option("--exclusion-block", "Leave out pairs of places i // a = j // b.", takes="two numbers", least=1),
        ] = None,
        exclude_same: Annotated[
            str | None, Option("--exclude-same", "Leave out pairs of one residue, segment or chain.", choices=SAME)
        ] = None,
        intra: Annotated[
            str, Option("--intra", "Pairs within a molecule: all, only these, or none.", choices=INTRA)
        ] = "all",
        exclude_bonds: Annotated[
            int, Option("--exclude-bonds", "Leave out pairs that at most this number of bonds connects.", least=0)
        ] = 0,
        by: Annotated[str | None, Option("--by", "A column for each pair of these.", choices=BY)] = None,
        compound: Annotated[
            str, Option("--compound", "Pairs of atoms, or of the centres of these.", choices=POINTS)
        ] = "atoms",
        images: Annotated[str, Option("--images", "Periodic images that count.", choices=IMAGES)] = "all",
        dimensions: Annotated[
            str, Option("--dimensions", "Distances in space, or along x and y.", choices=DIMENSIONS)
        ] = "xyz",
        count_self: Annotated[bool, Option("--count-self", "Count an atom and itself, as MDAnalysis.")] = False,
        volume: Annotated[
            float | str | None,
            Option(
                "--volume",
                "Divide by the mean, as MDAnalysis; or the volume if the cell has none.",
                takes="number",
                choices=("mean",),
                unit="angstrom^3",
                show_default=False,
            ),
        ] = None,
        n_blocks: Annotated[int, Option("--n-blocks", "Parts of the run to take standard errors from.", least=1)] = 1,
    ) -> None:
        # "none" on the command line is None
        norm, intra, images = ("none" if one is None else one for one in (norm, intra, images))
        for name, value, allowed in (
            ("norm", norm, NORM),
            ("exclude_same", exclude_same, (None, *SAME[1:])),
            ("intra", intra, INTRA),
            ("by", by, (None, *BY[1:])),
            ("compound", compound, POINTS),
            ("images", images, IMAGES),
            ("dimensions", dimensions, DIMENSIONS),
        ):
            check_choice(name, value, allowed)
        least, most = check_range(range)
        other = None if other is None else select_atoms(trajectory, other, may_change=True)
        super().__init__(
            trajectory,
            select,
            other=other,
            nbins=nbins,
            range=(least, most),
            norm=norm,
            exclusion_block=exclusion_block,
            exclude_same=exclude_same,
            intra=intra,
            exclude_bonds=exclude_bonds,
            by=by,
            **({} if compound == "atoms" else {"compound": compound}),
            images=images,
            dimensions=dimensions,
            count_self=count_self,
            volume=volume,
            n_blocks=n_blocks,
        )
        rules: dict[str, Any] = {
            "exclusion_block": exclusion_block,
            "exclude_same": exclude_same,
            "intra": intra,
            "exclude_bonds": exclude_bonds,
            "by": by,
            "compound": compound,
        }
        groups = (self.selection, *([] if other is None else [other]))
        check_rules(rules, groups)
        nbins = check_bins(nbins)
        self._mean_volume = volume == "mean"
        self._volume = None if self._mean_volume else check_volume(volume)
        for one in groups:
            one.check_unique()
        self._norm = norm
        self._n_blocks = whole_number("n_blocks", n_blocks)
        self._plane, self._minimum_image = dimensions == "xy", images != "none"
        self._compound = compound
        with self._noting():
            self._pairs = PairPoints(trajectory, self.selection, other, rules)
        self._add_notes(self._pairs.notes)
        self._given: dict[str, Any] = {
            "bins": nbins,
            "least": least,
            "most": most,
            "images": images,
            "plane": self._plane,
            "count_self": bool(count_self),
            **self._pairs.arguments,
        }

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        check_rules(given)
        super().check_arguments(given, followed=followed)

    @property
    def selections(self) -> Sequence[Any]:
        return self._pairs.selections

    @property
    def measures_whole_molecules(self) -> bool:
        """See `DeclaredAnalysis`: which image an atom is does not matter, unless no images count, or to centres."""
        return not self._minimum_image or self._compound != "atoms"

    @property
    def subject(self) -> str:
        of = self.selection.count(self.trajectory.n_atoms)
        other = "".join(f" and {one.count(self.trajectory.n_atoms)}" for one in self.selections[1:])
        return f"{self._function.description} of {of}{other}"

    @property
    def _function(self) -> Quantity:
        """The function that `norm` names."""
        unit, what = {
            "rdf": ("1", "radial distribution function"),
            "density": ("angstrom^-2" if self._plane else "angstrom^-3", "density of pairs"),
            "none": ("1", "pairs in a frame"),
        }[self._norm]
        return Quantity("rdf", unit, what)

    @property
    def _needs_volume(self) -> bool:
        return self._norm == "rdf" and self._volume is None

    @property
    def _title(self) -> str:
        return self._function.title

    def _passes(self, frames: FrameSelection) -> Passes:
        bounds = block_bounds(frames, self._n_blocks)
        if self._needs_volume and not self._plane:
            first_cell(self.trajectory, frames, "norm='rdf'", periodic=True, remedy=_GIVE_VOLUME)
        kernel = _core.Kernel(
            "rdf",
            self.trajectory.n_atoms,
            blocks=bounds.astype(np.float64),
            **self._given,
        )
        found = yield Pass(kernel)
        edges, counts = np.asarray(found["edges"]), np.asarray(found["counts"])
        rows = np.asarray(found["values"])
        volumes, n_pairs = rows[:, 0], np.asarray(found["n_pairs"], np.float64)[:, None]
        n_first: Any = self._pairs.n_first * len(rows)
        if self._pairs.change:
            # of each frame
            n_pairs, n_first = rows[:, 2][None], rows[:, 3].sum()[None]
            self._note_no_points(rows[:, 3], frames)
        numbers = frames.numbers().astype(np.int64)
        if self._needs_volume:
            check_volumes(self.trajectory, volumes, numbers, "norm='rdf'", _GIVE_VOLUME)
        self._note_range(rows[:, 1], volumes)
        in_block = np.searchsorted(bounds, numbers, side="right") - 1
        whole = self._normalised(counts.sum(axis=0), edges, volumes, n_pairs)
        with np.errstate(invalid="ignore"):
            coordination = np.cumsum(counts.sum(axis=0), axis=1) / n_first[:, None]
        results = {"count": counts.sum(axis=0), "rdf": whole, "coordination": coordination}
        if self._n_blocks > 1:
            parts = [
                self._normalised(one, edges, volumes[in_block == block], _of_frames(n_pairs, in_block == block))
                for block, one in enumerate(counts)
            ]
            results["rdf_error"] = standard_error(np.array(parts))
        several = len(self._pairs.labels) > 1 or self._given.get("columns") is not None
        return Results(
            bins=(edges[1:] + edges[:-1]) / 2,
            edges=edges,
            **{name: values.T if several else values[0] for name, values in results.items()},
            n_pairs=n_pairs.ravel().astype(np.uint64),
            volume=volumes,
            time=found["time"],
            frames=numbers,
            values=whole.T,
        )

    def _note_range(self, reach: NDArray[np.float64], volumes: NDArray[np.float64]) -> None:
        """A note if pairs are missing in periodic cells, because not all of their images count."""
        images, most = self._given["images"], self._given["most"]
        if images == "none" and not np.isnan(volumes).all():
            self._add_notes(
                ["images='none': pairs across the faces of the cell do not count; images='all' counts them"]
            )
        elif images == "minimum" and reach.min() < most:
            self._add_notes(
                [
                    f"images='minimum': beyond {reach.min():.4g} angstrom, half of the shortest edge, not "
                    "all images count, so that the function falls off there; images='all' counts them"
                ]
            )

    def _normalised(
        self,
        counts: NDArray[np.uint64],
        edges: NDArray[np.float64],
        volumes: NDArray[np.float64],
        n_pairs: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """(columns, bins) the function of the counts of some frames with these volumes.

        `n_pairs` (columns, 1), or (1, frames) if they differ.
        """
        n_frames = len(volumes)
        if self._norm == "none":
            return counts / n_frames
        shells = shell_volumes(edges, plane=self._plane)
        if self._norm == "density":
            return np.asarray(counts / (shells * n_frames))
        known = volumes if self._volume is None else np.where(np.isnan(volumes), self._volume, volumes)
        each = np.full(n_frames, 1 / known.mean()) if self._mean_volume else 1 / known
        with np.errstate(invalid="ignore", divide="ignore"):
            # of equal numbers of pairs: their number times the sum
            pairs = n_pairs[:, 0] * each.sum() if n_pairs.shape[1] == 1 else (n_pairs * each).sum(axis=1)
            return np.asarray(counts / (shells * pairs[:, None]))

    def _note_no_points(self, n_first: NDArray[np.float64], frames: FrameSelection) -> None:
        if not n_first.all():
            first = frames.numbers()[int((n_first == 0).argmax())]
            self._add_notes(
                [f"{self.selection.description!r} names no atoms in frame {first}: such frames have no pairs"]
            )

    @property
    def first_shell(self) -> tuple[float, float]:
        """(r, n): the first minimum of g(r) after its first maximum, angstrom, and the coordination number there.

        r is the centre of a bin, n the mean of the numbers at its edges.
        g is smoothed over three bins; nan if there is no such minimum. Raises ArgumentError before `run`, and with
        `by`.
        """
        if not self.results:
            raise ArgumentError("InterRDF has no results yet; call run() first")
        if self.results.rdf.ndim != 1:
            raise ArgumentError("first_shell is of one function; leave out by=")
        place = first_shell(self.results.rdf)
        if place is None:
            return float("nan"), float("nan")
        at_edges = self.results.coordination[place - 1 : place + 1]
        return float(self.results.bins[place]), float(at_edges.mean())

    @property
    def further_summary(self) -> Mapping[str, tuple[float, str]]:
        if self.results.rdf.ndim != 1:
            return {}
        r, number = self.first_shell
        return {"first minimum": (r, "angstrom"), "coordination number there": (number, "1")}

    def _columns(self) -> Sequence[tuple[str, Quantity, NDArray[np.float64]]]:
        quantities = {"rdf": self._function, "rdf_error": self._function, "coordination": self.quantities[1]}
        columns = []
        for name, quantity in quantities.items():
            if name not in self.results:
                continue
            values = self.results[name]
            if values.ndim == 1:
                columns.append((name, quantity, values))
            else:
                labels = [label if name == "rdf" else f"{name} {label}" for label in self._pairs.labels]
                columns += [(label, quantity, values[:, k]) for k, label in enumerate(labels)]
        return columns

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_functions

        columns = {one.name: one for one in table.columns}
        functions = [columns[label] for label in self._pairs.labels]
        coordination = [
            columns.get(f"coordination {label}", columns.get("coordination")) for label in self._pairs.labels
        ]
        return draw_functions(
            table.columns[0],
            [(self._function.description, functions), ("coordination number", [one for one in coordination if one])],
            self._title,
            columns.get("rdf_error"),
        )


def _of_frames(n_pairs: NDArray[np.float64], which: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Numbers of pairs of some frames, if they differ from frame to frame."""
    return n_pairs if n_pairs.shape[1] == 1 else n_pairs[:, which]
