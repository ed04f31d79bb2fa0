"""The publications' figures: what is drawn of tables of ranks, and that nothing of it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kinema.base.errors import ArgumentError
from kinema.report.ranks import EMULATED, PUBLISHED, RankSeries, RankTable, SeriesOrigin, Statistic
from kinema.testing.programs.imports import lazy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

draw = lazy("kinema.studies.publications.figures")


def table(label: str, io: float, *, numbers: tuple[int, ...] = (1, 2, 4), **origin: Any) -> RankSeries:
    """Series of ranks; I/O takes `io` seconds on one rank, and the last rank of a run has the most."""
    runs = {}
    for n in numbers:
        for repeat in (1, 2):
            run = {
                "t_IO": io / n + repeat * np.arange(n) / 10, "t_compute": np.full(n, 2.0 / n),
                "t_open": np.full(n, 0.5), "t_communication": np.full(n, 0.1 * (n - 1)), "t_wait": np.zeros(n),
            }  # fmt: skip
            runs[n, repeat] = run | {"t_total": sum(run.values(), start=np.zeros(n))}
    where = SeriesOrigin(**({"where": "node7, a processor, lustre"} | origin))
    return RankTable(label, runs, origin=where).series()


def assert_nothing_cut(figure: Figure) -> None:
    """All words lie within the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = figure.bbox.width, figure.bbox.height
    hidden = {id(text) for axes in figure.axes for text in _hidden_labels(axes)}
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip() and id(text) not in hidden:
            box = text.get_window_extent(canvas.get_renderer())
            assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text.get_text()


def _hidden_labels(axes: Any) -> Iterator[Any]:
    """Labels of ticks beyond the ends of an axis, and all words of axes that are not shown."""
    if not axes.get_visible():
        yield from axes.findobj()
        return
    for axis, at in ((axes.xaxis, 0), (axes.yaxis, 1)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            for label in (tick.label1, tick.label2):
                if not (low <= label.get_position()[at] <= high and label.get_visible()):
                    yield label


def caption(figure: Figure) -> str:
    return " ".join(text.get_text().replace("\n    ", " ") for text in figure.texts)


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_timings_have_a_panel_a_quantity_and_the_largest_rank_thin() -> None:
    series = [table("XTC", 8.0), table("H5MD", 4.0)]
    figure = draw.draw_figure("timings", series)
    panels = {axes.get_ylabel(): axes for axes in figure.axes if axes.get_visible()}
    # no panel of waiting, which took no time; opening has one, as its parts are not known
    assert list(panels) == ["t_total (s)", "t_IO (s)", "t_compute (s)", "t_communication (s)", "t_open (s)"]
    axes = panels["t_IO (s)"]
    assert axes.get_yscale() == "log" and len(axes.containers) == 2 and all(one.has_yerr for one in axes.containers)
    line = axes.containers[0].lines[0]
    assert line.get_xdata() == pytest.approx([1, 2, 4])
    assert line.get_ydata() == pytest.approx([8.0, 4.075, 2.225])
    (thin,) = [one for one in axes.lines if one.get_linewidth() < 1 and one.get_color() == line.get_color()]
    assert thin.get_ydata() == pytest.approx([8.0, 4.15, 2.45])
    assert labels(figure) == ["XTC", "H5MD", "largest rank (thin)"]
    assert caption(figure).endswith("Measured on node7, a processor, lustre; 2 repeats.")
    assert_nothing_cut(figure)
    one = draw.draw_figure("timings", series, quantities=("t_wait", "t_compute"))
    assert [axes.get_ylabel() for axes in one.axes if axes.get_visible()] == ["t_wait (s)", "t_compute (s)"]
    assert [text.get_text() for text in one.axes[0].texts] == ["0 s in all series"]


def test_speed_up_has_own_baselines_or_that_of_another_series() -> None:
    series = [table("XTC", 8.0), table("H5MD", 4.0)]
    figure = draw.draw_figure("speedup", series, quantities=("t_IO",))
    above, below = figure.axes
    assert above.containers[1].lines[0].get_ydata() == pytest.approx([1.0, 4 / 2.075, 4 / 1.225])
    assert below.containers[1].lines[0].get_ydata() == pytest.approx([1.0, 2 / 2.075, 1 / 1.225])
    assert labels(figure) == ["XTC", "H5MD", "ideal"]
    against = draw.draw_figure("speedup", series, quantities=("t_IO",), baseline="XT")
    assert against.axes[0].containers[1].lines[0].get_ydata() == pytest.approx([2.0, 8 / 2.075, 8 / 1.225])
    assert "against the smallest number of ranks of XTC" in caption(against)
    assert_nothing_cut(against)
    for name, found in (("TRR", 0), ("", 2)):
        with pytest.raises(ArgumentError, match=f"fits {found} series, expected one of 'XTC', 'H5MD'"):
            draw.draw_figure("speedup", series, baseline=name)


def test_ideal_lines_of_series_that_begin_on_several_ranks() -> None:
    series = [table("a", 8.0), table("b", 4.0, numbers=(2, 4))]
    figure = draw.draw_figure("speedup", series)
    assert labels(figure) == ["a", "b", "ideal", "ideal, against 2 ranks"]
    assert figure.axes[0].get_ylabel() == "speed-up S = t(first) / t(N)"


def test_bars_have_a_row_a_series_and_a_bar_a_number_of_ranks() -> None:
    figure = draw.draw_figure("bars", [table("H5MD, contiguous and with a name of many words", 8.0), table("b", 4.0)])
    (axes,) = figure.axes
    assert [round(bar.get_width(), 3) for bar in axes.patches] == [8.0, 4.075, 2.225, 4.0, 2.075, 1.225]
    assert [text.get_text() for text in axes.texts][1] == "4.07 (N = 2)"
    assert [text.get_text() for text in axes.get_yticklabels()][1] == "b"
    assert axes.get_xlabel() == "I/O, t_IO (s)"
    assert_nothing_cut(figure)
    alone = draw.draw_figure("bars", [table("a", 8.0, numbers=(1,))], quantities=("t_compute",))
    assert [bar.get_width() for bar in alone.axes[0].patches] == [2.0]
    assert caption(alone).startswith("N = 1. ")


def test_phases_are_stacked_over_the_number_of_ranks() -> None:
    figure = draw.draw_figure("phases", [table("a", 8.0)])
    (axes,) = [one for one in figure.axes if one.get_visible()]
    tops: dict[int, float] = {}
    for bar in axes.patches:
        at = round(bar.get_x() + bar.get_width() / 2)
        tops[at] = max(tops.get(at, 0.0), bar.get_y() + bar.get_height())
    # means over ranks and repeats of all parts
    assert tops == pytest.approx({0: 10.5, 1: 4.075 + 1.0 + 0.5 + 0.1, 2: 2.225 + 0.5 + 0.5 + 0.3})
    assert axes.lines[0].get_ydata() == pytest.approx([10.5, 5.75, 3.75])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4"]
    assert_nothing_cut(figure)


def test_a_bar_a_rank_of_the_median_run() -> None:
    figure = draw.draw_figure("rank-bars", [table("a", 8.0), summary("b")])
    (axes,) = figure.axes
    assert axes.get_title(loc="left").endswith("4 ranks, repeat 2 (the median of 2 repeats)")
    heights: dict[int, float] = {}
    for bar in axes.patches:
        at = round(bar.get_x() + bar.get_width() / 2)
        heights[at] = heights.get(at, 0.0) + bar.get_height()
    assert heights == pytest.approx({rank: 2.0 + 0.2 * rank + 0.5 + 0.5 + 0.3 for rank in range(4)})
    assert_nothing_cut(figure)
    with pytest.raises(ArgumentError, match="no series has the values of single ranks"):
        draw.draw_figure("rank-bars", [summary("b")])


def summary(label: str, *, io: float = 10.0, compute: float = 3.0, **origin: Any) -> RankSeries:
    """A series of one rank without the values of ranks."""
    values = {name: {1: Statistic(s, 0.0, s, 0.0, 1)} for name, s in (("t_IO", io), ("t_compute", compute))}
    return RankSeries(label, values, SeriesOrigin(**origin))


def test_ratios_with_the_line_of_theory() -> None:
    series = [table("a", 8.0), table("b", 4.0), summary("w"), summary("w, work x40", compute=110.0, workload=40.0)]
    figure = draw.draw_figure("ratios", series)
    panels = {(axes.get_xlabel(), axes.get_ylabel()): axes for axes in figure.axes if axes.get_visible()}
    assert [label for _, label in panels] == [
        "speed-up S", "efficiency E = S / N", "R_comp/comm", "t_comm (s)", "R_comp/IO",
    ]  # fmt: skip
    over = panels["R_comp/IO", "speed-up S"]
    # a line a number of ranks, a point a series
    assert [list(one.lines[0].get_xdata()) for one in over.containers] == [[0.25, 0.5], [0.25, 0.5]]
    comm = panels["number of ranks N", "R_comp/comm"]
    assert comm.lines[0].get_xdata() == pytest.approx([2, 4]) and comm.lines[0].get_ydata() == pytest.approx(
        [1.0 / 0.1, 0.5 / 0.3]
    )
    theory = panels["workload (times each frame is computed)", "R_comp/IO"]
    (line,) = [one for one in theory.lines if one.get_linestyle() == "--"]
    assert line.get_ydata() == pytest.approx([0.3, 12.0])
    assert_nothing_cut(figure)
    with pytest.raises(ArgumentError, match="the ratios need runs with one rank"):
        draw.draw_figure("ratios", [RankSeries("x", {"t_total": {2: Statistic(1.0, 0.0, 1.0, 0.0, 1)}})])


def test_twenty_series_are_told_apart_by_colour_marker_and_line() -> None:
    from kinema.report.figures.style import series_style

    styles = [series_style(number) for number in range(20)]
    assert len({(one["color"], one["marker"], one["linestyle"]) for one in styles}) == 20
    assert len({one["color"] for one in styles[:8]}) == len({one["marker"] for one in styles[:9]}) - 1 == 8
    # series of one colour differ in marker and in line
    same = [(a, b) for a in range(20) for b in range(a) if styles[a]["color"] == styles[b]["color"]]
    assert all(styles[a]["marker"] != styles[b]["marker"] for a, b in same)
    assert all(styles[a]["linestyle"] != styles[b]["linestyle"] for a, b in same)
    many = [table(f"a series with a long name, number {n}", 8.0 + n) for n in range(20)]
    figure = draw.draw_figure("timings", many, quantities=("t_IO",))
    assert len(labels(figure)) == 21
    assert_nothing_cut(figure)


def test_the_caption_says_what_was_measured_where() -> None:
    series = [
        table("a", 8.0), table("b", 8.0, where="node9"), table("c", 4.0, kind=EMULATED, where="lustre, 48 stripes"),
        table("d $x$", 4.0, kind=PUBLISHED, where="a journal"),
    ]  # fmt: skip
    words = caption(draw.draw_figure("timings", series, quantities=("t_IO",)))
    for expected in (
        "Measured on node7, a processor, lustre; 2 repeats: a.", "Measured on node9; 2 repeats: b.",
        "Emulated, with the parameters of lustre, 48 stripes; 2 repeats: c.",
        r"Published in a journal; 2 repeats: d \$x\$.",
    ):  # fmt: skip
        assert expected in words


def test_options_that_do_not_fit_are_refused() -> None:
    series = [table("a", 8.0)]
    for kind, options, words in (
        ("pie", {}, "figure must be one of timings, speedup"),
        ("phases", {"quantities": ("t_IO",)}, "a quantity belongs to the figures timings, speedup and bars"),
        ("timings", {"baseline": "a"}, "a baseline belongs to the figure speedup"),
        ("bars", {"quantities": ("t_IO", "t_wait")}, "the figure bars shows one quantity"),
        ("timings", {"quantities": ("t_none",)}, "quantity must be one of 't_total'"),
        ("timings", {"quantities": ("t_plan",)}, "no series has t_plan"),
        ("phases", {}, None),
    ):
        if words is None:
            draw.draw_figure(kind, series)
            continue
        with pytest.raises(ArgumentError, match=words):
            draw.draw_figure(kind, series, **options)
