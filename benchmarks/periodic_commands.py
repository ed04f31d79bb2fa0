"""Commands with periodic transforms beside their parts and beside MDAnalysis doing the same; for `periodic.py`.

Wall times of one worker, the least of several by turns, of a trajectory that repeats the frames of a solvated one.
Parts are measured by themselves: decoding of the atoms that are needed, into memory that is used again; a transform,
reading with it less decoding; a kernel, what eight more of it add to a run; encoding of positions in memory. Writing is
not measured by itself: the times that a run reports stand beside the parts. Converted files never replace a file, as
freeing the old one takes time. It asserts nothing.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import MDAnalysis
import numpy as np
from MDAnalysis import transformations
from MDAnalysis.analysis import rms
from MDAnalysisTests import datafiles

import kinema as kn
from kinema import _core, transforms
from repeats import timed

SELECT = "protein and name CA"
COPIES = 8
# bytes that frames are read into at a time
READ_BYTES = 8 << 20
# frames that MDAnalysis gets
PEER_FRAMES = 12


def time_alternately(
    tries: int, calls: list[Callable[[], object]], prepare: Callable[[], object] = lambda: None
) -> list[float]:
    """The least wall seconds of each call; of `prepare`, which is called before each, none are in them."""
    best = [float("inf")] * len(calls)
    for _ in range(tries):
        for i, call in enumerate(calls):
            prepare()
            began = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - began)
    return best


def repeated(folder: Path, n_frames: int) -> Path:
    """The frames of the solvated trajectory, again and again."""
    path = folder / "long.xtc"
    path.write_bytes(Path(datafiles.XTC).read_bytes() * (n_frames // 10))
    return path


def reading(trajectory: kn.Trajectory, atoms: np.ndarray | None) -> Callable[[], None]:
    """Reads these atoms of all frames into the same memory."""
    n_atoms = trajectory.n_atoms if atoms is None else len(atoms)
    rows = max(1, READ_BYTES // (12 * n_atoms))
    out = np.zeros((rows, n_atoms, 3), np.float32)

    def read() -> None:
        for first in range(0, len(trajectory), rows):
            n = min(rows, len(trajectory) - first)
            trajectory.read(slice(first, first + n), atoms, out=out[:n], workers=1)

    return read


def rmsd(trajectory: kn.Trajectory, copies: int = 1) -> Callable[[], object]:
    """Runs analyses in one pass."""
    jobs = [kn.analysis.RMSD(trajectory, SELECT) for _ in range(copies)]
    return functools.partial(kn.run, jobs, runner="threads", workers=1, progress=False)


def command(*words: str | Path) -> Callable[[], object]:
    """A command line of Kinema."""
    line = [sys.executable, "-m", "kinema", *map(str, words)]
    return functools.partial(subprocess.run, line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def shown(name: str, us: dict[str, float]) -> dict[str, float]:
    """Prints microseconds a frame and ratios."""
    cells = ", ".join(f"{key} {value:.2f}" if "/" in key else f"{key} {value:.1f}" for key, value in us.items())
    print(f"  {name}: {cells}", flush=True)
    return us


def rmsd_whole(path: Path, folder: Path, tries: int) -> dict[str, float]:
    """`kinema rmsd --pbc whole`"""
    plain = kn.open(path, datafiles.TPR)
    whole = plain.with_transform(transforms.whole())
    protein = plain.select("protein").indices
    words = ["rmsd", path, "-s", datafiles.TPR, "--select", SELECT, "--pbc", "whole", "-j", "1", "-o", folder / "r.csv"]
    calls = [reading(plain, protein), reading(whole, protein), rmsd(whole), rmsd(whole, 1 + COPIES)]
    calls += [command(*words), command(*words, "--stop", "2")]
    decode, read, wall, more, typed, start = (1e6 * s / len(plain) for s in time_alternately(tries, calls))
    kernel = (more - wall) / COPIES
    parts = decode + (read - decode) + kernel
    return shown(
        "rmsd, whole",
        {
            "decode": decode,
            "transform": read - decode,
            "kernel": kernel,
            "run": wall,
            "run/parts": wall / parts,
            "command": typed,
            "its start": start,
            "(command - start)/parts": (typed - start) / parts,
            "MDAnalysis": 1e6 * mdanalysis_rmsd(path),
        },
    )


def mdanalysis_rmsd(path: Path) -> float:
    """Seconds a frame."""
    universe = MDAnalysis.Universe(datafiles.TPR, path)
    universe.trajectory.add_transformations(transformations.unwrap(universe.select_atoms("protein")))

    def run(frames: int) -> None:
        rms.RMSD(universe, select=SELECT).run(stop=frames)

    return _seconds_a_frame(run)


def rmsd_nojump(path: Path, folder: Path, tries: int) -> dict[str, float]:
    """The same with nojump: first the jumps are counted, later they are known."""
    plain = kn.open(path, datafiles.TPR)
    protein = plain.select("protein").indices

    def first() -> None:
        # nothing is kept of these files: jumps are counted
        again = kn.open(path, datafiles.TPR, stored=False)
        again.scan()
        # the topology is read here
        again.select("protein")
        began = time.perf_counter()
        rmsd(again.with_transform(transforms.nojump("protein")))()
        firsts.append(time.perf_counter() - began)

    firsts: list[float] = []
    unwrapped = plain.with_transform(transforms.nojump("protein"))

    def second() -> None:
        rmsd(plain.with_transform(transforms.nojump("protein")))()

    calls = [reading(plain, protein), reading(unwrapped, protein), rmsd(unwrapped), rmsd(unwrapped, 1 + COPIES)]
    decode, read, wall, more, _, again = (
        1e6 * s / len(plain) for s in time_alternately(tries, [*calls, first, second])
    )
    kernel, transform, counted = (more - wall) / COPIES, read - decode, 1e6 * min(firsts) / len(plain)
    return shown(
        "rmsd, nojump of the protein",
        {
            "decode": decode,
            "transform": transform,
            "kernel": kernel,
            "first": counted,
            "first/(2 decode + 2 transform + kernel)": counted / (2 * decode + 2 * transform + kernel),
            "second": again,
            "second/parts": again / (decode + transform + kernel),
        },
    )


def converted(path: Path, folder: Path, tries: int) -> dict[str, float]:
    """`kinema convert --pbc mol --center --fit rot+trans`"""
    plain = kn.open(path, datafiles.TPR)
    stack = [
        transforms.whole(),
        transforms.center("protein"),
        transforms.wrap(compound="molecules"),
        transforms.superpose("protein"),
    ]
    moved = plain.with_transform(*stack)
    some = moved.read(slice(0, 10)) / np.float32(10)
    cell = np.diag(some[0].max(axis=0)).astype(np.float32).tolist()
    out = folder / "out.xtc"

    def encode() -> None:
        for number in range(len(plain)):
            _core._encode_xtc_frame(some[number % 10], cell, number, float(number), 1000.0)

    writing: list[float] = []

    def convert() -> None:
        made = kn.convert(moved, out, workers=1, verify=False)
        writing.append(made.timings["write"])

    words = ["convert", path, "-s", datafiles.TPR, "--pbc", "mol", "--center", "--fit", "rot+trans", "--no-verify"]
    words += ["--center-group", "protein", "--fit-group", "protein", "-j", "1", "-o", out]
    calls = [
        reading(plain, None),
        reading(moved, None),
        encode,
        convert,
        command(*words),
        command(*words, "--stop", "2"),
    ]
    seconds = time_alternately(tries, calls, lambda: out.unlink(missing_ok=True))
    decode, read, encoding, wall, typed, start = (1e6 * s / len(plain) for s in seconds)
    parts = read + encoding
    return shown(
        "convert, mol, center, fit",
        {
            "decode": decode,
            "transforms": read - decode,
            "encode": encoding,
            "beside these, write": 1e6 * min(writing) / len(plain),
            "run": wall,
            "run/parts": wall / parts,
            "command": typed,
            "its start": start,
            "(command - start)/parts": (typed - start) / parts,
            "MDAnalysis": 1e6 * mdanalysis_convert(path, folder),
        },
    )


def mdanalysis_convert(path: Path, folder: Path) -> float:
    """Seconds a frame; the protein alone is made whole, as water is."""
    universe = MDAnalysis.Universe(datafiles.TPR, path)
    protein, every = universe.select_atoms("protein"), universe.atoms
    universe.trajectory.add_transformations(
        transformations.unwrap(protein),
        transformations.center_in_box(protein),
        transformations.wrap(every, compound="residues"),
        transformations.fit_rot_trans(protein, protein),
    )

    def run(frames: int) -> None:
        with MDAnalysis.Writer(str(folder / "theirs.xtc"), every.n_atoms) as writer:
            for _ in universe.trajectory[:frames]:
                writer.write(every)

    return _seconds_a_frame(run)


def _seconds_a_frame(run: Callable[[int], None]) -> float:
    """Seconds a frame of a peer over its frames, after an untimed run over two."""
    run(2)
    return timed(lambda: run(PEER_FRAMES))["wall"] / PEER_FRAMES


def commands(folder: Path, n_frames: int, tries: int) -> dict[str, dict[str, float]]:
    """Prints and gives microseconds a frame of each command and its parts."""
    # what is kept of files (indices, jumps, topologies) is kept here
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    path = repeated(folder, n_frames)
    print(f"us a frame, wall, one worker, {n_frames} frames; start: the same command on two frames, spread over all")
    rows = {"rmsd whole": rmsd_whole, "rmsd nojump": rmsd_nojump, "convert": converted}
    return {name: row(path, folder, tries) for name, row in rows.items()}
