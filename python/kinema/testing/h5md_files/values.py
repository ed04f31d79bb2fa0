"""Rows 8 to 11 of the checklist: numbers, units, images, ids.

Data sets are contiguous and uncompressed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from kinema.testing.h5md_files.building import (
    EV,
    KCAL,
    N_ATOMS,
    N_FRAMES,
    TRICLINIC,
    Expected,
    add_box,
    add_element,
    case,
    clock,
    particles_all,
    plain_file,
    replace_positions,
    scaled,
    walk,
)

# 8: numbers


def _number_cases(function: Callable[..., Expected]) -> None:
    for order, word in (("<", "little"), (">", "big")):
        for kind in ("f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4"):
            case("8 numbers", f"{word}_endian_{kind}", dtype=order + kind)(function)
    case("8 numbers", "byte_i1", dtype="i1")(function)


def _numbers(path: Path, dtype: str) -> Expected:
    values = walk() * (1 if dtype[-2] == "f" else 20)
    return plain_file(path, np.abs(values).astype(dtype) if "u" in dtype else values.astype(dtype))


_number_cases(_numbers)


@case("8 numbers", "numbers_of_their_own", dtype=None)
def _custom_float(path: Path, dtype: None) -> Expected:
    """A float of 24 bits: 1 sign, 8 exponent, 15 mantissa bits."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(23, 15, 8, 0, 15)
    kind.set_size(3)
    kind.set_precision(24)
    values = walk()
    values = (values.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)
    expected = plain_file(path, values)
    replace_positions(path, values, kind)
    expected.through_library = True
    return expected


@case("8 numbers", "times_and_steps_of_other_types")
def _axis_types(path: Path) -> Expected:
    values, (steps, _) = walk(), clock()
    with particles_all(path) as group:
        add_element(
            group, "position", values, steps=steps.astype(">u2"), times=steps.astype("<i4"), unit="nm", time_unit="fs"
        )
    return Expected(positions=scaled(values, 10.0), steps=steps, times=scaled(steps, 0.001))


@case("8 numbers", "steps_beyond_32_bits")
def _huge_steps(path: Path) -> Expected:
    values, (_, times) = walk(), clock()
    steps = -(2**40) + np.arange(N_FRAMES) * 2**41
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps, times=times, unit="nm")
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


# 9: units


@case("9 units", "units_angstrom", units=("Angstrom", "fs", "Angstrom fs-1", "kcal mol-1 Angstrom-1"))
@case("9 units", "units_a", units=("A", "fs", "A fs^-1", "kcal/mol/A"))
@case("9 units", "units_sign", units=("Å", "fs", "Å fs-1", "kcal mol-1 Å-1"))
@case("9 units", "units_words", units=("angstroms", "femtoseconds", "angstrom/femtosecond", "kcal/(mole*angstrom)"))
@case("9 units", "units_powers", units=("10-10 m+1", "10-3 ps", "10+5 m s-1", "10+10 kcal mol^-1 m**-1"))
def _units(path: Path, units: tuple[str, ...]) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        linked: dict[str, Any] = {"steps": steps, "times": times, "time_unit": None}
        for name, unit in (("position", units[0]), ("velocity", units[2]), ("force", units[3])):
            add_element(group, name, values, **linked)
            group[name]["value"].attrs["unit"] = unit
            group[name]["time"].attrs["unit"] = units[1]
    return Expected(scaled(values, 1.0), scaled(values, 1000.0), scaled(values, KCAL), None, steps, times * 0.001)


@case("9 units", "units_given_by_the_user")
def _units_given(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path, creator="LAMMPS") as group:
        linked: dict[str, Any] = {"steps": steps, "times": times, "time_unit": None}
        for name in ("position", "velocity", "force"):
            add_element(group, name, values, **linked)
    given = {"length": "Angstrom", "time": "fs", "force": "eV/Angstrom"}
    return Expected(
        scaled(values, 1.0), scaled(values, 1000.0), scaled(values, EV), None, steps, times * 0.001, {"units": given}
    )


# 10, 11: images, ids


@case("10 image", "image_cuboid", matrix=False, moving=True)
@case("10 image", "image_triclinic", matrix=True, moving=True)
@case("10 image", "image_fixed_box", matrix=False, moving=False)
def _image(path: Path, matrix: bool, moving: bool) -> Expected:
    values, (steps, times) = walk().astype(np.float64), clock()
    image = np.random.default_rng(1).integers(-2, 3, values.shape).astype(np.int32)
    cells = np.broadcast_to(TRICLINIC if matrix else np.diag(np.diag(TRICLINIC)), (N_FRAMES, 3, 3)).astype(float)
    cells = cells * (np.linspace(1, 2, N_FRAMES)[:, None, None] if moving else 1.0)
    edges = cells if matrix else np.diagonal(cells, axis1=1, axis2=2)
    with particles_all(path) as group:
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        linked: dict[str, Any] = {"steps": position["step"], "times": position["time"]}
        add_element(group, "image", image, **linked)
        add_element(add_box(group), "edges", edges if moving else edges[0], unit="nm", **(linked if moving else {}))
    positions = (values + image @ cells) * 10.0
    return Expected(positions, None, None, cells * 10.0, steps, times, {"unwrap": True}, through_library=True)


@case("11 id", "id_order_changes", absent=False)
@case("11 id", "id_with_absent_particles", absent=True)
def _ids(path: Path, absent: bool) -> Expected:
    random = np.random.default_rng(3)
    values, (steps, times) = walk(), clock()
    order = np.stack([random.permutation(N_ATOMS) for _ in range(N_FRAMES)])
    ids = 10 + 3 * order
    positions = np.full(values.shape, np.nan)
    for frame in range(N_FRAMES):
        positions[frame, order[frame]] = scaled(values[frame], 10.0)
        if absent and frame != 2:
            positions[frame, order[frame, frame % N_ATOMS]] = np.nan
            ids[frame, frame % N_ATOMS] = -1
    with particles_all(path) as group:
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        linked: dict[str, Any] = {"steps": position["step"], "times": position["time"]}
        add_element(group, "velocity", values, unit="nm ps-1", **linked)
        add_element(group, "id", ids, fillvalue=-1, **linked)
    return Expected(positions, positions, None, None, steps, times, through_library=True)


@case("11 id", "id_that_never_changes")
def _constant_ids(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        ids = np.broadcast_to([7, 3, 9, 1, 2], (N_FRAMES, N_ATOMS))
        add_element(group, "id", ids, steps=position["step"], times=position["time"])
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


@case("11 id", "padded_with_nan")
def _nan_padding(path: Path) -> Expected:
    values = walk().astype(np.float64)
    values[2, 3:] = np.nan
    return plain_file(path, values)
