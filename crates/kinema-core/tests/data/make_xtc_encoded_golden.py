"""Write ``xtc_encoded_golden.txt``: what libmdaxdr makes of frames that both this script and the Rust test make up.

A frame follows from its number alone, by integer arithmetic and by sums and products of float64, which have the same
bits everywhere. Run it from anywhere: ``python make_xtc_encoded_golden.py``; it needs MDAnalysis.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from pathlib import Path

import numpy as np
from MDAnalysis.lib.formats.libmdaxdr import XTCFile

HERE = Path(__file__).resolve().parent
N_FRAMES = 4000
STDERR = 2
PRECISIONS = (1.0, 3.5, 10.0, 64.0, 100.0, 997.0, 1000.0, 1024.0, 1e4, 1e5, 1e6)
# from here on libxdrf reads beyond the end of its table, and what it writes cannot be read
FIRST_UNSOUND_PLACE = 65


def draws(frame: int, first: int, count: int) -> np.ndarray:
    """Random numbers of 64 bits (Steele's SplitMix64, by counter)."""
    with np.errstate(over="ignore"):
        z = np.arange(first, first + count, dtype=np.uint64) + np.uint64((frame << 32) + 1)
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def made_up(frame: int) -> tuple[np.ndarray, float]:
    """Positions (nm, float32) and precision of a frame; the same as in the Rust test."""
    kind, few, n, precision, exponent = (int(x) for x in draws(frame, 0, 5))
    n_atoms = 1 + n % (30, 30, 30, 300, 300, 2000)[few % 6]
    precision = PRECISIONS[precision % len(PRECISIONS)]
    spread = 2.0 ** (1 + exponent % 31) / precision
    raw = draws(frame, 16, 4 * n_atoms).reshape(n_atoms, 4)
    around = (raw[:, :3] >> np.uint64(11)).astype("f8") * 2.0**-53 - 0.5
    choice = raw[:, 3].astype("u8") >> np.uint64(40)
    match kind % 6:
        case 0:  # a chain of bonds of all lengths
            positions = np.cumsum(around * spread * 2.0 ** -(choice % 12).astype("f8")[:, None], axis=0)
        case 1:  # water: the second and third of three are near the first
            middle = np.repeat(around[::3] * spread, 3, axis=0)[:n_atoms]
            positions = middle + around * spread * 2.0**-6 * (np.arange(n_atoms) % 3 != 0)[:, None]
        case 2:  # anywhere
            positions = around * spread
        case 3:  # all in one place
            positions = np.repeat(around[:1] * spread, n_atoms, axis=0)
        case 4:  # near the one before, or anywhere
            positions = around * spread
            for i in range(1, n_atoms):
                if choice[i] % 4:
                    positions[i] = positions[i - 1] + positions[i] * 2.0**-8
        case _:  # halves of an integer, which are rounded away from zero
            positions = (np.floor(around * spread * precision) + 0.5) / precision
    return positions.astype("f4"), precision


def encoded(frame: int, target: str) -> str:
    """Atoms, length and CRC-32 of the bytes; ``refused``; ``unsound`` if they cannot be read."""
    positions, precision = made_up(frame)
    cell = np.array([[frame, 0, 0], [0.5, frame, 0], [-1, 1.25, frame]], "f4")
    # the library says so and writes on
    said = Path(f"{target}.said")
    with said.open("wb") as stderr:
        os.dup2(stderr.fileno(), STDERR)
        with XTCFile(target, "w") as file:
            file.write(positions, cell, frame - 1000, 0.25 * frame, precision)
    if b"Internal overflow" in said.read_bytes():
        return f"{len(positions)} refused"
    content = Path(target).read_bytes()
    if len(positions) > 9 and int.from_bytes(content[84:88], "big") >= FIRST_UNSOUND_PLACE:
        return f"{len(positions)} unsound"
    return f"{len(positions)} {len(content)} {zlib.crc32(content):08x}"


def main() -> None:
    """Write the values."""
    stderr = os.dup(STDERR)
    with tempfile.TemporaryDirectory() as folder:
        lines = [encoded(frame, f"{folder}/one.xtc") for frame in range(N_FRAMES)]
    os.dup2(stderr, STDERR)
    (HERE / "xtc_encoded_golden.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
