"""The runner on Dask and clusters of other kinds: adaptive, in this process, of several threads, and none at all."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import dask
import pytest
from distributed import Client, LocalCluster

import kinema as kn
from kinema.analysis import Analysis
from kinema.base.timings import Transition, processed_again, worker_task_times
from kinema.runners.dask import client as dask_client
from kinema.runners.dask.cluster import OwnCluster
from kinema.runners.dask.runner import Dask
from kinema.testing import random_walk, write_dcd
from kinema.testing.runner_work import slow_corner

pytestmark = pytest.mark.processes


def setup_module() -> None:
    """Workers cannot import this module: its functions go with their code."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def rmsd(tmp_path: Path) -> Analysis:
    write_dcd(tmp_path / "a.dcd", random_walk(300, 20))
    return kn.analysis.RMSD(kn.open(tmp_path / "a.dcd"))


# -- clusters -----------------------------------------------------------------------------------------------------


def test_an_adaptive_cluster_without_workers(rmsd: Analysis) -> None:
    expected = rmsd.run(runner="serial").results.values
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster:
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        with Client(cluster, set_as_default=False) as client:
            rmsd.run(runner=Dask(client))
    assert rmsd.results.values.tobytes() == expected.tobytes()


def test_workers_that_are_retired_before_they_answer(rmsd: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rmsd.run(runner="serial").results.values
    retired: list[str] = []
    check = dask_client._check_scheduler

    def retire_first(client: Client) -> None:
        # between the arrival of the first worker and the question to it
        if not retired:
            retired.extend(client.nthreads())
            client.retire_workers(retired)
        check(client)

    monkeypatch.setattr(dask_client, "_check_scheduler", retire_first)
    with (
        # time after which the cluster replaces a lost worker: 15 s by default
        dask.config.set({"distributed.deploy.lost-worker-timeout": "100ms"}),
        LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
    ):
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        with Client(cluster, set_as_default=False) as client:
            rmsd.run(runner=Dask(client))
    assert len(retired) == 1
    assert rmsd.results.values.tobytes() == expected.tobytes()


def test_workers_that_are_threads_of_one_process_do_not_wait_for_each_other(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(300, 20))

    def meets(frame: kn.Frame) -> float:
        # the first frame of each half waits for that of the other
        if frame.frame in (0, 150):
            (tmp_path / str(frame.frame)).touch()
            until = time.monotonic() + 120
            while not (tmp_path / str(150 - frame.frame)).exists():
                assert time.monotonic() < until, "the other worker has nothing to do"
                time.sleep(0.01)
        return float(frame.positions[0, 0])

    analysis = kn.analysis.from_function(meets, kn.open(tmp_path / "a.dcd"))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        analysis.run(runner=Dask(client, schedule="static", oversubscribe=1))
    assert [worker.frames for worker in analysis.timings.passes[0].workers] == [150, 150]


def test_two_clusters_of_our_own_leave_the_logger_as_it_was() -> None:
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        one, other = OwnCluster(1), OwnCluster(1)
        with one:
            other.__enter__()
            assert logger.level == logging.ERROR
        assert logger.level == logging.ERROR
        other.__exit__(None, None, None)
        assert logger.level == logging.WARNING
    finally:
        logger.setLevel(before)
    assert all(process.poll() is not None for process in [*one.processes, *other.processes])


def test_two_threads_with_one_runner_have_a_cluster_each(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(600, 20))
    write_dcd(tmp_path / "b.dcd", random_walk(600, 20, seed=5))
    runner = Dask()
    first, second = (kn.analysis.from_function(slow_corner, kn.open(tmp_path / f"{name}.dcd")) for name in "ab")
    expected = [one.run(runner="serial").results.values.tobytes() for one in (first, second)]
    failed: list[BaseException] = []
    ended = threading.Event()

    def wait_for_other(done: int, _total: int) -> None:
        if done:
            running.set()
            ended.wait(120)

    def run() -> None:
        try:
            second.run(runner=runner, workers=1, progress=wait_for_other)
        except BaseException as error:
            failed.append(error)
            running.set()

    running = threading.Event()
    other = threading.Thread(target=run)

    def begin_the_other(done: int, _total: int) -> None:
        if done and not other.is_alive():
            other.start()
            running.wait(120)

    first.run(runner=runner, workers=1, progress=begin_the_other)
    ended.set()
    other.join()
    assert failed == []
    assert [one.results.values.tobytes() for one in (first, second)] == expected


def test_a_current_client_for_coroutines_is_not_passed_over(rmsd: Analysis) -> None:
    async def run() -> None:
        async with (
            LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0", asynchronous=True) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            with pytest.raises(kn.ArgumentError, match="the Dask client is asynchronous"):
                Dask(client)
            with pytest.raises(kn.ArgumentError, match="the current Dask client is asynchronous"):
                rmsd.run(runner="dask", workers=1)

    asyncio.run(run())


@pytest.mark.parametrize("how", ["ends", "interrupts"])
def test_a_function_that_ends_the_program_does_not_end_workers(tmp_path: Path, how: str) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(30, 20))
    kind: type[BaseException] = SystemExit if how == "ends" else KeyboardInterrupt

    def leaves(frame: kn.Frame) -> float:
        if frame.frame == 20:
            raise kind("enough")
        return 1.0

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        before = set(client.nthreads())
        with pytest.raises(kind, match="enough") as caught:
            kn.analysis.from_function(leaves, kn.open(tmp_path / "a.dcd")).run(runner=Dask(client))
        assert "on worker tcp://" in caught.value.__notes__[0]
        # what the exit code of the program is made of
        assert getattr(caught.value, "code", "enough") == "enough"
        with pytest.raises(kind, match="enough") as caught:
            Dask(client).map(_raises, [kind])
        assert set(client.nthreads()) == before


def _raises(kind: type[BaseException]) -> None:
    raise kind("enough")


# -- addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tcp://127.0.0.1", "no address of a Dask scheduler .*missing port"),
        ("tcp://", "no address of a Dask scheduler .*missing port"),
        ("ftp://127.0.0.1:1", "no address of a Dask scheduler .*unknown address scheme"),
        ("tcp://no-such-host.invalid:8786", "no address of a Dask scheduler"),
    ],
)
def test_addresses_of_nothing(address: str, words: str) -> None:
    with pytest.raises(kn.ArgumentError, match=words):
        dask_client.client_of(address)


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "no scheduler file of Dask: "), ("[1]", "it names no address"), ('{"id": 1}', "it names no address")],
)
def test_files_that_are_none_of_a_scheduler(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "scheduler.json"
    path.write_text(content)
    with pytest.raises(kn.ArgumentError, match=words):
        dask_client.client_of(str(path))


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """A port with a listener that does not speak Dask's protocol."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
    ):
        yield listening


def test_one_who_listens_and_is_silent(stranger: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_client, "_HANDSHAKE", 0.5)
    with pytest.raises(kn.WorkerError, match="does not answer as a scheduler of Dask; is this the address of its dash"):
        dask_client.client_of(f"tcp://127.0.0.1:{stranger.getsockname()[1]}")


def test_one_who_answers_in_another_language(stranger: socket.socket) -> None:
    def answer() -> None:
        # the first one asks only whether anybody listens
        stranger.accept()[0].close()
        connection, _ = stranger.accept()
        with connection:
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" * 4)
            connection.recv(1 << 16)

    answering = threading.Thread(target=answer)
    answering.start()
    with pytest.raises(kn.WorkerError, match="does not answer as a scheduler of Dask"):
        dask_client.client_of(f"tcp://127.0.0.1:{stranger.getsockname()[1]}")
    answering.join()


@pytest.mark.parametrize("patience", [0, -1.0, float("nan"), True, "60"])
def test_patience_is_a_time(patience: object) -> None:
    with pytest.raises(kn.ArgumentError, match="patience is a number of seconds above 0"):
        Dask("tcp://127.0.0.1:1", patience=patience)  # type: ignore[arg-type]


# -- times --------------------------------------------------------------------------------------------------------


def test_times_of_several_threads_do_not_add_up() -> None:
    def task(name: str, worker: str, start: float, stop: float) -> Transition:
        # what it needs came just before
        actions = (("transfer", start - 0.25, start), ("compute", start, stop), ("other", 0.0, 9.0))
        return Transition(name, "processing", "memory", worker, stop, actions)

    # two threads of one worker; a pause; another worker
    functions = [("a", 1.0, 3.0), ("a", 2.0, 4.0), ("a", 2.5, 2.75), ("a", 5.0, 6.0), ("b", 0.0, 2.5)]
    transitions = [task("x", "a", 0.5, 4.5), task("y", "a", 1.0, 2.0), task("z", "c", 7.0, 7.5)]
    found = worker_task_times(functions, transitions)
    assert [(one.worker, one.tasks, one.function, one.task, one.transfer) for one in found] == [
        ("a", 4, 4.0, 4.0, 0.5),
        ("b", 1, 2.5, 0.0, 0.0),
        ("c", 0, 0.0, 0.5, 0.25),
    ]


def test_tasks_that_the_scheduler_assigns_again() -> None:
    def given(name: str, worker: str) -> Transition:
        return Transition(name, "waiting", "processing", worker, 0.0)

    back = Transition("x", "processing", "released", "a", 1.0)
    assert processed_again([given("x", "a"), given("y", "b")]) == 0
    assert processed_again([given("x", "a"), given("y", "b"), back, given("x", "b"), given("x", "c")]) == 2
