"""One measurement of one program, in a process of its own: prints a line of JSON (wall, cpu, frames, repeats).

Each program runs on a few frames, untimed, and then on all its frames again and again until 0.3 s have passed. Wall and
CPU seconds (of all threads) are those of one run. It chooses no cases. Opening files and building offsets is not
counted, for any program.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.resources import peak_memory
from repeats import drop_pages, timed

_FEW = 10  # frames of the untimed run
_CHUNK = 200  # frames that mdtraj reads at a time; more are no faster
_WARP_CHUNK = 64  # frames that warp-md reads at a time; from its default to 4096 nothing is faster beyond noise


@dataclass(frozen=True)
class Work:
    """Work of a program on a file that it has opened.

    Attributes
    ----------
    run : function
        Does the first frames of the file, of a number that it is given.
    frames : int
        Number of frames of a timed run.
    before : function, optional
        Called before each run; its time does not count.
    """

    run: Callable[[int], object]
    frames: int
    before: Callable[[], object] = lambda: None


def kinema(path: str, atoms: NDArray[np.int64], frames: int) -> Work:
    """`kinema.analysis.RMSD` on one core; frames are found beforehand."""
    return _kinema(path, "RMSD", atoms, frames)


def kinema_plain(path: str, atoms: NDArray[np.int64], frames: int) -> Work:
    """As `kinema`, from an index without atom checkpoints."""
    return _kinema(path, "RMSD", atoms, frames, stored=False)


def kinema_rmsf(path: str, atoms: NDArray[np.int64], frames: int) -> Work:
    """`kinema.analysis.RMSF` without superposition on one core; frames are found beforehand."""
    return _kinema(path, "RMSF", atoms, frames)


def _kinema(path: str, name: str, atoms: NDArray[np.int64], frames: int, **options: Any) -> Work:
    import kinema as kn

    trajectory = kn.open(path, **options)
    trajectory.scan()
    analysis = getattr(kn.analysis, name)(trajectory, select=atoms)
    return Work(lambda count: analysis.run(stop=count, workers=1, progress=False), frames)


def kinema_decode(path: str, _atoms: NDArray[np.int64], frames: int) -> Work:
    """All atoms of all frames into one array, frame by frame of a few; the file's frames repeated up to `frames`."""
    import kinema as kn

    trajectory = kn.open(path)
    there = min(
        len(trajectory), max(1, 400_000 // trajectory.n_atoms)
    )  # about the second-level cache, as one frame of a peer
    out = np.empty((there, trajectory.n_atoms, 3), dtype=np.float32)

    def run(count: int) -> None:
        for _ in range(max(1, count // there)):
            trajectory.read(frames=slice(0, there), out=out, workers=1)

    return Work(run, max(1, frames // there) * there)


def kinema_index(path: str, _atoms: NDArray[np.int64], _frames: int) -> Work:
    """Finding all frames of a file that has no stored index; the untimed run finds all of them, too."""
    import kinema as kn

    trajectory = kn.open(path, stored=False)
    n_frames = len(trajectory)

    def opened() -> None:
        nonlocal trajectory
        trajectory = kn.open(path, stored=False)

    return Work(lambda _: trajectory.scan(workers=1), n_frames, opened)


def mdanalysis(path: str, atoms: NDArray[np.int64], frames: int) -> Work:
    """`MDAnalysis.analysis.rms.RMSD`."""
    import MDAnalysis
    from MDAnalysis.analysis.rms import RMSD

    universe = _universe(MDAnalysis, path)
    analysis = RMSD(universe.atoms[atoms], ref_frame=0)
    return Work(lambda count: analysis.run(stop=count), frames)


def mdanalysis_decode(path: str, _atoms: NDArray[np.int64], frames: int) -> Work:
    """Frames by MDAnalysis' binding of the GROMACS C library, without what the reader adds."""
    from MDAnalysis.lib.formats.libmdaxdr import XTCFile

    file = XTCFile(path)
    there = len(file)

    def run(count: int) -> None:
        for i in range(count):
            if i % there == 0:
                file.seek(0)
            file.read()

    return Work(run, frames)


def mdanalysis_read(path: str, _atoms: NDArray[np.int64], frames: int) -> Work:
    """A loop over frames, all atoms, as users write it."""
    import MDAnalysis

    universe = _universe(MDAnalysis, path)

    def run(count: int) -> None:
        for timestep in universe.trajectory[:count]:
            timestep.positions  # noqa: B018

    return Work(run, frames)


def kinema_read(path: str, _atoms: NDArray[np.int64], frames: int) -> Work:
    """The same into one array of a megabyte or two, as h5py gets one."""
    import kinema as kn

    trajectory = kn.open(path)
    trajectory.scan()
    # chunks that hold many frames are decoded once
    chunks = _h5md_chunks(path)
    step = min(frames, chunks[0] if chunks else max(1, 1_000_000 // (12 * trajectory.n_atoms)))
    slab = np.empty((step, trajectory.n_atoms, 3), np.float32)

    def run(count: int) -> None:
        for start, stop in _slabs(count, step):
            trajectory.read(slice(start, stop), out=slab[: stop - start], workers=1)

    return Work(run, frames)


def _slabs(count: int, step: int) -> Iterator[tuple[int, int]]:
    """Starts and stops of slabs of `step` frames, of which the last may be shorter."""
    for start in range(0, count, step):
        yield start, min(start + step, count)


def _h5md_chunks(path: str) -> tuple[int, ...] | None:
    if not path.endswith(".h5md"):
        return None
    from importlib import import_module

    # a function below has the package's name
    with import_module("h5py").File(path, "r") as file:
        chunks: tuple[int, ...] | None = file["particles/trajectory/position/value"].chunks
        return chunks


def h5py(path: str, _atoms: NDArray[np.int64], frames: int) -> Work:
    """Reading alone: slabs as long as a chunk, into one array, without a chunk cache that would hide the decoding."""
    from importlib import import_module

    # this function has the package's name
    file = import_module("h5py").File(path, "r", rdcc_nbytes=0)
    positions = file["particles/trajectory/position/value"]
    step = positions.chunks[0] if positions.chunks else max(1, 1_000_000 // positions[0].nbytes)
    step = min(step, frames)
    slab = np.empty((step, *positions.shape[1:]), positions.dtype)

    def run(count: int) -> None:
        for start, stop in _slabs(count, step):
            positions.read_direct(slab, np.s_[start:stop], np.s_[: stop - start])

    return Work(run, frames)


def plain_read(path: str, _atoms: NDArray[np.int64], frames: int, buffer: int) -> Work:
    """Positional reads of the whole file into one buffer of `buffer` bytes."""
    space, handle, size = memoryview(bytearray(buffer)), os.open(path, os.O_RDONLY), os.path.getsize(path)

    def run(count: int) -> None:
        for _ in _reads(handle, space, size * count // frames):
            pass

    return Work(run, frames)


def swapped_read(path: str, _atoms: NDArray[np.int64], frames: int) -> Work:
    """Positional reads of all bytes, half a megabyte or a frame at a time, each swapped by NumPy: the least that a
    big-endian format costs where all atoms are wanted."""
    handle, size = os.open(path, os.O_RDONLY), os.path.getsize(path)
    buffer = np.empty(max(1 << 17, -(-size // frames // 4)), dtype=">u4")
    native = np.empty(len(buffer), dtype="<u4")

    def run(count: int) -> None:
        for found in _reads(handle, buffer.data, size * count // frames):
            native[: found // 4] = buffer[: found // 4]

    return Work(run, frames)


def _reads(handle: int, buffer: memoryview, end: int) -> Iterator[int]:
    """Fills the buffer from the beginning of the file on, up to `end` or beyond; gives the bytes of each read."""
    offset = 0
    while offset < end and (found := os.preadv(handle, [buffer], offset)) > 0:
        yield found
        offset += found


def mdtraj(path: str, atoms: NDArray[np.int64], frames: int) -> Work:
    """`mdtraj.rmsd` on chunks, reading the chosen atoms only."""
    import mdtraj as md
    from mdtraj import formats

    topology = md.Topology()
    chain = topology.add_chain()
    for _ in atoms:
        topology.add_atom("CA", md.element.carbon, topology.add_residue("ALA", chain))
    names = {"xtc": "XTC", "dcd": "DCD", "trr": "TRR", "nc": "NetCDF"}
    file = getattr(formats, f"{names[path.rsplit('.', 1)[1]]}TrajectoryFile")(path)

    def chunk(length: int) -> Any:
        return md.Trajectory(file.read(length, atom_indices=atoms)[0], topology)  # positions come first

    reference = chunk(1)

    def run(count: int) -> None:
        file.seek(0)
        done = 0
        while done < count:
            part = chunk(min(_CHUNK, count - done))
            md.rmsd(part, reference, parallel=False)
            done += len(part)

    return Work(run, frames)


def chemfiles(path: str, atoms: NDArray[np.int64], frames: int) -> Work:
    """Reading alone: chemfiles computes no RMSD."""
    from chemfiles import Trajectory

    file = Trajectory(path)

    def run(count: int) -> None:
        for i in range(count):
            frame = file.read_step(i)  # its positions are a view of its memory: it must live as long
            _ = frame.positions[atoms]

    return Work(run, frames)


def warp_md_rmsd(path: str, atoms: NDArray[np.int64], frames: int) -> Work:
    """`warp_md.RmsdPlan` of all frames of a DCD file, also in the untimed run: it has no other length of run."""
    import warp_md

    return _warp_md(path, atoms, frames, lambda selection: warp_md.RmsdPlan(selection, "frame0", True))


def warp_md_rmsf(path: str, atoms: NDArray[np.int64], frames: int) -> Work:
    """`warp_md.RmsfPlan`, likewise; it superposes nothing."""
    import warp_md

    return _warp_md(path, atoms, frames, warp_md.RmsfPlan)


def _warp_md(path: str, atoms: NDArray[np.int64], frames: int, plan: Callable[[Any], Any]) -> Work:
    from warp_md import System, Trajectory

    n_atoms = _n_atoms(path)
    names = {"name": ["CA"] * n_atoms, "resname": ["ALA"] * n_atoms, "resid": [1] * n_atoms, "chain": ["A"] * n_atoms}
    system = System.from_arrays(names | {"element": ["C"] * n_atoms, "mass": [12.0] * n_atoms})
    analysis = trajectory = None

    def opened() -> None:
        nonlocal analysis, trajectory
        analysis = plan(system.select_indices(atoms.tolist()))
        trajectory = Trajectory.open_dcd(path, system)

    def run(_count: int) -> None:
        assert analysis is not None
        analysis.run(trajectory, system, chunk_frames=_WARP_CHUNK, device="cpu")

    return Work(run, frames, opened)


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


PROGRAMS: dict[str, Callable[..., Work]] = {
    "kinema": kinema,
    "kinema-plain": kinema_plain,
    "kinema-rmsf": kinema_rmsf,
    "kinema-decode": kinema_decode,
    "kinema-index": kinema_index,
    "mdanalysis": mdanalysis,
    "mdanalysis-decode": mdanalysis_decode,
    "mdanalysis-read": mdanalysis_read,
    "kinema-read": kinema_read,
    "h5py": h5py,
    "plain-read": plain_read,
    "swapped-read": swapped_read,
    "mdtraj": mdtraj,
    "chemfiles": chemfiles,
    "warp-md": warp_md_rmsd,
    "warp-md-rmsf": warp_md_rmsf,
}


def measured(path: str, work: Work, *, cold: bool = False) -> dict[str, Any]:
    """The untimed run and the timed ones; `cold`: no page of the file is in memory when a timed one begins."""

    def before() -> None:
        work.before()
        if cold:
            drop_pages(Path(path))

    work.before()
    work.run(min(_FEW, work.frames))
    return {**timed(lambda: work.run(work.frames), before), "frames": work.frames}


def interpreter() -> dict[str, Any]:
    """The memory of a process that has imported what `kinema rmsd` imports, and nothing more."""
    from kinema.cli.app import application

    application(["rmsd"])
    return {"peak_memory": peak_memory()}


def main() -> None:
    """Prints one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=(*PROGRAMS, "interpreter"))
    parser.add_argument("path", nargs="?", help="the trajectory")
    parser.add_argument("frames", nargs="?", type=int, default=0, help="of one run")
    parser.add_argument("--atoms", help="a .npy file of atom indices")
    parser.add_argument("--buffer", type=int, help="bytes, for plain-read")
    parser.add_argument("--cold", action="store_true", help="drop the pages of the file before each timed run")
    options = parser.parse_args()
    if options.program == "interpreter":
        print(json.dumps(interpreter()))
        return
    warnings.simplefilter("ignore")
    atoms = np.load(options.atoms) if options.atoms else np.zeros(0, dtype=np.int64)
    more = {} if options.buffer is None else {"buffer": options.buffer}
    work = PROGRAMS[options.program](options.path, atoms, options.frames, **more)
    print(json.dumps(measured(options.path, work, cold=options.cold)))


if __name__ == "__main__":
    main()
