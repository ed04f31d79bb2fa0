"""Opening a catalogue of many trajectories beside reading its bytes, and a frame of the last one; a ratio, in one run.

    python benchmarks/ml_catalogue.py [--entries 100000] [--folder FOLDER]

The entries are of real files of an XTC trajectory and of a compressed H5MD one in turn, under names of their own. Goal:
opening takes at most three times what reading the bytes of the catalogue takes. It judges nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import kinema as kn
from kinema import _core
from kinema.ml import Catalogue, FrameDataset
from kinema.ml.catalogue.container import CatalogueWriter, write_catalogue
from kinema.ml.catalogue.entry import Entry
from kinema.model.selection.frames import FrameSelection
from kinema.testing import random_walk, synthetic, write_h5md, write_xtc

GOAL = 3.0
TRIES = 7
_BLOCK = 1 << 20


def make(folder: Path, entries: int) -> Path:
    """A catalogue of `entries` entries; the last has a file of its own."""
    path = folder / "all.kinema-catalogue"
    write_xtc(folder / "a.xtc", random_walk(500, 300))
    write_h5md(folder / "b.h5md", synthetic(200, 300), chunks=(1, 300, 3), compression="gzip")
    write_xtc(folder / "last.xtc", random_walk(50, 300, seed=9))
    packed = [Entry.pack("", kn.open(folder / name, stored=False), str(folder)) for name in ("a.xtc", "b.h5md")]
    last = Entry.pack("last.xtc", kn.open(folder / "last.xtc", stored=False), str(folder))

    def fill(writer: CatalogueWriter) -> None:
        for number in range(entries - 1):
            one = packed[number % 2]
            name = f"mdcath_dataset_{number // 25:07}.h5:{number // 25:07}/{320 + number % 5}/{number % 25}"
            writer.add(name, one.n_frames, one.n_atoms, one.data)
        writer.add(last.name, last.n_frames, last.n_atoms, last.data)

    write_catalogue(path, fill)
    return path


def read_whole(path: Path) -> int:
    """Bytes of a file, read from its front."""
    handle, size = os.open(path, os.O_RDONLY), 0
    try:
        while part := os.read(handle, _BLOCK):
            size += len(part)
    finally:
        os.close(handle)
    return size


def best(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of CPU: the best of several tries."""
    found = []
    for _ in range(TRIES):
        began, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - began, time.process_time() - cpu))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def run(folder: Path, entries: int) -> None:
    path = make(folder, entries)
    size = read_whole(path)
    read, read_cpu = best(lambda: read_whole(path))
    opened, opened_cpu = best(lambda: Catalogue(path))
    data, data_cpu = best(lambda: FrameDataset(Catalogue(path)))
    catalogue = Catalogue(path)
    last, _ = best(lambda: catalogue["last.xtc"][49])
    pool = _core.FilePool(8, record_reads=True)
    catalogue.entry(catalogue.number_of("last.xtc")).kept.open(pool).read(FrameSelection(range(49, 50)))
    files = sorted({os.path.basename(name) for name in pool.take_opens()})
    print(f"{entries:,} trajectories, {size:,} bytes, from the page cache; best of {TRIES}")
    print(f"  {'':34} {'ms':>8} {'CPU ms':>8} {'of reading':>11}")
    for name, wall, cpu in (
        ("reading all bytes, 1 MiB at a time", read, read_cpu),
        ("Catalogue(path)", opened, opened_cpu),
        ("FrameDataset(Catalogue(path))", data, data_cpu),
    ):
        print(f"  {name:34} {1e3 * wall:8.1f} {1e3 * cpu:8.1f} {wall / read:10.2f}x")
    opens = ", ".join(files)
    print(f"  goal: at most {GOAL:.0f}x; a frame of the last: {1e3 * last:.2f} ms, files opened for it: {opens}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        run(Path(folder), given.entries)


if __name__ == "__main__":
    main()
