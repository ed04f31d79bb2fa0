"""Long trajectory files from short ones, frame bytes repeated as they are: made at the speed of the disk.

It decodes no coordinates. XTC frames get steps and times that count on; DCD files have these in the header only.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError

__all__ = ["repeat_dcd", "repeat_xtc", "repeated_size"]

# progress is told, and a stop is heeded, after each of these
_WRITE_BYTES = 32 << 20
# bytes of an XTC frame of more than nine atoms before the packed coordinates; their length is the last four
_XTC_HEADER = 92

Progress = Callable[[int], None]


def repeated_size(source: Path, repeats: int) -> tuple[int, int]:
    """Bytes that the repeated file has, and frames that the source, XTC or little-endian DCD, has."""
    data = source.read_bytes()
    if source.suffix == ".xtc":
        return repeats * len(data), len(_xtc_frame_starts(data))
    header = _dcd_header_size(data, source)
    frame = _dcd_frame_size(data, header, source)
    return header + repeats * (len(data) - header), (len(data) - header) // frame


def repeat_xtc(source: Path, target: Path, repeats: int, progress: Progress | None = None) -> None:
    """Writes the frames `repeats` times, step and time counting on by 1 and 1 ps; progress hears bytes so far."""
    frames = source.read_bytes()
    with _whole_or_not(target) as file:
        _tell(_xtc_repetitions(file, frames, repeats), progress)


def repeat_dcd(source: Path, target: Path, repeats: int, progress: Progress | None = None) -> None:
    """Writes the header with the new number of frames, and all frames `repeats` times."""
    data = source.read_bytes()
    with _whole_or_not(target) as file:
        _tell(_dcd_repetitions(file, data, source, repeats), progress)


def _tell(written: Iterator[int], progress: Progress | None) -> None:
    for number in written:
        if progress is not None:
            progress(number)


def _xtc_frame_starts(data: bytes) -> NDArray[np.int64]:
    """Byte offsets of the frames in the bytes of an XTC file, (frames,). Packed coordinates are padded to four."""
    starts = []
    offset = 0
    while offset < len(data):
        starts.append(offset)
        (packed,) = struct.unpack_from(">i", data, offset + _XTC_HEADER - 4)
        offset += _XTC_HEADER + (packed + 3) // 4 * 4
    return np.array(starts, dtype=np.int64)


def _xtc_repetitions(file: BinaryIO, frames: bytes, repeats: int) -> Iterator[int]:
    starts = _xtc_frame_starts(frames)
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
            raise ArgumentError(f"{path}: not a little-endian DCD, which is what can be repeated", path=str(path))
        offset += length + 8
    return offset


def _dcd_frame_size(data: bytes, header: int, path: Path) -> int:
    """Bytes of a frame: a record for the cell where there is one, and one each for x, y and z."""
    (n_atoms,) = struct.unpack_from("<i", data, header - 8)
    (first,) = struct.unpack_from("<i", data, header)
    size: int = 3 * (4 * n_atoms + 8) + (0 if first == 4 * n_atoms else first + 8)
    if (len(data) - header) % size:
        raise ArgumentError(f"{path}: has no whole number of frames of {size} bytes", path=str(path))
    return size


def _dcd_repetitions(file: BinaryIO, data: bytes, path: Path, repeats: int) -> Iterator[int]:
    header = _dcd_header_size(data, path)
    frames = repeats * ((len(data) - header) // _dcd_frame_size(data, header, path))
    start = bytearray(data[:header])
    # after the record's length and "CORD": number of frames, first step, steps between frames, steps in all
    struct.pack_into("<i", start, 8, frames)
    (between,) = struct.unpack_from("<i", start, 16)
    struct.pack_into("<i", start, 20, min(frames * between, 2**31 - 1))
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
