"""A cluster of Dask on this machine for the tests of a module, and what must be left of it after each test."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.testing import random_walk, write_dcd

if TYPE_CHECKING:
    from distributed import Client


@pytest.fixture(name="client", scope="module")
def client_of_three(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A cluster of three workers on this machine; functions of tests go to them with their code."""
    from distributed import Client, LocalCluster

    for module in (request.module, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test the cluster of this module has no task, no data and no plugin of ours."""
    yield
    if "client" not in request.fixturenames:
        return
    client = request.getfixturevalue("client")
    until = time.monotonic() + 120
    while (left := client.run_on_scheduler(_tasks_and_plugins)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    while any(client.run(metrics).values()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(client.run(metrics).values())


def metrics(dask_worker: Any) -> list[str]:
    """Names of the metrics of ours that a worker reports."""
    return [name for name in dask_worker.metrics if "kinema" in name]


def _tasks_and_plugins(dask_scheduler: Any) -> list[str]:
    return [str(name) for name in (*dask_scheduler.tasks, *dask_scheduler.plugins) if "kinema" in str(name)]


@pytest.fixture(name="rmsd")
def rmsd_of_20(tmp_path: Path) -> Analysis:
    write_dcd(tmp_path / "a.dcd", random_walk(300, 20))
    return kn.analysis.RMSD(kn.open(tmp_path / "a.dcd"))
