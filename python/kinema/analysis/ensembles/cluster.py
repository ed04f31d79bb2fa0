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

from kinema import _core
from kinema.analysis.base import Passes, Results
from kinema.analysis.declaration import Option, Quantity, Weights
from kinema.analysis.ensembles import clustering
from kinema.analysis.ensembles.features import Features
from kinema.analysis.ensembles.frame_pairs import FeaturePairs, PositionPairs, TakesFeatures
from kinema.analysis.ensembles.rmsd_matrix import Superposition
from kinema.analysis.matrix import n_pairs
from kinema.analysis.structure.alignment import Alignment
from kinema.base.choices import check_choice, whole_number
from kinema.base.errors import ArgumentError, MemoryLimitError, os_errors
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["Clusters"]

#: the cutoff of `gmx cluster`, angstrom
CUTOFF = 1.0
# more clusters are noted
_MANY = 100


class Clusters(TakesFeatures):
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
    results.condensed : (frames * (frames - 1) / 2,) float64, angstrom, for hierarchical methods
        RMSDs of pairs, as those of `RMSDMatrix`; of features their distances, in the unit of the features. gromos and
        dbscan need only the pairs below the cutoff, and no matrix.
    results.frames, results.time : (frames,)
    results.values : the labels

    Raises
    ------
    ArgumentError, also for fewer frames than two or than clusters; MissingPackageError without scikit-learn;
    MemoryLimitError, before the first frame, if the RMSDs of all pairs do not fit into `memory`; gromos and dbscan:
    when the pairs below the cutoff do not.

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
        if isinstance(trajectory, Features):
            self._features = trajectory
            wrong = {"select": select is not None, "weights": weights is not None, "superposition": not superposition}
            self._refuse_with_features(wrong)
            if cutoff is None and n_clusters is None:
                raise ArgumentError("clusters of features need cutoff= in their unit, or n_clusters=")
            select, trajectory = trajectory.selection, trajectory.trajectory
            given |= self._features.arguments
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
            self._pairs = self._frame_pairs(self._weights, bool(superposition) and not is_euclidean)
        # kmeans needs points alone; distances take a pass, and sums within clusters another
        rounds = 0 if method == "kmeans" else 2 if method in clustering.OF_NEIGHBORS else 1
        self.n_passes = self._pairs.n_passes_to_read + rounds * self._pairs.n_passes + (align is not None)
        self._take_notes()

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
            needed, what = 2 * self._pairs.bytes_of_points(n), "points of"
        elif self._method in clustering.OF_NEIGHBORS:
            # and their copy in the order of clusters; pairs count while they come
            needed, what = 2 * self._pairs.bytes_of_points(n), "points of"
            self._pairs.limit(memory, n)
        else:
            # hierarchical methods copy distances
            needed, what = self._pairs.bytes_of_matrix(n) + 8 * n_pairs(n), "distances between"
        if needed > memory:
            raise MemoryLimitError(
                f"the memory limit is too small for {what} {counted(n, 'frame')}, expected at least {needed:,} bytes, "
                f"found {memory:,}; take fewer frames (step=), or give memory="
            )

    def _passes(self, frames: FrameSelection) -> Passes:
        n = len(frames)
        if n < max(2, self._n_clusters or 0):
            least = counted(max(2, self._n_clusters or 0), "frame")
            raise ArgumentError(f"clusters need at least {least} here, found {n}")
        transforms = yield from self._alignment.passes()
        yield from self._pairs.read(frames, transforms)
        self._take_notes()
        more: dict[str, Any] = {}
        if self._method == "kmeans":
            found, places = clustering.by_means(self._points(), self._n_clusters or 1, self._random_state)
        elif self._method in clustering.OF_NEIGHBORS:
            found = yield from self._of_neighbors(frames, self._cutoff or 0.0)
            sums = yield from self._pairs.sums_within(frames, found.labels)
            places = clustering.centers_of(sums, found.labels)
        else:
            condensed: NDArray[Any] = yield from self._pairs.condensed(frames)
            found = clustering.by_linkage(condensed, self._method, self._n_clusters, self._cutoff)
            sums = _core.sums_within_clusters(condensed, found.labels)
            places = clustering.centers_of(sums, found.labels)
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
            time=self._pairs.time,
            values=found.labels.reshape(-1, 1),
        )

    def _of_neighbors(self, frames: FrameSelection, cutoff: float) -> Generator[Any, Any, clustering.Partition]:
        """Clusters from the pairs of frames below the cutoff, without a matrix."""
        if self._method == "gromos":
            near = yield from self._pairs.near(frames, cutoff)
            return clustering.by_gromos(near.first, near.second, len(frames))
        # frames at the cutoff are neighbours too
        near = yield from self._pairs.near(frames, float(np.nextafter(cutoff, np.inf)))
        return clustering.by_density(near, len(frames), cutoff, self._min_samples)

    def _points(self) -> NDArray[np.float64]:
        """(frames, d) features; or coordinates whose Euclidean distances are RMSDs as frames lie."""
        if isinstance(self._pairs, FeaturePairs):
            return self._pairs.points
        assert isinstance(self._pairs, PositionPairs)
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
