"""The style of pictures: colours, markers, axes, and how a figure becomes a file.

It imports matplotlib, and so is imported only when a picture is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from kinema._core import __version__
from kinema.base.timings import UNACCOUNTED
from kinema.storage.output_file import write_whole
from kinema.storage.provenance import picture_metadata

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PHASE_COLOURS", "logarithmic", "number_axis", "plain", "series_style", "write"]

# distinguishable also without colour vision (after Okabe and Ito): work in colours, loss in greys
PHASE_COLOURS = {
    "start": "#56B4E9",
    "open": "#0072B2",
    "io": "#E69F00",
    "decode": "#F0E442",
    "compute": "#009E73",
    "wait": "#C9C9C9",
    "communicate": "#CC79A7",
    "close": "#7A5195",
    UNACCOUNTED: "#5A5A5A",
}
_SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vP*"
_PLAIN_NUMBERS = FuncFormatter(lambda value, _: f"{value:g}")


def write(figure: Figure, path: str | os.PathLike[str], provenance: Sequence[str] | None = None) -> None:
    """Writes a figure, whole or not at all, in the suffix's format, with `provenance` or the version as metadata."""
    suffix = os.path.splitext(os.fspath(path))[1]
    metadata = picture_metadata(suffix, provenance or [f"kinema {__version__}"])
    write_whole(path, lambda file: figure.savefig(file, format=suffix[1:], dpi=150, metadata=metadata))


def series_style(number: int) -> dict[str, Any]:
    """The style of a series."""
    colour = _SERIES[number % len(_SERIES)]
    # when colours repeat, the marker changes
    marker = _MARKERS[(number + number // len(_SERIES)) % len(_MARKERS)]
    return {"color": colour, "marker": marker, "capsize": 3, "linewidth": 1.3, "markersize": 5}


def logarithmic(axes: Axes) -> None:
    """Scales the other axis like the axis of the numbers of workers: then the ideal is a straight line."""
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(_PLAIN_NUMBERS)
    axes.yaxis.set_minor_formatter(NullFormatter())


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


def plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
