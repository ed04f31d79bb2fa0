"""The style of pictures: colours, markers, axes, panels with a legend and a caption, and how a figure becomes a file.

It imports matplotlib, and so is imported only when a picture is asked for.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from kinema._core import __version__
from kinema.base.timings import UNACCOUNTED
from kinema.storage.output_file import write_whole
from kinema.storage.provenance import picture_metadata

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# distinguishable also without colour vision (after Okabe and Ito): work in colours, loss in greys
PHASE_COLOURS = {
    "start": "#56B4E9",
    "plan": "#A6761D",
    "open": "#0072B2",
    "io": "#E69F00",
    "decode": "#F0E442",
    "compute": "#009E73",
    "wait": "#C9C9C9",
    "communicate": "#CC79A7",
    "close": "#7A5195",
    UNACCOUNTED: "#5A5A5A",
}
#: colours of quantities; a part of t_total has that of its phase
QUANTITY_COLOURS = {
    "t_start": PHASE_COLOURS["start"],
    "t_open": PHASE_COLOURS["open"],
    "t_plan": PHASE_COLOURS["plan"],
    "t_IO": PHASE_COLOURS["io"],
    "t_compute": PHASE_COLOURS["compute"],
    "t_wait": PHASE_COLOURS["wait"],
    "t_communication": PHASE_COLOURS["communicate"],
    "t_end_loop": PHASE_COLOURS["close"],
    "t_unaccounted": PHASE_COLOURS[UNACCOUNTED],
}
# eight colours that differ in brightness too; one blue
_SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#8C564B", "#7F7F7F")
# their numbers have no common divisor, so that colour and marker together repeat after 72 series
_MARKERS = "osD^vP*Xh"
LINES: tuple[Any, ...] = ("-", "--", "-.", ":")
# inches
_CAPTION_LINE, _EDGE, _LETTER = 0.155, 0.15, 0.066
_PLAIN_NUMBERS = FuncFormatter(lambda value, _: f"{value:g}")


def write(figure: Figure, path: str | os.PathLike[str], provenance: Sequence[str] | None = None) -> None:
    """Writes a figure, whole or not at all, in the suffix's format, with `provenance` or the version as metadata."""
    suffix = os.path.splitext(os.fspath(path))[1]
    metadata = picture_metadata(suffix, provenance or [f"kinema {__version__}"])
    write_whole(path, lambda file: figure.savefig(file, format=suffix[1:], dpi=150, metadata=metadata))


def series_style(number: int) -> dict[str, Any]:
    """The style of a series, by its number: colour, marker and line style."""
    return {
        "color": _SERIES[number % len(_SERIES)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": LINES[number // len(_SERIES) % len(LINES)],
        "capsize": 3,
        "linewidth": 1.3,
        "markersize": 5,
    }


def make_panels(n: int, *, columns: int = 3, width: float = 4.0, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    """A figure of `n` panels, each of a width and a height in inches, in rows of at most `columns`."""
    columns = min(columns, n)
    rows = -(-n // columns)
    figure = Figure(figsize=(max(6.0, columns * width), rows * height), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for rest in axes[n:]:
        rest.set_visible(False)
    return figure, axes[:n]


def add_legend_and_caption(figure: Figure, handles: Sequence[Artist], caption: Sequence[str]) -> None:
    """Makes room below the panels, and writes the legend and the lines of the caption there, none of them cut."""
    width, height = figure.get_size_inches()
    lines = [
        line
        for text in caption
        for line in textwrap.wrap(text, int((width - 2 * _EDGE) / _LETTER), subsequent_indent="    ")
    ]
    below = _EDGE + _CAPTION_LINE * len(lines)
    legend, high = _legend(figure, handles, width - 2 * _EDGE)
    whole = height + below + high + _EDGE
    figure.set_size_inches(width, whole)
    figure.set_layout_engine("constrained", rect=(0, 1 - height / whole, 1, height / whole))
    if legend is not None:
        legend.set_bbox_to_anchor((_EDGE / width, below / whole))
    figure.text(
        _EDGE / width, _EDGE / 2 / whole, "\n".join(lines), fontsize=8, va="bottom", linespacing=1.35, color="0.2"
    )


def _legend(figure: Figure, handles: Sequence[Artist], width: float) -> tuple[Legend | None, float]:
    """The legend with as many columns as fit into `width`, and its height in inches."""
    if not handles:
        return None, 0.0
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for columns in range(min(4, len(handles)), 0, -1):
        legend = figure.legend(
            handles=handles, loc="lower left", ncols=columns, frameon=False, fontsize=8.5, borderaxespad=0.0
        )
        box = legend.get_window_extent(renderer)
        if box.width / figure.dpi <= width or columns == 1:
            return legend, box.height / figure.dpi
        legend.remove()
    raise AssertionError("one column is always taken")


def logarithmic(axes: Axes) -> None:
    """Scales the other axis like the axis of the numbers of workers: then the ideal is a straight line."""
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(_PLAIN_NUMBERS)
    axes.yaxis.set_minor_formatter(NullFormatter())


def decades_axis(axes: Axes, low: float, high: float, *, which: str = "y") -> None:
    """A logarithmic axis from `low` to `high` with plain numbers, also if it spans less than a decade."""
    axis = axes.yaxis if which == "y" else axes.xaxis
    axes.set(**{f"{which}scale": "log"})
    narrow = high < 1000 * low
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,)))
    axis.set_major_formatter(_PLAIN_NUMBERS)
    axis.set_minor_formatter(NullFormatter())
    margin = 1.2 * (high / low) ** 0.06
    axes.set(**{f"{which}lim": (low / margin, high * margin)})


def number_axis(axes: Axes, numbers: Sequence[int]) -> None:
    """Sets ticks at the numbers of workers, or at powers of two if the range is large."""
    if len(numbers) > 1 and numbers[-1] >= 8 * numbers[0]:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(_PLAIN_NUMBERS)
        axes.minorticks_off()
    if len(numbers) <= 8:
        axes.set_xticks(numbers)
    elif axes.get_xscale() != "log":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def mark_missing(axes: Axes, found: Sequence[tuple[float, str]]) -> None:
    """Crosses at the bottom of a panel: (place on the axis, colour) of runs without a value.

    The crosses of one place stand side by side.
    """
    for place in dict.fromkeys(place for place, _ in found):
        colours = [colour for at, colour in found if at == place]
        for number, colour in enumerate(colours):
            axes.annotate(
                "\u00d7", (place, 0.0), xytext=(9 * (number - (len(colours) - 1) / 2), 1),
                xycoords=("data", "axes fraction"), textcoords="offset points", ha="center", va="bottom", fontsize=13,
                color=colour, annotation_clip=False,
            )  # fmt: skip


def plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
