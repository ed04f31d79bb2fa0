"""`GrowingOutputs`: the table and the picture of an analysis while its frames are still being written.

A file is whole at any time: it is replaced by one with more rows, at most once a second. A stream gets rows as soon as
they are computed.
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

# shortest time between two pictures or tables: in seconds, and in multiples of the time to make one
_INTERVAL = 1.0
_REST = 5.0


class GrowingOutputs:
    """Writer of a growing analysis; call `update` whenever there are new results.

    `values`, `plot`: the table, to a file or as rows to a stream; the picture.
    `format`: {"csv", "xvg", "dat"}; format of the table, as in `Analysis.save`.
    `output_unit`, `output_time_unit`, `overwrite`: as in `Analysis.save`.

    `times`: number of times that the files were written.
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
        """Writes new rows to a stream; rewrites the files if they are due, or with `last`."""
        if self._values is not None and is_stream(self._values):
            self._write_rows(analysis, self._values)
        now = time.monotonic()
        if now < self._next and not last:
            return
        if self._values is not None and not is_stream(self._values):
            analysis.save(self._values, format=self._format, overwrite=self._overwrite, **self._units)
            if not last:
                # nobody else may start to write it before the next time
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
            # the run has started again
            self._rows = 0
        # the header also covers rows to come
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
            # its buffer may hold rows that could not be written, which was an error before
            with suppress(OSError):
                self._stream.close()
        self._stream = None
