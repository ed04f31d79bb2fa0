"""One measurement of conversion: `python one_convert.py NAME ARGUMENTS` prints a line of JSON.

It chooses no cases and asserts nothing; `convert.py` does the former. Programs write into a folder that is removed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema import _core

# frames that mdtraj converts at a time
_CHUNK = 200
# bytes of one plain write
_WRITE = 4 << 20


def kinema(source: str, out: str, frames: str, workers: str) -> dict[str, Any]:
    """`kinema.convert` without reading back: wall, bytes, and seconds of each phase over all workers."""
    trajectory = kn.open(source)
    trajectory.scan()
    began = time.perf_counter()
    done = kn.convert(trajectory, out, stop=int(frames), workers=int(workers), verify=False)
    return {"wall": time.perf_counter() - began, "bytes": done.size, **done.timings}


def decode(source: str, frames: str, workers: str) -> dict[str, Any]:
    """All blocks of the frames, read and forgotten."""
    trajectory = kn.open(source)
    trajectory.scan()
    began = time.perf_counter()
    for _ in trajectory.blocks(frames=range(int(frames)), workers=int(workers)):
        pass
    return {"wall": time.perf_counter() - began}


def disk(out: str, size: str) -> dict[str, Any]:
    """A new file of `size` bytes by positional writes from memory, synced."""
    data, left = memoryview(os.urandom(_WRITE)), int(size)
    began = time.perf_counter()
    handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for offset in range(0, left, _WRITE):
        os.pwrite(handle, data[: min(_WRITE, left - offset)], offset)
    os.fsync(handle)
    os.close(handle)
    return {"wall": time.perf_counter() - began}


def _sync(out: str) -> None:
    """As Kinema does: the file is on the storage when the clock stops."""
    with open(out, "rb") as file:
        os.fsync(file.fileno())


def mdanalysis(source: str, out: str, frames: str) -> dict[str, Any]:
    """The loop of MDAnalysis' user guide: a reader and a writer."""
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(kn.open(source).n_atoms, trajectory=True)
    universe.load_new(source)
    options = {"format": "H5MD"} if out.endswith("h5md") else {}
    began = time.perf_counter()
    with MDAnalysis.Writer(out, universe.atoms.n_atoms, n_frames=int(frames), **options) as writer:
        for _ in universe.trajectory[: int(frames)]:
            writer.write(universe.atoms)
    _sync(out)
    return {"wall": time.perf_counter() - began}


def mdtraj(source: str, out: str, frames: str) -> dict[str, Any]:
    """Converts as mdconvert does: chunks of arrays from one file object to another."""
    from mdtraj.formats import DCDTrajectoryFile, XTCTrajectoryFile

    kinds = {"xtc": XTCTrajectoryFile, "dcd": DCDTrajectoryFile}
    read, write = kinds[source.rpartition(".")[2]], kinds[out.rpartition(".")[2]]
    left = int(frames)
    began = time.perf_counter()
    with read(source) as reader, write(out, "w") as writer:
        while left:
            found = reader.read(min(_CHUNK, left))
            left -= len(found[0])
            if write is XTCTrajectoryFile:
                positions, lengths, _ = found
                cells = None if lengths is None else np.stack([np.diag(one) for one in lengths]) / 10
                writer.write(positions / 10, box=cells)
            else:
                positions, _, _, cells = found
                # no cell: all zeros in MDTraj's XTC
                lengths = None if cells is None else 10 * np.linalg.norm(cells, axis=2)
                angles = None if lengths is None else np.full_like(lengths, 90)
                writer.write(10 * positions, cell_lengths=lengths, cell_angles=angles)
    _sync(out)
    return {"wall": time.perf_counter() - began}


def xtc_encode(source: str, frames: str) -> dict[str, Any]:
    """CPU time of encoding positions in memory, frame by frame: ours, and the C library's (its writes into memory
    included)."""
    from MDAnalysis.lib.formats.libmdaxdr import XTCFile

    positions = kn.open(source).read(range(int(frames))) / np.float32(10)
    cell = np.diag(positions[0].max(axis=0)).astype(np.float32)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        began = time.process_time()
        for i, one in enumerate(positions):
            _core._encode_xtc_frame(one, cell.tolist(), i, float(i), 1000.0)
        ours = time.process_time() - began
        with XTCFile(os.path.join(folder, "theirs.xtc"), "w") as file:
            began = time.process_time()
            for i, one in enumerate(positions):
                file.write(one, cell, i, float(i), 1000.0)
            theirs = time.process_time() - began
    return {"atoms": positions.shape[0] * positions.shape[1], "kinema": ours, "libmdaxdr": theirs}


PROGRAMS: dict[str, Callable[..., dict[str, Any]]] = {
    "kinema": kinema,
    "decode": decode,
    "disk": disk,
    "mdanalysis": mdanalysis,
    "mdtraj": mdtraj,
    "xtc-encode": xtc_encode,
}

# the first call of a process also makes its threads and gets its memory
_CALLS = 3


def main() -> None:
    """The fastest of several calls."""
    warnings.simplefilter("ignore")
    program, *words = sys.argv[1:]
    found = []
    for _ in range(_CALLS):
        for word in words:
            if Path(word).name.startswith("converted."):
                Path(word).unlink(missing_ok=True)
        found.append(PROGRAMS[program](*words))
    print(json.dumps(min(found, key=lambda one: float(one.get("wall", one.get("kinema"))))))


if __name__ == "__main__":
    main()
