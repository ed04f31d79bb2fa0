"""The picture of an experiment on writing, like figure 1 of the DL_POLY paper: speed by ranks, a line per strategy.

It imports matplotlib. Each kind of records has its own axes, with one logarithmic scale, so that equal ratios are equal
distances; a failure is a cross at the bottom.
"""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from kinema.report.figures.style import decades_axis
from kinema.studies.write_strategies.design import DISK, KINDS, NETCDF_LIBRARY, PLACER, PNETCDF, WITHOUT_ATOMS
from kinema.studies.write_strategies.findings import caption
from kinema.studies.write_strategies.summary import WriteCell, WriteStudy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_strategies"]

# also distinguishable without colour vision (after Okabe and Ito), and by their markers
_STYLES = {
    "direct": ("#0072B2", "o", "direct (PDAW)"),
    "mpiio": ("#D55E00", "s", "MPI-IO (MPIW)"),
    "mpiio-collective": ("#E69F00", "D", "MPI-IO, collective"),
    "serial": ("#009E73", "^", "serial (SDAW)"),
    "gather": ("#CC79A7", "v", "gathered frames"),
    NETCDF_LIBRARY: ("#7A5195", "P", "netCDF4 library on rank 0 (SNCW)"),
    PNETCDF: ("#8C564B", "X", "PnetCDF, atoms in order"),
    "subfiles": ("#56B4E9", "*", "a file a rank"),
    DISK: ("0.45", "", "the disk: plain write and sync"),
}
# strategies whose files have sizes of their own, with names for the titles of panels
_SHORT = {NETCDF_LIBRARY: "SNCW", PNETCDF: "PnetCDF", "subfiles": "a file a rank"}
_OTHERS = (*WITHOUT_ATOMS, *_SHORT)
_APART = 0.02
_MOST_COLUMNS = 4
_WIDTH_OF_A_LETTER = 0.066
_EDGE = 0.1  # inches
# logarithmic margin for crosses below the slowest run
_STRIP = 1.35


def draw_strategies(study: WriteStudy) -> Figure:
    """Axes for each kind of records, the legend, and a caption with the paper's findings."""
    kinds = list(dict.fromkeys(setting.records for setting in study.cells))
    columns = min(_MOST_COLUMNS, len(kinds))
    rows = -(-len(kinds) // columns)
    width = max(8.0, 1.2 + 3.9 * columns)
    lines = _wrapped(study, int((width - 1.0) / _WIDTH_OF_A_LETTER))
    below = 0.17 * len(lines) + 0.6
    height = 3.7 * rows + below + 0.95
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    figure.subplots_adjust(
        left=0.75 / width, right=1 - 0.25 / width, top=1 - 1.15 / height, bottom=(below + 0.62) / height,
        wspace=0.07, hspace=0.35,
    )  # fmt: skip
    shown: list[str] = []
    found = [speed for cell in study.cells.values() if cell.done and _is_drawn(cell) for speed in cell.speeds]
    limits = (min(found, default=0.1), max(found, default=1.0))
    for number, kind in enumerate(kinds):
        shown += _draw_kind(axes.flat[number], study, kind, limits)
    for rest in axes.flat[len(kinds) :]:
        rest.set_visible(False)
    for first in axes[:, 0]:
        first.set_ylabel("speed of writing, GiB/s")
    _make_room_for_labels(figure, axes[:, 0])
    _write_words(figure, study, lines, height)
    known = [name for name in _STYLES if name in shown]
    handles = [_handle(name) for name in known]
    if study.gaps:
        handles.append(Line2D([], [], linestyle="", marker="x", color="0.2", markeredgewidth=2, label="no result"))
    figure.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, (below - 0.42) / height),
        ncols=min(len(handles), max(2, int(width / 1.9))), frameon=False, fontsize=9,
    )  # fmt: skip
    return figure


def _make_room_for_labels(figure: Figure, first: Any) -> None:
    """Moves the left edge of the axes so far that no label of the y axes is cut."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    cut = _EDGE * figure.dpi - min(axes.get_tightbbox(renderer).x0 for axes in first)
    if cut > 0:
        figure.subplots_adjust(left=figure.subplotpars.left + cut / figure.bbox.width)


def _write_words(figure: Figure, study: WriteStudy, lines: list[str], height: float) -> None:
    left = figure.subplotpars.left
    figure.text(
        left, 1 - 0.18 / height, f"Many ranks write one file: {study.system.n_atoms:,} particles of Gd2Zr2O7",
        fontsize=14, fontweight="bold", va="top",
    )  # fmt: skip
    processor = str(study.machine.get("processor", study.machine.get("architecture", "")))
    repeats = "" if study.design.repeats == 1 else f", median and range of {study.design.repeats} runs"
    figure.text(
        left, 1 - 0.5 / height, f"{processor}, {study.cores} cores, {study.file_system}{repeats}", fontsize=9,
        color="0.35", va="top",
    )  # fmt: skip
    figure.text(left, 0.1 / height, "\n".join(lines), fontsize=8.5, va="bottom", linespacing=1.35, color="0.2")


def _draw_kind(axes: Axes, study: WriteStudy, kind: str, limits: tuple[float, float]) -> list[str]:
    """Draws the lines of one kind of records; returns the strategies that were drawn."""
    cells = [cell for setting, cell in study.cells.items() if setting.records == kind and _is_drawn(cell)]
    cells.sort(key=lambda cell: (list(_STYLES).index(cell.setting.strategy), cell.setting.ranks))
    by_strategy = {name: list(some) for name, some in groupby(cells, lambda cell: cell.setting.strategy)}
    ranks = sorted({cell.setting.ranks for cell in cells})
    logarithmic = len(ranks) > 1
    missing: list[tuple[int, str]] = []
    for number, (strategy, some) in enumerate(by_strategy.items()):
        best = _fastest_of_hints(some, ranks)
        shift = 1 + _APART * (number - (len(by_strategy) - 1) / 2) if logarithmic and strategy != DISK else 1.0
        # a missing number of ranks interrupts the line
        values = [None if cell is None or cell.reason else cell for cell in best]
        places = [one * shift for one in ranks]
        speeds = [float("nan") if cell is None else cell.speed for cell in values]
        axes.plot(places, speeds, **_line(strategy))
        for place, cell in zip(places, values, strict=True):
            if cell is not None and len(cell.done) > 1:
                axes.vlines(place, *cell.speeds, color=_STYLES[strategy][0], linewidth=1)
        if strategy != DISK:
            missing += [(place, strategy) for place, cell in zip(ranks, best, strict=True) if cell and cell.reason]
    _mark_missing(axes, missing)
    if logarithmic:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.minorticks_off()
        axes.set_xlim(ranks[0] / 1.2, ranks[-1] * 1.2)
    axes.set_xticks(ranks)
    axes.set_xlabel("MPI ranks")
    low, top = limits
    decades_axis(axes, low / _STRIP if study.gaps else low, top)
    axes.set_title("\n".join([KINDS[kind].title, _sizes(cells)]).rstrip(), fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    return list(by_strategy)


def _sizes(cells: list[WriteCell]) -> str:
    """The sizes of a panel's files: of Kinema's one file, and of those that other libraries and `subfiles` write."""
    by_strategy = {cell.setting.strategy: cell.bytes for cell in cells if cell.done}
    own = [size for name, size in by_strategy.items() if name not in _OTHERS]
    others = {_SHORT[name]: size for name, size in by_strategy.items() if name in _SHORT and size not in own}
    words = [_size(max(own))] if own else []
    return ", ".join(words + [f"{name}: {_size(size)}" for name, size in others.items()])


def _is_drawn(cell: WriteCell) -> bool:
    return cell.setting.strategy != PLACER and not cell.is_missing


def _mark_missing(axes: Axes, missing: list[tuple[int, str]]) -> None:
    """A cross for each strategy without a result, side by side at the bottom of its number of ranks."""
    for place in {place for place, _ in missing}:
        strategies = [strategy for at, strategy in missing if at == place]
        for number, strategy in enumerate(strategies):
            right = 11 * (number - (len(strategies) - 1) / 2)
            axes.annotate(
                "\u00d7", (place, 0.0), xytext=(right, 1), xycoords=("data", "axes fraction"),
                textcoords="offset points", ha="center", va="bottom",
                color=_STYLES[strategy][0], fontsize=15, fontweight="bold",
                annotation_clip=False,
            )  # fmt: skip


def _wrapped(study: WriteStudy, width: int) -> list[str]:
    return [line for text in caption(study) for line in textwrap.wrap(text, width, subsequent_indent="    ")]


def _fastest_of_hints(cells: list[WriteCell], ranks: list[int]) -> list[WriteCell | None]:
    """For each number of ranks the cell to draw: of several sets of hints, the fastest."""
    found: list[WriteCell | None] = []
    for number in ranks:
        some = [cell for cell in cells if cell.setting.ranks == number]
        found.append(min(some, key=lambda cell: cell.seconds if cell.done else float("inf"), default=None))
    return found


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"


def _line(strategy: str) -> dict[str, Any]:
    colour, marker, _ = _STYLES[strategy]
    if strategy == DISK:
        return {"color": colour, "linestyle": ":", "linewidth": 1.8, "marker": "_", "markersize": 12, "zorder": 1}
    return {"color": colour, "marker": marker, "linewidth": 1.8, "markersize": 6.5, "zorder": 3}


def _handle(strategy: str) -> Line2D:
    return Line2D([], [], label=_STYLES[strategy][2], **_line(strategy))
