"""A trajectory that notes every read, so that tests can say which bytes a request touches.

The reads are those of Kinema's own half; what libhdf5 reads of a file's structure is not among them.
"""

from __future__ import annotations

from typing import Any

import kinema as kn
from kinema import _core
from kinema.trajectory import Trajectory

__all__ = ["RecordedTrajectory", "open_recorded"]


class RecordedTrajectory(Trajectory):
    """Like any trajectory; `take_reads` tells what was read since it was last called."""

    def take_reads(self) -> list[tuple[str, int, int]]:
        """Path, offset and length of each read, in their order; opening and the scan for frames count as well."""
        return self.core.take_reads()


def open_recorded(paths: Any, **options: Any) -> RecordedTrajectory:
    """As `kinema.open`, without a topology; the frame index is not stored."""
    recipe = kn.open(paths, **options).core.recipe()
    return RecordedTrajectory(_core.Trajectory(**recipe, index="memory", record_reads=True))
