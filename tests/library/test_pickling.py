"""Trajectories that are pickled: the same frames, atoms and topology in another process; files that have changed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd, write_xtc


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """One process that shares nothing with this one."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as made:
        yield made


def remote(pool: ProcessPoolExecutor, function: Any, trajectory: kn.Trajectory) -> Any:
    return pool.submit(function, trajectory).result(timeout=120)


@pytest.mark.parametrize("stored", [False, True])
def test_another_process_has_the_same_frames(pool: ProcessPoolExecutor, tmp_path: Path, stored: bool) -> None:
    for number in range(3):
        write_xtc(tmp_path / f"{number}.xtc", random_walk(10, 12), first_step=8 * number)
    trajectory = kn.open([tmp_path / f"{number}.xtc" for number in range(3)], stored=stored)
    for view in (trajectory, trajectory[3:20:4], trajectory[[5, 2, 2, 25]], trajectory[::2][1:4], trajectory[:0]):
        np.testing.assert_array_equal(remote(pool, methodcaller("read"), view), view.read())
        np.testing.assert_array_equal(remote(pool, attrgetter("times"), view), view.times)
        np.testing.assert_array_equal(remote(pool, attrgetter("frame_numbers"), view), view.frame_numbers)
    assert remote(pool, attrgetter("notes"), trajectory) == trajectory.notes != ()
    # it comes back, and can be sent once more
    again = pickle.loads(pickle.dumps(remote(pool, methodcaller("__getitem__", slice(4)), trajectory)))
    np.testing.assert_array_equal(again.read(), trajectory[:4].read())


@pytest.mark.parametrize("given", ["path", "universe", "changed universe"])
def test_the_topology_goes_along(pool: ProcessPoolExecutor, adk_dcd: Any, given: str) -> None:
    import MDAnalysis

    topology: Any = adk_dcd.topology
    if given != "path":
        topology = MDAnalysis.Universe(adk_dcd.topology)
    if given == "changed universe":
        topology.atoms[7].name = "CA"
    trajectory = kn.open(adk_dcd.trajectory, topology, stored=False)[::30]
    found = remote(pool, methodcaller("select", "name CA"), trajectory)
    expected = trajectory.select("name CA")
    assert len(expected) == (215 if given == "changed universe" else 214)
    np.testing.assert_array_equal(found.indices, expected.indices)
    values = remote(pool, methodcaller("read", select="name CA"), trajectory)
    np.testing.assert_array_equal(values, trajectory.read(select="name CA"))


def test_hdf5_files(pool: ProcessPoolExecutor, tmp_path: Path) -> None:
    from MDAnalysisTests.datafiles import H5MD_energy

    path = shutil.copy(H5MD_energy, tmp_path)
    view = kn.open(path)[1:]
    np.testing.assert_array_equal(remote(pool, methodcaller("read"), view), view.read())
    assert set(pickle.loads(pickle.dumps(view)).observables) == set(view.observables)


def test_relative_paths(pool: ProcessPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(4, trajectory=True)
    universe.add_TopologyAttr("elements", ["H", "C", "O", "N"])
    write_dcd(tmp_path / "a.dcd", random_walk(5, 4))
    with kn.Writer(tmp_path / "a.h5md", 4, topology=universe) as out:
        for frame in kn.open(tmp_path / "a.dcd", stored=False):
            out.write(frame)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    stored = [pickle.dumps(kn.open(name, stored=False)) for name in ("a.dcd", "a.h5md")]
    monkeypatch.chdir(tmp_path / "other")
    of_dcd, of_h5md = (pickle.loads(one) for one in stored)
    np.testing.assert_allclose(of_dcd.read(), of_h5md.read(), atol=1e-5)
    assert of_h5md.select("element O").indices.tolist() == [2]


# -- files that have changed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["rewritten", "shorter", "gone"])
def test_unpickling_opens_no_file_and_reading_checks_it(pool: ProcessPoolExecutor, tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.xtc"
    write_xtc(path, random_walk(10, 12))
    stored = pickle.dumps(kn.open(path, stored=False))
    kind: type[Exception] = kn.CorruptFileError
    if what == "rewritten":
        write_xtc(path, random_walk(10, 12, seed=5))
    elif what == "shorter":
        path.write_bytes(path.read_bytes()[:-200])
        kind = kn.TruncatedFileError
    else:
        path.unlink()
        kind = kn.FileNotFound
    trajectory = pickle.loads(stored)
    assert trajectory.n_frames == 10
    with pytest.raises(kind, match=r"a\.xtc"):
        trajectory.read()
    # in another process, too: an error while unpickling would break the pool
    with pytest.raises(kind, match=r"a\.xtc"):
        remote(pool, methodcaller("read"), trajectory)


def test_a_topology_file_that_has_changed(tmp_path: Path, adk_dcd: Any) -> None:
    topology = shutil.copy(adk_dcd.topology, tmp_path)
    stored = pickle.dumps(kn.open(adk_dcd.trajectory, topology, stored=False))
    text = Path(topology).read_text()
    Path(topology).write_text(text.replace("MET", "ALA"))
    trajectory = pickle.loads(stored)
    with pytest.raises(kn.CorruptFileError, match="topology file has changed since the trajectory was pickled"):
        trajectory.select("name CA")
    os.unlink(topology)
    with pytest.raises(kn.FileNotFound, match="no such topology file"):
        trajectory.select("name CA")
