"""Radial distribution functions of single pairs of atoms, such as a binding site and an ion.

    g_ij(r_k) = c_ijk / (v_k sum_t 1 / V_t)

c_ijk: frames in which atom j, or an image of it, is in shell k about atom i. Source: MDAnalysis' `InterRDF_s`, whose
names and results these are; it divides by the mean volume, and counts the nearest image alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.atom_columns import labels_of
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.density.cells import check_volumes, first_cell
from kinema.analysis.density.shells import NO_COLUMN, check_bins, check_range, shell_volumes
from kinema.analysis.profile import ProfileAnalysis
from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["InterRDF_s"]

NORM = ("rdf", "density", "none")
_NO_VOLUME = "choose norm='none'"


class InterRDF_s(ProfileAnalysis):  # noqa: N801 - MDAnalysis' name
    """Radial distribution function of each pair of atoms of pairs of groups.

    Parameters
    ----------
    trajectory : Trajectory
    ags : list
        Pairs of groups, [[A, B], [C, D]], each as `Trajectory.select`; or all groups one after the other, A, B, C, D.
    nbins : int
        Number of bins.
    range : (float, float), angstrom
        Edges of the first and of the last bin.
    norm : {"rdf", "density", "none"}
        As in `InterRDF`, for one pair: "density" is in angstrom^-3.

    After `run`
    -----------
    results.bins : (bins,) float64, angstrom
    results.edges : (bins + 1,) float64, angstrom
    results.count : list of (n, m, bins) uint64
        For each pair of groups, of n and m atoms: counts in all frames.
    results.rdf : list of (n, m, bins) float64
    results.indices : list of [(n,), (m,)] uint32
        Atoms of both groups.
    results.cdf : list of (n, m, bins) float64, after `get_cdf`
    results.values : (bins, pairs) float64
        All functions side by side.
    results.volume, results.time : (frames,)

    Raises
    ------
    ArgumentError for an odd number of groups, for bad ranges and bins, and for frames without a volume if norm="rdf".

    Examples
    --------
    >>> sites = kn.analysis.InterRDF_s(traj, [["name CA and resid 1", "name CA and resid 5-6"]], norm="none").run()
    >>> sites.results.rdf[0].shape
    (1, 2, 75)
    """

    command_name = "rdf-sites"
    summary = "Radial distribution function of each pair of atoms of two groups."
    axis = Quantity("r", "angstrom", "distance")
    quantities = (Quantity("rdf", "1", "radial distribution function", "one for each pair of atoms"),)
    short_run: ClassVar[Mapping[str, Any]] = {"range": (0.0, 4.0)}
    reference = "MDAnalysis.analysis.rdf.InterRDF_s"
    _minimum_image = True

    def __init__(
        self,
        trajectory: Trajectory,
        ags: Annotated[
            Sequence[Any],
            Option("--ags", "Groups, two for each set of pairs: first and second.", takes="list of atoms"),
        ],
        nbins: Annotated[int, Option("--nbins", "Number of bins.", least=1)] = 75,
        range: Annotated[
            Sequence[float], Option("--range", "Edges of the first and last bin.", takes="two numbers", unit="angstrom")
        ] = (0.0, 15.0),
        norm: Annotated[str, Option("--norm", "Relative, density of a shell, or counts.", choices=NORM)] = "rdf",
    ) -> None:
        from kinema.transforms.arguments import selections_of

        norm = "none" if norm is None else norm
        check_choice("norm", norm, NORM)
        given = [one for pair in ags for one in (pair if isinstance(pair, (list, tuple)) else [pair])]
        groups = selections_of(trajectory, given, "ags")
        if not groups or len(groups) % 2:
            raise ArgumentError(f"ags= takes two groups for each set of pairs, found {len(groups)}")
        for one in groups:
            one.check_unique()
        self._range, self._nbins, self._norm = check_range(range), check_bins(nbins), norm
        self._groups = list(zip(groups[::2], groups[1::2], strict=True))
        super().__init__(trajectory, groups[0], ags=groups, nbins=nbins, range=self._range, norm=norm)
        # a column for each pair of atoms, once
        self._atoms = [np.unique(np.concatenate([pair[side].indices for pair in self._groups])) for side in (0, 1)]
        self._columns_of_pairs = np.full([len(one) for one in self._atoms], NO_COLUMN)
        for places in self._places():
            self._columns_of_pairs[places] = 0
        wanted = self._columns_of_pairs == 0
        self._columns_of_pairs[wanted] = np.arange(np.count_nonzero(wanted))

    def _places(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Rows and columns of the pairs of each two groups among all atoms."""
        found = []
        for pair in self._groups:
            first, second = (np.searchsorted(atoms, one.indices) for atoms, one in zip(self._atoms, pair, strict=True))
            rows, columns = np.ix_(first, second)
            found.append((rows, columns))
        return found

    @property
    def selections(self) -> Sequence[Selection]:
        return [one for pair in self._groups for one in pair]

    @property
    def subject(self) -> str:
        return f"radial distribution functions of {counted(int(self._columns_of_pairs.max()) + 1, 'pair')} of atoms"

    def _passes(self, frames: FrameSelection) -> Passes:
        if self._norm == "rdf":
            first_cell(self.trajectory, frames, "norm='rdf'", periodic=True, remedy=_NO_VOLUME)
        sizes = [len(one) for one in self._atoms]
        kernel = _core.Kernel(
            "rdf",
            self.trajectory.n_atoms,
            atoms=self._atoms[0],
            other=self._atoms[1],
            bins=self._nbins,
            least=self._range[0],
            most=self._range[1],
            types=np.concatenate([np.arange(size) for size in sizes]).astype(np.uint32),
            columns=self._columns_of_pairs.astype(np.uint32),
        )
        found = yield Pass(kernel)
        edges, counts = np.asarray(found["edges"]), np.asarray(found["counts"])[0]
        volumes, n_frames = np.asarray(found["values"])[:, 0], len(frames)
        if self._norm == "rdf":
            check_volumes(self.trajectory, volumes, frames.numbers().astype(np.int64), "norm='rdf'", _NO_VOLUME)
        evenly = {"none": n_frames, "density": n_frames * shell_volumes(edges)}
        by = evenly[self._norm] if self._norm in evenly else shell_volumes(edges) * (1 / volumes).sum()
        values = counts / by
        columns = [self._columns_of_pairs[places].astype(np.intp) for places in self._places()]
        self._n_frames = n_frames
        return Results(
            bins=(edges[1:] + edges[:-1]) / 2,
            edges=edges,
            count=[counts[one] for one in columns],
            rdf=[values[one] for one in columns],
            indices=[[one.indices for one in pair] for pair in self._groups],
            volume=volumes,
            time=found["time"],
            values=values.T,
        )

    def get_cdf(self) -> list[NDArray[np.float64]]:
        """(n, m, bins) for each two groups: number of counts up to the upper edge of each bin, for each frame.

        They are `results.cdf` from then on. Raises ArgumentError before `run`.
        """
        if not self.results:
            raise ArgumentError("InterRDF_s has no results yet; call run() first")
        found = [np.cumsum(one, axis=2) / self._n_frames for one in self.results.count]
        if "cdf" not in self.results:
            self.results = self.results.and_more(cdf=found)
        return found

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        return self.results.values, self.quantities[0]

    def _columns(self) -> Sequence[tuple[str, Quantity, NDArray[np.float64]]]:
        rows, columns = np.nonzero(self._columns_of_pairs != NO_COLUMN)
        names = [labels_of(self.trajectory, "atom", atoms) for atoms in self._atoms]
        unit = "angstrom^-3" if self._norm == "density" else "1"
        quantity = Quantity("rdf", unit, self.quantities[0].description)
        labels = [f"{names[0][i]} - {names[1][j]}" for i, j in zip(rows, columns, strict=True)]
        return [(label, quantity, self.results.values[:, k]) for k, label in enumerate(labels)]
