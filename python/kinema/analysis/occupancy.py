"""`Occupancy`: how often each distinct row of a list occurs: a hydrogen bond, a pair of neighbours; and how long."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.storage.output_checks import check_not_input
from kinema.storage.tables import Column, Table, check_writable, write_table

if TYPE_CHECKING:
    from kinema.analysis.lists import ListAnalysis

__all__ = ["Occupancy", "distinct_rows", "occurrences", "survival"]

# larger codes of rows are not counted in 64 bits
_LARGEST_CODE = (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class Occupancy:
    """How often each distinct tuple of atoms or residues occurs, the most frequent first; made by
    `ListAnalysis.occupancy`.

    Attributes
    ----------
    by : {"atom", "residue"}
    tuples : (n, k) int64
        Atoms or residues, from 0.
    share : (n,) float64
        Share of all analysed frames that have the tuple.
    events : (n,) int64
        Runs of consecutive analysed frames that have it.
    n_frames : int
        Number of analysed frames.
    means : dict of str to (n,) float64
        Mean of each number over all rows of the tuple.
    analysis : ListAnalysis
    """

    by: str
    tuples: NDArray[np.int64]
    share: NDArray[np.float64]
    events: NDArray[np.int64]
    n_frames: int
    means: dict[str, NDArray[np.float64]]
    analysis: ListAnalysis

    def __len__(self) -> int:
        return len(self.share)

    def table(self) -> Table:
        """Atoms with their names, share, events, means; atoms count from 0, and from 1 in `table().from_one()`."""
        analysis = self.analysis
        keys = analysis.keys_of(self.by)
        columns: list[Column] = []
        for key, values in zip(keys, self.tuples.T, strict=True):
            columns += analysis.named_columns(key.name, "residue" if self.by == "residue" else key.of, values)
        columns += [Column("share", self.share, "1"), Column("events", self.events)]
        units = {one.name: one for one in analysis.quantities}
        digits = analysis.digits
        columns += [
            Column(f"mean_{name}", values, units[name].unit, period=units[name].period, digits=digits)
            for name, values in self.means.items()
        ]
        title = f"Occupancy of {analysis.row_name}s over {self.n_frames:,} frames"
        return Table(title, tuple(columns), x=columns[0].name)

    def to_dataframe(self) -> Any:
        """The table as a pandas DataFrame. Raises MissingPackageError without pandas."""
        from kinema.analysis.base import dataframe_of

        return dataframe_of(self.table(), "occupancy().to_dataframe()")

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        command: str | None = None,
        output_unit: str = "angstrom",
        output_time_unit: str = "ps",
        overwrite: bool = False,
    ) -> None:
        """Writes the table; arguments and errors are those of `Analysis.save`."""
        analysis = self.analysis
        check_not_input(path, *analysis.trajectory.paths, *analysis.other_files)
        check_writable(path, format, overwrite=overwrite)
        table = self.table().change_units(output_unit, output_time_unit)
        write_table(path, table, analysis.provenance(command), format=format, overwrite=overwrite)


def distinct_rows(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """(n, k) distinct rows in ascending order, and the place of each row among them, (rows,)."""
    arrays = [np.asarray(one).astype(np.int64) for one in columns]
    if not len(arrays[0]):
        return np.zeros((0, len(arrays)), np.int64), np.zeros(0, np.intp)
    sizes = [int(one.max()) + 1 for one in arrays]
    product = 1
    for size in sizes:
        product *= size
    if product > _LARGEST_CODE or any(int(one.min()) < 0 for one in arrays):
        found, places = np.unique(np.column_stack(arrays), axis=0, return_inverse=True)
        return found, places.reshape(-1)
    # one number a row, which sorts many times faster than rows
    codes = arrays[0].copy()
    for one, size in zip(arrays[1:], sizes[1:], strict=True):
        codes *= size
        codes += one
    found, places = np.unique(codes, return_inverse=True)
    parts = []
    for size in reversed(sizes[1:]):
        found, part = np.divmod(found, size)
        parts.append(part)
    return np.column_stack([found, *reversed(parts)]), places.reshape(-1)


def occurrences(
    places: NDArray[np.intp], frames: NDArray[np.int64], n_tuples: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(n_tuples,) number of frames that have each tuple, and number of runs of consecutive frames.

    `places` is the tuple of each row, `frames` its frame, counted among the analysed ones.
    """
    found, _ = distinct_rows([places, frames])
    of, at = found[:, 0], found[:, 1]
    begins = np.ones(len(of), bool)
    begins[1:] = (np.diff(of) != 0) | (np.diff(at) != 1)
    return np.bincount(of, minlength=n_tuples), np.bincount(of[begins], minlength=n_tuples)


def survival(
    places: NDArray[np.intp], frames: NDArray[np.int64], n_frames: int, tau_max: int, window_step: int, gap: int
) -> NDArray[np.float64]:
    """(tau_max + 1,) mean share of the tuples of a frame that are in each frame up to the one that is tau later.

        S(tau) = < N(t, t + tau) / N(t) >,   over all t from which tau frames follow and that have tuples

    Absences of at most `gap` frames count as presence. `places` is the tuple of each row, `frames` its frame, counted
    among the analysed ones. nan if there is no such t. Source: R. Araya-Secchi et al., Biophys. J. 107, 599 (2014).
    """
    found, _ = distinct_rows([places, frames])
    of, at = found[:, 0], found[:, 1]
    # presence from each row to the next one of the same tuple, if that is near enough
    following = np.zeros(len(of), bool)
    following[:-1] = (np.diff(of) == 0) & (np.diff(at) <= gap + 1)
    lengths = np.where(following, np.diff(at, append=0), 1)
    at = np.repeat(at, lengths) + (np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths))
    ends = np.repeat(~following, lengths)
    last = at[np.flatnonzero(ends)]
    run = np.cumsum(ends) - ends
    remaining = last[run] - at
    origins = np.arange(0, n_frames, window_step)
    present = np.bincount(at, minlength=n_frames)[origins]
    shares = np.ones(tau_max + 1)
    for tau in range(1, tau_max + 1):
        counted = (present > 0) & (origins + tau < n_frames)
        surviving = np.bincount(at[remaining >= tau], minlength=n_frames)[origins]
        shares[tau] = (surviving[counted] / present[counted]).mean() if counted.any() else np.nan
    return shares
