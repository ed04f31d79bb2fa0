"""The serial reading of the H5MD paper (SciPy 2021), redone: H5MD layouts beside DCD, TRR and XTC, warm and cold.

Part of `make bench`; alone: `python benchmarks/serial_io.py [--quick]`. Every measurement is a process of its own
(`peers.py`). Warm: frames a second of CPU time, best of several. Cold: frames a second of wall time, from one process
that drops the file's pages before each run.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from MDAnalysis.lib.formats.libmdaxdr import TRRFile
from numpy.typing import NDArray

import kinema as kn
from cases import Files, Goal

# the paper's files: name -> how h5py is told to store positions
LAYOUTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "automatic": lambda _: {"chunks": True},
    "frame": lambda n_atoms: {"chunks": (1, n_atoms, 3)},
    "contiguous": lambda _: {},
    "gzip1": lambda n_atoms: {"chunks": (1, n_atoms, 3), "compression": "gzip", "compression_opts": 1},
    "gzip9": lambda n_atoms: {"chunks": (1, n_atoms, 3), "compression": "gzip", "compression_opts": 9},
    # what Kinema's writer does where gzip is asked for
    "shuffle-gzip1": lambda n_atoms: {
        "chunks": (max(1, (1 << 20) // (12 * n_atoms)), n_atoms, 3),
        "shuffle": True,
        "compression": "gzip",
        "compression_opts": 1,
    },
}

_FRAMES = {"small": 9_800, "large": 600}
# where decoding takes long, and writing gzip9 even longer
_FRAMES_COMPRESSED = {"small": 1_960, "large": 60}
_PEER_FRAMES = {"small": 980, "large": 60}
# goals of RMSD of C-alpha, frames a second on one core; goals that are ratios are in `_goals`
_RATES = {("small", "frame"): 120_000.0, ("small", "automatic"): 50_000.0, ("large", "contiguous"): 80_000.0}


def make_h5md(path: Path, positions: NDArray[np.float32], how: dict[str, Any]) -> None:
    """Positions (frames, atoms, 3) in angstrom, laid out and named as MDAnalysis' writer does, by plain h5py."""
    text = h5py.string_dtype()
    steps = np.arange(len(positions))
    part = path.with_suffix(".part")
    with h5py.File(part, "w") as file:
        file.create_group("h5md").attrs["version"] = np.array([1, 1])
        file.create_group("h5md/author").attrs["name"] = "benchmark"
        file["h5md"].create_group("creator").attrs.update({"name": "h5py", "version": h5py.__version__})
        group = file.create_group("particles/trajectory")
        box = group.create_group("box")
        box.attrs["dimension"] = 3
        box.attrs.create("boundary", ["none"] * 3, dtype=text)
        position = group.create_group("position")
        position.create_dataset("value", positions.shape, np.float32, **how).write_direct(positions)
        position["step"] = steps
        position["time"] = steps.astype(np.float32)
        position["value"].attrs["unit"] = "Angstrom"
        position["time"].attrs["unit"] = "ps"
    part.rename(path)


def _make_trr(path: Path, positions: NDArray[np.float32]) -> None:
    box = np.eye(3, dtype=np.float32)
    with TRRFile(str(path), "w") as file:
        for step, frame in enumerate(positions):
            file.write(frame / 10, None, None, box, step, float(step), 0.0, len(frame))


@dataclass(frozen=True)
class _Case:
    system: str
    layout: str
    path: Path
    frames: int


def _cases(files: Files, folder: Path, quick: bool) -> list[_Case]:
    """Files of both systems; missing files are made."""
    cases = []
    for system in ("small", "large"):
        source = kn.open(files.paths[system, "dcd"])
        less = 5 if quick else 1
        positions = source.read(slice(0, _FRAMES[system] // less))
        for layout, how in LAYOUTS.items():
            n_frames = (_FRAMES_COMPRESSED if "gzip" in layout else _FRAMES)[system] // less
            path = folder / f"{system}_{n_frames}_{layout}.h5md"
            if not path.exists():
                make_h5md(path, positions[:n_frames], how(source.n_atoms))
            cases.append(_Case(system, layout, path, n_frames))
        n_frames = len(positions)
        trr = folder / f"{system}_{n_frames}.trr"
        if not trr.exists():
            _make_trr(trr, positions)
        cases.append(_Case(system, "trr", trr, n_frames))
        cases += [_Case(system, kind, files.paths[system, kind], n_frames) for kind in ("dcd", "xtc")]
    return cases


def serial_io(bench: Any) -> None:
    """All files, all atoms read and RMSD of C-alpha, by Kinema, MDAnalysis and h5py; recorded through `bench`."""
    atoms_file = bench.folder / "c-alpha.npy"
    np.save(atoms_file, bench.files.c_alpha)
    for case in _cases(bench.files, bench.folder / "files", bench.quick):
        for work in ("rmsd", "read"):
            measured = _measured(bench, case, work, atoms_file)
            rates = {program: found["frames"] / found["cpu"] for program, found in measured.items()}
            atoms = "C-alpha RMSD" if work == "rmsd" else "all atoms read"
            name = f"serial I/O, {'3341' if case.system == 'small' else '111,815'} atoms, {atoms}"
            for program, rate in rates.items():
                extra = {"ratio": rate / rates["mdanalysis"]} if "mdanalysis" in rates else {}
                extra["repeats"] = measured[program]["repeats"]
                bench.record(name, case.layout, program, figure=rate, unit="frames/s", **extra)
            if work == "rmsd" and "kinema" in rates:
                _goals(bench, name, case, rates)
        _cold(bench, case, atoms_file)


def _measured(bench: Any, case: _Case, work: str, atoms_file: Path) -> dict[str, dict[str, Any]]:
    """Measurements of each program."""
    programs = {"mdanalysis": _PEER_FRAMES[case.system]}
    if case.layout != "trr":  # which Kinema does not read yet
        programs["kinema"] = case.frames
    if case.path.suffix == ".h5md":
        programs["h5py"] = min(case.frames, 2 * _PEER_FRAMES[case.system])
    measured = {}
    for program, frames in programs.items():
        frames = min(frames, case.frames)
        word = {"rmsd": program, "read": f"{program}-read"}[work] if program != "h5py" else "h5py"
        measured[program] = bench.python(word, case.path, frames, atoms=atoms_file)
    if work == "rmsd" and case.layout == "contiguous":
        measured["plain read"] = bench.plain_read(case.path, case.frames, 1 << 20)
    return measured


def _goals(bench: Any, name: str, case: _Case, rates: dict[str, float]) -> None:
    """The goals of step 3 beside what was measured."""
    aims: list[tuple[str, float, Goal]] = []
    if (case.system, case.layout) in _RATES:
        rate = _RATES[case.system, case.layout]
        aims.append(("kinema", rates["kinema"], Goal(rate, at_least=True, source="step 3")))
    if case.layout == "contiguous" and case.system == "small":
        ratio = rates["kinema"] / rates["plain read"]
        aims.append(("kinema/plain read", ratio, Goal(0.8, at_least=True, source="step 3")))
    if case.layout.startswith("gzip"):
        aims.append(("kinema/h5py", rates["kinema"] / rates["h5py"], Goal(2, at_least=True, source="step 3")))
        ratio = rates["kinema"] / rates["mdanalysis"]
        aims.append(("kinema/mdanalysis", ratio, Goal(40, at_least=True, source="step 3")))
    for program, figure, goal in aims:
        unit = "ratio" if "/" in program else "frames/s"
        reached = goal.reached(figure)
        bench.record(name, case.layout, program, figure=figure, unit=unit, goal=goal.value, reached=reached)


def _cold(bench: Any, case: _Case, atoms_file: Path) -> None:
    """RMSD of C-alpha from the disk: wall time, opening not counted."""
    for program in ("mdanalysis", "kinema"):
        if program == "kinema" and case.layout == "trr":
            continue
        frames = case.frames if program == "kinema" else min(case.frames, _PEER_FRAMES[case.system])
        found = bench.python(program, case.path, frames, atoms=atoms_file, cold=True)
        system = "3341" if case.system == "small" else "111,815"
        name = f"serial I/O, cold, {system} atoms, C-alpha RMSD"
        bench.record(
            name, case.layout, program, figure=frames / found["wall"], unit="frames/s wall", repeats=found["repeats"]
        )


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars of the warm rates, a panel a system, as the paper's figure has its times."""
    from matplotlib.figure import Figure

    layouts = [*LAYOUTS, "dcd", "trr", "xtc"]
    colours = {"mdanalysis": "#bbbbbb", "h5py": "#6699cc", "kinema": "#cc5533"}
    figure = Figure(figsize=(11, 7), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for row, system in enumerate(("3341", "111,815")):
        for column, work in enumerate(("all atoms read", "C-alpha RMSD")):
            ax = axes[row][column]
            name = f"serial I/O, {system} atoms, {work}"
            for number, (program, colour) in enumerate(colours.items()):
                found = {r["format"]: r["figure"] for r in rows if r["case"] == name and r["program"] == program}
                places = [i + 0.27 * (number - 1) for i, layout in enumerate(layouts) if layout in found]
                ax.bar(places, [found[k] for k in layouts if k in found], 0.25, color=colour, label=program)
            ax.set_yscale("log")
            ax.set_title(f"{system} atoms, {work}", fontsize=10)
            ax.set_xticks(range(len(layouts)), layouts, rotation=30, ha="right")
            ax.set_ylabel("frames/s of one core")
            ax.grid(axis="y", alpha=0.3)
    axes[0][0].legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """This part alone."""
    from run import HERE, Bench

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    parser.add_argument("--folder", type=Path, default=HERE / "results", help="files and results")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    bench = Bench(options.folder, options.quick)
    serial_io(bench)
    plot(bench.rows, options.folder / "serial_io.png")
    (options.folder / "serial_io.json").write_text(json.dumps(bench.rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
