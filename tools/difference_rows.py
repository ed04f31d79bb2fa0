"""Rows of docs/differences.md, and the systems that they are about."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import kinema as kn


@dataclass(frozen=True)
class Row:
    """A row of the table: the tuples that two programs found."""

    files: str
    what: str
    peer: str
    ours: set[Any]
    theirs: set[Any]
    why: str

    @cached_property
    def numbers(self) -> tuple[int, int, int]:
        """How many both found, Kinema alone, and the peer alone."""
        return len(self.ours & self.theirs), len(self.ours - self.theirs), len(self.theirs - self.ours)

    def written(self) -> str:
        """The row of the table."""
        both, alone, of_peer = self.numbers
        return (
            f"| {self.files} | {self.what} | {both + alone:,} | {both + of_peer:,} ({self.peer}) | {both:,} "
            f"| {alone:,} | {of_peer:,} | {self.why} |"
        )


@dataclass(frozen=True)
class HistogramRow(Row):
    """A row of the table: the counts of the same bins, as two programs found them."""

    ours: Any
    theirs: Any

    @cached_property
    def numbers(self) -> tuple[int, int, int]:
        """See `Row`: the counts of all bins."""
        ours, theirs = (np.asarray(np.rint(one), np.int64).ravel() for one in (self.ours, self.theirs))
        both = int(np.minimum(ours, theirs).sum())
        return both, int(ours.sum()) - both, int(theirs.sum()) - both


@dataclass(frozen=True)
class System:
    """Files of MDAnalysisTests, opened by both programs."""

    files: str
    ours: kn.Trajectory
    universe: Any

    @classmethod
    def named(cls, topology: str, trajectory: str) -> "System":
        """The system of two names of `MDAnalysisTests.datafiles`."""
        import MDAnalysis
        from MDAnalysisTests import datafiles

        paths = [str(getattr(datafiles, name)) for name in (topology, trajectory)]
        universe = MDAnalysis.Universe(*paths)
        return cls(f"{topology}, {trajectory}", kn.open(paths[1], topology=paths[0], stored=False), universe)

    def steps(self, stop: int) -> Iterator[tuple[int, Any]]:
        """Number and time step of the first frames."""
        return enumerate(self.universe.trajectory[:stop])


def of_frames(results: Any, *names: str) -> set[Any]:
    """Frame and keys of each row of a list."""
    frames = np.repeat(np.asarray(results.frames), np.asarray(results.counts))
    return set(zip(frames.tolist(), *(np.asarray(results[name]).tolist() for name in names), strict=True))
