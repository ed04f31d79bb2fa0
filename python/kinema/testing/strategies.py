"""Hypothesis strategies: synthetic trajectories, and every way to choose frames and atoms of one.

Shrinking works towards few frames, few atoms and no cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from kinema.testing.synthetic import Synthetic, synthetic

__all__ = ["atom_choices", "frame_choices", "trajectories"]


@st.composite
def trajectories(
    draw: st.DrawFn, *, max_frames: int = 20, max_atoms: int = 40, velocities: bool | None = None
) -> Synthetic:
    """Trajectories of any size and any cell; `velocities` None: some have them."""
    return synthetic(
        draw(st.integers(1, max_frames)),
        draw(st.integers(1, max_atoms)),
        cell=draw(st.sampled_from(["none", "cuboid", "triclinic", "growing"])),
        velocities=draw(st.booleans()) if velocities is None else velocities,
        first_step=draw(st.integers(0, 2**31)),
        stride=draw(st.integers(1, 1000)),
        dt=draw(st.sampled_from([0.002, 1.0, 100.0])),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


@st.composite
def frame_choices(draw: st.DrawFn, n_frames: int) -> Any:
    """Arguments `frames` of `Trajectory.read`: slices of any stride, lists in any order, masks, None."""
    bound = st.none() | st.integers(-n_frames - 2, n_frames + 2)
    step = st.none() | st.integers(-n_frames - 1, n_frames + 1).filter(bool)
    number = st.integers(-n_frames, n_frames - 1)
    return draw(
        st.none()
        | st.builds(slice, bound, bound, step)
        | st.lists(number, min_size=1, max_size=2 * n_frames)
        | st.lists(number, min_size=1, max_size=2 * n_frames).map(np.array)
        | st.lists(st.booleans(), min_size=n_frames, max_size=n_frames).map(np.array)
    )


@st.composite
def atom_choices(draw: st.DrawFn, n_atoms: int) -> Any:
    """Arguments `select` of `Trajectory.read`: indices in any order, masks that are not empty, None."""
    indices = st.lists(st.integers(0, n_atoms - 1), min_size=1, max_size=2 * n_atoms)
    masks = st.lists(st.booleans(), min_size=n_atoms, max_size=n_atoms).filter(any)
    return draw(st.none() | indices.map(np.array) | masks.map(np.array))
