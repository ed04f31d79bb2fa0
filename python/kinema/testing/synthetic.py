"""Synthetic trajectories: a random walk, and writers for small files.

The DCD writer is plain Python from the format's description, so that it shares no code with the reader that it
tests. It is for tests; it holds everything in memory.
"""

from __future__ import annotations

import os
import struct

import numpy as np
from numpy.typing import NDArray

__all__ = ["dcd_bytes", "random_walk", "write_dcd", "write_xtc"]

# CHARMM's unit of time in ps
AKMA = 0.04888821


def random_walk(n_frames: int, n_atoms: int, seed: int = 1) -> NDArray[np.float32]:
    """(frames, atoms, 3) float32 in angstrom: atoms in a box of 30 A that move by some 0.3 A a frame.

    Rounded to 0.01 A, which XTC files keep.
    """
    random = np.random.default_rng(seed)
    start = random.uniform(-15.0, 15.0, (n_atoms, 3))
    moves = random.normal(0.0, 0.3, (n_frames, n_atoms, 3))
    moves[0] = 0.0
    return (start + np.cumsum(moves, axis=0)).round(2).astype(np.float32)


def dcd_bytes(
    positions: NDArray[np.float32],
    *,
    first_step: int = 0,
    stride: int = 1,
    dt: float = 1.0,
    cell: tuple[float, float, float] | None = None,
    byte_order: str = "<",
) -> bytes:
    """A DCD file of CHARMM's kind. `dt` in ps between frames; `cell` are the lengths of an orthorhombic box, angstrom.

    Source: the description of VMD's plug-in and CHARMM's documentation: Fortran records "CORD" with 20 integers, a
    title, the number of atoms; for each frame the cell as six float64 (A, gamma, B, beta, alpha, C) and x, y, z.
    """

    def record(data: bytes) -> bytes:
        length = struct.pack(byte_order + "i", len(data))
        return length + data + length

    control = [len(positions), first_step, stride, len(positions) * stride, 0, 0, 0, 0, 0]
    head = b"CORD" + struct.pack(byte_order + "9i", *control)
    head += struct.pack(byte_order + "f", dt / stride / AKMA)
    head += struct.pack(byte_order + "10i", int(cell is not None), 0, 0, 0, 0, 0, 0, 0, 0, 24)
    title = struct.pack(byte_order + "i", 1) + b"MADE FOR A TEST".ljust(80)
    parts = [record(head), record(title), record(struct.pack(byte_order + "i", positions.shape[1]))]
    planes = positions.astype(byte_order + "f4")
    for frame in planes:
        if cell is not None:
            parts.append(record(struct.pack(byte_order + "6d", cell[0], 90.0, cell[1], 90.0, 90.0, cell[2])))
        parts += [record(frame[:, axis].tobytes()) for axis in range(3)]
    return b"".join(parts)


def write_dcd(
    path: str | os.PathLike[str],
    positions: NDArray[np.float32],
    *,
    first_step: int = 0,
    dt: float = 1.0,
    cell: tuple[float, float, float] | None = None,
    byte_order: str = "<",
) -> None:
    """Writes `dcd_bytes` to a file."""
    with open(path, "wb") as file:
        file.write(dcd_bytes(positions, first_step=first_step, dt=dt, cell=cell, byte_order=byte_order))


def write_xtc(
    path: str | os.PathLike[str],
    positions: NDArray[np.float32],
    *,
    first_step: int = 0,
    dt: float = 1.0,
    cell: tuple[float, float, float] = (60.0, 60.0, 60.0),
) -> None:
    """Writes an XTC file through MDAnalysis: frame i has step `first_step + i` and its time is the step times `dt`."""
    from MDAnalysis.lib.formats.libmdaxdr import XTCFile

    box = np.diag(cell).astype(np.float32) / 10.0
    with XTCFile(os.fspath(path), "w") as file:
        for i, frame in enumerate(positions):
            step = first_step + i
            file.write((frame / 10.0).astype(np.float32), box, step, step * dt, 1000.0)
