"""The runner on Dask: the suite of all runners on a cluster of this machine, and what travels to its workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster

from kinema.runners import Runner
from kinema.runners.dask import Dask
from kinema.testing import RunnerTests


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as found,
    ):
        yield found


class TestDask(RunnerTests):
    worker_counts = (None, 1, 3)

    @pytest.fixture(autouse=True)
    def cluster(self, client: Client) -> None:
        self.client = client

    def make(self) -> Runner:
        return Dask(self.client)
