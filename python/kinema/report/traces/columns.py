"""`TraceColumns`: summaries of several traces side by side, a column each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinema.base.errors import ArgumentError
from kinema.report.traces.summary import SCHEMA, TraceSummary, summarise
from kinema.storage.output_checks import check_not_input, check_plot_path, check_remade
from kinema.storage.output_file import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, eq=False)
class TraceColumns:
    """Several summaries, of the same work done in several ways for example. `print(columns)` shows them.

    `summaries`: summaries with different labels.
    """

    summaries: tuple[TraceSummary, ...]

    def as_dict(self) -> dict[str, Any]:
        """As `TraceSummary.as_dict`, under "traces"."""
        return {"schema": SCHEMA, "traces": [one.as_dict() for one in self.summaries]}

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes all as JSON, as `TraceSummary.save` does."""
        self._check_not_input(path)
        check_remade(path, overwrite=overwrite)
        text = json.dumps(self.as_dict(), allow_nan=False)
        write_whole(path, lambda file: file.write(text.encode()))

    def plot(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> Figure:
        """A matplotlib figure of all, side by side, written to `path` (.png, .pdf, .svg) if one is given."""
        from kinema.report.figures import style
        from kinema.report.traces.picture import draw_columns

        if path is not None:
            self._check_not_input(path)
            check_plot_path(path, overwrite=overwrite)
        figure = draw_columns(self.summaries)
        if path is not None:
            style.write(figure, path)
        return figure

    def _check_not_input(self, path: str | os.PathLike[str]) -> None:
        check_not_input(path, *(file for one in self.summaries for file in one.paths))

    def __str__(self) -> str:
        from kinema.report.traces.text import columns_text

        return columns_text(self.summaries)


def side_by_side(traces: Mapping[str, Paths] | Sequence[TraceSummary]) -> TraceColumns:
    """The summaries of traces by label, each given as for `summarise`, or as a finished summary.

    Raises what `summarise` does; ArgumentError for none, and for two of one label.
    """
    if isinstance(traces, Mapping):
        summaries = tuple(summarise(paths, label=label) for label, paths in traces.items())
    else:
        summaries = tuple(traces)
    labels = [one.label for one in summaries]
    if not summaries or len(set(labels)) < len(labels):
        raise ArgumentError(f"traces stand side by side under labels of their own, found {labels}")
    return TraceColumns(summaries)
