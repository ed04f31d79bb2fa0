"""DL_POLY's HISTORY files, from their description: records of 72 characters and an end, or unformatted."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kinema.model.frame import VECTOR_FIELDS

_RECORD, _SHORT = 72, 34

DL_POLY_4 = "{step:10d}{atoms:10d}{keytrj:2d}{imcon:2d}{between:20.6f}{time:20.6f}"
"""The line `timestep` of a frame in DL_POLY_4."""
DL_POLY_3 = "{step:10d}{atoms:10d}{keytrj:10d}{imcon:10d}{between:12.6f}{time:12.6f}"
"""The same in DL_POLY_3 and early DL_POLY_4: (a8,4i10,2f12.6)."""


def general(value: float) -> str:
    """Fortran's G20.10: ten digits, with an exponent if the number is below 0.1 or from 10^10 on."""
    mantissa, _, power = f"{value:.9e}".partition("e")
    exponent = int(power) + 1
    if value == 0 or 0 <= exponent <= 10:
        decimals = 9 if value == 0 else 10 - exponent
        text = f"{value:.{decimals}f}"
        return f"{text if decimals else text + '.':>16}    "
    sign, digits = ("-" if value < 0 else ""), mantissa.lstrip("-").replace(".", "")
    return f"{f'{sign}0.{digits}E{exponent:+03d}':>20}"


def history_bytes(
    positions: NDArray[np.floating],
    *,
    velocities: NDArray[np.floating] | None = None,
    forces: NDArray[np.floating] | None = None,
    cells: NDArray[np.floating] | None = None,
    steps: Sequence[int] | NDArray[np.int64] | None = None,
    times: Sequence[float] | NDArray[np.float64] | None = None,
    names: Sequence[str] | None = None,
    masses: Sequence[float] | None = None,
    charges: Sequence[float] | None = None,
    order: NDArray[np.int64] | None = None,
    counted: int | None = None,
    compressed: bool = False,
    heads: str = DL_POLY_4,
    end: bytes = b"\n",
    title: str = "made by a test",
) -> bytes:
    """The bytes of a file as DL_POLY_4 writes it.

    Positions (frames, atoms, 3) in angstrom, velocities in angstrom/ps, forces in Da angstrom/ps^2; cells (frames, 3,
    3) or none. `order` (frames, atoms): the atom at each position of the file; `counted`: frames that the head names,
    by default all. `heads`: the layout of the line `timestep`, of `step`, `atoms`, `keytrj`, `imcon`, `between` and
    `time`.
    """
    n_frames, n_atoms, _ = positions.shape
    vectors = [one for one in (positions, velocities, forces) if one is not None]
    keytrj, imcon = (3 if compressed else len(vectors) - 1), (0 if cells is None else 3)
    steps = np.arange(n_frames) if steps is None else np.asarray(steps)
    times = np.arange(n_frames, dtype=float) if times is None else np.asarray(times)
    frames = n_frames if counted is None else counted
    n_records = 2 + n_frames * (4 + n_atoms * (1 if compressed else 1 + len(vectors)))
    cut = _SHORT if compressed else _RECORD
    head = f"{keytrj:2d}{imcon:2d}{n_atoms:10d}{frames:10d}{n_records:10d}"
    if not compressed:
        head = f"{keytrj:10d}{imcon:10d}{n_atoms:10d}{frames:21d}{n_records:21d}"
    lines = [title, head]
    for i in range(n_frames):
        if compressed:
            lines.append(f"timestep{steps[i]:6d}{0.001:8.5f}{times[i]:12.5f}")
        else:
            said = {"step": steps[i], "atoms": n_atoms, "keytrj": keytrj, "imcon": imcon, "time": times[i]}
            lines.append("timestep" + heads.format(**said, between=0.001))
        cell = np.zeros((3, 3)) if cells is None else cells[i]
        width, decimals = (10, 3) if compressed else (20, 10)
        lines += ["".join(f"{value:{width}.{decimals}f}" for value in vector) for vector in cell]
        for atom in range(n_atoms) if order is None else order[i]:
            name = f"A{atom}" if names is None else names[atom]
            if compressed:
                lines.append(f"{name:6s}" + "".join(f"{value:7.1f}" for value in (*positions[i, atom], 0.0)))
                continue
            mass, charge = 1.0 if masses is None else masses[atom], 0.0 if charges is None else charges[atom]
            lines.append(f"{name:8s}{atom + 1:10d}{mass:12.6f}{charge:12.6f}{0.0:12.6f}")
            lines += ["".join(general(float(value)) for value in one[i, atom]) for one in vectors]
    return b"".join(f"{line:{cut}.{cut}s}".encode("ascii") + end for line in lines)


def unformatted_bytes(
    vectors: Sequence[NDArray[np.floating]],
    *,
    cells: NDArray[np.floating] | None = None,
    imcon: int = 3,
    steps: Sequence[int] | NDArray[np.int64] | None = None,
    time_step: float = 1.0,
    names: Sequence[str] | None = None,
    masses: Sequence[float] | None = None,
    charges: Sequence[float] | None = None,
    byte_order: str = "<",
    marker: str = "i4",
    title: str = "made by a test",
) -> bytes:
    """The bytes of an unformatted file as DL_POLY 2 writes it: Fortran records of float64.

    `vectors`: positions in angstrom, velocities in angstrom/ps, forces in Da angstrom/ps^2, (frames, atoms, 3) each;
    cells (frames, 3, 3) or none, which is imcon 0. `marker`: the type of the lengths of records.
    """
    n_frames, n_atoms, _ = vectors[0].shape
    steps = np.arange(n_frames) if steps is None else np.asarray(steps)
    imcon = 0 if cells is None else imcon
    result = bytearray()

    def record(payload: bytes) -> None:
        length = np.array(len(payload), byte_order + marker).tobytes()
        result.extend(length + payload + length)

    def numbers(values: object) -> None:
        record(np.asarray(values, byte_order + "f8").tobytes())

    record(f"{title:80.80s}".encode("ascii"))
    numbers([n_atoms])
    record("".join(f"{name:8.8s}" for name in names or [f"A{atom}" for atom in range(n_atoms)]).encode("ascii"))
    numbers(np.ones(n_atoms) if masses is None else masses)
    numbers(np.zeros(n_atoms) if charges is None else charges)
    for i in range(n_frames):
        numbers([steps[i], n_atoms, len(vectors) - 1, imcon, time_step])
        if cells is not None:
            numbers(cells[i].ravel())
        for one in vectors:
            for axis in range(3):
                numbers(one[i, :, axis])
    return bytes(result)


def write_history(path: str | os.PathLike[str], positions: NDArray[np.floating], **how: object) -> None:
    """Writes `history_bytes` of the same arguments; positions have the shape (frames, atoms, 3)."""
    assert not how.keys() & (set(VECTOR_FIELDS) - {"velocities", "forces"})
    with open(path, "wb") as file:
        file.write(history_bytes(positions, **how))  # type: ignore[arg-type]
