"""`ml bench --step`: each loop gives its rank's samples once an epoch, and the report says where the time went."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.base.errors import ArgumentError, WorkerError
from kinema.cli.in_process import call_kinema
from kinema.ml import SampleDataset
from kinema.studies.sample_loading.design import LoadingDesign
from kinema.studies.sample_loading.layouts import take_samples
from kinema.studies.training_stages import StagesDesign, ranks, run_stages, study
from kinema.studies.training_stages.design import STAGES, Stage
from kinema.studies.training_stages.rank_loop import LOOPS, checksum

N, BATCH, RANKS = 44, 5, 2


@pytest.fixture
def samples(tmp_path: Path) -> str:
    chance = np.random.default_rng(1)
    path = tmp_path / "samples.npz"
    np.savez(path, x=chance.normal(size=(N, 6)), y=chance.integers(0, 9, N))
    return str(path)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_each_loop_gives_every_sample_of_its_rank_once_an_epoch(stage: Stage, samples: str, tmp_path: Path) -> None:
    if stage.loop == "torch":
        pytest.importorskip("torch", reason="torch is not installed: make test-ml runs these tests")
    taken = take_samples(SampleDataset(samples), LoadingDesign((samples,), batch=BATCH))
    folder = tmp_path / "files"
    folder.mkdir()
    paths = study._write(taken, folder, {stage.files})
    settings: dict[str, Any] = {
        "files": stage.files, "loop": stage.loop, "path": str(paths[stage.files]), "fields": ["x", "y"], "samples": N,
        "batch": BATCH, "step": 0.0, "epochs": 2, "workers": 2, "ranks": RANKS, "seed": 3, "next_epoch": True,
        "node_cache": str(tmp_path / "cache") if stage.node_cache else None,
    }  # fmt: skip
    seen = []
    for rank in range(RANKS):
        for ids, values in LOOPS[stage.loop](settings, rank):
            assert len(ids) == BATCH
            for name, array in taken.arrays.items():
                np.testing.assert_array_equal(np.asarray(values[name]).reshape(array[ids].shape), array[ids])
            assert checksum(["x", "y"], values) == checksum(["x", "y"], {k: v[ids] for k, v in taken.arrays.items()})
            seen.append(np.asarray(ids))
    # whole batches of all ranks alone: 40 of 44 samples in each of two epochs
    steps = N // (BATCH * RANKS)
    assert len(seen) == 2 * steps * RANKS
    for epoch in range(2):
        first = [rank * 2 * steps + epoch * steps for rank in range(RANKS)]
        of_epoch = np.concatenate([one for start in first for one in seen[start : start + steps]])
        assert len(set(of_epoch.tolist())) == steps * BATCH * RANKS


def test_what_makes_no_experiment_is_refused(samples: str, tmp_path: Path) -> None:
    for wrong in ({"step": -1.0}, {"step": float("inf")}, {"epochs": 0}, {"ranks": 0}, {"page_cache": "copy"}):
        with pytest.raises(ArgumentError):
            StagesDesign((samples,), **wrong)
    with pytest.raises(ArgumentError, match="no samples are named"):
        StagesDesign(())
    with pytest.raises(ArgumentError, match="a batch of 16 samples for each of 3 ranks is needed, and 44 samples are"):
        run_stages(StagesDesign((samples,), batch=16, ranks=3), tmp_path / "out", print)
    assert not (tmp_path / "out").exists()
    for words, told in (
        (("--ranks", "2"), "--ranks is of the stages of --step, and there are none"),
        (("--step", "1", "--batches", "3"), "--batches is of the loops"),
    ):
        done = call_kinema("ml", "bench", samples, *words, "-o", tmp_path / "other")
        assert done.returncode == 2 and told in done.stderr


def test_a_rank_that_fails_or_does_not_end_is_an_error() -> None:
    stage = STAGES[0]
    fails = [sys.executable, "-c", "import sys; sys.exit('no room for this')"]
    hangs = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
    with pytest.raises(WorkerError, match="NPZ files, NumPy: rank 1 failed: no room for this"):
        ranks._trained(stage, [hangs, fails], 100.0, lambda: None)
    with pytest.raises(WorkerError, match=r"NPZ files, NumPy: not done after 0\.5 s"):
        ranks._trained(stage, [hangs], 0.5, lambda: None)


def test_traces_are_kept_and_not_mixed(tmp_path: Path) -> None:
    folders = study._make_trace_folders(STAGES[:2], tmp_path, overwrite=False)
    assert [path.name for path in folders.values()] == ["npz-files-numpy", "npz-files-kinema"]
    (tmp_path / "npz-files-kinema" / "a-1.pfw.gz").write_bytes(b"")
    with pytest.raises(ArgumentError, match="npz-files-kinema: holds a trace already; name another folder"):
        study._make_trace_folders(STAGES[:2], tmp_path, overwrite=False)
    study._make_trace_folders(STAGES[:2], tmp_path, overwrite=True)
    assert not list((tmp_path / "npz-files-kinema").iterdir())
    (tmp_path / "npz-files-kinema" / "mine.txt").write_bytes(b"")
    with pytest.raises(ArgumentError, match=r"holds mine\.txt, which is not a trace"):
        study._make_trace_folders(STAGES[:2], tmp_path, overwrite=True)


def test_the_command_writes_report_results_and_picture(samples: str, tmp_path: Path) -> None:
    scratch, out = tmp_path / "scratch", tmp_path / "out"
    scratch.mkdir()
    words = ("--step", "0.01", "--batch", BATCH, "--workers", 2, "--ranks", 1, "--epochs", 1)
    done = call_kinema("ml", "bench", samples, *words, "--scratch", scratch, "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    assert list(scratch.iterdir()) == []
    results = json.loads((out / "results.json").read_text())
    assert json.loads(done.stdout)["rows"] == results["rows"]
    rows = {row["name"]: row for row in results["rows"]}
    assert set(rows) >= {stage.name for stage in STAGES if stage.loop != "torch"}
    for row in rows.values():
        # eight steps
        assert row["total"] >= 8 * 0.01 and row["unoverlapped_compute"] <= row["total"]
        assert row["reads"] > 0 and 0 < row["mean_read"] <= row["largest_read"] and row["posix_io"] > 0
    # each sample's file is opened and read alone
    assert rows["NPZ files, NumPy"]["reads"] >= 40 and rows["NPZ files, Kinema"]["reads"] >= 40
    report = (out / "report.md").read_text()
    assert report.startswith("<!-- kinema") and "2701 s | 883 s (application-level 2610 s) | 2.2 GB/s" in report
    assert (out / "stages.png").read_bytes().startswith(b"\x89PNG")
