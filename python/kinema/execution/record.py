"""`RunRecord`: a finished run; reports are made from it."""

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
        The selections of all analyses.
    command : str
        The call, if it was not made from Python; else "".
    plan : str
        The plan of each pass in words.
    timings : Timings
    notes : tuple of str
        Notes emitted by the run itself: damaged frames that were left out, workers that did not answer.
    node_cache : CacheCounts or None
        Counts of what node caches served and fetched during the run, in this process and its workers; None if the
        trajectory was opened without a node cache.
    date : str
        End of the run: ISO 8601, UTC.
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
        """Number of atoms of all selections; each atom counts once."""
        return len(np.unique(np.concatenate([one.indices for one in self.selections])))
