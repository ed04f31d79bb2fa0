"""Clusters of frames by their RMSD: labels, sizes, centres, transitions.

    gromos    the frame with most neighbours, RMSD < cutoff, and these are a cluster and leave; neighbours of
              the rest are counted again: X. Daura et al., Angew. Chem. Int. Ed. 38, 236 (1999), as `gmx cluster` has it
    average, single, complete, ward    scipy.cluster.hierarchy
    kmeans, dbscan    scikit-learn

RMSDs are those of `rmsd_matrix`, each pair superposed. Ward's method and k-means need distances in a space: frames are
superposed on their average, and the distance of two frames is their RMSD as they lie then. Features (`Features`) have
Euclidean distances with any method.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema.analysis.base import Passes, Results
from kinema.analysis.declaration import Option, Quantity, Weights
from kinema.analysis.declared import DeclaredAnalysis
from kinema.analysis.ensembles import clustering
from kinema.analysis.ensembles.features import Features
from kinema.analysis.ensembles.rmsd_matrix import AllPairs, Superposition
from kinema.analysis.matrix import n_pairs
from kinema.analysis.structure.alignment import Alignment
from kinema.base.choices import check_choice, whole_number
from kinema.base.errors import ArgumentError, MemoryLimitError, os_errors
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["Clusters"]

#: the cutoff of `gmx cluster`, angstrom
CUTOFF = 1.0
# more clusters are noted
_MANY = 100


class Clusters(DeclaredAnalysis):
    """Clusters of frames with similar structures.

    Parameters
    ----------
    trajectory : Trajectory or Features
        Features take the place of positions, and their Euclidean distance that of the RMSD; select, weights and
        superposition are then left out, and `cutoff` has no default.
    select : as `Trajectory.select`
        Atoms to superpose and to take the RMSD of; None: all.
    method : {"gromos", "average", "single", "complete", "ward", "kmeans", "dbscan"}
        "gromos": of Daura and others. "average", "single", "complete", "ward": hierarchical. "kmeans" and "dbscan" need
        scikit-learn, the extra `cluster`.
    cutoff : float, optional
        RMSD in angstrom, 1.0 by default. gromos: of neighbours, below it. Hierarchical: up to which clusters merge;
        ward: the height of the tree, without a default. dbscan: of neighbours, at most.
    n_clusters : int, optional
        Number of clusters. Hierarchical: into which the tree is cut, instead of at `cutoff`. kmeans: required.
    min_samples : int
        dbscan: frames within `cutoff`, the frame itself among them, that make a frame part of the core of a cluster.
    weights : None, "mass" or (atoms,) array
        Weights for superposition and RMSD.
    superposition : bool
        False: positions are compared as they are, neither centred nor rotated.
    random_state : int
        kmeans: seed of the first means.

    After `run`
    -----------
    results.labels : (frames,) int64
        Cluster of each frame, from 0 by falling size; -1: noise, which belongs to none (dbscan).
    results.sizes : (clusters,) int64
        Number of frames of each cluster.
    results.centers : (clusters,) int64
        Frame number of the centre of each cluster: the frame with the least mean RMSD from the others; kmeans: the
        frame nearest to the mean.
    results.most_neighbors : (clusters,) int64, for gromos
        Number of the frame around which each cluster was found.
    results.transitions : (clusters, clusters) int64
        Number of steps from a frame in one cluster (row) to the next frame of the run, in another (column) or in the
        same; without steps to or from noise.
    results.linkage : (frames - 1, 4) float64, for hierarchical methods
        The tree, as `scipy.cluster.hierarchy.linkage` gives it.
    results.condensed : (frames * (frames - 1) / 2,) float64, angstrom, except for kmeans
        RMSDs of pairs, as those of `RMSDMatrix`; of features their distances, in the unit of the features.
    results.frames, results.time : (frames,)
    results.values : the labels

    Raises
    ------
    ArgumentError, also for fewer frames than two or than clusters; MissingPackageError without scikit-learn;
    MemoryLimitError, before the first frame, if the RMSDs of all pairs do not fit into `memory`.

    Examples
    --------
    >>> clusters = kn.analysis.Clusters(traj, select="name CA", cutoff=1.5).run()
    >>> clusters.results.sizes.sum()
    np.int64(196)
    >>> centre = clusters.results.centers[0]  # the frame that represents the largest cluster
    """

    command_name = "cluster"
    summary = "Clusters of frames with similar structures: labels, sizes, centres."
    quantities = (Quantity("labels", "1", "cluster of each frame"),)
    reference = "Daura et al., Angew. Chem. Int. Ed. 38, 236 (1999); scipy.cluster.hierarchy; scikit-learn"
    has_clusters = True

    def __init__(
        self,
        trajectory: Trajectory | Features,
        select: AtomChoice = None,
        method: Annotated[
            str,
            Option("--method", "Method; kmeans and dbscan need scikit-learn.", choices=clustering.METHODS),
        ] = "gromos",
        cutoff: Annotated[
            float | None,
            Option(
                "--cutoff",
                "RMSD of neighbours, or up to which clusters merge; 1.0 by default.",
                takes="number",
                least=0,
                unit="angstrom",
                show_default=False,
            ),
        ] = None,
        n_clusters: Annotated[
            int | None,
            Option(
                "--n-clusters",
                "Number of clusters, for kmeans and instead of --cutoff for hierarchical methods.",
                takes="integer",
                least=1,
                show_default=False,
            ),
        ] = None,
        min_samples: Annotated[
            int, Option("--min-samples", "With dbscan: frames within --cutoff that make a core.", least=1)
        ] = 5,
        weights: Weights = None,
        superposition: Superposition = True,
        random_state: Annotated[int, Option("--random-state", "With kmeans: seed of the first means.", least=0)] = 0,
    ) -> None:
        given: dict[str, Any] = {"method": method, "cutoff": cutoff, "n_clusters": n_clusters}
        given |= {} if min_samples == 5 else {"min_samples": min_samples}
        given |= {} if random_state == 0 else {"random_state": random_state}
        _check(**{name: value for name, value in given.items() if value is not None})
        self._features = trajectory if isinstance(trajectory, Features) else None
        if isinstance(trajectory, Features):
            _check_with_features(select, weights, superposition, cutoff, n_clusters)
            select, trajectory = trajectory.selection, trajectory.trajectory
            given |= self._features.arguments if self._features else {}
        self._method, self._n_clusters = method, n_clusters
        self._cutoff = CUTOFF if cutoff is None and n_clusters is None else cutoff
        self._min_samples, self._random_state = int(min_samples), int(random_state)
        given |= {"cutoff": self._cutoff, "weights": weights, "superposition": superposition}
        super().__init__(trajectory, select, **given)
        is_euclidean = method in clustering.EUCLIDEAN or self._features is not None
        align = "average" if is_euclidean and superposition and self._features is None else None
        with self._noting():
            self._weights = self._weights_of(weights)
            self._alignment = Alignment(trajectory, self.selection, align, align_weights=weights if align else None)
            if align:
                self._alignment.read_reference()
            self._pairs = AllPairs(trajectory, self.selection, self._weights, bool(superposition) and not is_euclidean)
        # positions, RMSDs unless it is k-means, and the average; features have one
        self.n_passes = 1 if self._features else (1 if method == "kmeans" else 2) + (align is not None)
        if self._features:
            self._notes = list(self._features.notes)

    @property
    def selections(self) -> Sequence[Selection]:
        return super().selections if self._features is None else self._features.selections

    @property
    def measures_whole_molecules(self) -> bool:
        return self._features is None

    def notes_before(self, frames: FrameSelection) -> Sequence[str]:
        return super().notes_before(frames) if self._features is None else self._features.notes_before(frames)

    @property
    def _unit(self) -> str:
        """The unit of distances: "1" if features have several."""
        units = {"angstrom"} if self._features is None else set(self._features.units)
        return units.pop() if len(units) == 1 else "1"

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        _check(**given)
        if followed:
            raise ArgumentError("clusters need all frames, and --follow cannot read them twice; leave it out")
        super().check_arguments(given, followed=followed)

    def check_memory(self, frames: FrameSelection, memory: int) -> None:
        n = len(frames)
        if self._method == "kmeans":
            # points, and differences from the means
            needed, what = 2 * self._bytes_of_points(n), "points of"
        else:
            # hierarchical methods copy distances, and DBSCAN has a list of them
            copies = n_pairs(n) if self._method != "gromos" else 0
            needed, what = self._bytes_of_points(n) + 8 * (2 * n_pairs(n) + copies), "distances between"
        if needed > memory:
            raise MemoryLimitError(
                f"the memory limit is too small for {what} {counted(n, 'frame')}, expected at least {needed:,} bytes, "
                f"found {memory:,}; take fewer frames (step=), or give memory="
            )

    def _bytes_of_points(self, n_frames: int) -> int:
        if self._features is None:
            return self._pairs.bytes_of_positions(n_frames)
        return 8 * n_frames * len(self._features.names)

    def _passes(self, frames: FrameSelection) -> Passes:
        n = len(frames)
        if n < max(2, self._n_clusters or 0):
            least = counted(max(2, self._n_clusters or 0), "frame")
            raise ArgumentError(f"clusters need at least {least} here, found {n}")
        if self._features is None:
            transforms = yield from self._alignment.passes()
            yield from self._pairs.read(frames, transforms)
            points, time = None, self._pairs.time
        else:
            points, time = yield from self._rows_of(self._features, frames)
        more: dict[str, Any] = {}
        if self._method == "kmeans":
            points = self._points() if points is None else points
            found, places = clustering.by_means(points, self._n_clusters or 1, self._random_state)
        else:
            if points is None:
                condensed = yield from self._pairs.condensed(frames)
            else:
                condensed = clustering.distances_of(points)
            found = self._partition(condensed, n)
            places = clustering.centers_of(condensed, found.labels)
            more["condensed"] = condensed
        self._pairs.forget()
        numbers = frames.numbers().astype(np.int64)
        if found.most_neighbors is not None:
            more["most_neighbors"] = numbers[found.most_neighbors]
        if found.linkage is not None:
            more["linkage"] = found.linkage
        self._note_number(found)
        return Results(
            labels=found.labels,
            sizes=found.sizes,
            centers=numbers[places],
            transitions=clustering.transitions_of(found.labels, len(found.sizes)),
            **more,
            frames=numbers,
            time=time,
            values=found.labels.reshape(-1, 1),
        )

    def _rows_of(
        self, features: Features, frames: FrameSelection
    ) -> Generator[Any, Any, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The features of each frame, and the times of the frames."""
        found = yield from features._passes(frames)
        self._notes = list(dict.fromkeys((*self._notes, *features._notes)))
        rows = np.asarray(found.features)
        features.check_defined(rows, found.frames)
        return rows, np.asarray(found.time)

    def _partition(self, condensed: NDArray[np.float64], n: int) -> clustering.Partition:
        if self._method == "gromos":
            return clustering.by_gromos(condensed, n, self._cutoff or 0.0)
        if self._method == "dbscan":
            return clustering.by_density(condensed, n, self._cutoff or 0.0, self._min_samples)
        return clustering.by_linkage(condensed, self._method, self._n_clusters, self._cutoff)

    def _points(self) -> NDArray[np.float64]:
        """(frames, 3 * atoms) coordinates whose Euclidean distances are RMSDs as frames lie."""
        positions = self._pairs.positions.astype(np.float64)
        weights = np.ones(positions.shape[1]) if self._weights is None else self._weights
        positions *= np.sqrt(weights / weights.sum())[:, None]
        return positions.reshape(len(positions), -1)

    def _note_number(self, found: clustering.Partition) -> None:
        """Notes one cluster, hundreds of clusters and noise alone, with the argument that changes this."""
        n_clusters, n = len(found.sizes), len(found.labels)
        if self._n_clusters is not None:
            if n_clusters < self._n_clusters:
                tied = f"the tree has no cut into {self._n_clusters} clusters, as merges have equal heights"
                self._add_notes([f"{tied}: there are {n_clusters}"])
            return
        unit = "" if self._unit == "1" else f" {self._unit}"
        cutoff = f"cutoff={self._cutoff:g}{unit}"
        if n_clusters == 0:
            self._add_notes([f"with {cutoff} all {n:,} frames are noise; raise it, or lower min_samples"])
        elif n_clusters == 1 and found.sizes[0] == n:
            self._add_notes([f"with {cutoff} all {n:,} frames are one cluster; a smaller cutoff divides them"])
        elif n_clusters > _MANY:
            many = f"with {cutoff} there are {n_clusters:,} clusters of {n:,} frames"
            self._add_notes([f"{many}, {int((found.sizes == 1).sum()):,} of one frame; a larger cutoff joins them"])

    @property
    def subject(self) -> str:
        """See `DeclaredAnalysis`: "5 clusters of 98 frames by gromos, with 40, 30, 20, 7, 1 frames"."""
        if not self.results:
            return f"clusters of frames by {self._method}"
        sizes, n = self.results.sizes, len(self.results.labels)
        shown = [f"{size:,}" for size in sizes[:5]] + ([] if len(sizes) <= 5 else ["..."])
        noise = n - int(sizes.sum())
        some = f", with {', '.join(shown)} frames" if len(sizes) > 1 else ""
        noted = f", {counted(noise, 'frame')} of noise" if noise else ""
        return f"{counted(len(sizes), 'cluster')} of {counted(n, 'frame')} by {self._method}{some}{noted}"

    def _table(self) -> Table:
        return Table(self._title, (*self._frames_and_times(), Column("cluster", self.results.labels, "1")), x="time")

    def clusters(self) -> Table:
        """A row for each cluster: size, share of the frames, centre with its time.

        Raises ArgumentError before `run`.
        """
        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        found = self.results
        numbers = np.asarray(found.frames)
        _, places = np.unique(numbers, return_index=True)
        of_centers = places[np.searchsorted(np.sort(np.unique(numbers)), found.centers)]
        columns = [
            Column("cluster", np.arange(len(found.sizes))),
            Column("frames", found.sizes),
            Column("share", found.sizes / len(numbers), "1"),
            Column("center", found.centers),
            Column("center_time", np.asarray(found.time)[of_centers], "ps"),
        ]
        if "most_neighbors" in found:
            columns.append(Column("most_neighbors", found.most_neighbors))
        return Table(f"Clusters of {counted(len(numbers), 'frame')}", tuple(columns), x="cluster")

    def save_clusters(
        self, path: str | os.PathLike[str], *, output_time_unit: str = "ps", overwrite: bool = False
    ) -> None:
        """Writes the table of `clusters`; arguments and errors are those of `save`."""
        from kinema.storage.output_checks import check_not_input
        from kinema.storage.tables import check_writable, write_table

        check_not_input(path, *self.trajectory.paths, *self.other_files)
        check_writable(path, overwrite=overwrite)
        table = self.clusters().change_units("angstrom", output_time_unit)
        write_table(path, table, self.provenance(), overwrite=overwrite)

    def write_centers(
        self,
        folder: str | os.PathLike[str],
        *,
        suffix: str = "",
        select: AtomChoice = None,
        overwrite: bool = False,
    ) -> Sequence[str]:
        """Writes the centre of each cluster to a file, and returns their names: cluster-0.pdb, cluster-1.pdb, ...

        Parameters
        ----------
        folder : path
            It is made if it does not exist.
        suffix : str
            ".pdb", ".gro" or of a trajectory; by default .pdb with a topology, otherwise the suffix of the trajectory.
        select : as `Trajectory.select`
            Atoms to write; by default all.
        overwrite : bool
            Replace existing files.

        Raises
        ------
        ArgumentError before `run`; the errors of `kinema.convert`.
        """
        suffix = suffix or ("" if self.trajectory.topology is None else ".pdb")
        chosen = [np.array([frame]) for frame in self.results.centers] if self.results else None
        return self._write_frames(folder, chosen, suffix, select, overwrite)

    def write_clusters(
        self,
        folder: str | os.PathLike[str],
        *,
        suffix: str = "",
        select: AtomChoice = None,
        overwrite: bool = False,
    ) -> Sequence[str]:
        """Writes the frames of each cluster to a trajectory, and returns their names; noise is not written.

        Arguments and errors are those of `write_centers`; by default files have the suffix of the trajectory.
        """
        found = self.results
        chosen = None
        if found:
            frames = np.asarray(found.frames)
            chosen = [frames[found.labels == cluster] for cluster in range(len(found.sizes))]
        return self._write_frames(folder, chosen, suffix, select, overwrite)

    def _write_frames(
        self,
        folder: str | os.PathLike[str],
        chosen: Sequence[NDArray[np.int64]] | None,
        suffix: str,
        select: AtomChoice,
        overwrite: bool,
    ) -> Sequence[str]:
        """Writes some frames to a file for each cluster."""
        from kinema.files.convert import convert

        if chosen is None:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        suffix = suffix or os.path.splitext(self.trajectory.paths[0])[1]
        with os_errors("cannot make the folder", os.fspath(folder)):
            os.makedirs(folder, exist_ok=True)
        digits = len(str(max(len(chosen) - 1, 0)))
        names = [os.path.join(os.fspath(folder), f"cluster-{i:0{digits}}{suffix}") for i in range(len(chosen))]
        for name, frames in zip(names, chosen, strict=True):
            convert(self.trajectory, name, frames=frames, select=select, overwrite=overwrite)
        return names

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_clusters

        _, time, labels = table.columns
        found = self.results
        linkage = found.linkage if "linkage" in found else None
        height = None if linkage is None else self._height(linkage)
        return draw_clusters(time, labels.values, found.sizes, self.subject, linkage, height, self._unit)

    def _height(self, linkage: NDArray[np.float64]) -> float:
        """The height at which the tree is cut, angstrom."""
        if self._cutoff is not None:
            return self._cutoff
        n_clusters = len(self.results.sizes)
        below, above = linkage[-n_clusters, 2] if n_clusters <= len(linkage) else 0.0, linkage[-1, 2]
        above = linkage[1 - n_clusters, 2] if n_clusters > 1 else above
        return float(below + above) / 2


def _check_with_features(
    select: Any, weights: Any, superposition: bool, cutoff: float | None, n_clusters: int | None
) -> None:
    """Raises ArgumentError for arguments of positions, and without a cutoff or a number of clusters."""
    given = {"select": select is not None, "weights": weights is not None, "superposition": not superposition}
    wrong = [f"{name}=" for name, is_given in given.items() if is_given]
    if wrong:
        raise ArgumentError(f"clusters of features have no {' and no '.join(wrong)}: these are of positions")
    if cutoff is None and n_clusters is None:
        raise ArgumentError("clusters of features need cutoff= in their unit, or n_clusters=")


def _check(
    method: str = "gromos",
    cutoff: float | None = None,
    n_clusters: int | None = None,
    min_samples: int | None = None,
    random_state: int | None = None,
    **_: Any,
) -> None:
    """Raises ArgumentError for arguments that exclude or need each other; None: not given."""
    check_choice("method", method, clustering.METHODS)
    if n_clusters is not None:
        whole_number("n_clusters", n_clusters)
        if method in ("gromos", "dbscan"):
            raise ArgumentError(f"method={method!r} finds the number of clusters itself; leave out n_clusters=")
        if cutoff is not None:
            raise ArgumentError("n_clusters= and cutoff= exclude each other; give one of them")
    elif method == "kmeans":
        raise ArgumentError("method='kmeans' needs n_clusters=")
    elif method == "ward" and cutoff is None:
        raise ArgumentError("method='ward' needs n_clusters=, or a height of its tree as cutoff=")
    if method == "kmeans" and cutoff is not None:
        raise ArgumentError("method='kmeans' takes n_clusters= and no cutoff=")
    if cutoff is not None and not 0 < cutoff < np.inf:
        raise ArgumentError(f"cutoff must be above 0, angstrom, found {cutoff!r}")
    for name, value, of in (("min_samples", min_samples, "dbscan"), ("random_state", random_state, "kmeans")):
        if value is not None and method != of:
            raise ArgumentError(f"{name}= is for method={of!r}, found method={method!r}")
