"""`Row`, one measurement of `ml_loading.py`, and how a loop is measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HEADER = (
    f"{'layout':26} {'program':27} {'order':9} trainers step  samples/s epochs read/need disk/need  waited  first  "
    "unoverlapped, %  of these after the first batch"
)


@dataclass
class Row:
    """One measurement."""

    layout: str
    program: str
    order: str
    step: float
    """Seconds that the loop works on each batch."""
    samples: int
    distinct: int
    """Samples that there are: above it they were read again."""
    seconds: float
    waited: float
    """Seconds of these spent waiting for batches."""
    waited_first: float
    """Seconds spent waiting for the first batch: nothing could be read before it."""
    read_for_needed: float
    """Bytes that the process asked the system for, for each byte of samples that it read; not a number: of others."""
    disk_for_needed: float
    """The same of bytes that came from the storage."""
    trainers: int = 1

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.samples / self.seconds

    @property
    def unoverlapped(self) -> float:
        """Share of the time in which the loop waited for batches."""
        return self.waited / self.seconds

    @property
    def unoverlapped_then(self) -> float:
        """The same after the first batch."""
        return (self.waited - self.waited_first) / max(self.seconds - self.waited_first, 1e-9)

    def printed(self) -> str:
        """A line of the table under `HEADER`."""
        read, disk = (
            "        -" if math.isnan(one) else f"{one:9.2f}" for one in (self.read_for_needed, self.disk_for_needed)
        )
        return (
            f"{self.layout:26} {self.program:27} {self.order:9} {self.trainers:8} {self.step:5.3f} {self.rate:9,.0f} "
            f"{self.samples * self.trainers / self.distinct:6.1f} {read} {disk} {self.waited:7.3f} "
            f"{self.waited_first:6.3f} {100 * self.unoverlapped:10.2f} {100 * self.unoverlapped_then:10.2f}"
        )


def bytes_read() -> tuple[int, int]:
    """By all reads of this process so far: asked for, and from the storage."""
    words = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(words["rchar"]), int(words["read_bytes"])


def measured(
    made: Callable[[], Any], step: float, seconds: float, most_samples: int | None, counts_bytes: bool, **row: Any
) -> Row:
    """Makes a loop that works `step` seconds on each batch and runs it for about `seconds`.

    Every sample is looked at. The loop ends after `most_samples`: samples that were read once are in the page cache.
    """
    before, began, waited, first, samples = bytes_read(), time.perf_counter(), 0.0, 0.0, 0
    ready, sample_bytes = began, 1
    batches = made()
    for batch in batches:
        now = time.perf_counter()
        waited += now - ready
        first = first or now - ready
        samples += len(batch)
        sample_bytes = batch.itemsize * batch.shape[1]
        assert np.array_equal(batch[:, 0], np.round(batch[:, 0]))
        if step:
            time.sleep(step)
        ready = time.perf_counter()
        full = most_samples is not None and samples + len(batch) > most_samples
        del batch
        if ready - began > seconds or full:
            break
    if hasattr(batches, "close"):
        batches.close()
    # with what was read ahead
    needed = max(1, getattr(batches, "samples", samples)) * sample_bytes
    asked, disk = (
        (after - one) / needed if counts_bytes else math.nan for after, one in zip(bytes_read(), before, strict=True)
    )
    return Row(
        step=step, samples=samples, seconds=ready - began, waited=waited, waited_first=first, read_for_needed=asked,
        disk_for_needed=disk, **row,
    )  # fmt: skip


def call_on_files(paths: list[Path], do: Callable[[Path], None]) -> None:
    """Files, and those in folders."""
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            do(file)


def read_pages(file: Path) -> None:
    """Reads a file once, which is then in the page cache if that is large enough."""
    with file.open("rb", buffering=0) as opened:
        while opened.read(1 << 24):
            pass
