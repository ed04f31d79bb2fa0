"""`RecordedTrajectory`: a trajectory that records every read of its files, for tests of which bytes are read.

Reads through libhdf5, for example of a file's structure, are not recorded.
"""

from __future__ import annotations

from typing import Any

import kinema as kn
from kinema import _core
from kinema.trajectory import Trajectory


class RecordedTrajectory(Trajectory):
    """A trajectory whose `take_reads` returns the reads since its last call."""

    def take_reads(self) -> list[tuple[str, int, int]]:
        """Path, offset and length of each read, in their order; opening and the scan for frames count as well."""
        return self.core.take_reads()


def open_recorded(paths: Any, **options: Any) -> RecordedTrajectory:
    """As `kinema.open`, without a topology; the frame index is not stored."""
    recipe = kn.open(paths, **options).core.recipe()
    return RecordedTrajectory(_core.Trajectory(**(recipe | {"index": "memory"}), record_reads=True))
