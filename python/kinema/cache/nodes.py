"""`SharedBlocks`: the nodes of a job give each other blocks of their caches, so that each leaves its source once a job.

Each block has one node as its home, by rendezvous hashing over all: whoever misses a block asks its home, which reads
it from the source. Where the home does not answer in time the source is read, which is counted (`peer_failures`).
One-sided (`mpi/one_sided.py`) no block has a home: whoever wants it first reads it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kinema import _core
from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError, Error, WaitTimeoutError
from kinema.cache.markers import Owner, addresses_in, write_address
from kinema.cache.mpi.ranks import duplicated, run_on_all_ranks
from kinema.cache.node_files import NodeFiles
from kinema.cache.peers import NodeServer, check_step
from kinema.cache.torch_store import from_store
from kinema.cache.waiting import Watch
from kinema.storage.output_file import machine
from kinema.storage.signed_json import read_signed, write_signed
from kinema.storage.user_key import user_key

if TYPE_CHECKING:
    from kinema.cache.mpi.one_sided import OneSided
    from kinema.cache.node_cache import NodeCache

__all__ = ["SharedBlocks", "attach_nodes"]

# number of nodes of a job, and what the job is called, as launchers say it
_COUNTS = (("SLURM_NNODES", None), ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
TRANSFERS = ("tcp", "one-sided")
# of this process, by the caches' roots
_transfers: dict[str, OneSided] = {}
_NAMES = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")


class SharedBlocks:
    """Within it the caches of several nodes serve each other.

    A context manager, to be entered by a process of each node at least; by all ranks of `comm`. One process a node
    serves. Other processes of the node ask the homes too, if they make their `NodeCache` while it is open. Not to be
    pickled.

        with kinema.cache.SharedBlocks(cache, comm=MPI.COMM_WORLD):
            for batch in kinema.ml.Loader(samples, ...): ...

    Parameters
    ----------
    cache : NodeCache
    comm : mpi4py communicator, optional
        Its ranks exchange their addresses; a duplicate is used.
    store : torch.distributed.Store, or "torchrun", optional
        In place of it: where torch's processes give each other the addresses. "torchrun" is the store of the job that
        torchrun has started, at `MASTER_ADDR` and `MASTER_PORT`. To be entered by all `WORLD_SIZE` processes.
    transfer : {"tcp", "one-sided"}
        "one-sided": the ranks of `comm` get blocks by MPI, and nobody serves. Entering and leaving are collective.
        Needs MPI_THREAD_MULTIPLE. It is for the ranks themselves: other processes of a node read the source.
    folder : path, optional
        In place of both: a folder of this job on the shared file system, to which each node writes its address. Below
        it a folder of the job's own is used where torchrun or SLURM name the job.
    nodes : int, optional
        How many nodes write to `folder`. Default: as SLURM or torchrun say.
    address, port
        As of `NodeServer`.
    timeout : float
        Seconds to wait for the other nodes' addresses.
    peer_timeout : float
        Seconds that a node may take for each step; then the source is read.

    Raises
    ------
    WaitTimeoutError
        Fewer nodes have written their addresses in time.
    ArgumentError, FileAccessError, FileIOError
    WorkerError
        Another rank of `comm` has failed.
    """

    def __init__(
        self,
        cache: NodeCache,
        *,
        comm: Any = None,
        transfer: str = "tcp",
        store: Any = None,
        folder: str | os.PathLike[str] | None = None,
        nodes: int | None = None,
        address: str | None = None,
        port: int = 0,
        timeout: float = 60.0,
        peer_timeout: float = 10.0,
    ) -> None:
        if sum(way is not None for way in (comm, store, folder)) != 1:
            raise ArgumentError("SharedBlocks takes one of comm=, store= and folder=")
        check_choice("transfer", transfer, TRANSFERS)
        self._step = check_step(peer_timeout)
        self._one_sided: OneSided | None = None
        self._files = NodeFiles(cache.root)
        self._server: NodeServer | None = None
        self._folder: str | None = None
        self._cache = cache
        if transfer == "one-sided":
            if comm is None:
                raise ArgumentError("transfer='one-sided' goes with comm=, a communicator of mpi4py")
            self.owners: list[Owner] = []
            self._one_sided = _open_one_sided(comm, self._step, cache)
            return

        def start() -> None:
            self._server = NodeServer(cache.root, address=address, port=port, timeout=self._step, cache=cache)

        try:
            if comm is not None:
                self.owners = _from_ranks(comm, [start, lambda: self._files.owner(cache.root, timeout)])
            elif store is not None:
                start()
                self.owners = from_store(store, self._files.owner(cache.root, timeout), timeout)
            else:
                assert folder is not None, "one of both is given"
                self._folder = _folder_of_job(os.fspath(folder))
                start()
                self.owners = self._from_folder(self._folder, nodes or _count_of_nodes(), timeout)
            content = {"boot": machine()[1], "step": self._step, "owners": [asdict(owner) for owner in self.owners]}
            write_signed(_nodes_path(cache.root), "list of nodes", content)
            attach_nodes(cache.core, cache.root)
        except BaseException:
            self.close()
            raise

    @property
    def server(self) -> NodeServer:
        """This process's handle of the node's server; ArgumentError where there is none."""
        if self._server is None:
            raise ArgumentError("nobody serves with transfer='one-sided', or after close()")
        return self._server

    def close(self) -> None:
        """Stops to serve. Who asks this node from now on reads the source. Collective with transfer="one-sided"."""
        if self._one_sided is not None:
            _transfers.pop(self._cache.root, None)
            self._cache.core.set_transfer(None)
            self._one_sided.close()
            return
        server, self._server = self._server, None
        if server is None:
            return
        if server.is_serving:
            with suppress(FileNotFoundError):
                os.unlink(_nodes_path(self._files.root))
            if self._folder is not None:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._folder, f".kinema-peer-{self._files.node}"))
        server.close()

    def __enter__(self) -> SharedBlocks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _from_folder(self, folder: str, nodes: int, timeout: float) -> list[Owner]:
        """Writes the address of this node, and waits for those of all."""
        deadline = time.monotonic() + timeout
        # the next one that serves writes its address there, too
        write_address(folder, self._files.owner(folder, timeout))
        with Watch([os.path.join(folder, "*")], contents=False) as watch:
            while len(found := addresses_in(folder)) < nodes:
                if not watch.wait_until(deadline):
                    raise WaitTimeoutError(
                        f"{folder}: not all nodes have written their addresses within {timeout:g} s, expected {nodes}, "
                        f"found {len(found)}",
                        path=folder,
                    )
        if len(found) > nodes:
            raise ArgumentError(
                f"{folder}: has addresses of other nodes as well, expected {nodes}, found {len(found)}; give each "
                "job a folder of its own",
                path=folder,
            )
        return found


def attach_nodes(core: _core.NodeCache, root: str) -> None:
    """Has a cache ask the nodes that share their blocks, where a process of this node has `SharedBlocks` open."""
    if root in _transfers:
        core.set_transfer(_transfers[root])
        return
    with suppress(Error):  # a list that is damaged or forged is none: then the source is read
        found = read_signed(_nodes_path(root), "list of nodes")
        if found is None or not found[1] or found[0]["boot"] != machine()[1]:
            return
        owners = [Owner(**one) for one in found[0]["owners"]]
        nodes = [(owner.node, owner.address, owner.port) for owner in owners]
        core.set_nodes(NodeFiles(root).node, nodes, user_key(), found[0]["step"])


def _open_one_sided(comm: Any, step: float, cache: NodeCache) -> OneSided:
    from kinema.cache.mpi.one_sided import OneSided

    transfer = OneSided(comm, step, cache.limit)
    _transfers[cache.root] = transfer
    attach_nodes(cache.core, cache.root)
    return transfer


def _from_ranks(comm: Any, steps: Sequence[Callable[[], Owner | None]]) -> list[Owner]:
    """What the last step gives on all ranks, each node once; all ranks have done a step before the next one begins. The
    same error is raised on all where one has failed."""
    with duplicated(comm) as own:
        found = [run_on_all_ranks(own, step) for step in steps][-1]
    return list({owner.node: owner for owner in found if owner is not None}.values())


def _nodes_path(root: str) -> str:
    return os.path.join(root, "nodes")


def _folder_of_job(folder: str) -> str:
    name = next((os.environ[name] for name in _NAMES if os.environ.get(name)), "")
    path = os.path.join(folder, re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)) if name else folder
    os.makedirs(path, exist_ok=True)
    return path


def _count_of_nodes() -> int:
    for name, divisor in _COUNTS:
        with suppress(KeyError, ValueError, ZeroDivisionError):
            return int(os.environ[name]) // (1 if divisor is None else int(os.environ[divisor]))
    raise ArgumentError("nodes= is needed: neither SLURM nor torchrun says how many nodes the job has")
