"""`SharedBlocks`: exchange of cached blocks among the nodes of a job, so that each block is read from its source once.

Each block has a home node, chosen by rendezvous hashing over all nodes. A node that misses a block asks the home, which
reads it from the source. If the home does not answer in time, the node reads the source itself, which is counted
(`peer_failures`). With one-sided transfers (`mpi/one_sided.py`) blocks have no home: the first rank to want one reads
it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
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

# environment variables of launchers: number of nodes of a job, and the job's name
_COUNTS = (("SLURM_NNODES", None), ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
TRANSFERS = ("tcp", "one-sided")
# open objects of this process, by the caches' roots
_transfers: dict[str, OneSided] = {}
_NAMES = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")


class SharedBlocks:
    """Context manager within which the caches of several nodes serve each other.

    At least one process of each node must enter it, and all ranks of `comm`. One process per node serves. Other
    processes of the node also ask the homes, if they make their `NodeCache` while the context is open. It cannot be
    pickled.

        with kinema.cache.SharedBlocks(cache, comm=MPI.COMM_WORLD):
            for batch in kinema.ml.Loader(samples, ...): ...

    Parameters
    ----------
    cache : NodeCache
    comm : mpi4py communicator, optional
        Its ranks exchange their addresses; a duplicate is used.
    store : torch.distributed.Store, or "torchrun", optional
        Instead of `comm`: the store through which torch's processes exchange addresses. "torchrun" is the store of the
        job that torchrun has started, at `MASTER_ADDR` and `MASTER_PORT`. All `WORLD_SIZE` processes must enter.
    transfer : {"tcp", "one-sided"}
        "one-sided": the ranks of `comm` get blocks by MPI, and no process serves. Entering and leaving are collective.
        Needs MPI_THREAD_MULTIPLE. Only the ranks themselves benefit: other processes of a node read the source.
    folder : path, optional
        Instead of `comm` and `store`: a folder of this job on the shared file system, to which each node writes its
        address. If torchrun or SLURM names the job, a subfolder for the job is used.
    nodes : int, optional
        Number of nodes that write to `folder`. Default: as SLURM or torchrun says.
    address : str, optional
    port : int
        As for `NodeServer`.
    timeout : float
        Seconds to wait for the other nodes' addresses.
    peer_timeout : float
        Seconds that a node may take for each step; after that the source is read.

    Raises
    ------
    WaitTimeoutError
        Not all nodes have written their addresses in time.
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
        """This process's handle of the node's server; raises ArgumentError if there is none."""
        if self._server is None:
            raise ArgumentError("nobody serves with transfer='one-sided', or after close()")
        return self._server

    def close(self) -> None:
        """Stops serving: nodes that ask this one from now on read the source. Collective with transfer="one-sided"."""
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def _from_folder(self, folder: str, nodes: int, timeout: float) -> list[Owner]:
        """Writes the address of this node, and waits for the addresses of all."""
        deadline = time.monotonic() + timeout
        # the next process that serves writes its address there, too
        write_address(folder, self._files.owner(folder, timeout))
        with Watch([os.path.join(folder, "*")], contents=False) as watch:
            while len(found := addresses_in(folder)) < nodes:
                if not watch.wait_until(deadline):
                    raise WaitTimeoutError(
                        f"not all nodes have written their addresses within {timeout:g} s, expected {nodes}, "
                        f"found {len(found)}",
                        at=folder,
                    )
        if len(found) > nodes:
            raise ArgumentError(
                f"has addresses of other nodes as well, expected {nodes}, found {len(found)}; give each "
                "job a folder of its own",
                at=folder,
            )
        return found


def attach_nodes(core: _core.NodeCache, root: str) -> None:
    """Makes a cache ask the nodes that share blocks, if a process of this node has `SharedBlocks` open."""
    if root in _transfers:
        core.set_transfer(_transfers[root])
        return
    with suppress(Error):  # a damaged or forged list is ignored: then the source is read
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
    """Results of the last step on all ranks, each node once. All ranks finish a step before the next one begins. If
    one rank fails, all raise the same error."""
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
