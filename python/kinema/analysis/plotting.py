"""Figures of result tables. This module imports matplotlib; import it only when a plot is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from kinema.base.printable import plot_label as _shown
from kinema.base.printable import plot_text
from kinema.storage.tables import NO_UNIT, Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

_MANY_POINTS = 2000
# with more lines, colours repeat
_MOST_LINES = 10
# with more names, there is no room beside the lines
_FEW_NAMES = 4
# Okabe and Ito's colours, which the colour-blind distinguish
_STATE_COLOURS = ("#d55e00", "#009e73", "#0072b2", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442")
# up to this number each point is marked: a single point makes no line
_FEW_POINTS = 30


def draw(table: Table) -> Figure:
    """Draws the columns that have a unit against the column `table.x`: one panel per unit, one line per column.

    A line breaks where `x` goes back, and where periodic values such as angles wrap around. Many columns become rows of
    an image.
    """
    x, curves = table.curves()
    units = list(dict.fromkeys(column.unit for column in curves))
    # without pyplot: no window system is chosen and nothing stays open
    figure = Figure(figsize=(7.0, 4.0 if len(units) < 2 else 2.4 * len(units)), layout="constrained")
    panels = figure.subplots(max(len(units), 1), sharex=True, squeeze=False)[:, 0]
    for axes, unit in zip(panels, units, strict=False):
        columns = [column for column in curves if column.unit == unit]
        label = (columns[0].label if len(columns) == 1 else unit) if len(units) > 1 else table.label(curves)
        label = _shown(label.replace(f" ({NO_UNIT})", ""))
        if len(columns) > _MOST_LINES and table.names is None and len(x.values) > 1:
            _draw_image(figure, axes, x, columns, label)
        else:
            _draw_lines(axes, x, columns)
            axes.set_ylabel(label)
    panels[-1].set_xlabel(_shown(x.label))
    if x.values.dtype.kind in "iu":
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    names = next((column.values for column in table.columns if column.name == table.names), None)
    if names is not None:
        if len(x.values) <= _FEW_POINTS:
            panels[-1].set_xticks(np.unique(x.values))
            panels[-1].tick_params(axis="x", rotation=90)
        panels[-1].xaxis.set_major_formatter(_named(x.values, names))
    return figure


def draw_plane(
    values: tuple[NDArray[np.float64], NDArray[np.float64]], labels: tuple[str, str], title: str, limit: float = 180.0
) -> Figure:
    """A histogram of pairs of values in the plane, from -limit to limit; few pairs are drawn as points."""
    figure = Figure(figsize=(5.6, 5.0), layout="constrained")
    axes = figure.subplots()
    x, y = (one.ravel() for one in values)
    if len(x) <= _MANY_POINTS:
        axes.scatter(x, y, s=6, alpha=0.6, linewidths=0)
    else:
        known = np.isfinite(x) & np.isfinite(y)
        *_, image = axes.hist2d(
            x[known], y[known], bins=120, range=[[-limit, limit]] * 2, norm="log", cmap="viridis", rasterized=True
        )
        figure.colorbar(image, ax=axes, label="occurrences", shrink=0.8)
    ticks = np.linspace(-limit, limit, 7)
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title, xlim=(-limit, limit), ylim=(-limit, limit))
    axes.set(xticks=ticks, yticks=ticks, aspect="equal")
    axes.grid(alpha=0.3)
    return figure


def draw_states(
    x: Column, codes: NDArray[np.uint8], rows: Sequence[str], names: Mapping[int, str], title: str
) -> Figure:
    """A map of states over `x`: a row of the picture for each row of `codes`, a colour for each code in `names`."""
    from matplotlib.colors import ListedColormap

    figure = Figure(figsize=(8.0, min(9.0, 2.0 + 0.16 * len(rows))), layout="constrained")
    axes = figure.subplots()
    colours = _colours_of_states(len(names))
    places = np.zeros(256, np.uint8)
    places[list(names)] = np.arange(len(names))
    step = max(1, codes.shape[1] // _MANY_POINTS)
    values = x.values[::step].astype(np.float64)
    rising = len(values) > 1 and bool((np.diff(values) > 0).all())
    edges = np.append(values, 2 * values[-1] - values[-2]) if rising else np.arange(len(values) + 1.0)
    axes.pcolormesh(
        edges,
        np.arange(len(rows) + 1) - 0.5,
        places[codes[:, ::step]],
        cmap=ListedColormap(colours),
        vmin=-0.5,
        vmax=len(names) - 0.5,
        rasterized=True,
    )
    axes.set(xlabel=x.label if rising else "row", title=title, ylim=(len(rows) - 0.5, -0.5))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=24, integer=True))
    axes.yaxis.set_major_formatter(_labelled(rows))
    axes.tick_params(axis="y", labelsize=7)
    _name_states(figure, colours, names.values())
    return figure


def draw_shares(x: Column, shares: Sequence[Column], title: str) -> Figure:
    """Shares that add up to 1 over `x`, on top of each other; the last one is that of no state."""
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.subplots()
    colours = _colours_of_states(len(shares))
    axes.stackplot(x.values, *(one.values for one in shares), colors=colours, step="mid")
    axes.set(xlabel=x.label, ylabel="share of the frames", title=title, ylim=(0.0, 1.0))
    axes.margins(x=0.0)
    _name_states(figure, colours, [one.name for one in shares])
    return figure


def _colours_of_states(number: int) -> list[str]:
    """A colour for each state; that of no state, the last one, is grey."""
    return [_STATE_COLOURS[i % len(_STATE_COLOURS)] for i in range(number - 1)] + ["#f2f2f2"]


def _name_states(figure: Figure, colours: Sequence[str], names: Iterable[str]) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=plot_text(name)) for colour, name in zip(colours, names, strict=True)]
    figure.legend(handles=patches, loc="outside right upper", frameon=False, fontsize="small")


def _draw_lines(axes: Axes, x: Column, columns: list[Column]) -> None:
    width = 0.6 if len(x.values) > _MANY_POINTS else 1.2
    marker = "o" if len(x.values) <= _FEW_POINTS else None
    # no line leads back to where time starts again
    turns = np.diff(x.values.astype(np.float64)) < 0
    for column in columns:
        jumps = np.abs(np.diff(column.values)) > column.period / 2 if column.period else np.zeros_like(turns)
        places = np.flatnonzero(turns | jumps) + 1
        pieces = _broken(x.values, places), _broken(column.values, places)
        axes.plot(*pieces, linewidth=width, marker=marker, markersize=4, label=plot_text(column.name))
    axes.margins(x=0.01)
    axes.grid(alpha=0.3)
    if len(columns) > _FEW_NAMES:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    elif len(columns) > 1:
        axes.legend(frameon=False)


def _draw_image(figure: Figure, axes: Axes, x: Column, columns: list[Column], label: str) -> None:
    """Draws each column as a row of the image, the first on top, with frames in their order."""
    values = np.stack([column.values for column in columns])
    period = columns[0].period
    limits = {"vmin": -period / 2, "vmax": period / 2, "cmap": "twilight"} if period else {"cmap": "viridis"}
    step = max(1, values.shape[1] // _MANY_POINTS)
    times = x.values[::step].astype(np.float64)
    if (np.diff(times) > 0).all():
        # each value extends to the next
        edges = np.append(times, times[-1] + (times[-1] - times[-2] if len(times) > 1 else 1.0))
        rows = np.arange(len(columns) + 1) - 0.5
        image: Any = axes.pcolormesh(edges, rows, values[:, ::step], rasterized=True, **limits)
    else:
        image = axes.imshow(values[:, ::step], aspect="auto", interpolation="nearest", **limits)
    axes.set_ylim(len(columns) - 0.5, -0.5)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=14, integer=True))
    axes.yaxis.set_major_formatter(_labelled([one.name for one in columns]))
    axes.tick_params(axis="y", labelsize=7)
    figure.colorbar(image, ax=axes, label=label)


def _broken(values: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """The values with a NaN, which breaks a line, before each of the places."""
    return np.insert(np.asarray(values, np.float64), places, np.nan) if len(places) else values


def _named(numbers: NDArray[np.integer], names: NDArray[np.str_]) -> FuncFormatter:
    """Labels of ticks: the name of a number and the number; the number alone if it has several names."""
    found: dict[int, set[str]] = {}
    for number, name in zip(numbers.tolist(), names.tolist(), strict=True):
        found.setdefault(number, set()).add(name)

    def label(value: float, _position: int | None) -> str:
        number = round(value)
        known = found.get(number, set())
        return f"{plot_text(next(iter(known)))} {number}" if len(known) == 1 else str(number) if known else ""

    return FuncFormatter(label)


def _labelled(names: Sequence[str]) -> FuncFormatter:
    """Labels of ticks at whole numbers: the name of each place."""

    def label(value: float, _position: int | None) -> str:
        place = round(value)
        return plot_text(names[place]) if place == value and 0 <= place < len(names) else ""

    return FuncFormatter(label)


def draw_raster(
    x: Column, rows: NDArray[np.intp], places: NDArray[np.int64], labels: Sequence[str], title: str
) -> Figure:
    """When each of several things is there, over `x`: thing i of `labels` is row i of the picture, from the top.

    `rows` and `places` say of each occurrence which thing it is of and which value of `x`. If there are more things or
    values than a picture can show, a cell of the picture covers several, and is as dark as the share that is there.
    """
    figure = Figure(figsize=(8.0, min(9.0, 2.4 + 0.16 * len(labels))), layout="constrained")
    axes = figure.subplots()
    n_rows, n_values = len(labels), len(x.values)
    row_step, step = -(-max(n_rows, 1) // _MANY_POINTS), -(-max(n_values, 1) // _MANY_POINTS)
    shape = -(-max(n_rows, 1) // row_step), -(-max(n_values, 1) // step)
    cells = np.bincount(rows // row_step * shape[1] + places // step, minlength=shape[0] * shape[1]).reshape(shape)
    sizes = np.minimum(np.arange(1, shape[0] + 1) * row_step, max(n_rows, 1)) - np.arange(shape[0]) * row_step
    widths = np.minimum(np.arange(1, shape[1] + 1) * step, max(n_values, 1)) - np.arange(shape[1]) * step
    shares = np.minimum(cells / (sizes[:, None] * widths), 1.0)
    values = x.values[::step].astype(np.float64)
    rising = len(values) > 1 and bool((np.diff(values) > 0).all())
    edges = np.append(values, 2 * values[-1] - values[-2]) if rising else np.arange(shape[1] + 1.0)
    heights = np.minimum(np.arange(shape[0] + 1) * row_step, max(n_rows, 1)) - 0.5
    axes.pcolormesh(edges, heights, shares, cmap="Blues", vmin=0.0, vmax=1.0, rasterized=True)
    axes.set(xlabel=x.label if rising else "row", title=title, ylim=(max(n_rows, 1) - 0.5, -0.5))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=24, integer=True))
    axes.yaxis.set_major_formatter(_labelled(labels))
    axes.tick_params(axis="y", labelsize=7)
    return figure


def draw_matrix(
    values: NDArray[np.float64],
    labels: tuple[Sequence[str], Sequence[str]],
    axis: str,
    label: str,
    title: str,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """A map of a matrix, with its first row on top; `limits` below and above 0 are drawn in two colours."""
    n_rows, n_columns = values.shape
    figure = Figure(figsize=(6.4, max(2.4, min(9.0, 0.8 + 5.0 * n_rows / max(n_columns, 1)))), layout="constrained")
    axes = figure.subplots()
    least, most = limits or (None, None)
    colours = "RdBu_r" if limits is not None and limits[0] < 0 < limits[1] else "viridis"
    image = axes.imshow(values, cmap=colours, vmin=least, vmax=most, interpolation="nearest", aspect="auto")
    axes.set(xlabel=axis, ylabel=axis, title=title)
    for one, names in ((axes.yaxis, labels[0]), (axes.xaxis, labels[1])):
        one.set_major_locator(MaxNLocator(nbins=12, integer=True))
        one.set_major_formatter(_labelled(names))
    axes.tick_params(labelsize=7)
    axes.tick_params(axis="x", rotation=45)
    figure.colorbar(image, ax=axes, label=_shown(label))
    return figure


def draw_pairs(first: Column, second: Column, values: Column, limits: tuple[int, int], axis: str, title: str) -> Figure:
    """A map of a matrix of which some pairs are known, in both orders, with its first row on top."""
    figure = Figure(figsize=(6.4, 5.8), layout="constrained")
    axes = figure.subplots()
    both = [np.concatenate([first.values, second.values]), np.concatenate([second.values, first.values])]
    size = max(0.2, 360 / (limits[1] - limits[0] + 1))
    twice = np.concatenate([values.values, values.values])
    points = axes.scatter(both[0], both[1], c=twice, s=size**2, marker="s", linewidths=0, rasterized=True)
    margin = 0.5
    axes.set(xlabel=axis, ylabel=axis, title=title)
    axes.set(xlim=(limits[0] - margin, limits[1] + margin), ylim=(limits[1] + margin, limits[0] - margin))
    figure.colorbar(points, ax=axes, label=_shown(values.label))
    return figure


def draw_functions(
    x: Column,
    panels: Sequence[tuple[str, Sequence[Column]]],
    title: str,
    error: Column | None = None,
) -> Figure:
    """Functions of `x`, a panel for each group of columns; `error` is a band about the first of the first panel."""
    figure = Figure(figsize=(7.0, 2.8 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axes, (label, columns) in zip(all_axes, panels, strict=True):
        _draw_lines(axes, x, list(columns))
        unit = columns[0].unit
        axes.set_ylabel(_shown(label if unit in ("", NO_UNIT) else f"{label} ({unit})"))
    if error is not None:
        values = panels[0][1][0].values
        all_axes[0].fill_between(x.values, values - error.values, values + error.values, alpha=0.3, linewidth=0)
    all_axes[0].set_title(title)
    all_axes[-1].set_xlabel(_shown(x.label))
    return figure


def draw_sections(
    values: NDArray[np.float64],
    edges: Sequence[NDArray[np.float64]],
    unit: str,
    label: str,
    title: str,
    names: str = "xyz",
) -> Figure:
    """Sections through the middle of a grid, across z, y and x, on one scale of colours. Axes have a letter each."""
    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    panels = figure.subplots(1, 3)
    unit = _shown(unit)
    sections = [(2, 0, 1), (1, 0, 2), (0, 1, 2)]
    cuts = [np.take(values, values.shape[across] // 2, axis=across) for across, *_ in sections]
    most = max((float(cut.max()) for cut in cuts if cut.size), default=0.0) or 1.0
    least, colours = min((float(cut.min()) for cut in cuts if cut.size), default=0.0), "viridis"
    if least < 0:
        most = max(most, -least)
        colours = "RdBu"
    for axes, cut, (across, right, up) in zip(panels, cuts, sections, strict=True):
        image = axes.pcolormesh(
            edges[right], edges[up], cut.T, vmin=-most if least < 0 else 0.0, vmax=most, cmap=colours, rasterized=True
        )
        place = values.shape[across] // 2
        middle = (edges[across][place] + edges[across][place + 1]) / 2
        axes.set(xlabel=f"{names[right]} ({unit})", ylabel=f"{names[up]} ({unit})", aspect="equal")
        axes.set_title(f"{names[across]} = {middle:.4g} {unit}", fontsize="medium")
    figure.colorbar(image, ax=panels, label=_shown(label), shrink=0.8)
    figure.suptitle(title)
    return figure


def draw_clusters(
    time: Column,
    labels: NDArray[np.int64],
    sizes: NDArray[np.int64],
    title: str,
    linkage: NDArray[np.float64] | None = None,
    height: float | None = None,
    unit: str = NO_UNIT,
) -> Figure:
    """The cluster of each frame over time, the sizes of the clusters, and the tree with the height of its cut."""
    heights = [2.2, 1.6] if linkage is None else [2.2, 1.6, 2.2]
    figure = Figure(figsize=(8.0, 1.0 + 1.2 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), height_ratios=heights)
    over_time, of_sizes = panels[0], panels[1]
    noise = labels < 0
    size = 9.0 if len(labels) <= _MANY_POINTS else 2.0
    colours = np.array(_STATE_COLOURS)[labels % len(_STATE_COLOURS)]
    over_time.scatter(time.values[~noise], labels[~noise], s=size, c=colours[~noise], linewidths=0, rasterized=True)
    over_time.scatter(time.values[noise], labels[noise], s=size, c="#999999", linewidths=0, rasterized=True)
    over_time.set(xlabel=_shown(time.label), ylabel="cluster", title=plot_text(title))
    over_time.yaxis.set_major_locator(MaxNLocator(integer=True))
    over_time.invert_yaxis()
    over_time.margins(x=0.01)
    numbers = np.arange(len(sizes))
    bars = np.array(_STATE_COLOURS)[numbers % len(_STATE_COLOURS)]
    of_sizes.bar(numbers, sizes, width=0.8 if len(sizes) <= 60 else 1.0, color=bars)
    of_sizes.set(xlabel="cluster", ylabel="frames")
    of_sizes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (over_time, of_sizes):
        axes.grid(alpha=0.3)
    if linkage is not None:
        from scipy.cluster.hierarchy import dendrogram

        tree = panels[2]
        # the last merges alone: a leaf stands for several frames
        dendrogram(
            linkage,
            p=60,
            truncate_mode="lastp",
            no_labels=True,
            color_threshold=height or 0.0,
            above_threshold_color="#777777",
            ax=tree,
        )
        tree.set(ylabel="height" if unit == NO_UNIT else _shown(f"height ({unit})"))
        if height is not None:
            tree.axhline(height, color="black", linewidth=0.8, linestyle="--")
    return figure
