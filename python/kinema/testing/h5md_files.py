"""Conformance files for HDF5 trajectories: one small file, or several, for every row of the H5MD reader's checklist.

They are written with plain h5py, never by Kinema, together with what a reader must give. It asserts nothing itself.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.testing.synthetic import random_walk

__all__ = ["CASES", "Case", "Expected", "add_box", "add_element", "start_h5md", "write_gromacs_topology"]

N_FRAMES, N_ATOMS = 7, 5
"""Of the files, where a case does not need others."""


@dataclass
class Expected:
    """What a reader must give; arrays in Kinema's units (angstrom, ps), None where a file has none."""

    positions: NDArray[np.float64] | None = None
    """(frames, N, 3)."""
    velocities: NDArray[np.float64] | None = None
    forces: NDArray[np.float64] | None = None
    cells: NDArray[np.float64] | None = None
    """(frames, 3, 3)."""
    steps: NDArray[np.int64] | None = None
    times: NDArray[np.float64] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `kinema.open` beside the path."""
    through_library: bool = False
    """Whether positions can only be read through h5py."""
    tolerance: float = 1e-12
    """Relative; for values that the file keeps with less than float64."""


@dataclass(frozen=True)
class Case:
    """One conformance file: `write` makes it and says what it holds."""

    name: str
    row: str
    """Of the checklist: "3 elements"."""
    write: Callable[[Path], Expected]

    def __str__(self) -> str:
        return self.name


CASES: list[Case] = []


def _case(row: str, name: str | None = None, **arguments: Any) -> Callable[[Callable[..., Expected]], Any]:
    """Enters a function, called with these arguments, into the list of cases."""

    def enter(function: Callable[..., Expected]) -> Callable[..., Expected]:
        def write(path: Path) -> Expected:
            return function(path, **arguments)

        CASES.append(Case(name or function.__name__, row, write))
        return function

    return enter


# -- building blocks --------------------------------------------------------------------------------------------


def start_h5md(file: Any, root: str = "/", creator: str = "a test") -> Any:
    """The metadata that every H5MD file has; gives the root group."""
    group = file.require_group(root)
    metadata = group.create_group("h5md")
    metadata.attrs["version"] = np.array([1, 1], np.int32)
    metadata.create_group("author").attrs["name"] = np.bytes_(b"N.N.")
    metadata.create_group("creator").attrs.update({"name": np.bytes_(creator.encode()), "version": np.bytes_(b"1.0")})
    return group


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
    """An element: a data set without steps, explicit with arrays of steps and times, at fixed intervals with scalars.

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


def add_box(group: Any, boundary: Sequence[str] = ("periodic",) * 3, dimension: int = 3) -> Any:
    """The box of a particles group, without edges."""
    box = group.create_group("box")
    box.attrs["dimension"] = dimension
    box.attrs["boundary"] = np.array([word.encode() for word in boundary], "S8")
    return box


def walk(n_frames: int = N_FRAMES, n_atoms: int = N_ATOMS, seed: int = 0) -> NDArray[np.float32]:
    """Positions in nm, as they are stored."""
    return (random_walk(n_frames, n_atoms, seed=seed) / 10).astype(np.float32)


def scaled(values: NDArray[Any], factor: float) -> NDArray[np.float64]:
    """Stored values in Kinema's units, as float64 before they are multiplied."""
    return values.astype(np.float64) * factor


def _clock(n_frames: int = N_FRAMES) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Steps 100, 110, ... and their times in ps."""
    steps = 100 + 10 * np.arange(n_frames, dtype=np.int64)
    return steps, 0.002 * steps.astype(np.float64)


def _plain(path: Path, positions: Any = None, unit: str = "nm", scale: float = 10.0, **storage: Any) -> Expected:
    """A simple file whose positions are stored in some way."""
    values = walk() if positions is None else positions
    steps, times = _clock(len(values))
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit=unit, **storage)
    return Expected(positions=values.astype(np.float64) * scale, steps=steps, times=times)


# -- 1, 2: roots and groups -------------------------------------------------------------------------------------


@_case("1 root", "root_at_top", root="/")
@_case("1 root", "root_below", root="simulations/run 1")
def _root(path: Path, root: str) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        file.create_group("other").attrs["version"] = 3
        group = start_h5md(file, root).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


@_case("1 root", "two_roots")
def _two_roots(path: Path) -> Expected:
    steps, times = _clock()
    with h5py.File(path, "w") as file:
        for seed, root in enumerate(("first", "second")):
            group = start_h5md(file, root).create_group("particles/all")
            add_element(group, "position", walk(seed=seed), steps=steps, times=times, unit="nm")
    return Expected(positions=scaled(walk(seed=1), 10.0), steps=steps, times=times, options={"root": "/second"})


@_case("2 groups", "group_by_name", group="solvent")
@_case("2 groups", "group_by_path", group="/particles/solvent")
def _groups(path: Path, group: str) -> Expected:
    steps, times = _clock()
    with h5py.File(path, "w") as file:
        particles = start_h5md(file).create_group("particles")
        for seed, name in enumerate(("protein", "solvent")):
            values = walk(n_atoms=N_ATOMS + seed, seed=seed)
            add_element(particles.create_group(name), "position", values, steps=steps, times=times, unit="nm")
        particles.create_group("walls").create_dataset("mass", data=[1.0])
    values = walk(n_atoms=N_ATOMS + 1, seed=1)
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times, options={"group": group})


# -- 3: explicit, fixed, time-independent -----------------------------------------------------------------------


@_case("3 elements", "fixed_interval", step_offset=None, time_offset=None)
@_case("3 elements", "fixed_interval_offset", step_offset=1000, time_offset=2.5)
def _fixed_interval(path: Path, step_offset: int | None, time_offset: float | None) -> Expected:
    values = walk()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        interval: dict[str, Any] = {"steps": 10, "times": 0.5, "step_offset": step_offset, "time_offset": time_offset}
        add_element(group, "position", values, unit="nm", **interval)
        add_element(group, "velocity", values, unit="nm ps-1", **interval)
    return Expected(
        positions=scaled(values, 10.0),
        velocities=scaled(values, 10.0),
        steps=10 * np.arange(N_FRAMES) + (step_offset or 0),
        times=scaled(np.arange(N_FRAMES), 0.5) + (time_offset or 0.0),
    )


@_case("3 elements", "fixed_interval_joins_explicit")
def _interval_and_explicit(path: Path) -> Expected:
    values = walk()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=10, times=0.5, unit="nm")
        add_element(group, "force", values[::2], steps=np.arange(0, 70, 20), unit="kJ mol-1 nm-1")
    forces = np.full(values.shape, np.nan)
    forces[::2] = scaled(values[::2], 0.1)
    steps = 10 * np.arange(N_FRAMES, dtype=np.int64)
    return Expected(scaled(values, 10.0), None, forces, None, steps, scaled(steps, 0.05), {"absent": "nan"})


@_case("3 elements", "time_independent_velocities")
def _fixed_velocities(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(group, "velocity", values[0], unit="nm ps-1")
    velocities = np.broadcast_to(scaled(values[0], 10.0), values.shape)
    return Expected(positions=scaled(values, 10.0), velocities=velocities, steps=steps, times=times)


@_case("3 elements", "time_independent_positions")
def _fixed_positions(path: Path) -> Expected:
    values = walk()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values[0], unit="nm")
        add_element(add_box(group), "edges", np.array([3.0, 4.0, 5.0]), unit="nm")
    return Expected(positions=scaled(values[:1], 10.0), cells=np.diag([30.0, 40.0, 50.0])[None])


@_case("3 elements", "time_independent_positions_moving_velocities")
def _fixed_positions_moving_velocities(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values[0], unit="nm")
        add_element(group, "velocity", values, steps=steps, times=times, unit="nm ps-1")
    positions = np.broadcast_to(scaled(values[0], 10.0), values.shape)
    return Expected(positions=positions, velocities=scaled(values, 10.0), steps=steps, times=times)


# -- 4, 5: joins, missing time, missing positions ---------------------------------------------------------------


@_case("4 join", "velocity_at_half_stride_nan", absent="nan")
@_case("4 join", "velocity_at_half_stride_hold", absent="hold")
def _half_stride(path: Path, absent: str) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(group, "velocity", values[1::2], steps=steps[1::2], times=times[1::2], unit="nm ps-1")
    velocities = np.full(values.shape, np.nan)
    velocities[1::2] = scaled(values[1::2], 10.0)
    if absent == "hold":
        velocities[2::2] = velocities[1:-1:2]
    return Expected(scaled(values, 10.0), velocities, None, None, steps, times, {"absent": absent})


@_case("4 join", "velocities_make_the_frames")
def _axis(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(group, "velocity", values[1::2], steps=steps[1::2], times=times[1::2], unit="nm ps-1")
    kept = scaled(values[1::2], 10.0)
    return Expected(kept, kept, None, None, steps[1::2], times[1::2], {"axis": "velocities"})


@_case("4 join", "rows_are_not_steps")
def _shifted(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    box_steps = np.array([0, 90, 110, 130, 500])
    edges = np.arange(15, dtype=np.float32).reshape(5, 3) + 1
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(add_box(group), "edges", edges, steps=box_steps, times=box_steps * 0.002, unit="nm")
    rows = np.searchsorted(box_steps, steps, side="right") - 1
    cells = np.stack([np.diag(edge) * 10.0 for edge in edges[rows]])
    return Expected(scaled(values, 10.0), None, None, cells, steps, times, {"absent": "hold"})


@_case("5 absent", "no_time")
def _no_time(path: Path) -> Expected:
    values, (steps, _) = walk(), _clock()
    with h5py.File(path, "w") as file:
        add_element(start_h5md(file).create_group("particles/all"), "position", values, steps=steps, unit="nm")
    return Expected(positions=scaled(values, 10.0), steps=steps)


@_case("5 absent", "no_positions")
def _no_positions(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "velocity", values, steps=steps, times=times, unit="nm ps-1")
        add_element(group, "force", values, steps=steps, times=times, unit="kJ mol-1 nm-1")
    return Expected(None, scaled(values, 10.0), scaled(values, 0.1), None, steps, times)


@_case("5 absent", "elements_without_rows")
def _no_rows(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        empty: dict[str, Any] = {"steps": steps[:0], "times": times[:0], "maxshape": (None, N_ATOMS, 3)}
        add_element(group, "force", values[:0], **empty)
        add_element(group, "image", np.zeros((0, 0), int), steps=steps[:0])
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


# -- 6: boxes ---------------------------------------------------------------------------------------------------

_TRICLINIC = np.array([[5.0, 0, 0], [1.5, 4, 0], [-1, 0.5, 6]], np.float32)


@_case("6 boxes", "box_vector_fixed", matrix=False, moving=False)
@_case("6 boxes", "box_matrix_fixed", matrix=True, moving=False)
@_case("6 boxes", "box_vector_moving", matrix=False, moving=True)
@_case("6 boxes", "box_matrix_moving", matrix=True, moving=True)
@_case("6 boxes", "box_slab", matrix=True, moving=True, boundary=("periodic", "periodic", "none"))
@_case("6 boxes", "box_not_periodic", matrix=True, moving=True, boundary=("none",) * 3)
@_case("6 boxes", "box_without_unit", matrix=True, moving=True, unit=None)
def _boxes(
    path: Path,
    matrix: bool,
    moving: bool,
    boundary: tuple[str, ...] = ("periodic",) * 3,
    unit: str | None = "nm",
) -> Expected:
    values, (steps, times) = walk(), _clock()
    factors = np.linspace(1, 2, N_FRAMES, dtype=np.float32) if moving else np.ones(N_FRAMES, np.float32)
    cells = factors[:, None, None] * (_TRICLINIC if matrix else np.diag(np.diag(_TRICLINIC)))
    edges = cells if matrix else np.diagonal(cells, axis1=1, axis2=2)
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        box = add_box(group, boundary)
        if moving:
            add_element(box, "edges", edges, steps=position["step"], times=position["time"], unit=unit)
        else:
            add_element(box, "edges", edges[0], unit=unit)
    told = None if boundary[0] == "none" else cells.astype(np.float64) * 10.0
    return Expected(scaled(values, 10.0), None, None, told, steps, times)


@_case("6 boxes", "box_none_without_edges")
def _no_edges(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_box(group, ("none",) * 3)
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


# -- 7: strings -------------------------------------------------------------------------------------------------


@_case("7 strings", "strings_variable_utf8", make=lambda text: text)
@_case("7 strings", "strings_variable_ascii", make=lambda text: np.array(text, h5py.string_dtype("ascii")))
@_case("7 strings", "strings_fixed_ascii", make=lambda text: np.bytes_(text.encode()))
@_case("7 strings", "strings_fixed_padded", make=lambda text: np.array(text.encode() + b"  ", "S40"))
@_case("7 strings", "strings_fixed_utf8", make=lambda text: np.array(text.encode(), h5py.string_dtype("utf-8", 40)))
@_case("7 strings", "strings_array_of_one", make=lambda text: np.array([text.encode()], "S40"))
def _strings(path: Path, make: Callable[[str], Any]) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, time_unit=None)
        group["position/value"].attrs["unit"] = make("nm")
        group["position/time"].attrs["unit"] = make("fs")
        box = group.create_group("box")
        box.attrs["dimension"] = np.array([3])
        box.attrs["boundary"] = np.array(["periodic"] * 3, h5py.string_dtype())
        box["edges"] = np.ones(3)
        box["edges"].attrs["unit"] = make("Angstrom")
    cells = np.broadcast_to(np.eye(3), (N_FRAMES, 3, 3))
    return Expected(scaled(values, 10.0), None, None, cells, steps, times * 0.001)


# -- 8: numbers -------------------------------------------------------------------------------------------------


def _number_cases(function: Callable[..., Expected]) -> None:
    for order, word in (("<", "little"), (">", "big")):
        for kind in ("f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4"):
            _case("8 numbers", f"{word}_endian_{kind}", dtype=order + kind)(function)
    _case("8 numbers", "byte_i1", dtype="i1")(function)


def _numbers(path: Path, dtype: str) -> Expected:
    values = walk() * (1 if dtype[-2] == "f" else 20)
    return _plain(path, np.abs(values).astype(dtype) if "u" in dtype else values.astype(dtype))


_number_cases(_numbers)


@_case("8 numbers", "numbers_of_their_own", dtype=None)
def _custom_float(path: Path, dtype: None) -> Expected:
    """A float of 24 bits: 1 sign, 8 exponent, 15 mantissa bits."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(23, 15, 8, 0, 15)
    kind.set_size(3)
    kind.set_precision(24)
    values = walk()
    values = (values.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)
    steps, times = _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values, steps=steps, times=times)
        del position["value"]
        space = h5py.h5s.create_simple(values.shape)
        made = h5py.h5d.create(position.id, b"value", kind, space)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        position["value"].attrs["unit"] = "nm"
    return Expected(scaled(values, 10.0), None, None, None, steps, times, through_library=True)


@_case("8 numbers", "times_and_steps_of_other_types")
def _axis_types(path: Path) -> Expected:
    values, (steps, _) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(
            group, "position", values, steps=steps.astype(">u2"), times=steps.astype("<i4"), unit="nm", time_unit="fs"
        )
    return Expected(positions=scaled(values, 10.0), steps=steps, times=scaled(steps, 0.001))


@_case("8 numbers", "steps_beyond_32_bits")
def _huge_steps(path: Path) -> Expected:
    values, (_, times) = walk(), _clock()
    steps = -(2**40) + np.arange(N_FRAMES) * 2**41
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


# -- 9: units ---------------------------------------------------------------------------------------------------

_KCAL = 4.184
_EV = 1.602176634e-19 * 6.02214076e23 / 1000


@_case("9 units", "units_angstrom", units=("Angstrom", "fs", "Angstrom fs-1", "kcal mol-1 Angstrom-1"))
@_case("9 units", "units_a", units=("A", "fs", "A fs^-1", "kcal/mol/A"))
@_case("9 units", "units_sign", units=("Å", "fs", "Å fs-1", "kcal mol-1 Å-1"))
@_case("9 units", "units_words", units=("angstroms", "femtoseconds", "angstrom/femtosecond", "kcal/(mole*angstrom)"))
@_case("9 units", "units_powers", units=("10-10 m+1", "10-3 ps", "10+5 m s-1", "10+10 kcal mol^-1 m**-1"))
def _units(path: Path, units: tuple[str, ...]) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        clock: dict[str, Any] = {"steps": steps, "times": times, "time_unit": None}
        for name, unit in (("position", units[0]), ("velocity", units[2]), ("force", units[3])):
            add_element(group, name, values, **clock)
            group[name]["value"].attrs["unit"] = unit
            group[name]["time"].attrs["unit"] = units[1]
    return Expected(scaled(values, 1.0), scaled(values, 1000.0), scaled(values, _KCAL), None, steps, times * 0.001)


@_case("9 units", "units_given_by_the_user")
def _units_given(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file, creator="LAMMPS").create_group("particles/all")
        clock: dict[str, Any] = {"steps": steps, "times": times, "time_unit": None}
        for name in ("position", "velocity", "force"):
            add_element(group, name, values, **clock)
    given = {"length": "Angstrom", "time": "fs", "force": "eV/Angstrom"}
    return Expected(
        scaled(values, 1.0), scaled(values, 1000.0), scaled(values, _EV), None, steps, times * 0.001, {"units": given}
    )


# -- 10, 11: images, ids ----------------------------------------------------------------------------------------


@_case("10 image", "image_cuboid", matrix=False, moving=True)
@_case("10 image", "image_triclinic", matrix=True, moving=True)
@_case("10 image", "image_fixed_box", matrix=False, moving=False)
def _image(path: Path, matrix: bool, moving: bool) -> Expected:
    values, (steps, times) = walk().astype(np.float64), _clock()
    image = np.random.default_rng(1).integers(-2, 3, values.shape).astype(np.int32)
    cells = np.broadcast_to(_TRICLINIC if matrix else np.diag(np.diag(_TRICLINIC)), (N_FRAMES, 3, 3)).astype(float)
    cells = cells * (np.linspace(1, 2, N_FRAMES)[:, None, None] if moving else 1.0)
    edges = cells if matrix else np.diagonal(cells, axis1=1, axis2=2)
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        clock: dict[str, Any] = {"steps": position["step"], "times": position["time"]}
        add_element(group, "image", image, **clock)
        add_element(add_box(group), "edges", edges if moving else edges[0], unit="nm", **(clock if moving else {}))
    positions = (values + image @ cells) * 10.0
    return Expected(positions, None, None, cells * 10.0, steps, times, {"unwrap": True}, through_library=True)


@_case("11 id", "id_order_changes", absent=False)
@_case("11 id", "id_with_absent_particles", absent=True)
def _ids(path: Path, absent: bool) -> Expected:
    random = np.random.default_rng(3)
    values, (steps, times) = walk(), _clock()
    order = np.stack([random.permutation(N_ATOMS) for _ in range(N_FRAMES)])
    ids = 10 + 3 * order
    positions = np.full(values.shape, np.nan)
    for frame in range(N_FRAMES):
        positions[frame, order[frame]] = scaled(values[frame], 10.0)
        if absent and frame != 2:
            positions[frame, order[frame, frame % N_ATOMS]] = np.nan
            ids[frame, frame % N_ATOMS] = -1
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        clock: dict[str, Any] = {"steps": position["step"], "times": position["time"]}
        add_element(group, "velocity", values, unit="nm ps-1", **clock)
        add_element(group, "id", ids, fillvalue=-1, **clock)
    return Expected(positions, positions, None, None, steps, times, through_library=True)


@_case("11 id", "id_that_never_changes")
def _constant_ids(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        ids = np.broadcast_to([7, 3, 9, 1, 2], (N_FRAMES, N_ATOMS))
        add_element(group, "id", ids, steps=position["step"], times=position["time"])
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


@_case("11 id", "padded_with_nan")
def _nan_padding(path: Path) -> Expected:
    values = walk().astype(np.float64)
    values[2, 3:] = np.nan
    return _plain(path, values)


# -- 15, 16: storage, files that grow ---------------------------------------------------------------------------


@_case("15 storage", "contiguous")
@_case("15 storage", "chunk_a_frame", chunks=(1, N_ATOMS, 3))
@_case("15 storage", "chunks_split_all", chunks=(2, 2, 1))
@_case("15 storage", "chunk_beyond_the_extent", chunks=(64, 8, 3), maxshape=(None, None, 3))
@_case("15 storage", "gzip_shuffle", chunks=(2, 3, 3), compression="gzip", shuffle=True)
@_case("15 storage", "gzip_shuffle_fletcher32", chunks=(2, 3, 3), compression="gzip", shuffle=True, fletcher32=True)
@_case("15 storage", "lzf", chunks=(3, 3, 2), compression="lzf")
def _storage(path: Path, **storage: Any) -> Expected:
    return _plain(path, **storage)


@_case("15 storage", "scale_offset")
def _scale_offset(path: Path) -> Expected:
    values = np.round(walk(), 3)
    expected = _plain(path, values, chunks=(2, N_ATOMS, 3), scaleoffset=3)
    with h5py.File(path) as file:
        expected.positions = scaled(file["particles/all/position/value"][()], 10.0)
    return expected


@_case("15 storage", "nbit")
def _nbit(path: Path) -> Expected:
    """Integers of which 20 bits are kept, packed by the nbit filter."""
    values = np.abs(walk() * 20).astype(np.int32)
    expected = _plain(path, values)
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(20)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((2, N_ATOMS, 3))
    plist.set_filter(5, 0)
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["value"]
        space = h5py.h5s.create_simple(values.shape)
        h5py.h5d.create(position.id, b"value", kind, space, plist).write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        position["value"].attrs["unit"] = "nm"
    expected.through_library = True
    return expected


@_case("15 storage", "compact")
def _compact(path: Path) -> Expected:
    values = walk()
    expected = _plain(path, values)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["value"]
        space = h5py.h5s.create_simple(values.shape)
        made = h5py.h5d.create(position.id, b"value", h5py.h5t.IEEE_F32LE, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        position["value"].attrs["unit"] = "nm"
    return expected


@_case("15 storage", "edge_chunks_unfiltered")
def _edge_chunks(path: Path) -> Expected:
    """As GROMACS asks for: chunks that stick out of the extent are stored without filters."""
    values = walk()
    expected = _plain(path, values)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((2, 3, 3))
    plist.set_shuffle()
    plist.set_deflate(6)
    set_options = ctypes.CDLL(h5py.h5p.__file__).H5Pset_chunk_opts
    set_options.argtypes = [ctypes.c_int64, ctypes.c_uint]
    if set_options(plist.id, 2) < 0:
        raise RuntimeError("libhdf5 does not take chunk options")
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["value"]
        space = h5py.h5s.create_simple(values.shape, (h5py.h5s.UNLIMITED, N_ATOMS, 3))
        made = h5py.h5d.create(position.id, b"value", h5py.h5t.IEEE_F32LE, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        position["value"].attrs["unit"] = "nm"
    return expected


@_case("15 storage", "filter_mask")
def _filter_mask(path: Path) -> Expected:
    """Two chunks that were stored without their filters, one of them with only the second."""
    values = walk()
    expected = _plain(path, values, chunks=(1, N_ATOMS, 3), compression="gzip", shuffle=True)
    with h5py.File(path, "r+") as file:
        dataset = file["particles/all/position/value"]
        values[[1, 4]] += 1
        dataset.id.write_direct_chunk((1, 0, 0), values[1].tobytes(), 0b11)
        dataset.id.write_direct_chunk((4, 0, 0), values[4].tobytes(), 0b11)
    expected.positions = scaled(values, 10.0)
    return expected


@_case("15 storage", "chunks_never_written", fill=None)
@_case("15 storage", "chunks_never_written_fill", fill=2.5)
def _holes(path: Path, fill: float | None) -> Expected:
    values = walk()
    expected = _plain(path, values[:0], chunks=(1, N_ATOMS, 3), maxshape=(None, N_ATOMS, 3), fillvalue=fill)
    values[[0, 3]] = 0 if fill is None else fill
    steps, times = _clock()
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["step"], position["time"]
        position["step"], position["time"] = steps, times
        position["time"].attrs["unit"] = "ps"
        position["value"].resize(N_FRAMES, axis=0)
        for frame in (1, 2, 4, 5, 6):
            position["value"][frame] = values[frame]
    expected.positions, expected.steps, expected.times = scaled(values, 10.0), steps, times
    return expected


@_case("15 storage", "user_block", userblock_size=1024, libver="earliest")
@_case("15 storage", "newest_format", libver="latest")
@_case("15 storage", "oldest_format", libver="earliest")
def _file_formats(path: Path, **how: Any) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w", **how) as file:
        group = start_h5md(file).create_group("particles/all")
        storage: dict[str, Any] = {"chunks": (2, 3, 3), "compression": "gzip", "shuffle": True}
        add_element(group, "position", values, steps=steps, times=times, unit="nm", **storage)
        add_element(group, "velocity", values, steps=steps, times=times, unit="nm ps-1")
    return Expected(positions=scaled(values, 10.0), velocities=scaled(values, 10.0), steps=steps, times=times)


@_case("15 storage", "virtual", compression=None)
@_case("15 storage", "virtual_of_filtered", compression="gzip")
def _virtual(path: Path, compression: str | None) -> Expected:
    """Two files and a data set of the file itself, one behind the other; of the second, rows from the middle."""
    values, (steps, times) = walk(), _clock()
    layout = h5py.VirtualLayout(values.shape, "f4")
    for number, (start, stop) in enumerate(((0, 3), (3, 5))):
        source = path.with_name(f"{path.stem}_{number}.h5")
        before = 2 * number
        with h5py.File(source, "w") as file:
            stored = np.concatenate([np.zeros((before, N_ATOMS, 3), "f4"), values[start:stop]])
            file.create_dataset(
                "x", data=stored, chunks=(1, N_ATOMS, 3) if compression else None, compression=compression
            )
            layout[start:stop] = h5py.VirtualSource(file["x"])[before:]
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values[:0], steps=steps, times=times)
        del position["value"]
        file["tail"] = values[5:]
        layout[5:7] = h5py.VirtualSource(".", "tail", shape=(2, N_ATOMS, 3))
        position.create_virtual_dataset("value", layout)
        position["value"].attrs["unit"] = "nm"
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


@_case("15 storage", "virtual_joins_atoms")
def _virtual_atoms(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values[:0], steps=steps, times=times)
        del position["value"]
        layout = h5py.VirtualLayout(values.shape, "f4")
        for name, columns in (("left", slice(0, 2)), ("right", slice(2, N_ATOMS))):
            file[name] = values[:, columns]
            layout[:, columns] = h5py.VirtualSource(file[name])
        position.create_virtual_dataset("value", layout)
        position["value"].attrs["unit"] = "nm"
    return Expected(scaled(values, 10.0), None, None, None, steps, times, through_library=True)


@_case("15 storage", "external_link")
def _external_link(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    other = path.with_name(f"{path.stem}_linked.h5")
    with h5py.File(other, "w") as file:
        file["x"] = values
        file["x"].attrs["unit"] = "nm"
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values[:0], steps=steps, times=times)
        del position["value"]
        position["value"] = h5py.ExternalLink(other.name, "x")
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


@_case("16 growing", "value_longer_than_step")
def _longer(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", values, steps=steps[:5], times=times[:6], unit="nm")
    return Expected(positions=scaled(values[:5], 10.0), steps=steps[:5], times=times[:5])


@_case("16 growing", "box_shorter_than_positions")
def _shorter_box(path: Path) -> Expected:
    values, (steps, times) = walk(), _clock()
    edges = np.ones((N_FRAMES - 1, 3), np.float32)
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(add_box(group), "edges", edges, steps=position["step"], times=position["time"], unit="nm")
    cells = np.broadcast_to(10 * np.eye(3), (N_FRAMES - 1, 3, 3))
    return Expected(scaled(values[:-1], 10.0), None, None, cells, steps[:-1], times[:-1])


@_case("16 growing", "rows_never_written")
def _trailing(path: Path) -> Expected:
    """The extent was made for more frames than were written before the program was killed."""
    values, (steps, times) = walk(), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        storage: dict[str, Any] = {"chunks": (1, N_ATOMS, 3), "maxshape": (None, N_ATOMS, 3)}
        position = add_element(group, "position", values[:4], steps=steps, times=times, unit="nm", **storage)
        position["value"].resize(N_FRAMES, axis=0)
    return Expected(positions=scaled(values[:4], 10.0), steps=steps[:4], times=times[:4])


# -- programs ---------------------------------------------------------------------------------------------------


def write_gromacs_topology(root: Any, n_molecules: int = 2) -> None:
    """GROMACS' topology module: one ion, then `n_molecules` of water, for 1 + 3 * `n_molecules` atoms."""
    module = root["h5md"].require_group("modules").create_group("gromacs_topology")
    module.attrs["version"] = np.array([0, 1], np.int32)
    module.attrs["system_name"] = np.bytes_(b"water and an ion")
    module.attrs["molecule_block_names"] = np.array([b"NA", b"SOL"])
    module.attrs["molecule_block_counts"] = np.array([1, n_molecules], np.int32)
    molecules: dict[str, dict[str, Any]] = {
        "NA": {"mass": [22.99], "charge": [1.0], "species": [11], "names": [b"NA"], "residues": [b"NA"]},
        "SOL": {
            "mass": [15.999, 1.008, 1.008],
            "charge": [-0.834, 0.417, 0.417],
            "species": [8, 1, 1],
            "names": [b"OW", b"HW1", b"HW2"],
            "residues": [b"SOL"],
        },
    }
    for name, kind in molecules.items():
        group = module.create_group(name)
        n = len(kind["mass"])
        group.attrs["particle_count"], group.attrs["residue_count"] = n, 1
        group["id"] = np.arange(1, n + 1)
        for key in ("mass", "charge", "species"):
            group[key] = np.array(kind[key])
        group["particle_name"], group["particle_name_table"] = np.arange(n), np.array(kind["names"])
        group["residue_id"], group["residue_name"] = np.ones(n, int), np.zeros(n, int)
        group["residue_name_table"] = np.array(kind["residues"])
        group["sequence"] = np.zeros(1, int)
    first = 1 + 3 * np.arange(n_molecules)
    bonds = np.stack([first, first + 1, first, first + 2], axis=1).reshape(-1, 2)
    root.require_group("connectivity").create_dataset("bonds", data=bonds).attrs["bond_count"] = len(bonds)


@_case("programs", "gromacs", has_units=True)
@_case("programs", "gromacs_without_units", has_units=False)
def _gromacs(path: Path, has_units: bool) -> Expected:
    """As mdrun writes: steps and times in chunks of one element, velocities at twice the stride, no forces yet."""
    n_frames, n_atoms = 300, 7
    values, (steps, times) = walk(n_frames, n_atoms), _clock(n_frames)
    one: dict[str, Any] = {"chunks": (1,), "maxshape": (None,), "compression": "gzip", "shuffle": True}
    with h5py.File(path, "w") as file:
        root = start_h5md(file, creator="GROMACS")
        write_gromacs_topology(root)
        group = root.create_group("particles/system")
        for name, stride, rows, unit in (
            ("position", 1, None, "nm"),
            ("velocity", 2, None, "nm ps-1"),
            ("force", 1, 0, "kJ mol-1 nm-1"),
        ):
            node = group.create_group(name)
            stored = values[::stride][:rows]
            node.create_dataset("value", data=stored, chunks=(1, n_atoms, 3), maxshape=(None, n_atoms, 3))
            node.create_dataset("step", data=steps[::stride][:rows], **one)
            node.create_dataset("time", data=times[::stride][:rows], **one)
            if has_units:
                node["value"].attrs["unit"] = np.bytes_(unit.encode())
                node["time"].attrs["unit"] = np.bytes_(b"ps")
        edges = add_box(group).create_group("edges")
        cells = np.broadcast_to(np.diag([3, 4, 5.0]), (n_frames, 3, 3)).astype(np.float32)
        edges.create_dataset("value", data=cells, chunks=(1, 3, 3), maxshape=(None, 3, 3))
        edges["step"], edges["time"] = group["position/step"], group["position/time"]
        if has_units:
            edges["value"].attrs["unit"] = np.bytes_(b"nm")
    velocities = np.full(values.shape, np.nan)
    velocities[::2] = scaled(values[::2], 10.0)
    return Expected(scaled(values, 10.0), velocities, None, scaled(cells, 10.0), steps, times, {"absent": "nan"})


@_case("programs", "znh5md")
def _znh5md(path: Path) -> Expected:
    """Plurals for names, a data set for the boundary, species as floats that change with time."""
    values, (steps, _) = walk().astype(np.float64), _clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file, creator="ZnH5MD").create_group("particles/atoms")
        clock: dict[str, Any] = {"steps": steps, "times": steps, "time_unit": "fs"}
        add_element(group, "position", values, unit="Angstrom", **clock)
        add_element(group, "forces", values, unit="eV/Angstrom", **clock)
        add_element(group, "species", np.full((N_FRAMES, N_ATOMS), 29.0), **clock)
        box = group.create_group("box")
        box["boundary"] = np.array([b"periodic"] * 3)
        box["dimension"] = 3
        add_element(box, "edges", np.broadcast_to(_TRICLINIC, (N_FRAMES, 3, 3)), unit="Angstrom", **clock)
    cells = np.broadcast_to(_TRICLINIC, (N_FRAMES, 3, 3)).astype(np.float64)
    return Expected(scaled(values, 1.0), None, scaled(values, _EV), cells, steps, scaled(steps, 0.001))


@_case("programs", "mdtraj")
def _mdtraj(path: Path) -> Expected:
    """MDTraj's own format: PyTables' attributes left out."""
    values, (_, times) = walk(), _clock()
    lengths = np.linspace([3.0, 4.0, 5.0], [4.0, 5.0, 6.0], N_FRAMES).astype(np.float32).astype(np.float64)
    residues = [{"index": 0, "name": "ALA", "resSeq": 4, "segmentID": "", "atoms": [
        {"index": i, "name": f"C{i}", "element": "C"} for i in range(N_ATOMS)]}]  # fmt: skip
    topology = {"chains": [{"index": 0, "residues": residues}], "bonds": [[i, i + 1] for i in range(N_ATOMS - 1)]}
    with h5py.File(path, "w") as file:
        file.attrs.update({"conventions": np.bytes_(b"Pande"), "programVersion": np.bytes_(b"1.11")})
        file.create_dataset("coordinates", data=values, chunks=(4, N_ATOMS, 3), compression="gzip", shuffle=True)
        file["time"] = times.astype(np.float32)
        file["cell_lengths"] = lengths
        file["cell_angles"] = np.full((N_FRAMES, 3), [90, 60, 90], np.float32)
        file["topology"] = np.array([json.dumps(topology).encode()])
        for name, unit in (("coordinates", "nanometers"), ("time", "picoseconds"), ("cell_lengths", "nanometers")):
            file[name].attrs["units"] = np.bytes_(unit.encode())
    cells = np.zeros((N_FRAMES, 3, 3))
    cells[:, range(3), range(3)] = lengths * 10.0
    cells[:, 2, 0] = lengths[:, 2] * 5.0
    cells[:, 2, 2] *= np.sqrt(0.75)
    return Expected(scaled(values, 10.0), None, None, cells, None, times.astype(np.float32).astype(float))


@_case("programs", "amber_netcdf4")
def _amber(path: Path) -> Expected:
    values, (_, times) = (walk() * 10).astype(np.float32), _clock()
    with h5py.File(path, "w") as file:
        file.attrs.update({"Conventions": "AMBER", "ConventionVersion": "1.0", "program": "a test"})
        file.create_dataset("coordinates", data=values, chunks=(1, N_ATOMS, 3)).attrs["units"] = "angstrom"
        file.create_dataset("time", data=times.astype(np.float32)).attrs["units"] = "picosecond"
        file["cell_lengths"] = np.full((N_FRAMES, 3), 30.0)
        file["cell_angles"] = np.full((N_FRAMES, 3), 90.0)
    cells = np.broadcast_to(30 * np.eye(3), (N_FRAMES, 3, 3))
    return Expected(scaled(values, 1.0), None, None, cells, None, times.astype(np.float32).astype(float))


@_case("bare", "bare_3d", shape=(N_FRAMES, N_ATOMS, 3), unit="nm", given=None)
@_case("bare", "bare_2d", shape=(N_FRAMES, 3 * N_ATOMS), unit="nm", given=None)
@_case("bare", "bare_2d_chunked", shape=(N_FRAMES, 3 * N_ATOMS), unit=None, given="nm", chunks=(2, 4))
@_case("bare", "bare_without_unit", shape=(N_FRAMES, 3 * N_ATOMS), unit=None, given=None)
def _bare(path: Path, shape: tuple[int, ...], unit: str | None, given: str | None, **storage: Any) -> Expected:
    values = walk()
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("some/pos", data=values.reshape(shape), **storage)
        if unit is not None:
            dataset.attrs["unit"] = unit
    options: dict[str, Any] = {"dataset": "some/pos"}
    if given is not None:
        options["units"] = {"length": given}
    return Expected(positions=scaled(values, 10.0 if unit or given else 1.0), options=options)
