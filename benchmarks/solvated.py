"""A solvated protein, and CPU times of analyses of it: what benchmarks of pairs share."""

import time
from pathlib import Path

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
    read = kn.analysis.RadiusOfGyration(analysis.trajectory, analysis.selection.indices, weights=None)
    return run, cpu_ms(lambda: read.run(runner="serial"), n_frames)
