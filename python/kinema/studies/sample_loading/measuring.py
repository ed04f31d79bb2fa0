"""Samples per second of a loop in each repeat; its first batch is compared with the samples bit for bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from kinema.base.errors import CorruptFileError
from kinema.studies.sample_loading.design import LoadingDesign
from kinema.studies.sample_loading.layouts import Samples
from kinema.studies.sample_loading.loops import Loop, Taken


@dataclass(frozen=True)
class LoopRun:
    """One repeat of a loop.

    `samples`: number of samples that the loop has given.
    `cpu`: seconds of all threads.
    `first`: seconds of the first batch, part of `seconds`.
    `opening`: seconds before `seconds`, in which files were opened.
    """

    samples: int
    seconds: float
    cpu: float
    first: float
    opening: float


@dataclass(frozen=True)
class LoopRow:
    """One loop with its repeats; numbers are medians over them."""

    layout: str
    program: str
    order: str
    runs: tuple[LoopRun, ...]

    @property
    def rate(self) -> float:
        """Samples a second."""
        return median(run.samples / run.seconds for run in self.runs)

    @property
    def times(self) -> dict[int, float]:
        """Seconds a sample by the number of the repeat."""
        return {number: run.seconds / run.samples for number, run in enumerate(self.runs)}

    @property
    def opening(self) -> float:
        """Seconds of opening files."""
        return median(run.opening for run in self.runs)

    @property
    def first(self) -> float:
        """Seconds of the first batch."""
        return median(run.first for run in self.runs)

    @property
    def cpu_a_sample(self) -> float:
        """Processor seconds a sample."""
        return median(run.cpu / run.samples for run in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """In plain types."""
        return {**asdict(self), "samples_per_second": self.rate}


def check_loop(layout: str, loop: Loop, samples: Samples) -> None:
    """Raises CorruptFileError if a value of the loop's first batch differs from the sample's."""
    checked: Iterator[Taken] = loop.start()
    try:
        _compare(layout, loop, samples, next(checked))
    finally:
        _end(checked)


def measured(loop: Loop, samples: Samples, design: LoadingDesign, forget: Callable[[], None]) -> LoopRun:
    """Runs a loop for the design's time or batches, or once over all samples if files were dropped from memory.

    `forget` is called before.
    """
    forget()
    # files that were dropped from memory are in it again after each sample was read once
    most = len(samples) if design.page_cache == "drop" else None
    began = time.perf_counter()
    batches: Iterator[Taken] = loop.start()
    opening = time.perf_counter() - began
    # opening small files has read all of them
    forget()
    opened, cpu = time.perf_counter(), time.process_time()
    n = number = 0
    first = 0.0
    try:
        for ids, _ in batches:
            now = time.perf_counter() - opened
            n, number, first = n + len(ids), number + 1, first or now
            if now > design.time_limit or number == design.batches or (most and n + design.batch > most):
                break
        seconds, used = time.perf_counter() - opened, time.process_time() - cpu
    finally:
        _end(batches)
    return LoopRun(n, seconds, used, first, opening)


def _end(batches: Any) -> None:
    # ends the generator: its files are closed, its threads end
    batches.close()


def _compare(layout: str, loop: Loop, samples: Samples, taken: Taken) -> None:
    ids, values = taken
    for name, array in samples.arrays.items():
        if np.ascontiguousarray(values[name]).tobytes() != array[ids].tobytes():
            raise CorruptFileError(
                f"{layout}: {loop.program}: array {name} of a batch has other values than its samples"
            )
