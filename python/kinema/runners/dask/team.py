"""Who takes part in a round on a Dask cluster: a scheduler that is reached, workers that have this version of Kinema.

It starts no cluster and sends no work.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Client, default_client
from distributed.comm import connect, resolve_address
from distributed.security import Security
from distributed.utils import LoopRunner

from kinema import _core
from kinema.errors import ArgumentError, WorkerError, from_os
from kinema.runners.dask.flight import beckon
from kinema.runners.dask.tasks import other_version, slots_of

__all__ = ["Team", "await_workers", "client_of", "connection", "current_client", "team_of"]

# what a worker is asked: it may lack Kinema, so nothing of Kinema's is in the question
_QUESTION = "(__import__('kinema').__version__, __import__('socket').gethostname())"

# seconds that a scheduler has for its first words, after the connection
_HANDSHAKE = 10.0
_NO_SCHEDULER = "what is there does not answer as a scheduler of Dask; is this the address of its dashboard?"


def current_client() -> Client | None:
    """The client that this process uses by default, if there is one.

    ArgumentError for one that only coroutines can use: a cluster of this machine in its stead is not what was meant.
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

    ArgumentError for what names none; WorkerError for a scheduler that does not answer in the time that Dask allows
    (distributed.comm.timeouts.connect).
    """
    address = cluster if "://" in cluster else _address_in(cluster)
    try:
        # Dask itself would try a name that does not exist, or the address of no port, for half a minute
        resolve_address(address)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{cluster}: no address of a Dask scheduler (tcp://host:port): {error}") from None
    try:
        LoopRunner().run_sync(_knock, address)
        return Client(address, set_as_default=False)
    except TimeoutError:
        raise WorkerError(f"cannot connect to the Dask scheduler {cluster}: {_NO_SCHEDULER}") from None
    except OSError as error:
        raise WorkerError(f"cannot connect to the Dask scheduler {cluster}: {error}") from None
    except Exception as error:
        # such as a MemoryError, for eight bytes of another protocol taken for a length
        what = f"{type(error).__name__}: {error}"
        raise WorkerError(f"cannot connect to the Dask scheduler {cluster}: {_NO_SCHEDULER} ({what})") from None


@contextlib.contextmanager
def connection(cluster: str) -> Iterator[Client]:
    """A client as of `client_of`, closed with the context."""
    with contextlib.ExitStack() as stack:
        client = client_of(cluster)
        stack.callback(_close, client)
        yield client


def _close(client: Client) -> None:
    """Closes a client; one that has lost its scheduler is trying to reach it, and would log a traceback."""
    logger = logging.getLogger("distributed.client")
    lost = client.status == "connecting"
    if lost:
        logger.addFilter(_nothing)
    try:
        client.close()
    finally:
        logger.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


async def _knock(address: str) -> None:
    """Whether a scheduler answers: a client waits for ever for what listens and does not speak Dask's protocol.

    One that fails otherwise than by an OSError would be left half made as well, and wait a minute for its own end.
    """
    patience = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect")) + _HANDSHAKE
    comm = await asyncio.wait_for(connect(address, **Security().get_connection_args("client")), patience)
    await comm.close()


def _address_in(name: str) -> str:
    """The address that a scheduler file holds."""
    path = Path(name)
    if not path.is_file():
        raise ArgumentError(
            f"{name}: neither the address of a Dask scheduler (tcp://host:port) nor a scheduler file that exists"
        )
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise from_os("cannot read the scheduler file", error, name) from None
    except ValueError as error:
        raise ArgumentError(f"{name}: no scheduler file of Dask: {error}") from None
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        raise ArgumentError(f"{name}: no scheduler file of Dask: it names no address")
    return address


def await_workers(client: Client, patience: float) -> None:
    """Until there is a worker; WorkerError where none has come after so many seconds."""
    if client.status != "running":
        raise ArgumentError(f"the Dask client is {client.status}; make a new one")
    with _answering(client):
        # lives until workers are there
        _beckoning = None if client.nthreads() else beckon(client)
        try:
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            raise WorkerError(
                f"the Dask scheduler {client.scheduler.address} has no workers after {patience:.0f} s"
            ) from None


@contextlib.contextmanager
def _answering(client: Client) -> Iterator[None]:
    """WorkerError for a scheduler that is gone meanwhile."""
    address = client.scheduler.address
    try:
        yield
    except OSError as error:
        raise WorkerError(f"the connection to the Dask scheduler {address} is lost: {error}") from None


@dataclass(frozen=True, eq=False)
class Team:
    """The workers of a round.

    Attributes
    ----------
    client : distributed.Client
    slots : dict of str to int
        Tasks that a worker runs at a time, by its address.
    limited : bool
        Whether others of the cluster are left out, also those that join later.
    hosts : dict of str to str
        Names of machines by address.
    threads : int
        Of a task.
    told : str
        What the cluster is called in words.
    """

    client: Client
    slots: dict[str, int]
    limited: bool
    hosts: dict[str, str]
    threads: int
    told: str

    @property
    def size(self) -> int:
        """Tasks at a time."""
        return sum(self.slots.values())

    @property
    def addresses(self) -> list[str] | None:
        """Workers that are used; None: all."""
        return list(self.slots) if self.limited else None

    @property
    def limits(self) -> dict[str, int]:
        """Tasks at a time of workers that may not run as many as they have threads for."""
        return self.slots if self.limited else {}

    def of_size(self, size: int) -> Team:
        """The same with fewer tasks at a time."""
        if size >= self.size:
            return self
        slots: dict[str, int] = {}
        for address, number in self.slots.items():
            if left := min(number, size - sum(slots.values())):
                slots[address] = left
        return replace(self, slots=slots, limited=True)


def team_of(client: Client, wanted: int | None, threads: int, told: str, patience: float) -> Team:
    """Whom a cluster has; ArgumentError for another version of Kinema, and for too few.

    WorkerError for a worker that is there and has not answered after `patience` seconds.
    """
    with _answering(client):
        _check_scheduler(client)
        there = client.nthreads()
        try:
            answers = client.sync(_answers, client, list(there), patience)
        except TimeoutError:
            silent = client.run_on_scheduler(_most_silent)
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
    if not answers:
        raise WorkerError(f"all workers of the Dask scheduler {client.scheduler.address} have left")
    slots = {address: slots_of(there[address], threads) for address in sorted(answers)}
    hosts = {address: host for address, (_, host) in answers.items()}
    whole = Team(client, slots, False, hosts, threads, told)
    if wanted is None:
        return whole
    if wanted > whole.size:
        raise ArgumentError(f"the {told} runs {whole.size} tasks of {threads} threads at a time, asked for {wanted}")
    return whole.of_size(wanted)


async def _answers(client: Client, workers: list[str], patience: float) -> dict[str, Any]:
    """What workers answer to the question, by address. Dask waits for ever for a process that has been stopped."""
    asked = client.run(eval, _QUESTION, on_error="return", workers=workers)
    found: dict[str, Any] = await asyncio.wait_for(asked, patience)
    return found


def _most_silent(dask_scheduler: Any) -> str:
    """The worker whose last heartbeat was the longest ago."""
    silent = min(dask_scheduler.workers.values(), key=lambda worker: worker.last_seen, default=None)
    return "that was" if silent is None else str(silent.address)


def _check_scheduler(client: Client) -> None:
    """ArgumentError for a scheduler with another version of Kinema, or none: it unpickles what tasks call."""
    try:
        version, host = client.run_on_scheduler(eval, _QUESTION)
    except ImportError as error:
        raise ArgumentError(
            f"the Dask scheduler {client.scheduler.address} cannot import Kinema: {type(error).__name__}: {error}"
        ) from None
    if version != _core.__version__:
        raise ArgumentError(other_version(f"scheduler {client.scheduler.address}", host, _core.__version__, version))
