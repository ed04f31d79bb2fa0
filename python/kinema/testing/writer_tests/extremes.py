"""Frames with extreme values for the suite of writers, and the law that a file returns what its writer accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinema.testing.written import GivenFrames

if TYPE_CHECKING:
    from kinema.testing.writer_tests.case import WriterCase

_CUBOID = np.diag([30.0, 40.0, 50.0])
_TRICLINIC = np.array([[30.0, 0.0, 0.0], [5.0, 28.0, 0.0], [4.0, 7.0, 30.0]])
# row vectors in angstrom
_CELLS: dict[str, NDArray[np.float64]] = {
    "cuboid": _CUBOID,
    "triclinic": _TRICLINIC,
    "along other axes": _TRICLINIC[:, [1, 2, 0]],
    "unreduced": np.array([[30.0, 0.0, 0.0], [500.0, 28.0, 0.0], [4.0, 700.0, 30.0]]),
    "left-handed": _TRICLINIC * [1.0, 1.0, -1.0],
    "left-handed cuboid": _CUBOID[[1, 0, 2]],
    "negative": np.diag([30.0, -40.0, 50.0]),
    "parallel": np.array([[10.0, 0.0, 0.0], [20.0, 0.0, 0.0], [0.0, 0.0, 10.0]]),
    "nearly parallel": np.array([[10.0, 0.0, 0.0], [20.0, 1e-9, 0.0], [0.0, 0.0, 10.0]]),
    "flat": np.array([[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [3.0, 4.0, 0.0]]),
    "slab": np.diag([30.0, 40.0, 0.0]),
    "wire": np.diag([0.0, 0.0, 50.0]),
    "short edge": np.diag([30.0, 40.0, 1e-12]),
    "angstroms": np.eye(3),
    "long": _CUBOID * 1e6,
    "near the largest": np.diag([3e38, 3e38, 3e38]),
    "beyond the largest": _TRICLINIC * 1e37,
    "huge": _TRICLINIC * 1e298,
    "one huge element": np.array([[30.0, 0.0, 0.0], [5.0, 1e200, 0.0], [4.0, 7.0, 30.0]]),
    "small": _TRICLINIC * 1e-12,
    "tiny": _TRICLINIC * 1e-50,
    "tiniest": _CUBOID * 1e-300,
}
_TIMES = [0.0, 1e-300, 0.1, 1e12, 1e35, 3.5e38, 1e300]
_STEPS = [2**31 - 1, 2**31, 10**9, 10**10, 2**53 + 1, 2**62, 2**63 - 1]
_VALUES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-300, 1e-40, -3.0, 1e8, 1e37, 3e38, -3.5e38, 1e300]
# numbers below this may become 0 in single precision
_SMALLEST = 1.2e-38


def extreme_frames(data: st.DataObject, frames: GivenFrames) -> GivenFrames:
    """`frames` with some numbers, cells, times and steps at the ends of what a float or an integer holds."""
    n = len(frames)
    fields = {name: values.copy() for name, values in frames.fields.items()}
    for values in fields.values():
        if data.draw(st.booleans()):
            place = tuple(data.draw(st.integers(0, length - 1)) for length in values.shape)
            with np.errstate(over="ignore"):
                values[place] = data.draw(st.sampled_from(_VALUES))
    cells, times, steps = frames.cells.copy(), frames.times.copy(), frames.steps.copy()
    if data.draw(st.booleans()):
        every = data.draw(st.booleans())
        first = 0 if every else data.draw(st.integers(0, n - 1))
        rows = slice(None) if every else slice(first, first + 1)
        cells[rows] = _CELLS[data.draw(st.sampled_from(sorted(_CELLS)))]
    if data.draw(st.booleans()):
        if data.draw(st.booleans()):
            times[-1] = max(times[-2], data.draw(st.sampled_from(_TIMES)))
        else:
            times[0] = min(times[1], -data.draw(st.sampled_from(_TIMES)))
    if data.draw(st.booleans()):
        gap = data.draw(st.sampled_from([1, 7, 2**61 - 1]))
        last = data.draw(st.sampled_from(_STEPS))
        steps = np.array([max(last - gap * (n - 1 - i), -(2**63)) for i in range(n)], np.int64)
        if data.draw(st.booleans()):
            steps = -1 - steps[::-1]
    return replace(frames, fields=fields, cells=cells, times=times, steps=steps)


def check_kept(given: GivenFrames, found: GivenFrames, lost: set[str], of: WriterCase) -> None:
    """Asserts that values read equal those given, within rounding, or are in `lost`.

    Cells must be the same lattice, and finite values must stay finite.
    """
    for name in of.fields:
        if name in given.fields:
            _check_values(given.fields[name], found.fields[name], of.tolerance if name == "positions" else 0.0, of)
    cells = np.broadcast_to(given.cells[:1], given.cells.shape) if of.one_cell else given.cells
    for expected, cell in zip(cells, found.cells, strict=True):
        if of.loses_open_edges and not expected.any(axis=1).all():
            continue
        assert _is_same_lattice(expected, cell, of.cell_share), (expected, cell)
    if of.steps != "none" and "steps" not in lost:
        np.testing.assert_array_equal(found.steps, given.steps)
    if of.times not in ("none", "even"):
        assert (np.isfinite(found.times) == np.isfinite(given.times)).all()
        exact = "times" not in lost
        share = 0.0 if exact else 1e-6
        np.testing.assert_allclose(found.times, given.times, rtol=share, atol=0.0 if exact else of.time_rounding)


def _check_values(given: NDArray[Any], found: NDArray[Any], tolerance: float, of: WriterCase) -> None:
    wide = given.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wide))
    np.testing.assert_array_equal(np.isposinf(found), np.isposinf(wide))
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(wide))
    finite = np.isfinite(wide)
    room = max(tolerance, of.velocity_tolerance, _SMALLEST)
    np.testing.assert_allclose(found[finite], wide[finite], rtol=1e-6, atol=room)


def _is_same_lattice(given: NDArray[np.float64], found: NDArray[np.float64], share: float) -> bool:
    """Whether edges have the same lengths, angles and handedness; an edge of length zero stays so."""
    if not np.isfinite(found).all():
        return False
    a, b = (np.hypot(np.hypot(*cell.T[:2]), cell.T[2]) for cell in (given, found))
    if not (np.abs(a - b) <= share * a).all():
        return False
    with np.errstate(invalid="ignore", divide="ignore"):
        one, other = (np.nan_to_num(cell / lengths[:, None]) for cell, lengths in ((given, a), (found, b)))
    angles = np.abs(one @ one.T - other @ other.T).max() <= share
    volumes = np.linalg.det(one), np.linalg.det(other)
    right = not np.abs(one @ one.T - np.diag(np.diag(one @ one.T))).max() > 0
    return bool(angles and (right or volumes[0] * volumes[1] > 0 or max(np.abs(volumes)) <= 1e-6))
