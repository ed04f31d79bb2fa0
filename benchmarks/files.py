"""The benchmark's trajectories: the demo's protein, and a system of 111,815 atoms laid out of a real water box; the
same frames, fewer where files are large, in other formats.

It measures nothing. Files are kept in the folder and used again.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from MDAnalysis.lib.formats.libdcd import DCDFile
from MDAnalysis.lib.formats.libmdaxdr import XTCFile
from MDAnalysisTests.datafiles import XTC
from numpy.typing import NDArray

import kinema as kn
from cases import LARGE_ATOMS, Files
from kinema.demo import make_case
from kinema.demo.repeat import repeat_dcd, repeat_xtc, repeated_size
from kinema.model.selection.gromacs_index import read_group

# made from the DCD file: frames at most, options
_CONVERTED: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {
    ("small", "trr"): (29_400, {}),
    ("small", "nc"): (29_400, {}),
    # MDAnalysis reads no other dialect
    ("small", "h5md"): (29_400, {"dialect": "mdanalysis"}),
    # text is 12 times as large; names of the atoms are not known
    ("small", "history"): (980, {"format": "history"}),
}


def make_files(folder: Path, small_frames: int, large_frames: int) -> Files:
    """Makes what is not there: `small_frames` of 3341 atoms and `large_frames` of 111,815, each as XTC and DCD, and as
    what `_CONVERTED` names."""
    folder.mkdir(parents=True, exist_ok=True)
    case = make_case(folder / f"small_{small_frames}", small_frames, overwrite=True)
    _, c_alpha = read_group(case.index_file, case.group)
    paths = {("small", "xtc"): case.xtc, ("small", "dcd"): case.dcd}
    frames = {("small", kind): case.n_frames for kind in ("xtc", "dcd")}
    for kind, write, repeat in (("xtc", _write_xtc, repeat_xtc), ("dcd", _write_dcd, repeat_dcd)):
        short = folder / f"large_short.{kind}"
        if not short.exists():
            write(short, *_large_system())
        _, in_short = repeated_size(short, 1)
        repeats = max(1, large_frames // in_short)
        frames["large", kind] = repeats * in_short
        target = folder / f"large_{repeats * in_short}.{kind}"
        if not target.exists():
            repeat(short, target, repeats)
        paths["large", kind] = target
    for (system, kind), (most, options) in _CONVERTED.items():
        source = paths[system, "dcd"]
        count = frames[system, kind] = min(most, frames[system, "dcd"])
        paths[system, kind] = target = source.with_name(f"{source.stem}_{count}.{kind}")
        if not target.exists():
            with warnings.catch_warnings():  # of times and steps that are rounded, known
                warnings.simplefilter("ignore", kn.Note)
                kn.convert(source, target, stop=count, verify=False, **options)
    return Files(paths, frames, Path(XTC), c_alpha)


def _large_system() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(frames, 111815, 3) positions in nm and (frames, 3, 3) cells: copies of a protein in water, side by side."""
    with XTCFile(XTC) as file:
        frames = [file.read() for _ in range(len(file))]
    positions = np.stack([frame.x for frame in frames])
    cells = np.stack([frame.box for frame in frames])
    copies = -(-LARGE_ATOMS // positions.shape[1])
    shifted = [positions + i * cells[:, None, 0] for i in range(copies)]
    cells = cells.copy()
    cells[:, 0] *= copies
    return np.concatenate(shifted, axis=1)[:, :LARGE_ATOMS].astype(np.float32), cells.astype(np.float32)


def _write_xtc(path: Path, positions: NDArray[np.float32], cells: NDArray[np.float32]) -> None:
    with XTCFile(str(path), "w") as file:
        for i, (frame, cell) in enumerate(zip(positions, cells, strict=True)):
            file.write(frame, cell, i, float(i), 1000)


def _write_dcd(path: Path, positions: NDArray[np.float32], cells: NDArray[np.float32]) -> None:
    with DCDFile(str(path), "w") as file:
        file.write_header("laid out of a real water box", positions.shape[1], 0, 1, 1.0, 1)
        for frame, cell in zip(positions, cells, strict=True):
            lengths = 10 * np.linalg.norm(cell, axis=1)
            # CHARMM's order: a, gamma, b, beta, alpha, c; angstrom and degrees
            box = np.array([lengths[0], 90, lengths[1], 90, 90, lengths[2]], dtype=np.float64)
            file.write(10 * frame, box)
