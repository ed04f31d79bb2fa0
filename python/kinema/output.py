"""Tables of results as files: .csv, .xvg, .npy, .parquet, .dat; whole or not at all, with their provenance.

It computes nothing. A file is written under a temporary name in the same folder, synced and renamed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, FileAccessError, FileNotFound, UnsupportedFormatError, from_os
from kinema.provenance import Provenance

__all__ = [
    "SUFFIXES",
    "Column",
    "Table",
    "check_folder",
    "check_plot_path",
    "check_writable",
    "write_table",
    "write_whole",
]


@dataclass(frozen=True)
class Column:
    """A named column: `values` (rows,), `unit` ("" for none); whole numbers are written without a point."""

    name: str
    values: NDArray[Any]
    unit: str = ""

    @property
    def label(self) -> str:
        """Name with unit: "time (ps)"."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True)
class Table:
    """Columns of one length, with a title. `x` is the column that the others depend on."""

    title: str
    columns: tuple[Column, ...]
    x: str = "time"

    def curves(self) -> tuple[Column, list[Column]]:
        """The column `x`, and those to be drawn over it: the quantities, which have a unit."""
        x = next(column for column in self.columns if column.name == self.x)
        return x, [column for column in self.columns if column.unit and column is not x and column.name != "time"]

    def numbers(self) -> NDArray[np.float64]:
        """All columns that are numbers, (rows, columns)."""
        found = [column.values for column in self.columns if column.values.dtype.kind != "U"]
        return np.column_stack([values.astype(np.float64) for values in found])


def write_table(path: str | os.PathLike[str], table: Table, provenance: Provenance) -> None:
    """Writes a table; the suffix decides how.

    ====== ==================================================================================================
    .csv   comma-separated, provenance in lines that begin with #, then the columns' names
    .xvg   as GROMACS writes and Grace reads: # comments, @ labels, the column that the others depend on first
    .dat   columns between spaces below one line of names, as cpptraj writes them
    .npy   (rows, columns) float64; names and provenance in a JSON file of the same name + ".json"
    .parquet  one column each, provenance as the file's metadata; needs pyarrow
    ====== ==================================================================================================

    Raises UnsupportedFormatError for another suffix, FileNotFound, FileAccessError or FileIOError for the folder.
    """
    name = os.fspath(path)
    check_writable(name)
    suffix = _suffix(name)
    if suffix == ".npy":
        # first, so that there is no array without it
        write_whole(name + ".json", lambda file: file.write(_sidecar(table, provenance).encode()))
    write = _WRITERS[suffix]
    write_whole(name, lambda file: write(file, table, provenance))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises what writing a table to `path` would raise for its suffix or folder; to be asked before a run."""
    name = os.fspath(path)
    suffix = _suffix(name)
    if suffix not in _WRITERS:
        raise UnsupportedFormatError(
            f"{name}: results are not written as {suffix or 'a file without suffix'}, choose one of "
            f"{', '.join(SUFFIXES)}",
            path=name,
        )
    if suffix == ".parquet":
        _pyarrow(name)
    check_folder(name)


def check_plot_path(path: str | os.PathLike[str]) -> None:
    """The same for a picture: .png, .pdf or .svg."""
    name = os.fspath(path)
    if _suffix(name) not in (".png", ".pdf", ".svg"):
        raise UnsupportedFormatError(
            f"{name}: plots are not written as {_suffix(name) or 'a file without suffix'}, choose one of "
            ".png, .pdf, .svg",
            path=name,
        )
    check_folder(name)


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Calls `write(file)` on a temporary file beside `path`, then syncs and renames it; removes it on any failure."""
    name = os.fspath(path)
    folder = os.path.dirname(name) or "."
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(name)}.", suffix=".part")
    except OSError as error:
        raise from_os("cannot write", error, path=name) from None
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            # mkstemp gives the owner alone access; the result gets what open() would have given it
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.fsync(file.fileno())
        os.replace(temporary, name)
    except BaseException as error:  # also KeyboardInterrupt: nothing half-written stays
        if os.path.exists(temporary):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise from_os("cannot write", error, path=name) from None
        raise


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _umask() -> int:
    # the system only tells the mask when it is set
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def check_folder(name: str) -> None:
    """Raises what writing any file of that name would raise for its folder; to be asked before a run."""
    folder = os.path.dirname(os.path.abspath(name))
    if os.path.isdir(name):
        raise ArgumentError(f"{name}: is a directory, expected a file name", path=name)
    if not os.path.isdir(folder):
        raise FileNotFound(f"{name}: its folder does not exist, make it first", path=name)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileAccessError(f"{name}: its folder may not be written, choose another", path=name)


def _text(column: Column) -> list[str]:
    if column.values.dtype.kind == "U":
        return [str(value) for value in column.values]
    if column.values.dtype.kind in "iu":
        return [str(int(value)) for value in column.values]
    # the shortest text that reads back as the same number
    return [repr(float(value)) for value in column.values]


def _write_csv(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    lines = [f"# {line}" for line in provenance.lines()]
    lines.append(",".join(_quoted(column.label) for column in table.columns))
    rows = zip(*(map(_quoted, _text(column)) for column in table.columns), strict=True)
    lines += [",".join(row) for row in rows]
    file.write(("\n".join(lines) + "\n").encode())


def _quoted(text: str) -> str:
    if any(character in text for character in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _write_xvg(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    x, others = table.curves()
    units = {column.unit for column in others}
    label = f"({units.pop()})" if len(units) == 1 else ""
    lines = [f"# {line}" for line in provenance.lines()]
    lines += [f'@    title "{_grace(table.title)}"']
    lines += [f'@    xaxis  label "{_grace(x.label)}"', f'@    yaxis  label "{_grace(label)}"', "@TYPE xy"]
    lines += [f'@ s{number} legend "{_grace(column.name)}"' for number, column in enumerate(others)]
    rows = zip(*(_text(column) for column in (x, *others)), strict=True)
    lines += ["  ".join(f"{value:>14}" for value in row) for row in rows]
    file.write(("\n".join(lines) + "\n").encode())


def _grace(text: str) -> str:
    # a quotation mark would end the label
    return text.replace('"', "'")


def _write_dat(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    names = ["_".join(column.name.split()) for column in table.columns]
    # cells with blanks, which would look like two
    cells = [["_".join(text.split()) or "-" for text in _text(column)] for column in table.columns]
    lines = [f"# {line}" for line in provenance.lines()]
    lines.append("#" + " ".join(f"{name:>18}" for name in names)[1:])
    lines += [" ".join(f"{value:>18}" for value in row) for row in zip(*cells, strict=True)]
    file.write(("\n".join(lines) + "\n").encode())


def _write_npy(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    np.save(file, table.numbers(), allow_pickle=False)


def _sidecar(table: Table, provenance: Provenance) -> str:
    import json

    numeric = [column for column in table.columns if column.values.dtype.kind != "U"]
    columns = [{"name": column.name, "unit": column.unit} for column in numeric]
    return json.dumps({"title": table.title, "columns": columns, "provenance": json.loads(provenance.json())}, indent=2)


def _write_parquet(file: IO[bytes], table: Table, provenance: Provenance) -> None:
    pyarrow = _pyarrow("")
    from pyarrow import parquet

    arrays = [pyarrow.array(column.values) for column in table.columns]
    fields = [
        pyarrow.field(column.name, array.type, metadata={"unit": column.unit})
        for column, array in zip(table.columns, arrays, strict=True)
    ]
    schema = pyarrow.schema(fields, metadata={"title": table.title, "kinema": provenance.json()})
    parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), file)


def _pyarrow(name: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise UnsupportedFormatError(
            f"{name}: parquet files need pyarrow, install it with: pip install 'kinema[parquet]'", path=name
        ) from None
    return pyarrow


_WRITERS: dict[str, Callable[[IO[bytes], Table, Provenance], None]] = {
    ".csv": _write_csv,
    ".xvg": _write_xvg,
    ".npy": _write_npy,
    ".parquet": _write_parquet,
    ".dat": _write_dat,
}
SUFFIXES: tuple[str, ...] = tuple(_WRITERS)
