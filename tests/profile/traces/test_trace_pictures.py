"""Pictures of traces show the numbers of the summaries."""

from __future__ import annotations

from typing import Any

import pytest

from kinema.report import side_by_side, summarise

MS = 1_000_000


def made(traces: Any, name: str, factor: int) -> Any:
    events = [
        traces.event("reader", "read", 0, 10 * MS * factor, size=1 << 20),
        traces.event("POSIX", "pread64", 0, 4 * MS * factor, fhash="f0", ret=(1 << 20) * factor),
        traces.event("POSIX", "close", 0, 0, fhash="f0"),
        traces.event("compute", "compute", 5 * MS * factor, 20 * MS),
        traces.event("wait", "wait", 60 * MS * factor, 40 * MS),
    ]
    return summarise(traces.write(f"{name}.pfw", [*traces.head(files=["/a"]), *events]), label=name)


def titled(figure: Any, beginning: str) -> Any:
    (axes,) = [one for one in figure.axes if one.get_title(loc="left").startswith(beginning)]
    return axes


def test_of_one(traces: Any) -> None:
    one = made(traces, "one", 1)
    figure = one.plot()
    when = titled(figure, "activity over time")
    assert [text.get_text() for text in when.get_yticklabels()] == [
        "wait", "compute", "POSIX I/O", "application-level I/O",
    ]  # fmt: skip
    times = titled(figure, "time of the job")
    names = [text.get_text() for text in times.get_yticklabels()]
    # in ms: the whole, and above it what is not overlapped
    widths = [bar.get_width() for bar in times.patches]
    assert dict(zip(names, zip(widths[::2], widths[1::2], strict=True), strict=True)) == {
        "application-level I/O": pytest.approx((10, 5)), "POSIX I/O": pytest.approx((4, 4)),
        "compute": pytest.approx((20, 15)), "wait": pytest.approx((40, 40)),
        "neither I/O nor compute": pytest.approx((75, 75)), "total": pytest.approx((100, 100)),
    }  # fmt: skip
    bandwidth = titled(figure, "bandwidth of POSIX calls")
    (patch,) = bandwidth.patches
    values, edges, _ = patch.get_data()
    assert bandwidth.get_ylabel() == "MiB/s"
    # 1 MiB in all: rates by time, in ms
    assert (values * (edges[1:] - edges[:-1])).sum() / 1000 == pytest.approx(1)
    assert edges[-1] == pytest.approx(100, rel=0.02)


def test_of_several(traces: Any) -> None:
    both = side_by_side([made(traces, "one", 1), made(traces, "two", 2)])
    figure = both.plot()
    parts = titled(figure, "what the time went to")
    # start-up, unoverlapped I/O, both at once, computing alone, neither, the end
    assert [round(bar.get_width(), 3) for bar in parts.patches] == [0, 5, 5, 15, 75, 0, 0, 10, 10, 10, 130, 0]
    starts = [round(bar.get_x(), 3) for bar in parts.patches]
    assert starts == [0, 0, 5, 10, 25, 100, 0, 0, 10, 20, 30, 160]
    assert {"100 ms", "160 ms"} <= {text.get_text() for text in parts.texts}
    calls = titled(figure, "POSIX calls")
    assert [bar.get_width() for bar in calls.patches] == [1, 1, 1, 1]
    sizes = titled(figure, "bytes, by the size")
    assert {"1 MiB", "2 MiB"} == {text.get_text() for text in sizes.texts}
    assert [text.get_text() for text in sizes.get_yticklabels()] == ["one, read", "two, read"]
