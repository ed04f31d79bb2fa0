"""Motion of atoms from frame to frame, and unusually large steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.trajectory import Trajectory

# Motion is judged by atoms spread evenly over the system; more atoms would not show jumps any better.
_ATOMS_FOR_MOTION = 5000
# The median needs at least this many steps.
_STEPS_FOR_A_MEDIAN = 5
# A cell of unit edges counts as flat if its squared volume is below this.
_FLAT = 1e-12


class Motion:
    """Displacements from frame to frame, angstrom: `steps` has one per frame, NaN if the previous frame is unknown."""

    def __init__(self, part: Trajectory) -> None:
        n_atoms = part.n_atoms
        self._atoms = np.unique(np.linspace(0, n_atoms - 1, min(n_atoms, _ATOMS_FOR_MOTION)).astype(np.int64))
        self._last: tuple[NDArray[Any], NDArray[np.int64]] | None = None
        self.steps = np.full(len(part), np.nan)

    def add(
        self,
        positions: NDArray[Any],
        cells: NDArray[Any],
        periodic: NDArray[np.bool_],
        frames: NDArray[np.uint64],
        absent: Sequence[int],
    ) -> None:
        """Adds the next frames, in ascending order; `absent` lists the frames so far without positions, which do not
        interrupt the sequence.

        `cells` is (frames, 3, 3); `periodic` (frames, 3) marks the edges that repeat.
        """
        if not len(frames):
            return
        chain, numbers = positions[:, self._atoms].astype(np.float64), frames.astype(np.int64)
        last = (chain[-1:], numbers[-1:])
        if self._last is not None:
            chain, numbers = (np.concatenate(pair) for pair in zip(self._last, (chain, numbers), strict=True))
        moved = _displacement(chain, cells, periodic)
        # a step across left-out frames is longer than usual
        ranks = numbers - np.searchsorted(np.array(absent, np.int64), numbers)
        moved[np.diff(ranks) != 1] = np.nan
        self.steps[numbers[1:]] = moved
        self._last = last


def _displacement(chain: NDArray[np.float64], cells: NDArray[Any], periodic: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Root-mean-square displacement from frame to frame, angstrom: (frames - 1,), images along periodic edges."""
    moved = np.diff(chain, axis=0)
    later = slice(len(cells) - len(moved), None)
    edges, dual = _lattices(cells[later].astype(np.float64), periodic[later])
    with np.errstate(all="ignore"):  # NaN is reported separately
        moved -= np.round(moved @ dual) @ edges
        rms: NDArray[np.float64] = np.sqrt((moved**2).sum(axis=2).mean(axis=1))
    return rms


def _lattices(
    cells: NDArray[np.float64], periodic: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cell edges, and the matrices that make reduced coordinates, (frames, 3, 3) each.

    Edges that are open or have no length are zero; so are all edges of a frame whose cell is flat.
    """
    finite = np.isfinite(cells).all(axis=(1, 2), keepdims=True)
    edges = np.where(finite & periodic[:, :, None], cells, 0.0)
    products = edges @ edges.transpose(0, 2, 1)
    lengths = np.einsum("fii->fi", products)
    lengths[lengths == 0.0] = 1.0
    flat: NDArray[np.bool_] = np.linalg.det(products) <= _FLAT * lengths.prod(axis=1)
    edges[flat], products[flat] = 0.0, np.eye(3)
    return edges, edges.transpose(0, 2, 1) @ np.linalg.inv(products)


def jumps(steps: NDArray[np.float64], jump: float) -> Iterator[tuple[int, str]]:
    """Frames with a step of more than `jump` times the median, each with its message."""
    known = steps[np.isfinite(steps)]
    if known.size < _STEPS_FOR_A_MEDIAN:
        return
    usual = float(np.median(known))
    if usual == 0:
        return
    # values that are not finite are reported separately
    for i in np.flatnonzero(np.where(np.isfinite(steps), steps, 0.0) > jump * usual):
        message = f"atoms moved by {steps[i]:.3g} angstrom since the frame before, {usual:.3g} is usual"
        yield int(i), message
