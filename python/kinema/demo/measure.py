"""One measurement, run as `python -m` in its own process, so that peak memory is measured for it alone.

It prints one line of JSON: seconds, frames, peak_memory in bytes. `kinema.demo` makes files and tables.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kinema.base.resources import peak_memory
from kinema.demo.case import SELECTION
from kinema.storage.output_file import write_whole


def plain_read(path: str, buffer_bytes: int, threads: int) -> dict[str, Any]:
    """Reads the whole file by positional reads; each thread reads a stretch of the file into its own buffer."""
    size = os.path.getsize(path)
    handle = os.open(path, os.O_RDONLY)
    stretch = -(-size // threads)

    def read(first: int) -> None:
        buffer = bytearray(buffer_bytes)
        offset, end = first * stretch, min(size, (first + 1) * stretch)
        while offset < end:
            # the last read of a stretch stops at its end
            view = memoryview(buffer)[: min(buffer_bytes, end - offset)]
            offset += os.preadv(handle, [view], offset)

    workers = [threading.Thread(target=read, args=(i,)) for i in range(threads)]
    began, cpu = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    os.close(handle)
    return {"seconds": seconds, "cpu": cpu, "bytes": size, "peak_memory": peak_memory()}


def mdanalysis_rmsd(topology: str, path: str, frames: int, output: str) -> dict[str, Any]:
    """MDAnalysis' RMSD of the C-alpha atoms to frame 0, on the first frames; opening is not timed."""
    import warnings

    import MDAnalysis
    import numpy as np
    from MDAnalysis.analysis.rms import RMSD

    warnings.simplefilter("ignore")  # after the import, which sets filters of MDAnalysis' own
    # the names of DL_POLY's files do not tell the format
    universe = MDAnalysis.Universe(topology, path, format="HISTORY" if path.endswith(".history") else None)
    analysis = RMSD(universe, select=SELECTION, ref_frame=0)
    began, cpu = time.perf_counter(), time.process_time()
    analysis.run(stop=frames)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    write_whole(output, lambda file: np.save(file, analysis.results.rmsd[:, 2]))
    return {"seconds": seconds, "cpu": cpu, "frames": frames, "peak_memory": peak_memory()}


def main(arguments: list[str]) -> None:
    """`plain-read FILE BUFFER THREADS` or `mdanalysis TOPOLOGY FILE FRAMES OUTPUT`."""
    what, *rest = arguments
    if what == "plain-read":
        found = plain_read(rest[0], int(rest[1]), int(rest[2]))
    elif what == "mdanalysis":
        found = mdanalysis_rmsd(rest[0], rest[1], int(rest[2]), str(Path(rest[3])))
    else:
        raise SystemExit(f"measure: no measurement is named {what}")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
