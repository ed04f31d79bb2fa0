"""Repacking H5MD files with Kinema, beside MDAnalysis' own H5MD writer on the same frames: frames a second, in one run.

    python benchmarks/repack.py [--frames 2000] [--folder FOLDER]

It prints what it measures and judges nothing. The frames are a random walk of 3341 atoms; MDAnalysis writes from
memory, Kinema reads a file, writes a second and (except for the lines "not read back") compares it with what it wrote.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinema as kn

N_ATOMS = 3341


def walk(n_frames: int) -> NDArray[np.float32]:
    """(frames, atoms, 3) in angstrom."""
    rng = np.random.default_rng(1)
    steps = rng.normal(scale=0.05, size=(n_frames, N_ATOMS, 3)).cumsum(axis=0)
    return (steps + rng.uniform(0, 60, size=(N_ATOMS, 3))).astype(np.float32)


def frames_a_second(n_frames: int, work: Callable[[], object], repeats: int = 3) -> float:
    """The best of several runs."""
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return n_frames / min(taken)


def write_with_mdanalysis(path: Path, positions: NDArray[np.float32], **options: Any) -> None:
    """One file through MDAnalysis' writer."""
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(N_ATOMS, trajectory=True)
    universe.load_new(positions, dimensions=np.array([60, 60, 60, 90, 90, 90], np.float32), dt=1.0)
    with MDAnalysis.Writer(str(path), N_ATOMS, timeunit="ps", lengthunit="Angstrom", **options) as writer:
        for _ in universe.trajectory:
            writer.write(universe.atoms)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        measure(Path(name), arguments.frames)


def measure(folder: Path, n_frames: int) -> None:
    """All lines of the table."""
    positions = walk(n_frames)
    few = positions[: max(50, n_frames // 20)]
    peer = folder / "mdanalysis.h5md"
    plain = frames_a_second(n_frames, lambda: write_with_mdanalysis(peer, positions))
    gzip = frames_a_second(
        len(few),
        lambda: write_with_mdanalysis(folder / "gzip.h5md", few, compression="gzip", compression_opts=9),
        repeats=1,
    )
    print(f"MDAnalysis' writer: {plain:,.0f} frames/s, gzip 9 {gzip:,.0f} frames/s ({N_ATOMS} atoms, positions)")
    for words, peers, options in (
        ("layout frames", plain, {}),
        ("layout frames, not read back", plain, {"verify": False}),
        ("layout atoms", plain, {"layout": "atoms"}),
        ("layout contiguous", plain, {"layout": "contiguous"}),
        ("gzip 4", gzip, {"compression": "gzip"}),
        ("gzip 9", gzip, {"compression": "gzip", "level": 9}),
        ("gzip 4, max_error 0.005", gzip, {"compression": "gzip", "max_error": 0.005}),
        ("zstd 3", gzip, {"compression": "zstd"}),
    ):
        out = folder / "out.h5md"
        found = frames_a_second(n_frames, lambda: kn.repack(peer, out, overwrite=True, **options))  # noqa: B023
        size = out.stat().st_size / (n_frames * N_ATOMS * 12)
        ratio = f"{found / peers:>6.1f} x MDAnalysis"
        print(f"kinema repack, {words:<30} {found:>8,.0f} frames/s, {ratio}, size {size:.2f}")


if __name__ == "__main__":
    main()
