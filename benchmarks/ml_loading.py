"""Training samples from archives: Kinema beside loops over NPZ, single files, h5py and zarr, in one run.

    python benchmarks/ml_loading.py [--quick | --full] [--page-cache drop] [--folder FOLDER] [--trainers 1 2 8]

The shape is the publication's, scaled down: files of samples of 8,691 float64, batches of 256, a step of 0.133 s and
none. Each row is measured for some seconds. With `--page-cache drop` files are not in the page cache, and a row ends
where it would read a sample for the second time; else "epochs" says how often it did. It prints what it measures
beside the goals, judges nothing, and draws the pictures. Rows of zarr, frames by MDAnalysis and MDTraj, and torch's
DataLoader come where these are installed, system calls where strace is; of others the reason is printed.

`--quick` takes some five minutes and 2 GB. By default it is 8 GB, with `--full` files of 8,000 samples in every layout,
as the publication has them: 25 GB, which is more than most page caches. With `--folder` they stay for the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import ml
from ml_loading_loops import (
    BATCH,
    CONTIGUOUS,
    FEATURES,
    Loop,
    archive_loops,
    make_files,
    other_loops,
    samples_of,
    write,
)
from ml_loading_picture import draw
from ml_loading_processes import programs_of, run_trainers, storage_limit, system_calls
from ml_loading_rows import HEADER, Row, call_on_files, measured, read_pages
from repeats import drop_pages

STEP = 0.133
SMALLER = "the same, 2,172 float64"
# printed beside what is measured
PER_SAMPLE_GOAL, WHOLE_FILE_GOAL, UNOVERLAPPED_GOAL = 30.0, 2.0, 1.0


class Benchmark:
    """A run: its options, files and rows."""

    def __init__(self, options: argparse.Namespace, folder: Path, scratch: Path) -> None:
        self.options, self.folder, self.scratch = options, folder, scratch
        self.rows: list[Row] = []
        self.is_cold = options.page_cache == "drop"

    def add(self, row: Row) -> None:
        """Keeps and prints a row."""
        self.rows.append(row)
        print(row.printed(), flush=True)

    def prepare(self, paths: list[Path]) -> None:
        """Has files in the page cache, or out of it."""
        call_on_files(paths, drop_pages if self.is_cold else read_pages)

    def measure_loops(self, loops: Iterator[Loop]) -> list[Loop]:
        """A row of each loop for each step; the loops."""
        done = []
        for loop in loops:
            for step, seconds in ((0.0, self.options.seconds), (STEP, self.options.step_seconds)):
                self.prepare(loop.files)
                most = loop.n_samples if self.is_cold else None
                words = {"layout": loop.layout, "program": loop.program, "order": loop.order}
                self.add(measured(loop.made, step, seconds, most, True, distinct=loop.n_samples, **words))
            done.append(loop)
        return done

    def measure_trainers(
        self, layout: str, features: int, trainers: Sequence[int], programs: Sequence[str] | None = None
    ) -> None:
        """Processes that train side by side, on files of their own: an epoch of these has many steps."""
        paths = []
        for file in range(self.options.trainer_files):
            paths.append(self.folder / f"trainers-{features}" / f"{file:04d}.h5")
            if not paths[-1].exists():
                write(CONTIGUOUS, paths[-1], samples_of(file, 8_000)[:, :features])
        distinct = 8_000 * len(paths)
        most = distinct if self.is_cold else None
        for ranks in trainers:
            for program, order, workers, ahead in programs_of(ranks, self.options.processes):
                if programs is not None and program not in programs:
                    continue
                for step, seconds in ((0.0, self.options.seconds), (STEP, self.options.step_seconds)):
                    self.prepare(paths)
                    row = {
                        "layout": layout,
                        "program": program,
                        "order": order,
                        "trainers": ranks,
                        "distinct": distinct,
                    }
                    several = run_trainers(paths, {**row, "workers": workers, "ahead": ahead}, step, seconds, most)
                    # training continues when the slowest trainer has its batch
                    slowest = max(several, key=lambda row: row.unoverlapped)
                    self.add(slowest)
        if self.is_cold:
            call_on_files(paths, drop_pages)
            limit, of_one = storage_limit(paths, 16, 8 * features), BATCH * features * 8 / STEP
            print(
                f"{layout}: the storage gives {limit / 1e6:.0f} MB/s of samples at random places, 16 at a time, past "
                "the cache"
            )
            for ranks in trainers:
                wait = max(0.0, 1 - limit / (ranks * of_one))
                print(
                    f"{ranks} trainers with a step of {STEP} s need {ranks * of_one / 1e6:.0f} MB/s: no "
                    f"program can wait less than {100 * wait:.1f} %"
                )

    def rate(self, layout: str, program: str, order: str) -> float:
        """Samples a second without a step, of one trainer; not a number if it was not measured."""
        for row in self.rows:
            if (row.layout, row.program, row.order, row.step, row.trainers) == (layout, program, order, 0.0, 1):
                return row.rate
        return float("nan")

    def print_goals(self) -> None:
        """Ratios beside their goals."""
        ours = self.rate(CONTIGUOUS, "Kinema", "random")
        for layout in ("NPZ stored", "NPZ deflated"):
            ratio = ours / self.rate(layout, "NumPy, a sample at a time", "random")
            print(f"whole loop / {layout}, a sample at a time: {ratio:,.0f}, goal {PER_SAMPLE_GOAL:g}")
            ratio = ours / self.rate(layout, "NumPy, whole files", "files")
            print(f"whole loop / {layout}, whole files: {ratio:.1f}, goal {WHOLE_FILE_GOAL:g}")
        for row in self.rows:
            if row.program == "Kinema" and row.step and row.trainers == max(self.options.trainers, default=0):
                print(
                    f"{row.layout}, {row.trainers} trainers, {row.order}, {self.options.page_cache}: unoverlapped I/O "
                    f"{100 * row.unoverlapped:.2f} %, after the first batch {100 * row.unoverlapped_then:.2f} %, "
                    f"goal {UNOVERLAPPED_GOAL:g} % with 8 trainers"
                )

    def run(self) -> None:
        """Measures, prints, draws."""
        options = self.options
        print(HEADER)
        if not options.trainers_only:
            layouts = make_files(self.folder, options.files, options.samples)
            loops = self.measure_loops(archive_loops(layouts, options.samples))
            # of some samples of each file: what is compared is a loop with the next
            few = [samples_of(file, min(options.samples, 512)) for file in range(options.files)]
            self.measure_loops(other_loops(self.scratch, few))
        self.measure_trainers(CONTIGUOUS, FEATURES, options.trainers)
        # where the storage is the limit of the publication's shape, overlap is judged by smaller samples
        self.measure_trainers(SMALLER, FEATURES // 4, sorted(options.trainers)[-1:], ["Kinema"])
        if not options.trainers_only:
            system_calls(loops)
            # gathers by themselves, in the page cache
            ml.measure(ml.Case(self.scratch, options.samples, FEATURES, 1, BATCH), 4)
        self.print_goals()
        options.output.mkdir(parents=True, exist_ok=True)
        table = [{**asdict(row), "page_cache": options.page_cache} for row in self.rows]
        (options.output / f"ml_loading-{options.page_cache}.json").write_text(json.dumps(table, indent=1))
        if not options.trainers_only:
            machine = f"{os.cpu_count()} cores, page cache: {options.page_cache}"
            draw(table, options.output / f"ml_loading-{options.page_cache}.png", machine)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="some five minutes")
    size.add_argument("--full", action="store_true", help="files of 8,000 samples: 25 GB in all layouts")
    parser.add_argument("--files", type=int, help="of each layout")
    parser.add_argument("--samples", type=int, help="a file")
    parser.add_argument("--seconds", type=float, help="of each row without a step, about")
    parser.add_argument("--step-seconds", type=float, help="of each row with a step")
    parser.add_argument("--page-cache", choices=["warm", "drop"], default="warm")
    parser.add_argument("--trainers", type=int, nargs="*", help="processes that train side by side")
    parser.add_argument("--trainer-files", type=int, help="of 8,000 samples, for these")
    parser.add_argument("--trainers-only", action="store_true")
    parser.add_argument("--processes", type=int, default=8 * (os.cpu_count() or 1), help="most that one row may have")
    parser.add_argument("--folder", type=Path, help="of the files, which stay there")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent / "results", help="folder of table and pictures"
    )
    options = parser.parse_args()
    sizes = {
        "files": 4,
        "samples": 1024,
        "seconds": 3.0,
        "step_seconds": 5.0,
        "trainers": [1, 2, 8],
        "trainer_files": 8,
    }
    if options.full:
        sizes |= {"samples": 8_000}
    if options.quick:
        sizes |= {
            "files": 2,
            "samples": 512,
            "seconds": 0.7,
            "step_seconds": 2.0,
            "trainers": [1, 8],
            "trainer_files": 1,
        }
    for name, value in sizes.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        Benchmark(options, options.folder or Path(scratch), Path(scratch)).run()


if __name__ == "__main__":
    main()
