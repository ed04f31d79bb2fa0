"""Writers of small DCD, XTC and H5MD files for tests.

The DCD writer is plain Python from the format's description and shares no code with the reader that it tests. All
writers hold the whole file in memory.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinema.testing.synthetic import Synthetic

# CHARMM's unit of time in ps
AKMA = 0.04888821


def write_h5md(path: str | os.PathLike[str], made: Synthetic, **storage: Any) -> None:
    """Writes an H5MD file with plain h5py; `storage` (chunks, compression) goes to the vectors' `create_dataset`."""

    from kinema.testing.h5md_files import add_box, add_element, particles_all

    if "chunks" in storage:  # h5py refuses chunks that are longer than the data
        storage["chunks"] = tuple(np.minimum(storage["chunks"], made.positions.shape))
    periodic = bool(made.cells.any())
    # without a cache of chunks, they lie in the file in the order in which they are written, in any libhdf5
    with particles_all(path, rdcc_nbytes=0) as group:
        box = add_box(group, (("periodic",) if periodic else ("none",)) * 3)
        clock: dict[str, Any] = {"steps": made.steps, "times": made.times}
        element = add_element(group, "position", made.positions, unit="angstrom", **clock, **storage)
        clock = {"steps": element["step"], "times": element["time"]}
        if made.velocities is not None:
            add_element(group, "velocity", made.velocities, unit="angstrom ps-1", **clock, **storage)
        if periodic:
            add_element(box, "edges", made.cells, unit="angstrom", **clock)


def dcd_bytes(
    positions: NDArray[np.float32],
    *,
    first_step: int = 0,
    stride: int = 1,
    dt: float = 1.0,
    cell: tuple[float, float, float] | NDArray[np.float32] | None = None,
    byte_order: str = "<",
    fourth: bool = False,
) -> bytes:
    """The bytes of a DCD file of CHARMM's kind. `dt` in ps between frames.

    `cell`: the lengths of an orthorhombic box in angstrom, or (frames, 3, 3) row vectors, a along x, b in the xy plane.
    `fourth`: with a plane of a fourth dimension.

    Source: the description of VMD's plug-in and CHARMM's documentation: Fortran records "CORD" with 20 integers, a
    title, the number of atoms; for each frame the cell as six float64 (A, gamma, B, beta, alpha, C) and x, y, z.
    """

    def record(data: bytes) -> bytes:
        length = struct.pack(byte_order + "i", len(data))
        return length + data + length

    control = [len(positions), first_step, stride, len(positions) * stride, 0, 0, 0, 0, 0]
    head = b"CORD" + struct.pack(byte_order + "9i", *control)
    head += struct.pack(byte_order + "f", dt / stride / AKMA)
    head += struct.pack(byte_order + "10i", int(cell is not None), int(fourth), 0, 0, 0, 0, 0, 0, 0, 24)
    title = struct.pack(byte_order + "i", 1) + b"MADE FOR A TEST".ljust(80)
    parts = [record(head), record(title), record(struct.pack(byte_order + "i", positions.shape[1]))]
    planes = positions.astype(byte_order + "f4")
    for number, frame in enumerate(planes):
        if cell is not None:
            a, b, c, alpha, beta, gamma = _lengths_and_angles(cell, number)
            parts.append(record(struct.pack(byte_order + "6d", a, gamma, b, beta, alpha, c)))
        parts += [record(frame[:, axis].tobytes()) for axis in (0, 1, 2, *[0] * fourth)]
    return b"".join(parts)


def _lengths_and_angles(cell: tuple[float, float, float] | NDArray[np.float32], frame: int) -> tuple[float, ...]:
    """a, b, c in angstrom, alpha, beta, gamma in degrees."""
    if isinstance(cell, tuple):
        return (*cell, 90.0, 90.0, 90.0)
    vectors = cell[frame].astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    angles = [
        float(np.degrees(np.arccos(vectors[i] @ vectors[j] / (lengths[i] * lengths[j]))))
        for i, j in ((1, 2), (0, 2), (0, 1))
    ]
    return (*(float(length) for length in lengths), *angles)


def write_dcd(
    path: str | os.PathLike[str],
    positions: NDArray[np.float32],
    *,
    first_step: int = 0,
    dt: float = 1.0,
    cell: tuple[float, float, float] | NDArray[np.float32] | None = None,
    byte_order: str = "<",
) -> None:
    """Writes `dcd_bytes` to a file; positions are (frames, atoms, 3), in angstrom."""
    with open(path, "wb") as file:
        file.write(dcd_bytes(positions, first_step=first_step, dt=dt, cell=cell, byte_order=byte_order))


def write_xtc(
    path: str | os.PathLike[str],
    positions: NDArray[np.float32],
    *,
    first_step: int = 0,
    dt: float = 1.0,
    cell: tuple[float, float, float] | NDArray[np.float32] = (60.0, 60.0, 60.0),
) -> None:
    """Writes an XTC file through MDAnalysis: frame i has step `first_step + i`, and its time is the step times `dt`.

    `cell`: lengths of an orthorhombic box, or (frames, 3, 3) row vectors, angstrom.
    """
    from MDAnalysis.lib.formats.libmdaxdr import XTCFile

    cells = np.diag(cell)[None].repeat(len(positions), axis=0) if isinstance(cell, tuple) else cell
    boxes = cells.astype(np.float32) / 10.0
    with XTCFile(os.fspath(path), "w") as file:
        for i, frame in enumerate(positions):
            step = first_step + i
            file.write((frame / 10.0).astype(np.float32), boxes[i], step, step * dt, 1000.0)


def write_trr(
    path: str | os.PathLike[str],
    positions: NDArray[np.float32] | None,
    *,
    velocities: NDArray[np.float32] | None = None,
    forces: NDArray[np.float32] | None = None,
    first_step: int = 0,
    dt: float = 1.0,
    cell: tuple[float, float, float] | NDArray[np.float32] = (60.0, 60.0, 60.0),
    every: tuple[int, int, int] = (1, 1, 1),
) -> None:
    """Writes a TRR file through MDAnalysis. Positions, velocities and forces are (frames, atoms, 3).

    Frame i has step `first_step + i`, and its time is the step times `dt`.

    Vectors in angstrom, angstrom/ps and kJ/(mol angstrom). Frame i has positions, velocities and forces if i is a
    multiple of the number in `every`. `cell` as `write_xtc`.
    """
    from MDAnalysis.lib.formats.libmdaxdr import TRRFile

    there = [one for one in (positions, velocities, forces) if one is not None]
    n_frames, n_atoms = there[0].shape[:2]
    cells = np.diag(cell)[None].repeat(n_frames, axis=0) if isinstance(cell, tuple) else cell
    boxes = cells.astype(np.float32) / 10.0
    with TRRFile(os.fspath(path), "w") as file:
        for i in range(n_frames):
            given = [
                None if values is None or i % stride else (values[i] * factor).astype(np.float32)
                for values, factor, stride in zip((positions, velocities, forces), (0.1, 0.1, 10.0), every, strict=True)
            ]
            step = first_step + i
            file.write(*given, boxes[i], step, step * dt, 0.0, n_atoms)


def write_netcdf(
    path: str | os.PathLike[str],
    positions: NDArray[np.float32],
    *,
    velocities: NDArray[np.float32] | None = None,
    times: NDArray[np.float64] | None = None,
    cells: NDArray[np.float32] | None = None,
    form: Literal["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4"] = "NETCDF3_64BIT_OFFSET",
    dtype: str = "f4",
    scale_factor: float | None = 20.455,
) -> None:
    """Writes an AMBER NetCDF trajectory through the netCDF library: angstrom, ps; `cells` (frames, 3, 3) row vectors.

    `form` is netCDF4's name of a format; velocities are stored divided by `scale_factor`, which the file names.
    """
    import netCDF4
    from MDAnalysis.lib.mdamath import triclinic_box

    n_frames, n_atoms, _ = positions.shape
    with netCDF4.Dataset(path, "w", format=form) as file:
        file.Conventions, file.ConventionVersion, file.program, file.programVersion = (
            "AMBER",
            "1.0",
            "Kinema's tests",
            "1",
        )
        for name, length in (
            ("frame", None),
            ("spatial", 3),
            ("atom", n_atoms),
            ("cell_spatial", 3),
            ("cell_angular", 3),
        ):
            file.createDimension(name, length)
        file.set_auto_maskandscale(False)

        def add(name: str, kind: str, dimensions: tuple[str, ...], unit: str, values: NDArray[Any]) -> Any:
            made = file.createVariable(name, kind, ("frame", *dimensions))
            made.set_auto_maskandscale(False)
            made.units = unit
            made[:] = values
            return made

        if times is not None:
            add("time", dtype, (), "picosecond", times)
        add("coordinates", dtype, ("atom", "spatial"), "angstrom", positions)
        if velocities is not None:
            factor = 1.0 if scale_factor is None else scale_factor
            made = add(
                "velocities", dtype, ("atom", "spatial"), "angstrom/picosecond", velocities.astype(np.float64) / factor
            )
            if scale_factor is not None:
                made.scale_factor = scale_factor
        if cells is not None:
            boxes = np.array([triclinic_box(*cell) for cell in cells]).reshape(n_frames, 6)
            add("cell_lengths", "f8", ("cell_spatial",), "angstrom", boxes[:, :3])
            add("cell_angles", "f8", ("cell_angular",), "degree", boxes[:, 3:])


def write_dl_poly_netcdf(
    path: str | os.PathLike[str],
    positions: NDArray[np.float32],
    *,
    velocities: NDArray[np.float32] | None = None,
    forces: NDArray[np.float32] | None = None,
    levels: Sequence[int] | None = None,
    steps: NDArray[np.int64] | None = None,
    times: NDArray[np.float64] | None = None,
    cells: NDArray[np.float32] | None = None,
    dtype: str = "f8",
) -> None:
    """Writes DL_POLY's NetCDF history, as its source of 2021 defines it: angstrom, ps, forces in Da angstrom/ps^2.

    All variables exist; those that a frame of its level (0, 1, 2) does not have are not written.
    """
    import netCDF4

    n_frames, n_atoms, _ = positions.shape
    level = 0 if velocities is None else 1 if forces is None else 2
    lengths = {
        "spatial": 3,
        "dummy": 1,
        "atom": n_atoms,
        "frame": None,
        "label": 8,
        "cell_spatial": 3,
        "cell_angular": 3,
    }
    of_frames = {
        "datalevel": ("i4", (), ""),
        "imageconvention": ("i4", (), ""),
        "timestep": ("f8", (), "picosecond"),
        "time": ("f8", (), "picosecond"),
        "step": ("i4", (), ""),
        "cell": ("f8", ("cell_spatial", "spatial"), "Angstrom"),
        "coordinates": (dtype, ("atom", "spatial"), "Angstrom"),
        "velocities": (dtype, ("atom", "spatial"), "Angstrom/picosecond"),
        "forces": (dtype, ("atom", "spatial"), "Dalton*Angstrom/picosecond^2"),
    }
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        file.set_auto_mask(False)
        file.title, file.application, file.program, file.programVersion = "a test", "DL_POLY", "DL_POLY", "4.0"
        file.Conventions, file.ConventionVersion = "DL_POLY", "0.0"
        for name, length in lengths.items():
            file.createDimension(name, length)
        made = {name: file.createVariable(name, kind, ("frame", *over)) for name, (kind, over, _) in of_frames.items()}
        for name, (_, _, unit) in of_frames.items():
            if unit:
                made[name].units = unit
        file.createVariable("atomnames", "S1", ("dummy", "atom", "label"))[0] = [
            list(f"A{i}".ljust(8)) for i in range(n_atoms)
        ]
        file.createVariable("indices", "i4", ("dummy", "atom"))[0] = np.arange(1, n_atoms + 1)
        file.createVariable("masses", dtype, ("dummy", "atom"))[0] = 1.0 + np.arange(n_atoms) / 2
        file.createVariable("charges", dtype, ("dummy", "atom"))
        made["step"][:] = np.arange(n_frames) if steps is None else steps
        made["time"][:] = np.arange(n_frames) if times is None else times
        made["imageconvention"][:] = np.zeros(n_frames) if cells is None else 3 * cells.any(axis=(1, 2))
        made["cell"][:] = np.zeros((n_frames, 3, 3)) if cells is None else cells
        for i in range(n_frames):
            level_here = level if levels is None else levels[i]
            made["datalevel"][i] = level_here
            made["coordinates"][i] = positions[i]
            if velocities is not None and level_here >= 1:
                made["velocities"][i] = velocities[i]
            if forces is not None and level_here >= 2:
                made["forces"][i] = forces[i].astype(np.float64) * 100.0
