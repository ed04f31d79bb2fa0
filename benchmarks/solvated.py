"""A solvated protein, and CPU times of analyses of it: what benchmarks of pairs share."""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

import kinema as kn


def cpu_ms(call, n_frames: int, times: int = 3) -> float:
    """The least CPU time of a call, ms a frame."""
    found = []
    for _ in range(times):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return 1000 * min(found) / n_frames


def repeated(folder: Path, n_frames: int) -> tuple[str, str]:
    """The ten frames of the trajectory as DCD, several times, so that decoding is cheap."""
    from MDAnalysisTests import datafiles

    path = folder / "adk.dcd"
    ten = kn.open(datafiles.XTC, topology=datafiles.TPR)
    frames = [i % ten.n_frames for i in range(n_frames)]
    kn.convert(ten, path, frames=frames)
    return datafiles.TPR, str(path)


def ours(analysis, n_frames: int) -> tuple[float, float]:
    """CPU time of an analysis, and of reading its atoms alone."""
    run = cpu_ms(lambda: analysis.run(runner="serial"), n_frames)
    read = _reading(analysis)
    return run, cpu_ms(lambda: read.run(runner="serial"), n_frames)


def decoding(analysis, n_frames: int) -> float:
    """CPU time of reading and decoding the atoms of an analysis: a run of a small analysis, less what one more adds."""
    few, many = ([_reading(analysis) for _ in range(n)] for n in (1, 2))
    one, two = (cpu_ms(lambda some=some: kn.run(some, runner="serial"), n_frames, 7) for some in (few, many))
    return 2 * one - two


def wall_ms(call, n_frames: int, times: int = 3) -> float:
    """The least wall time of a call, ms a frame."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return 1000 * min(found) / n_frames


def print_scaling(analyses, n_frames: int) -> None:
    """Prints the wall time of one thread, of two threads, and of two runs of one thread side by side.

    Two threads are to be 1.9 times as fast as one, or to reach 0.95 of the frames a second of the two runs: these show
    what the machine gives.
    """
    print("\n| case | one thread, ms a frame | two threads | ratio | goal | of two runs side by side | goal |")
    print("|---|---|---|---|---|---|---|")
    for name, analysis in analyses.items():
        one = wall_ms(lambda run=analysis.run: run(runner="serial"), n_frames)
        two = wall_ms(lambda run=analysis.run: run(runner="threads", workers=2), n_frames)
        side_by_side = _side_by_side_ms(analysis, n_frames) / 2
        print(f"| {name} | {one:.2f} | {two:.2f} | {one / two:.2f} | 1.9 | {side_by_side / two:.2f} | 0.95 |")


def _side_by_side_ms(analysis, n_frames: int, times: int = 3) -> float:
    """The least wall time of two runs in two processes that start together, ms a frame of one run."""
    found = []
    for _ in range(times):
        ready, begun = os.pipe(), []
        for _ in range(2):
            child = os.fork()
            if not child:
                os.read(ready[0], 1)
                analysis.run(runner="serial")
                os._exit(0)
            begun.append(child)
        start = time.perf_counter()
        os.write(ready[1], b"12")
        for child in begun:
            if os.waitpid(child, 0)[1]:
                raise RuntimeError("a run side by side failed")
        found.append(time.perf_counter() - start)
        os.close(ready[0])
        os.close(ready[1])
    return 1000 * min(found) / n_frames


def print_end_to_end(make, names) -> None:
    """Prints the wall time of analyses of the XTC file beside its parts: decoding of their atoms, and the kernel.

    `make(trajectory, name)` makes an analysis. The time of its kernel is that of a run from DCD, less reading.
    """
    from MDAnalysisTests import datafiles

    topology, path = datafiles.TPR, datafiles.XTC
    ten = kn.open(path, topology=topology)
    with tempfile.TemporaryDirectory() as folder:
        _, plain = repeated(Path(folder), ten.n_frames)
        copy = kn.open(plain, topology=topology)
        print("\n| case, from XTC | wall, ms a frame | decoding | kernel | wall / parts | goal |")
        print("|---|---|---|---|---|---|")
        for name in names:
            from_xtc, from_dcd = make(ten, name), make(copy, name)
            wall, decoding = (
                wall_ms(lambda one=one: one.run(runner="serial"), ten.n_frames, 9)
                for one in (from_xtc, _reading(from_xtc))
            )
            with_reading, reading = (
                wall_ms(lambda one=one: one.run(runner="serial"), ten.n_frames, 9)
                for one in (from_dcd, _reading(from_dcd))
            )
            kernel = with_reading - reading
            share = wall / (decoding + kernel)
            print(f"| {name} | {wall:.2f} | {decoding:.2f} | {kernel:.2f} | {share:.2f} | 1.1 |")


def _reading(analysis):
    """An analysis that reads the same atoms and computes next to nothing."""
    atoms = np.unique(np.concatenate([one.indices for one in analysis.selections]))
    return kn.analysis.RadiusOfGyration(analysis.trajectory, atoms, weights=None)
