"""Building blocks of conformance files (metadata, elements, boxes), and the list of cases with its decorator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.testing.synthetic import random_walk

N_FRAMES, N_ATOMS = 7, 5
"""Sizes of the files, unless a case needs others."""


@dataclass
class Expected:
    """The values that a reader must return; arrays in Kinema's units (angstrom, ps), None if a file has none."""

    positions: NDArray[np.float64] | None = None
    """(frames, N, 3)."""
    velocities: NDArray[np.float64] | None = None
    forces: NDArray[np.float64] | None = None
    cells: NDArray[np.float64] | None = None
    """(frames, 3, 3)."""
    steps: NDArray[np.int64] | None = None
    times: NDArray[np.float64] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `kinema.open` besides the path."""
    through_library: bool = False
    """Whether positions can only be read through h5py."""
    tolerance: float = 1e-12
    """Relative tolerance, for values that the file stores in fewer digits than float64."""


@dataclass(frozen=True)
class ConformanceFile:
    """One conformance file: `write` makes it and returns what it holds."""

    name: str
    row: str
    """Row of the checklist: "3 elements"."""
    write: Callable[[Path], Expected]

    def __str__(self) -> str:
        return self.name


CASES: list[ConformanceFile] = []


def case(row: str, name: str | None = None, **arguments: Any) -> Callable[[Callable[..., Expected]], Any]:
    """Decorator that adds a function, called with these arguments, to the list of cases."""

    def enter(function: Callable[..., Expected]) -> Callable[..., Expected]:
        def write(path: Path) -> Expected:
            return function(path, **arguments)

        CASES.append(ConformanceFile(name or function.__name__, row, write))
        return function

    return enter


TRICLINIC = np.array([[5.0, 0, 0], [1.5, 4, 0], [-1, 0.5, 6]], np.float32)
"""Rows of a cell in nm."""

KCAL = 4.184
EV = 1.602176634e-19 * 6.02214076e23 / 1000
"""1 eV in kJ/mol."""


def start_h5md(file: Any, root: str = "/", creator: str = "a test") -> Any:
    """Writes the metadata that every H5MD file has. Returns the root group."""
    group = file.require_group(root)
    metadata = group.create_group("h5md")
    metadata.attrs["version"] = np.array([1, 1], np.int32)
    metadata.create_group("author").attrs["name"] = np.bytes_(b"N.N.")
    metadata.create_group("creator").attrs.update({"name": np.bytes_(creator.encode()), "version": np.bytes_(b"1.0")})
    return group


@contextmanager
def particles_all(path: str | os.PathLike[str], *, creator: str = "a test", **how: Any) -> Iterator[Any]:
    """The particles group `all` of a new H5MD file, which is closed at the end; `how` goes to `h5py.File`."""
    with h5py.File(path, "w", **how) as file:
        yield start_h5md(file, creator=creator).create_group("particles/all")


def add_element(
    group: Any,
    name: str,
    value: Any,
    *,
    steps: Any = None,
    times: Any = None,
    unit: str | None = None,
    time_unit: str | None = "ps",
    step_offset: int | None = None,
    time_offset: float | None = None,
    **storage: Any,
) -> Any:
    """Adds an element: a data set without steps, with arrays of steps and times, or with scalars for fixed intervals.

    `steps` and `times` may be data sets, which are then linked. `storage` goes to `create_dataset`.
    """
    if steps is None and times is None:
        node = dataset = group.create_dataset(name, data=value, **storage)
    else:
        node = group.create_group(name)
        dataset = node.create_dataset("value", data=value, **storage)
        for axis, given, offset in (("step", steps, step_offset), ("time", times, time_offset)):
            if isinstance(given, h5py.Dataset):
                node[axis] = given
            elif given is not None:
                node[axis] = given
                if offset is not None:
                    node[axis].attrs["offset"] = offset
        if times is not None and time_unit is not None and "unit" not in node["time"].attrs:
            node["time"].attrs["unit"] = np.bytes_(time_unit.encode())
    if unit is not None:
        dataset.attrs["unit"] = np.bytes_(unit.encode())
    return node


def replace_positions(path: Path, values: Any, kind: Any, plist: Any = None, most: Any = None) -> None:
    """Stores positions in nm again, in a data set that h5py's high-level functions do not make."""
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["value"]
        made = h5py.h5d.create(position.id, b"value", kind, h5py.h5s.create_simple(values.shape, most), plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        position["value"].attrs["unit"] = "nm"


def add_box(group: Any, boundary: Sequence[str] = ("periodic",) * 3, dimension: int = 3) -> Any:
    """Adds the box of a particles group, without edges."""
    box = group.create_group("box")
    box.attrs["dimension"] = dimension
    box.attrs["boundary"] = np.array([word.encode() for word in boundary], "S8")
    return box


def walk(n_frames: int = N_FRAMES, n_atoms: int = N_ATOMS, seed: int = 0) -> NDArray[np.float32]:
    """Positions in nm, as they are stored."""
    return (random_walk(n_frames, n_atoms, seed=seed) / 10).astype(np.float32)


def scaled(values: NDArray[Any], factor: float) -> NDArray[np.float64]:
    """Stored values in Kinema's units, converted to float64 before they are multiplied."""
    return values.astype(np.float64) * factor


def clock(n_frames: int = N_FRAMES) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Steps 100, 110, ... and their times in ps."""
    steps = 100 + 10 * np.arange(n_frames, dtype=np.int64)
    return steps, 0.002 * steps.astype(np.float64)


def plain_file(path: Path, positions: Any = None, unit: str = "nm", scale: float = 10.0, **storage: Any) -> Expected:
    """A simple file whose positions are stored as `storage` says."""
    values = walk() if positions is None else positions
    steps, times = clock(len(values))
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps, times=times, unit=unit, **storage)
    return Expected(positions=values.astype(np.float64) * scale, steps=steps, times=times)


def small_file(
    folder: Path,
    fill: Callable[[Any], None] | None = None,
    name: str = "made.h5md",
    unit: str | None = "nm",
    values: Any = None,
    steps: Any = tuple(range(0, 10 * N_FRAMES, 10)),
    times: Any = None,
    creator: str = "a test",
    **storage: Any,
) -> Path:
    """A file with one particles group, `all`, and positions; `fill(group)` adds to the group."""
    path = folder / name
    with particles_all(path, creator=creator) as group:
        given = walk() if values is None else values
        add_element(group, "position", given, steps=steps, times=times, unit=unit, **storage)
        if fill is not None:
            fill(group)
    return path


def write_small_chunks(path: Path, n_frames: int, *, libver: str = "earliest") -> Path:
    """An H5MD file of two atoms with a chunk for each frame; the numbers of frame i are 6 i to 6 i + 5, in nm."""
    with particles_all(path, libver=libver) as group:
        position = group.create_group("position")
        value = position.create_dataset("value", (n_frames, 2, 3), "f4", chunks=(1, 2, 3), maxshape=(None, 2, 3))
        value.attrs["unit"] = "nm"
        for number, frame in enumerate(np.arange(6 * n_frames, dtype="<f4").reshape(n_frames, 2, 3)):
            value.id.write_direct_chunk((number, 0, 0), frame.tobytes())
        position.create_dataset("step", data=np.arange(n_frames), maxshape=(None,), chunks=(4096,))
        time = position.create_dataset("time", data=0.5 * np.arange(n_frames), maxshape=(None,), chunks=(4096,))
        time.attrs["unit"] = "ps"
        add_box(group, ("none",) * 3)
    return path
