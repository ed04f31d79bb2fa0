"""Exports have the same bytes for any workers and memory, and appear whole or not at all."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import h5py
import pytest

import kinema.ml
from kinema.base import errors
from kinema.base.notes import collected
from kinema.testing.programs.children import start_child

sys.path.insert(0, str(Path(__file__).parent))
from export_cases import energies, trajectory

FORMATS = [("extxyz", "out.extxyz"), ("deepmd", "out"), ("npy", "out"), ("npz", "out"), ("samples-h5", "out")]


def contents(output: Path) -> dict[str, str]:
    files = [output] if output.is_file() else sorted(path for path in output.rglob("*") if path.is_file())
    return {str(path.relative_to(output)): sha256(path.read_bytes()).hexdigest() for path in files}


def export(source: Any, output: Path, kind: str, **options: Any) -> None:
    with collected():
        kinema.ml.export(source, output, format=kind, **options)


@pytest.mark.parametrize(("kind", "name"), FORMATS)
def test_same_bytes_for_any_workers_and_memory(tmp_path: Path, kind: str, name: str) -> None:
    if kind == "samples-h5" and h5py.version.hdf5_version_tuple < (2,):
        pytest.skip("libhdf5 1.14 stores the time with each group")
    traj = trajectory(tmp_path / "a.h5md", n=40)
    labels = energies(40)
    shards = {} if "." in name else {"shard_size": 2000}
    (tmp_path / "1").mkdir()
    export(traj, tmp_path / "1" / name, kind, labels=labels, workers=1, **shards)
    expected = contents(tmp_path / "1" / name)
    for number, options in enumerate([{"workers": 2}, {"workers": 3, "memory": 20_000}, {"runner": "serial"}]):
        folder = tmp_path / f"other{number}"
        folder.mkdir()
        export(traj, folder / name, kind, labels=labels, **shards, **options)
        assert contents(folder / name) == expected, options


@pytest.mark.processes
def test_same_bytes_by_processes(tmp_path: Path) -> None:
    traj = trajectory(tmp_path / "a.h5md", n=40)
    labels = energies(40)
    # libhdf5 1.14 stores the time with each group
    for kind in ("extxyz", "samples-h5") if h5py.version.hdf5_version_tuple >= (2,) else ("extxyz",):
        export(traj, tmp_path / f"{kind}.1", kind, labels=labels, shard_size=4000)
        export(traj, tmp_path / f"{kind}.2", kind, labels=labels, shard_size=4000, runner="processes", workers=3)
        found, expected = contents(tmp_path / f"{kind}.2"), contents(tmp_path / f"{kind}.1")
        assert found == expected and len(found) > 3


def test_folders_are_replaced_only_if_they_are_exports(tmp_path: Path) -> None:
    traj = trajectory(tmp_path / "a.h5md")
    export(traj, tmp_path / "out", "npy")
    with pytest.raises(errors.ArgumentError, match="exists already; overwrite=True"):
        export(traj, tmp_path / "out", "npz")
    export(traj, tmp_path / "out", "npz", overwrite=True)
    assert sorted(os.listdir(tmp_path / "out")) == ["export.json", "samples-00000.npz"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("mine")
    with pytest.raises(errors.ArgumentError, match="was not made by an export"):
        export(traj, tmp_path / "mine", "npz", overwrite=True)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "mine"
    assert [name for name in os.listdir(tmp_path) if ".part-" in name] == []
    mode = os.stat(tmp_path / "out").st_mode & 0o777
    (tmp_path / "plain").mkdir()
    assert mode == os.stat(tmp_path / "plain").st_mode & 0o777


@pytest.mark.parametrize(("kind", "name"), FORMATS)
def test_a_full_disk_leaves_nothing(tmp_path: Path, kind: str, name: str) -> None:
    traj = trajectory(tmp_path / "a.h5md", n=400)
    before = sorted(os.listdir(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        with pytest.raises((errors.FileIOError, errors.FileAccessError), match=r"(?i)file too large|write"):
            export(traj, tmp_path / name, kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert sorted(os.listdir(tmp_path)) == before


PROGRAM = """
import sys, kinema.ml
for i in range(100000):
    kinema.ml.export(sys.argv[1], f"{sys.argv[2]}/out{i}", format="npz", fields=["positions"], shard_size=20000)
    print(i, flush=True)
"""


@pytest.mark.processes
def test_kills_leave_nothing_under_a_final_name(tmp_path: Path, kills: Callable[..., int]) -> None:
    trajectory(tmp_path / "a.h5md", n=400)
    expected: dict[str, str] = {}
    for round_ in range(kills()):
        folder = tmp_path / f"round{round_}"
        folder.mkdir()
        process = start_child([sys.executable, "-c", PROGRAM, str(tmp_path / "a.h5md"), str(folder)])
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        time.sleep(random.uniform(0, 0.2))
        process.kill()
        process.wait()
        whole = [path for path in folder.iterdir() if ".part-" not in path.name]
        assert whole
        for path in whole:
            expected = expected or contents(path)
            assert contents(path) == expected
        # what is left is removed by the next run of that name
        for path in folder.iterdir():
            name = path.name.partition(".part-")[0]
            if name != path.name and not (folder / name).exists():
                export(str(tmp_path / "a.h5md"), folder / name, "npz", fields=["positions"], shard_size=20000)
                assert not path.exists() and contents(folder / name) == expected
