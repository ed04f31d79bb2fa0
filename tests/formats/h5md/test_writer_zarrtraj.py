"""Files that `kinema.Writer` makes, as zarrtraj reads them.

In processes of their own: importing it makes it MDAnalysis' reader of H5MD in place of MDAnalysis' own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk

READ = """
import sys, warnings
warnings.simplefilter("ignore")
import hdf5plugin, MDAnalysis, numpy as np, zarrtraj
universe = MDAnalysis.Universe.empty(6, trajectory=False)
universe.load_new(sys.argv[1], format=zarrtraj.ZARRH5MDReader)
frames = [(ts.positions.copy(), ts.velocities.copy(), ts.triclinic_dimensions, ts.time) for ts in universe.trajectory]
positions, velocities, cells, times = map(np.array, zip(*frames))
np.savez(sys.argv[2], positions=positions, velocities=velocities, cells=cells, times=times)
"""


def read(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", READ, str(path), str(path.with_suffix(".npz"))]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def write(path: Path, **options: Any) -> dict[str, np.ndarray[Any, Any]]:
    cells = np.tile(np.diag([30.0, 31.0, 32.0]).astype(np.float32), (9, 1, 1))
    cells[:, 1, 0] = np.arange(9)
    content = {"positions": random_walk(9, 6), "velocities": random_walk(9, 6, seed=1), "times": 0.5 * np.arange(9)}
    with kn.Writer(path, 6, **options) as out:
        out.write(
            content["positions"],
            velocities=content["velocities"],
            cell=cells,
            step=np.arange(9) * 10,
            time=content["times"],
        )
    return {**content, "cells": cells}


OPTIONS = {"none": {}, "gzip": {"compression": "gzip"}, "contiguous": {"layout": "contiguous", "n_frames": 9}}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_zarrtraj_reads_the_dialect_of_mdanalysis(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "out.h5md"
    content = write(path, dialect="mdanalysis", **options)
    done = read(path)
    assert done.returncode == 0, done.stderr
    with np.load(path.with_suffix(".npz")) as found:
        for name in ("positions", "velocities", "times"):
            np.testing.assert_allclose(found[name], content[name], rtol=1e-6)
        np.testing.assert_allclose(found["cells"], content["cells"], rtol=1e-5, atol=1e-5)


def test_what_zarrtraj_cannot_read_of_the_specification(tmp_path: Path) -> None:
    # steps and times in fixed storage with different increments; told in docs/write-h5md.md
    path = tmp_path / "out.h5md"
    write(path)
    done = read(path)
    assert done.returncode != 0
    assert "Error" in done.stderr.splitlines()[-1]
