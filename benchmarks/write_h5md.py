"""Writing H5MD: kinema.Writer and MDAnalysis' H5MDWriter on this machine, in one run; a table of frames/s and ratios.

It asserts nothing. Frames are real ones, in memory before the clock starts, written one at a time as a loop over a
trajectory does. Also told: a plain loop of positional writes of the same bytes, the limit of the machine.

    python benchmarks/write_h5md.py [--quick] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysis.coordinates.memory import MemoryReader
from MDAnalysisTests.datafiles import DCD, PSF, XTC
from numpy.typing import NDArray

import kinema as kn

Frames = NDArray[np.float32]
# compression in words -> arguments of kinema.Writer, arguments of MDAnalysis' writer
CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "none": ({}, {}),
    "contiguous": ({"layout": "contiguous"}, {"chunks": False}),
    # each at its default level
    "gzip": ({"compression": "gzip"}, {"compression": "gzip"}),
    "gzip, one worker": ({"compression": "gzip", "workers": 1}, {"compression": "gzip"}),
    "gzip 4, one worker": (
        {"compression": "gzip", "level": 4, "workers": 1},
        {"compression": "gzip", "compression_opts": 4},
    ),
    "gzip, max_error 0.005": ({"compression": "gzip", "max_error": 0.005}, None),
    "zstd": ({"compression": "zstd"}, None),
    "zstd, max_error 0.005": ({"compression": "zstd", "max_error": 0.005}, None),
    "bitshuffle-lz4": ({"compression": "bitshuffle-lz4"}, None),
}


def small_system() -> Frames:
    """Adenylate kinase, 98 frames of 3341 atoms."""
    universe = MDAnalysis.Universe(PSF, DCD)
    return np.array([ts.positions for ts in universe.trajectory], np.float32)


def large_system() -> Frames:
    """10 frames of 111,815 atoms: copies of a protein in water, side by side."""
    blocks = list(kn.open(XTC, stored=False).blocks())
    positions = np.concatenate([block.positions for block in blocks])
    cells = np.concatenate([block.cells for block in blocks])
    copies = -(-111_815 // positions.shape[1])
    shifted = [positions + i * cells[:, None, 0] for i in range(copies)]
    return np.ascontiguousarray(np.concatenate(shifted, axis=1)[:, :111_815], np.float32)


def write_kinema(path: Path, frames: Frames, n: int, options: dict[str, Any]) -> None:
    cell = np.diag([80.0, 80.0, 80.0]).astype(np.float32)
    with kn.Writer(path, frames.shape[1], overwrite=True, n_frames=n, **options) as out:
        for i in range(n):
            out.write(frames[i % len(frames)], cell=cell, step=i, time=float(i))


def write_mdanalysis(path: Path, frames: Frames, n: int, options: dict[str, Any]) -> None:
    universe = MDAnalysis.Universe.empty(frames.shape[1], trajectory=True)
    cells = np.tile(np.array([80, 80, 80, 90, 90, 90], np.float32), (len(frames), 1))
    universe.trajectory = MemoryReader(frames, dimensions=cells)
    # the reader in memory has no units for the writer to take over
    units = {"timeunit": "ps", "lengthunit": "Angstrom"}
    with MDAnalysis.Writer(str(path), frames.shape[1], n_frames=n, format="H5MD", **units, **options) as out:
        for i in range(n):
            ts = universe.trajectory[i % len(frames)]
            ts.data["step"], ts.time = i, float(i)
            ts.frame = i
            out.write(universe)


def plainly(path: Path, frames: Frames, n: int) -> None:
    # a new file that takes the place of the last, as kinema.Writer makes it
    handle = os.open(path.with_suffix(".new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for i in range(n):
        os.pwrite(handle, frames[i % len(frames)], i * frames[0].nbytes)
    os.fsync(handle)
    os.close(handle)
    path.with_suffix(".new").replace(path)


def best(write: Callable[[], None], tries: int) -> tuple[float, float]:
    """Wall and CPU seconds, each of the fastest of several."""
    walls, cpus = [], []
    for _ in range(tries):
        wall, cpu = time.perf_counter(), time.process_time()
        write()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    parser.add_argument("--folder", type=Path, help="where files are written; by default a temporary folder")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    tries = 2 if chosen.quick else 4
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        path = Path(folder) / "written.h5md"
        for system, n_plain, n_packed in ((small_system(), 4000, 1000), (large_system(), 200, 30)):
            n_plain, n_packed = (n_plain // 4, n_packed // 4) if chosen.quick else (n_plain, n_packed)
            wall, cpu = best(partial(plainly, path, system, n_plain), tries)
            print(f"\n{system.shape[1]} atoms; frames/s by the clock | frames per second of CPU time, all threads")
            print(f"{'plain writes and fsync':24} {n_plain / wall:8,.0f} | {n_plain / cpu:8,.0f}")
            print(f"{'compression':24} {'kinema':^19}   {'MDAnalysis':^19}   {'ratios':^12}  bytes of raw")
            for name, (ours, theirs) in CASES.items():
                n = n_packed if "compression" in ours else n_plain
                wall, cpu = best(partial(write_kinema, path, system, n, ours), tries)
                share = path.stat().st_size / (n * system[0].nbytes)
                row = f"{name:24} {n / wall:8,.0f} | {n / cpu:8,.0f}"
                if theirs is None:
                    print(f"{row} {'':39} {share:.3f}", flush=True)
                    continue
                fewer = max(5, n // 10)
                their_wall, their_cpu = best(partial(write_mdanalysis, path, system, fewer, theirs), tries)
                ratios = n / wall / (fewer / their_wall), n / cpu / (fewer / their_cpu)
                row += (
                    f"   {fewer / their_wall:8,.0f} | {fewer / their_cpu:8,.0f}   {ratios[0]:5.1f} | {ratios[1]:4.1f}"
                )
                print(f"{row}  {share:.3f}", flush=True)


if __name__ == "__main__":
    main()
