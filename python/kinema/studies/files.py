"""Files of an experiment: the trajectory in several formats, in parts, in memory; and the system's cache of them."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, Error, FileIOError, from_os
from kinema.files import open_regular
from kinema.frame import Frame
from kinema.opening import open as open_trajectory
from kinema.selection.universe import import_mdanalysis
from kinema.trajectory import Trajectory
from kinema.writing.writer import Writer

__all__ = [
    "H5MD_LAYOUTS",
    "MEMORY_FOLDER",
    "copied",
    "forget",
    "read_all",
    "write_as",
    "write_subfiles",
    "write_synthetic",
]

# files here are in memory
MEMORY_FOLDER = Path("/dev/shm")
# the files of the publication of 2021, as arguments of MDAnalysis' writer; by default it makes a chunk of each frame
H5MD_LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "h5md-automatic": {"chunks": True},
    "h5md-frame": {},
    "h5md-contiguous": {"chunks": False},
    "h5md-gzip1": {"compression": "gzip", "compression_opts": 1},
    "h5md-gzip9": {"compression": "gzip", "compression_opts": 9},
}
_CHUNK = 16 << 20
# of the free memory there
_SHARE = 0.5
# of a DCD or H5MD file: three numbers of 4 bytes, and what stands around them
_ATOM_BYTES = 12
_FRAME_BYTES = 80


def write_as(trajectory: Trajectory, folder: Path, format: str) -> list[str]:
    """The frames as one file of a format: "xtc", "dcd", "h5md" (Kinema's own), "h5md-..." (of `H5MD_LAYOUTS`).

    Raises ArgumentError where the folder has no room for it, FileIOError where it was not written whole.
    """
    if format != "xtc":
        _check_room(folder, trajectory.n_atoms, trajectory.n_frames)
    if format == "h5md":
        path = str(folder / "trajectory.h5md")
        with Writer(path, trajectory.n_atoms) as out:
            for block in trajectory.blocks():
                out.write(block)
    elif format in H5MD_LAYOUTS:
        path = str(folder / f"{format}.h5md")
        units = {"convert_units": False, "lengthunit": "Angstrom", "timeunit": "ps"}
        options = {"n_frames": trajectory.n_frames, **units, **H5MD_LAYOUTS[format]}
        _write(path, trajectory.n_atoms, enumerate(trajectory), **options)
    else:
        path = str(folder / f"trajectory.{format}")
        _write(path, trajectory.n_atoms, enumerate(trajectory))
    return [path]


def write_subfiles(trajectory: Trajectory, folder: Path, number: int) -> list[str]:
    """The frames in as many files, contiguous: XTC where they came from one, otherwise DCD."""
    suffix = "xtc" if trajectory.format == "XTC" else "dcd"
    if number > trajectory.n_frames:
        raise ArgumentError(f"{trajectory.n_frames} frames do not fill {number} files")
    if suffix != "xtc":
        _check_room(folder, trajectory.n_atoms, trajectory.n_frames)
    bounds = np.linspace(0, trajectory.n_frames, number + 1).astype(int)
    paths = []
    for part, (first, last) in enumerate(pairwise(bounds)):
        paths.append(str(folder / f"part{part:04d}of{number:04d}.{suffix}"))
        _write(paths[-1], trajectory.n_atoms, enumerate(trajectory[int(first) : int(last)], start=int(first)))
    return paths


def write_synthetic(folder: Path, n_atoms: int, n_frames: int) -> list[str]:
    """A random walk of so many atoms and frames as a DCD file in `folder`.

    Raises ArgumentError where it would take more than half of what is free there.
    """
    _check_room(folder, n_atoms, n_frames, _SHARE)
    path = str(folder / "synthetic.dcd")
    _write(path, n_atoms, enumerate(_walk(n_atoms, n_frames)))
    return [path]


def _check_room(folder: Path, n_atoms: int, n_frames: int, share: float = 1.0) -> None:
    """Refuses files of unpacked numbers for which there is no room, before any of it is written.

    On a full disk MDAnalysis' DCD writer goes on without an error, and HDF5 may end the process.
    """
    size = n_frames * (_ATOM_BYTES * n_atoms + _FRAME_BYTES)
    free = shutil.disk_usage(folder).free
    if size > share * free:
        raise ArgumentError(
            f"{folder}: {n_frames:,} frames take {size:,} bytes, and {free:,} are free there; choose fewer frames with "
            "--stop, or another folder"
        )


def _walk(n_atoms: int, n_frames: int) -> Iterator[Frame]:
    random = np.random.default_rng(1)
    positions = random.uniform(-15.0, 15.0, (n_atoms, 3)).astype(np.float32)
    cell = np.zeros((3, 3))
    for number in range(n_frames):
        positions = positions + random.normal(0.0, 0.3, (n_atoms, 3)).astype(np.float32)
        yield Frame(positions, None, None, cell, number, float(number), number)


def _write(path: str, n_atoms: int, frames: Iterator[tuple[int, Frame]], **options: Any) -> None:
    """With MDAnalysis, whose writers the publications used as well. Steps and times are numbers of frames.

    `options` are those of its writer. Raises FileIOError where fewer frames are there afterwards.
    """
    try:
        written = _write_frames(path, n_atoms, frames, options)
    except OSError as error:
        raise error if isinstance(error, Error) else from_os("cannot write", error, path) from None
    try:
        found = open_trajectory(path).n_frames
    except Error as error:
        raise FileIOError(f"{path}: was not written whole, is its disk full? {error}", path=path) from None
    if found != written:
        raise FileIOError(
            f"{path}: was not written whole, is its disk full? expected {written} frames, found {found}", path=path
        )


def _write_frames(path: str, n_atoms: int, frames: Iterator[tuple[int, Frame]], options: Mapping[str, Any]) -> int:
    """How many frames were written."""
    mda = import_mdanalysis()
    from MDAnalysis.lib.mdamath import triclinic_box

    universe = mda.Universe.empty(n_atoms, trajectory=True)
    stamp = universe.trajectory.ts
    written = 0
    with warnings.catch_warnings():
        # no unit cell in synthetic data
        warnings.simplefilter("ignore")
        with mda.Writer(path, n_atoms=n_atoms, dt=1.0, **options) as out:
            for number, frame in frames:
                stamp.positions = _positions(frame)
                stamp.dimensions = triclinic_box(*frame.cell.astype(np.float64)) if frame.cell.any() else None
                stamp.frame = number
                stamp.time = float(number)
                stamp.data["step"] = number
                out.write(universe.atoms)
                written += 1
    return written


def _positions(frame: Frame) -> NDArray[Any]:
    if frame.positions is None:
        raise ArgumentError(f"frame {frame.frame} has no positions")
    return frame.positions


def read_all(paths: Sequence[str]) -> None:
    """Reads every byte once, so that the system has them in memory, as far as it keeps them."""
    for path in paths:
        try:
            with open_regular(path, "trajectory") as file:
                while os.read(file.fileno(), _CHUNK):
                    pass
        except OSError as error:
            raise from_os("cannot read", error, path) from None


def forget(paths: Sequence[str]) -> None:
    """Asks the system to drop what it has in memory of the files: written first, as what is dirty cannot be dropped.

    Raises ArgumentError where the system has no such call. Files in memory stay there.
    """
    if not hasattr(os, "posix_fadvise"):
        raise ArgumentError("this system cannot be asked to forget files; use the cache as it is: warm")
    for path in paths:
        try:
            with open_regular(path, "trajectory") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise from_os("cannot drop from the cache", error, path) from None


def copied(paths: Sequence[str], folder: Path) -> list[str]:
    """Fresh copies in `folder`, which are not in the cache."""
    made = []
    for number, path in enumerate(paths):
        made.append(str(folder / f"{number:04d}-{Path(path).name}"))
        try:
            shutil.copyfile(path, made[-1])
        except OSError as error:
            raise from_os("cannot copy", error, path) from None
    forget(made)
    return made
