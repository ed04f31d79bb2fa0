"""Principal components as eigenvectors, and measures of how alike and how random they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.model.frame import Frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cosine_content", "cumulative_overlap", "rmsip"]


class InverseProjection:
    """A function that replaces positions of a frame by the mean and the motion along some components."""

    def __init__(
        self, mean: NDArray[np.float64], components: NDArray[np.float64], scale: NDArray[np.float64] | None
    ) -> None:
        self.mean, self.components, self.scale = mean, components, scale

    def __call__(self, frame: Any) -> Any:
        positions = np.asarray(frame.positions, np.float64)
        if positions.shape != self.mean.shape:
            found = " x ".join(map(str, positions.shape))
            raise ArgumentError(f"the frame has positions of {found}, expected {len(self.mean)} x 3, as the PCA has")
        apart = (positions - self.mean).ravel()
        scale = 1.0 if self.scale is None else self.scale
        along = self.components.T @ (apart * scale)
        moved = self.mean + (self.components @ along / scale).reshape(-1, 3)
        if isinstance(frame, Frame):
            return replace(frame, positions=moved)
        frame.positions = moved
        return frame


# of that many coordinates on, few components are found without the others
_MANY_COORDINATES = 1500
# rows and columns of a matrix product at a time, always as many: the bits do not depend on the memory
_ROWS, _COLUMNS = 1024, 4096


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


def cumulative_overlap(
    one: NDArray[np.floating], other: NDArray[np.floating], component: int = 0, n_components: int | None = None
) -> float:
    """How much of a component lies in the space of the first components of another analysis: from 0 to 1.

        sqrt( sum_j (u . v_j)^2 ),   u a component of the one, from 0, v_j the first `n_components` of the other

    `one`, `other`: (3 * atoms, components), as `results.p_components`. Source: L. Yang, G. Song, A. Carriquiry,
    R. L. Jernigan, Structure 16, 321 (2008). Raises ArgumentError for components of different numbers of atoms.
    """
    if len(one) != len(other):
        raise ArgumentError(f"components have {len(one)} and {len(other)} coordinates, expected as many")
    return float(np.sqrt(((one[:, component] @ other[:, :n_components]) ** 2).sum()))


def eigenvectors(
    covariance: NDArray[np.float64], n_components: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, descending, and eigenvectors as columns, whose largest element is positive."""
    from threadpoolctl import threadpool_limits

    # one thread: the digits do not depend on the machine's cores, and threads that wait for busy cores take far longer
    with threadpool_limits(limits=1):
        values, vectors = _eigenvectors(covariance, n_components)
    return values, _with_signs(vectors)


def eigenvectors_of_rows(
    rows: NDArray[np.floating],
    origin: NDArray[np.float64],
    scale: NDArray[np.float64] | None = None,
    n_components: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Eigenvalues and eigenvectors of the covariance of rows about `origin`, and the sum of all eigenvalues.

        C = sum_t x(t) x(t)^T / (n - 1),   x(t) = (row t - origin) * scale

    If there are fewer rows than columns, and no more components are wanted than rows have, they are made of the
    eigenvectors w_k of the (n, n) products of rows, X X^T w_k = (n - 1) l_k w_k, as u_k = X^T w_k / |X^T w_k|: C is
    never made.

    `rows`: (n, columns).
    `origin`: (columns,).
    `scale`: (columns,), optional.
    `n_components`: if None, as many as there are columns.
    """
    from threadpoolctl import threadpool_limits

    n, width = rows.shape
    with threadpool_limits(limits=1):
        if not uses_rows(n, width, n_components):
            covariance = np.zeros((width, width))
            for first in range(0, n, _ROWS):
                part = _apart(rows[first : first + _ROWS], origin, scale)
                covariance += part.T @ part
            covariance /= n - 1
            total = float(np.trace(covariance))
            values, vectors = _eigenvectors(covariance, n_components)
            return values, _with_signs(vectors), total
        products = np.zeros((n, n))
        columns = [slice(first, first + _COLUMNS) for first in range(0, width, _COLUMNS)]
        for some in columns:
            part = _apart(rows[:, some], origin[some], None if scale is None else scale[some])
            products += part @ part.T
        products /= n - 1
        total = float(np.trace(products))
        values, weights = _eigenvectors(products, n_components)
        vectors = np.empty((width, len(values)))
        for some in columns:
            part = _apart(rows[:, some], origin[some], None if scale is None else scale[some])
            vectors[some] = part.T @ weights
        # of length 1, and at right angles even where values are nearly 0
        vectors = np.linalg.qr(vectors)[0]
        return values, _with_signs(vectors), total


def uses_rows(n: int, width: int, n_components: int | None) -> bool:
    """Whether components of `n` rows of `width` columns are made of products of rows, not of the covariance."""
    return n_components is not None and n_components < n < width


def _apart(
    rows: NDArray[np.floating], origin: NDArray[np.float64], scale: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    apart: NDArray[np.float64] = rows - origin
    return apart if scale is None else apart * scale


def _eigenvectors(
    matrix: NDArray[np.float64], n_components: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if n_components is not None and len(matrix) >= _MANY_COORDINATES and n_components * 10 < len(matrix):
        from scipy.sparse.linalg import eigsh

        # a fixed start gives the same digits in each run
        values, vectors = eigsh(matrix, k=n_components, v0=_start(len(matrix)))
        order = np.argsort(values)[::-1]
    else:
        values, vectors = np.linalg.eigh(matrix)
        order = np.arange(len(values))[::-1][:n_components]
    return np.maximum(values[order], 0.0), vectors[:, order]


def _start(n: int) -> NDArray[np.float64]:
    """Where iterations start: not at right angles to any component, as equal numbers are to rows about their mean."""
    start: NDArray[np.float64] = np.cos(np.arange(n) * np.sqrt(2.0)) + 0.5
    return start


def _with_signs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vectors, each with a positive largest element."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)[0]
    return np.ascontiguousarray(vectors * np.where(largest < 0, -1.0, 1.0))
