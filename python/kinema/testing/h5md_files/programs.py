"""Files as programs write them, H5MD and other, and bare data sets.

They are written from the formats' descriptions, not by these programs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from kinema.testing.h5md_files.building import (
    EV,
    N_ATOMS,
    N_FRAMES,
    TRICLINIC,
    Expected,
    add_box,
    add_element,
    case,
    clock,
    scaled,
    start_h5md,
    walk,
)

# programs


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


@case("programs", "gromacs", has_units=True)
@case("programs", "gromacs_without_units", has_units=False)
def _gromacs(path: Path, has_units: bool) -> Expected:
    """As mdrun writes it: steps and times in chunks of one element, velocities at twice the stride, no forces yet."""
    n_frames, n_atoms = 300, 7
    values, (steps, times) = walk(n_frames, n_atoms), clock(n_frames)
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


@case("programs", "znh5md")
def _znh5md(path: Path) -> Expected:
    """Plural names, a data set for the boundary, species as floats that change with time."""
    values, (steps, _) = walk().astype(np.float64), clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file, creator="ZnH5MD").create_group("particles/atoms")
        linked: dict[str, Any] = {"steps": steps, "times": steps, "time_unit": "fs"}
        add_element(group, "position", values, unit="Angstrom", **linked)
        add_element(group, "forces", values, unit="eV/Angstrom", **linked)
        add_element(group, "species", np.full((N_FRAMES, N_ATOMS), 29.0), **linked)
        box = group.create_group("box")
        box["boundary"] = np.array([b"periodic"] * 3)
        box["dimension"] = 3
        add_element(box, "edges", np.broadcast_to(TRICLINIC, (N_FRAMES, 3, 3)), unit="Angstrom", **linked)
    cells = np.broadcast_to(TRICLINIC, (N_FRAMES, 3, 3)).astype(np.float64)
    return Expected(scaled(values, 1.0), None, scaled(values, EV), cells, steps, scaled(steps, 0.001))


@case("programs", "mdtraj")
def _mdtraj(path: Path) -> Expected:
    """MDTraj's own format, without the attributes of PyTables."""
    values, (_, times) = walk(), clock()
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


@case("programs", "amber_netcdf4")
def _amber(path: Path) -> Expected:
    values, (_, times) = (walk() * 10).astype(np.float32), clock()
    with h5py.File(path, "w") as file:
        file.attrs.update({"Conventions": "AMBER", "ConventionVersion": "1.0", "program": "a test"})
        file.create_dataset("coordinates", data=values, chunks=(1, N_ATOMS, 3)).attrs["units"] = "angstrom"
        file.create_dataset("time", data=times.astype(np.float32)).attrs["units"] = "picosecond"
        file["cell_lengths"] = np.full((N_FRAMES, 3), 30.0)
        file["cell_angles"] = np.full((N_FRAMES, 3), 90.0)
    cells = np.broadcast_to(30 * np.eye(3), (N_FRAMES, 3, 3))
    return Expected(scaled(values, 1.0), None, None, cells, None, times.astype(np.float32).astype(float))


@case("bare", "bare_3d", shape=(N_FRAMES, N_ATOMS, 3), unit="nm", given=None)
@case("bare", "bare_2d", shape=(N_FRAMES, 3 * N_ATOMS), unit="nm", given=None)
@case("bare", "bare_2d_chunked", shape=(N_FRAMES, 3 * N_ATOMS), unit=None, given="nm", chunks=(2, 4))
@case("bare", "bare_without_unit", shape=(N_FRAMES, 3 * N_ATOMS), unit=None, given=None)
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
