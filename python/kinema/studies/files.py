"""Files of an experiment: the trajectory in several formats, in parts, in memory; and control of the page cache."""

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

from kinema.base.errors import ArgumentError, Error, FileIOError, from_os
from kinema.base.input_files import open_regular
from kinema.base.notes import collected
from kinema.files.convert import Converted, convert
from kinema.formats.all_formats import format_named
from kinema.model.universe import import_mdanalysis
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

__all__ = [
    "BARE",
    "H5MD_LAYOUTS",
    "MEMORY_FOLDER",
    "convert_to",
    "copied",
    "copies",
    "forget",
    "read_all",
    "write_as",
    "write_subfiles",
    "write_synthetic",
]

# a file system in memory
MEMORY_FOLDER = Path("/dev/shm")
# the files of the publication of 2021, as options of kinema.Writer; MDAnalysis' writer, which it used, makes one chunk
# per frame, or the chunks that h5py would choose
H5MD_LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "h5md-automatic": {"layout": "automatic"},
    "h5md-frame": {"layout": "frame"},
    "h5md-contiguous": {"layout": "contiguous"},
    "h5md-gzip1": {"layout": "frame", "compression": "gzip", "level": 1},
    "h5md-gzip9": {"layout": "frame", "compression": "gzip", "level": 9},
}
# angstrom and float32, as positions in MDAnalysis, whatever the source has
_H5MD: Mapping[str, Any] = {"length_unit": "angstrom", "dtype": "float32"}
# how a bare data set of positions is opened
BARE: Mapping[str, Any] = {"dataset": "pos", "units": {"length": "angstrom"}}
_CHUNK = 16 << 20
# share of the free memory
_SHARE = 0.5
# bytes in a TRR, NetCDF, DCD or H5MD file: three numbers of 4 bytes per atom, and at most this many more per frame
_ATOM_BYTES = 12
_FRAME_BYTES = 120


def write_as(trajectory: Trajectory, folder: Path, format: str) -> list[str]:
    """The frames as one file of a format: "xtc", "trr", "nc", "dcd", "bare", "h5md" (Kinema's own), "h5md-...".

    Raises ArgumentError if the folder has no room for it, FileIOError if it was not written completely.
    """
    if format != "xtc":
        _check_room(folder, trajectory.n_atoms, trajectory.n_frames)
    if format == "bare":
        return [_write_bare(trajectory, str(folder / "bare.h5"))]
    made = convert_to(trajectory, folder, format)
    return [made.path]


def convert_to(trajectory: Trajectory, folder: Path, format: str, **options: Any) -> Converted:
    """Converts the positions to a file of a format that `write_as` names except "bare"; options as `kinema.convert`."""
    if format in H5MD_LAYOUTS:
        path = str(folder / f"{format}.h5md")
        stored: dict[str, Any] = {**_H5MD, **H5MD_LAYOUTS[format], "dialect": "mdanalysis"}
        stored["layout"] = _layout(stored["layout"], trajectory)
    else:
        path = str(folder / f"trajectory.{format}")
        stored = dict(_H5MD) if format == "h5md" else {}
    return _convert(trajectory, path, **stored, **options)


def _write_bare(trajectory: Trajectory, path: str) -> str:
    """The data set of the publication of 2020: (frames, 3 atoms) float32 in angstrom, and nothing else."""
    import h5py

    width = 3 * trajectory.n_atoms
    try:
        with h5py.File(path, "w") as file:
            values = file.create_dataset(BARE["dataset"], (trajectory.n_frames, width), "f4")
            first = 0
            for block in trajectory.blocks(fields="positions"):
                rows = np.asarray(block.positions).reshape(-1, width)
                values[first : first + len(rows)] = rows
                first += len(rows)
    except OSError as error:
        raise from_os("cannot write", error, path) from None
    return path


def write_subfiles(trajectory: Trajectory, folder: Path, number: int) -> list[str]:
    """The frames as `number` files of contiguous frames: XTC if the source is XTC, otherwise DCD."""
    suffix = "xtc" if format_named(trajectory.format).packed else "dcd"
    if number > trajectory.n_frames:
        raise ArgumentError(f"{trajectory.n_frames} frames do not fill {number} files")
    if suffix != "xtc":
        _check_room(folder, trajectory.n_atoms, trajectory.n_frames)
    bounds = np.linspace(0, trajectory.n_frames, number + 1).astype(int)
    paths = []
    for part, (first, last) in enumerate(pairwise(bounds)):
        paths.append(str(folder / f"part{part:04d}of{number:04d}.{suffix}"))
        _convert(trajectory[int(first) : int(last)], paths[-1])
    return paths


def _convert(trajectory: Trajectory, path: str, **options: Any) -> Converted:
    """Writes positions to a file, replacing an existing one; experiments do not use the data that are lost."""
    with collected():
        return convert(trajectory, path, fields="positions", overwrite=True, **options)


def _layout(name: str, trajectory: Trajectory) -> str | tuple[int, ...]:
    """A layout of kinema.Writer: one chunk per frame, or the chunks that h5py chooses for this number of frames."""
    if name == "frame":
        return 1, trajectory.n_atoms, 3
    if name != "automatic":
        return name
    import h5py

    shape = (trajectory.n_frames, trajectory.n_atoms, 3)
    with h5py.File("automatic", "w", driver="core", backing_store=False) as file:
        chunks: tuple[int, ...] = file.create_dataset("value", shape, "f4", chunks=True).chunks
    return chunks


def write_synthetic(folder: Path, n_atoms: int, n_frames: int) -> list[str]:
    """Writes a random walk of `n_atoms` and `n_frames` as a DCD file in `folder`.

    Raises ArgumentError if it would take more than half of the free space.
    """
    _check_room(folder, n_atoms, n_frames, _SHARE)
    path = str(folder / "synthetic.dcd")
    _write_dcd(path, _walk(n_atoms, n_frames), n_atoms, n_frames)
    return [path]


def _check_room(folder: Path, n_atoms: int, n_frames: int, share: float = 1.0) -> None:
    """Refuses files of uncompressed numbers that would not fit, before any of them is written.

    HDF5 may end the process on a full disk.
    """
    size = n_frames * (_ATOM_BYTES * n_atoms + _FRAME_BYTES)
    free = shutil.disk_usage(folder).free
    if size > share * free:
        raise ArgumentError(
            f"{folder}: {n_frames:,} frames take {size:,} bytes, and {free:,} are free there; choose fewer frames with "
            "--stop, or another folder"
        )


def _walk(n_atoms: int, n_frames: int) -> Iterator[NDArray[np.float32]]:
    random = np.random.default_rng(1)
    positions = random.uniform(-15.0, 15.0, (n_atoms, 3)).astype(np.float32)
    for _ in range(n_frames):
        positions = positions + random.normal(0.0, 0.3, (n_atoms, 3)).astype(np.float32)
        yield positions


def _write_dcd(path: str, frames: Iterator[NDArray[np.float32]], n_atoms: int, n_frames: int) -> None:
    """Writes with MDAnalysis, because there is no trajectory to convert. Steps and times are frame numbers.

    Raises FileIOError if the file has fewer frames afterwards.
    """
    mda = import_mdanalysis()
    universe = mda.Universe.empty(n_atoms, trajectory=True)
    stamp = universe.trajectory.ts
    try:
        with warnings.catch_warnings():
            # no unit cell
            warnings.simplefilter("ignore")
            with mda.Writer(path, n_atoms=n_atoms, dt=1.0) as out:
                for number, stamp.positions in enumerate(frames):
                    stamp.frame, stamp.time = number, float(number)
                    out.write(universe.atoms)
    except OSError as error:
        raise from_os("cannot write", error, path) from None
    try:
        found = open_trajectory(path).n_frames
    except Error as error:
        raise FileIOError(f"{path}: was not written whole, is its disk full? {error}", path=path) from None
    if found != n_frames:
        raise FileIOError(
            f"{path}: was not written whole, is its disk full? expected {n_frames} frames, found {found}", path=path
        )


def read_all(paths: Sequence[str]) -> None:
    """Reads every byte once, so that the system caches the files as far as it can."""
    for path in dict.fromkeys(paths):
        try:
            with open_regular(path, "trajectory") as file:
                while os.read(file.fileno(), _CHUNK):
                    pass
        except OSError as error:
            raise from_os("cannot read", error, path) from None


def forget(paths: Sequence[str]) -> None:
    """Asks the system to drop the files from its cache, after writing dirty pages, which cannot be dropped.

    Raises ArgumentError if the system has no such call. Files in memory stay there.
    """
    if not hasattr(os, "posix_fadvise"):
        raise ArgumentError("this system cannot be asked to forget files; use the cache as it is: warm")
    for path in dict.fromkeys(paths):
        try:
            with open_regular(path, "trajectory") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise from_os("cannot drop from the cache", error, path) from None


def copied(paths: Sequence[str], folder: Path) -> list[str]:
    """Fresh copies in `folder` that are not in the cache."""
    made = copies(paths, folder)
    forget(made)
    return made


def copies(paths: Sequence[str], folder: Path) -> list[str]:
    """Copies in `folder`; a file that is named n times is copied once."""
    made = {path: str(folder / f"{number:04d}-{Path(path).name}") for number, path in enumerate(dict.fromkeys(paths))}
    for path, copy in made.items():
        try:
            shutil.copyfile(path, copy)
        except OSError as error:
            raise from_os("cannot copy", error, path) from None
    return [made[path] for path in paths]
