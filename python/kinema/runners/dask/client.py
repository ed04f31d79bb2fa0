"""Connection to a Dask cluster, and its workers that take part in a pass.

`client_of` connects to a scheduler, `find_workers` waits for workers and checks that they and the scheduler have this
version of Kinema. No cluster is started here, and no pieces are submitted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Client, default_client
from distributed.comm import connect, parse_address, parse_host_port, resolve_address
from distributed.security import Security
from distributed.utils import LoopRunner

from kinema import _core
from kinema.base.errors import ArgumentError, WorkerError
from kinema.base.input_files import read_regular
from kinema.runners.dask.tasks import other_version, slots_of

# evaluated on scheduler and workers, which may lack Kinema: no function of Kinema can be sent
_QUESTION = "(__import__('kinema').__version__, __import__('socket').gethostname())"

# seconds that a scheduler has for Dask's handshake after the connection is made
_HANDSHAKE = 10.0
# seconds in which a machine refuses a connection to a port that nothing listens on
_REFUSAL = 2.0
_MOST_BYTES = 16 << 20
_NO_SCHEDULER = "what is there does not answer as a scheduler of Dask; is this the address of its dashboard?"


def current_client() -> Client | None:
    """The default client of this process, or None.

    Raises ArgumentError for an asynchronous client: the caller would not expect a cluster of this machine instead.
    """
    try:
        client = default_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise ArgumentError(
            "the current Dask client is asynchronous; make one without asynchronous=True, or name a cluster with "
            "kn.runners.Dask(address)"
        )
    return client


def client_of(cluster: str) -> Client:
    """A client of the scheduler at an address or of a scheduler file.

    Raises ArgumentError if `cluster` names neither; WorkerError at once if nothing listens on the port, and if the
    scheduler does not answer in the time that Dask allows (distributed.comm.timeouts.connect).
    """
    address = cluster if "://" in cluster else _address_in(cluster)
    try:
        # Dask itself would try a name that does not exist, or an address without a port, for half a minute
        resolve_address(address)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{cluster}: no address of a Dask scheduler (tcp://host:port): {error}") from None
    try:
        _check_not_refused(address)
        LoopRunner().run_sync(_probe, address)
        return Client(address, set_as_default=False)
    except TimeoutError:
        raise WorkerError(f"cannot connect to the Dask scheduler {cluster}: {_NO_SCHEDULER}") from None
    except OSError as error:
        raise WorkerError(f"cannot connect to the Dask scheduler {cluster}: {error}") from None
    except Exception as error:
        # such as a MemoryError when eight bytes of another protocol are read as a length
        what = f"{type(error).__name__}: {error}"
        raise WorkerError(f"cannot connect to the Dask scheduler {cluster}: {_NO_SCHEDULER} ({what})") from None


@contextlib.contextmanager
def connection(cluster: str) -> Iterator[Client]:
    """Context with a client as from `client_of`, which is closed at the end."""
    with contextlib.ExitStack() as stack:
        client = client_of(cluster)
        stack.callback(_close, client)
        yield client


def _close(client: Client) -> None:
    """Closes a client, without the traceback that Dask logs if it is trying to reach a lost scheduler."""
    logger = logging.getLogger("distributed.client")
    lost = client.status == "connecting"
    if lost:
        logger.addFilter(_drop_record)
    try:
        client.close()
    finally:
        logger.removeFilter(_drop_record)


def _drop_record(_: logging.LogRecord) -> bool:
    return False


async def _probe(address: str) -> None:
    """Connects once and closes; raises if no Dask scheduler answers.

    `Client` waits without limit for a peer that listens but does not speak Dask's protocol. An error other than OSError
    leaves the client half initialised, and closing it takes a minute.
    """
    timeout = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect")) + _HANDSHAKE
    comm = await asyncio.wait_for(connect(address, **Security().get_connection_args("client")), timeout)
    await comm.close()


def _check_not_refused(address: str) -> None:
    """Raises ConnectionRefusedError if nothing listens on the port, which Dask itself would try for half a minute."""
    scheme, location = parse_address(address)
    if scheme not in ("tcp", "tls"):
        return
    try:
        socket.create_connection(parse_host_port(location), _REFUSAL).close()
    except ConnectionRefusedError:
        raise
    except OSError:
        return  # Dask's own connection says what is wrong


def _address_in(name: str) -> str:
    """The address in a scheduler file, which must be the user's own: the owner of a cluster can run code here."""
    if not os.path.exists(name):
        raise ArgumentError(
            f"{name}: neither the address of a Dask scheduler (tcp://host:port) nor a scheduler file that exists"
        )
    written = read_regular(name, "scheduler file", most=_MOST_BYTES, own=True)
    try:
        content = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{name}: no scheduler file of Dask: {error}") from None
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        raise ArgumentError(f"{name}: no scheduler file of Dask: it names no address")
    return address


def check_running(client: Client) -> None:
    """Raises ArgumentError if the client was closed."""
    if client.status != "running":
        raise ArgumentError(f"the Dask client is {client.status}; make a new one")


def request_workers(client: Client, patience: float) -> None:
    """Waits for a first worker, which an adaptive cluster then starts. Raises WorkerError after `patience` seconds."""
    with _connection_errors(client):
        # an adaptive cluster starts workers for waiting tasks
        _requesting_task = None if client.nthreads() else client.submit(int, key=f"kinema-{uuid.uuid4().hex}")
        try:
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            raise WorkerError(
                f"the Dask scheduler {client.scheduler.address} has no workers after {patience:.0f} s"
            ) from None


@contextlib.contextmanager
def _connection_errors(client: Client) -> Iterator[None]:
    """Context that raises WorkerError if the connection to the scheduler is lost."""
    address = client.scheduler.address
    try:
        yield
    except OSError as error:
        raise WorkerError(f"the connection to the Dask scheduler {address} is lost: {error}") from None


@dataclass(frozen=True, eq=False)
class DaskWorkers:
    """The workers of a pass.

    `slots`: tasks that a worker runs at a time, by its address.
    `limited`: whether only these workers of the cluster are used, and not workers that join later.
    `hosts`: names of machines by address.
    `label`: name of the cluster in messages.
    `processes`: the worker processes, if the run has its own cluster.
    """

    client: Client
    slots: dict[str, int]
    limited: bool
    hosts: dict[str, str]
    threads: int
    label: str
    processes: Sequence[subprocess.Popen[bytes]] = ()

    @property
    def size(self) -> int:
        """Tasks that all workers run at a time."""
        return sum(self.slots.values())

    @property
    def addresses(self) -> list[str] | None:
        """Workers that tasks are submitted to; None: all."""
        return list(self.slots) if self.limited else None

    @property
    def limits(self) -> dict[str, int]:
        """Tasks at a time, by address, for workers that may not use all their threads."""
        return self.slots if self.limited else {}

    def limited_to(self, size: int) -> DaskWorkers:
        """The same workers with at most `size` tasks at a time."""
        if size >= self.size:
            return self
        slots: dict[str, int] = {}
        for address, number in self.slots.items():
            if left := min(number, size - sum(slots.values())):
                slots[address] = left
        return replace(self, slots=slots, limited=True)


def find_workers(client: Client, wanted: int | None, threads: int, label: str, patience: float) -> DaskWorkers:
    """Waits for a first worker and returns the workers of a cluster.

    Raises ArgumentError if a worker or the scheduler has another version of Kinema, or fewer than the `wanted` tasks
    run at a time; WorkerError if a worker has not answered after `patience` seconds, or no worker has stayed within
    that time.
    """
    until = time.monotonic() + patience
    # workers may leave before they answer: an adaptive cluster retires workers without a task
    while not (answered := _workers_with_hosts(client, patience)):
        if time.monotonic() > until:
            raise WorkerError(f"all workers of the Dask scheduler {client.scheduler.address} have left")
    slots = {address: slots_of(answered[address][0], threads) for address in sorted(answered)}
    hosts = {address: host for address, (_, host) in answered.items()}
    whole = DaskWorkers(client, slots, False, hosts, threads, label)
    if wanted is None:
        return whole
    if wanted > whole.size:
        raise ArgumentError(f"the {label} runs {whole.size} tasks of {threads} threads at a time, asked for {wanted}")
    return whole.limited_to(wanted)


def _workers_with_hosts(client: Client, patience: float) -> dict[str, tuple[int, str]]:
    """Threads and host of each worker that has answered, by its address. Raises as `find_workers`."""
    request_workers(client, patience)
    with _connection_errors(client):
        _check_scheduler(client)
        threads = client.nthreads()
        try:
            answers = client.sync(_ask_workers, client, list(threads), patience)
        except TimeoutError:
            silent = client.run_on_scheduler(_least_recent_heartbeat)
            raise WorkerError(
                f"the Dask worker {silent} has not answered for {patience:.0f} s; see whether it still runs"
            ) from None
        left = answers.keys() - client.nthreads().keys()
    for address, answer in list(answers.items()):
        if address in left:
            del answers[address]
        elif isinstance(answer, OSError):
            raise WorkerError(f"the Dask worker {address} does not answer: {answer}")
        elif isinstance(answer, BaseException):
            raise ArgumentError(f"the Dask worker {address} cannot import Kinema: {type(answer).__name__}: {answer}")
        elif answer[0] != _core.__version__:
            raise ArgumentError(other_version(f"worker {address}", answer[1], _core.__version__, answer[0]))
    return {address: (threads[address], host) for address, (_, host) in answers.items()}


async def _ask_workers(client: Client, workers: list[str], patience: float) -> dict[str, Any]:
    """Version and host, or the error, of each worker by its address. Raises TimeoutError after `patience` seconds.

    Dask itself waits without limit for a process that has been stopped.
    """
    answers = client.run(eval, _QUESTION, on_error="return", workers=workers)
    by_address: dict[str, Any] = await asyncio.wait_for(answers, patience)
    return by_address


def _least_recent_heartbeat(dask_scheduler: Any) -> str:
    """Address of the worker whose last heartbeat is the oldest."""
    silent = min(dask_scheduler.workers.values(), key=lambda worker: worker.last_seen, default=None)
    return "that was" if silent is None else str(silent.address)


def _check_scheduler(client: Client) -> None:
    """Raises ArgumentError if the scheduler has another version of Kinema, or none: it unpickles task functions."""
    try:
        version, host = client.run_on_scheduler(eval, _QUESTION)
    except ImportError as error:
        raise ArgumentError(
            f"the Dask scheduler {client.scheduler.address} cannot import Kinema: {type(error).__name__}: {error}"
        ) from None
    if version != _core.__version__:
        raise ArgumentError(other_version(f"scheduler {client.scheduler.address}", host, _core.__version__, version))
