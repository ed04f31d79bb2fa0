"""Frames that are written under attack, and what must be in the file afterwards; for kills, full disks and faults."""

from __future__ import annotations

import mmap
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from attack.children import called
from attack.trials import Broken

# suffix, options of the writer, largest difference of a coordinate in angstrom
FORMATS: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("dcd", {}, 1e-4),
    ("xtc", {}, 6e-3),
    ("trr", {}, 1e-4),
    ("nc", {}, 1e-4),
    ("nc", {"netcdf4": True}, 1e-4),
    ("h5md", {}, 1e-4),
    ("history", {}, 1e-4),
)
N_ATOMS = 23
N_FRAMES = 60


def positions_of(frame: int) -> np.ndarray[Any, Any]:
    """(N_ATOMS, 3) in angstrom, another number for each frame and atom; none is zero."""
    return (1 + frame % 97 + np.arange(N_ATOMS * 3).reshape(N_ATOMS, 3) % 331 / 10).astype(np.float32)


def cell_of(frame: int) -> np.ndarray[Any, Any]:
    """(3, 3) in angstrom."""
    return np.diag([200.0 + frame, 210.0, 220.0])


class Work:
    """Frames that one writer writes: format, mode, after how many frames it commits, and how many it has committed."""

    def __init__(self, folder: Path, number: int, mode: str, every: int) -> None:
        suffix, self.options, self.near = FORMATS[number]
        self.folder, self.mode, self.every = folder, mode, every
        self.path = folder / f"a.{suffix}"
        # shared with forks
        self._committed = mmap.mmap(-1, 8)

    def __str__(self) -> str:
        return f"{self.path.suffix[1:]}{self.options or ''}, mode {self.mode!r}, a flush after {self.every} frames"

    @property
    def committed(self) -> int:
        """Frames of which a flush has returned."""
        return int(struct.unpack("<q", self._committed[:8])[0])

    def write(self, first: int = 0, mode: str | None = None) -> None:
        """Writes the frames from `first` on; for a fork."""
        warnings.simplefilter("ignore")
        with kn.Writer(self.path, N_ATOMS, mode=mode or self.mode, **self.options) as out:  # type: ignore[arg-type]
            for frame in range(first, N_FRAMES):
                out.write(positions_of(frame), step=10 * frame, time=float(frame), cell=cell_of(frame))
                if (frame + 1) % self.every == 0:
                    out.flush()
                    self._committed[:8] = struct.pack("<q", frame + 1)

    def left(self) -> Path | None:
        """The file that has the frames after a writer was ended, of which there may be none.

        With mode "w" the final name stands for a whole file.
        """
        if self.path.exists():
            if self.mode == "w" and (found := called(read, self.path, self.near).checked()) != N_FRAMES:
                raise Broken(f"{self}: {found} frames under the final name")
            return self.path
        parts = sorted(self.folder.glob(f"{self.path.stem}.part-*{self.path.suffix}"))
        return parts[0] if parts else None

    def check(self) -> int:
        """Checks that all committed frames are there, and that all that are there are right; how many these are."""
        path, committed = self.left(), self.committed
        if path is None:
            if committed:
                raise Broken(f"{self}: {committed} frames were committed, and no file is left")
            return 0
        outcome = called(read, path, self.near)
        if outcome.refused():
            if committed:
                raise Broken(f"{self}: {committed} frames were committed: {outcome.error}")
            return 0
        if outcome.value < committed:
            raise Broken(f"{self}: {committed} frames were committed, and {outcome.value} are in {path.name}")
        found: int = outcome.value
        return found

    def go_on(self) -> None:
        """Continues what is left with mode="a", as its user would, to the last frame."""
        path, n_frames = self.left(), self.check()
        if path is not None and path != self.path:
            path.rename(self.path)
        if not n_frames:
            self.path.unlink(missing_ok=True)
        called(self.write, n_frames, "a").checked()
        if (found := called(read, self.path, self.near).checked()) != N_FRAMES:
            raise Broken(f"{self}: continued with {n_frames} frames, and {found} are in the file, expected {N_FRAMES}")


def drawn(moments: random.Random, folder: Path) -> Work:
    """A writer of any format."""
    return Work(folder, moments.randrange(len(FORMATS)), moments.choice("wa"), moments.choice((1, 3, 7, 20)))


def read(path: Path, near: float) -> int:
    """How many frames a file has; Broken if one of them is not what was written. For a fork."""
    warnings.simplefilter("ignore")
    trajectory = kn.open(path, stored=False)
    n_frames = trajectory.n_frames
    for number in range(n_frames):
        frame = trajectory[number]
        if not np.allclose(frame.positions, positions_of(number), atol=near, rtol=0):
            raise Broken(f"{path.name}: frame {number} has other positions than were written")
        if frame.cell is None or not np.allclose(frame.cell, cell_of(number), atol=1e-3, rtol=0):
            raise Broken(f"{path.name}: frame {number} has cell {frame.cell}, expected {cell_of(number).tolist()}")
        if frame.time is None or abs(frame.time - number) > 1e-3:
            raise Broken(f"{path.name}: frame {number} has time {frame.time}, expected {number}")
    return n_frames
