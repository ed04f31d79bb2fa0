"""Tables of results as files: .csv, .xvg, .npy, .parquet, .dat, with their provenance."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import OUTPUT_TIME_UNIT, OUTPUT_UNIT, TABLE_FORMATS, check_choice
from kinema.base.errors import ArgumentError, UnsupportedFormatError, missing_package
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import printable
from kinema.storage.output_checks import ArrayFingerprint, check_remade, is_stream
from kinema.storage.output_file import write_whole
from kinema.storage.provenance import Provenance

# unit of a quantity whose unit is not known
NO_UNIT = "1"
# how much of a unit one of another is: dividing by it is exact to the last digit
PER_UNIT = {
    ("angstrom", "nm"): 10.0,
    ("angstrom^2", "nm^2"): 100.0,
    ("angstrom^-1", "nm^-1"): 0.1,
    ("angstrom^-2", "nm^-2"): 0.01,
    ("angstrom^-3", "nm^-3"): 0.001,
    ("e/angstrom^3", "e/nm^3"): 0.001,
    ("ps", "ns"): 1000.0,
}


@dataclass(frozen=True)
class Column:
    """A named column: `values` (rows,), `unit` ("" for none, "1" for an unknown one), after which `period` they repeat.

    Whole numbers are written without a point, numbers that were stored as float32 (`single`) with the digits of
    float32. `digits` is the number of significant digits, as text, of a number computed from stored ones: 7 for
    float32; 0: all. Atoms are counted from 0. For a column that names atoms, or holds their (whole) numbers, `from_one`
    is its name when they are counted from 1 (`Table.from_one`).
    """

    name: str
    values: NDArray[Any]
    unit: str = ""
    single: bool = False
    period: float = 0.0
    from_one: str = ""
    digits: int = 0

    @property
    def label(self) -> str:
        """Name with unit: "time (ps)"."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def change_unit(self, unit: str) -> Column:
        """The column in another unit; the column itself if that is "" or its own unit."""
        if unit in ("", self.unit):
            return self
        # 0.1 ps stored as float32 is 0.0001 ns, not the value of all its float64 digits in ns
        values = np.array(_text(self), dtype=np.float64) if self.single else self.values
        return replace(self, values=values / PER_UNIT[self.unit, unit], unit=unit)


@dataclass(frozen=True)
class Table:
    """Columns of one length, with a title.

    `x` is the column on which the others depend; `names` is a column of words for its values, for pictures.
    """

    title: str
    columns: tuple[Column, ...]
    x: str = "time"
    names: str | None = None

    def __getitem__(self, rows: slice) -> Table:
        """The table with some of its rows."""
        return replace(self, columns=tuple(replace(one, values=one.values[rows]) for one in self.columns))

    def curves(self) -> tuple[Column, list[Column]]:
        """The column `x`, and the columns to draw over it: the quantities, which have a unit."""
        x = next(column for column in self.columns if column.name == self.x)
        return x, [column for column in self.columns if column.unit and column is not x and column.name != "time"]

    def label(self, columns: Sequence[Column]) -> str:
        """Title of these columns with their unit, "RMSD (nm)"; without a unit if they have several."""
        units = {column.unit for column in columns}
        unit = units.pop() if len(units) == 1 else NO_UNIT
        return self.title if unit == NO_UNIT else f"{self.title} ({unit})"

    def change_units(self, output_unit: str, output_time_unit: str) -> Table:
        """The table with its angstrom and ps columns converted to "angstrom" or "nm", and "ps" or "ns".

        Raises ArgumentError for another unit.
        """
        check_choice("output_unit", output_unit, OUTPUT_UNIT)
        check_choice("output_time_unit", output_time_unit, OUTPUT_TIME_UNIT)
        lengths = {f"angstrom{power}": f"{output_unit}{power}" for power in ("", "^2", "^-1", "^-2", "^-3")}
        wanted = {**lengths, "e/angstrom^3": f"e/{output_unit}^3", "ps": output_time_unit}
        return replace(self, columns=tuple(column.change_unit(wanted.get(column.unit, "")) for column in self.columns))

    def from_one(self) -> Table:
        """The table with atoms counted from 1, as people expect in text, Parquet and pictures."""
        names = {column.name: column.from_one for column in self.columns if column.from_one}
        columns = [
            replace(
                column,
                name=names[column.name],
                values=column.values + 1 if column.values.dtype.kind in "iu" else column.values,
                from_one="",
            )
            if column.from_one
            else column
            for column in self.columns
        ]
        return replace(self, columns=tuple(columns), x=names.get(self.x, self.x))

    def numbers(self) -> NDArray[np.floating]:
        """All columns that are numbers, (rows, columns): float64, or float32 if all columns are."""
        numeric = [column.values for column in self.columns if column.values.dtype.kind != "U"]
        dtype = np.float32 if all(values.dtype == np.float32 for values in numeric) else np.float64
        return np.column_stack([values.astype(dtype) for values in numeric])


def write_table(
    path: str | os.PathLike[str],
    table: Table,
    provenance: Provenance,
    *,
    format: str | None = None,
    overwrite: bool = False,
) -> None:
    """Writes a table in the format of the suffix, or in `format` ("csv", "xvg", "dat"). A stream without either gets
    "csv".

    ====== ==================================================================================================
    .csv   comma-separated; the first line has the columns' names, for pandas.read_csv(comment="#") and
           numpy.genfromtxt(names=True, delimiter=","); then provenance in lines that begin with #, and the periods
           of columns that have one
    .xvg   as GROMACS writes and Grace reads: # comments, @ labels, the column that the others depend on first
    .dat   columns between spaces; the first line has their names, for numpy.genfromtxt(names=True); a comment has
           their units
    .npy   (rows, columns) float64, or float32 if all columns are; names and provenance in a JSON file of the same
           name + ".json"
    .parquet  one column each, provenance as the file's metadata; needs pyarrow
    ====== ==================================================================================================

    Atoms are counted from 1, except in .npy: arrays count from 0, as Python does. Text has the significant digits of a
    number (`Column.digits`), .npy and .parquet have all digits.
    Raises as `check_writable`: UnsupportedFormatError for another suffix, FileNotFound, FileAccessError or FileIOError
    for the folder.
    """
    name = os.fspath(path)
    check_writable(name, format, overwrite=overwrite)
    suffix = _suffix(name, format)
    for sidecar in table_files(name, format)[1:]:
        # first, so that there is no array without it
        write_whole(sidecar, lambda file: file.write(_sidecar(table, provenance).encode()))
    write = _WRITERS[suffix]
    shown = table if suffix == ".npy" else table.from_one()
    write_whole(name, lambda file: write(file, shown, provenance))


def table_lines(
    path: str | os.PathLike[str], table: Table, provenance: Provenance, *, format: str | None = None
) -> tuple[bytes, bytes]:
    """The text that `write_table` would write for a table of numbers: the lines before the first row, and the rows.

    Raises ArgumentError for a format that is not text.
    """
    suffix = _suffix(os.fspath(path), format)
    if suffix.lstrip(".") not in TABLE_FORMATS:
        raise ArgumentError(f"{os.fspath(path)}: {suffix} has no rows of text, expected {', '.join(TABLE_FORMATS)}")
    text = io.BytesIO()
    _WRITERS[suffix](text, table.from_one(), provenance)
    lines = text.getvalue().splitlines(keepends=True)
    head = len(lines) - len(table.columns[0].values)
    return b"".join(lines[:head]), b"".join(lines[head:])


def table_files(path: str | os.PathLike[str], format: str | None = None) -> list[str]:
    """The files that `write_table` writes: the named file, and the JSON file beside an array."""
    name = os.fspath(path)
    return [name, name + ".json"] if _suffix(name, format) == ".npy" else [name]


def check_writable(
    path: str | os.PathLike[str], format: str | None = None, *, overwrite: bool = False, more: Sequence[str] = ()
) -> None:
    """Checks before a run that a table can be written to `path`; raises the errors for its suffix or folder.

    A table that Kinema wrote may be replaced; without `overwrite`, raises ArgumentError for any other existing file.
    `more` are suffixes of other files that the results can be written to.
    """
    name = os.fspath(path)
    if format is not None:
        check_choice("format", format, TABLE_FORMATS)
    suffix = _suffix(name, format)
    if suffix not in _WRITERS and suffix not in more:
        known = ", ".join([*SUFFIXES, *more])
        raise UnsupportedFormatError(
            f"results are not written as {suffix or 'a file without suffix'}, choose one of {known}", at=name
        )
    if suffix == ".parquet":
        _pyarrow(name)
    for one in table_files(name, format):
        check_remade(one, overwrite=overwrite)


def _suffix(name: str, format: str | None) -> str:
    suffix = os.path.splitext(name)[1].lower()
    if format is not None:
        return f".{format}"
    return ".csv" if not suffix and is_stream(name) else suffix


def _text(column: Column) -> list[str]:
    if column.values.dtype.kind == "U":
        return [printable(value) for value in column.values]
    if column.values.dtype.kind in "iu":
        return [str(int(value)) for value in column.values]
    if column.digits:
        return [f"{value:.{column.digits}g}" for value in column.values.tolist()]
    # the shortest text that reads back as the same number of its type
    if column.single:
        return [str(value) for value in column.values.astype(np.float32)]
    return [repr(float(value)) for value in column.values]


def _comments(table: Table, provenance: Provenance, *, units: bool = False) -> list[str]:
    """The lines of the provenance, and what names of columns do not say: periods; with `units`, units too.

    `kinema.statistics` reads them.
    """
    lines = [f"# {line}" for line in provenance.lines()]
    if units:
        lines.append(f"# units: {json.dumps({one.name: one.unit for one in table.columns if one.unit})}")
    periods = {one.name: one.period for one in table.columns if one.period}
    return [*lines, f"# periods: {json.dumps(periods)}"] if periods else lines


def _write_csv(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    # names first, where numpy.genfromtxt(names=True) takes them
    lines = [",".join(_quoted(printable(column.label)) for column in table.columns)]
    lines += _comments(table, provenance)
    rows = zip(*(map(_quoted, _text(column)) for column in table.columns), strict=True)
    lines += [",".join(row) for row in rows]
    file.write(("\n".join(lines) + "\n").encode())


def _quoted(text: str) -> str:
    if any(character in text for character in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _write_xvg(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    x, others = table.curves()
    lines = _comments(table, provenance)
    lines += [f'@    title "{_grace(table.title)}"']
    lines += [
        f'@    xaxis  label "{_grace(x.label)}"',
        f'@    yaxis  label "{_grace(table.label(others))}"',
        "@TYPE xy",
    ]
    lines += [f'@ s{number} legend "{_grace(column.name)}"' for number, column in enumerate(others)]
    rows = zip(*(_text(column) for column in (x, *others)), strict=True)
    lines += ["  ".join(f"{value:>14}" for value in row) for row in rows]
    file.write(("\n".join(lines) + "\n").encode())


def _grace(text: str) -> str:
    # a quotation mark would end the label
    return printable(text).replace('"', "'")


def _write_dat(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    names = ["_".join(printable(column.name).split()) for column in table.columns]
    # cells with blanks, which would look like two
    cells = [["_".join(text.split()) or "-" for text in _text(column)] for column in table.columns]
    # names first, where numpy.genfromtxt(names=True) takes them; numpy.loadtxt skips all of these lines
    lines = ["#" + " ".join(f"{name:>18}" for name in names)[1:]]
    lines += _comments(table, provenance, units=True)
    lines += [" ".join(f"{value:>18}" for value in row) for row in zip(*cells, strict=True)]
    file.write(("\n".join(lines) + "\n").encode())


def _write_npy(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    np.save(file, table.numbers(), allow_pickle=False)


def _sidecar(table: Table, provenance: Provenance) -> str:
    numeric = [column for column in table.columns if column.values.dtype.kind != "U"]
    columns = [{"name": one.name, "unit": one.unit} | ({"period": one.period} if one.period else {}) for one in numeric]
    fingerprint = ArrayFingerprint()
    np.save(fingerprint, table.numbers(), allow_pickle=False)
    described = {
        "kinema": provenance.version,
        # by which a later call recognises the array
        "fingerprint": str(fingerprint),
        "title": table.title,
        "columns": columns,
        "atoms_counted_from": 0,
        "provenance": json.loads(provenance.json()),
    }
    return json.dumps(described, indent=2)


def _write_parquet(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    pyarrow = _pyarrow("")
    from pyarrow import parquet

    arrays = [pyarrow.array(column.values) for column in table.columns]
    fields = [
        pyarrow.field(
            column.name,
            array.type,
            metadata={"unit": column.unit} | ({"period": repr(column.period)} if column.period else {}),
        )
        for column, array in zip(table.columns, arrays, strict=True)
    ]
    schema = pyarrow.schema(fields, metadata={"title": table.title, "kinema": provenance.json()})
    parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), file)


def _pyarrow(name: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise missing_package("a parquet file", "pyarrow", "parquet", error, name) from None
    return pyarrow


_WRITERS: dict[str, Callable[[IO[bytes], Table, Provenance], None]] = {
    ".csv": _write_csv,
    ".xvg": _write_xvg,
    ".npy": _write_npy,
    ".parquet": _write_parquet,
    ".dat": _write_dat,
}
SUFFIXES: tuple[str, ...] = tuple(_WRITERS)
