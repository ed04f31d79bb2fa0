"""Radial distribution functions of two groups of atoms, and coordination numbers.

    g(r_k) = c_k / (v_k sum_t N_t / V_t)

c_k: ordered pairs (i of the first group, j of the second) with a distance in bin k, over all frames t; v_k: volume of
the shell, `4/3 pi (r_(k+1)^3 - r_k^3)`; N_t: number of pairs that could count; V_t: volume of the cell. The
coordination number n(r) is the number of counts up to r for each atom of the first group and frame. Source: D. Frenkel,
B. Smit, Understanding Molecular Simulation (2002), section 4.4; names and defaults are those of MDAnalysis' `InterRDF`.

It differs from MDAnalysis in four ways. An atom and itself do not count, there they do (`count_self`). All exclusions
are taken off N, there `exclusion_block` alone is. N/V is averaged, there V is (`mean_volume`): the same in a
constant cell. Images beyond half of the cell count as well, there only the nearest (`images`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.density.cells import check_volumes, first_cell
from kinema.analysis.density.shells import NO_COLUMN, check_bins, check_range, first_shell, shell_volumes
from kinema.analysis.profile import ProfileAnalysis, block_bounds, standard_error
from kinema.base.choices import check_choice, whole_number
from kinema.base.errors import ArgumentError
from kinema.model.elements import symbols_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.model.atom_table import Atoms
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
_COLUMNS = {"name": "names", "type": "types", "element": "elements", "resname": "resnames"}
_SAME_COLUMNS = {"residue": "resindices", "segment": "segids", "chain": "chainIDs"}
_GIVE_VOLUME = "give volume=, or norm='none'"


class InterRDF(ProfileAnalysis):
    """Radial distribution function of two groups, and coordination numbers.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
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
    images : {"all", "minimum", "none"}
        Images that count: all within the range, or the nearest, or atoms as they stand.
    dimensions : {"xyz", "xy"}
        "xy": distances along x and y, rings in place of shells and areas in place of volumes. Two edges of the cell lie
        in that plane; if the third leans over, atoms count at their place in the cell along it.
    count_self : bool
        An atom and itself count as well, in the bin of distance 0, as in MDAnalysis.
    mean_volume : bool
        Divide by the mean volume, as MDAnalysis, in place of the mean of 1 / V.
    volume : float, optional, angstrom^3
        Volume for frames whose cell has none (slabs, wires, no cell); angstrom^2 with dimensions="xy".
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
        Pairs that could count in a frame.
    results.volume : (frames,) float64
        Volume (area) of each frame; nan if the cell has none.
    results.time : (frames,)

    Raises
    ------
    ArgumentError for a range that is empty or not finite, for no bins or 2^32 and more, for arguments that exclude each
    other, and for frames without a volume if `norm` or `volume` do not help.

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
        images: Annotated[str, Option("--images", "Periodic images that count.", choices=IMAGES)] = "all",
        dimensions: Annotated[
            str, Option("--dimensions", "Distances in space, or along x and y.", choices=DIMENSIONS)
        ] = "xyz",
        count_self: Annotated[bool, Option("--count-self", "Count an atom and itself, as MDAnalysis.")] = False,
        mean_volume: Annotated[bool, Option("--mean-volume", "Divide by the mean volume, as MDAnalysis.")] = False,
        volume: Annotated[
            float | None,
            Option("--volume", "Volume if the cell has none.", takes="number", unit="angstrom^3", show_default=False),
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
            ("images", images, IMAGES),
            ("dimensions", dimensions, DIMENSIONS),
        ):
            check_choice(name, value, allowed)
        least, most = check_range(range)
        self._other = None if other is None else trajectory.select(other)
        super().__init__(
            trajectory,
            select,
            other=self._other,
            nbins=nbins,
            range=(least, most),
            norm=norm,
            exclusion_block=exclusion_block,
            exclude_same=exclude_same,
            intra=intra,
            exclude_bonds=exclude_bonds,
            by=by,
            images=images,
            dimensions=dimensions,
            count_self=count_self,
            mean_volume=mean_volume,
            volume=volume,
            n_blocks=n_blocks,
        )
        self.check_arguments({"exclusion_block": exclusion_block, "exclude_same": exclude_same, "intra": intra})
        nbins = check_bins(nbins)
        if volume is not None and not (np.isfinite(volume) and volume > 0):
            raise ArgumentError(f"volume must be finite and above 0, found {volume}")
        for one in (self.selection, *([] if self._other is None else [self._other])):
            one.check_unique()
        self._norm, self._volume, self._mean_volume = norm, volume, bool(mean_volume)
        self._n_blocks = whole_number("n_blocks", n_blocks)
        self._plane, self._minimum_image = dimensions == "xy", images != "none"
        with self._noting():
            self._given: dict[str, Any] = {
                "bins": nbins,
                "least": least,
                "most": most,
                "images": images,
                "plane": self._plane,
                "count_self": bool(count_self),
                **self._exclusions(exclusion_block, exclude_same, intra, int(exclude_bonds)),
            }
            self._labels = self._types(by)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        found = [name for name in ("exclusion_block", "exclude_same") if given.get(name) is not None]
        found += ["intra"] if given.get("intra", "all") != "all" else []
        if len(found) > 1:
            raise ArgumentError(f"{found[0]} and {found[1]} exclude each other; give one of them")
        if followed and given.get("n_blocks", 1) > 1:
            raise ArgumentError("n_blocks= divides all frames of a run, which --follow does not know; leave it out")
        super().check_arguments(given, followed=followed)

    @property
    def selections(self) -> Sequence[Any]:
        return (self.selection, *([] if self._other is None else [self._other]))

    @property
    def measures_whole_molecules(self) -> bool:
        """See `DeclaredAnalysis`: which image an atom is does not matter, unless no images count."""
        return not self._minimum_image

    @property
    def subject(self) -> str:
        of = self.selection.count(self.trajectory.n_atoms)
        other = "" if self._other is None else f" and {self._other.count(self.trajectory.n_atoms)}"
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

    def _atoms(self, why: str) -> Atoms:
        topology = self.trajectory.topology
        if topology is None:
            raise ArgumentError(f"{why} needs a topology: open the trajectory with topology=, or leave it out")
        return topology.atoms

    def _column(self, argument: str, value: str, columns: Mapping[str, str]) -> NDArray[Any]:
        """(n_atoms,) a column of the topology."""
        why = f"{argument}={value!r}"
        table = self._atoms(why)
        if value == "element":
            return symbols_of(table, why)
        values = table.get(columns[value])
        if values is None and value == "chain":
            values = table.get("segids")
        if values is None:
            raise ArgumentError(f"{table.name} has no {columns[value]}, which {why} needs; choose another")
        return np.asarray(values)

    def _both(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Values of atoms, for both groups."""
        second = self.selection if self._other is None else self._other
        return values[self.selection.indices], values[second.indices]

    def _two_sets(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.uint32]:
        """An argument of the kernel with a value for each atom of each group."""
        return np.concatenate([first] if self._other is None else [first, second]).astype(np.uint32)

    def _exclusions(
        self, block: Sequence[int] | None, same: str | None, intra: str, exclude_bonds: int
    ) -> dict[str, Any]:
        """Arguments of the kernel for the pairs that are left out."""
        from kinema.model.selection.bonded_pairs import pairs_by_bonds
        from kinema.model.selection.compounds import marks_of

        found: dict[str, Any] = {}
        if exclude_bonds:
            found["excluded"] = pairs_by_bonds(self._atoms("exclude_bonds"), exclude_bonds, "exclude_bonds")
        if block is not None:
            sizes = [int(one) for one in block]
            if len(sizes) != 2 or min(sizes) < 1 or any(one != size for one, size in zip(block, sizes, strict=True)):
                raise ArgumentError(f"exclusion_block is two whole numbers from 1 on, found {tuple(block)}")
            second = self.selection if self._other is None else self._other
            blocks = [np.arange(one.n_atoms) // size for one, size in zip((self.selection, second), sizes, strict=True)]
            if self._other is None and sizes[0] != sizes[1]:
                # blocks of one group that differ by the order of a pair
                self._other = self.selection
            return found | {"same": "different", "labels": self._two_sets(*blocks)}
        if same is not None:
            marks = np.unique(self._column("exclude_same", same, _SAME_COLUMNS), return_inverse=True)[1]
        elif intra != "all":
            marks = np.unique(marks_of(self._atoms(f"intra={intra!r}"), "molecules", "intra"), return_inverse=True)[1]
        else:
            return found
        rule = "only" if intra == "only" else "different"
        return found | {"same": rule, "labels": self._two_sets(*self._both(marks))}

    def _types(self, by: str | None) -> list[str]:
        """Names of the columns: one, or pairs of types, which become arguments of the kernel."""
        if by is None:
            self._of_first = np.array([self.selection.n_atoms])
            return ["rdf"]
        marks = self._column("by", by, _COLUMNS)
        first, second = self._both(marks)
        names = [np.unique(one) for one in (first, second)]
        places = [np.searchsorted(known, one) for known, one in zip(names, (first, second), strict=True)]
        columns = np.full((len(names[0]), len(names[1])), NO_COLUMN)
        labels: list[str] = []
        of_first: list[int] = []
        numbers = np.bincount(places[0])
        for i, one in enumerate(names[0]):
            for j, other in enumerate(names[1]):
                # within one group (a, b) stands for (b, a) as well
                if self._other is None and j < i:
                    continue
                columns[i, j] = len(labels)
                labels.append(f"{one} - {other}")
                of_first.append(int(numbers[i]))
        self._of_first = np.array(of_first)
        self._given |= {"types": self._two_sets(*places), "columns": columns.astype(np.uint32)}
        return labels

    def _passes(self, frames: FrameSelection) -> Passes:
        bounds = block_bounds(frames, self._n_blocks)
        if self._needs_volume and not self._plane:
            first_cell(self.trajectory, frames, "norm='rdf'", periodic=True, remedy=_GIVE_VOLUME)
        kernel = _core.Kernel(
            "rdf",
            self.trajectory.n_atoms,
            atoms=self.selection.indices,
            other=None if self._other is None else self._other.indices,
            blocks=bounds.astype(np.float64),
            **self._given,
        )
        found = yield Pass(kernel)
        edges, counts = np.asarray(found["edges"]), np.asarray(found["counts"])
        volumes, n_pairs = np.asarray(found["values"])[:, 0], np.asarray(found["n_pairs"])
        numbers = frames.numbers().astype(np.int64)
        if self._needs_volume:
            check_volumes(self.trajectory, volumes, numbers, "norm='rdf'", _GIVE_VOLUME)
        self._note_range(np.asarray(found["values"])[:, 1], volumes)
        in_block = np.searchsorted(bounds, numbers, side="right") - 1
        whole = self._normalised(counts.sum(axis=0), edges, volumes, n_pairs)
        coordination = np.cumsum(counts.sum(axis=0), axis=1) / (self._of_first * len(numbers))[:, None]
        results = {"count": counts.sum(axis=0), "rdf": whole, "coordination": coordination}
        if self._n_blocks > 1:
            parts = [
                self._normalised(one, edges, volumes[in_block == block], n_pairs) for block, one in enumerate(counts)
            ]
            results["rdf_error"] = standard_error(np.array(parts))
        several = len(self._labels) > 1 or self._given.get("columns") is not None
        return Results(
            bins=(edges[1:] + edges[:-1]) / 2,
            edges=edges,
            **{name: values.T if several else values[0] for name, values in results.items()},
            n_pairs=n_pairs,
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
        n_pairs: NDArray[np.uint64],
    ) -> NDArray[np.float64]:
        """(columns, bins) the function of the counts of some frames with these volumes."""
        n_frames = len(volumes)
        if self._norm == "none":
            return counts / n_frames
        shells = shell_volumes(edges, plane=self._plane)
        if self._norm == "density":
            return np.asarray(counts / (shells * n_frames))
        known = volumes if self._volume is None else np.where(np.isnan(volumes), self._volume, volumes)
        per_volume = n_frames / known.mean() if self._mean_volume else (1 / known).sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(counts / (shells * (n_pairs * per_volume)[:, None]))

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
                labels = [label if name == "rdf" else f"{name} {label}" for label in self._labels]
                columns += [(label, quantity, values[:, k]) for k, label in enumerate(labels)]
        return columns

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_functions

        columns = {one.name: one for one in table.columns}
        functions = [columns[label] for label in self._labels]
        coordination = [columns.get(f"coordination {label}", columns.get("coordination")) for label in self._labels]
        return draw_functions(
            table.columns[0],
            [(self._function.description, functions), ("coordination number", [one for one in coordination if one])],
            self._title,
            columns.get("rdf_error"),
        )
