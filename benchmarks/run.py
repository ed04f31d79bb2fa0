"""`make bench`: Kinema and its peers on this machine, in one run; a table on the screen and JSON in results/.

It asserts nothing: figures are told beside their goals. `--quick` takes fewer frames and tries. "8 runs" in a row: its
figure is the mean of 8 runs in one process.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib.util
import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
import picture
from cases import (
    BESIDE_WARP_MD,
    CHECKPOINT_GOALS,
    FIGURES,
    RMSD_CASES,
    SELECTED,
    SHARE_OF_PLAIN_READ,
    Files,
    Goal,
    RmsdCase,
    selected_atoms,
)
from convert import convert
from files import make_files
from follow import follow
from kinema import _core
from kinema.demo import run_json
from ml_convert import ml_convert
from netcdf import netcdf
from node_cache import node_cache
from pipeline import pipeline
from repeats import LEAST_SECONDS, timed
from runners import runners
from serial_io import plot, serial_io
from start import start
from text import text
from trace_cost import trace_cost
from xtc_faults import xtc_faults

HERE = Path(__file__).resolve().parent
# a peer gets as many frames as it does in about a second; Kinema and the plain read get all
PEER_FRAMES = {"small": 2940, "large": 60, "text": 98}
# Processes take turns on shared cores: the best of several is nearest to what the code can do.
TRIES = 5


class Bench:
    """One run: the files, the folder for results, and everything measured so far."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder, self.quick = folder, quick
        self.tries = 2 if quick else TRIES
        small, large = (9_800, 200) if quick else (98_000, 1_000)
        self.files: Files = make_files(folder / "files", small, large)
        self.rows: list[dict[str, Any]] = []

    @functools.cached_property
    def molly(self) -> Path | None:
        """The program that reads with molly."""
        return _build_molly()

    def best(self, command: list[str]) -> dict[str, Any]:
        """The run with the least CPU time."""
        return min((run_json(command) for _ in range(self.tries)), key=lambda found: float(found["cpu"]))

    def python(
        self, program: str, path: Path, frames: int, *, atoms: Path | None = None, cold: bool = False
    ) -> dict[str, Any]:
        """A program of peers.py; if `cold`, one process and not the best of several."""
        words = [sys.executable, str(HERE / "peers.py"), program, str(path), str(frames)]
        words += [] if atoms is None else ["--atoms", str(atoms)]
        return run_json([*words, "--cold"]) if cold else self.best(words)

    def plain_read(self, path: Path, frames: int, buffer: int) -> dict[str, Any]:
        """A positional read loop over the file, one thread."""
        words = [sys.executable, str(HERE / "peers.py"), "plain-read", str(path), str(frames)]
        return self.best([*words, "--buffer", str(buffer)])

    def record(self, case: str, kind: str, program: str, **figures: Any) -> None:
        """Keeps and prints one row."""
        row = {"case": case, "format": kind, "program": program, **figures}
        self.rows.append(row)
        figure, unit, goal = figures["figure"], figures["unit"], figures.get("goal")
        said = f"{figure:>14,.3f}" if abs(figure) < 100 else f"{figure:>14,.0f}"
        more = "" if goal is None else f"   goal {goal:g}: {'reached' if figures['reached'] else 'not reached'}"
        ratio = f"  {figures['ratio']:8.2f} x mdanalysis" if "ratio" in figures else ""
        runs = f"   {figures['repeats']} run{'s'[: figures['repeats'] - 1]}" if "repeats" in figures else ""
        print(f"{case:54} {kind:13} {program:24} {said} {unit}{ratio}{more}{runs}", flush=True)

    def record_beside_goal(
        self, case: str, kind: str, program: str, figure: float, goal: Goal, unit: str = "ratio"
    ) -> None:
        """Keeps and prints one row with its goal."""
        self.record(case, kind, program, figure=figure, unit=unit, goal=goal.value, reached=goal.reached(figure))


def rmsd_case(bench: Bench, case: RmsdCase) -> None:
    """All programs on one case; frames a second of CPU time on one core."""
    path, frames = bench.files.paths[case.system, case.format], bench.files.frames[case.system, case.format]
    n_atoms = kn.open(str(path)).n_atoms
    atoms = selected_atoms(case.atoms, n_atoms, bench.files.c_alpha)
    atoms_file = bench.folder / "atoms.npy"
    np.save(atoms_file, atoms)
    measured: dict[str, dict[str, Any]] = {}
    for program in case.peers:
        count = min(frames, PEER_FRAMES["text" if case.format == "history" else case.system])
        found = _peer(bench, program, path, atoms, atoms_file, count)
        if found is not None:
            measured[program] = found
    measured["kinema"] = bench.python("kinema", path, frames, atoms=atoms_file)
    frame_bytes = path.stat().st_size / frames
    buffer = max(1 << 16, int(frame_bytes) * max(1, int((1 << 19) // frame_bytes)))
    measured["plain read"] = bench.plain_read(path, frames, buffer)
    if case.limit == "swapped read":
        measured["swapped read"] = bench.python("swapped-read", path, frames)
    rates = {program: found["frames"] / found["cpu"] for program, found in measured.items()}
    for program, rate in rates.items():
        extra: dict[str, Any] = {"repeats": measured[program]["repeats"]}
        if "mdanalysis" in rates:
            extra["ratio"] = rate / rates["mdanalysis"]
        if program == "kinema" and case.goal is not None and case.limit == "rate":
            extra |= {"goal": case.goal.value, "reached": case.goal.reached(rate)}
        name = f"{program} (reads only)" if program in ("molly", "chemfiles") else program
        bench.record(case.name, case.format, name, figure=rate, unit="frames/s", **extra)
    limit = "plain read" if case.limit == "rate" else case.limit
    ratio, extra = rates["kinema"] / rates[limit], {}
    if case.goal is not None and case.limit != "rate":
        extra = {"goal": case.goal.value, "reached": case.goal.reached(ratio)}
    bench.record(case.name, case.format, f"kinema/{limit}", figure=ratio, unit="ratio", **extra)


def _peer(
    bench: Bench, program: str, path: Path, atoms: np.ndarray, atoms_file: Path, frames: int
) -> dict[str, Any] | None:
    """A peer's measurement; None if the peer is not installed or if it fails, which is printed."""
    if program == "molly":
        return None if bench.molly is None else bench.best([str(bench.molly), str(path), str(frames), str(atoms[-1])])
    if program == "cpptraj":
        return _cpptraj(bench, path, atoms, frames)
    try:
        return bench.python(program, path, frames, atoms=atoms_file)
    except kn.InternalError as error:
        print(f"{program} is left out here: {error}")
        bench.rows.append({"case": path.name, "program": program, "failed": str(error)})
        return None


def _cpptraj(bench: Bench, path: Path, atoms: np.ndarray, frames: int) -> dict[str, Any] | None:
    """cpptraj on the 3341-atom system, whose topology there is; runs of one frame take off start-up and opening."""
    program = shutil.which("cpptraj")
    if program is None or bench.files.paths.get(("small", path.suffix[1:])) != path or path.suffix == ".h5md":
        return None
    from MDAnalysisTests.datafiles import PSF

    mask = "@" + ",".join(str(atom + 1) for atom in atoms)

    def cpu(last: int, repeats: int = 1) -> float:
        inputs = f"trajin {path} 1 {last}\n" * repeats
        script = f"parm {PSF}\n{inputs}rms first {mask} out {bench.folder / 'cpptraj.dat'}\nrun\n"
        before = os.times()
        subprocess.run([program], input=script, text=True, capture_output=True, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    repeats = math.ceil(LEAST_SECONDS / max(cpu(frames) - cpu(1), 0.01))
    seconds = min(cpu(frames, repeats) - cpu(1, repeats) for _ in range(bench.tries))
    return {"frames": frames - 1, "cpu": seconds / repeats, "repeats": repeats}


def atom_checkpoints(bench: Bench) -> None:
    """XTC of 111,815 atoms from atom checkpoints and without, and making them beside a full scan of the packed bits."""
    path, frames = bench.files.paths["large", "xtc"], bench.files.frames["large", "xtc"]
    atoms_file = bench.folder / "atoms.npy"
    trajectory = kn.open(path)
    n_atoms = trajectory.n_atoms
    # untimed: there is no making of a few
    trajectory.store_atom_checkpoints(workers=1)
    made = timed(lambda: trajectory.store_atom_checkpoints(workers=1))
    figure, name = 1e9 * made["cpu"] / frames / n_atoms, "111,815 atoms, making atom checkpoints"
    bench.record(name, "xtc", "kinema", figure=figure, unit="ns/atom CPU", repeats=made["repeats"])
    for case in RMSD_CASES:
        if (case.system, case.format) != ("large", "xtc"):
            continue
        np.save(atoms_file, selected_atoms(case.atoms, n_atoms, bench.files.c_alpha))
        found = bench.python("kinema", path, frames, atoms=atoms_file)
        plain = bench.python("kinema-plain", path, frames, atoms=atoms_file)
        for program, one in (("kinema", found), ("kinema without", plain)):
            _record_rate(bench, f"{case.name}, atom checkpoints", "xtc", program, one)
        ratio, name = plain["cpu"] / found["cpu"], f"{case.name}, with/without atom checkpoints"
        if case.atoms in CHECKPOINT_GOALS:
            bench.record_beside_goal(name, "xtc", "kinema", ratio, CHECKPOINT_GOALS[case.atoms])
        else:
            bench.record(name, "xtc", "kinema", figure=ratio, unit="ratio")


def _record_rate(bench: Bench, case: str, kind: str, program: str, found: dict[str, Any]) -> None:
    rate = found["frames"] / found["cpu"]
    bench.record(case, kind, program, figure=rate, unit="frames/s", repeats=found["repeats"])


def warp_md(bench: Bench) -> None:
    """RMSD and RMSF on DCD beside warp-md; the goal is a multiple of its speed or a share of a plain read."""
    if importlib.util.find_spec("warp_md") is None:
        print("warp-md is left out: it is not installed (the extra 'bench' of pyproject.toml has it)")
        bench.rows.append({"case": "warp-md", "program": "warp-md", "failed": "not installed"})
        return
    path, frames = bench.files.paths["small", "dcd"], bench.files.frames["small", "dcd"]
    atoms_file = bench.folder / "atoms.npy"
    np.save(atoms_file, bench.files.c_alpha)
    for analysis, (ours, theirs, times) in BESIDE_WARP_MD.items():
        case = f"3341 atoms, C-alpha {analysis} beside warp-md"
        found = bench.python(ours, path, frames, atoms=atoms_file)
        peer = bench.python(theirs, path, frames, atoms=atoms_file)
        plain = bench.plain_read(path, frames, 1 << 19)
        for program, one in (("kinema", found), ("warp-md", peer), ("plain read", plain)):
            _record_rate(bench, case, "dcd", program, one)
        # whichever is lower
        goal = Goal(min(times, SHARE_OF_PLAIN_READ * peer["cpu"] / plain["cpu"]), at_least=True, source="step 7")
        bench.record_beside_goal(case, "dcd", "kinema/warp-md", peer["cpu"] / found["cpu"], goal)


def figures(bench: Bench) -> None:
    """Decoding, index, QCP, memory, start-up."""
    small = bench.files.paths["small", "xtc"]
    for name, path, frames, n_atoms in (
        ("XTC full decode, 3341 atoms", small, 4_900, 3341),
        ("XTC full decode, 47,681 atoms", bench.files.real_xtc, 400, 47_681),
    ):
        for program in ("mdanalysis-decode", "kinema-decode"):
            found = bench.python(program, path, frames // (4 if bench.quick else 1))
            figure = 1e9 * found["cpu"] / found["frames"] / n_atoms
            _figure(bench, name, program.split("-")[0], figure, found["repeats"])
        if bench.molly is not None:
            found = bench.best([str(bench.molly), str(path), str(frames)])
            _figure(bench, name, "molly", 1e9 * found["cpu"] / found["frames"] / n_atoms, found["repeats"])
    found = bench.python("kinema-index", small, 0)
    _figure(bench, "XTC index", "kinema", 1e6 * found["cpu"] / found["frames"], found["repeats"])
    _stored_index(bench)
    _qcp(bench)
    _command(bench)


def _figure(bench: Bench, name: str, program: str, value: float, repeats: int | None = None) -> None:
    unit, goal = FIGURES[name]
    extra: dict[str, Any] = {} if repeats is None else {"repeats": repeats}
    if goal is not None and program == "kinema":
        extra |= {"goal": goal.value, "reached": goal.reached(value)}
    bench.record(name, "", program, figure=value, unit=unit, **extra)


def _example(package: str, name: str, figure: str) -> list[str]:
    """Matches of a pattern in the output of a Rust example; if there are none, that is printed."""
    words = ["cargo", "run", "--release", "--quiet", "--package", package, "--example", name]
    done = subprocess.run(words, cwd=HERE.parent, capture_output=True, text=True, check=False)
    found = re.findall(figure, done.stdout)
    if not found:
        print(f"{name}: no figure, {(done.stderr or done.stdout).strip()[-200:]!r}")
    return found


def _stored_index(bench: Bench) -> None:
    """The example prints milliseconds of loading an index, with a look at the frames of the file and without."""
    found = _example("kinema-core", "index_speed", r"(?:compared|believed) ([\d.]+) ms")
    if found:
        compared, believed = map(float, found)
        _figure(bench, "stored index of 10^6 frames, compared / believed", "kinema", compared / believed)


def _qcp(bench: Bench) -> None:
    """The example prints nanoseconds for some numbers of atoms."""
    found = _example("kinema-analysis", "qcp_speed", rf"\b{SELECTED} atoms.*?rmsd\s+([\d.]+) ns")
    if found:
        _figure(bench, "QCP of 214 atoms", "kinema", min(map(float, found)))


def _command(bench: Bench) -> None:
    """The command itself: memory above an idle interpreter, and the time until a run of 98 frames is done."""
    idle = run_json([sys.executable, str(HERE / "peers.py"), "interpreter"])["peak_memory"]
    small = bench.files.paths["small", "xtc"]
    index_file = small.with_name("c-alpha.ndx")
    words = [sys.executable, "-m", "kinema", "rmsd", "-n", str(index_file), "--json", "-j", "1"]
    for kind in ("xtc", "dcd"):
        found = run_json([*words, "-f", str(bench.files.paths["small", kind])])
        name = f"peak memory of kinema rmsd above the interpreter, {kind.upper()}"
        _figure(bench, name, "kinema", (found["peak_memory"] - idle) / 2**20)
    times = []
    for _ in range(3 * bench.tries):
        began = time.perf_counter()
        run_json([*words, "-f", str(small), "--stop", "98"])
        times.append(time.perf_counter() - began)
    _figure(bench, "start-up of kinema rmsd from indices", "kinema", statistics.median(times))


def _build_molly() -> Path | None:
    """The peer's reader, built once; None, with a printed message, if the build fails (no network)."""
    folder = HERE / "molly"
    words = ["cargo", "build", "--release", "--quiet", "--locked"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"molly is left out, it cannot be built: {done.stderr.strip()[-300:]}")
        return None
    target = os.environ.get("CARGO_TARGET_DIR")
    return (Path(target) if target else folder / "target") / "release/molly-bench"


def machine() -> dict[str, Any]:
    """The machine and the versions that the figures depend on."""
    model = "unknown"
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
        model = found.group(1) if found else model
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "features": _core.cpu_features(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "kinema": kn.__version__,
        "date": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    parser.add_argument("--folder", type=Path, default=HERE / "results", help="files and results")
    options = parser.parse_args()
    # one core for every program: threads that wait for each other would count as work
    os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = "1"
    facts = machine()
    print(
        f"{facts['processor']}, {facts['cores']} cores, load {facts['load']:.1f}; one core, CPU time, best of several"
    )
    # what Kinema keeps in the user's cache folder is of this run alone
    shutil.rmtree(options.folder / "cache", ignore_errors=True)
    os.environ["XDG_CACHE_HOME"] = str((options.folder / "cache").absolute())
    bench = Bench(options.folder, options.quick)
    for case in RMSD_CASES:
        rmsd_case(bench, case)
    # after the cases: the files have no atom checkpoints until here, as a user's have none
    atom_checkpoints(bench)
    warp_md(bench)
    figures(bench)
    text(bench)
    xtc_faults(bench)
    pipeline(bench)
    convert(bench)
    netcdf(bench)
    serial_io(bench)
    follow(bench)
    ml_convert(bench)
    trace_cost(bench)
    node_cache(bench, 1400 if bench.quick else 2800, options.folder / "node_cache.png")
    plot(bench.rows, options.folder / "serial_io.png")
    runners(bench)
    start(bench)
    picture.draw(bench.rows, options.folder / "formats.png", picture.machine_in_words(facts))
    target = options.folder / f"bench-{facts['date'].replace(':', '')}.json"
    target.write_text(json.dumps({"machine": facts, "quick": options.quick, "rows": bench.rows}, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
