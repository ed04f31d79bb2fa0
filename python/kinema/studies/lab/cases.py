"""Programs of the publications' other experiments: many ranks write one file, and ranks read samples for training.

Each function gives a program, and `kinema.studies.lab.replay.emulate` its times. Numbers are those of the publications
if nothing else is said.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kinema.studies.lab.operations import (
    Barrier,
    Compute,
    GatherTo,
    Metadata,
    Operation,
    RankProgram,
    ReadBytes,
    ReceiveFrom,
    SendTo,
    StoredFile,
    WriteBytes,
)

# bytes of a call that writes, of the ranks that write much
_BATCH = 8 << 20


@dataclass(frozen=True)
class AtomRecord:
    """A record of three float64: bytes in the file, and nanoseconds of CPU time to format a byte of it."""

    size: int
    encode_ns: int


# formatting: assumption, 1 microsecond for a number of 20 characters
ASCII = AtomRecord(73, 50)
BINARY = AtomRecord(24, 0)


def _share(size: int, n_ranks: int, rank: int) -> tuple[int, int]:
    """Offset and end of a rank's part."""
    return size * rank // n_ranks, size * (rank + 1) // n_ranks


def _written(file: StoredFile, begin: int, end: int) -> Iterator[Operation]:
    for offset in range(begin, end, _BATCH):
        yield WriteBytes(file, offset, min(_BATCH, end - offset))


def serial_write(file: StoredFile, n_ranks: int, record: AtomRecord = ASCII) -> RankProgram:
    """SDAW of the DL_POLY publication: all atoms go to rank 0, which formats and writes them."""

    def program(rank: int) -> Iterator[Operation]:
        begin, end = _share(file.size * BINARY.size // record.size, n_ranks, rank)
        yield GatherTo(0, end - begin)
        if rank == 0:
            yield Metadata("create", file)
            for operation in _written(file, 0, file.size):
                assert isinstance(operation, WriteBytes)
                yield Compute(operation.size * record.encode_ns)
                yield operation
            yield Metadata("close", file)
        yield Barrier()

    return program


def direct_write(file: StoredFile, n_ranks: int, record: AtomRecord = ASCII) -> RankProgram:
    """PDAW: each rank formats its atoms and writes them at the place that their number gives."""

    def program(rank: int) -> Iterator[Operation]:
        yield Metadata("open" if rank else "create", file)
        for operation in _written(file, *_share(file.size, n_ranks, rank)):
            assert isinstance(operation, WriteBytes)
            yield Compute(operation.size * record.encode_ns)
            yield operation
        yield Metadata("close", file)
        yield Barrier()

    return program


def independent_write(file: StoredFile, n_ranks: int, piece: int) -> RankProgram:
    """Ranks write pieces in turn: piece i of the file is of rank i modulo `n_ranks`, and each is a write of its own."""

    def program(rank: int) -> Iterator[Operation]:
        yield Metadata("open" if rank else "create", file)
        for offset in range(rank * piece, file.size, n_ranks * piece):
            size = min(piece, file.size - offset)
            yield Compute(size * ASCII.encode_ns)
            yield WriteBytes(file, offset, size)
        yield Metadata("close", file)
        yield Barrier()

    return program


def collective_write(file: StoredFile, n_ranks: int, n_writers: int, record: AtomRecord = ASCII) -> RankProgram:
    """The same pieces through MPI-IO's collective calls: ranks send them to `n_writers` ranks, which write whole parts.

    Writers are evenly spaced among the ranks, so that they are on different nodes if there are as many.
    """
    writers = [n_ranks * number // n_writers for number in range(n_writers)]

    def program(rank: int) -> Iterator[Operation]:
        yield Metadata("open" if rank else "create", file)
        for number, writer in enumerate(writers):
            begin, end = _share(file.size, n_writers, number)
            own = (end - begin) // n_ranks
            yield Compute(own * record.encode_ns)
            if rank != writer:
                yield SendTo(writer, own)
                continue
            for other in range(n_ranks):
                if other != writer:
                    yield ReceiveFrom(other)
            yield from _written(file, begin, end)
        yield Metadata("close", file)
        yield Barrier()

    return program


def read_files(n_ranks: int, n_files: int, size: int, stripes: int) -> RankProgram:
    """Each rank opens and reads its share of files, each as a whole: a file for each frame, or a few large files."""

    def program(rank: int) -> Iterator[Operation]:
        for number in range(*_share(n_files, n_ranks, rank)):
            file = StoredFile(f"{number}", size, stripes, number * stripes)
            yield Metadata("open", file)
            yield Metadata("stat", file)
            for offset in range(0, size, _BATCH):
                yield ReadBytes(file, offset, min(_BATCH, size - offset))
            yield Metadata("close", file)

    return program


def sample_epochs(
    n_ranks: int,
    n_samples: int,
    sample_bytes: int,
    *,
    stored: Literal["a file a sample", "one file"],
    stripes: int,
    n_epochs: int = 1,
    cached: bool = False,
    seed: int = 2024,
) -> RankProgram:
    """Ranks read samples in random order, each its share in each epoch; ranks have the same share in every epoch.

    `cached`: through the drive of the node. All ranks wait for each other at the end of an epoch.
    """
    order = list(range(n_samples))
    random.Random(seed).shuffle(order)
    whole = StoredFile("samples", n_samples * sample_bytes, stripes)

    def program(rank: int) -> Iterator[Operation]:
        own = order[slice(*_share(n_samples, n_ranks, rank))]
        if stored == "one file":
            yield Metadata("open", whole)
        for epoch in range(n_epochs):
            random.Random(seed * 1000 + epoch * n_ranks + rank).shuffle(own)
            for number in own:
                file, offset = whole, number * sample_bytes
                if stored == "a file a sample":
                    file, offset = StoredFile(f"{number}", sample_bytes, stripes, number * stripes), 0
                    yield Metadata("open", file)
                    yield Metadata("stat", file)
                yield ReadBytes(file, offset, sample_bytes, keep="node" if cached else "")
                if stored == "a file a sample":
                    yield Metadata("close", file)
            yield Barrier()

    return program


def split_trajectory(
    file: StoredFile, n_frames: int, n_ranks: int, frame_ns: int, part_stripes: int = 1
) -> RankProgram:
    """Each rank reads its share of the frames and writes them into a file of its own, in blocks.

    `frame_ns` is the CPU time to decode and encode a frame; 0 if frames are copied as bytes.
    """

    def program(rank: int) -> Iterator[Operation]:
        first, stop = _share(n_frames, n_ranks, rank)
        begin, end = (file.size * frame // n_frames for frame in (first, stop))
        own = StoredFile(f"part-{rank}", end - begin, part_stripes, (rank + 1) * part_stripes)
        yield Metadata("open", file)
        yield Metadata("create", own)
        done = first
        for offset in range(begin, end, _BATCH):
            size = min(_BATCH, end - offset)
            # frames count in the block that has their last byte
            frames = ((offset + size) * n_frames // file.size if offset + size < end else stop) - done
            yield ReadBytes(file, offset, size)
            yield Compute(size * n_frames * frame_ns // file.size)
            yield WriteBytes(own, offset - begin, size)
            # ends the block
            yield Compute(0, "compute", frames, done)
            done += frames
        yield Metadata("close", own)
        yield Barrier()

    return program
