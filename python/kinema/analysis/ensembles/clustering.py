"""Clusters of frames from their distances or positions, each method as a function; sizes, centres and transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kinema import _core
from kinema.base.errors import missing_package

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.analysis.ensembles.frame_pairs import NearFrames

__all__ = [
    "EUCLIDEAN",
    "LINKAGES",
    "METHODS",
    "OF_NEIGHBORS",
    "Partition",
    "by_density",
    "by_gromos",
    "by_linkage",
    "by_means",
    "centers_of",
    "transitions_of",
]

#: methods that merge clusters, and their names in scipy.cluster.hierarchy
LINKAGES: Mapping[str, str] = {"average": "average", "single": "single", "complete": "complete", "ward": "ward"}
#: methods that need distances in a space, such as those of superposed positions
EUCLIDEAN = ("ward", "kmeans")
#: methods that need only the pairs of things below a cutoff
OF_NEIGHBORS = ("gromos", "dbscan")
METHODS: tuple[str, ...] = ("gromos", *LINKAGES, "kmeans", "dbscan")

# relative difference of sums of distances that may be rounding
_ROUNDING = 1e-9
# attempts of k-means, of which the best counts
_ATTEMPTS = 10


@dataclass(frozen=True, eq=False)
class Partition:
    """Things divided into clusters.

    `labels`: (n,) int64; cluster of each thing, from 0 by falling size; the cluster of the earlier thing comes first if
        sizes are equal. -1: in no cluster.
    `most_neighbors`: (clusters,) int64, or None; the thing of each cluster around which it was found.
    `linkage`: (n - 1, 4) float64, or None; merged clusters, as `scipy.cluster.hierarchy.linkage` gives them.
    """

    labels: NDArray[np.int64]
    most_neighbors: NDArray[np.int64] | None = None
    linkage: NDArray[np.float64] | None = None

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(clusters,) number of things in each."""
        return np.bincount(self.labels[self.labels >= 0]).astype(np.int64)


def by_gromos(first: NDArray[np.integer], second: NDArray[np.integer], n: int) -> Partition:
    """Clusters of `n` things from pairs of neighbours: the thing with most neighbours and these are one and leave.

    Neighbours of the rest are counted again.
    """
    # the core takes pairs one after the other
    pairs = np.ascontiguousarray(np.column_stack([first, second]), np.uint32)
    labels, centers = _core.gromos_clusters(pairs, n)
    order = _falling(labels.astype(np.int64))
    return Partition(order[labels], centers.astype(np.int64)[np.argsort(order)])


def by_linkage(condensed: NDArray[np.float64], method: str, n_clusters: int | None, cutoff: float | None) -> Partition:
    """Hierarchical clusters: at most `n_clusters`, or those that merge at a distance of at most `cutoff`."""
    from scipy.cluster.hierarchy import fcluster, linkage

    merged = linkage(condensed, LINKAGES[method])
    if n_clusters is not None:
        labels = fcluster(merged, n_clusters, "maxclust")
    else:
        labels = fcluster(merged, cutoff, "distance")
    return Partition(_renumbered(labels.astype(np.int64) - 1), linkage=merged)


def by_means(points: NDArray[np.float64], n_clusters: int, random_state: int) -> tuple[Partition, NDArray[np.int64]]:
    """Clusters of points (n, d) by k-means, and the point of each that is nearest to its mean.

    Raises MissingPackageError without scikit-learn.
    """
    try:
        from sklearn.cluster import KMeans
    except ImportError as error:
        raise missing_package("method='kmeans'", "scikit-learn", "cluster", error) from None
    from threadpoolctl import threadpool_limits

    # sums of several threads depend on their number
    with threadpool_limits(1):
        labels = KMeans(n_clusters, n_init=_ATTEMPTS, random_state=random_state).fit(points).labels_
    found = Partition(_renumbered(labels.astype(np.int64)))
    centers = []
    for cluster in range(len(found.sizes)):
        members = np.flatnonzero(found.labels == cluster)
        apart = points[members] - points[members].mean(axis=0)
        centers.append(members[np.argmin(np.einsum("ij,ij->i", apart, apart))])
    return found, np.array(centers, np.int64)


def by_density(near: NearFrames, n: int, cutoff: float, min_samples: int) -> Partition:
    """Clusters by DBSCAN: things that have `min_samples` within `cutoff`, with themselves, and the neighbours of these.

    `near` has the pairs of things within the cutoff.

    Raises MissingPackageError without scikit-learn.
    """
    try:
        from sklearn.cluster import DBSCAN
    except ImportError as error:
        raise missing_package("method='dbscan'", "scikit-learn", "cluster", error) from None
    from scipy.sparse import csr_matrix

    things = np.arange(n)
    rows = np.concatenate([near.first, near.second, things])
    columns = np.concatenate([near.second, near.first, things])
    distances = np.concatenate([near.distance, near.distance, np.zeros(n)])
    # an explicit 0 is a distance: rows are put together without adding
    order = np.lexsort((columns, rows))
    counts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    graph = csr_matrix((distances[order], columns[order], counts), shape=(n, n))
    labels = DBSCAN(eps=cutoff, min_samples=min_samples, metric="precomputed").fit(graph).labels_
    return Partition(_renumbered(labels.astype(np.int64)))


def centers_of(sums: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """(clusters,) the thing of each cluster with the least sum of distances from the others.

    The earliest of those whose sums differ by rounding alone: a pair's distance has two sums in any cluster of two.
    """
    kept = np.flatnonzero(labels >= 0)
    least = np.full(labels.max(initial=-1) + 1, np.inf)
    np.minimum.at(least, labels[kept], sums[kept])
    found = kept[sums[kept] <= least[labels[kept]] * (1 + _ROUNDING)]
    _, first = np.unique(labels[found], return_index=True)
    return found[first].astype(np.int64)


def transitions_of(labels: NDArray[np.int64], n_clusters: int) -> NDArray[np.int64]:
    """(clusters, clusters) number of steps from a thing of one cluster to the next thing, of another or of the same.

    Steps to or from things in no cluster are left out.
    """
    before, after = labels[:-1], labels[1:]
    known = (before >= 0) & (after >= 0)
    counts = np.bincount(before[known] * n_clusters + after[known], minlength=n_clusters**2)
    return counts.reshape(n_clusters, n_clusters).astype(np.int64)


def _falling(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each label by falling size, the label of the earlier thing first if sizes are equal."""
    known = labels[labels >= 0]
    sizes = np.bincount(known)
    first = np.full(len(sizes), len(labels))
    np.minimum.at(first, known, np.flatnonzero(labels >= 0))
    order = np.lexsort((first, -sizes))
    numbers = np.empty(len(sizes), np.int64)
    numbers[order] = np.arange(len(sizes))
    return numbers


def _renumbered(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels from 0 by falling size; -1 stays."""
    return np.where(labels < 0, -1, np.append(_falling(labels), -1)[labels])
