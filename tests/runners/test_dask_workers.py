"""The runner on Dask and what its workers have: another version or none of Kinema, other files; or there are none."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.runners.dask.runner import Dask
from kinema.testing import random_walk, write_dcd
from kinema.testing.runner_work import slow_corner

pytestmark = pytest.mark.processes


def setup_module() -> None:
    """Workers cannot import this module: its functions go with their code."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def slow(tmp_path: Path) -> Analysis:
    """Takes a second on one worker, for runs that are ended from elsewhere or never begin."""
    write_dcd(tmp_path / "a.dcd", random_walk(600, 20))
    return kn.analysis.from_function(slow_corner, kn.open(tmp_path / "a.dcd"))


def test_no_scheduler(slow: Analysis, tmp_path: Path) -> None:
    import dask

    # a refused port is not tried again
    with dask.config.set({"distributed.comm.timeouts.connect": "1000s"}):
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(
                kn.WorkerError, match=rf"cannot connect to the Dask scheduler tcp://{host}:9: .*refused"
            ):
                slow.run(runner=Dask(f"tcp://{host}:9"))
    with pytest.raises(kn.ArgumentError, match="neither the address of a Dask scheduler"):
        slow.run(runner=Dask(str(tmp_path / "nowhere.json")))


def test_no_workers(cluster: Any, slow: Analysis) -> None:
    cluster.start(0)
    with pytest.raises(kn.WorkerError, match="has no workers after 1 s"):
        slow.run(runner=Dask(str(cluster.file), patience=1.0))


def test_files_that_a_worker_does_not_see(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(20, 20))
    monkeypatch.chdir(tmp_path)
    cluster.start(1)
    # the folder of each process is another, as another machine's disk would be
    path = "/proc/self/cwd/a.dcd"
    with pytest.raises(kn.FileNotFound, match=r"the Dask worker tcp://\S+ on \S+ must see the files") as caught:
        kn.analysis.RMSD(kn.open(path)).run(runner=Dask(str(cluster.file)))
    assert caught.value.path == path


def test_another_file_that_a_worker_sees(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(20, 20))
    monkeypatch.chdir(tmp_path)
    cluster.start(1)
    path = "/proc/self/cwd/a.dcd"
    for there, kind in (
        (random_walk(20, 20, seed=5), kn.CorruptFileError),
        (random_walk(19, 20), kn.TruncatedFileError),
        (None, kn.TruncatedFileError),
    ):
        if there is None:
            (cluster.folder / "a.dcd").write_bytes(b"")
        else:
            write_dcd(cluster.folder / "a.dcd", there)
        with pytest.raises(kind, match="has changed since it was opened, or is another file on this machine") as caught:
            kn.analysis.RMSD(kn.open(path)).run(runner=Dask(str(cluster.file)))
        assert caught.value.path == path
        assert "on worker tcp://" in caught.value.__notes__[0]


def test_paths_are_those_of_the_folder_of_the_client(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from MDAnalysisTests.datafiles import H5MD_energy

    write_dcd(tmp_path / "a.dcd", random_walk(20, 20))
    (tmp_path / "a.h5md").symlink_to(H5MD_energy)
    monkeypatch.chdir(tmp_path)
    cluster.start(1)
    # workers have another folder, and in it another file of that name
    write_dcd(cluster.folder / "a.dcd", random_walk(20, 20, seed=5))
    for name in ("a.dcd", "a.h5md"):
        analysis = kn.analysis.RMSD(kn.open(name))
        expected = analysis.run(runner="serial").results.values
        analysis.run(runner=Dask(str(cluster.file)))
        assert analysis.results.values.tobytes() == expected.tobytes()


def test_a_worker_of_another_version_that_joins(cluster: Any, tmp_path: Path) -> None:
    # minutes of frames: the other one starts in far less, and its error ends them
    write_dcd(tmp_path / "a.dcd", random_walk(2000, 20))
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import kinema\nkinema._core.__version__ = '0.0.1'\n")
    path = os.pathsep.join([str(folder), str(Path(kn.__file__).parent.parent)])

    def waits(frame: kn.Frame) -> float:
        # for the other, which takes its first task as soon as it is there
        time.sleep(0.1)
        return 1.0

    cluster.start(1)
    joined: list[int] = []

    def join(done: int, total: int) -> None:
        if done > 0 and not joined:
            joined.append(done)
            assert done < total
            cluster.add(PYTHONPATH=path)

    with pytest.raises(kn.ArgumentError, match=r"Dask worker tcp://\S+ on \S+ has another version .*, found 0\.0\.1"):
        kn.analysis.from_function(waits, kn.open(tmp_path / "a.dcd")).run(runner=Dask(str(cluster.file)), progress=join)
    assert joined


def test_workers_without_kinema(cluster: Any, slow: Analysis, tmp_path: Path) -> None:
    (tmp_path / "kinema").mkdir()
    (tmp_path / "kinema" / "__init__.py").write_text("raise ImportError('not for this machine')\n")
    cluster.start(0)
    cluster.add(PYTHONPATH=str(tmp_path))
    with pytest.raises(kn.ArgumentError, match=r"worker tcp://\S+ cannot import Kinema: ImportError: not for this"):
        slow.run(runner=Dask(str(cluster.file)))


def test_a_scheduler_without_kinema(cluster: Any, slow: Analysis, tmp_path: Path) -> None:
    (tmp_path / "kinema").mkdir()
    (tmp_path / "kinema" / "__init__.py").write_text("raise ImportError('not for this machine')\n")
    cluster.start(0, PYTHONPATH=str(tmp_path))
    cluster.add()
    with pytest.raises(kn.ArgumentError, match=r"scheduler tcp://\S+ cannot import Kinema: ImportError: not for this"):
        slow.run(runner=Dask(str(cluster.file)))


def test_a_worker_that_cannot_start(slow: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(kn.WorkerError, match="ended before it was ready, exit code 1"):
        slow.run(runner="dask", workers=2)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(kn.FileNotFound, match="cannot start a Dask worker"):
        slow.run(runner="dask", workers=2)
