"""Files of results as series: .csv, .dat, .xvg, .npy, .npz, .parquet and .h5, by Kinema and by other programs.

Files of Kinema state names, units and periods of their columns. Other files have names in their first line, in legends
of Grace (`gmx`), or after "#! FIELDS" (PLUMED). The columns frame and time say which frames the rows belong to.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError, UnsupportedFormatError, missing_package, os_errors
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import check_regular, open_regular
from kinema.base.notes import emit
from kinema.statistics.series import FrameSeries, chosen_columns, table_series
from kinema.storage.provenance import Input
from kinema.storage.tables import NO_UNIT, Column, Table

_UNITS = {"deg": "degree", "degrees": "degree", "Å": "angstrom", "A": "angstrom"}
# a label: its name, and its unit in brackets at the end
_LABEL = re.compile(r"^(?P<name>.*?)\s*\((?P<unit>[^()]*)\)\s*$")
_GRACE = re.compile(r'^@\s*(?P<what>xaxis|yaxis|s\d+|title)\s+(?:label\s+|legend\s+)?"(?P<text>.*)"\s*$')
_OURS = re.compile(r"^# kinema \d")
_DESCRIBED = re.compile(r"^# (?P<what>units|periods): (?P<json>\{.*\})$")


def split_column(name: str) -> tuple[str, str | None]:
    """The file and the column that "FILE:COLUMN" names; a file that exists may have colons in its name."""
    if os.path.exists(name):
        return name, None
    for place in reversed([i for i, one in enumerate(name) if one == ":"]):
        if os.path.exists(name[:place]):
            return name[:place], name[place + 1 :]
    file, colon, column = name.rpartition(":")
    return (file, column) if colon and os.path.splitext(file)[1].lower() in SUFFIXES else (name, None)


def read_series(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> list[FrameSeries]:
    """The series of a file of results: of all columns, of the named ones, or of the one of "FILE:COLUMN".

    Raises
    ------
    ArgumentError
        For columns that the file has not, and files whose rows are not frames.
    UnsupportedFormatError
        For a suffix that is not one of `SUFFIXES`.
    FileNotFound, FileAccessError, FileIOError, CorruptFileError, MissingPackageError
    """
    file, column = split_column(os.fspath(path))
    if column is not None:
        columns = [column] if columns is None else columns
    suffix = os.path.splitext(file)[1].lower()
    if suffix not in _READERS:
        raise UnsupportedFormatError(
            f"results are not read from {suffix or 'a file without suffix'}, expected one of {', '.join(SUFFIXES)}",
            at=file,
        )
    check_regular(file, "file of results")
    content = _READERS[suffix](file)
    # in tables of Kinema columns without a unit say what the rows are of; others may leave units out
    columns_read = tuple(
        _with_unit(one) if not content.is_ours or one.name in (columns or ()) else one for one in content.columns
    )
    names = [one.name for one in columns_read]
    inputs = (Input.from_path(file),)
    if columns_read and not content.is_ours and "frame" not in names and "time" not in names:
        emit([f"{file}: no column frame or time: its rows are taken as frames, one after the other"])
        found = [
            FrameSeries(one.name, np.asarray(one.values, np.float64), one.unit, one.period, source=file, inputs=inputs)
            for one in columns_read
            if one.unit
        ]
    else:
        table = Table(os.path.basename(file), columns_read, x="frame")
        found = table_series(table, source=file, inputs=inputs)
    return chosen_columns(found, columns)


@dataclass(frozen=True)
class _FileColumns:
    """Columns of a file, and whether Kinema wrote it."""

    columns: tuple[Column, ...]
    is_ours: bool


def _with_unit(column: Column) -> Column:
    known = column.unit or column.name in ("frame", "time")
    return column if known else Column(column.name, column.values, NO_UNIT, period=column.period)


def _column(label: str, values: NDArray[Any], unit: str | None = None, period: float = 0.0) -> Column:
    """A column by its label, "rmsd (angstrom)", or by its name and unit."""
    name = label
    if unit is None:
        match = _LABEL.match(label)
        name, unit = (match["name"], match["unit"]) if match else (label, "")
    if name.lower() in ("frame", "time"):
        name = name.lower()
    if name == "frame" and values.dtype.kind == "f" and np.array_equal(values, np.rint(values)):
        values = values.astype(np.int64)
    return Column(name, values, _UNITS.get(unit, unit), period=period)


# -- text ----------------------------------------------------------------------------------------------------------


def _text_of(path: str) -> list[str]:
    with open_regular(path, "file of results") as file, os_errors("cannot read the file of results", path):
        data = file.read()
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"byte {error.start}: not text in UTF-8", at=path, offset=error.start) from None


def _described(lines: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Units and periods that the comments of a table of Kinema name."""
    found: dict[str, Mapping[str, Any]] = {"units": {}, "periods": {}}
    for line in lines:
        match = _DESCRIBED.match(line)
        if match:
            try:
                found[match["what"]] = dict(json.loads(match["json"]))
            except ValueError:
                # a comment of another program
                continue
    return found


def _numbers(
    path: str, rows: Sequence[str], delimiter: str | None, n_columns: int | None = None
) -> dict[int, NDArray[np.float64]]:
    """The columns of numbers, by their place."""
    if not rows:
        return {place: np.empty(0) for place in range(n_columns or 0)}
    first = next(csv.reader([rows[0]])) if delimiter else rows[0].split()
    if n_columns is not None and len(first) != n_columns:
        raise CorruptFileError(f"the first row has {len(first)} cells, expected {n_columns}", at=path)
    places = [place for place, cell in enumerate(first) if _is_number(cell)]
    if not places:
        return {}
    try:
        values = np.loadtxt(rows, delimiter=delimiter, usecols=places, ndmin=2, comments=None, quotechar='"')
    except ValueError as error:
        raise CorruptFileError(f"not a table of numbers: {error}", at=path) from None
    return {place: values[:, i] for i, place in enumerate(places)}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_csv(path: str) -> _FileColumns:
    lines = _text_of(path)
    comments = [line for line in lines if line.startswith("#")]
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    if not rows:
        raise CorruptFileError("no line with the names of columns", at=path)
    labels = next(csv.reader([rows[0]]))
    if all(map(_is_number, labels)):
        labels = [f"column {place + 1}" for place in range(len(labels))]
    else:
        rows = rows[1:]
    known = _described(comments)
    columns = [_column(labels[i], values) for i, values in _numbers(path, rows, ",", len(labels)).items()]
    return _FileColumns(
        tuple(_with_period(one, known) for one in columns if one.name.strip()),
        any(map(_OURS.match, comments)),
    )


def _with_period(column: Column, known: Mapping[str, Mapping[str, Any]]) -> Column:
    unit = str(known["units"].get(column.name, column.unit))
    return Column(column.name, column.values, unit, period=float(known["periods"].get(column.name, 0.0)))


def _read_dat(path: str) -> _FileColumns:
    lines = _text_of(path)
    comments = [line for line in lines if line.startswith(("#", "@"))]
    rows = [line for line in lines if line.strip() and not line.startswith(("#", "@"))]
    numbers = _numbers(path, rows, None)
    width = len(rows[0].split()) if rows else None
    # the line before the rows, or the first, that has a name for each column
    candidates = [line.lstrip("#!@ ").removeprefix("FIELDS ").split() for line in comments]
    fitting = [words for words in candidates if len(words) == width]
    names = fitting[0] if fitting else [f"column {place + 1}" for place in range(width or 0)]
    known = _described(comments)
    spelled = {"_".join(name.split()): name for name in (*known["units"], *known["periods"])}
    columns = [_column(spelled.get(names[place], names[place]), values, "") for place, values in numbers.items()]
    return _FileColumns(tuple(_with_period(one, known) for one in columns), any(map(_OURS.match, comments)))


def _read_xvg(path: str) -> _FileColumns:
    lines = _text_of(path)
    labels: dict[str, str] = {}
    for line in lines:
        match = _GRACE.match(line)
        if match:
            labels.setdefault(match["what"], match["text"])
    rows = [line for line in lines if line.strip() and not line.startswith(("#", "@"))]
    if any(line.startswith("&") for line in rows):
        raise CorruptFileError("has several sets of data, expected one (gmx writes one without -xvg xmgrace)", at=path)
    numbers = _numbers(path, rows, None)
    comments = [line for line in lines if line.startswith("#")]
    known = _described(comments)
    y = _LABEL.match(labels.get("yaxis", ""))
    unit = y["unit"] if y else ""
    x_label = labels.get("xaxis", "x")
    columns = []
    for place, values in numbers.items():
        if place == 0:
            columns.append(_column(x_label, values))
            continue
        name = labels.get(f"s{place - 1}", "")
        if not name:
            name = (y["name"] if y else labels.get("yaxis", "")) or "y"
            name = name if len(numbers) == 2 else f"{name} {place}"
        columns.append(_with_period(_column(name, values, unit or NO_UNIT), known))
    # an axis of residues or distances: not a series, whoever wrote it
    return _FileColumns(tuple(columns), is_ours=True)


# -- arrays --------------------------------------------------------------------------------------------------------


def _load(path: str) -> Any:
    try:
        with os_errors("cannot read the file of results", path):
            return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CorruptFileError(f"not an array of numbers: {error}", at=path) from None


def _labels_of_npy(path: str) -> list[tuple[str, str, float]]:
    """Name, unit and period of each column, as the file beside an array says; none without such a file of ours.

    Raises CorruptFileError for one that is damaged: without periods the means of angles would be wrong.
    """
    if not os.path.exists(path):
        return []
    with os_errors("cannot read the columns of the array", path), open(path, "rb") as file:
        text = file.read()
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CorruptFileError(f"not the columns of an array: {error}", at=path) from None
    columns = found.get("columns") if isinstance(found, dict) else None
    if columns is None:
        # of another program
        return []
    try:
        return [(str(one["name"]), str(one["unit"]), float(one.get("period", 0.0))) for one in columns]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"not the columns of an array: {error!r}", at=path) from None


def _read_npy(path: str) -> _FileColumns:
    values, labels = _load(path), _labels_of_npy(path + ".json")
    if values.ndim == 1:
        return _FileColumns((Column("value", values, NO_UNIT),), is_ours=False)
    if values.ndim != 2:
        raise ArgumentError(f"{path}: the array has the shape {values.shape}, expected (frames, columns)")
    if labels and len(labels) != values.shape[1]:
        raise CorruptFileError(f"names {len(labels)} columns of an array that has {values.shape[1]}", at=path + ".json")
    if labels:
        columns = [_column(name, values[:, i], unit, period) for i, (name, unit, period) in enumerate(labels)]
        return _FileColumns(tuple(columns), is_ours=True)
    return _FileColumns(tuple(_columns_of("column", values, (), (), ())), is_ours=False)


def _columns_of(
    name: str, values: NDArray[Any], names: Sequence[str], units: Sequence[str], periods: Sequence[float]
) -> list[Column]:
    """A column for each of the columns of (frames,) or (frames, columns) values."""
    wide = values.reshape(len(values), -1)
    number = wide.shape[1]
    if len(names) != number:
        names = [name] if number == 1 else [f"{name} {place + 1}" for place in range(number)]
    units = list(units) if len(units) == number else [units[0] if len(units) == 1 else NO_UNIT] * number
    periods = list(periods) if len(periods) == number else [0.0] * number
    return [
        _column(one, wide[:, i], unit, period)
        for i, (one, unit, period) in enumerate(zip(names, units, periods, strict=True))
    ]


def _read_npz(path: str) -> _FileColumns:
    with _load(path) as archive:
        arrays = {name: archive[name] for name in archive.files if archive[name].dtype.kind in "iufb"}
    columns: list[Column] = []
    for given, name in (("frames", "frame"), ("frame", "frame"), ("time", "time"), ("times", "time")):
        if given in arrays and name not in {one.name for one in columns}:
            unit = "ps" if name == "time" else ""
            columns.append(_column(name, np.ravel(arrays.pop(given)), unit))
    length = (
        len(columns[0].values) if columns else max((len(one) for one in arrays.values() if one.ndim == 1), default=0)
    )
    for name, values in arrays.items():
        if values.ndim in (1, 2) and len(values) == length:
            columns += _columns_of(name, values, (), (), ())
    if not columns:
        raise ArgumentError(f"{path}: no array has one number for each frame, found {', '.join(arrays) or 'none'}")
    return _FileColumns(tuple(columns), is_ours=False)


def _read_parquet(path: str) -> _FileColumns:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise missing_package("a parquet file", "pyarrow", "parquet", error, path) from None
    try:
        with os_errors("cannot read the file of results", path):
            table = parquet.read_table(path)
    except ArrowException as error:
        raise CorruptFileError(f"not a parquet file: {error}", at=path) from None
    columns = []
    for field, values in zip(table.schema, table.columns, strict=True):
        found = values.to_numpy()
        if found.dtype.kind in "iufb":
            of = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
            columns.append(_column(field.name, found, of.get("unit", ""), float(of.get("period", 0.0))))
    return _FileColumns(tuple(columns), b"kinema" in (table.schema.metadata or {}))


def _read_hdf5(path: str) -> _FileColumns:
    from kinema.storage.hdf5.file import check_structure

    try:
        import h5py

        check_structure(path)
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != "kinema results" or "frames" not in file:
                raise ArgumentError("is not a file of results per frame that Kinema wrote", at=path)
            if not file.attrs.get("complete", True):
                raise ArgumentError("is not complete: the run that writes it has not ended", at=path)
            columns = [Column("frame", np.asarray(file["frames"])), Column("time", np.asarray(file["time"]), "ps")]
            for name, stored in file.items():
                if name not in ("frames", "time") and isinstance(stored, h5py.Dataset) and stored.dtype.kind in "iufb":
                    names = [str(one) for one in stored.attrs.get("columns", ())]
                    units = str(stored.attrs.get("unit", NO_UNIT)).split(", ")
                    periods = [float(one) for one in stored.attrs.get("periods", ())]
                    columns += _columns_of(name, np.asarray(stored), names, units, periods)
    except OSError as error:
        from kinema.base.errors import Error

        if isinstance(error, Error):
            raise
        raise CorruptFileError(f"not a readable HDF5 file: {error}", at=path) from None
    return _FileColumns(tuple(columns), is_ours=True)


_READERS: dict[str, Callable[[str], _FileColumns]] = {
    ".csv": _read_csv,
    ".dat": _read_dat,
    ".txt": _read_dat,
    ".xvg": _read_xvg,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}
SUFFIXES: tuple[str, ...] = tuple(_READERS)
