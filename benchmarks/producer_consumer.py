"""Producers and consumers at once: where their time goes when parts go through a shared file system, and when they stay
on the producer's node.

`python benchmarks/producer_consumer.py [--parts 12] [--size 33554432] [--rate 100000000] [--picture FILE.png]`.
Each producer computes and writes a part after the other, each consumer reads the parts of one producer and computes.
The shared file system is made up: a folder whose reads and writes are held to `--rate` bytes a second for all processes
together. Three ways:

- files, one after the other: the consumers begin when the producers have ended, as two jobs do;
- published, shared: each part is read when its marker is there, through the shared file system;
- published, local: each part stays on its producer's node and is fetched from there, past the shared file system.

It prints, for both roles, seconds of computing, of input and output, and of stalls, in which there was nothing to do.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WAYS = ("files, one after the other", "published, shared", "published, local")
PIECE = 1 << 20
PHASES = {"compute": "#3d5a80", "io": "#f2a65a", "stall": "#d5d5d5"}


class SharedRate:
    """Limits the transfers of all processes together to `rate` bytes a second; a file has the time when it is free."""

    def __init__(self, path: Path, rate: float) -> None:
        self._path, self._rate = path, rate

    def wait(self, n: int) -> None:
        """Returns when `n` more bytes would have gone through."""
        with open(self._path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            free = max(float(file.read() or b"0"), time.time())
            file.seek(0)
            file.write(b"%20.6f" % (free + n / self._rate))
        time.sleep(max(0.0, free + n / self._rate - time.time()))


class Stopwatch:
    """Begin and end of each phase of one process."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, float, float]] = []
        self._last = time.time()

    def lap(self, phase: str) -> None:
        """Records the time since the last call as `phase`."""
        now = time.time()
        self.spans.append((phase, self._last, now))
        self._last = now


def produce(options: argparse.Namespace, folder: Path, number: int, watch: Stopwatch) -> None:
    """Computes and writes parts."""
    from kinema.cache import NodeServer, publish

    shared, local = folder / "shared", folder / f"node-producer-{number}"
    rate = SharedRate(folder / "rate", options.rate)
    keeps = options.way == WAYS[2]
    server = NodeServer(local, address="127.0.0.1") if keeps else None
    piece = os.urandom(PIECE)
    watch.lap("stall")
    for part in range(options.parts):
        time.sleep(options.compute)
        watch.lap("compute")
        name = shared / f"part-{number}-{part}.bin"
        target = local / name.name if keeps else name.with_suffix(".writing")
        with open(target, "wb") as file:
            for _ in range(0, options.size, PIECE):
                if not keeps:
                    rate.wait(PIECE)
                file.write(piece)
        if keeps:
            publish(name, local=local)
        elif options.way == WAYS[1]:
            publish(name, file=target)
        else:
            os.rename(target, name)
        watch.lap("io")
    if server is not None:
        # wait until the consumer has all frames: this does not count as work of the producer
        while not (folder / f"consumed-{number}").exists():
            time.sleep(0.02)
        server.close()


def consume(options: argparse.Namespace, folder: Path, number: int, watch: Stopwatch) -> None:
    """Reads the parts of one producer, and computes."""
    from kinema.cache import await_ready

    shared, local = folder / "shared", folder / f"node-consumer-{number}"
    rate = SharedRate(folder / "rate", options.rate)
    while options.way == WAYS[0] and not (folder / "produced").exists():
        time.sleep(0.02)
    for part in range(options.parts):
        name = shared / f"part-{number}-{part}.bin"
        marker = name.with_name(name.name + ".ready")
        while options.way != WAYS[0] and not marker.exists():
            time.sleep(0.005)
        watch.lap("stall")
        path = name
        if options.way == WAYS[1]:
            path = Path(await_ready(name, 600, verify=False).path)
        elif options.way == WAYS[2]:
            path = Path(await_ready(name, 600, local=local).path)
        with open(path, "rb", buffering=0) as file:
            while data := file.read(PIECE):
                if path == name:
                    rate.wait(len(data))
        watch.lap("io")
        time.sleep(options.compute)
        watch.lap("compute")
    (folder / f"consumed-{number}").touch()


def run(options: argparse.Namespace, way: str, folder: Path) -> dict[str, Any]:
    """All processes of one way, and what they have measured."""
    for name in ("shared", *(f"node-{role}-{i}" for role in ("producer", "consumer") for i in range(options.pairs))):
        (folder / name).mkdir(mode=0o700)
    (folder / "rate").write_bytes(b"0")
    words = [sys.executable, __file__, "--folder", str(folder), "--way", way]
    for name in ("parts", "size", "rate", "compute", "pairs"):
        words += [f"--{name}", str(getattr(options, name))]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
    began = time.time()
    processes = [
        (role, subprocess.Popen([*words, "--role", role, "--number", str(i)], stdout=subprocess.PIPE, env=environment))
        for i in range(options.pairs)
        for role in ("producer", "consumer")
    ]
    try:
        spans: dict[str, list[Any]] = {"producer": [], "consumer": []}
        # producers of "one after the other" end by themselves; then the consumers may begin
        for wanted in ("producer", "consumer"):
            if way == WAYS[2] and wanted == "producer":
                continue
            for role, process in processes:
                if role == wanted:
                    spans[role].append(json.loads(process.communicate(timeout=600)[0]))
            (folder / "produced").touch()
        if way == WAYS[2]:
            spans["producer"] = [
                json.loads(p.communicate(timeout=600)[0]) for role, p in processes if role == "producer"
            ]
    finally:
        for _, process in processes:
            process.kill()
            process.wait()
    shared_bytes = sum(file.stat().st_size for file in (folder / "shared").iterdir())
    return {"way": way, "began": began, "spans": spans, "shared_bytes": shared_bytes}


def totals(result: dict[str, Any], role: str) -> dict[str, float]:
    """Mean seconds of a process of this role in each phase, from the first begin of all to its end."""
    found = result["spans"][role]
    begin = begin_of(result)
    sums = dict.fromkeys(PHASES, 0.0)
    for process in found:
        sums["stall"] += (process[0][1] - begin) / len(found)
        for phase, start, end in process:
            sums[phase] += (end - start) / len(found)
    return sums


def begin_of(result: dict[str, Any]) -> float:
    """When the first process began to measure: before that Python starts."""
    return min(process[0][1] for role in result["spans"].values() for process in role)


def draw(results: list[dict[str, Any]], options: argparse.Namespace, path: Path) -> None:
    """Above the sums of each role, below when each process did what."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[1, 1.3])
    labels, place = [], 0.0
    for result in results:
        for role in ("producer", "consumer"):
            left = 0.0
            for phase, seconds in totals(result, role).items():
                above.barh(place, seconds, left=left, color=PHASES[phase], edgecolor="white")
                if seconds > 0.4:
                    colour = "white" if phase == "compute" else "black"
                    above.text(left + seconds / 2, place, f"{seconds:.1f}", ha="center", va="center", color=colour)
                left += seconds
            labels.append((place, f"{result['way']}: {role}s"))
            place += 1.0
        place += 0.5
    _axis(above, labels, "mean seconds of a process")
    labels, place = [], 0.0
    for result in results:
        begin = begin_of(result)
        for role in ("producer", "consumer"):
            for i, process in enumerate(result["spans"][role]):
                for phase, start, end in process:
                    if phase != "stall":
                        below.barh(place, end - start, left=start - begin, color=PHASES[phase], height=0.85)
                labels.append((place, f"{result['way']}: {role} {i + 1}"))
                place += 1.0
        place += 0.5
    _axis(below, labels, "seconds since the first began (white: nothing to do)")
    names = {"compute": "computing", "io": "writing; reading or fetching", "stall": "stalled: nothing to do yet"}
    handles = [above.barh(0, 0, color=colour, label=names[phase]) for phase, colour in PHASES.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    shared = ", ".join(f"{result['way']}: {result['shared_bytes'] / 1e6:,.3f} MB" for result in results)
    figure.suptitle(
        f"{options.pairs} producers and {options.pairs} consumers at once, {options.parts} parts of "
        f"{options.size / 1e6:.0f} MB each; shared file system of {options.rate / 1e6:.0f} MB/s\n"
        f"left on the shared file system: {shared}",
        fontsize=10,
    )
    figure.savefig(path, dpi=130)


def _axis(ax: Any, labels: list[tuple[float, str]], title: str) -> None:
    ax.set_yticks([place for place, _ in labels], [label for _, label in labels], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel(title, fontsize=9)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def main() -> None:
    """All ways, a table, and the picture; or one process of a way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=12, help="of each producer")
    parser.add_argument("--size", type=int, default=32 << 20, help="bytes of a part")
    parser.add_argument("--rate", type=float, default=100e6, help="bytes a second of the shared file system")
    parser.add_argument("--compute", type=float, default=0.3, help="seconds of computing a part, in both roles")
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    for name in ("folder", "way", "role"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        import kinema.cache.publishing  # noqa: F401  before the watch begins

        watch = Stopwatch()
        work = produce if options.role == "producer" else consume
        work(options, Path(options.folder), options.number, watch)
        print(json.dumps(watch.spans))
        return
    results = []
    for way in WAYS:
        folder = Path(tempfile.mkdtemp(prefix="kinema-pairs-"))
        try:
            results.append(run(options, way, folder))
        finally:
            shutil.rmtree(folder)
    print(f"{'':28s} {'role':10s} {'compute':>9s} {'io':>9s} {'stall':>9s} {'all':>9s}")
    for result in results:
        for role in ("producer", "consumer"):
            sums = totals(result, role)
            numbers = " ".join(f"{sums[phase]:9.2f}" for phase in PHASES)
            print(f"{result['way']:28s} {role:10s} {numbers} {sum(sums.values()):9.2f}")
        print(f"{'':28s} bytes left on the shared file system: {result['shared_bytes']:,}")
    if options.json:
        options.json.write_text(json.dumps(results))
    if options.picture:
        draw(results, options, options.picture)


if __name__ == "__main__":
    main()
