"""The node cache beside what it stands on: the page cache, a source of 100 MB/s, the local disk; eight cold processes.

Part of `make bench`; alone: `python benchmarks/node_cache.py [--samples 2800] [--folder FOLDER] [--picture FILE]`.
Samples are those of the fourth publication: 8,691 float64. The shared file system is made up: a source that gives all
processes of the machine 100 MB/s together. The picture has the publication's epoch beside ours, as theirs. It asserts
nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cases import Goal
from kinema import _core
from kinema.cache import NodeCache
from kinema.cache.counts import counts_of_all
from kinema.cache.node_cache import VERIFY
from kinema.ml import Loader, SampleDataset
from kinema.ml.processes import file_pool, replace_pool

FEATURES, BATCH = 8691, 64
RATE = 100_000_000
BLOCK = 4 << 20
PROCESSES = 8
# of the publication's slides: I/O of their run, without and with node-local caching, s
PUBLISHED = {"HDF5 on the parallel file system": 30.0, "node-local cache": 4.6}
_WARM = Goal(0.9, at_least=True, source="step 13")
_COLD = Goal(1.1, at_least=False, source="step 13")
_SECOND = Goal(0.9, at_least=True, source="step 13")
_VERIFIED = Goal(0.95, at_least=True, source="step 18")
_ONCE = Goal(1.0, at_least=False, source="step 13")

# what each of the cold processes does: all samples, from the place on where its turn begins
COLD = """
import sys
import numpy as np
from kinema.cache import NodeCache
from kinema.cache.counts import counts_of_all
from kinema.ml import SampleDataset
path, root, number, block = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
samples = SampleDataset(path, node_cache=NodeCache(root, block=block))
ids = np.random.default_rng(number).permutation(len(samples))
print("ready", flush=True)
sys.stdin.readline()
for start in range(0, len(ids), 64):
    samples.read(ids[start : start + 64], workers=1)
print(counts_of_all().bytes_source)
"""

# the same for the processes of nodes that share their blocks; each says what it read for itself and for other nodes
SHARED = """
import sys
from kinema.cache import NodeCache, SharedBlocks
from kinema.cache.counts import counts_of_all
path, root, job, block, rate = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
cache = NodeCache(root, block=block, source_rate=rate)
with SharedBlocks(cache, folder=job, nodes=2, address="127.0.0.1"):
    print("ready", flush=True)
    sys.stdin.readline()
    file = cache.core.open(path)
    for offset in range(0, file.size, block):
        file.read_at(offset, block)
    print("done", flush=True)
    sys.stdin.readline()
    counts = counts_of_all()
    print(counts.bytes_source, counts.peer_failures, flush=True)
    sys.stdin.readline()
"""


def make_samples(folder: Path, samples: int) -> Path:
    """One file of samples, in the page cache."""
    path = folder / "samples.npy"
    np.save(path, np.random.default_rng(1).standard_normal((samples, FEATURES)))
    return path


def drop(*paths: Path) -> None:
    """Has the system forget files: what is read next comes from the disk."""
    for path in paths:
        for one in [path] if path.is_file() else path.rglob("*"):
            if one.is_file():
                with open(one, "rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def epoch(samples: SampleDataset, order: str, number: int = 0) -> float:
    """Seconds of an epoch whose loop does nothing with its batches."""
    loader = Loader(samples, BATCH, order=order, seed=1, tensors=False, next_epoch=False, workers=2)
    loader.set_epoch(number)
    began = time.perf_counter()
    n = sum(batch.n_samples for batch in loader)
    seconds = time.perf_counter() - began
    loader.close()
    assert n == len(samples)
    return seconds


@contextlib.contextmanager
def slow_files(folder: Path) -> Iterator[None]:
    """Within the block data sets that have no cache read from a source of 100 MB/s."""
    before = file_pool()
    replace_pool(_core.FilePool(64, source_rate=(RATE, str(folder / "rate"))))
    try:
        yield
    finally:
        replace_pool(before)


def warm_rows(path: Path, root: Path, samples: int) -> dict[str, float]:
    """Bytes a second of rows at random by one thread: of the page cache, and of a warm cache whose blocks are open."""
    cache = NodeCache(root, block=16 << 20)
    cache.fill(path, workers=2)
    ids = np.random.default_rng(2).permutation(samples)
    row = 8 * FEATURES
    out = np.empty(len(ids) * row, np.uint8)
    offset = path.stat().st_size - samples * row
    loops: dict[str, Callable[[], None]] = {
        "page cache": lambda: _core._pread_rows(str(path), offset, row, ids, out),
        "warm cache": lambda: _core._pread_rows(str(path), offset, row, ids, out, cache.core),
    }
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(7):
        for name, loop in loops.items():
            began = time.perf_counter()
            loop()
            best[name] = min(best[name], time.perf_counter() - began)
    return {name: len(out) / seconds for name, seconds in best.items()}


def verified_rows(path: Path, root: Path, samples: int) -> dict[str, float]:
    """Bytes a second of rows at random by one thread, through warm caches that compare checksums never, when a piece is
    read first (of the first epoch of a process, and of the next), and always."""
    ids = np.random.default_rng(2).permutation(samples)
    row = 8 * FEATURES
    out = np.empty(len(ids) * row, np.uint8)
    offset = path.stat().st_size - samples * row
    NodeCache(root, block=16 << 20).fill(path, workers=2)
    best: dict[str, float] = {}

    def measure(name: str, cache: NodeCache) -> None:
        began = time.perf_counter()
        _core._pread_rows(str(path), offset, row, ids, out, cache.core)
        best[name] = min(best.get(name, float("inf")), time.perf_counter() - began)

    for _ in range(5):
        never, first, always = (NodeCache(root, block=16 << 20, verify=verify) for verify in VERIFY)
        measure("never", never)
        measure("first, first epoch", first)
        measure("first, next epoch", first)
        measure("always", always)
    return {name: len(out) / seconds for name, seconds in best.items()}


def slow_epochs(path: Path, folder: Path, order: str) -> dict[str, float]:
    """Seconds of epochs: without a cache, the first and the second through it, and of a file on the local disk."""
    found: dict[str, float] = {}
    with slow_files(folder):
        found["without"] = epoch(SampleDataset(path), order)
    root = folder / f"node-{order}"
    cache = NodeCache(root, block=BLOCK, source_rate=RATE)
    before = counts_of_all()
    found["first"] = epoch(SampleDataset(path, node_cache=cache), order)
    first = counts_of_all() - before
    tries: dict[str, list[float]] = {"second": [], "disk": []}
    for _ in range(5):
        drop(path, root)
        tries["disk"].append(epoch(SampleDataset(path), order, 1))
        drop(path, root)
        tries["second"].append(epoch(SampleDataset(path, node_cache=cache), order, 1))
    found |= {name: min(seconds) for name, seconds in tries.items()}
    found["first bytes"] = first.bytes_source / path.stat().st_size
    found["second bytes"] = float((counts_of_all() - before - first).bytes_source)
    shutil.rmtree(root)
    return found


def cold_processes(path: Path, root: Path) -> float:
    """Bytes that left the source for each byte of the file, when eight processes read all of it at once."""
    words = [sys.executable, "-c", COLD, str(path), str(root)]
    processes = [
        subprocess.Popen([*words, str(number), str(BLOCK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(PROCESSES)
    ]
    # all are there before the first one reads
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    said = [process.communicate(timeout=120)[0] for process in _begun(processes)]
    return sum(map(int, said)) / path.stat().st_size


def _begun(processes: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return processes


def two_nodes(path: Path, folder: Path) -> dict[str, float]:
    """Bytes that left the source for each byte of the file, when four processes on each of two nodes read all of it at
    once; how often a node was asked in vain; seconds until the last one was done."""
    (folder / "job").mkdir()
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                SHARED,
                path,
                folder / f"node-{number % 2}",
                folder / "job",
                *map(str, (BLOCK, RATE)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]

    def lines() -> list[list[str]]:
        return [process.stdout.readline().split() for process in processes if process.stdout is not None]

    assert lines() == [["ready"]] * PROCESSES
    began = time.perf_counter()
    _begun(processes)
    assert lines() == [["done"]] * PROCESSES
    seconds = time.perf_counter() - began
    # each serves the others until all are done
    said = lines() if _begun(processes) else []
    for process in _begun(processes):
        process.communicate(timeout=120)
    size = path.stat().st_size
    return {"bytes": sum(int(one) for one, _ in said) / size, "in vain": sum(int(one) for _, one in said), "s": seconds}


def node_cache(bench: Any, samples: int = 2800, picture: Path | None = None) -> None:
    """All rows; `bench` records them."""
    Path(bench.folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=bench.folder, prefix="node-cache-") as temporary:
        folder = Path(temporary)
        path = make_samples(folder, samples)
        rates = warm_rows(path, folder / "node-warm", samples)
        case = "samples of 69,528 bytes at random, one thread"
        for name, rate in rates.items():
            bench.record(case, "npy", name, figure=rate / 2**30, unit="GiB/s")
        bench.record_beside_goal(case, "npy", "warm/page cache", rates["warm cache"] / rates["page cache"], _WARM)
        verified = verified_rows(path, folder / "node-warm", samples)
        for name, rate in verified.items():
            bench.record(f"{case}, verify", "npy", name, figure=rate / 2**30, unit="GiB/s")
        ratio = verified["first, next epoch"] / verified["never"]
        bench.record_beside_goal(case, "npy", "first, next epoch/never", ratio, _VERIFIED)
        shutil.rmtree(folder / "node-warm")
        drawn: dict[str, dict[str, float]] = {}
        for order in ("random", "windowed"):
            drawn[order] = found = slow_epochs(path, folder, order)
            case = f"epoch from a source of 100 MB/s, {order}"
            for name in ("without", "first", "second", "disk"):
                bench.record(case, "npy", name, figure=found[name], unit="s")
            bench.record_beside_goal(case, "npy", "first/without", found["first"] / found["without"], _COLD)
            bench.record_beside_goal(case, "npy", "bytes of the second", found["second bytes"], Goal(0, False), "bytes")
            bench.record_beside_goal(case, "npy", "disk/second", found["disk"] / found["second"], _SECOND)
        times = cold_processes(path, folder / "node-cold")
        bench.record_beside_goal(f"{PROCESSES} cold processes", "npy", "bytes of the source/file", times, _ONCE)
        found = two_nodes(path, folder)
        case = f"{PROCESSES} cold processes on two nodes that share their blocks"
        bench.record(case, "npy", "seconds", figure=found["s"], unit="s")
        bench.record_beside_goal(case, "npy", "bytes of the source/file", found["bytes"], _ONCE)
        bench.record_beside_goal(case, "npy", "asked in vain", found["in vain"], Goal(0, False), "times")
        if picture is not None:
            draw(drawn, path.stat().st_size, picture)


def draw(found: dict[str, dict[str, float]], size: int, picture: Path) -> None:
    """Seconds of an epoch's I/O here, by what it reads; the publication's beside them, as theirs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    ours, theirs = figure.subplots(1, 2, width_ratios=[3, 1.4])
    bars = {"without": "no cache", "first": "first epoch\n(cold cache)", "second": "second epoch\n(from the node)"}
    bars["disk"] = "the same file\non the local disk"
    colours = {"random": "#c8452d", "windowed": "#f2a65a"}
    for at, (order, seconds) in enumerate(found.items()):
        places = np.arange(len(bars)) + (at - 0.5) * 0.38
        drawn = ours.bar(places, [seconds[name] for name in bars], 0.36, color=colours[order], label=f"{order} order")
        ours.bar_label(drawn, fmt="%.2f s", fontsize=9, padding=2)
    ours.axhline(size / RATE, color="#222222", linestyle=":", linewidth=1.2)
    ours.text(len(bars) - 0.5, size / RATE, "the file at 100 MB/s", ha="right", va="bottom", fontsize=9)
    ours.set_xticks(np.arange(len(bars)), list(bars.values()))
    ours.set_ylabel("I/O of an epoch, s")
    ours.set_title(f"Measured here: {size / 1e6:.0f} MB of samples, source limited to 100 MB/s", fontsize=11)
    ours.legend(frameon=False)
    drawn = theirs.bar(range(len(PUBLISHED)), list(PUBLISHED.values()), 0.5, color="#98c1d9")
    theirs.bar_label(drawn, fmt="%.1f s", fontsize=9, padding=2)
    theirs.set_xticks(range(len(PUBLISHED)), [name.replace(" on the ", "\non the\n") for name in PUBLISHED])
    theirs.set_ylabel("I/O of their run, s")
    theirs.set_title("The publication's, on its cluster\n(other data, not comparable in seconds)", fontsize=11)
    for ax in (ours, theirs):
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(axis="x", length=0)
        ax.margins(y=0.12)
    figure.savefig(picture, dpi=130)


class _Printed:
    """Records of a run alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record(self, case: str, kind: str, program: str, **figures: Any) -> None:
        goal = figures.get("goal")
        more = "" if goal is None else f"   goal {goal:g}: {'reached' if figures['reached'] else 'not reached'}"
        print(f"{case:48} {program:26} {figures['figure']:>12,.3f} {figures['unit']}{more}", flush=True)

    def record_beside_goal(
        self, case: str, kind: str, program: str, figure: float, goal: Goal, unit: str = "ratio"
    ) -> None:
        self.record(
            case, kind, program, figure=figure, unit=unit, goal=goal.value, reached=goal.reached(round(figure, 3))
        )


def main() -> None:
    """Alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2800)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--picture", type=Path, default=None)
    options = parser.parse_args()
    folder = Path(tempfile.gettempdir()) if options.folder is None else options.folder
    node_cache(_Printed(folder), options.samples, options.picture)


if __name__ == "__main__":
    main()
