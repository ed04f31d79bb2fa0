"""`summarise`: mean, error, correlation and equilibration of each quantity of a run, as a table."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema._core import __version__
from kinema.base.choices import positive_number
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import returns_notes
from kinema.base.printable import align_columns, counted, shortest
from kinema.statistics.estimators import block_error, circular_moments, detect_equilibration, statistical_inefficiency
from kinema.statistics.series import FrameSeries
from kinema.statistics.sources import SeriesSource, series_of
from kinema.storage.output_checks import check_not_input
from kinema.storage.provenance import Input, Provenance
from kinema.storage.tables import NO_UNIT, PER_UNIT, Column, Table, check_writable, write_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

# times of many formats are float32
_ROUNDING_OF_TIMES = 4.0 * 2.0**-23
# steps between frames that differ by less are equal: times of many formats are float32
_EVEN = 1e-3


@dataclass(frozen=True)
class SeriesStatistics:
    """Statistics of one quantity of a run.

    Attributes
    ----------
    name, unit, source : str
    n_values : int
        Values used.
    mean : float
        Arithmetic mean; of periodic values the circular mean.
    error : float
        Standard error of the mean by blocks (`block_error`).
    has_plateau : bool
        False: `error` is a lower bound, because the run is too short.
    block_length : int
        Values of a block that gave the error.
    deviation : float
        Standard deviation of the values (n - 1); of periodic values the circular one.
    least, most : float
        Smallest and largest value; nan for periodic values, which have neither.
    inefficiency : float
        Statistical inefficiency g (`statistical_inefficiency`), in values.
    n_effective : float
        n_values / g, the number of independent values.
    equilibrated : int
        The first value in equilibrium (`detect_equilibration`), of all values, from 0.
    equilibrated_frame : int or None
        Number of its frame, if it is known.
    equilibrated_time : float
        Its time in ps; nan if it is not known.
    """

    name: str
    unit: str
    source: str
    n_values: int
    mean: float
    error: float
    has_plateau: bool
    block_length: int
    deviation: float
    least: float
    most: float
    inefficiency: float
    n_effective: float
    equilibrated: int
    equilibrated_frame: int | None
    equilibrated_time: float


@dataclass(frozen=True)
class Summary:
    """Statistics of each of several quantities: `summary["rmsd"].error`, or in turn, `for one in summary`.

    Attributes
    ----------
    columns : tuple of SeriesStatistics
    parameters : mapping of str to str
        The arguments, in words.
    inputs : tuple of Input
        The files that the values depend on.
    notes : tuple of str
    """

    columns: tuple[SeriesStatistics, ...]
    parameters: Mapping[str, str]
    inputs: tuple[Input, ...] = ()
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[SeriesStatistics]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> SeriesStatistics:
        for one in self.columns:
            if one.name == name:
                return one
        raise KeyError(name)

    def table(self) -> Table:
        """A row for each quantity."""
        of = self.columns
        words = {
            "column": np.array([one.name for one in of], "U"),
            "unit": np.array(["" if one.unit == NO_UNIT else one.unit for one in of], "U"),
        }
        if len({one.source for one in of}) > 1:
            words = {"file": np.array([one.source for one in of], "U"), **words}
        numbers: dict[str, NDArray[Any]] = {
            "values": np.array([one.n_values for one in of], np.int64),
            "mean": np.array([one.mean for one in of]),
            "error": np.array([one.error for one in of]),
            "plateau": np.array([one.has_plateau for one in of], np.int64),
            "block_length": np.array([one.block_length for one in of], np.int64),
            "deviation": np.array([one.deviation for one in of]),
            "min": np.array([one.least for one in of]),
            "max": np.array([one.most for one in of]),
            "inefficiency": np.array([one.inefficiency for one in of]),
            "n_effective": np.array([one.n_effective for one in of]),
            "equilibrated": np.array([one.equilibrated for one in of], np.int64),
        }
        if all(one.equilibrated_frame is not None for one in of):
            numbers["equilibrated_frame"] = np.array([one.equilibrated_frame for one in of], np.int64)
        times = Column("equilibrated_time", np.array([one.equilibrated_time for one in of]), "ps", digits=7)
        columns = [Column(name, values, digits=7) for name, values in {**words, **numbers}.items()]
        return Table("Statistics", (*columns, times), x="column")

    def to_dataframe(self) -> Any:
        """`table` as a pandas DataFrame. Raises MissingPackageError without pandas."""
        from kinema.base.errors import missing_package

        try:
            import pandas
        except ImportError as error:
            raise missing_package("to_dataframe()", "pandas", "pandas", error) from None
        return pandas.DataFrame({one.name: one.values for one in self.table().columns})

    def provenance(self, command: str | None = None) -> Provenance:
        """The origin of the numbers: version, call, files with fingerprints."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return Provenance(
            version=__version__,
            call=command or f"kinema.statistics.summarise({arguments})",
            inputs=self.inputs,
            parameters={} if command is None else self.parameters,
            notes=self.notes,
        )

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        command: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Writes the table as .csv, .dat or .parquet.

        Raises ArgumentError for an input and for a file that Kinema did not write, without `overwrite`;
        UnsupportedFormatError for another suffix.
        """
        check_summary_path(path, format, self.inputs, overwrite=overwrite)
        write_table(path, self.table(), self.provenance(command), format=format, overwrite=overwrite)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The table as text: five digits of a number, ">" before an error that is a lower bound."""
        head = [
            "",
            "unit",
            "values",
            "mean",
            "error",
            "deviation",
            "min",
            "max",
            "g",
            "independent",
            "equilibrated from",
        ]
        rows = [head, *(_line_of(one) for one in self.columns)]
        several = len({one.source for one in self.columns}) > 1
        if several:
            rows = [["" if i == 0 else self.columns[i - 1].source, *row] for i, row in enumerate(rows)]
        return align_columns(rows, left=3 if several else 2, indent="")


def check_summary_path(
    path: str | os.PathLike[str], format: str | None, inputs: Sequence[Input] = (), *, overwrite: bool = False
) -> None:
    """Checks, before the values are computed, that a summary can be written to `path`."""
    from kinema.base.errors import UnsupportedFormatError

    check_not_input(path, *(one.path for one in inputs))
    check_writable(path, format, overwrite=overwrite)
    suffix = f".{format}" if format else os.path.splitext(os.fspath(path))[1].lower()
    if suffix in (".npy", ".xvg"):
        raise UnsupportedFormatError(
            f"a summary has words beside numbers, which {suffix} does not hold; choose one of .csv, .dat, .parquet",
            at=os.fspath(path),
        )


def _line_of(one: SeriesStatistics) -> list[str]:
    bound = "" if one.has_plateau or math.isnan(one.error) else ">"
    numbers = [f"{one.mean:.5g}", f"{bound}{one.error:.2g}", f"{one.deviation:.3g}", f"{one.least:.5g}"]
    numbers += [f"{one.most:.5g}", f"{one.inefficiency:.3g}", f"{one.n_effective:.3g}"]
    start = f"value {one.equilibrated}" if one.equilibrated_frame is None else f"frame {one.equilibrated_frame}"
    time = "" if math.isnan(one.equilibrated_time) else f" ({shortest(one.equilibrated_time)} ps)"
    unit = "" if one.unit == NO_UNIT else one.unit
    shown = ["-" if number.endswith("nan") else number for number in numbers]
    return [one.name, unit, f"{one.n_values:,}", *shown, f"{start}{time}"]


@returns_notes
def summarise(
    source: SeriesSource | Sequence[SeriesSource],
    columns: str | Sequence[str] | None = None,
    *,
    begin: float | None = None,
    end: float | None = None,
    equilibrated: bool = False,
    periodic: float | None = None,
    output_unit: str = "angstrom",
) -> Summary:
    """Statistics of each quantity of a run: mean, standard error, deviation, correlation, equilibration.

    Values are taken as equally spaced in time; a note says so if they are not. Values that are not finite are left out,
    with a note.

    Parameters
    ----------
    source : Analysis, path, Table, (frames,) array_like, or list of these
        An analysis after `run` with a value for each frame; a file that it saved (.csv, .dat, .xvg, .npy, .npz,
        .parquet, .h5), or one column of it, "rmsd.csv:rmsd"; values; a list of these.
    columns : str or list of str, optional
        Names of columns; by default all.
    begin, end : float, optional
        First and last time, ps, both inclusive.
    equilibrated : bool
        Only values from the detected start of equilibrium on, for each quantity its own.
    periodic : float, optional
        Period of all values, such as 360; 0: they are not periodic. By default that of the quantity, which results of
        Kinema know.
    output_unit : {"angstrom", "nm"}
        Unit of lengths.

    Returns
    -------
    Summary

    Raises
    ------
    ArgumentError
        For results that are not a value for each frame, columns that do not exist, times without a frame.

    Examples
    --------
    >>> rmsd = kn.analysis.RMSD(traj, select="name CA").run()
    >>> found = kn.statistics.summarise(rmsd)
    """
    from kinema.base.choices import OUTPUT_UNIT, check_choice

    check_choice("output_unit", output_unit, OUTPUT_UNIT)
    if periodic is not None and periodic != 0:
        positive_number("periodic", periodic)
    sources = _sources(source)
    series = [one for each in sources for one in series_of(each, columns)]
    if not series:
        raise ArgumentError("no column is a quantity with a value for each frame")
    notes: list[str] = []
    found = []
    for one in series:
        chosen = _within(one, begin, end)
        period = chosen.period if periodic is None else float(periodic)
        found.append(_statistics_of(chosen, period, equilibrated, output_unit, notes))
    _note_bounds(found, notes)
    parameters = {"begin": begin, "end": end, "equilibrated": equilibrated or None, "periodic": periodic}
    inputs = tuple(dict.fromkeys(item for one in series for item in one.inputs))
    return Summary(
        tuple(found),
        {name: str(value) for name, value in parameters.items() if value is not None},
        inputs,
        tuple(dict.fromkeys(notes)),
    )


def _sources(source: Any) -> list[Any]:
    """The sources of a list; numbers in a list are one source."""
    if isinstance(source, list) and not all(isinstance(one, (int, float, np.number)) for one in source):
        return list(source)
    return [source]


def _within(series: FrameSeries, begin: float | None, end: float | None) -> FrameSeries:
    """The values from `begin` to `end`."""
    if begin is None and end is None:
        return series
    if series.time is None:
        raise ArgumentError(f"{series.title} has no times, so begin= and end= choose nothing")
    chosen = np.ones(len(series.values), bool)
    tolerance = _ROUNDING_OF_TIMES * np.maximum(np.abs(series.time), 1.0)
    if begin is not None:
        chosen &= series.time >= begin - tolerance
    if end is not None:
        chosen &= series.time <= end + tolerance
    if not chosen.any():
        raise ArgumentError(
            f"{series.title}: no frame from {begin if begin is not None else 'the first'} to "
            f"{end if end is not None else 'the last'} ps"
        )
    return series.rows(chosen)


def _statistics_of(
    series: FrameSeries, period: float, equilibrated: bool, output_unit: str, notes: list[str]
) -> SeriesStatistics:
    _note_uneven(series, notes)
    known = np.isfinite(series.values)
    if not known.all():
        left, of = int(np.sum(~known)), counted(len(known), "value")
        notes.append(f"{series.title}: {left:,} of {of} are not finite numbers and are left out")
        series = series.rows(known)
    _note_signs(series, period, notes)
    unit, values = series.unit, series.values
    per_unit = PER_UNIT.get((unit, unit.replace("angstrom", output_unit)), 1.0)
    if per_unit != 1.0:
        unit, values = unit.replace("angstrom", output_unit), values / per_unit
    if not len(values):
        nan = math.nan
        return SeriesStatistics(
            series.name, unit, series.source, 0, nan, nan, False, 0, nan, nan, nan, nan, 0.0, 0, None, nan
        )
    # of periodic values, what each adds to the circular mean
    linear = circular_moments(values, period).linearised if period else values
    start = detect_equilibration(linear).start
    used = values[start:] if equilibrated else values
    circular = circular_moments(used, period) if period else None
    linear = used if circular is None else circular.linearised
    blocks, inefficiency = block_error(linear), statistical_inefficiency(linear)
    cancelled = circular is not None and math.isnan(circular.mean)
    number = len(used)
    return SeriesStatistics(
        name=series.name,
        unit=unit,
        source=series.source,
        n_values=number,
        mean=float(np.mean(used)) if circular is None else circular.mean,
        error=math.nan if cancelled else blocks.error,
        has_plateau=blocks.has_plateau,
        block_length=blocks.block_length,
        deviation=_deviation(used) if circular is None else circular.deviation,
        least=float(np.min(used)) if circular is None else math.nan,
        most=float(np.max(used)) if circular is None else math.nan,
        inefficiency=inefficiency,
        n_effective=number / inefficiency,
        equilibrated=start,
        equilibrated_frame=None if series.frames is None else int(series.frames[start]),
        equilibrated_time=math.nan if series.time is None else float(series.time[start]),
    )


def _deviation(values: NDArray[np.float64]) -> float:
    if len(values) < 2:
        return math.nan
    return 0.0 if values.min() == values.max() else float(np.std(values, ddof=1))


def _note_bounds(found: Sequence[SeriesStatistics], notes: list[str]) -> None:
    """A note on errors that are lower bounds."""
    bounds = [one.name for one in found if not one.has_plateau and one.error > 0]
    if bounds:
        which = (
            f"the error of {bounds[0]} is a lower bound"
            if len(found) == 1
            else (f"{len(bounds):,} of {len(found):,} errors are lower bounds")
        )
        notes.append(
            f"{which}: the run is too short for its correlation time, so that errors of blocks have no plateau"
        )


def _note_uneven(series: FrameSeries, notes: list[str]) -> None:
    """A note if the frames are not equally spaced in time: correlations would be of unequal steps."""
    along = series.frames if series.frames is not None else series.time
    if along is None or len(along) < 3:
        return
    steps = np.diff(along)
    if steps[0] <= 0 or np.ptp(steps) > _EVEN * abs(float(steps[0])):
        what = f"{series.source}: " if series.source else ""
        notes.append(
            f"{what}the frames are not equally spaced, so error, inefficiency and equilibration count frames, not times"
        )


def _note_signs(series: FrameSeries, period: float, notes: list[str]) -> None:
    """A note on angles that may be periodic, from a file that does not say so."""
    if (
        not period
        and series.unit == "degree"
        and bool((np.abs(series.values) > 90).any() and (series.values < 0).any())
    ):
        notes.append(
            f"{series.title}: the angles have both signs; for dihedral angles, periodic=360 gives the circular mean"
        )
