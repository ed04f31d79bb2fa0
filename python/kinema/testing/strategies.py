"""Hypothesis strategies: synthetic trajectories, every way to choose their frames and atoms, and tables of atoms.

Shrinking works towards few frames, few atoms, no cell and few columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from kinema.model.atom_table import COLUMNS, TUPLES, Atoms
from kinema.testing.amounts import LONG
from kinema.testing.synthetic import Synthetic, synthetic

# names, known and unknown elements, and any text; HDF5 ends a text at a zero character
_WORDS = st.sampled_from(["CA", "C", "Cl", "CL", "H", "", "ALA", "X"]) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5
)
_NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4)


def examples_of_files() -> int:
    """Examples (hypothesis) of a law that writes a file for each: 20, or the number of a long run."""
    return settings().max_examples if LONG else 20


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


@st.composite
def atom_tables(draw: st.DrawFn, *, max_atoms: int = 8, unique_ids: bool = True) -> Atoms:
    """Tables with any columns, possibly none; masses and charges may be NaN or infinite."""
    n_atoms = draw(st.integers(1, max_atoms))
    kinds: dict[type[Any], st.SearchStrategy[Any]] = {
        np.str_: _WORDS,
        np.int64: _NUMBERS,
        np.float64: st.floats(width=64),
    }
    columns: dict[str, Any] = {}
    for column in draw(st.lists(st.sampled_from(list(COLUMNS)), unique=True)):
        if column in TUPLES:
            rows = st.lists(st.integers(0, n_atoms - 1), min_size=TUPLES[column], max_size=TUPLES[column])
            columns[column] = np.array(draw(st.lists(rows, max_size=5)), dtype=np.int64).reshape(-1, TUPLES[column])
            continue
        unique = unique_ids and column == "ids"
        values = draw(st.lists(kinds[COLUMNS[column]], min_size=n_atoms, max_size=n_atoms, unique=unique))
        columns[column] = np.array(values, dtype=COLUMNS[column])
    guessed = draw(st.lists(st.sampled_from(list(columns)), unique=True)) if columns else []
    return Atoms(n_atoms, name="a drawn table", guessed=guessed, **columns)
