"""`kinema.ml.convert` beside its parts: reading (inflating) the same bytes and writing them; two workers beside one.

Part of `make bench`; alone: `python benchmarks/ml_convert.py [--files 4] [--samples 800] [--folder FOLDER]`. The shape
is that of the fourth publication, scaled down: float64 samples of 8,691 features. It asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from cases import Goal
from kinema.ml import SampleDataset, convert
from kinema.ml.stored.samples import Deflated

FEATURES = 8691
BLOCK, PIECE = 8 << 20, 1 << 20
WORKERS = 2
_OF_PARTS = Goal(0.8, at_least=True, source="step 12")
_TWO_WORKERS = Goal(1.8, at_least=True, source="step 12")


def make_archives(folder: Path, files: int, samples: int, *, deflated: bool) -> list[Path]:
    """Values whose last bits are zeros, as those of many programs: a third of the bytes when they are deflated."""
    paths = []
    for number in range(files):
        values = np.random.default_rng(number).standard_normal((samples, FEATURES)).astype("f4").astype("f8")
        paths.append(folder / f"{'deflated' if deflated else 'stored'}{number}.npz")
        (np.savez_compressed if deflated else np.savez)(paths[-1], x=values)
    return paths


def read(paths: list[Path], workers: int) -> None:
    """All bytes of the files, by positional reads into a buffer a thread."""

    def work(path: Path) -> None:
        buffer = np.empty(BLOCK, np.uint8)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer.data):
                pass

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, paths))


def inflate(paths: list[Path], workers: int) -> None:
    """All members, decompressed by zlib piece by piece, with the checksum that NumPy's reader computes."""

    def work(path: Path) -> None:
        place = SampleDataset(path).stored("x")[0].place
        assert isinstance(place, Deflated)
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        checksum = 0
        with open(path, "rb") as file:
            file.seek(place.start)
            while not stream.eof:
                piece = stream.decompress(stream.unconsumed_tail or file.read(PIECE), PIECE)
                checksum = zlib.crc32(piece, checksum)
        assert checksum == place.checksum

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, paths))


def write(path: Path, n_bytes: int, workers: int) -> None:
    """As many bytes into a new file, by positional writes, synced."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    buffer = np.random.default_rng(0).bytes(BLOCK)

    def work(offset: int) -> None:
        os.pwrite(handle, buffer[: n_bytes - offset], offset)

    try:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(0, n_bytes, BLOCK)))
        os.fsync(handle)
    finally:
        os.close(handle)
        path.unlink()


def seconds_of(works: dict[str, Callable[[], object]], tries: int) -> dict[str, float]:
    """The shortest wall time of each, of several tries that take turns."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(tries):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def measured(folder: Path, files: int, samples: int, tries: int) -> dict[str, dict[str, float]]:
    """Seconds of the parts and of the conversions, of stored and of deflated archives."""
    n_bytes, out = files * samples * FEATURES * 8, folder / "out.h5"
    found = {}
    for kind, part in (("stored", read), ("deflated", inflate)):
        paths = make_archives(folder, files, samples, deflated=kind == "deflated")

        def converted(workers: int, *, verify: bool = False, paths: list[Path] = paths) -> None:
            convert(paths, out, workers=workers, verify=verify)
            out.unlink()

        works: dict[str, Callable[[], object]] = {
            "read" if kind == "stored" else "inflate": lambda part=part, paths=paths: part(paths, WORKERS),  # type: ignore[misc]
            "write": lambda: write(folder / "plain", n_bytes, WORKERS),
            "convert": lambda converted=converted: converted(WORKERS),  # type: ignore[misc]
            "convert and read back": lambda converted=converted: converted(WORKERS, verify=True),  # type: ignore[misc]
            "convert on one": lambda converted=converted: converted(1),  # type: ignore[misc]
        }
        found[kind] = seconds_of(works, tries)
        for path in paths:
            path.unlink()
    return found


def ml_convert(bench: Any, files: int = 4, samples: int = 800) -> None:
    """All rows, recorded through `bench`."""
    samples = samples // 4 if bench.quick else samples
    gib = files * samples * FEATURES * 8 / 2**30
    for kind, seconds in measured(bench.folder, files, samples, bench.tries).items():
        case = f"NPZ to HDF5, {kind}, {files} x {samples:,} x {FEATURES:,} float64"
        for name, taken in seconds.items():
            bench.record(case, "samples", name, figure=gib / taken, unit="GiB/s")
        parts = max(taken for name, taken in seconds.items() if not name.startswith("convert"))
        bench.record_beside_goal(case, "samples", "convert/slower part", parts / seconds["convert"], _OF_PARTS)
        speedup = seconds["convert on one"] / seconds["convert"]
        if kind == "deflated":
            bench.record_beside_goal(case, "samples", "two workers/one", speedup, _TWO_WORKERS)


class _Printed:
    """Stands in for `make bench` when `ml_convert` runs alone."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder, self.quick, self.tries = folder, quick, 2 if quick else 5

    def record(self, case: str, kind: str, program: str, *, figure: float, unit: str) -> None:
        print(f"{case:58} {program:24} {figure:8.3f} {unit}", flush=True)

    def record_beside_goal(self, case: str, kind: str, program: str, figure: float, goal: Goal) -> None:
        reached = "reached" if goal.reached(figure) else "not reached"
        print(f"{case:58} {program:24} {figure:8.3f} ratio   goal {goal.value:g}: {reached}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--samples", type=int, default=800)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", help="where the files are made; a temporary folder by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        ml_convert(_Printed(Path(made), given.quick), given.files, given.samples)
