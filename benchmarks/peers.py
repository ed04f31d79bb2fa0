"""One measurement of one program, in a process of its own: prints a line of JSON (wall, cpu, frames, peak_memory).

It chooses no cases. Opening files and building offsets is not counted, for any program.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.resources import peak_memory

_CHUNK = 200  # frames that mdtraj reads at a time; more are no faster
_WARP_CHUNK = 64  # frames that warp-md reads at a time; from its default to 4096 nothing is faster beyond noise


class _Stopwatch:
    """Wall and CPU time of the process, all threads."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def stop(self, frames: int) -> dict[str, Any]:
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return {"wall": wall, "cpu": cpu, "frames": frames, "peak_memory": peak_memory()}


def kinema(path: str, atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """`kinema.analysis.RMSD` on one core; frames are found beforehand."""
    import kinema as kn

    trajectory = kn.open(path)
    trajectory.scan()
    analysis = kn.analysis.RMSD(trajectory, select=atoms)
    watch = _Stopwatch()
    analysis.run(stop=frames, workers=1, progress=False)
    return watch.stop(frames)


def kinema_plain(path: str, atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """As `kinema`, from an index without atom checkpoints."""
    import kinema as kn

    trajectory = kn.open(path, stored=False)
    trajectory.scan()
    analysis = kn.analysis.RMSD(trajectory, select=atoms)
    watch = _Stopwatch()
    analysis.run(stop=frames, workers=1, progress=False)
    return watch.stop(frames)


def kinema_rmsf(path: str, atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """`kinema.analysis.RMSF` without superposition on one core; frames are found beforehand."""
    import kinema as kn

    trajectory = kn.open(path)
    trajectory.scan()
    analysis = kn.analysis.RMSF(trajectory, select=atoms)
    watch = _Stopwatch()
    analysis.run(stop=frames, workers=1, progress=False)
    return watch.stop(frames)


def kinema_decode(path: str, _atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """All atoms of all frames into one array, frame by frame of a few; the file's frames repeated up to `frames`."""
    import kinema as kn

    trajectory = kn.open(path)
    there = min(
        len(trajectory), max(1, 400_000 // trajectory.n_atoms)
    )  # about the second-level cache, as one frame of a peer
    out = np.empty((there, trajectory.n_atoms, 3), dtype=np.float32)
    trajectory.read(frames=slice(0, there), out=out, workers=1)
    passes = max(1, frames // there)
    watch = _Stopwatch()
    for _ in range(passes):
        trajectory.read(frames=slice(0, there), out=out, workers=1)
    return watch.stop(passes * there)


def kinema_index(path: str, _atoms: NDArray[np.int64], _frames: int) -> dict[str, Any]:
    """Finding all frames of a file that has no stored index."""
    import kinema as kn

    trajectory = kn.open(path, stored=False)
    watch = _Stopwatch()
    trajectory.scan(workers=1)
    return watch.stop(len(trajectory))


def interpreter(_path: str, _atoms: NDArray[np.int64], _frames: int) -> dict[str, Any]:
    """A process that has imported what `kinema rmsd` imports, and nothing more."""
    from kinema.cli.app import application

    application(["rmsd"])
    return _Stopwatch().stop(0)


def mdanalysis(path: str, atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """`MDAnalysis.analysis.rms.RMSD`."""
    import MDAnalysis
    from MDAnalysis.analysis.rms import RMSD

    universe = _universe(MDAnalysis, path)
    analysis = RMSD(universe.atoms[atoms], ref_frame=0)
    watch = _Stopwatch()
    analysis.run(stop=frames)
    return watch.stop(frames)


def mdanalysis_decode(path: str, _atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """Frames by MDAnalysis' binding of the GROMACS C library, without what the reader adds."""
    from MDAnalysis.lib.formats.libmdaxdr import XTCFile

    with XTCFile(path) as file:
        there = len(file)
        watch = _Stopwatch()
        for i in range(frames):
            if i % there == 0:
                file.seek(0)
            file.read()
    return watch.stop(frames)


def mdanalysis_read(path: str, _atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """A loop over frames, all atoms, as users write it."""
    import MDAnalysis

    universe = _universe(MDAnalysis, path)
    watch = _Stopwatch()
    for timestep in universe.trajectory[:frames]:
        timestep.positions  # noqa: B018
    return watch.stop(frames)


def kinema_read(path: str, _atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """The same into one array of a megabyte or two, as h5py gets one."""
    import kinema as kn

    trajectory = kn.open(path)
    trajectory.scan()
    # chunks that hold many frames are decoded once
    chunks = _h5md_chunks(path)
    step = min(frames, chunks[0] if chunks else max(1, 1_000_000 // (12 * trajectory.n_atoms)))
    slab = np.empty((step, trajectory.n_atoms, 3), np.float32)
    watch = _Stopwatch()
    for start in range(0, frames - step + 1, step):
        trajectory.read(slice(start, start + step), out=slab, workers=1)
    return watch.stop(frames)


def _h5md_chunks(path: str) -> tuple[int, ...] | None:
    if not path.endswith(".h5md"):
        return None
    from importlib import import_module

    # a function below has the package's name
    with import_module("h5py").File(path, "r") as file:
        chunks: tuple[int, ...] | None = file["particles/trajectory/position/value"].chunks
        return chunks


def h5py(path: str, _atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """Reading alone: slabs as long as a chunk, into one array, without a chunk cache that would hide the decoding."""
    from importlib import import_module

    # this function has the package's name
    with import_module("h5py").File(path, "r", rdcc_nbytes=0) as file:
        positions = file["particles/trajectory/position/value"]
        step = positions.chunks[0] if positions.chunks else max(1, 1_000_000 // positions[0].nbytes)
        step = min(step, frames)
        slab = np.empty((step, *positions.shape[1:]), positions.dtype)
        watch = _Stopwatch()
        for start in range(0, frames - step + 1, step):
            positions.read_direct(slab, np.s_[start : start + step])
        return watch.stop(frames)


def swapped_read(path: str, _atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """Positional reads of all bytes, half a megabyte or a frame at a time, each swapped by NumPy: the least that a
    big-endian format costs where all atoms are wanted."""
    buffer = np.empty(max(1 << 17, -(-os.path.getsize(path) // frames // 4)), dtype=">u4")
    native = np.empty(len(buffer), dtype="<u4")
    handle = os.open(path, os.O_RDONLY)
    watch = _Stopwatch()
    offset = 0
    while (found := os.preadv(handle, [buffer.data], offset)) > 0:
        native[: found // 4] = buffer[: found // 4]
        offset += found
    result = watch.stop(frames)
    os.close(handle)
    return result


def mdtraj(path: str, atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """`mdtraj.rmsd` on chunks, reading the chosen atoms only."""
    import mdtraj as md
    from mdtraj import formats

    topology = md.Topology()
    chain = topology.add_chain()
    for _ in atoms:
        topology.add_atom("CA", md.element.carbon, topology.add_residue("ALA", chain))
    names = {"xtc": "XTC", "dcd": "DCD", "trr": "TRR", "nc": "NetCDF"}
    file_class = getattr(formats, f"{names[path.rsplit('.', 1)[1]]}TrajectoryFile")

    def chunk(file: Any, length: int) -> Any:
        return md.Trajectory(file.read(length, atom_indices=atoms)[0], topology)  # positions come first

    with file_class(path) as file:
        reference = chunk(file, 1)
        file.seek(0)
        watch = _Stopwatch()
        done = 0
        while done < frames:
            part = chunk(file, min(_CHUNK, frames - done))
            md.rmsd(part, reference, parallel=False)
            done += len(part)
    return watch.stop(frames)


def chemfiles(path: str, atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """Reading alone: chemfiles computes no RMSD."""
    from chemfiles import Trajectory

    with Trajectory(path) as file:
        watch = _Stopwatch()
        for i in range(frames):
            frame = file.read_step(i)  # its positions are a view of its memory: it must live as long
            _ = frame.positions[atoms]
    return watch.stop(frames)


def warp_md_rmsd(path: str, atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """`warp_md.RmsdPlan` of all frames of a DCD file; it has no other length of run."""
    import warp_md

    return _warp_md(path, atoms, frames, lambda selection: warp_md.RmsdPlan(selection, "frame0", True))


def warp_md_rmsf(path: str, atoms: NDArray[np.int64], frames: int) -> dict[str, Any]:
    """`warp_md.RmsfPlan`, likewise; it superposes nothing."""
    import warp_md

    return _warp_md(path, atoms, frames, warp_md.RmsfPlan)


def _warp_md(path: str, atoms: NDArray[np.int64], frames: int, plan: Callable[[Any], Any]) -> dict[str, Any]:
    from warp_md import System, Trajectory

    n_atoms = _n_atoms(path)
    names = {"name": ["CA"] * n_atoms, "resname": ["ALA"] * n_atoms, "resid": [1] * n_atoms, "chain": ["A"] * n_atoms}
    system = System.from_arrays(names | {"element": ["C"] * n_atoms, "mass": [12.0] * n_atoms})
    analysis = plan(system.select_indices(atoms.tolist()))
    trajectory = Trajectory.open_dcd(path, system)
    watch = _Stopwatch()
    analysis.run(trajectory, system, chunk_frames=_WARP_CHUNK, device="cpu")
    return watch.stop(frames)


def _n_atoms(path: str) -> int:
    import kinema as kn

    return kn.open(path).n_atoms


def _universe(package: Any, path: str) -> Any:
    """A Universe of nameless atoms around a trajectory: no topology is needed for indices."""
    # of DL_POLY's files the name says nothing
    kind = "HISTORY" if path.endswith(".history") else None
    reader = package.coordinates.core.reader(path, format=kind)
    universe = package.Universe.empty(reader.n_atoms, trajectory=False)
    universe.add_TopologyAttr("masses", np.ones(reader.n_atoms))
    universe.load_new(path, format=kind)
    return universe


PROGRAMS: dict[str, Callable[[str, NDArray[np.int64], int], dict[str, Any]]] = {
    "kinema": kinema,
    "kinema-plain": kinema_plain,
    "kinema-rmsf": kinema_rmsf,
    "kinema-decode": kinema_decode,
    "kinema-index": kinema_index,
    "interpreter": interpreter,
    "mdanalysis": mdanalysis,
    "mdanalysis-decode": mdanalysis_decode,
    "mdanalysis-read": mdanalysis_read,
    "kinema-read": kinema_read,
    "h5py": h5py,
    "swapped-read": swapped_read,
    "mdtraj": mdtraj,
    "chemfiles": chemfiles,
    "warp-md": warp_md_rmsd,
    "warp-md-rmsf": warp_md_rmsf,
}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    program, file_name, atoms_file, number = sys.argv[1:]
    chosen = np.load(atoms_file) if atoms_file else np.zeros(0, dtype=np.int64)
    print(json.dumps(PROGRAMS[program](file_name, chosen, int(number))))
