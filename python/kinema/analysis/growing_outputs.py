"""`GrowingOutputs`: the table and the picture of an analysis while its frames are still coming.

A file is whole at any time: it is replaced by one that has more rows, at most once a second. Into a stream rows are
written as they come.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from kinema.base.errors import from_os
from kinema.storage.output_checks import check_plot_path, is_stream
from kinema.storage.output_file import reserve
from kinema.storage.tables import check_writable, table_lines

if TYPE_CHECKING:
    from kinema.analysis.base import Analysis

__all__ = ["GrowingOutputs"]

# seconds from one picture or table to the next, and in multiples of what it takes to make one
_INTERVAL = 1.0
_REST = 5.0


class GrowingOutputs:
    """What is written of an analysis, with `update` whenever it has new results.

    Parameters
    ----------
    values, plot : path, optional
        A table, of which a stream gets rows; a picture.
    format : {"csv", "xvg", "dat"}, optional
        Of the table, as `Analysis.save`.
    output_unit, output_time_unit, overwrite : as of `Analysis.save`

    Attributes
    ----------
    times : int
        How often the files were written.
    """

    def __init__(
        self,
        values: str | os.PathLike[str] | None = None,
        plot: str | os.PathLike[str] | None = None,
        *,
        format: str | None = None,
        output_unit: str = "angstrom",
        output_time_unit: str = "ps",
        overwrite: bool = False,
    ) -> None:
        self._values = None if values is None else os.fspath(values)
        self._plot = None if plot is None else os.fspath(plot)
        self._format = format
        self._units = {"output_unit": output_unit, "output_time_unit": output_time_unit}
        self._overwrite = overwrite
        self.times = 0
        self._next = 0.0
        self._rows = 0
        self._stream: IO[bytes] | None = None
        if self._values is not None:
            check_writable(self._values, format, overwrite=overwrite)
        if self._plot is not None:
            check_plot_path(self._plot, overwrite=overwrite)

    def update(self, analysis: Analysis, *, last: bool = False) -> None:
        """Writes rows that are new; with `last`, or where it is time, the files anew."""
        if self._values is not None and is_stream(self._values):
            self._write_rows(analysis, self._values)
        now = time.monotonic()
        if now < self._next and not last:
            return
        if self._values is not None and not is_stream(self._values):
            analysis.save(self._values, format=self._format, overwrite=self._overwrite, **self._units)
            if not last:
                # nobody else begins to write it before the next time
                reserve(self._values)
        if self._plot is not None:
            analysis.plot(self._plot, overwrite=self._overwrite, **self._units)
            if not last:
                reserve(self._plot)
        taken = time.monotonic() - now if self._next else 0.0  # the first has imported matplotlib
        self._next = time.monotonic() + max(_INTERVAL, _REST * taken)
        self.times += 1

    def _write_rows(self, analysis: Analysis, name: str) -> None:
        table = analysis.table().change_units(self._units["output_unit"], self._units["output_time_unit"])
        n_rows = len(table.columns[0].values)
        if n_rows < self._rows:
            # the run has begun anew
            self._rows = 0
        # what stands before the rows is of all that are still to come
        made_of = replace(analysis.provenance(), frames="as they are written", inputs=(), notes=())
        head, rows = table_lines(name, table[self._rows :], made_of, format=self._format)
        try:
            if self._stream is None:
                self._stream = sys.stdout.buffer if name in ("-", "/dev/stdout") else open(name, "wb")  # noqa: SIM115
                rows = head + rows
            self._stream.write(rows)
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise from_os("cannot write", error, path=name) from None
        self._rows = n_rows

    def close(self) -> None:
        """Ends a stream that was opened here."""
        if self._stream is not None and self._stream is not sys.stdout.buffer:
            # what could not be written is still in its buffer, and was an error before
            with suppress(OSError):
                self._stream.close()
        self._stream = None
