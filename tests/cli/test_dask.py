"""`--runner dask` and `--scheduler`: the values of threads, with a cluster of the run's own and one that is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes


@pytest.fixture
def scheduler() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster:
        yield cluster.scheduler_address


def test_a_cluster_of_its_own(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    atoms = ("-n", files.ndx, "--group", "C-alpha")
    for runner in ("threads", "dask"):
        done = run_kinema(
            "rmsf", "-f", files.dcd, *atoms, "--align", "average", "--runner", runner, "-j", "2", "-o",
            tmp_path / f"{runner}.npy", "--json",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert json.loads(done.stdout)["workers"] == 2
    assert (tmp_path / "dask.npy").read_bytes() == (tmp_path / "threads.npy").read_bytes()


def test_a_cluster_that_is_there(run_kinema: Any, files: Any, tmp_path: Path, scheduler: str) -> None:
    options = ("--scheduler", scheduler, "--schedule", "static", "--oversubscribe", "2", "--threads-per-worker", "1")
    done = run_kinema("rgyr", "-s", files.psf, "-f", files.dcd, *options, "--json", "-o", tmp_path / "dask.npy")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["workers"] == 2
    assert run_kinema("rgyr", "-s", files.psf, "-f", files.dcd, "-o", tmp_path / "threads.npy").returncode == 0
    assert (tmp_path / "dask.npy").read_bytes() == (tmp_path / "threads.npy").read_bytes()
    # a damaged frame: the same words as ever, and no traceback
    whole = bytearray(files.dcd.read_bytes())
    del whole[-100:]
    files.dcd.write_bytes(whole)
    done = run_kinema("rgyr", "-s", files.psf, "-f", files.dcd, "--on-truncated", "error", *options)
    assert done.returncode == 2
    assert str(files.dcd) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--runner", "threads", "--scheduler", "tcp://127.0.0.1:1"), "--scheduler is for the runner dask"),
        (("--scheduler", "nowhere.json"), "nowhere.json: neither the address of a Dask scheduler"),
        (("--runner", "dask", "--gather", "collective"), "--gather is for the runner mpi"),
        (("--runner", "dask", "--oversubscribe", "0"), "oversubscribe"),
        (("--runner", "dask", "-j", "0"), "'--workers': expected a whole number from 1"),
    ],
)
def test_bad_input(run_kinema: Any, files: Any, options: tuple[str, ...], words: str) -> None:
    done = run_kinema("rgyr", "-s", files.psf, "-f", files.dcd, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""
