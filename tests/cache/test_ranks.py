"""Ranks of an MPI program that give each other files and blocks of caches, with nothing on the shared file system."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.cache import NodeCache, NodeServer, SharedBlocks, await_ready, publish
from kinema.cache.node_files import NodeFiles

pytestmark = pytest.mark.usefixtures("own_key")

PUBLISHED = """
from kinema.cache import NodeServer, await_ready, publish
comm = MPI.COMM_WORLD
root = f"node-{rank}"
os.mkdir(root, 0o700)
content = bytes([rank]) * 300_000
with NodeServer(root, address="127.0.0.1"):
    if rank < 2:
        with open(f"{root}/part-{rank}.bin", "wb") as file:
            file.write(content)
        own = publish(f"shared/part-{rank}.bin", local=root, comm=comm, frames=rank)
        assert own.origin == "local" and own.frames == rank
    else:
        assert publish(None, comm=comm) is None
    for number in (0, 1):
        found = await_ready(f"shared/part-{number}.bin", 60, local=root, comm=comm)
        say("file", rank, number, found.origin, open(found.path, "rb").read() == bytes([number]) * 300_000)
    # again, by a producer that does not know how far it was; then by one that has other bytes
    again = publish("shared/part-0.bin", local=root, comm=comm) if rank == 0 else publish(None, comm=comm)
    assert rank or again.path == own.path
    try:
        if rank == 1:
            publish("shared/part-0.bin", file="node-1/part-1.bin", local=root, comm=comm)
        else:
            publish(None, comm=comm)
    except kn.WorkerError as error:
        say("refused", rank, error)
    # two ranks, one name, different bytes
    try:
        with open(f"{root}/both.bin", "wb") as file:
            file.write(content)
        publish("shared/both.bin", local=root, comm=comm)
    except kn.ArgumentError as error:
        say("both", rank, error)
    try:
        await_ready("shared/both.bin", 60, local=root, comm=comm)
    except kn.FileNotFound as error:
        say("unknown", rank, error)
    if rank != 0:
        try:
            await_ready("shared/part-0.bin", 60, comm=comm)
        except kn.ArgumentError as error:
            say("nowhere", rank, "give local=" in str(error))
    comm.Barrier()
    kept = sum(len(names) for _, _, names in os.walk(f"{root}/published"))
    say("kept", rank, kept)
say("shared", rank, os.listdir("shared"))
"""


@pytest.mark.processes
def test_files_registered_over_ranks_leave_the_shared_folder_empty(tmp_path: Path, mpi: object) -> None:
    (tmp_path / "shared").mkdir()
    out = mpi.script(3, PUBLISHED, tmp_path)  # type: ignore[attr-defined]
    lines = sorted(out.splitlines())
    files = [f"file {rank} {n} {'local' if rank == n else 'peer'} True" for rank in range(3) for n in range(2)]
    assert [line for line in lines if line.startswith("file")] == files
    refused = [line for line in lines if line.startswith("refused")]
    assert len(refused) == 3
    assert all("rank 1: shared/part-0.bin: another file is published under this name" in line for line in refused)
    both = [line for line in lines if line.startswith("both")]
    assert len(both) == 3
    assert all("ranks 0 and 1 publish different files under this name" in line for line in both)
    assert sum(line.startswith("unknown") for line in lines) == 3
    assert [line for line in lines if line.startswith("nowhere")] == ["nowhere 1 True", "nowhere 2 True"]
    # what a call has refused is not kept
    assert [line for line in lines if line.startswith("kept")] == ["kept 0 1", "kept 1 1", "kept 2 0"]
    assert [line for line in lines if line.startswith("shared")] == [f"shared {rank} []" for rank in range(3)]
    assert os.listdir(tmp_path / "shared") == []
    # the ranks have ended: the next one that publishes removes what nobody can find any more
    files_of_node = NodeFiles(tmp_path / "node-0")
    assert len(os.listdir(files_of_node.published)) == 1
    (tmp_path / "node-0" / "next.bin").write_bytes(b"next")
    with NodeServer(tmp_path / "node-0", address="127.0.0.1"):
        kept = publish(tmp_path / "shared" / "next.bin", local=tmp_path / "node-0")
    assert os.listdir(files_of_node.published) == [Path(kept.path).parent.name]


def test_arguments_of_communicators_are_checked(tmp_path: Path) -> None:
    with pytest.raises(kn.ArgumentError, match="None goes with comm= alone"):
        publish(None)  # type: ignore[call-overload]
    with pytest.raises(kn.ArgumentError, match="a communicator of mpi4py, found int"):
        await_ready(tmp_path / "x", 0, comm=3)
    cache = NodeCache(tmp_path / "node")
    with pytest.raises(kn.ArgumentError, match="'one-sided' goes with comm="):
        SharedBlocks(cache, folder=tmp_path, transfer="one-sided")
    with pytest.raises(kn.ArgumentError, match="transfer"):
        SharedBlocks(cache, folder=tmp_path, transfer="rdma")


BLOCKS = """
import hashlib, time
from kinema import _core
from kinema.cache import NodeCache, SharedBlocks
from kinema.cache.counts import counts_of_all
comm = MPI.COMM_WORLD
cache = NodeCache(f"node-{rank}", limit="64 MiB", block=1 << 16)
with open("source.bin", "rb") as file:
    expected = file.read()

def read(first, last):
    return cache.core.open("source.bin").read_at(first, last - first) == expected[first:last]

with SharedBlocks(cache, comm=comm, transfer="one-sided", peer_timeout=60) as nodes:
    # rank 1 reads nothing, and calls no MPI while the others do
    right = rank == 1 or read(0, len(expected))
    while rank == 1 and not (os.path.exists("done-0") and os.path.exists("done-2")):
        time.sleep(0.01)
    open(f"done-{rank}", "w").close()
    comm.Barrier()
    counts = counts_of_all()
    say("first", rank, right, counts.bytes_source, counts.bytes_peers, counts.peer_failures)
    comm.Barrier()
    # what rank 0 has given up is given by it nevertheless; rank 1 gets all
    if rank == 0:
        cache.clear()
    comm.Barrier()
    right = read(0, len(expected))
    counts = counts_of_all()
    say("second", rank, right, counts.bytes_source, counts.peer_failures)
    comm.Barrier()
# closed: the source is read, and nothing has failed
cache.clear()
say("closed", rank, read(0, 1000), counts_of_all().peer_failures)
"""


@pytest.mark.processes
def test_ranks_get_blocks_one_sided_and_each_leaves_its_source_once(tmp_path: Path, mpi: object) -> None:
    size = 40 * (1 << 16) + 777
    (tmp_path / "source.bin").write_bytes(np.random.default_rng(3).bytes(size))
    out = mpi.compute(3, BLOCKS, tmp_path)  # type: ignore[attr-defined]
    lines = sorted(line.split() for line in out.splitlines())
    first = [line[1:] for line in lines if line[0] == "first"]
    assert [line[:2] for line in first] == [["0", "True"], ["1", "True"], ["2", "True"]], out
    assert sum(int(line[2]) for line in first) == size
    assert sum(int(line[3]) for line in first) == size
    assert all(line[4] == "0" for line in first)
    second = [line[1:] for line in lines if line[0] == "second"]
    assert all(line[1] == "True" and line[3] == "0" for line in second), out
    assert sum(int(line[2]) for line in second) == size
    assert [line[1:] for line in lines if line[0] == "closed"] == [[str(rank), "True", "0"] for rank in range(3)]


FAULTS = """
import signal, subprocess, time
from pathlib import Path
from kinema.cache import NodeCache, SharedBlocks
from kinema.cache.counts import counts_of_all
comm = MPI.COMM_WORLD
BLOCK = 1 << 16
expected = Path("source.bin").read_bytes()
cache = NodeCache(f"node-{rank}", limit="64 MiB", block=BLOCK)
core = cache.core

def read(block):
    before = counts_of_all()
    right = core.open("source.bin").read_at(block * BLOCK, BLOCK) == expected[block * BLOCK :][:BLOCK]
    now = counts_of_all()
    return right, now.bytes_source - before.bytes_source, now.peer_failures - before.peer_failures

def wait_for(name):
    until = time.monotonic() + 100
    while not os.path.exists(name) and time.monotonic() < until:
        time.sleep(0.01)

class Faulty:
    def __init__(self, transfer, claimed=lambda: None, lie=0):
        self.transfer, self.claimed, self.lie = transfer, claimed, lie
        core.set_transfer(self)

    def fetch(self, name):
        given = self.transfer.fetch(name)
        if given is None:
            self.claimed()
        return given

    def stored(self, name, block):
        self.transfer.stored(name, block and (*block[:2], block[2] ^ self.lie))

def lose_source():
    null = os.open("/dev/null", os.O_RDONLY)
    for one in os.listdir("/proc/self/fd"):
        if os.path.exists(f"/proc/self/fd/{one}") and os.readlink(f"/proc/self/fd/{one}").endswith("/source.bin"):
            os.dup2(null, int(one))

def stall():
    Path("claimed").touch()
    wait_for("read")

with SharedBlocks(cache, comm=comm, transfer="one-sided", peer_timeout=1.5) as nodes:
    transfer = nodes._one_sided
    # rank 0 loses the source when it has claimed a block; rank 1 reads it then, and rank 2 gets it of that
    if rank == 0:
        Faulty(transfer, claimed=lose_source)
        try:
            say("lost", rank, read(0))
        except kn.Error as error:
            say("lost", rank, type(error).__name__)
        core.set_transfer(transfer)
    comm.Barrier()
    for one in (1, 2):
        if rank == one:
            say("lost", rank, *read(0))
        comm.Barrier()

    # rank 1 claims a block and takes too long; rank 2 reads the source
    if rank == 1:
        Faulty(transfer, claimed=stall)
        say("stalled", rank, *read(1))
    if rank == 2:
        wait_for("claimed")
        say("stalled", rank, *read(1))
        Path("read").touch()
    comm.Barrier()

    # rank 1 gives a block with another checksum
    if rank == 1:
        Faulty(transfer, lie=1)
        say("lied", rank, *read(2))
        core.set_transfer(transfer)
    comm.Barrier()
    if rank == 2:
        say("lied", rank, *read(2))
    comm.Barrier()

    # rank 1 has mapped as much as it may: rank 2 reads the block as well, and gives it
    for one in (1, 2, 0):
        if rank == one:
            transfer._room *= rank != 1
            say("full", rank, *read(5))
        comm.Barrier()
    if rank == 1:
        transfer._room = cache.limit

    # a forked child has nothing of MPI
    if rank == 2:
        child = os.fork()
        if child == 0:
            os._exit(0 if read(3) == (True, BLOCK, 0) else 1)
        say("forked", rank, os.waitpid(child, 0)[1])
    comm.Barrier()

    # rank 1 stands still after it has given a block
    pids = comm.allgather(os.getpid())
    if rank == 1:
        say("stopped", rank, *read(4))
    comm.Barrier()
    if rank == 2:
        with subprocess.Popen(["sh", "-c", f"sleep 4; kill -CONT {pids[1]}"]):
            os.kill(pids[1], signal.SIGSTOP)
            say("stopped", rank, *read(4))
    comm.Barrier()
say("ended", rank)
"""


@pytest.mark.processes
def test_sources_ranks_and_checksums_that_fail_lead_to_the_source(tmp_path: Path, mpi: object) -> None:
    (tmp_path / "source.bin").write_bytes(np.random.default_rng(4).bytes(6 << 16))
    out = mpi.compute(3, FAULTS, tmp_path)  # type: ignore[attr-defined]
    lines = out.splitlines()
    block = 1 << 16

    def said(word: str) -> list[str]:
        return sorted(line.removeprefix(f"{word} ") for line in lines if line.startswith(word))

    assert said("lost") == ["0 CorruptFileError", f"1 True {block} 0", "2 True 0 0"], out
    assert said("stalled") == [f"1 True {block} 0", f"2 True {block} 1"], out
    assert said("lied") == [f"1 True {block} 0", f"2 True {block} 1"], out
    assert said("full") == ["0 True 0 0", f"1 True {block} 0", f"2 True {block} 0"], out
    assert said("forked") == ["2 0"], out
    stopped = said("stopped")
    assert [line[:7] for line in stopped] == ["1 True ", "2 True "], out
    if mpi.is_mpich():  # type: ignore[attr-defined]
        # others may wait for the rank, or read its memory without it
        assert stopped[1] == f"2 True {block} 1"
    assert said("ended") == ["0", "1", "2"]


@pytest.mark.processes
def test_mpi_without_threads_is_an_error_of_all_ranks_that_names_the_other_way(tmp_path: Path, mpi: object) -> None:
    script = """
from kinema.cache import NodeCache, SharedBlocks
try:
    SharedBlocks(NodeCache(f"node-{rank}"), comm=MPI.COMM_WORLD, transfer="one-sided")
except kn.WorkerError as error:
    say(rank, error)
"""
    out = mpi.script(2, script, tmp_path, MPI4PY_RC_THREAD_LEVEL="serialized")  # type: ignore[attr-defined]
    lines = sorted(out.splitlines())
    assert [line[:10] for line in lines] == ["0 rank 0: ", "1 rank 0: "]
    assert all("needs an MPI library with MPI_THREAD_MULTIPLE; use transfer='tcp'" in line for line in lines)
