"""The fourth publication's comparison as behaviour summaries side by side: NPZ with NumPy, HDF5 with h5py, with Kinema.

Makes samples, records an epoch of each loop with `kinema trace`, prints the columns and draws them. A step of training
is a sleep, as in DLIO, with which the publication measured:

    python benchmarks/trace_columns.py --output trace-columns
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import numpy as np

from kinema.base.tracing import span
from kinema.ml import Loader, SampleDataset
from kinema.report import record, side_by_side
from kinema.studies.files import forget
from kinema.studies.sample_loading.design import LAYOUTS
from kinema.studies.sample_loading.layouts import Samples, write_layout
from kinema.studies.sample_loading.loops import loops_of

# layout, program and label of each column
COLUMNS = (
    ("NPZ", "NumPy, a sample at a time", "NPZ, NumPy"),
    ("HDF5, contiguous", "h5py, a sample at a time", "HDF5, h5py"),
    ("HDF5, contiguous", "Kinema", "HDF5, Kinema"),
)
FIELD, FILES, SEED = "x", 4, 0


def train(layout: str, program: str, folder: Path, samples: int, batch: int, step: float) -> None:
    """An epoch of one of the loops, with a step of training after each batch."""
    # imports do not count in the comparison
    for module in ("h5py", "hdf5plugin", "MDAnalysis"):
        import_module(module)
    paths = sorted(folder.iterdir())
    if program == "Kinema":
        # the loader says itself what it reads, what the loop waits for, and how long a step is
        data = SampleDataset(list(map(str, paths)))
        loader = Loader(data, batch, seed=SEED, tensors=False, next_epoch=False)
        for _ in loader:
            time.sleep(step)
        loader.close()
        return
    kind = next(one for one in LAYOUTS if one.name == layout)
    bounds = np.linspace(0, samples, FILES + 1).astype(np.int64)
    loops = loops_of(kind, paths, bounds, [FIELD], batch=batch, seed=SEED, longest=float("inf"))
    batches = next(one.start() for one in loops if one.program == program)
    for number in range(1, samples // batch + 1):
        with span("read", "reader", epoch=0, step=number):
            next(batches)
        with span("train.step", "pipeline", epoch=0, step=number):
            time.sleep(step)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("trace-columns"), help="folder for traces, table, picture")
    parser.add_argument("--samples", type=int, default=256, help="in four files")
    parser.add_argument("--values", type=int, default=8691, help="of a sample, float64; the publication's are 8691")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--step", type=float, default=0.05, help="seconds of a step of training")
    parser.add_argument("--loop", nargs=3, metavar=("LAYOUT", "PROGRAM", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.loop:
        layout, program, folder = given.loop
        train(layout, program, Path(folder), given.samples, given.batch, given.step)
        return
    given.output.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(SEED).standard_normal((given.samples, given.values))
    samples = Samples({FIELD: values}, np.arange(given.samples), given.samples)
    traces = {}
    with tempfile.TemporaryDirectory() as scratch:
        for layout in {layout for layout, _, _ in COLUMNS}:
            kind = next(one for one in LAYOUTS if one.name == layout)
            write_layout(kind, samples, Path(scratch) / layout, given.batch)
        for number, (layout, program, label) in enumerate(COLUMNS, 1):
            folder = Path(scratch) / layout
            forget(list(map(str, sorted(folder.iterdir()))))
            words = [sys.executable, __file__, "--loop", layout, program, str(folder)]
            words += [f"--{name}={getattr(given, name)}" for name in ("samples", "values", "batch", "step")]
            recorded = record(words, given.output / f"{number}", data=[folder])
            if recorded.code:
                sys.exit(recorded.code)
            traces[label] = given.output / f"{number}"
    columns = side_by_side(traces)
    print(columns)
    columns.save(given.output / "columns.json")
    columns.plot(given.output / "columns.png")
    print(f"\nwritten: {given.output / 'columns.json'}, {given.output / 'columns.png'}")


if __name__ == "__main__":
    main()
