"""All runners in one run: what a leaf costs, the start of MPI, what is decoded, accounts, RMSD beside MDAnalysis' own.

Part of `make bench`; alone: `python benchmarks/runners.py [--quick]`. Every measurement is a process of its own
(`one_runner.py`), wall time, best of several. It asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from kinema.demo import run_json
from kinema.testing import random_walk, synthetic, write_dcd, write_h5md

HERE = Path(__file__).resolve().parent
WORKERS = 2
RUNNERS = ("serial", "threads", "processes", "dask", "mpi")
_ENGINES = {
    "serial": "a Python call",
    "threads": "concurrent.futures, threads",
    "processes": "concurrent.futures, processes",
    "dask": "distributed",
    "mpi": "mpi4py.futures",
}
# The file's frames are read so often in one run that it takes two seconds; more files would not fit into memory.
_REPEATS = {"xtc": 6, "dcd": 10}
# of MDAnalysis: two seconds for two workers with its own reader of XTC
_PEER_FRAMES = 29_400
_PEERS = (
    ("serial", "own"),
    ("multiprocessing", "own"),
    ("dask", "own"),
    ("kinema-processes", "own"),
    ("kinema-dask", "own"),
    ("serial", "kinema"),
    ("multiprocessing", "kinema"),
    ("kinema-processes", "kinema"),
    ("kinema-dask", "kinema"),
)
# an empty task of the engine itself; a leaf; what is added if each leaf is a piece of its own; a round of one leaf
_COSTS = ("an empty task", "a leaf", "a piece", "a round")
_NO_FRAMES = 512  # two a leaf
# of an H5MD file whose chunks are decoded whole
_CHUNK, _CHUNKED_FRAMES, _CHUNKED_ATOMS = 333, 33_000, 30
_MPIEXEC = Path(sys.executable).with_name("mpiexec")


class _Rows:
    """Measured rows: kept for the JSON file and shown as one table at the end."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.first = len(bench.rows)
        self.failed: list[str] = []

    def record(
        self,
        case: str,
        program: str,
        figure: float,
        unit: str,
        beside: tuple[str, float] | None = None,
        noise: float = 0.0,
    ) -> None:
        """A figure; `beside`: what it is compared with, and the ratio. One below its noise is told as its bound."""
        row: dict[str, Any] = {"case": case, "format": "", "program": program, "figure": figure, "unit": unit}
        if figure < noise:
            row |= {"figure": max(0.0, figure) + noise, "below": True}
        elif beside is not None:
            row |= {"beside": beside[0], "ratio": beside[1]}
        self.bench.rows.append(row)

    def group(self, first: int, cases: list[str]) -> None:
        """Brings rows from `first` on into the order of their cases; within each they keep theirs."""
        self.bench.rows[first:] = sorted(self.bench.rows[first:], key=lambda row: cases.index(row["case"]))

    def run(self, name: str, *arguments: object, ranks: int = 0, **environment: str) -> dict[str, Any] | None:
        """A measurement, under `mpiexec` if `ranks` is given; None, with a printed message, if it cannot be made."""
        words = [sys.executable, str(HERE / "one_runner.py"), name, *map(str, arguments)]
        if ranks:
            if not _MPIEXEC.exists():
                self.failed.append(f"{name}: no mpiexec beside this Python (pip install 'kinema[mpi-local]')")
                return None
            # an exception on one rank ends all
            words = [str(_MPIEXEC), "-n", str(ranks), words[0], "-m", "mpi4py", *words[1:]]
        print(f"  {name} {' '.join(map(str, arguments))[:60]}", file=sys.stderr, flush=True)
        os.environ.update(environment)
        try:
            return run_json(words)
        finally:
            for variable in environment:
                del os.environ[variable]

    def table(self) -> Table:
        """All rows since this began."""
        table = Table(title=f"{WORKERS} workers, wall time, best of {self.bench.tries}", title_justify="left")
        for column in ("case", "program"):
            table.add_column(column)
        for column in ("figure", "unit", "ratio"):
            table.add_column(column, justify="right")
        table.add_column("beside")
        case = ""
        for row in self.bench.rows[self.first :]:
            if case and row["case"] != case:
                table.add_section()
            figure = f"{row['figure']:,.0f}" if abs(row["figure"]) >= 100 else f"{row['figure']:.3g}"
            figure = f"< {figure}" if "below" in row else figure
            ratio = f"{row['ratio']:,.3g} x" if "ratio" in row else ""
            shown = "" if row["case"] == case else row["case"]
            table.add_row(shown, row["program"], figure, row["unit"], ratio, row.get("beside", ""))
            case = row["case"]
        return table


def runners(bench: Any) -> None:
    """All rows, kept with those of `bench` and shown as a table."""
    rows = _Rows(bench)
    # the kernel that does nothing is found by its module's name in other processes
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    atoms = bench.folder / "c-alpha.npy"
    np.save(atoms, bench.files.c_alpha)
    _overheads(rows)
    _first_frame(rows)
    _counter(rows)
    _decoded(rows)
    for kind in ("xtc", "dcd"):
        _throughput(rows, kind, atoms)
    Console(width=150).print(rows.table())
    for one in rows.failed:
        print(f"left out: {one}")


def _overheads(rows: _Rows) -> None:
    """Per leaf, per piece and per round, beside an empty task of the engine itself."""
    path = rows.bench.folder / "files" / "nothing.dcd"
    if not path.exists():
        write_dcd(path, random_walk(_NO_FRAMES, 1))
    for runner in RUNNERS:
        ranks = WORKERS if runner == "mpi" else 0
        engine = rows.run("empty-tasks", runner, WORKERS, rows.bench.tries, ranks=ranks)
        found = rows.run("overhead", runner, path, WORKERS, rows.bench.tries, ranks=ranks)
        if engine is None or found is None:
            continue
        rows.record(_COSTS[0], _ENGINES[runner], 1e6 * engine["task"], "us")
        for kernel, cost in found.items():
            for what, named in zip(("leaf", "piece", "round"), _COSTS[1:], strict=True):
                if what == "piece" and runner in ("serial", "threads"):
                    continue  # each leaf is
                seconds, noise = cost[what]["seconds"], cost[what]["noise"]
                beside = None if what == "round" else (_ENGINES[runner], seconds / engine["task"])
                rows.record(f"{named}: {kernel}", runner, 1e6 * seconds, "us", beside, 1e6 * noise)
    # runners side by side
    rows.group(rows.first, sorted({row["case"] for row in rows.bench.rows[rows.first :]}, key=_cost))


def _cost(case: str) -> int:
    return _COSTS.index(case.split(":")[0])


def _first_frame(rows: _Rows) -> None:
    """From the start of `mpiexec` until every rank has read its first frames, beside imports that any program makes."""
    case = "from mpiexec to the first frame"
    files, folder = rows.bench.files, rows.bench.folder
    small = files.paths["small", "dcd"]
    index_file = small.with_name("c-alpha.ndx")
    topology = _topology()
    others = {
        "import MDAnalysis": "import sys, time, MDAnalysis; sys.stdout.write(f'{time.time()}\\n')",
        "from mpi4py import MPI": "import sys, time; from mpi4py import MPI; sys.stdout.write(f'{time.time()}\\n')",
    }
    ways = {
        "kinema rmsd -n index file": ["-n", index_file],
        "kinema rmsd -s PSF --select": ["-s", topology, "--select", "protein and name CA"],
    }
    if not _MPIEXEC.exists():
        rows.failed.append(f"{case}: no mpiexec beside this Python")
        return
    found = {name: min(seconds_until(["-c", code]) for _ in range(rows.bench.tries)) for name, code in others.items()}
    for name, options in ways.items():
        words = ["first-frame", "rmsd", "-f", small, *options, "-o", folder / "first.npy", "--quiet"]
        program = [str(HERE / "one_runner.py"), *map(str, words)]
        found[name] = min(seconds_until(program) for _ in range(rows.bench.tries))
    for name, seconds in found.items():
        beside = ("from mpi4py import MPI", seconds / found["from mpi4py import MPI"])
        rows.record(case, name, seconds, "s", None if name.startswith("from") else beside)


def seconds_until(words: list[str]) -> float:
    """Seconds from the start of `mpiexec` until what the last rank says."""
    began = time.time()
    command = [str(_MPIEXEC), "-n", str(WORKERS), sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return max(float(one["read"] if isinstance(one, dict) else one) for one in said) - began


def _topology() -> Path:
    from MDAnalysisTests.datafiles import PSF

    return Path(PSF)


def _counter(rows: _Rows) -> None:
    """Waiting for a number of MPI's counter while its owner computes: on one node, and as if there were two."""
    for kind, environment in (
        ("serving", {}),
        ("plain", {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}),
        ("serving", {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}),
    ):
        case = "MPI: waiting for a number, 4 ranks" + (" of 2 nodes" if environment else "")
        found = rows.run("counter", kind, ranks=4, **environment)
        for where, waited in (found or {}).items():
            name = f"{where}{', plain fetch-and-add' if kind == 'plain' else ''}"
            for share in ("p50", "p99"):
                rows.record(case, f"{name}, {share}", 1e6 * waited[share], "us")


def _decoded(rows: _Rows) -> None:
    """Bytes decoded for each useful byte, of compressed chunks that do not end where leaves end."""
    path = rows.bench.folder / "files" / f"chunks_of_{_CHUNK}.h5md"
    if not path.exists():
        made = synthetic(_CHUNKED_FRAMES, _CHUNKED_ATOMS, cell="none")
        write_h5md(path, made, chunks=(_CHUNK, _CHUNKED_ATOMS, 3), compression="gzip", compression_opts=1)
    for runner in RUNNERS:
        found = rows.run("decoded", runner, path, WORKERS, ranks=WORKERS if runner == "mpi" else 0)
        if found is not None:
            case = f"bytes decoded per useful byte, gzip chunks of {_CHUNK} frames"
            rows.record(case, runner, found["read"] / found["stored"], "ratio")


def _throughput(rows: _Rows, kind: str, atoms: Path) -> None:
    """RMSD of C-alpha with every runner, MDAnalysis' backends and a plain read of the file; what clocks say of it."""
    bench = rows.bench
    path = bench.files.paths["small", kind]
    case = f"{kind.upper()}: RMSD, 214 of 3341 atoms"
    first = len(bench.rows)
    beside, theirs = _mdanalysis(rows, kind, case, atoms)
    measure = [sys.executable, "-m", "kinema.demo.measure", "plain-read", str(path), str(1 << 20), str(WORKERS)]
    limit = bench.files.frames["small", "dcd"] / min(run_json(measure)["seconds"] for _ in range(bench.tries))
    accounts = {}
    for runner in (*RUNNERS, "dask-running"):
        ranks = WORKERS if runner == "mpi" else 0
        found = rows.run("rmsd", runner, path, atoms, WORKERS, _REPEATS[kind], bench.tries, ranks=ranks)
        if found is None:
            continue
        rate = found["frames"] / found["seconds"]
        name = {"dask-running": "Kinema, dask, a cluster that runs", "serial": "Kinema, serial, 1 worker"}
        rows.record(case, name.get(runner, f"Kinema, {runner}"), rate, "frames/s", (beside, rate / theirs))
        accounts[runner] = found | {"rate": rate}
    rows.record(case, "plain read, all bytes", limit, "frames/s", (beside, limit / theirs))
    for runner, found in accounts.items():
        rate = found["frames"] / (found["wall"] - found["start"])
        rows.record(
            f"{kind.upper()}: once started", f"Kinema, {runner}", rate, "frames/s", ("plain read", rate / limit)
        )
    rows.group(first, list(dict.fromkeys(row["case"] for row in bench.rows[first:])))
    _accounts(rows, kind.upper(), accounts)


def _mdanalysis(rows: _Rows, kind: str, case: str, atoms: Path) -> tuple[str, float]:
    """MDAnalysis' RMSD with its backends and on Kinema's runners, with both readers; its `multiprocessing` and rate."""
    bench = rows.bench
    frames = min(_PEER_FRAMES // (5 if bench.quick else 1), bench.files.frames["small", "dcd"])
    whole, running, start = {}, {}, {}
    for backend, reader in _PEERS:
        path = bench.files.paths["small", kind]
        found = rows.run("mdanalysis", backend, reader, path, atoms, WORKERS, frames, bench.tries)
        assert found is not None  # no ranks
        name = f"MDAnalysis, {backend}".replace("MDAnalysis, kinema-", "MDAnalysis on Kinema's ")
        name += ", KinemaReader" if reader == "kinema" else ""
        whole[name] = frames / found["seconds"]
        if backend != "serial":
            running[name] = frames / found["running"]
        if backend.startswith("kinema-"):
            start[name] = found["seconds"] - found["running"]
    beside = "MDAnalysis, multiprocessing"
    theirs = whole[beside]
    for name, rate in whole.items():
        rows.record(case, name, rate, "frames/s", (beside, rate / theirs))
    for name, rate in running.items():
        rows.record(f"{kind.upper()}: once started", name, rate, "frames/s", (beside, rate / theirs))
    for name, seconds in start.items():
        rows.record(f"{kind.upper()}: start of workers", name, seconds, "s")
    return beside, theirs


def _accounts(rows: _Rows, kind: str, accounts: dict[str, dict[str, Any]]) -> None:
    """Times from the clocks of the runs, and their cost; Dask's times side by side."""
    for runner, found in accounts.items():
        rows.record(f"{kind}: unaccounted", runner, 100 * found["unaccounted"], "% of workers' time")
    for runner, found in accounts.items():
        rows.record(f"{kind}: looking at clocks", runner, 100 * found["clocks"], "% of workers' time")
    for runner, found in accounts.items():
        share = found["report"] / found["seconds"]
        rows.record(f"{kind}: making a report", runner, 1e3 * found["report"], "ms", ("the run", share))
    by_dask = {runner: found for runner, found in accounts.items() if found["tasks"] is not None}
    for runner, found in by_dask.items():
        for name, seconds in found["tasks"].items():
            beside = ("job", seconds / found["tasks"]["job"])
            rows.record(f"{kind}: Dask's times", f"{runner}, {name}", seconds, "s", beside)
    for runner, found in by_dask.items():
        for share in ("p50", "p99"):
            if found["piece_scheduler"] is not None:
                name = f"{runner}, from task to task, {share}"
                rows.record(f"{kind}: Dask's times", name, 1e6 * found["piece_scheduler"][share], "us")


def main() -> None:
    """This part alone."""
    from run import Bench, machine

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    parser.add_argument("--folder", type=Path, default=HERE / "results", help="files and results")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    facts = machine()
    print(f"{facts['processor']}, {facts['cores']} cores, load {facts['load']:.1f}; {WORKERS} workers")
    bench = Bench(options.folder, options.quick)
    runners(bench)
    target = options.folder / f"runners-{facts['date'].replace(':', '')}.json"
    target.write_text(json.dumps({"machine": facts, "quick": options.quick, "rows": bench.rows}, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
