"""Principal components as eigenvectors, and measures of how alike and how random they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cosine_content", "rmsip"]

# of that many coordinates on, few components are found without the others
_MANY_COORDINATES = 1500


def cosine_content(projections: NDArray[np.floating], component: int) -> float:
    """How much the projection on a component, from 0, looks like a cosine with as many half periods and one more.

        c_k = 2/T ( int cos(k pi t / T) p_k(t) dt )^2 / int p_k(t)^2 dt,   k = component + 1

    From 0 to 1; near 1 for random diffusion. Frames are equally far apart in time. `projections` (frames, components).
    Source: B. Hess, Phys. Rev. E 65, 031910 (2002).
    """
    from scipy.integrate import simpson

    values = np.asarray(projections, np.float64)[:, component]
    times = np.arange(len(values))
    cosine = np.cos(np.pi * times * (component + 1) / len(values))
    square = float(simpson(values * values, x=times))
    return float(2.0 / len(values) * simpson(cosine * values, x=times) ** 2 / square) if square > 0 else 0.0


def rmsip(one: NDArray[np.floating], other: NDArray[np.floating], n_components: int | None = None) -> float:
    """Root mean square of the inner products of the first components of two analyses: from 0 to 1, 1 for one space.

    `one`, `other`: (3 * atoms, components), as `results.p_components`. Source: A. Amadei, M. A. Ceruso, A. Di Nola,
    Proteins 36, 419 (1999). Raises ArgumentError for components of different numbers of atoms.
    """
    if len(one) != len(other):
        raise ArgumentError(f"components have {len(one)} and {len(other)} coordinates, expected as many")
    first, second = one[:, :n_components], other[:, :n_components]
    return float(np.sqrt(((first.T @ second) ** 2).sum() / first.shape[1]))


def eigenvectors(
    covariance: NDArray[np.float64], n_components: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, descending, and eigenvectors as columns, whose largest element is positive."""
    from threadpoolctl import threadpool_limits

    # one thread: the digits do not depend on the machine's cores, and threads that wait for busy cores take far longer
    with threadpool_limits(limits=1):
        if n_components is not None and len(covariance) >= _MANY_COORDINATES and n_components * 10 < len(covariance):
            from scipy.sparse.linalg import eigsh

            # a fixed start gives the same digits in each run
            values, vectors = eigsh(covariance, k=n_components, v0=np.ones(len(covariance)))
            order = np.argsort(values)[::-1]
        else:
            values, vectors = np.linalg.eigh(covariance)
            order = np.arange(len(values))[::-1][:n_components]
    values, vectors = np.maximum(values[order], 0.0), vectors[:, order]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)[0]
    return values, np.ascontiguousarray(vectors * np.where(largest < 0, -1.0, 1.0))
