"""Forged frame indices beside a trajectory: no frame is lost, and no time is another, without a word."""

from __future__ import annotations

import itertools
import random
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import kinema as kn
from attack.children import called
from attack.trials import Broken, attack
from kinema.cache import publish
from kinema.testing import random_walk, write_trr, write_xtc

_N_FRAMES = 101


@dataclass
class Index:
    """A stored index, taken apart: what comes before the frames, their first byte, sizes, steps and times.

    Sizes of four bytes count words of four bytes.
    """

    head: bytes
    first: int
    columns: tuple[np.ndarray, np.ndarray, np.ndarray]  # type: ignore[type-arg]

    @classmethod
    def parse(cls, content: bytes) -> Index:
        """Broken for another layout than this attack knows."""
        body = content[:-8]
        for widths in itertools.product((4, 8), repeat=3):
            at = len(body) - sum(1 + width * _N_FRAMES for width in widths) - 16
            if at < 0 or struct.unpack_from("<Q", body, at + 8)[0] != _N_FRAMES:
                continue
            first, place, columns = struct.unpack_from("<Q", body, at)[0], at + 16, []
            for width, kind in zip(widths, ("u", "i", "f"), strict=True):
                if body[place] != width:
                    break
                columns.append(np.frombuffer(body, f"<{kind}{width}", _N_FRAMES, place + 1).copy())
                place += 1 + width * _N_FRAMES
            else:
                return cls(body[:at], first, (columns[0], columns[1], columns[2]))
        raise Broken("a stored index has another layout than this attack forges")

    def packed(self, folder: Path) -> bytes:
        """With a checksum that is right."""
        body = self.head + struct.pack("<QQ", self.first, len(self.columns[0]))
        for column in self.columns:
            body += bytes([column.dtype.itemsize]) + column.tobytes()
        (folder / "body").write_bytes(body)
        return body + int(publish(folder / "body").xxh3, 16).to_bytes(8, "little")

    def size(self, frames: slice) -> int:
        """Bytes of some frames."""
        factor = 4 if self.columns[0].dtype.itemsize == 4 else 1
        return factor * int(self.columns[0][frames].sum())

    def cut(self, frames: slice) -> None:
        """Without all other frames."""
        sizes, steps, times = (column[frames] for column in self.columns)
        self.columns = sizes, steps, times


@attack("forged indices", 300)
def forged_indices(moments: random.Random, folder: Path) -> None:
    """The index is changed as somebody would who sends it along with a trajectory, with a checksum that is right."""
    write, suffix = moments.choice(((write_xtc, "xtc"), (write_trr, "trr")))
    path = folder / f"a.{suffix}"
    write(path, random_walk(_N_FRAMES, 12, seed=moments.randrange(1 << 30)))
    expected = called(_read, path, False, None).checked()
    called(_read, path, True, None).checked()
    stored = folder / f".a.{suffix}.kinema-index"
    index = Index.parse(stored.read_bytes())
    how = _forge(index, moments)
    stored.write_bytes(index.packed(folder))
    window = sorted((moments.uniform(-5, 105), moments.uniform(-5, 105)))
    for begin_end in (None, window):
        wanted = expected if begin_end is None else called(_read, path, False, begin_end).checked()
        outcome = called(_read, path, True, begin_end)
        # an error is a word as well
        if not outcome.refused() and outcome.value != wanted:
            words = f"times {begin_end[0]:.1f} to {begin_end[1]:.1f}" if begin_end else "all frames"
            raise Broken(f"{suffix}, {how}: {words}: {outcome.value[0]} frames, expected {wanted[0]}, or other values")
        # a run of before may have stored a right one
        stored.write_bytes(index.packed(folder))


def _forge(index: Index, moments: random.Random) -> str:
    """Changes an index; how, in words."""
    sizes, steps, times = index.columns
    some = moments.randrange(1, _N_FRAMES - 1)
    how = moments.choice(("the last frames are left out", "the first frames are left out", "two frames are one",
                          "times are others", "steps are others", "times are exchanged"))  # fmt: skip
    if how.startswith("the last"):
        index.cut(slice(0, some))
    elif how.startswith("the first"):
        index.first += index.size(slice(0, some))
        index.cut(slice(some, None))
    elif how.startswith("two"):
        sizes[some] += sizes[some + 1]
        kept = np.arange(_N_FRAMES) != some + 1
        index.columns = sizes[kept], steps[kept], times[kept]
    elif how == "times are others":
        times[some:] += moments.choice((0.5, 7.0, 1e6))
    elif how == "times are exchanged":
        times[[some, 0]] = times[[0, some]]
    else:
        steps[some:] += moments.choice((1, 1000))
    return how


def _read(path: Path, stored: bool, window: list[float] | None) -> tuple[int, bytes]:
    """Frames, and the bytes of all of their values."""
    warnings.simplefilter("ignore")
    trajectory = kn.open(path, stored=stored)
    try:
        frames = None if window is None else kn.frames_between(trajectory, begin=window[0], end=window[1])
        chosen = trajectory.choose(frames=frames)
    except (kn.ArgumentError, kn.OutOfRangeError) as error:
        if "no frame" not in str(error):
            raise
        # a window without frames
        return 0, b""
    found = [trajectory[number] for number in chosen]
    return len(found), repr([(one.time, one.step, one.positions.tobytes()) for one in found]).encode()
