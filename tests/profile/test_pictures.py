"""Pictures show the numbers: lengths, places and colours of bars, points and their deviations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinema.base.timings import PHASES
from kinema.report import Report, scaling_of
from kinema.runners import PassTimings, Timings, WorkerTimings

# seconds of each phase, all different, and two which no clock saw
SECONDS = {name: float(number) for number, name in enumerate(PHASES, start=1)}
REST = 2.0


def worker(number: int) -> WorkerTimings:
    total = sum(SECONDS.values()) + REST
    return WorkerTimings(number, total=total, cpu=1.0, frames=10, blocks=1, bytes_read=1, reads=1, **SECONDS)


def report(*passes: PassTimings) -> Report:
    run = {"analyses": ["RMSD"], "runner": "mpi"}
    return Report({}, {"format": "XTC"}, run, Timings(passes, runner="mpi"), (), (), ())


def test_bars_have_each_phase_in_its_colour_and_what_no_clock_saw() -> None:
    from matplotlib.colors import to_hex

    from kinema.report.figures.style import PHASE_COLOURS

    one = PassTimings(38.0, 20, (worker(0), worker(1)), np.empty((0, 7)))
    # rounds add up
    figure = report(one, one).plot()
    (axes,) = figure.axes
    found = {}
    for container, label in zip(axes.containers, axes.get_legend_handles_labels()[1], strict=True):
        heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in container.patches}
        found[label] = heights
        (colour,) = {to_hex(bar.get_facecolor()).upper() for bar in container.patches}
        phase = {"I/O": "io"}.get(label, label)
        assert colour == PHASE_COLOURS[phase]
    expected = {{"io": "I/O"}.get(name, name): {0: 2 * s, 1: 2 * s} for name, s in SECONDS.items()}
    assert found == expected | {"unaccounted": {0: 2 * REST, 1: 2 * REST}}
    # one on the other
    tops = [bar.get_y() + bar.get_height() for bar in axes.patches]
    assert max(tops) == pytest.approx(2 * (sum(SECONDS.values()) + REST))


def spans(axes: Any) -> list[tuple[str, int, float, float]]:
    """(phase, worker, begin, end) of all bars of a timeline."""
    from matplotlib.colors import to_hex

    from kinema.report.figures.style import PHASE_COLOURS

    names = {colour.upper(): name for name, colour in PHASE_COLOURS.items()}
    found = []
    for bars in axes.collections:
        for path in bars.get_paths():
            low, high = path.vertices.min(axis=0), path.vertices.max(axis=0)
            phase = names[to_hex(bars.get_facecolor()[0]).upper()]
            found.append((phase, round((low[1] + high[1]) / 2), round(low[0], 6), round(high[0], 6)))
    return sorted(found)


def test_the_timeline_shows_who_did_what_when() -> None:
    rows = np.array([[0, 0, 5, 10.0, 1.0, 2.0, 4.0], [1, 1, 5, 20.0, 0.5, 0.25, 0.125]])
    one = PassTimings(30.0, 10, (worker(0), worker(1)), rows)
    figure = report(one, one).plot(kind="timeline")
    (axes,) = figure.axes
    first = [
        ("start", 0, 0.0, 1.0), ("start", 1, 0.0, 1.0), ("plan", 0, 1.0, 3.0), ("plan", 1, 1.0, 3.0),
        ("io", 0, 10.0, 11.0), ("decode", 0, 11.0, 13.0), ("compute", 0, 13.0, 17.0),
        ("io", 1, 20.0, 20.5), ("decode", 1, 20.5, 20.75), ("compute", 1, 20.75, 20.875),
    ]  # fmt: skip
    second = [(phase, who, begin + 30.0, end + 30.0) for phase, who, begin, end in first]
    assert spans(axes) == sorted(first + second)
    assert axes.get_xlim() == (0.0, 60.0)


def test_points_and_deviations_of_scaling() -> None:
    from kinema.report.figures.scaling import draw_scaling

    def run(n: int, seconds: float) -> Report:
        workers = tuple(replace(worker(number), total=SECONDS["start"] + seconds) for number in range(n))
        return report(PassTimings(seconds, 100, workers, np.empty((0, 7))))

    scaling = scaling_of([run(1, 9.0), run(1, 11.0), run(4, 2.0), run(4, 3.0)])
    (points,) = scaling.series.values()
    times, speeds, efficiencies = draw_scaling(scaling).axes
    for axes, name, deviation in (
        (times, "mean", "deviation"),
        (speeds, "speed_up", "speed_up_deviation"),
        (efficiencies, "efficiency", "efficiency_deviation"),
    ):
        (container,) = axes.containers
        line, _, (bars,) = container.lines
        values = [getattr(point, name) for point in points]
        assert line.get_ydata() == pytest.approx(values)
        assert line.get_xdata() == pytest.approx([1, 4])
        for segment, value, point in zip(bars.get_segments(), values, points, strict=True):
            around = getattr(point, deviation)
            assert around > 0
            assert segment[:, 1] == pytest.approx([value - around, value + around])
