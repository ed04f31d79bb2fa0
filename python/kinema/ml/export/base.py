"""`ExportFormat`, the interface of a format of exported samples, and `divided`, which cuts samples into runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.ml.export.source import ExportSource, Run


class ExportFormat(ABC):
    """Makes the files of one format. It is pickled for workers.

    `suffix`: ending of its files; an output with this ending is one file. "" if the output is always a folder.
    `factor`: bytes of memory that a block takes, for each byte of its arrays.
    """

    name: str
    suffix: str
    factor: float
    units: Mapping[str, str]

    @abstractmethod
    def check(self, source: ExportSource) -> None:
        """Checks the samples before the first byte is written. Raises ArgumentError if the format cannot hold them."""

    @abstractmethod
    def sample_bytes(self, source: ExportSource) -> int:
        """Approximate bytes of a sample in the file, from which shards get their size."""

    def runs(self, source: ExportSource, shard_bytes: int | None) -> list[Run]:
        """Divides the samples among files, in the same way for any number of workers."""
        length = len(source) if shard_bytes is None else max(1, shard_bytes // max(1, self.sample_bytes(source)))
        return divided("samples", np.arange(len(source)), length)

    @abstractmethod
    def write(self, source: ExportSource, run: Run, path: str, memory: int, workers: int) -> None:
        """Writes one run as the new file `path`; in a folder, the file has the name of the run."""

    def finish(self, source: ExportSource, runs: Sequence[Run], folder: str) -> None:  # noqa: B027
        """Writes the files that belong to the folder as a whole."""

    def describe(self, run: Run) -> dict[str, Any]:
        """The entry of a run in the list of files."""
        return {"file": run.name + self.suffix, "samples": len(run)}


def divided(name: str, samples: NDArray[np.int64], length: int) -> list[Run]:
    """Runs of `length` samples, the last one may be shorter: name-00000, name-00001, ..."""
    starts = range(0, len(samples), length)
    return [Run(f"{name}-{i:05d}", ranges_of(samples[at : at + length])) for i, at in enumerate(starts)]


def ranges_of(samples: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Ascending samples as ranges."""
    if not len(samples):
        return ()
    parts = np.split(samples, np.flatnonzero(np.diff(samples) != 1) + 1)
    return tuple((int(part[0]), int(part[-1]) + 1) for part in parts)
