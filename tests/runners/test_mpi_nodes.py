"""The MPI runner on two nodes of two ranks each: network namespaces with names and a network of their own.

Ranks of one namespace share memory; they reach ranks of the other over TCP, and only through a pair of virtual
interfaces, whose counters tell what was sent. Needs Linux, root, `ip`, `unshare`, and the launcher of MPICH.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinema.testing import random_walk, write_xtc
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.processes

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
# addresses are the names of the nodes, so that nothing has to resolve any
ADDRESSES = ("10.213.77.1", "10.213.77.2")
# hydra calls it as ssh: options, a node, a command with its quotes
LAUNCHER = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
node=$1; shift
exec ip netns exec "$PREFIX-$node" unshare -u sh -c 'hostname "$0"; exec sh -c "$*"' "$node" "$@"
"""


class NewNodes:
    """Two network namespaces that are connected with each other and with nothing else."""

    def __init__(self, folder: Path) -> None:
        self.prefix = f"kinema-{os.getpid()}"
        self.launcher = folder / "launcher.sh"
        self.launcher.write_text(LAUNCHER.replace("$PREFIX", self.prefix))
        self.launcher.chmod(0o755)

    def make(self) -> None:
        """Makes the nodes; OSError if that is not allowed."""
        first, second = (f"{self.prefix}-{address}" for address in ADDRESSES)
        for name in (first, second):
            _ip("netns", "add", name)
        _ip("link", "add", "veth0", "netns", first, "type", "veth", "peer", "name", "veth0", "netns", second)
        for name, address in zip((first, second), ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "veth0")
            for interface in ("veth0", "lo"):
                _ip("-n", name, "link", "set", interface, "up")
        for name in (first, second):
            self._wait_until_up(name)

    @staticmethod
    def _wait_until_up(name: str) -> None:
        until = time.monotonic() + 120
        while "LOWER_UP" not in _ip("-n", name, "link", "show", "veth0"):
            if time.monotonic() > until:
                raise OSError(f"the interface of {name} does not come up")
            time.sleep(0.01)

    def run(self, mpi: Any, text: str, folder: Path) -> str:
        """Output of four ranks, two on each node; rank 0 is on the first."""
        assert MPIEXEC is not None
        (folder / "script.py").write_text(mpi.begin + text)
        words = [MPIEXEC, "-launcher", "ssh", "-launcher-exec", str(self.launcher), "-hosts", ",".join(ADDRESSES)]
        words += ["-ppn", "2", "-n", "4", sys.executable, "script.py"]
        # UCX and libfabric look at all interfaces, and take the loopback of one node for that of the other
        network = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "veth0", "FI_TCP_IFACE": "veth0"}
        words = ["sh", "-c", f"hostname {ADDRESSES[0]}; exec {shlex.join(words)}"]
        process = start_child(
            ["ip", "netns", "exec", f"{self.prefix}-{ADDRESSES[0]}", "unshare", "-u", *words],
            cwd=folder,
            env=mpi.environment(**network),
        )
        code, out, err = mpi.ended(process)
        assert code == 0, out + err
        return str(out)

    def remove(self) -> None:
        """Gives them back."""
        for address in ADDRESSES:
            subprocess.run(["ip", "netns", "del", f"{self.prefix}-{address}"], capture_output=True, timeout=120)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@pytest.fixture(scope="module")
def nodes(mpi: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewNodes]:
    """Two nodes; skipped if they cannot be made."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("network namespaces need root on Linux")
    missing = [name for name in ("ip", "unshare", "hostname") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here, which make nodes of network namespaces")
    if not mpi.is_mpich():
        pytest.skip("the launcher is not that of MPICH, which can be told how to reach a node")
    found = NewNodes(tmp_path_factory.mktemp("nodes"))
    try:
        found.make()
        yield found
    except OSError as error:
        pytest.skip(f"network namespaces are not allowed here ({error})")
    finally:
        found.remove()


SAME = """
from kinema.runners.mpi.communicator import Ranks
ranks = Ranks(MPI.COMM_WORLD)
say("node", rank, ranks.name, ranks.node.Get_size(), ranks.leaders != MPI.COMM_NULL)
ranks.free()
traj = kn.open("a.xtc")
expected = kn.analysis.RMSD(traj, groups=[[0, 1]]).run(runner="serial").results.rmsd
sums = kn.analysis.RMSF(traj, align="average").run(runner="serial").results.rmsf
for schedule in ("dynamic", "static"):
    for gather in ("collective", "one-sided"):
        mpi = kn.runners.MPI(schedule=schedule, gather=gather, results="all")
        both = [kn.analysis.RMSD(traj, groups=[[0, 1]]), kn.analysis.RMSF(traj, align="average")]
        rmsd, rmsf = kn.run(both, runner=mpi)
        assert rmsd.results.rmsd.tobytes() == expected.tobytes()
        assert rmsf.results.rmsf.tobytes() == sums.tobytes()
        assert len({worker.node for worker in rmsd.timings.workers}) == 2
mpi = kn.runners.MPI(gather="one-sided", results="spread")
with kn.analysis.RMSD(traj, groups=[[0, 1]]).run(runner=mpi).results.rmsd as array:
    assert np.asarray(array).tobytes() == expected.tobytes()
    MPI.COMM_WORLD.Barrier()
say("same", rank)
"""


def test_two_nodes_same_bits(mpi: Any, nodes: NewNodes, tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(2000, 12))
    lines = sorted(nodes.run(mpi, SAME, tmp_path).splitlines())
    first, second = ADDRESSES
    assert lines == [
        f"node 0 {first} 2 True",
        f"node 1 {first} 2 False",
        f"node 2 {second} 2 True",
        f"node 3 {second} 2 False",
        *(f"same {rank}" for rank in range(4)),
    ]


SENT = """
import time
def sent():
    # a virtual interface counts a packet when it is sent
    with open("/sys/class/net/veth0/statistics/tx_bytes") as file:
        return int(file.read())
mpi = kn.runners.MPI()
traj = mpi.open("a.xtc")
for what in (lambda: mpi.open("a.xtc"), lambda: kn.analysis.RMSD(traj, select=[0, 1]).run(frames=[7], runner=mpi)):
    MPI.COMM_WORLD.Barrier()
    before = sent() if rank == 0 else 0
    what()
    MPI.COMM_WORLD.Barrier()
    if rank == 0:
        say(len(traj.core.snapshot()), sent() - before)
"""


def test_what_rank_0_knows_is_sent_once_to_the_other_node(mpi: Any, nodes: NewNodes, tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(60_000, 3))
    lines = nodes.run(mpi, SENT, tmp_path).splitlines()
    assert len(lines) == 2
    for line in lines:
        known, sent = map(int, line.split())
        assert known > 400_000
        # once, with headers of packets and what else there is to say; twice would be for each of its ranks
        assert known < sent < 1.6 * known


COUNTING = """
import time
from kinema.runners.mpi.communicator import Ranks
ranks = Ranks(MPI.COMM_WORLD)
if rank == 0:
    ranks.counter.reset()
ranks.comm.Barrier()
mine = []
with ranks.counter.serving():
    # rank 0 computes until the other node has its numbers, and does not call MPI meanwhile
    while rank == 0 and not os.path.exists("enough"):
        np.ones((300, 300)) @ np.ones((300, 300))
    while rank == 2 and len(mine) < 100:
        mine.append(ranks.counter.next())
    if rank == 2:
        open("enough", "w").close()
    while (number := ranks.counter.next()) < 500:
        mine.append(number)
    ranks.comm.Barrier()
everyone = ranks.comm.gather(mine)
if rank == 0:
    say(sorted(number for one in everyone for number in one if number < 500) == list(range(500)))
ranks.free()
"""


def test_numbers_for_the_other_node_while_their_owner_computes(mpi: Any, nodes: NewNodes, tmp_path: Path) -> None:
    assert nodes.run(mpi, COUNTING, tmp_path) == "True\n"


BLOCKS = """
from kinema.cache import NodeCache, SharedBlocks
from kinema.cache.counts import counts_of_all
comm = MPI.COMM_WORLD
cache = NodeCache(f"node-{rank // 2}", limit="64 MiB", block=1 << 16)
with SharedBlocks(cache, comm=comm, transfer="one-sided", peer_timeout=60):
    with open("source.bin", "rb") as file:
        right = cache.core.open("source.bin").read_at(0, 1 << 30) == file.read()
    comm.Barrier()
    counts = counts_of_all()
    say(rank, right, counts.bytes_source, counts.bytes_peers, counts.peer_failures)
    comm.Barrier()
"""


def test_blocks_cross_one_sided_from_node_to_node_once(tmp_path: Path, mpi: Any, nodes: NewNodes) -> None:
    size = 40 * (1 << 16) + 777
    (tmp_path / "source.bin").write_bytes(os.urandom(size))
    lines = sorted(line.split() for line in nodes.run(mpi, BLOCKS, tmp_path).splitlines())
    assert [line[:2] for line in lines] == [[str(rank), "True"] for rank in range(4)]
    assert sum(int(line[2]) for line in lines) == size
    assert sum(int(line[3]) for line in lines) == size
    assert all(line[4] == "0" for line in lines)
