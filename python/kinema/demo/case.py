"""The papers' benchmark case: 98 real frames of adenylate kinase, repeated to a long XTC and DCD trajectory.

It measures nothing. Frames are repeated byte by byte, XTC frames with steps and times that go on, so that
100,000 frames are made at the speed of the disk.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, FileNotFound

__all__ = ["Case", "make_case"]

SELECTION = "protein and name CA"
_GROUP = "C-alpha"
# the part of a disk's free space that the demo may fill
_SHARE_OF_DISK = 0.6
# progress is told, and a stop is heeded, after each of these
_WRITE_BYTES = 32 << 20

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Case:
    """Files of the benchmark.

    Attributes
    ----------
    topology, source : Path
        The real PSF and DCD of 98 frames, as MDAnalysisTests ships them.
    xtc, dcd : Path
        The long trajectories.
    index_file, group : Path, str
        The C-alpha atoms as an index file, for runs without a topology.
    n_frames : int
    """

    topology: Path
    source: Path
    xtc: Path
    dcd: Path
    index_file: Path
    group: str
    n_frames: int


def make_case(folder: Path, frames: int = 100_000, progress: Progress | None = None) -> Case:
    """Makes the case in `folder`, or takes what is there from an earlier call.

    Parameters
    ----------
    folder : Path
        Made where it does not exist.
    frames : int
        Whole repetitions of the 98 frames are written, fewer where the disk is small.
    progress : function, optional
        Called with bytes written and bytes in all.

    Raises
    ------
    FileNotFound
        Without MDAnalysisTests.
    ArgumentError
        For fewer than 98 frames, or a disk without space for these.
    """
    topology, source = _real_files()
    folder.mkdir(parents=True, exist_ok=True)
    short_xtc = folder / "adk_98_frames.xtc"
    index_file = folder / "c-alpha.ndx"
    if not (short_xtc.exists() and index_file.exists()):
        _write_short_files(topology, source, short_xtc, index_file)
    dcd_bytes = source.read_bytes()
    header = _dcd_header_size(dcd_bytes, source)
    dcd_frames = dcd_bytes[header:]
    xtc_frames = short_xtc.read_bytes()
    starts = xtc_frame_starts(xtc_frames)
    short = len(starts)
    targets = {name: folder / f"adk_long.{name}" for name in ("xtc", "dcd")}
    there = sum(path.stat().st_size for path in targets.values() if path.exists())
    repeats = _repeats(folder, frames, short, len(dcd_frames) + len(xtc_frames), there)
    total = repeats * (len(dcd_frames) + len(xtc_frames)) + header
    case = Case(topology, source, targets["xtc"], targets["dcd"], index_file, _GROUP, repeats * short)
    done = 0
    for path, size, write in (
        (case.xtc, repeats * len(xtc_frames), lambda file: _repeat_xtc(file, xtc_frames, starts, repeats)),
        (
            case.dcd,
            repeats * len(dcd_frames) + header,
            lambda file: _repeat_dcd(file, dcd_bytes, header, case.n_frames, repeats),
        ),
    ):
        if not (path.exists() and path.stat().st_size == size):
            with _whole_or_not(path) as file:
                for written in write(file):
                    if progress is not None:
                        progress(done + written, total)
        done += size
    return case


def _real_files() -> tuple[Path, Path]:
    """The PSF and DCD in MDAnalysisTests, which is not imported: that would take seconds."""
    found = importlib.util.find_spec("MDAnalysisTests")
    if found is None or not found.submodule_search_locations:
        raise FileNotFound("the demo's real trajectory is in MDAnalysisTests; install it: pip install MDAnalysisTests")
    folder = Path(found.submodule_search_locations[0]) / "data"
    topology, source = folder / "adk.psf", folder / "adk_dims.dcd"
    for path in (topology, source):
        if not path.exists():
            raise FileNotFound(f"{path}: no such file; install MDAnalysisTests again", path=str(path))
    return topology, source


def _repeats(folder: Path, frames: int, short: int, size: int, there: int) -> int:
    """How often the short trajectory, of `short` frames and `size` bytes in both formats, is repeated."""
    if frames < short:
        raise ArgumentError(f"the demo repeats {short} frames, expected at least as many, found --frames {frames}")
    space = shutil.disk_usage(folder).free * _SHARE_OF_DISK + there
    repeats = min(frames // short, int(space // size))
    if repeats < 1:
        raise ArgumentError(f"{folder}: no space for {size >> 20} MiB; name another folder with --folder")
    return repeats


def _write_short_files(topology: Path, source: Path, xtc: Path, index_file: Path) -> None:
    """The 98 frames as XTC, by MDAnalysis' writer, and the C-alpha atoms as an index file."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # missing time step and box of this DCD, known
        import MDAnalysis

        universe = MDAnalysis.Universe(str(topology), str(source))
        temporary = xtc.with_name(f".{xtc.name}")
        # the format is told by the suffix
        temporary = temporary.with_suffix(".new.xtc")
        with MDAnalysis.Writer(str(temporary), universe.atoms.n_atoms) as writer:
            for _ in universe.trajectory:
                writer.write(universe.atoms)
        atoms = universe.select_atoms(SELECTION).indices + 1
    temporary.replace(xtc)
    lines = [f"[ {_GROUP} ]"]
    lines += [" ".join(map(str, atoms[i : i + 15])) for i in range(0, len(atoms), 15)]
    index_file.write_text("\n".join(lines) + "\n", encoding="ascii")


def xtc_frame_starts(data: bytes) -> NDArray[np.int64]:
    """Byte offsets of the frames in the bytes of an XTC file of more than nine atoms, (frames,).

    A frame is 92 bytes of header, the last four the length of the packed coordinates, and these, padded to four.
    """
    starts = []
    offset = 0
    while offset < len(data):
        starts.append(offset)
        (packed,) = struct.unpack_from(">i", data, offset + 88)
        offset += 92 + (packed + 3) // 4 * 4
    return np.array(starts, dtype=np.int64)


def _repeat_xtc(file: BinaryIO, frames: bytes, starts: NDArray[np.int64], repeats: int) -> Iterator[int]:
    """Writes the frames `repeats` times, step and time counting on by 1 and 1 ps; yields bytes written so far."""
    buffer = np.frombuffer(bytearray(frames), dtype=np.uint8)
    # step and time are the third and fourth four bytes of a frame
    at_step = (starts + 8)[:, None] + np.arange(4)
    for i in range(repeats):
        numbers = i * len(starts) + np.arange(len(starts))
        buffer[at_step] = numbers.astype(">i4")[:, None].view(np.uint8)
        buffer[at_step + 4] = numbers.astype(">f4")[:, None].view(np.uint8)
        file.write(buffer.data)
        yield (i + 1) * len(frames)


def _dcd_header_size(data: bytes, path: Path) -> int:
    """Bytes before the first frame: three Fortran records, of 84 bytes, titles, and the number of atoms."""
    offset = 0
    for _ in range(3):
        (length,) = struct.unpack_from("<i", data, offset)
        if not 0 < length < len(data) - offset:
            raise ArgumentError(f"{path}: not the little-endian DCD that the demo repeats")
        offset += length + 8
    return offset


def _repeat_dcd(file: BinaryIO, data: bytes, header: int, frames: int, repeats: int) -> Iterator[int]:
    """Writes the header with the new number of frames, and all frames `repeats` times; yields bytes so far."""
    start = bytearray(data[:header])
    # after the record's length and "CORD": number of frames, first step, steps between frames, steps in all
    struct.pack_into("<i", start, 8, frames)
    (between,) = struct.unpack_from("<i", start, 16)
    struct.pack_into("<i", start, 20, frames * between)
    file.write(start)
    body = memoryview(data)[header:]
    at_once = max(1, _WRITE_BYTES // len(body))
    for i in range(0, repeats, at_once):
        number = min(at_once, repeats - i)
        for _ in range(number):
            file.write(body)
        yield header + (i + number) * len(body)


@contextmanager
def _whole_or_not(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name when all of it is written; nothing is left where that fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
