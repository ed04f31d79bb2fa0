"""`RunRecord`: a finished run, as reports are made from it."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

import numpy as np

from kinema.base.frozen_dataclass import dataclass
from kinema.cache.counts import CacheCounts
from kinema.model.selection.atoms import Selection
from kinema.model.selection.frames import FrameSelection
from kinema.runners import Timings
from kinema.storage.provenance import now
from kinema.trajectory import Trajectory

__all__ = ["RunRecord"]


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run of one or several analyses over the same frames.

    Attributes
    ----------
    trajectory : Trajectory
    frames : the frames of the run
    analyses : tuple of str
        Names of their classes.
    selections : tuple of Selection
        Those of all analyses.
    command : str
        The call, where it was not made from Python; else "".
    plan : str
        The plan of each pass in words.
    timings : Timings
    notes : tuple of str
        Those emitted by the run itself: damaged frames that were left out, workers that did not answer.
    node_cache : CacheCounts or None
        What node caches gave and fetched while it ran, in this process and its workers; None where the trajectory was
        opened without one.
    date : str
        When it ended: ISO 8601, UTC.
    """

    trajectory: Trajectory
    frames: FrameSelection
    analyses: tuple[str, ...]
    selections: tuple[Selection, ...]
    command: str
    plan: str
    timings: Timings
    notes: tuple[str, ...] = ()
    node_cache: CacheCounts | None = None
    date: str = field(default_factory=now)

    @cached_property
    def n_atoms(self) -> int:
        """Atoms of all selections, each counted once."""
        return len(np.unique(np.concatenate([one.indices for one in self.selections])))
