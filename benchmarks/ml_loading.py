"""Training samples from archives: Kinema beside loops over NPZ, single files and h5py, in one run.

    python benchmarks/ml_loading.py [--full] [--page-cache drop] [--folder FOLDER] [--trainers 1 2 8]

The shape is the publication's, scaled down: files of samples of 8,691 float64, batches of 256, a step of 0.133 s. Each
row is measured for some seconds; it prints what it measures, judges nothing, and draws two pictures. Rows of zarr,
frames by MDAnalysis and MDTraj, and torch's DataLoader come where these are installed, system calls where strace is.

`--full` makes files of 8,000 samples, as the publication has them, in place of `--samples`: some 20 GB in all layouts,
more than most page caches; with `--folder` they stay for the next run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.ml import Loader, Order, SampleDataset
from ml_loading_others import other_loops, system_calls
from ml_loading_picture import draw

FEATURES = 8_691
BATCH = 256
STEP = 0.133
# of loops that take a sample at a time, in seconds: what they have by then is a batch
LONGEST_BATCH = 3.0
# how often an epoch has each file
EPOCH = 12
# of the HDF5 layouts: samples a chunk and level of gzip
HDF5 = {
    "HDF5 contiguous": {},
    "HDF5 chunks of 1": {"chunks": (1, FEATURES)},
    "HDF5 chunks of 256": {"chunks": (256, FEATURES)},
    "HDF5 chunks of 1, gzip": {"chunks": (1, FEATURES), "compression": "gzip", "compression_opts": 1},
    "HDF5 chunks of 256, gzip": {"chunks": (256, FEATURES), "compression": "gzip", "compression_opts": 1},
}
NPZ = {"NPZ stored": np.savez, "NPZ deflated": np.savez_compressed}
SINGLE = "a sample a file"

Batches = Iterator[NDArray[np.float64]]


@dataclass
class Row:
    """One measurement."""

    layout: str
    program: str
    order: str
    step: float
    """Seconds that the loop works on each batch."""
    samples: int
    seconds: float
    waited: float
    """Of these, for batches."""
    waited_first: float
    """Of these, for the first batch: nothing could be read before it."""
    read_for_needed: float
    """Bytes that the process asked the system for, for each byte of samples that it read."""
    trainers: int = 1

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.samples / self.seconds

    @property
    def unoverlapped(self) -> float:
        """Share of the time behind the first batch in which the loop waited."""
        return (self.waited - self.waited_first) / max(self.seconds - self.waited_first, 1e-9)


# -- files -------------------------------------------------------------------------------------------------------------


def make_files(folder: Path, n_files: int, n_samples: int) -> dict[str, list[Path]]:
    """Every layout of the same samples, whose first number is the sample's; files that are there are used again."""
    layouts: dict[str, list[Path]] = {}
    for file in range(n_files):
        values: NDArray[np.float64] | None = None
        for name in (*NPZ, *HDF5, SINGLE):
            path = folder / f"{n_files}x{n_samples} {name}".replace(" ", "-").replace(",", "") / f"{file:04d}"
            path = path if name == SINGLE else path.with_suffix(".npz" if name in NPZ else ".h5")
            layouts.setdefault(name, []).append(path)
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            values = _values(file, n_samples) if values is None else values
            _write(name, path, values)
    return layouts


def _values(file: int, n_samples: int) -> NDArray[np.float64]:
    # of single precision, as features mostly are: half of the bytes can be compressed
    values = np.random.default_rng(file).normal(size=(n_samples, FEATURES)).astype(np.float32).astype(np.float64)
    values[:, 0] = np.arange(n_samples) + file * n_samples
    return values


def _write(name: str, path: Path, values: NDArray[np.float64]) -> None:
    part = path.with_name(f"part-{path.name}")
    if name in NPZ:
        NPZ[name](part, x=values)
    elif name in HDF5:
        with h5py.File(part, "w") as file:
            file.create_dataset("x", data=values, **HDF5[name])
    else:
        part.mkdir(exist_ok=True)
        for number, sample in enumerate(values):
            np.save(part / f"{number:06d}.npy", sample)
    part.rename(path)


def drop_pages(paths: list[Path]) -> None:
    """Has the system forget what it holds of files."""
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            with file.open("rb") as opened:
                os.fdatasync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# -- loops of others ---------------------------------------------------------------------------------------------------


def of_each_sample(paths: list[Path], n_samples: int, get: Callable[[Path, int], Any]) -> Batches:
    """Samples in random order, each by itself; a batch that takes too long is cut."""
    batch = np.empty((BATCH, FEATURES))
    ids = Order(len(paths) * n_samples).positions(0, len(paths) * n_samples)
    for start in range(0, len(ids), BATCH):
        began, rows = time.perf_counter(), 0
        for sample in ids[start : start + BATCH]:
            file, number = divmod(int(sample), n_samples)
            batch[rows] = get(paths[file], number)
            rows += 1
            if time.perf_counter() - began > LONGEST_BATCH:
                break
        yield batch[:rows]


def npz_sample(path: Path, number: int) -> Any:
    """As loaders do that are written for archives of one sample: the member is read whole."""
    with np.load(path) as archive:
        return archive["x"][number]


def single_sample(path: Path, number: int) -> Any:
    """One file."""
    return np.load(path / f"{number:06d}.npy")


def h5py_sorted(paths: list[Path], n_samples: int) -> Batches:
    """Samples in random order, those of each file in a batch by one sorted selection."""
    files = [h5py.File(path) for path in paths]
    ids = Order(len(paths) * n_samples).positions(0, len(paths) * n_samples)
    batch = np.empty((BATCH, FEATURES))
    for start in range(0, len(ids), BATCH):
        file, number = np.divmod(ids[start : start + BATCH], n_samples)
        for one in np.unique(file):
            rows = np.flatnonzero(file == one)
            rows = rows[np.argsort(number[rows])]
            batch[rows] = files[one]["x"][number[rows]]
        yield batch[: len(file)]


def h5py_single(paths: list[Path], n_samples: int) -> Batches:
    """Samples in random order, one by one from files that stay open."""
    files = {path: h5py.File(path)["x"] for path in paths}
    return of_each_sample(paths, n_samples, lambda path, number: files[path][number])


def whole_files(paths: list[Path], load: Callable[[Path], NDArray[np.float64]]) -> Batches:
    """Files in random order, each read whole, its samples in random order."""
    rng = np.random.default_rng(0)
    for file in rng.permutation(len(paths)):
        values = load(paths[file])
        ids = rng.permutation(len(values))
        for start in range(0, len(ids), BATCH):
            yield values[ids[start : start + BATCH]]


def npz_whole(path: Path) -> NDArray[np.float64]:
    """The array of an archive."""
    with np.load(path) as archive:
        array: NDArray[np.float64] = archive["x"]
        return array


def h5py_whole(path: Path) -> NDArray[np.float64]:
    """The data set of a file."""
    with h5py.File(path) as file:
        array: NDArray[np.float64] = file["x"][:]
        return array


# -- measuring ---------------------------------------------------------------------------------------------------------


def bytes_asked_for() -> int:
    """By all reads of this process so far."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


def measured(batches: Batches, step: float, seconds: float, **row: Any) -> Row:
    """Runs a loop that works `step` seconds on each batch, for about so many seconds; every sample is looked at."""
    asked, began, waited, first, samples = bytes_asked_for(), time.perf_counter(), 0.0, 0.0, 0
    ready, item = began, 8
    for batch in batches:
        now = time.perf_counter()
        waited += now - ready
        first = first or now - ready
        samples += len(batch)
        item = batch.itemsize
        assert np.array_equal(batch[:, 0], np.round(batch[:, 0]))
        if step:
            time.sleep(step)
        ready = time.perf_counter()
        del batch
        if ready - began > seconds:
            break
    there = samples
    if isinstance(batches, KinemaBatches):
        # with what was read ahead, once that is read
        there = batches.close()
    read = bytes_asked_for() - asked
    times = {"seconds": ready - began, "waited": waited, "waited_first": first}
    return Row(step=step, samples=samples, read_for_needed=read / max(1, there) / (FEATURES * item), **times, **row)


class Counted(SampleDataset):
    """Knows how many samples it has read."""

    samples = 0

    def read(self, ids: Any, **options: Any) -> Any:
        self.samples += len(ids)
        return super().read(ids, **options)


class KinemaBatches:
    """Epoch after epoch; one is the files several times, so that few batches are the first of an epoch."""

    def __init__(self, paths: list[Path], order: str, single: bool, rank: int = 0, ranks: int = 1) -> None:
        files = [file for path in paths for file in sorted(path.iterdir())] if single else paths * EPOCH
        self._dataset = Counted(files, file_is_sample=single)
        # whole chunks of 256 samples for each rank
        window = {"window": 4 * BATCH * ranks} if order == "windowed" else {}
        options: dict[str, Any] = {"rank": rank, "ranks": ranks, "lanes": ranks, "order": order, **window}
        self._loader = Loader(self._dataset, BATCH, tensors=False, drop_last=True, **options)
        self._batches = iter(self._loader)

    def __iter__(self) -> Batches:
        while True:
            for batch in self._batches:
                yield batch["samples"] if "samples" in batch else batch["x"]
            self._batches = iter(self._loader)

    def close(self) -> int:
        """Ends the threads; samples that were read in all."""
        self._batches.close()
        return self._dataset.samples


def loops(layouts: dict[str, list[Path]], n_samples: int) -> Iterator[tuple[str, str, str, Callable[[], Batches]]]:
    """Layout, program and order of each row, and its loop."""
    for name, paths in layouts.items():
        if name in NPZ:
            yield name, "NumPy, a sample at a time", "random", lambda p=paths: of_each_sample(p, n_samples, npz_sample)
            yield name, "NumPy, whole files", "files", lambda p=paths: whole_files(p, npz_whole)
        elif name in HDF5:
            yield name, "h5py, a sample at a time", "random", lambda p=paths: h5py_single(p, n_samples)
            yield name, "h5py, sorted", "random", lambda p=paths: h5py_sorted(p, n_samples)
            yield name, "h5py, whole files", "files", lambda p=paths: whole_files(p, h5py_whole)
        else:
            yield (
                name,
                "NumPy, a sample at a time",
                "random",
                lambda p=paths: of_each_sample(p, n_samples, single_sample),
            )
        if name != "NPZ deflated":
            yield name, "Kinema", "random", lambda p=paths, s=name == SINGLE: KinemaBatches(p, "random", s)
            if name != SINGLE:
                yield name, "Kinema", "windowed", lambda p=paths: KinemaBatches(p, "windowed", False)


def trainer(paths: list[Path], order: str, rank: int, ranks: int, seconds: float, gate: Any, answers: Any) -> None:
    """One of several processes that train side by side."""
    batches = KinemaBatches(paths, order, False, rank, ranks)
    gate.wait()
    row = measured(
        batches, STEP, seconds, layout="HDF5 contiguous", program="Kinema, a trainer", order=order, trainers=ranks
    )
    answers.put(row)


def with_trainers(paths: list[Path], order: str, ranks: int, seconds: float) -> list[Row]:
    """The rows of all processes."""
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(ranks), context.Queue()
    children = [
        context.Process(target=trainer, args=(paths, order, rank, ranks, seconds, gate, answers))
        for rank in range(ranks)
    ]
    for child in children:
        child.start()
    try:
        return [answers.get(timeout=60 + 20 * seconds) for _ in children]
    finally:
        for child in children:
            child.join(30)
            child.kill()


def printed(row: Row) -> str:
    """A line of the table."""
    return (
        f"{row.layout:26} {row.program:27} {row.order:9} {row.step:5.3f} {row.rate:10,.0f} "
        f"{row.read_for_needed:9.2f} {row.waited:8.3f} {row.waited_first:8.3f} "
        f"{100 * row.unoverlapped:8.2f}"
    )


def main() -> None:
    """Measures, prints, draws."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="files of 8,000 samples: 20 GB in all layouts")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--samples", type=int, default=512, help="a file")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each row, about")
    parser.add_argument("--page-cache", choices=["warm", "drop"], default="warm")
    parser.add_argument("--trainers", type=int, nargs="*", default=[1, 2, 8], help="processes that train side by side")
    parser.add_argument("--folder", type=Path, help="of the files, which stay there")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent / "results", help="folder of table and pictures"
    )
    arguments = parser.parse_args()
    n_samples = 8_000 if arguments.full else arguments.samples
    with tempfile.TemporaryDirectory() as scratch:
        layouts = make_files(arguments.folder or Path(scratch), arguments.files, n_samples)
        rows = []
        print(f"{'layout':26} {'program':27} {'order':9} step  samples/s read/need   waited    first  then, %")
        for name, program, order, made in loops(layouts, n_samples):
            for step in (0.0, STEP):
                if arguments.page_cache == "drop":
                    drop_pages(layouts[name])
                rows.append(measured(made(), step, arguments.seconds, layout=name, program=program, order=order))
                print(printed(rows[-1]), flush=True)
        # of the samples of one short file each: what is compared is a loop with the next
        few = [_values(file, min(n_samples, 512)) for file in range(arguments.files)]
        made_here = Path(scratch)
        for name, program, order, made in other_loops(made_here, layouts["HDF5 contiguous"], few, BATCH):
            rows.append(measured(made(), 0.0, arguments.seconds, layout=name, program=program, order=order))
            print(printed(rows[-1]), flush=True)
        system_calls(layouts["HDF5 contiguous"], BATCH)
        for ranks in arguments.trainers:
            for order in ("random", "windowed"):
                if arguments.page_cache == "drop":
                    drop_pages(layouts["HDF5 contiguous"])
                several = with_trainers(layouts["HDF5 contiguous"], order, ranks, arguments.seconds)
                rows += several
                worst = max(several, key=lambda row: row.unoverlapped)
                print(f"{ranks} trainers, {order}: the one that waited most {100 * worst.unoverlapped:.2f} %")
    arguments.output.mkdir(parents=True, exist_ok=True)
    table = [{**asdict(row), "page_cache": arguments.page_cache} for row in rows]
    (arguments.output / f"ml_loading-{arguments.page_cache}.json").write_text(json.dumps(table, indent=1))
    draw(
        table,
        arguments.output / f"ml_loading-{arguments.page_cache}.png",
        f"{os.cpu_count()} cores, {arguments.page_cache}",
    )


if __name__ == "__main__":
    main()
