"""`EmulatedMachine`: the storage, network and nodes of a platform in virtual time, and the ranks that run on them.

A read goes from the rank's node to each storage target of its stripes: latency of the network, queue and service of the
target, queue and transfer of the node's link, latency. Requests are at most `request_bytes` long, and all requests of
one read are on their way together. Files have no contents here: see `client_caches`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kinema.base.errors import ArgumentError
from kinema.base.timings import BLOCK_PHASES
from kinema.studies.lab.operations import (
    Acquire,
    Announce,
    Await,
    Barrier,
    Compute,
    GatherTo,
    Metadata,
    Operation,
    Pause,
    PutTo,
    RankProgram,
    ReadBytes,
    ReceiveFrom,
    Release,
    SendTo,
    StoredFile,
    WriteBytes,
)
from kinema.studies.lab.platform import Platform
from kinema.studies.lab.virtual_time import FifoQueue, MutualExclusion, Process, Signal, VirtualTime


@dataclass
class RankTimes:
    """Times of one rank, nanoseconds by phase (`kinema.base.timings.PHASES`), and what it did.

    "put" and "gather" are parts of "communicate".

    `blocks` has a row for each block: position, frames, start, and ns of "io", "decode" and "compute".
    """

    rank: int
    node: int
    phases: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    end: int = 0
    frames: int = 0
    bytes_read: int = 0
    reads: int = 0
    bytes_written: int = 0
    metadata: int = 0
    blocks: list[tuple[int, ...]] = field(default_factory=list)


def place_ranks(n_ranks: int, n_nodes: int) -> list[int]:
    """The node of each rank: nodes are filled one after the other, with equal numbers of ranks where that works out.

    Raises ArgumentError for more nodes than ranks.
    """
    if not 1 <= n_nodes <= n_ranks:
        raise ArgumentError(f"nodes must be from 1 to the number of ranks, {n_ranks}, found {n_nodes}")
    return [rank * n_nodes // n_ranks for rank in range(n_ranks)]


class _Node:
    """Cores, link, memory and caches of a node."""

    def __init__(self, time: VirtualTime, platform: Platform) -> None:
        self.cores = FifoQueue(time, platform.cores)
        self.incoming, self.outgoing = FifoQueue(time), FifoQueue(time)
        self.memory, self.device = FifoQueue(time), FifoQueue(time)
        # by cache, file and number of the request in the file: when its bytes are there
        self.kept: dict[tuple[str, str, int], Signal] = {}


class _Collective:
    """A barrier or a gather that all ranks take part in."""

    def __init__(self, time: VirtualTime) -> None:
        self.arrived = self.received = 0
        self.root_is_there, self.all_arrived, self.complete = Signal(time), Signal(time), Signal(time)


class _Mailbox:
    """Messages from one rank to another, and receives that wait for them."""

    def __init__(self) -> None:
        self.sent: deque[_Message] = deque()
        self.wanted: deque[Signal] = deque()


@dataclass(slots=True)
class _Message:
    size: int
    accepted: Signal
    arrived: Signal


class _Rank:
    """A rank that runs: its clock, and the number of its next collective call."""

    def __init__(self, number: int, node: int) -> None:
        self.times = RankTimes(number, node)
        self.number = number
        self.n_collective = 0


class EmulatedMachine:
    """Runs one program on ranks.

    `nodes`: the node of each rank, as `place_ranks` gives it.
    """

    def __init__(self, platform: Platform, nodes: Sequence[int]) -> None:
        self.platform = platform
        self.time = VirtualTime()
        self.targets = [FifoQueue(self.time, ahead=platform.ahead) for _ in range(platform.targets)]
        self._metadata = FifoQueue(self.time)
        self._nodes = [_Node(self.time, platform) for _ in range(max(nodes) + 1)]
        self._placed = list(nodes)
        # where the last request of each target ended
        self._heads: dict[int, tuple[str, int]] = {}
        # of each lock unit of a file: its queue, and the node that holds it
        self._locks: dict[tuple[str, int], MutualExclusion] = {}
        self._holders: dict[tuple[str, int], int] = {}
        self._collectives: dict[int, _Collective] = {}
        self._mail: dict[tuple[int, int], _Mailbox] = defaultdict(_Mailbox)
        self._announced: dict[str, Signal] = defaultdict(lambda: Signal(self.time))
        self._held: dict[str, MutualExclusion] = defaultdict(lambda: MutualExclusion(self.time))

    def run(self, program: RankProgram) -> list[RankTimes]:
        """Runs the program on all ranks, once, and returns the times of each.

        Raises ArgumentError if ranks wait for each other for ever.
        """
        ranks = [_Rank(number, node) for number, node in enumerate(self._placed)]
        for rank in ranks:
            self.time.start(self._rank(rank, program(rank.number)))
        self.time.run()
        return [rank.times for rank in ranks]

    # -- ranks ---------------------------------------------------------------------------------------------------------

    def _rank(self, rank: _Rank, program: Iterator[Operation]) -> Process:
        times, time = rank.times, self.time
        block: dict[str, int] = dict.fromkeys(BLOCK_PHASES, 0)
        block_began = 0
        for operation in program:
            began = time.now
            if not isinstance(operation, (Compute, ReadBytes, WriteBytes)):
                yield from self._other(rank, operation)
                continue
            if not any(block.values()):
                block_began = began
            if isinstance(operation, Compute):
                yield self._nodes[times.node].cores.serve(operation.ns)
                block[operation.phase] += operation.ns
                times.phases[operation.phase] += operation.ns
                times.phases["wait"] += time.now - began - operation.ns
                if operation.frames:
                    times.frames += operation.frames
                    times.blocks.append((operation.position, operation.frames, block_began, *block.values()))
                    block = dict.fromkeys(BLOCK_PHASES, 0)
                continue
            if isinstance(operation, ReadBytes):
                yield from self._read(times.node, operation)
                times.bytes_read += operation.size
                times.reads += 1
            else:
                yield from self._write(times.node, operation)
                times.bytes_written += operation.size
            block["io"] += time.now - began
            times.phases["io"] += time.now - began
        times.end = time.now

    def _other(self, rank: _Rank, operation: Operation) -> Process:
        times, began = rank.times, self.time.now
        if isinstance(operation, Metadata):
            yield from self._ask_metadata(operation)
            times.metadata += 1
            times.phases["close" if operation.what == "close" else "open"] += self.time.now - began
        elif isinstance(operation, Barrier):
            collective = self._next_collective(rank)
            collective.arrived += 1
            if collective.arrived == len(self._placed):
                collective.complete.fire()
            yield collective.complete
            times.phases["wait"] += self.time.now - began
            # as many messages as a tree of all ranks has levels
            levels = (len(self._placed) - 1).bit_length()
            yield self.time.now + levels * self.platform.link_latency
            times.phases["communicate"] += levels * self.platform.link_latency
        elif isinstance(operation, GatherTo):
            yield from self._gather(rank, operation)
        elif isinstance(operation, PutTo):
            yield from self._move(times.node, self._placed[operation.rank], operation.size)
            # the answer that the bytes are there
            yield self.time.now + self._latency(times.node, self._placed[operation.rank])
            times.phases["communicate"] += self.time.now - began
            times.phases["put"] += self.time.now - began
        elif isinstance(operation, SendTo):
            yield from self._send(rank, operation)
        elif isinstance(operation, ReceiveFrom):
            yield from self._receive(rank, operation)
        elif isinstance(operation, Pause):
            yield began + operation.ns
            times.phases["compute"] += operation.ns
        else:
            yield from self._ordered(operation)
            times.phases["wait"] += self.time.now - began

    def _ordered(self, operation: Operation) -> Process:
        """Names and locks that processes wait for; they take no time of their own."""
        if isinstance(operation, Announce):
            self._announced[operation.what].fire()
        elif isinstance(operation, Await):
            if not self._announced[operation.what].fired:
                yield self._announced[operation.what]
        elif isinstance(operation, Acquire):
            yield from self._held[operation.lock].acquire()
        elif isinstance(operation, Release):
            self._held[operation.lock].release()

    # -- messages ------------------------------------------------------------------------------------------------------

    def _latency(self, sender: int, receiver: int) -> int:
        return self.platform.memory_latency if sender == receiver else self.platform.link_latency

    def _move(self, sender: int, receiver: int, size: int) -> Process:
        """Bytes from node to node: the links of both, or the memory of one."""
        platform = self.platform
        if sender == receiver:
            yield self._nodes[sender].memory.serve(platform.memory_ns(size)) + platform.memory_latency
        else:
            yield self._nodes[sender].outgoing.serve(platform.link_ns(size)) + platform.link_latency
            # the last byte arrives with the first free moment of the receiver's link
            yield self._nodes[receiver].incoming.serve(platform.link_ns(size))

    def _next_collective(self, rank: _Rank) -> _Collective:
        """The collective call that this rank's next one belongs to."""
        number = rank.n_collective
        rank.n_collective += 1
        return self._collectives.setdefault(number, _Collective(self.time))

    def _gather(self, rank: _Rank, operation: GatherTo) -> Process:
        times, time = rank.times, self.time
        collective = self._next_collective(rank)
        collective.arrived += 1
        last = collective.arrived == len(self._placed)
        began = time.now
        if rank.number == operation.root:
            collective.root_is_there.fire()
            collective.received += 1
            if collective.received == len(self._placed):
                collective.complete.fire()
            # waiting until the last rank has begun to send is not communication
            if not last:
                yield collective.all_arrived
            times.phases["wait"] += time.now - began
            began = time.now
            yield collective.complete
            times.phases["communicate"] += time.now - began
            times.phases["gather"] += time.now - began
            return
        if last:
            collective.all_arrived.fire()
        if operation.size > self.platform.eager_bytes:
            yield collective.root_is_there
            times.phases["wait"] += time.now - began
            began = time.now
            yield from self._deliver(times.node, operation, collective)
        else:
            time.start(self._deliver(times.node, operation, collective))
            yield time.now + self._latency(times.node, self._placed[operation.root])
        times.phases["communicate"] += time.now - began
        times.phases["gather"] += time.now - began

    def _deliver(self, sender: int, operation: GatherTo, collective: _Collective) -> Process:
        yield from self._move(sender, self._placed[operation.root], operation.size)
        collective.received += 1
        if collective.received == len(self._placed):
            collective.complete.fire()

    def _send(self, rank: _Rank, operation: SendTo) -> Process:
        times, time = rank.times, self.time
        box = self._mail[rank.number, operation.rank]
        message = _Message(operation.size, Signal(time), Signal(time))
        box.sent.append(message)
        if box.wanted:
            box.wanted.popleft().fire()
        began = time.now
        if operation.size > self.platform.eager_bytes:
            yield message.accepted
            times.phases["wait"] += time.now - began
            began = time.now
            yield from self._carry(times.node, operation.rank, message)
        else:
            time.start(self._carry(times.node, operation.rank, message))
            yield time.now + self._latency(times.node, self._placed[operation.rank])
        times.phases["communicate"] += time.now - began

    def _carry(self, sender: int, receiver: int, message: _Message) -> Process:
        yield from self._move(sender, self._placed[receiver], message.size)
        message.arrived.fire()

    def _receive(self, rank: _Rank, operation: ReceiveFrom) -> Process:
        times, time = rank.times, self.time
        box = self._mail[operation.rank, rank.number]
        began = time.now
        if not box.sent:
            wanted = Signal(time)
            box.wanted.append(wanted)
            yield wanted
        message = box.sent.popleft()
        times.phases["wait"] += time.now - began
        began = time.now
        message.accepted.fire()
        yield message.arrived
        times.phases["communicate"] += time.now - began

    # -- storage -------------------------------------------------------------------------------------------------------

    def _ask_metadata(self, operation: Metadata) -> Process:
        platform = self.platform
        yield self.time.now + platform.link_latency
        yield self._metadata.serve(platform.metadata_ns) + platform.link_latency
        if operation.what == "stat" and operation.file is not None:
            targets = range(operation.file.start, operation.file.start + operation.file.stripes)
            yield from self._together([self._ask_size(target % platform.targets) for target in targets])

    def _ask_size(self, target: int) -> Process:
        yield self.time.now + self.platform.link_latency
        yield self.targets[target].serve(self.platform.request_latency) + self.platform.link_latency

    def _read(self, node: int, operation: ReadBytes) -> Process:
        if operation.keep:
            yield from self._read_kept(node, operation)
        else:
            pieces = requests_of(self.platform, operation.file, operation.offset, operation.size)
            yield from self._together([self._fetch(node, *piece) for piece in pieces])

    def _read_kept(self, node: int, operation: ReadBytes) -> Process:
        """Reads through a cache of the node: the first rank that wants a piece fetches it, the others wait for it."""
        own, unit = self._nodes[node], self.platform.request_bytes
        first, last = operation.offset // unit, (operation.offset + operation.size - 1) // unit
        fetched = 0
        for number in range(first, last + 1):
            key = (operation.keep, operation.file.name, number)
            there = own.kept.get(key)
            if there is None:
                there = own.kept[key] = Signal(self.time)
                size = min(unit, operation.file.size - number * unit)
                pieces = requests_of(self.platform, operation.file, number * unit, size)
                yield from self._together([self._fetch(node, *piece) for piece in pieces])
                there.fire()
                fetched += size
                if operation.keep == "node":
                    # written while the rank continues
                    own.device.serve(self.platform.local_ns(size))
            else:
                yield there
        kept = operation.size - min(fetched, operation.size)
        if kept and operation.keep == "node":
            yield own.device.serve(self.platform.local_ns(kept)) + self.platform.local_latency
        elif kept:
            yield own.memory.serve(self.platform.memory_ns(kept)) + self.platform.memory_latency

    def _fetch(self, node: int, file: StoredFile, target: int, at: int, size: int) -> Process:
        platform = self.platform
        yield self.time.now + platform.link_latency
        yield self._serve(file, target, at, size, platform.read_ns(size))
        yield self._nodes[node].incoming.serve(platform.link_ns(size)) + platform.link_latency

    def _serve(self, file: StoredFile, target: int, at: int, size: int, ns: int) -> int:
        """The time at which a target is done; `at` is the place in its own part of the file."""
        if self.platform.seek and self._heads.get(target) != (file.name, at):
            ns += self.platform.seek
        self._heads[target] = (file.name, at + size)
        return self.targets[target].serve(self.platform.request_latency + ns)

    def _write(self, node: int, operation: WriteBytes) -> Process:
        units = self._lock_units(operation)
        for unit in units:
            yield from self._locks.setdefault(unit, MutualExclusion(self.time)).acquire()
            if self._holders.setdefault(unit, node) != node:
                yield self.time.now + self.platform.lock_revoke
                self._holders[unit] = node
        pieces = requests_of(self.platform, operation.file, operation.offset, operation.size)
        yield from self._together([self._store(node, *piece) for piece in pieces])
        for unit in units:
            self._locks[unit].release()

    def _store(self, node: int, file: StoredFile, target: int, at: int, size: int) -> Process:
        platform = self.platform
        yield self._nodes[node].outgoing.serve(platform.link_ns(size)) + platform.link_latency
        yield self._serve(file, target, at, size, platform.write_ns(size)) + platform.link_latency

    def _lock_units(self, operation: WriteBytes) -> list[tuple[str, int]]:
        """The parts of a file that a write locks, in ascending order, so that no two writers wait for each other."""
        unit = self.platform.lock_bytes
        if not unit or not operation.size:
            return []
        first, last = operation.offset // unit, (operation.offset + operation.size - 1) // unit
        return [(operation.file.name, number) for number in range(first, last + 1)]

    def _together(self, processes: list[Process]) -> Process:
        """Runs processes at the same time, and continues when all have ended."""
        if len(processes) == 1:
            yield from processes[0]
            return
        done = Signal(self.time)
        left = [len(processes)]
        for process in processes:
            self.time.start(_counted_down(process, left, done))
        if processes:
            yield done


def _counted_down(process: Process, left: list[int], done: Signal) -> Process:
    yield from process
    left[0] -= 1
    if not left[0]:
        done.fire()


def requests_of(platform: Platform, file: StoredFile, offset: int, size: int) -> list[tuple[StoredFile, int, int, int]]:
    """The requests of a read or write: file, target, place in the target's part of the file, bytes."""
    unit, stripes = platform.stripe_bytes, min(file.stripes, platform.targets)
    # parts of each target that follow each other become one request, up to the largest
    open_requests: dict[int, tuple[int, int]] = {}
    found: list[tuple[StoredFile, int, int, int]] = []
    end = offset + size
    while offset < end:
        number, within = divmod(offset, unit)
        length = min(unit - within, end - offset)
        target = (file.start + number % stripes) % platform.targets
        at = number // stripes * unit + within
        offset += length
        while length:
            began, taken = open_requests.get(target, (at, 0))
            if began + taken != at or taken == platform.request_bytes:
                found.append((file, target, began, taken))
                began, taken = at, 0
            part = min(length, platform.request_bytes - taken)
            open_requests[target] = (began, taken + part)
            at, length = at + part, length - part
    found += [(file, target, began, taken) for target, (began, taken) in open_requests.items() if taken]
    return found
