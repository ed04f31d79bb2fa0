"""The figure of transfers over time: bandwidth, size of a transfer, overlap; a column for each trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinema.cli.in_process import call_kinema
from kinema.report import summarise

US = 1000


def written(traces: Any, name: str) -> Any:
    """60 parts of 1 µs: reads of 400 bytes in parts 3 to 6, of 100 and 300 in part 10; computing from 5 to 10 µs."""
    events = [
        traces.event("POSIX", "pread64", 3 * US, 4 * US, fhash="f0", ret=400),
        traces.event("POSIX", "pread64", 10 * US, 500, fhash="f0", ret=100),
        traces.event("POSIX", "pread64", 10 * US, 500, fhash="f0", ret=300),
        traces.event("compute", "compute", 5 * US, 5 * US),
        traces.event("wait", "wait", 0, 60 * US),
    ]
    return traces.write(name, [*traces.head(files=["/a"]), *events])


def test_sizes_and_overlap_of_a_summary(traces: Any) -> None:
    found = summarise(written(traces, "a.pfw"))
    expected = np.zeros(60)
    expected[3:7], expected[10] = 400, 200
    assert found.bandwidth.read_size == pytest.approx(tuple(expected))
    assert found.bandwidth.write_size == (0.0,) * 60
    # 120 parts of 0.5 µs: alone from 3 to 5, at once from 5 to 7, computing alone from 7 to 10
    assert [at for at, share in enumerate(found.overlap["unoverlapped_io"]) if share] == [6, 7, 8, 9, 20]
    assert [at for at, share in enumerate(found.overlap["overlapped"]) if share] == [10, 11, 12, 13]
    assert [at for at, share in enumerate(found.overlap["unoverlapped_compute"]) if share] == list(range(14, 20))


def test_a_column_a_trace(traces: Any) -> None:
    from kinema.report.traces.timeline import draw_timelines

    figure = draw_timelines([summarise(written(traces, "a.pfw"), label=name) for name in ("one", "two")])
    bandwidth, _, sizes, _, overlap, _ = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["one", "two"]
    assert [one.get_ylabel() for one in (bandwidth, sizes, overlap)] == [
        "bandwidth (MiB/s)", "size of a transfer (KiB)", "share of the time",
    ]  # fmt: skip
    (patch,) = bandwidth.patches
    assert (patch.get_data().values * np.diff(patch.get_data().edges)).sum() * 1.048576 == pytest.approx(800)
    (points,) = sizes.lines
    assert list(points.get_ydata() * 1024) == [400] * 4 + [200]
    assert len(overlap.patches) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "read", "I/O alone", "I/O and compute at once", "compute alone",
    ]  # fmt: skip
    assert "one: POSIX calls, processes 1, on node0; 1 file." in figure.texts[0].get_text()


def test_the_command(traces: Any, tmp_path: Any) -> None:
    first, second = written(traces, "a.pfw"), written(traces, "b.pfw")
    picture = tmp_path / "a.png"
    done = call_kinema("report", first, second, "--figure", "timeline", "--plot", picture)
    assert done.returncode == 0 and picture.stat().st_size > 10_000
    done = call_kinema("report", first, second, "--label", "NPZ=*a.pfw", "--table", "2024-summaries")
    assert done.returncode == 0 and "| NPZ " in done.stdout and "| total time " in done.stdout
    done = call_kinema("report", first, "--figure", "timeline", "--plot", first)
    assert done.returncode == 2
    done = call_kinema("report", first, "--figure", "timeline", "--plot", picture, "--published", tmp_path)
    assert done.returncode == 2 and "published tables have no values for this" in done.stderr
