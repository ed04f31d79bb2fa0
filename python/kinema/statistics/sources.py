"""Sources of series: analyses, tables, files of results (`kinema.statistics.saved`) and arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.statistics.series import FEW_NAMES, FrameSeries, chosen_columns, table_series
from kinema.storage.tables import Table

#: an analysis after `run`, a table, a file of results, "FILE:COLUMN", or values
SeriesSource = Any


def series_of(source: SeriesSource, columns: str | Sequence[str] | None = None) -> list[FrameSeries]:
    """The series of an analysis, a table, a file of results or an array; of all columns, or of the named ones.

    Parameters
    ----------
    source : Analysis, Table, FrameSeries, path, or (frames,) array_like
        "FILE:COLUMN" names one column of a file.
    columns : str or sequence of str, optional

    Raises
    ------
    ArgumentError
        For results that are not a value for each frame, columns that do not exist, and anything else.
    CorruptFileError, FileNotFound
        For files.
    """
    wanted = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
    if isinstance(source, FrameSeries):
        found = [source]
    elif isinstance(source, Table):
        found = table_series(source)
    elif isinstance(source, (str, os.PathLike)):
        # only for files: it reads many formats
        from kinema.statistics.saved import read_series

        return read_series(source, wanted)
    elif hasattr(source, "table") and hasattr(source, "provenance"):
        found = _analysis_series(source)
    elif isinstance(source, (bytes, dict, set)):
        raise ArgumentError(
            f"values are an analysis, a table, a file of results or an array, found {type(source).__name__}"
        )
    else:
        found = [_array_series(source)]
    return chosen_columns(found, wanted)


def one_series(source: SeriesSource, what: str) -> FrameSeries:
    """The only series of a source; `what` is the argument, for the ArgumentError if there are several."""
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], str):
        found = series_of(source[0], source[1])
    else:
        found = series_of(source)
    if len(found) != 1:
        names = ", ".join(one.name for one in found[:FEW_NAMES]) or "none"
        example = found[0].name if found else "COLUMN"
        how = f"FILE:{example}" if isinstance(source, (str, os.PathLike)) else f"(analysis, {example!r})"
        raise ArgumentError(f"{what} is one column, found {counted(len(found), 'column')} ({names}); name one: {how}")
    return found[0]


def _array_series(source: Any) -> FrameSeries:
    try:
        values = np.asarray(source, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"values are an analysis, a table, a file of results or an array, found {type(source).__name__}"
        ) from None
    if values.ndim != 1:
        raise ArgumentError(f"values have the shape {values.shape}, expected one number for each frame")
    if not len(values):
        raise ArgumentError("values are empty, expected one number for each frame")
    return FrameSeries("value", values)


def _analysis_series(analysis: Any) -> list[FrameSeries]:
    name = type(analysis).__name__
    return table_series(analysis.table(), source=name, inputs=analysis.provenance().inputs)
