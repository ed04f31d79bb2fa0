"""`kn.convert(runner=, strategy=)`: the same bytes on every runner; damage and kills. MPI is tested beside it."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import LONG, each
from kinema.testing.programs.children import worker_processes
from kinema.testing.programs.dask_cluster import DaskCluster
from kinema.testing.programs.forks import Forks

sys.path.insert(0, str(Path(__file__).parent))
from runner_cases import STRATEGIES, converted, digest, expected, make_sources

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A folder of sources, and conversions with the digests of what threads make."""
    folder = tmp_path_factory.mktemp("runners")
    return folder, expected(folder, make_sources(folder))


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory, dask_forks: Forks) -> Iterator[Any]:
    """Three workers of Dask, which stay for the tests that kill none."""
    distributed = pytest.importorskip("distributed")
    made = DaskCluster(tmp_path_factory.mktemp("dask"), dask_forks)
    try:
        made.start(3)
        with distributed.Client(scheduler_file=str(made.file), set_as_default=False) as client:
            yield kn.runners.Dask(client)
    finally:
        made.end()


@contextlib.contextmanager
def _runner(name: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A runner whose workers last for many calls."""
    if name == "dask":
        yield request.getfixturevalue("dask")
        return
    runner = kn.runners.choose_runner(name)
    with runner.session():
        yield runner


@pytest.mark.parametrize("name", ["serial", "processes", "dask"])
def test_same_bytes_on_every_runner(files: tuple[Path, list[Any]], request: pytest.FixtureRequest, name: str) -> None:
    folder, known = files
    counts = {"serial": [1], "processes": [1, 2, 3, 5], "dask": [None]}[name]
    with _runner(name, request) as runner:
        # Dask's workers do what processes do: every fifth, among which is each source, target and strategy
        turn = slice(None, None, 5 if name == "dask" and not LONG else 1)
        for number, (source, target, more, bytes_of_threads) in list(enumerate(known))[turn]:
            # one after the other; all if the run is long
            for strategy in STRATEGIES if LONG else STRATEGIES[number % 3 :][:1]:
                workers = counts[number % len(counts)]
                done = converted(folder, source, target, runner=runner, workers=workers, strategy=strategy, **more)
                assert digest(folder / target) == bytes_of_threads, (source, target, strategy, workers)
                assert done.compared
                index = folder / f".{target}.kinema-index"
                assert index.exists() == (target in ("o.xtc", "o.trr"))
    left = {path.name for path in folder.iterdir() if ".part-" in path.name}
    assert not left


def test_the_index_that_is_stored_is_that_of_threads(files: tuple[Path, list[Any]]) -> None:
    folder, _ = files
    stored = []
    for runner, strategy in (("threads", "auto"), ("processes", "auto"), ("serial", "serial")):
        converted(folder, "long.xtc", "o.xtc", runner=runner, strategy=strategy)
        traj = kn.open(folder / "o.xtc")
        stored.append((traj.n_frames, traj.steps.tobytes(), traj.times.tobytes()))
        offsets, lengths = traj.core.extents(0)
        stored[-1] += (offsets.tobytes(), lengths.tobytes())
    assert stored[1:] == stored[:1] * 2


def test_other_formats_are_made_by_the_process_that_leads(files: tuple[Path, list[Any]]) -> None:
    folder, _ = files
    made = []
    for runner in ("threads", "processes"):
        converted(folder, "in.xtc", "o.h5md", runner=runner, workers=2)
        made.append(digest(folder / "o.h5md"))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "mpiio"}, "is for the ranks of runner='mpi'"),
        ({"strategy": "serial", "runner": "threads"}, "threads share one open file"),
        ({"strategy": "subfiles"}, "the table is: .*DCD.*direct"),
        ({"strategy": "sideways"}, "the table is"),
        ({"hints": {"cb_nods": 1}}, "no hint 'cb_nods'"),
        ({"workers": 2, "runner": "serial"}, "the serial runner has one worker"),
        ({"runner": "nobody"}, "runner must be one of"),
    ],
)
def test_what_does_not_exist_is_refused(files: tuple[Path, list[Any]], options: dict[str, Any], message: str) -> None:
    folder, _ = files
    with pytest.raises(kn.ArgumentError, match=message):
        kn.convert(folder / "in.xtc", folder / "none.dcd", **({"runner": "processes"} | options))
    assert not list(folder.glob("none*"))


@pytest.mark.parametrize("runner", ["serial", "processes"])
def test_memory_is_kept_to_and_too_little_is_refused_before_the_first_byte(tmp_path: Path, runner: str) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(30, 5000))
    converted(tmp_path, "in.dcd", "threads.xtc")
    for target in ("a.xtc", "a.trr"):
        with pytest.raises(kn.MemoryLimitError) as caught:
            kn.convert(tmp_path / "in.dcd", tmp_path / target, runner=runner, memory=1 << 20)
        found = re.search(r"expected at least (\d+) bytes", str(caught.value))
        assert found is not None
        least = int(found[1])
        with collected():
            done = kn.convert(tmp_path / "in.dcd", tmp_path / target, runner=runner, memory=least)
        assert done.workers == 1
        with pytest.raises(kn.MemoryLimitError):
            kn.convert(tmp_path / "in.dcd", tmp_path / f"b.{target}", runner=runner, memory=least - 1)
    assert digest(tmp_path / "a.xtc") == digest(tmp_path / "threads.xtc")
    assert {path.name for path in tmp_path.glob("*.part*")} == set()


@pytest.mark.parametrize(("runner", "target"), each(["serial", "processes", "dask"], ["o.xtc", "o.dcd"]))
def test_a_damaged_frame_ends_all_and_leaves_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, runner: str, target: str
) -> None:
    converted_source = tmp_path / "in.xtc"
    write_dcd(tmp_path / "in.dcd", random_walk(200, 60))
    converted(tmp_path, "in.dcd", "in.xtc")
    offsets, lengths = kn.open(converted_source, stored=False).core.extents(0)
    data = bytearray(converted_source.read_bytes())
    # the number of bits of its first run of atoms
    data[int(offsets[150]) + 84 : int(offsets[150]) + 88] = b"\xff\xff\xff\xff"
    converted_source.write_bytes(data)
    assert lengths[150] > 100
    workers = None if runner == "serial" else 2
    # rounded again, so that frames are decoded
    more: Any = {"precision": 10} if "xtc" in target else {}
    with _runner(runner, request) as on, pytest.raises(kn.CorruptFileError, match="frame 150") as caught:
        kn.convert(converted_source, tmp_path / target, runner=on, workers=workers, **more)
    assert runner == "serial" or "on worker" in "".join(caught.value.__notes__)
    assert not list(tmp_path.glob(f"{target[0]}*{target[1:]}"))


def test_a_dask_worker_that_does_not_see_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinema.files.conversion import workers

    write_dcd(tmp_path / "in.dcd", random_walk(5, 10))
    # what a worker of another machine would find
    monkeypatch.setattr(workers.os.path, "exists", lambda path: ".part-" not in str(path) and os.path.lexists(path))
    with pytest.raises(kn.FileNotFound, match="workers must see the folder of the output under the same path"):
        kn.convert(tmp_path / "in.dcd", tmp_path / "o.dcd", runner="serial")


# -- checkpoints and kills ---------------------------------------------------------------------------------------------


class Stopped(Exception):
    """A call was ended on its way."""


def _stop_at(frames: int) -> Callable[[int, int], None]:
    def stop(done: int, _total: int) -> None:
        if done >= frames:
            raise Stopped

    return stop


@pytest.mark.parametrize("target", ["o.xtc", "o.dcd", "o.nc"])
def test_a_call_goes_on_with_another_runner(tmp_path: Path, dask: Any, target: str) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(3000, 40))
    converted(tmp_path, "in.dcd", f"whole{target[1:]}")
    turns: list[dict[str, Any]] = [
        {"runner": "processes", "workers": 2, "strategy": "serial"},
        {"runner": "processes", "workers": 3},
        {"runner": "serial"},
    ]
    options: dict[str, Any] = {"checkpoint": tmp_path / "a.ckpt", "checkpoint_interval": 0}
    for number, turn in enumerate(turns):
        turn |= {"progress": _stop_at(700 * (number + 1))}
        with pytest.raises(Stopped) as stopped:
            converted(tmp_path, "in.dcd", target, **options, **turn)
        assert "what was done is in" in "".join(stopped.value.__notes__)
    done_by = converted(tmp_path, "in.dcd", target, runner=dask, workers=2, **options)
    assert 0 < done_by.n_restored < 3000
    assert digest(tmp_path / target) == digest(tmp_path / f"whole{target[1:]}")
    assert not list(tmp_path.glob("*.part*")) and not (tmp_path / "a.ckpt").exists()


@pytest.mark.parametrize("target", ["o.xtc", "o.dcd"])
def test_worker_processes_killed_at_random_moments(tmp_path: Path, kills: Callable[..., int], target: str) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(1500, 60))
    converted(tmp_path, "in.dcd", f"whole{target[1:]}")
    seed, n_kills = random.randrange(1 << 32), kills(2)
    print("seed", seed)
    moments = random.Random(seed)
    options: dict[str, Any] = {"checkpoint": tmp_path / "a.ckpt", "checkpoint_interval": 0}
    killed, finished = 0, False
    # the last call ends undisturbed, so that nothing of an interrupted one is left
    while killed < n_kills or not finished:
        at = moments.randrange(1500) if killed < n_kills else None
        hit: list[int] = []

        def kill(done: int, _total: int, at: int | None = at, hit: list[int] = hit) -> None:
            if at is not None and done >= at and not hit and (there := worker_processes()):
                hit.append(moments.choice(there))
                os.kill(hit[0], signal.SIGKILL)

        try:
            chosen = {"runner": "processes", "workers": moments.choice([1, 2, 3])}
            with collected():
                kn.convert(tmp_path / "in.dcd", tmp_path / target, progress=kill, **options, **chosen)
        except kn.WorkerError as error:
            assert hit and "SIGKILL" in str(error)
            killed += 1
            finished = False
            continue
        # where the last piece was under way, its worker may have had nothing left to do
        killed += bool(hit)
        finished = True
        assert digest(tmp_path / target) == digest(tmp_path / f"whole{target[1:]}")
        (tmp_path / target).unlink()
    assert not list(tmp_path.glob("*.part*")) and not (tmp_path / "a.ckpt").exists()


def test_lost_dask_workers_killed_at_random_moments(
    tmp_path: Path, kills: Callable[..., int], cluster: DaskCluster
) -> None:
    distributed = pytest.importorskip("distributed")
    write_dcd(tmp_path / "in.dcd", random_walk(1500, 60))
    targets = ("o.xtc", "o.dcd")
    for target in targets:
        converted(tmp_path, "in.dcd", f"whole{target[1:]}")
    moments = random.Random(seed := random.randrange(1 << 32))
    print("seed", seed)
    rounds = -(-kills(2) // len(targets))
    # nobody starts a killed worker again; one is left after the last
    cluster.start(1 + rounds * len(targets))
    with distributed.Client(scheduler_file=str(cluster.file), set_as_default=False) as client:
        for target in targets * rounds:
            hit: list[int] = []
            at = moments.randrange(1300)

            def kill(done: int, _total: int, at: int = at, hit: list[int] = hit) -> None:
                if done >= at and not hit:
                    ids = client.run(os.getpid, on_error="ignore")
                    hit.append(moments.choice(sorted(ids.values())))
                    os.kill(hit[0], signal.SIGKILL)

            converted(tmp_path, "in.dcd", target, runner=kn.runners.Dask(client), progress=kill)
            assert hit
            assert digest(tmp_path / target) == digest(tmp_path / f"whole{target[1:]}")


def test_other_readers_read_what_processes_write(tmp_path: Path) -> None:
    import MDAnalysis
    from scipy.io import netcdf_file

    walk = random_walk(500, 30)
    write_dcd(tmp_path / "in.dcd", walk)
    source = kn.open(tmp_path / "in.dcd").read(frames=slice(None))
    for target in ("o.xtc", "o.dcd", "o.trr", "o.nc"):
        converted(tmp_path, "in.dcd", target, runner="processes", workers=3)
        universe = MDAnalysis.Universe.empty(30, trajectory=True)
        universe.load_new(str(tmp_path / target))
        assert len(universe.trajectory) == 500
        for number in (0, 250, 499):
            found = universe.trajectory[number].positions
            np.testing.assert_allclose(found, source[number], atol=0.006 if "xtc" in target else 1e-4)
    with netcdf_file(tmp_path / "o.nc", mmap=False) as file:
        assert file.variables["coordinates"].shape == (500, 30, 3)


def test_progress_counts_all_frames_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(3000, 60))
    seen: list[tuple[int, int]] = []
    converted(tmp_path, "in.dcd", "o.xtc", runner="processes", workers=2, progress=lambda *at: seen.append(at))
    written = [done for done, total in seen if total == 3000]
    assert written == sorted(written) and written[-1] == 3000 and len(set(written)) > 3

    def interrupt(done: int, total: int) -> None:
        if done and total == 3000:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        converted(tmp_path, "in.dcd", "stopped.xtc", runner="processes", workers=2, progress=interrupt)
    assert not list(tmp_path.glob("stopped*"))
