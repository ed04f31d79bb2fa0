"""The simulation agrees with closed forms within 1 %, and refuses what cannot end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kinema.base.errors import ArgumentError
from kinema.studies.lab.machine import EmulatedMachine, place_ranks
from kinema.studies.lab.operations import (
    Barrier,
    Compute,
    GatherTo,
    Metadata,
    Operation,
    PutTo,
    RankProgram,
    ReadBytes,
    ReceiveFrom,
    SendTo,
    StoredFile,
    WriteBytes,
)
from kinema.studies.lab.platform import read_platform
from kinema.studies.lab.virtual_time import FifoQueue, Process, VirtualTime

MIB = 1 << 20
SECOND = 1_000_000_000
# no latencies, links that cost nothing, no locks: what is left is what a test sets
IDEAL = replace(
    read_platform("lustre"), targets=16, read_rate=100 * MIB, write_rate=100 * MIB, request_latency=0, link_latency=0,
    link_rate=10**15, memory_rate=10**15, memory_latency=0, lock_bytes=0, metadata_rate=1000, eager_bytes=0,
)  # fmt: skip


def reads(file: StoredFile, n_reads: int, size: int) -> RankProgram:
    """A program of ranks that read one part of the file each."""

    def program(rank: int) -> Iterator[Operation]:
        for number in range(n_reads):
            yield ReadBytes(file, (rank * n_reads + number) * size, size)

    return program


@pytest.mark.parametrize("n_clients", [1, 3, 16])
def test_one_target_is_shared_by_all_clients(n_clients: int) -> None:
    platform = replace(IDEAL, targets=1, request_latency=2_000_000)
    machine = EmulatedMachine(platform, place_ranks(n_clients, n_clients))
    ranks = machine.run(reads(StoredFile("f", 1 << 40), 50, MIB))
    seconds = n_clients * 50 * (0.01 + 0.002)
    assert machine.time.now / SECOND == pytest.approx(seconds, rel=0.01)
    # every client gets the same share
    assert min(rank.end for rank in ranks) / SECOND == pytest.approx(seconds, rel=0.02)
    assert machine.targets[0].busy == pytest.approx(machine.time.now, rel=1e-6)


@pytest.mark.parametrize(("stripes", "n_clients"), [(1, 4), (4, 4), (16, 4), (16, 1)])
def test_stripes_add_up_until_the_links_are_full(stripes: int, n_clients: int) -> None:
    """Each read covers all stripes several times; the link of a single client carries a quarter of what they give."""
    link = 400 * MIB if n_clients == 1 else 1600 * MIB
    platform = replace(IDEAL, link_rate=link)
    machine = EmulatedMachine(platform, place_ranks(n_clients, n_clients))
    machine.run(reads(StoredFile("f", 1 << 40, stripes), 40, 64 * MIB))
    limit = min(stripes * 100 * MIB, n_clients * link)
    # a link that is full still waits for the first request of each read
    first = 40 * 0.01 if n_clients * link == limit else 0.0
    assert machine.time.now / SECOND - first == pytest.approx(n_clients * 40 * 64 * MIB / limit, rel=0.01)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_mean_waiting_of_random_arrivals(load: float) -> None:
    """M/D/1: load x service / (2 (1 - load))."""
    time, service, n = VirtualTime(), 1_000_000, 400_000
    queue, arrivals = FifoQueue(time), random.Random(43)
    waited = 0

    def customer() -> Process:
        nonlocal waited
        done = queue.serve(service)
        waited += done - service - time.now
        yield done

    def source() -> Process:
        for _ in range(n):
            yield time.now + round(arrivals.expovariate(load / service))
            time.start(customer())

    time.start(source())
    time.run()
    assert waited / n == pytest.approx(load * service / (2 * (1 - load)), rel=0.01)


@pytest.mark.parametrize("n_nodes", [1, 2, 6])
def test_writers_of_one_stripe_form_a_convoy(n_nodes: int) -> None:
    """If writers of several nodes take turns in one unit, each write waits for the lock and for all writes before."""
    platform = replace(IDEAL, lock_bytes=MIB, lock_revoke=5_000_000)
    machine = EmulatedMachine(platform, place_ranks(n_nodes, n_nodes))
    file, size, n_writes = StoredFile("f", 1 << 30), MIB // 64, 100

    def program(rank: int) -> Iterator[Operation]:
        for _ in range(n_writes):
            yield WriteBytes(file, rank * size, size)

    machine.run(program)
    revoked = n_nodes * n_writes - 1 if n_nodes > 1 else 0
    seconds = n_nodes * n_writes * size / (100 * MIB) + revoked * 0.005
    assert machine.time.now / SECOND == pytest.approx(seconds, rel=0.01)


def test_writers_in_units_of_their_own_do_not_wait() -> None:
    platform = replace(IDEAL, lock_bytes=MIB, lock_revoke=5_000_000)
    machine = EmulatedMachine(platform, place_ranks(8, 8))
    file = StoredFile("f", 1 << 30, 8)
    machine.run(lambda rank: iter([WriteBytes(file, rank * MIB, MIB)] * 20))
    assert machine.time.now / SECOND == pytest.approx(20 * 0.01, rel=0.01)


def test_a_seek_is_paid_where_readers_take_turns() -> None:
    platform = replace(IDEAL, targets=1, seek=10_000_000)
    alone = EmulatedMachine(platform, [0])
    alone.run(reads(StoredFile("f", 1 << 40), 100, MIB))
    two = EmulatedMachine(platform, [0, 0])
    two.run(reads(StoredFile("f", 1 << 40), 100, MIB))
    assert alone.time.now / SECOND == pytest.approx(100 * 0.01 + 0.01, rel=0.01)
    assert two.time.now / SECOND == pytest.approx(200 * (0.01 + 0.01), rel=0.01)


def test_an_idle_target_reads_ahead() -> None:
    """Half a second of idle time, of which 0.1 s is used."""
    machine = EmulatedMachine(replace(IDEAL, targets=1, ahead=100_000_000), [0])
    file = StoredFile("f", 1 << 40)
    twenty = [ReadBytes(file, number * MIB, MIB) for number in range(20)]
    machine.run(lambda _rank: iter([*twenty, Compute(SECOND // 2), *twenty]))
    assert machine.time.now / SECOND == pytest.approx(0.2 - 0.1 + 0.5 + 0.2 - 0.1, rel=0.01)


def test_requests_of_metadata_queue() -> None:
    file = StoredFile("f", 1, 4)
    machine = EmulatedMachine(IDEAL, place_ranks(20, 4))
    ranks = machine.run(lambda _rank: iter([Metadata("open", file)] * 50))
    assert machine.time.now / SECOND == pytest.approx(20 * 50 / 1000, rel=0.01)
    assert sum(rank.metadata for rank in ranks) == 1000
    # a stat asks each target of the file as well
    slow = replace(IDEAL, request_latency=100_000_000, metadata_rate=10**9)
    machine = EmulatedMachine(slow, [0])
    machine.run(lambda _rank: iter([Metadata("stat", file)] * 10))
    assert machine.time.now / SECOND == pytest.approx(10 * 0.1, rel=0.01)


def test_more_ranks_than_cores_take_turns() -> None:
    machine = EmulatedMachine(replace(IDEAL, cores=4), [0] * 8)
    ranks = machine.run(lambda _rank: iter([Compute(1_000_000, frames=2)] * 100))
    assert machine.time.now == 2 * 100 * 1_000_000
    assert [rank.phases["compute"] for rank in ranks] == [100 * 1_000_000] * 8
    assert sum(rank.phases["wait"] for rank in ranks) > 0 and all(rank.frames == 200 for rank in ranks)


# -- messages ----------------------------------------------------------------------------------------------------------

NETWORK = replace(IDEAL, link_rate=1000 * MIB, link_latency=1_000_000, memory_rate=4000 * MIB, cores=24)


def test_a_gather_fills_the_link_of_its_root() -> None:
    machine = EmulatedMachine(NETWORK, place_ranks(9, 9))
    ranks = machine.run(lambda _rank: iter([GatherTo(0, 100 * MIB)]))
    # the first byte comes after one message on the sender's link
    assert machine.time.now / SECOND == pytest.approx(0.1 + 0.001 + 8 * 0.1, rel=0.01)
    assert ranks[0].end == machine.time.now


def test_a_late_root_makes_the_others_wait_but_not_if_they_put() -> None:
    def gather(rank: int) -> Iterator[Operation]:
        yield Compute(SECOND if rank == 0 else 1)
        yield GatherTo(0, MIB)

    def put(rank: int) -> Iterator[Operation]:
        yield Compute(SECOND if rank == 0 else 1)
        yield PutTo(0, MIB)

    waiting = EmulatedMachine(NETWORK, place_ranks(4, 4)).run(gather)
    alone = EmulatedMachine(NETWORK, place_ranks(4, 4)).run(put)
    assert all(rank.phases["wait"] / SECOND == pytest.approx(1, rel=0.01) for rank in waiting[1:])
    assert all(rank.end < 0.01 * SECOND and rank.phases["wait"] == 0 for rank in alone[1:])
    # short messages are sent without waiting for the root
    eager = EmulatedMachine(replace(NETWORK, eager_bytes=2 * MIB), place_ranks(4, 4)).run(gather)
    assert all(rank.end < 0.01 * SECOND for rank in eager[1:]) and eager[0].frames == 0


def test_messages_arrive_in_order_and_ring_programs_end() -> None:
    def ring(rank: int) -> Iterator[Operation]:
        if rank == 0:
            yield SendTo(1, 10 * MIB)
            yield ReceiveFrom(3)
        else:
            yield ReceiveFrom(rank - 1)
            yield SendTo((rank + 1) % 4, 10 * MIB)

    machine = EmulatedMachine(NETWORK, place_ranks(4, 4))
    machine.run(ring)
    # each hop: the sender's link, the latency, the receiver's link
    assert machine.time.now / SECOND == pytest.approx(4 * (0.01 + 0.001 + 0.01), rel=0.01)


def test_programs_that_wait_for_ever_are_refused() -> None:
    machine = EmulatedMachine(NETWORK, [0, 0])
    with pytest.raises(ArgumentError, match="wait for each other: 1 never"):
        machine.run(lambda rank: iter([Barrier()] if rank else []))


def test_ranks_and_transfers_share_a_link() -> None:
    """The 2020 publication suspected that messages and I/O disturb each other: a shared link shows what that does."""
    slow = replace(NETWORK, link_rate=100 * MIB, read_rate=10_000 * MIB)
    file = StoredFile("f", 1 << 40, 16)

    def program(rank: int) -> Iterator[Operation]:
        if rank == 0:
            yield ReadBytes(file, 0, 100 * MIB)
        else:
            yield PutTo(0, 100 * MIB)

    alone = EmulatedMachine(slow, [0]).run(program)
    both = EmulatedMachine(slow, place_ranks(2, 2)).run(program)
    assert both[1].end > 1.5 * alone[0].end


def test_the_same_program_gives_the_same_times() -> None:
    def program(rank: int) -> Iterator[Operation]:
        file = StoredFile("f", 1 << 30, 4, rank)
        yield Metadata("open", file)
        for number in range(20):
            yield ReadBytes(file, number * 3_000_000, 3_000_000, "memory" if number % 2 else "")
            yield Compute(rank * 1000 + number, frames=1)
        yield GatherTo(1, 200_000)

    platform = read_platform("lustre")
    first, second = (EmulatedMachine(platform, place_ranks(24, 3)).run(program) for _ in range(2))
    assert first == second


def test_places_of_ranks() -> None:
    assert place_ranks(6, 2) == [0, 0, 0, 1, 1, 1] and place_ranks(5, 2) == [0, 0, 0, 1, 1]
    with pytest.raises(ArgumentError, match="nodes must be from 1 to the number of ranks, 2, found 3"):
        place_ranks(2, 3)
