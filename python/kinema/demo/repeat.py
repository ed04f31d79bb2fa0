"""Long trajectory files from short ones: the bytes of the frames repeated, at the speed of the disk.

No coordinates are decoded. XTC frames get steps and times that count on; DCD files have these in the header only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.storage.output_file import write_whole

# progress is reported, and signals are handled, after each of these
_WRITE_BYTES = 32 << 20
# bytes of an XTC frame of more than nine atoms before the packed coordinates; their length is the last four
_XTC_HEADER = 92

Progress = Callable[[int], None]


def repeated_size(source: Path, repeats: int) -> tuple[int, int]:
    """Bytes that the repeated file has, and frames that the source, XTC or little-endian DCD, has."""
    data = source.read_bytes()
    if source.suffix == ".xtc":
        return repeats * len(data), len(_xtc_frame_starts(data))
    header = _dcd_header(source)
    start = len(header["data"])
    return start + repeats * (len(data) - start), header["n_frames"]


def repeat_xtc(source: Path, target: Path, repeats: int, progress: Progress | None = None) -> None:
    """Writes the frames `repeats` times, step and time counting on by 1 and 1 ps; `progress` gets the bytes so far."""
    frames = source.read_bytes()
    write_whole(target, lambda file: _report(_xtc_repetitions(file, frames, repeats), progress))


def repeat_dcd(source: Path, target: Path, repeats: int, progress: Progress | None = None) -> None:
    """Writes the header with the new number of frames, and all frames `repeats` times."""
    data = source.read_bytes()
    write_whole(target, lambda file: _report(_dcd_repetitions(file, data, source, repeats), progress))


def _report(written: Iterator[int], progress: Progress | None) -> None:
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


def _xtc_repetitions(file: IO[bytes], frames: bytes, repeats: int) -> Iterator[int]:
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


def _dcd_header(path: Path) -> _core.DcdHeader:
    header = _core.dcd_header(str(path))
    if (header["byte_order"], header["marker_bytes"]) != ("<", 4):
        raise ArgumentError(f"{path}: not a little-endian DCD, which is what can be repeated", path=str(path))
    if header["leftover_bytes"] or header["first_frame_bytes"] != header["frame_bytes"]:
        raise ArgumentError(f"{path}: has no whole number of frames of {header['frame_bytes']} bytes", path=str(path))
    return header


def _dcd_repetitions(file: IO[bytes], data: bytes, path: Path, repeats: int) -> Iterator[int]:
    facts = _dcd_header(path)
    header = len(facts["data"])
    frames = repeats * facts["n_frames"]
    start = bytearray(facts["data"])
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
