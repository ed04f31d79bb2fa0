"""How one measurement is timed: an untimed run first, then runs until they have lasted long enough.

The untimed run imports what a program imports when it is first called, and makes its threads and buffers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

LEAST_SECONDS = 0.3
"""Wall time of the timed runs together, at least."""


def timed(run: Callable[[], object], before: Callable[[], object] = lambda: None) -> dict[str, float]:
    """Repeats a run and gives its mean wall and CPU seconds (of all threads), and the number of repeats.

    `before` is called before each run and is not timed.
    """
    wall = cpu = 0.0
    repeats = 0
    while wall < LEAST_SECONDS:
        before()
        wall_began, cpu_began = time.perf_counter(), time.process_time()
        run()
        cpu += time.process_time() - cpu_began
        wall += time.perf_counter() - wall_began
        repeats += 1
    return {"wall": wall / repeats, "cpu": cpu / repeats, "repeats": repeats}


def drop_pages(path: Path) -> None:
    """Asks the system to forget what it holds of a file, so that the next read comes from the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
