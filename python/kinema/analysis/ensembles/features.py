"""Features: results of several analyses side by side, one row per frame, for principal components, clusters and models.

    x(t) = ( a_1(t), a_2(t), ..., cos b_1(t), sin b_1(t), ... ),   b angles; with scale="std" (x_i(t) - <x_i>) / s_i

<x_i> and s_i are mean and standard deviation over the frames of the run, s_i with n - 1. An angle of -179 degrees is
near one of 179, which its cosine and sine show and its number does not: Y. Mu, P. H. Nguyen, G. Stock, Proteins 58, 45
(2005).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinema.analysis.base import Analysis, Passes, Results
from kinema.analysis.declared import PerFrameAnalysis, UnboundAnalysis
from kinema.base.choices import CIRCULAR, SCALE, check_choice
from kinema.base.errors import ArgumentError
from kinema.execution.computation import JointPass, Pass, results_after
from kinema.execution.run import check_analyses
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from kinema.analysis.declaration import Quantity
    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["Features"]

# rows whose sums are added at a time: always as many, so that sums have the same bits in memory and in a file
_ROWS = 4096
# how many names a message gives
_NAMED = 5


class Features(Analysis):
    """Analyses with one row per frame as one table of features; one run reads each frame once for all of them.

    Parameters
    ----------
    *analyses : PerFrameAnalysis
        Their trajectory is the same, and their results are numbers. The features run them; they get no results of
        their own.
    circular : {"cos-sin", "none"}
        "cos-sin": each angle is two features, its cosine and its sine; "none": its number in degrees.
    scale : {"none", "std"}
        "std": from each feature its mean over the frames of the run is subtracted, and it is divided by its standard
        deviation. "none": features are as they are, and a note says if their units differ.

    After `run`
    -----------
    results.features : (frames, features) float64
    results.values : the same
    results.mean, results.std : (features,) float64, with scale="std"
    results.frames, results.time : (frames,)

    Attributes
    ----------
    names : tuple of str
        A name for each feature: "cos phi LEU12", "distances 0-100" (atoms from 0).
    units : tuple of str
        "angstrom" for each feature; "1" without a unit.
    analyses : tuple of PerFrameAnalysis
    scale : str
    encodings : tuple of Encoding
        How the values of each analysis become features.

    Raises
    ------
    ArgumentError for analyses of several trajectories, without one row of numbers per frame, or with several passes;
    with scale="std" for features that are constant or not defined in all frames, which it names.

    Examples
    --------
    >>> angles = kn.analysis.Dihedrals(traj, "resid 50-52", phi=True)
    >>> distances = kn.analysis.Distances(traj, pairs=[(0, 100)])
    >>> features = kn.analysis.Features(angles, distances, scale="std").run()
    >>> features.results.features.shape, features.names[0], features.names[-1]
    ((196, 7), 'cos phi LYS50', 'distances 0-100')
    """

    other_formats: ClassVar[Mapping[str, str]] = {".npz": "arrays features, names, units, frames and time"}

    def __init__(self, *analyses: PerFrameAnalysis, circular: str = "cos-sin", scale: str = "none") -> None:
        check_choice("circular", circular, CIRCULAR)
        check_choice("scale", scale, SCALE)
        self.analyses = tuple(checked_feature(one) for one in analyses)
        check_analyses(analyses)
        trajectory = analyses[0].trajectory
        atoms = np.unique(np.concatenate([one.selection.indices for one in analyses]))
        described = {f"analysis {number}": _call(one) for number, one in enumerate(analyses, 1)}
        super().__init__(trajectory, trajectory.select(atoms), {**described, "circular": circular, "scale": scale})
        self.scale = scale
        self.encodings = tuple(Encoding.of(one, circular) for one in analyses)
        columns = [column for one in self.encodings for column in one.columns]
        self.names = _distinct([name for name, _, _ in columns])
        self._names_from_one = _distinct([name for _, name, _ in columns])
        plain = tuple(unit for _, _, unit in columns)
        self.units = plain if scale == "none" else ("1",) * len(plain)
        # which the analyses have emitted
        self._notes = list(dict.fromkeys(note for one in analyses for note in one._notes))
        units = sorted(set(self.units) - {""})
        if scale == "none" and len(units) > 1:
            self._add_notes(
                [
                    f"features have different units ({', '.join(units)}): those with large numbers prevail in "
                    'principal components, clusters and distances; scale="std" makes all alike'
                ]
            )

    @classmethod
    def of(cls, *analyses: UnboundAnalysis, **named: Any) -> UnboundFeatures:
        """Features without their trajectory, of analyses without theirs: `Features.of(Dihedrals.of(phi=True))`.

        Raises ArgumentError for analyses that have a trajectory.
        """
        for one in analyses:
            if not isinstance(one, UnboundAnalysis):
                raise ArgumentError(
                    f"Features.of takes analyses without a trajectory, made by of(), found {type(one).__name__}"
                )
        return UnboundFeatures(cls, analyses, named)

    @property
    def selections(self) -> Sequence[Selection]:
        return tuple(selection for one in self.analyses for selection in one.selections)

    def notes_before(self, frames: FrameSelection) -> Sequence[str]:
        return list(dict.fromkeys(note for one in self.analyses for note in one.notes_before(frames)))

    def _passes(self, frames: FrameSelection) -> Passes:
        found = yield from self.passes_of_analyses(frames)
        rows = feature_rows([one.values for one in found], self.encodings)
        scaling: dict[str, NDArray[np.float64]] = {}
        if self.scale == "std":
            scaling = self._scaling(rows, found[0].frames)
            rows = feature_rows([one.values for one in found], self.encodings, scaling)
        elif isinstance(rows, np.ndarray) or hasattr(rows, "chunks"):
            constant = [name for name, low, high in zip(self.names, *_ranges(rows), strict=True) if low == high]
            if constant and len(frames) > 1:
                self._add_notes([f"{_listed(constant)}: constant in all frames"])
        return Results(features=rows, values=rows, time=found[0].time, frames=found[0].frames, **scaling)

    def passes_of_analyses(self, frames: FrameSelection) -> Generator[JointPass, Any, list[Results]]:
        """The one pass of all analyses, and their results."""
        passes = [one._passes(frames) for one in self.analyses]
        results = yield JointPass(tuple(_first_pass(one) for one in passes))
        found = [results_after(one, rows) for one, rows in zip(passes, results, strict=True)]
        of_analyses = (note for one in self.analyses for note in one._notes)
        self._notes = list(dict.fromkeys((*self._notes, *of_analyses)))
        return found

    def check_defined(self, rows: NDArray[np.float64], frames: Any) -> None:
        """Raises ArgumentError, with feature and frame, for (frames, features) values that are not finite."""
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            row, column = bad[0]
            raise ArgumentError(f"{self.names[column]}: not defined in frame {frames[row]}; leave it out")

    def _scaling(self, rows: Any, frames: Any) -> dict[str, NDArray[np.float64]]:
        """Mean and standard deviation of each feature. Raises ArgumentError for features without either."""
        if len(rows) < 2:
            raise ArgumentError(f'scale="std" needs at least two frames, found {len(rows)}')
        mean = sum(block.sum(axis=0) for _, block in _blocks(rows)) / len(rows)
        if not np.isfinite(mean).all():
            undefined = [self.names[i] for i in np.flatnonzero(~np.isfinite(mean))]
            raise ArgumentError(
                f"{_listed(undefined)}: not defined in frame {frames[_first_undefined(rows)]}; leave these out, or "
                'scale="none"'
            )
        squares = sum(((block - mean) ** 2).sum(axis=0) for _, block in _blocks(rows))
        std = np.sqrt(squares / (len(rows) - 1))
        low, high = _ranges(rows)
        if (low == high).any():
            constant = [self.names[i] for i in np.flatnonzero(low == high)]
            raise ArgumentError(
                f'{_listed(constant)}: constant in all frames, which scale="std" cannot divide by; leave these out'
            )
        return {"mean": mean, "std": std}

    def _row_datasets(self, frames: FrameSelection) -> Sequence[ResultDataset]:
        return [one._row_dataset(frames) for one in self.analyses]

    def _table(self) -> Table:
        values = np.asarray(self.results.features)
        named = zip(self.names, self._names_from_one, self.units, values.T, strict=True)
        columns = [
            Column(name, column, unit, from_one=shown if shown != name else "", digits=self._digits)
            for name, shown, unit, column in named
        ]
        return Table("Features", (*self._frames_and_times(), *columns))

    def _write_other(self, path: str, name: str) -> None:
        scaling = {key: self.results[key] for key in ("mean", "std") if key in self.results}
        np.savez(
            path,
            features=np.asarray(self.results.features),
            names=np.array(self.names),
            units=np.array(self.units),
            frames=np.asarray(self.results.frames),
            time=np.asarray(self.results.time),
            **scaling,
        )


class UnboundFeatures(UnboundAnalysis):
    """Features without their trajectory; made by `Features.of`."""

    def bind(self, trajectory: Trajectory) -> Features:
        return Features(*(one.bind(trajectory) for one in self.arguments), **self.named)


def checked_feature(analysis: Any) -> PerFrameAnalysis:
    """The analysis. Raises ArgumentError, with the reason, if its results are not one row of numbers per frame."""
    name = type(analysis).__name__
    if isinstance(analysis, UnboundAnalysis):
        raise ArgumentError(f"{analysis} has no trajectory; give {analysis.analysis.__name__}(trajectory, ...)")
    if not isinstance(analysis, Analysis):
        raise ArgumentError(f"features are analyses with one row per frame, found {name}")
    if not isinstance(analysis, PerFrameAnalysis):
        why = "any number of rows a frame" if getattr(analysis, "is_list", False) else "no row of numbers per frame"
        raise ArgumentError(f"features are analyses with one row per frame; {name} has {why}")
    if analysis.n_passes != 1:
        raise ArgumentError(f"features are computed frame by frame; {name} reads its frames several times here")
    if np.dtype(analysis._rows().dtype).itemsize == 1:
        raise ArgumentError(f"features are numbers; {name} has a letter for each column")
    return analysis


class Encoding:
    """The features of the columns of an analysis.

    `columns`: list of (name, name with atoms from 1, unit); one for each feature.
    """

    def __init__(self, columns: Sequence[tuple[str, Quantity]], from_one: Sequence[str], circular: bool) -> None:
        self.columns: list[tuple[str, str, str]] = []
        plain, angles = [], []
        for number, ((name, quantity), shown) in enumerate(zip(columns, from_one, strict=True)):
            name, shown = (_with_quantity(one, quantity) for one in (name, shown))
            if circular and quantity.period:
                angles.append((number, len(self.columns), 2.0 * np.pi / quantity.period))
                self.columns += [(f"{of} {name}", f"{of} {shown}", "1") for of in ("cos", "sin")]
            else:
                plain.append((number, len(self.columns)))
                self.columns.append((name, shown, quantity.unit))
        self._plain = np.array(plain, np.intp).reshape(-1, 2).T
        self._angles = np.array([one[:2] for one in angles], np.intp).reshape(-1, 2).T
        self._factors = np.array([one[2] for one in angles])

    @classmethod
    def of(cls, analysis: PerFrameAnalysis, circular: str) -> Encoding:
        """The features of an analysis."""
        shown = [name for name, _ in analysis._columns_from_one()]
        return cls(analysis._columns(), shown, circular == "cos-sin")

    def fill(self, values: NDArray[Any], features: NDArray[np.float64]) -> None:
        """Writes the features (rows, features) of (rows, columns) values."""
        features[:, self._plain[1]] = values[:, self._plain[0]]
        if len(self._factors):
            angles = values[:, self._angles[0]] * self._factors
            features[:, self._angles[1]] = np.cos(angles)
            features[:, self._angles[1] + 1] = np.sin(angles)


def feature_rows(
    values: Sequence[Any], encodings: Sequence[Encoding], scaling: Mapping[str, NDArray[np.float64]] | None = None
) -> Any:
    """The features of values of each analysis; a view if some of these are not in memory."""
    rows = _FeatureRows(values, encodings, scaling or {})
    return rows[:] if all(isinstance(one, np.ndarray) for one in values) else rows


class _FeatureRows:
    """Features of values of analyses, computed on access: these may be in a file, or on other ranks."""

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(
        self, values: Sequence[Any], encodings: Sequence[Encoding], scaling: Mapping[str, NDArray[np.float64]]
    ) -> None:
        self._values, self._encodings, self._scaling = tuple(values), tuple(encodings), dict(scaling)
        self.shape = (len(values[0]), sum(len(one.columns) for one in encodings))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the values, which may be in memory after loading."""
        return feature_rows, (self._values, self._encodings, self._scaling)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if rows is Ellipsis or rows is None:
            return self[:][key]
        single = isinstance(rows, (int, np.integer))
        parts = [np.atleast_2d(np.asarray(one[rows])) for one in self._values]
        features = np.empty((len(parts[0]), self.shape[1]))
        first = 0
        for part, encoding in zip(parts, self._encodings, strict=True):
            encoding.fill(part, features[:, first : first + len(encoding.columns)])
            first += len(encoding.columns)
        if self._scaling:
            features -= self._scaling["mean"]
            features /= self._scaling["std"]
        if single:
            return features[0][rest] if rest else features[0]
        return features[(slice(None), *rest)] if rest else features

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("features of values that are not in memory can only be computed into new memory")
        return np.asarray(self[:], dtype=dtype)

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """All rows in turn, some at a time."""
        for _, block in _blocks(self):
            yield block

    def __repr__(self) -> str:
        return f"<features {self.shape} of {', '.join(map(repr, self._values))}>"


def _blocks(rows: Any) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Blocks of rows with the number of their first."""
    for first in range(0, len(rows), _ROWS):
        yield first, rows[first : first + _ROWS]


def _ranges(rows: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and largest value of each feature."""
    low, high = np.full(rows.shape[1], np.inf), np.full(rows.shape[1], -np.inf)
    for _, block in _blocks(rows):
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    return low, high


def _first_undefined(rows: Any) -> int:
    """The first row that has a feature which is not finite."""
    for first, block in _blocks(rows):
        undefined = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(undefined):
            return first + int(undefined[0])
    raise AssertionError("all features are finite")


def _first_pass(passes: Passes) -> Pass:
    found = next(passes)
    assert isinstance(found, Pass), "an analysis with one row per frame has one pass"
    return found


def _with_quantity(name: str, quantity: Quantity) -> str:
    """The name of a column, after that of its quantity if it does not begin with it."""
    return name if name.startswith(quantity.name) else f"{quantity.name} {name}"


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, of which those that occurred before get a number."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(found)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more features" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _call(analysis: Analysis) -> str:
    given = ", ".join(f"{name}={value}" for name, value in analysis.arguments.items())
    return f"{type(analysis).__name__}({given})"
