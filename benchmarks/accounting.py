"""What accounting costs, and what it does not see: `python benchmarks/accounting.py [FRAMES]`.

Prints the clock readings of a block beside its work, the cost of making and saving a report, and the unaccounted share
on each runner of one machine. Nothing is asserted.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import kinema as kn
from kinema.testing import random_walk, write_xtc

N_ATOMS = 1000
REPEATS = 5
# looks at the clock for a block: its beginning, after reading, decoding and computing, and around merging
LOOKS = 6


def seconds_of_a_look(n: int = 200_000) -> float:
    """Of Python's clock, the same call of the system as that of the Rust half, and Python's own cost on top."""
    began = time.perf_counter()
    for _ in range(n):
        time.perf_counter()
    return (time.perf_counter() - began) / n


def main(n_frames: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "walk.xtc"
        write_xtc(path, random_walk(n_frames, N_ATOMS), dt=1.0)
        trajectory = kn.open(path)
        look = seconds_of_a_look()
        for runner in ("serial", "threads", "processes"):
            runs = [kn.analysis.RMSD(trajectory).run(runner=runner) for _ in range(REPEATS)]
            best = min(runs, key=lambda run: run.timings.wall)
            timings = best.timings
            blocks = len(timings.blocks)
            busy = sum(worker.busy for worker in timings.workers)
            share = statistics.median(run.timings.fractions["unaccounted"] for run in runs)
            print(
                f"{runner:>9}: {timings.wall:.4f} s, {blocks} blocks; looking at clocks at most "
                f"{LOOKS * look * blocks / busy:.4%} of the workers' time; unaccounted {share:.2%} (median)"
            )
        began = time.perf_counter()
        report = best.report()
        made = time.perf_counter() - began
        began = time.perf_counter()
        report.save(Path(folder) / "report.json")
        saved = time.perf_counter() - began
        size = (Path(folder) / "report.json").stat().st_size
        print(
            f"a report of {blocks} blocks: made in {made * 1e3:.1f} ms, saved in {saved * 1e3:.1f} ms, {size:,} bytes"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
