"""Rows 1 to 7 of the checklist: roots, groups, elements, joins, boxes, strings.

Data sets are contiguous and uncompressed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from kinema.testing.h5md_files.building import (
    N_ATOMS,
    N_FRAMES,
    TRICLINIC,
    Expected,
    add_box,
    add_element,
    case,
    clock,
    particles_all,
    scaled,
    start_h5md,
    walk,
)

# 1, 2: roots and groups


@case("1 root", "root_at_top", root="/")
@case("1 root", "root_below", root="simulations/run 1")
def _root(path: Path, root: str) -> Expected:
    values, (steps, times) = walk(), clock()
    with h5py.File(path, "w") as file:
        file.create_group("other").attrs["version"] = 3
        group = start_h5md(file, root).create_group("particles/all")
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


@case("1 root", "two_roots")
def _two_roots(path: Path) -> Expected:
    steps, times = clock()
    with h5py.File(path, "w") as file:
        for seed, root in enumerate(("first", "second")):
            group = start_h5md(file, root).create_group("particles/all")
            add_element(group, "position", walk(seed=seed), steps=steps, times=times, unit="nm")
    return Expected(positions=scaled(walk(seed=1), 10.0), steps=steps, times=times, options={"root": "/second"})


@case("2 groups", "group_by_name", group="solvent")
@case("2 groups", "group_by_path", group="/particles/solvent")
def _groups(path: Path, group: str) -> Expected:
    steps, times = clock()
    with h5py.File(path, "w") as file:
        particles = start_h5md(file).create_group("particles")
        for seed, name in enumerate(("protein", "solvent")):
            values = walk(n_atoms=N_ATOMS + seed, seed=seed)
            add_element(particles.create_group(name), "position", values, steps=steps, times=times, unit="nm")
        particles.create_group("walls").create_dataset("mass", data=[1.0])
    values = walk(n_atoms=N_ATOMS + 1, seed=1)
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times, options={"particles": group})


# 3: explicit, fixed, time-independent


@case("3 elements", "fixed_interval", step_offset=None, time_offset=None)
@case("3 elements", "fixed_interval_offset", step_offset=1000, time_offset=2.5)
def _fixed_interval(path: Path, step_offset: int | None, time_offset: float | None) -> Expected:
    values = walk()
    with particles_all(path) as group:
        interval: dict[str, Any] = {"steps": 10, "times": 0.5, "step_offset": step_offset, "time_offset": time_offset}
        add_element(group, "position", values, unit="nm", **interval)
        add_element(group, "velocity", values, unit="nm ps-1", **interval)
    return Expected(
        positions=scaled(values, 10.0),
        velocities=scaled(values, 10.0),
        steps=10 * np.arange(N_FRAMES) + (step_offset or 0),
        times=scaled(np.arange(N_FRAMES), 0.5) + (time_offset or 0.0),
    )


@case("3 elements", "fixed_interval_joins_explicit")
def _interval_and_explicit(path: Path) -> Expected:
    values = walk()
    with particles_all(path) as group:
        add_element(group, "position", values, steps=10, times=0.5, unit="nm")
        add_element(group, "force", values[::2], steps=np.arange(0, 70, 20), unit="kJ mol-1 nm-1")
    forces = np.full(values.shape, np.nan)
    forces[::2] = scaled(values[::2], 0.1)
    steps = 10 * np.arange(N_FRAMES, dtype=np.int64)
    return Expected(scaled(values, 10.0), None, forces, None, steps, scaled(steps, 0.05), {"absent": "nan"})


@case("3 elements", "time_independent_velocities")
def _fixed_velocities(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(group, "velocity", values[0], unit="nm ps-1")
    velocities = np.broadcast_to(scaled(values[0], 10.0), values.shape)
    return Expected(positions=scaled(values, 10.0), velocities=velocities, steps=steps, times=times)


@case("3 elements", "time_independent_positions")
def _fixed_positions(path: Path) -> Expected:
    values = walk()
    with particles_all(path) as group:
        add_element(group, "position", values[0], unit="nm")
        add_element(add_box(group), "edges", np.array([3.0, 4.0, 5.0]), unit="nm")
    return Expected(positions=scaled(values[:1], 10.0), cells=np.diag([30.0, 40.0, 50.0])[None])


@case("3 elements", "time_independent_positions_moving_velocities")
def _fixed_positions_moving_velocities(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        add_element(group, "position", values[0], unit="nm")
        add_element(group, "velocity", values, steps=steps, times=times, unit="nm ps-1")
    positions = np.broadcast_to(scaled(values[0], 10.0), values.shape)
    return Expected(positions=positions, velocities=scaled(values, 10.0), steps=steps, times=times)


# 4, 5: joins, missing time, missing positions


@case("4 join", "velocity_at_half_stride_nan", absent="nan")
@case("4 join", "velocity_at_half_stride_hold", absent="hold")
def _half_stride(path: Path, absent: str) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(group, "velocity", values[1::2], steps=steps[1::2], times=times[1::2], unit="nm ps-1")
    velocities = np.full(values.shape, np.nan)
    velocities[1::2] = scaled(values[1::2], 10.0)
    if absent == "hold":
        velocities[2::2] = velocities[1:-1:2]
    return Expected(scaled(values, 10.0), velocities, None, None, steps, times, {"absent": absent})


@case("4 join", "velocities_make_the_frames")
def _axis(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(group, "velocity", values[1::2], steps=steps[1::2], times=times[1::2], unit="nm ps-1")
    kept = scaled(values[1::2], 10.0)
    return Expected(kept, kept, None, None, steps[1::2], times[1::2], {"axis": "velocities"})


@case("4 join", "rows_are_not_steps")
def _shifted(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    box_steps = np.array([0, 90, 110, 130, 500])
    edges = np.arange(15, dtype=np.float32).reshape(5, 3) + 1
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(add_box(group), "edges", edges, steps=box_steps, times=box_steps * 0.002, unit="nm")
    rows = np.searchsorted(box_steps, steps, side="right") - 1
    cells = np.stack([np.diag(edge) * 10.0 for edge in edges[rows]])
    return Expected(scaled(values, 10.0), None, None, cells, steps, times, {"absent": "hold"})


@case("5 absent", "no_time")
def _no_time(path: Path) -> Expected:
    values, (steps, _) = walk(), clock()
    with h5py.File(path, "w") as file:
        add_element(start_h5md(file).create_group("particles/all"), "position", values, steps=steps, unit="nm")
    return Expected(positions=scaled(values, 10.0), steps=steps)


@case("5 absent", "no_positions")
def _no_positions(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        add_element(group, "velocity", values, steps=steps, times=times, unit="nm ps-1")
        add_element(group, "force", values, steps=steps, times=times, unit="kJ mol-1 nm-1")
    return Expected(None, scaled(values, 10.0), scaled(values, 0.1), None, steps, times)


@case("5 absent", "elements_without_rows")
def _no_rows(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        empty: dict[str, Any] = {"steps": steps[:0], "times": times[:0], "maxshape": (None, N_ATOMS, 3)}
        add_element(group, "force", values[:0], **empty)
        add_element(group, "image", np.zeros((0, 0), int), steps=steps[:0])
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


# 6: boxes


@case("6 boxes", "box_vector_fixed", matrix=False, moving=False)
@case("6 boxes", "box_matrix_fixed", matrix=True, moving=False)
@case("6 boxes", "box_vector_moving", matrix=False, moving=True)
@case("6 boxes", "box_matrix_moving", matrix=True, moving=True)
@case("6 boxes", "box_slab", matrix=True, moving=True, boundary=("periodic", "periodic", "none"))
@case("6 boxes", "box_not_periodic", matrix=True, moving=True, boundary=("none",) * 3)
@case("6 boxes", "box_without_unit", matrix=True, moving=True, unit=None)
def _boxes(
    path: Path,
    matrix: bool,
    moving: bool,
    boundary: tuple[str, ...] = ("periodic",) * 3,
    unit: str | None = "nm",
) -> Expected:
    values, (steps, times) = walk(), clock()
    factors = np.linspace(1, 2, N_FRAMES, dtype=np.float32) if moving else np.ones(N_FRAMES, np.float32)
    cells = factors[:, None, None] * (TRICLINIC if matrix else np.diag(np.diag(TRICLINIC)))
    edges = cells if matrix else np.diagonal(cells, axis1=1, axis2=2)
    with particles_all(path) as group:
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        box = add_box(group, boundary)
        if moving:
            add_element(box, "edges", edges, steps=position["step"], times=position["time"], unit=unit)
        else:
            add_element(box, "edges", edges[0], unit=unit)
    expected_cells = None if boundary[0] == "none" else cells.astype(np.float64) * 10.0
    return Expected(scaled(values, 10.0), None, None, expected_cells, steps, times)


@case("6 boxes", "box_none_without_edges")
def _no_edges(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_box(group, ("none",) * 3)
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


# 7: strings


@case("7 strings", "strings_variable_utf8", make=lambda text: text)
@case("7 strings", "strings_variable_ascii", make=lambda text: np.array(text, h5py.string_dtype("ascii")))
@case("7 strings", "strings_fixed_ascii", make=lambda text: np.bytes_(text.encode()))
@case("7 strings", "strings_fixed_padded", make=lambda text: np.array(text.encode() + b"  ", "S40"))
@case("7 strings", "strings_fixed_utf8", make=lambda text: np.array(text.encode(), h5py.string_dtype("utf-8", 40)))
@case("7 strings", "strings_array_of_one", make=lambda text: np.array([text.encode()], "S40"))
def _strings(path: Path, make: Callable[[str], Any]) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
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
