"""HDF5 filters: Kinema's decoding and encoding of chunks beside libhdf5's, on real coordinates, one core.

It asserts nothing. Seconds are CPU time, the best of several; libhdf5 reads whole chunks from a file in the page cache
with no chunk cache of its own. GB are of decoded coordinates. `--json` for the figures alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from numpy.typing import NDArray

from kinema import _core

CASES: dict[str, dict[str, Any]] = {
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "gzip-6": {"compression": "gzip", "compression_opts": 6},
    "shuffle gzip-1": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
    "shuffle gzip-6": {"compression": "gzip", "compression_opts": 6, "shuffle": True},
    "shuffle lzf": {"compression": "lzf", "shuffle": True},
    "shuffle zstd-3": {**hdf5plugin.Zstd(clevel=3), "shuffle": True},
    "shuffle lz4": {**hdf5plugin.LZ4(), "shuffle": True},
    "bitshuffle": dict(hdf5plugin.Bitshuffle(cname="none")),
    "bitshuffle-lz4": dict(hdf5plugin.Bitshuffle(cname="lz4")),
    "bitshuffle-zstd-3": dict(hdf5plugin.Bitshuffle(cname="zstd", clevel=3)),
    "scaleoffset-3": {"scaleoffset": 3},
}
# what Kinema reads but does not write
NOT_WRITTEN = ("lzf", "scaleoffset")
TRIES = 7
FRAMES, CHUNK_FRAMES = 96, 24  # chunks of 24 frames are about 1 MB


def adenylate_kinase() -> NDArray[np.float32]:
    """Positions of adenylate kinase, 96 frames of 3341 atoms."""
    from MDAnalysisTests import datafiles

    import kinema as kn

    return kn.open(str(datafiles.DCD), stored=False)[:FRAMES].read()


def best(work: Callable[[], object]) -> float:
    """The least CPU seconds of several."""
    times = []
    for _ in range(TRIES):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def filters_of(dataset: h5py.Dataset) -> list[tuple[int, tuple[int, ...]]]:
    """(id, client values) in the order of writing."""
    properties = dataset.id.get_create_plist()
    return [(f[0], f[2]) for f in (properties.get_filter(i) for i in range(properties.get_nfilters()))]


def measure(name: str, path: Path, positions: NDArray[np.float32]) -> dict[str, Any]:
    """One way to compress: GB/s of both, and their ratios."""
    chunks = (CHUNK_FRAMES, *positions.shape[1:])
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=positions, chunks=chunks, **CASES[name])
    found: dict[str, Any] = {"filters": name}
    with h5py.File(path, rdcc_nbytes=0) as file:
        dataset = file["x"]
        filters, chunk_bytes = filters_of(dataset), int(np.prod(chunks)) * positions.itemsize
        stored = [dataset.id.read_direct_chunk((at, 0, 0))[1] for at in range(0, len(positions), CHUNK_FRAMES)]
        found["compressed to"] = sum(len(chunk) for chunk in stored) / positions.nbytes
        out = np.empty_like(positions)
        gigabytes = positions.nbytes / 1e9
        # h5py's own time of a read without filters is part of this, as it is of every read
        found["libhdf5 decodes"] = gigabytes / best(lambda: dataset.read_direct(out))
        repeats = 4
        kinema = best(lambda: [_core._decode_chunk(chunk, 0, filters, 4, chunk_bytes, repeats) for chunk in stored])
        found["kinema decodes"] = gigabytes * repeats / kinema
        found["ratio"] = found["kinema decodes"] / found["libhdf5 decodes"]
    if any(word in name for word in NOT_WRITTEN):
        return found

    def write() -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=positions, chunks=chunks, **CASES[name])

    found["libhdf5 encodes"] = gigabytes / best(write)
    found["kinema encodes"] = gigabytes / best(lambda: _core.encode_chunks(positions, chunks, filters, 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    as_json = parser.parse_args().json
    positions = adenylate_kinase()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            row = measure(name, Path(folder) / "filters.h5", positions)
            rows.append(row)
            if not as_json:
                figures = "  ".join(f"{key} {value:6.2f}" for key, value in row.items() if key != "filters")
                print(f"{name:20} {figures}", flush=True)
    if as_json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
