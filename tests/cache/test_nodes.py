"""Caches of several nodes that share their blocks: each byte leaves its source once, and dead nodes are done without.

A node is a folder here, or a process if the test kills it.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.cache import NodeCache, NodeServer, SharedBlocks, torch_store
from kinema.cache.node_files import NodeFiles
from kinema.storage.signed_json import signed
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.usefixtures("own_key")

HERE = "127.0.0.1"
BLOCK = 1 << 16
SIZE = 40 * BLOCK + 777


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    path = tmp_path / "source.bin"
    path.write_bytes(np.random.default_rng(3).bytes(SIZE))
    return path


def cache(tmp_path: Path, node: str, block: int = BLOCK) -> NodeCache:
    return NodeCache(tmp_path / node, limit="64 MiB", block=block)


def shared(caches: list[NodeCache], folder: Path, stack: ExitStack, **options: float) -> list[SharedBlocks]:
    """One for each node, all of this process: they wait for each other."""
    made: list[SharedBlocks | None] = [None] * len(caches)

    def enter(number: int) -> None:
        made[number] = SharedBlocks(
            caches[number],
            folder=folder,
            nodes=len(caches),
            address=HERE,
            **options,  # type: ignore[arg-type]
        )

    threads = [threading.Thread(target=enter, args=[number]) for number in range(len(caches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entered = [one for one in made if one is not None]
    for one in entered:
        stack.enter_context(one)
    assert len(entered) == len(caches)
    return entered


def everything(cache: NodeCache, path: Path) -> bytes:
    return bytes(cache.core.open(path).read_at(0, SIZE + 1))


def test_two_nodes_read_each_byte_of_the_source_once(tmp_path: Path, source: Path) -> None:
    caches = [cache(tmp_path, "A"), cache(tmp_path, "B")]
    with ExitStack() as stack:
        nodes = shared(caches, tmp_path / "job", stack)
        assert all(one.server.is_serving for one in nodes)
        assert nodes[0].owners == nodes[1].owners
        # what reads for others counts in a handle of its own: all of the process together
        before = kn.cache.counts.counts_of_all()
        readers = [threading.Thread(target=everything, args=[one, source]) for one in caches * 2]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        after = kn.cache.counts.counts_of_all() - before
        assert after.bytes_source == SIZE
        assert after.bytes_peers == SIZE  # each block once, to the node that is not its home
        assert after.peer_failures == 0
        assert "bytes from other nodes" in str(after)
        assert all(everything(one, source) == source.read_bytes() for one in caches)
        # another process of a node, or a worker, finds the nodes by itself
        again = pickle.loads(pickle.dumps(caches[0]))
        other = tmp_path / "other.bin"
        other.write_bytes(source.read_bytes()[::-1])
        assert everything(again, other) == other.read_bytes()
        assert 0 < again.core.counts()["bytes_peers"] < SIZE
        # blocks of another size are other blocks
        wide = cache(tmp_path, "B", 4 * BLOCK)
        assert everything(wide, other) == other.read_bytes()
        assert wide.core.counts()["bytes_peers"] > 0
        with pytest.raises(kn.WaitTimeoutError, match="expected 3, found 2"):
            SharedBlocks(caches[0], folder=tmp_path / "job", nodes=3, address=HERE, timeout=0.05)
    assert os.listdir(tmp_path / "job") == []
    assert not (tmp_path / "A" / "nodes").exists()
    with pytest.raises(kn.ArgumentError, match="one of comm=, store= and folder="):
        SharedBlocks(caches[0])
    with pytest.raises(kn.ArgumentError, match="nodes= is needed"):
        SharedBlocks(caches[0], folder=tmp_path / "job", address=HERE)


def test_a_file_that_was_changed_is_not_given_in_its_old_state(tmp_path: Path, source: Path) -> None:
    caches = [cache(tmp_path, "A"), cache(tmp_path, "B")]
    with ExitStack() as stack:
        shared(caches, tmp_path / "job", stack)
        everything(caches[0], source)
        opened = caches[1].core.open(source)
        changed = source.read_bytes()[::-1]
        source.unlink()
        source.write_bytes(changed)
        with pytest.raises(kn.CorruptFileError, match="has changed since it was opened"):
            opened.read_at(0, SIZE)
        assert everything(caches[1], source) == changed
        assert everything(caches[0], source) == changed


def test_a_damaged_block_of_another_node_is_not_taken(tmp_path: Path, source: Path) -> None:
    caches = [cache(tmp_path, "A"), cache(tmp_path, "B")]
    with ExitStack() as stack:
        shared(caches, tmp_path / "job", stack)
        assert everything(caches[0], source) == source.read_bytes()
        blocks = list((tmp_path / "A" / "kinema-cache-1" / "blocks").glob("*/*"))
        for block in blocks:
            data = bytearray(block.read_bytes())
            data[100] ^= 1
            block.write_bytes(data)
        before = kn.cache.counts.counts_of_all()
        assert everything(caches[1], source) == source.read_bytes()
        since = kn.cache.counts.counts_of_all() - before
        assert since.peer_failures > 0 and since.bytes_source > 0


NODE = """
import sys
sys.path.insert(0, {package!r})
from kinema.cache import NodeCache, SharedBlocks
cache = NodeCache({root!r}, limit="64 MiB", block={block})
with SharedBlocks(cache, folder={job!r}, nodes=2, address="127.0.0.1"):
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.processes
@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
def test_without_an_answer_of_the_home_the_source_is_read_and_that_is_counted(
    tmp_path: Path, source: Path, fate: signal.Signals
) -> None:
    package = str(Path(kn.__file__).parent.parent)
    script = NODE.format(package=package, root=str(tmp_path / "B"), block=BLOCK, job=str(tmp_path / "job"))
    process = start_child([sys.executable, "-c", script], stdin=-1)
    own = cache(tmp_path, "A")
    with SharedBlocks(own, folder=tmp_path / "job", nodes=2, address=HERE, peer_timeout=0.3):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        first = own.core.open(source)
        assert first.read_at(0, SIZE) == source.read_bytes()
        assert own.core.counts()["peer_failures"] == 0
        assert own.core.counts()["bytes_source"] + own.core.counts()["bytes_peers"] == SIZE
        os.kill(process.pid, fate)
        other = tmp_path / "other.bin"
        other.write_bytes(source.read_bytes()[::-1])
        assert everything(own, other) == other.read_bytes()
        counts = own.core.counts()
        assert counts["peer_failures"] > 0
        assert "127.0.0.1" in (own.core.last_error or "")
    if fate == signal.SIGSTOP:
        os.kill(process.pid, signal.SIGCONT)


CROWD = """
import sys, threading, time
sys.path.insert(0, {package!r})
from kinema.cache import NodeCache, SharedBlocks
from kinema.cache.counts import counts_of_all
cache = NodeCache({root!r}, limit="64 MiB", block={block}, source_rate={rate})
with SharedBlocks(cache, folder={job!r}, nodes=2, address="127.0.0.1"):
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    data = cache.core.open({path!r}).read_at(0, 1 << 30)
    seconds = time.monotonic() - began
    print(data == open({path!r}, "rb").read(), seconds, flush=True)
    sys.stdin.readline()
    # of this process: what it read for itself, and for other nodes
    counts = counts_of_all()
    print(counts.bytes_source, counts.bytes_peers, counts.peer_failures, cache.core.last_error, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.processes
def test_eight_processes_on_each_of_two_nodes_want_the_same_blocks_at_once(tmp_path: Path, source: Path) -> None:
    """Nobody waits for himself, or in a circle, until a time-out; each byte leaves the source once."""
    package = str(Path(kn.__file__).parent.parent)
    processes = []
    for number in range(16):
        script = CROWD.format(
            package=package,
            root=str(tmp_path / f"node-{number % 2}"),
            block=BLOCK,
            job=str(tmp_path / "job"),
            path=str(source),
            rate=SIZE,  # so that all are there before the first one is done
        )
        processes.append(start_child([sys.executable, "-c", script], stdin=-1))

    def each_says() -> list[list[str]]:
        lines = [process.stdout.readline().split() for process in processes if process.stdout]
        ended = [process for process, line in zip(processes, lines, strict=True) if not line]
        assert not ended, [process.communicate(timeout=60)[1] for process in ended]
        return lines

    def go_on() -> None:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

    assert each_says() == [["ready"]] * 16
    go_on()
    assert all(line[0] == "True" for line in each_says())
    go_on()
    said = each_says()
    assert sum(int(line[0]) for line in said) == SIZE, said
    assert sum(int(line[1]) for line in said) == SIZE
    assert all(line[2:] == ["0", "None"] for line in said), said
    go_on()


class FakeStore:
    """As a `torch.distributed.Store`: texts by names, and waiting for them."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.changed = threading.Condition()

    def set(self, name: str, text: str) -> None:
        with self.changed:
            self.texts[name] = text.encode()
            self.changed.notify_all()

    def get(self, name: str) -> bytes:
        return self.texts[name]

    def wait(self, names: list[str], timeout: timedelta) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: set(names) <= set(self.texts), timeout.total_seconds()):
                raise RuntimeError("wait timeout")


def test_addresses_come_through_the_store_of_torch(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FakeStore()
    caches = [cache(tmp_path, "A"), cache(tmp_path, "B")]
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(torch_store, "_exchanges", iter([0, 1, 2, 2, 3]))
    with NodeServer(caches[1].root, address=HERE, cache=caches[1]):
        # the other process, and a rank that has another key
        other = NodeFiles(caches[1].root).owner(caches[1].root)
        for turn in range(3):
            store.set(f"kinema-0-{turn}-1", signed(f"kinema-0-{turn}-1", "address", asdict(other)).decode())
        with SharedBlocks(caches[0], store=store, address=HERE) as nodes:
            assert [owner.node for owner in nodes.owners] == [NodeFiles(one.root).node for one in caches]
            assert everything(caches[0], source) == source.read_bytes()
            assert caches[0].core.counts()["bytes_peers"] > 0
            assert caches[0].core.counts()["peer_failures"] == 0
        store.set("kinema-0-1-1", store.texts["kinema-0-2-1"].decode())
        with pytest.raises(kn.CorruptFileError, match="forged"):
            SharedBlocks(caches[0], store=store, address=HERE)
        store.set("kinema-0-2-1", "[" * 50_000)
        with pytest.raises(kn.CorruptFileError, match="is not a Kinema address"):
            SharedBlocks(caches[0], store=store, address=HERE)
        monkeypatch.setenv("RANK", "1")
        del store.texts["kinema-0-2-0"]
        with pytest.raises(kn.WaitTimeoutError, match="not all 2 processes"):
            SharedBlocks(caches[0], store=store, address=HERE, timeout=0.05)
    with pytest.raises(kn.ArgumentError, match="in a process that torchrun has started, found 'torchrun'"):
        SharedBlocks(caches[0], store="torchrun", address=HERE)
    monkeypatch.delenv("RANK")
    with pytest.raises(kn.ArgumentError, match="needs RANK"):
        SharedBlocks(caches[0], store=store, address=HERE)


RANKS = """
from kinema.cache import NodeCache, SharedBlocks
from kinema.cache.counts import counts_of_all
comm = MPI.COMM_WORLD
# two ranks on each of two nodes
cache = NodeCache(f"node-{rank // 2}", limit="64 MiB", block=1 << 16)
with SharedBlocks(cache, comm=comm, address="127.0.0.1") as nodes:
    data = cache.core.open("source.bin").read_at(0, 1 << 30)
    comm.Barrier()
    counts = counts_of_all()
    right = data == open("source.bin", "rb").read()
    say("rank", rank, len(nodes.owners), right, counts.bytes_source, nodes.server.is_serving)
    comm.Barrier()
try:
    SharedBlocks(cache, comm=comm, address="192.0.2.7" if rank > 1 else "127.0.0.1").close()
except kn.Error as error:
    say("failed", rank, type(error).__name__, error)
else:
    say("fine", rank)
"""


@pytest.mark.processes
def test_ranks_tell_each_other_where_their_nodes_are(tmp_path: Path, source: Path, mpi: object) -> None:
    out = mpi.compute(4, RANKS, tmp_path)  # type: ignore[attr-defined]
    lines = [line.split() for line in out.splitlines() if line.startswith("rank")]
    assert sorted(line[1] for line in lines) == ["0", "1", "2", "3"]
    assert all(line[2:4] == ["2", "True"] for line in lines)
    assert sum(int(line[4]) for line in lines) == SIZE
    assert sum(line[5] == "True" for line in lines) == 2
    failed = sorted(line for line in out.splitlines() if line.startswith("failed"))
    assert len(failed) == 4, out
    for rank, line in enumerate(failed):
        assert re.match(rf"failed {rank} WorkerError rank [23]: cannot listen on address 192\.0\.2\.7", line)
