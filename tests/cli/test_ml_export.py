"""`kinema ml export` and `kinema ml statistics`: real forces, refusals, truncated files, Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
import kinema.ml
from kinema.base.notes import collected
from kinema.testing.programs.children import start_child
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")

RunKinema = Callable[..., "subprocess.CompletedProcess[str]"]


def test_export_of_real_forces(tmp_path: Path, run_kinema: RunKinema) -> None:
    source = Path(shutil.copy(datafiles.TRR_sub_sol, tmp_path / "a.trr"))
    words = ["ml", "export", "-f", "a.trr", "--output-format", "npz", "-o", "a.npz", "--step", "2", "--json"]
    done = run_kinema(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["n_samples"], facts["format"]) == (2, "npz")
    theirs = MDAnalysis.Universe(str(source), format="TRR", topology_format="MINIMAL")
    with np.load(tmp_path / "a.npz") as arrays:
        for row, frame in zip(arrays["positions"], theirs.trajectory[::2], strict=True):
            np.testing.assert_allclose(row, frame.positions, rtol=1e-6)
    again = run_kinema(*words, cwd=tmp_path)
    assert again.returncode == 2 and again.stderr == "kinema: a.npz: exists already; --force replaces it\n"
    with open(source, "r+b") as file:
        file.truncate(source.stat().st_size - 1000)
    cut = run_kinema("ml", "export", "a.trr", "--output-format", "npy", "-o", "out", cwd=tmp_path)
    assert cut.returncode == 0 and "TRR frame 2" in cut.stderr and "left out" in cut.stderr
    assert len(np.load(tmp_path / "out/positions-00000.npy")) == 2


def test_labels_splits_and_statistics(tmp_path: Path, run_kinema: RunKinema) -> None:
    with collected(), kn.Writer(tmp_path / "a.trr", 3) as out:
        for i in range(20):
            out.write(positions=np.full((3, 3), i), forces=np.full((3, 3), i - 9.5), step=i, time=float(i))
    lines = ["step,energy", *(f"{i},{-i}" for i in range(20))]
    (tmp_path / "e.csv").write_text("\n".join(lines))
    split = kinema.ml.split_by_time(kinema.ml.FrameDataset(tmp_path / "a.trr"), {"train": 0.5, "test": 0.5}, blocks=2)
    split.save(tmp_path / "split.json")
    words = ["-f", "a.trr", "--labels", "e.csv", "--split", "split.json"]
    done = run_kinema(
        "ml", "export", *words, "--part", "test", "--output-format", "samples-h5", "-o", "test.h5", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    data = kinema.ml.SampleDataset(tmp_path / "test.h5")
    assert data.read(np.arange(10))["energy"].tolist() == (-split["test"]).tolist()
    done = run_kinema("ml", "statistics", *words, "--fields", "forces,energy", "-o", "s.json", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["n_samples"], facts["part"], facts["energy"]) == (10, "train", "energy")
    found = kinema.ml.Statistics.load(tmp_path / "s.json")
    assert found.species["forces"]["any"].mean.tolist() == [float(np.mean(split["train"])) - 9.5] * 3
    wrong = run_kinema("ml", "statistics", "test.h5", "-o", "t.json", "--part", "train", cwd=tmp_path)
    assert wrong.returncode == 2 and "--part is of a split" in wrong.stderr
    wrong = run_kinema("ml", "export", "test.h5", "--output-format", "npy", "-o", "t", cwd=tmp_path)
    assert wrong.returncode == 2 and "test.h5: an archive of samples" in wrong.stderr


@pytest.mark.processes
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_export_leaves_nothing(tmp_path: Path, environment: dict[str, str], stop: signal.Signals) -> None:
    with collected(), kn.Writer(tmp_path / "a.dcd", 10_000) as out:
        for i in range(400):
            out.write(positions=np.full((10_000, 3), i, np.float32), step=i, time=float(i))
    words = ["ml", "export", "a.dcd", "--output-format", "npz", "--compress", "-o", "out", "--shard-size", "4 MiB"]
    process = start_child([sys.executable, "-m", "kinema", *words], cwd=tmp_path, env=environment)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("out.part-*/samples-00001*")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(stop)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + stop, errors
    assert sorted(name for name in os.listdir(tmp_path) if not name.startswith(".")) == ["a.dcd"]
