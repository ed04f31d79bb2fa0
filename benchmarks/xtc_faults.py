"""Faults in the coordinates of XTC frames: the share that reading finds, of each kind of fault.

    python benchmarks/xtc_faults.py [--faults 10000] [--folder FOLDER]

The frames are those of MDAnalysisTests' adk_oplsaa.xtc (47,681 atoms); each has one fault, which changes it, at a place
of its compressed coordinates drawn at random. All atoms are read, and every tenth one: of the others only what these
need is decoded. It judges nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

import kinema as kn

# of a frame of more than nine atoms, magic number 1995
HEADER = 92
FRAMES_OF_FILE = 500


def flipped_bit(old: bytes, random: Generator) -> bytes:
    """Flips one bit."""
    return bytes([old[0] ^ (1 << int(random.integers(8)))])


def random_bytes(old: bytes, random: Generator) -> bytes:
    """As many bytes as there are, each drawn at random."""
    return random.bytes(len(old))


# what is in the place of how many bytes
KINDS: dict[str, tuple[int, Callable[[bytes, Generator], bytes]]] = {
    "one flipped bit": (1, flipped_bit),
    "one random byte": (1, random_bytes),
    "four random bytes": (4, random_bytes),
    "four bytes 0xff": (4, lambda old, _: b"\xff" * len(old)),
    "64 random bytes": (64, random_bytes),
    "512 zeros": (512, lambda old, _: bytes(len(old))),
    "4,096 zeros": (4096, lambda old, _: bytes(len(old))),
}


def plant_fault(frame: bytes, kind: str, random: Generator) -> bytes:
    """The frame with one fault of its coordinates."""
    length, change = KINDS[kind]
    while True:
        at = int(random.integers(HEADER, len(frame) - length + 1))
        old = frame[at : at + length]
        if (new := change(old, random)) != old:
            return frame[:at] + new + frame[at + length :]


def found_in(path: Path, select: np.ndarray | None) -> int:
    """How many frames of a file cannot be read."""
    traj, n_found = kn.open(path, stored=False), 0
    for frame in range(traj.n_frames):
        try:
            traj.read(frames=[frame], select=select)
        except kn.CorruptFileError:
            n_found += 1
    return n_found


def shares(n_faults: int, folder: Path) -> dict[str, tuple[float, float]]:
    """The share found of each kind of fault, in reading all atoms and in reading a selection."""
    from MDAnalysisTests.datafiles import XTC

    random, content = np.random.default_rng(1), Path(XTC).read_bytes()
    traj = kn.open(XTC, stored=False)
    places = [traj.core.locate(frame)[2:] for frame in range(traj.n_frames)]
    tenth = np.arange(0, traj.n_atoms, 10)
    frames = [content[offset : offset + length] for offset, length in places]
    path, found = folder / "faults.xtc", {}
    for kind in KINDS:
        n_found = np.zeros(2, int)
        for first in range(0, n_faults, FRAMES_OF_FILE):
            numbers = range(first, min(first + FRAMES_OF_FILE, n_faults))
            path.write_bytes(b"".join(plant_fault(frames[number % len(frames)], kind, random) for number in numbers))
            n_found += [found_in(path, None), found_in(path, tenth)]
            path.unlink()
        found[kind] = (float(n_found[0] / n_faults), float(n_found[1] / n_faults))
    return found


def xtc_faults(bench: Any) -> None:
    """Two rows for each kind of fault."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        for kind, (of_all, of_selection) in shares(500 if bench.quick else 10_000, Path(folder)).items():
            bench.record(f"faults found, {kind}", "xtc", "kinema, all atoms", figure=of_all, unit="of 1")
            bench.record(f"faults found, {kind}", "xtc", "kinema, every 10th atom", figure=of_selection, unit="of 1")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=10_000, help="of each kind")
    parser.add_argument("--folder", type=Path, default=None, help="for files of 82 MB (default: $TMPDIR)")
    options = parser.parse_args()
    print("| fault | all atoms | every tenth atom |\n|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind, (of_all, of_selection) in shares(options.faults, Path(folder)).items():
            print(f"| {kind} | {of_all:.3f} | {of_selection:.3f} |", flush=True)


if __name__ == "__main__":
    main()
