"""Write the small XTC files in ``xtc/`` and the golden values of all XTC tests.

The files are written, and all values read, by MDAnalysis' libmdaxdr (the GROMACS C library), which shares no code
with Kinema. Run it from anywhere: ``python make_xtc_golden.py``; it needs MDAnalysis and MDAnalysisTests.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import MDAnalysisTests
import numpy as np
from MDAnalysis.lib.formats.libmdaxdr import XTCFile

HERE = Path(__file__).resolve().parent
FILES = HERE / "xtc"
RNG = np.random.default_rng(20261121)


def walk(n_atoms: int, step: float = 0.15) -> np.ndarray:
    """A chain like a protein's: neighbours are near each other, so that runs are long and widths change."""
    widths = step * np.exp(RNG.normal(0, 0.7, (n_atoms, 1)))
    return np.cumsum(RNG.normal(0, 1, (n_atoms, 3)) * widths, axis=0)


def water(n_molecules: int, side: float = 3.0) -> np.ndarray:
    """Oxygens anywhere, each followed by its two hydrogens."""
    oxygen = RNG.random((n_molecules, 1, 3)) * side
    return (oxygen + RNG.normal(0, 0.06, (n_molecules, 3, 3)) * np.array([0, 1, 1])[:, None]).reshape(-1, 3)


def gas(n_atoms: int, side: float) -> np.ndarray:
    """Independent atoms, negative and positive."""
    positions = (RNG.random((n_atoms, 3)) - 0.5) * side
    # one near pair: if all atoms are far apart, libxdrf uses place 73 of its table of 73 places and loses atoms
    positions[1:2] = positions[:1] + 0.1
    return positions


CASES = {
    "atoms_1": [(gas(1, 5), 1000)] * 2,
    "atoms_9": [(gas(9, 5), 1000) for _ in range(3)],
    "atoms_10": [(walk(10), 1000) for _ in range(3)],
    "precisions": [(walk(150), p) for p in (10, 100, 1000, 1e4, 1e5, 1e6, 997, 3.5)],
    "water": [(water(300), p) for p in (1000, 100, 1e4)],
    "gas": [(gas(300, 8), p) for p in (1000, 10, 1e5)],
    "mixed": [(np.concatenate([walk(200), water(100), gas(40, 6)]), 1000) for _ in range(4)],
    "one_point": [(np.full((50, 3), -1.234), 1000), (np.zeros((50, 3)), 1000)],
    # boxes whose packed coordinates take 58 to 72 bits
    "wide": [(gas(100, side), 1000) for side in (700, 1500, 4000, 8000, 14000, 16700)],
    # extents beyond 24 bits: each integer has its own width
    "separate": [(gas(100, side), 1000) for side in (17000, 40000)] + [(walk(100) * [1e5, 1, 1], 1000)],
    # small differences of more than 57 bits
    "wide_small": [(walk(200, step), 1000) for step in (300, 700, 1200)],
    "huge_chain": [(walk(200, step), 1000) for step in (2000, 4000)],
}


def write_cases() -> None:
    """Write the files of ``CASES``."""
    for name, frames in CASES.items():
        target = FILES / f"{name}.xtc"
        whole = b""
        for i, (positions, precision) in enumerate(frames):
            cell = np.array([[4, 0, 0], [0.5, 5, 0], [-1, 1.25, 6]], "f4") + np.float32(i / 3)
            # a file for each frame, as libmdaxdr writes one file with one precision only
            with XTCFile(str(target), "w") as file:
                file.write(positions.astype("f4"), cell, 500 * i - 250, 0.1 * i, precision)
            whole += target.read_bytes()
        target.write_bytes(whole)


def write_long_magic() -> None:
    """``mixed`` with the frame header of magic 2023, which GROMACS writes for huge systems only."""
    old = (FILES / "mixed.xtc").read_bytes()
    new, at = b"", 0
    while at < len(old):
        (length,) = struct.unpack(">i", old[at + 88 : at + 92])
        end = at + 92 + (length + 3) // 4 * 4
        new += struct.pack(">i", 2023) + old[at + 4 : at + 88] + struct.pack(">q", length) + old[at + 92 : end]
        at = end
    (FILES / "mixed_2023.xtc").write_bytes(new)


def golden_lines(label: str, path: Path) -> list[str]:
    """One line a frame: file, frame, atoms, step, time bits, CRC-32 of the cell and of the positions (nm, f32 LE)."""
    lines = []
    with XTCFile(str(path)) as file:
        for i, frame in enumerate(file):
            time = struct.unpack("<I", struct.pack("<f", frame.time))[0]
            cell = zlib.crc32(np.ascontiguousarray(frame.box, "<f4").tobytes())
            positions = zlib.crc32(np.ascontiguousarray(frame.x, "<f4").tobytes())
            lines.append(f"{label} {i} {file.n_atoms} {frame.step} {time:08x} {cell:08x} {positions:08x}")
    return lines


def main() -> None:
    """Write files and values."""
    FILES.mkdir(exist_ok=True)
    write_cases()
    write_long_magic()
    own = [line for name in CASES for line in golden_lines(name, FILES / f"{name}.xtc")]
    own += [line.replace("mixed ", "mixed_2023 ", 1) for line in own if line.startswith("mixed ")]
    (HERE / "xtc_golden.txt").write_text("\n".join(own) + "\n")
    data = Path(MDAnalysisTests.__file__).parent / "data"
    theirs = [line for path in sorted(data.rglob("*.xtc")) for line in golden_lines(str(path.relative_to(data)), path)]
    (HERE / "xtc_golden_mdanalysis.txt").write_text("\n".join(theirs) + "\n")


if __name__ == "__main__":
    main()
