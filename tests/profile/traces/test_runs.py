"""Traces of Kinema's own runs: sums of events are the report's figures, to the nanosecond."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.cli import main
from kinema.report import Report, summarise
from kinema.testing import random_walk, write_dcd, write_xtc


def sums(workers: Any, name: str) -> int:
    return sum(round(getattr(one, name) * 1e9) for one in workers)


@pytest.mark.parametrize("name", ["a.dcd", "a.xtc"])
def test_sums_of_events_are_the_reports(tmp_path: Path, name: str) -> None:
    {"a.dcd": write_dcd, "a.xtc": write_xtc}[name](tmp_path / name, random_walk(60, 500))
    analysis = kn.analysis.RadiusOfGyration(kn.open(tmp_path / name, stored=False), weights=None)
    # the look for broken molecules, whose reads are in a trace and not in a report, is done once for a trajectory
    analysis.run(stop=1)
    with kn.trace(tmp_path / "t"):
        run = analysis.run(workers=2)
    timings = run.report().timings
    found = summarise(tmp_path / "t")
    times = {(one.category, one.name): one.time for one in found.functions}
    assert times["reader", "read"] == sums(timings.workers, "io") > 0
    assert times["decode", "decode"] == sums(timings.workers, "decode") > 0
    computing = sum(time for (category, _), time in times.items() if category == "compute")
    # sums in float64 of some hundred blocks
    assert computing == pytest.approx(sums(timings.workers, "compute"), abs=10)
    assert computing > 0
    read = next(one for one in found.functions if (one.category, one.name) == ("reader", "read"))
    assert read.bytes == timings.bytes_read and read.count == sum(one.reads for one in timings.workers)
    # each of these is made of system calls, in which the time of POSIX I/O lies; headers and scans are read besides
    assert found.operations["read"].bytes >= timings.bytes_read
    assert found.job.application_io <= found.job.total
    assert found.sources == ("kinema",) and found.compute_threads <= 2 and found.processes == 1


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd("a.dcd", random_walk(60, 500))

    def kinema(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(list(words))
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    words = ("rgyr", "-f", "a.dcd", "--weights", "none", "-o")
    assert kinema(*words, "a.csv", "--trace", "one", "--report", "run.json")[0] == 0
    assert kinema(*words, "b.csv", "--trace", "two", "--step", "3")[0] == 0
    code, out, _ = kinema("report", "one", "--plot", "one.png")
    assert code == 0 and out.startswith("one: ") and "application-level I/O" in out
    assert Path("one.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = kinema("report", "one", "--json")
    found = json.loads(out)
    timings = Report.load("run.json").timings
    (read,) = [one for one in found["functions"] if (one["category"], one["name"]) == ("reader", "read")]
    # one more than the run has: the look for broken molecules reads the first frame
    assert read["count"] == sum(one.reads for one in timings.workers) + 1
    assert read["time_ns"] > sums(timings.workers, "io") > 0
    code, out, _ = kinema("report", "one", "two", "--label", "all=one", "--plot", "both.pdf")
    assert code == 0 and out.splitlines()[0].split() == ["all", "two"]
    assert Path("both.pdf").read_bytes().startswith(b"%PDF")
    # files of one label are one trace
    files = [str(next(Path(one).iterdir())) for one in ("one", "two")]
    code, out, _ = kinema("report", *files, "--label", "both=*/*.pfw", "--json")
    both = json.loads(out)
    assert both["label"] == "both" and both["events"] > found["events"]
    # one under two names is one column, or one report of a table
    Path("link").symlink_to("one")
    code, out, err = kinema("report", "one", "./link", "--json")
    assert json.loads(out)["events"] == found["events"]
    assert "link: is named twice, first as one; it is counted once" in err
    Path("again.json").hardlink_to("run.json")
    code, out, err = kinema("report", "run.json", "again.json", "--label", "x=again*", "--json")
    assert json.loads(out)["schema"] == "kinema-report" and "again.json: is named twice" in err
    for words, message in (
        (("report", "one", "run.json"), "reports and traces are not of one kind"),
        (("report", "one", "--timeline", "x.png"), "--timeline is of a report"),
        (("report", "none.pfw"), "none.pfw: cannot read the trace"),
        (("report", "one", "--label", "x=none"), "none of the reports fits"),
        (("report", files[0], "--plot", "x.txt"), "plots are not written as .txt"),
        (("trace",), "no command is named"),
        (("trace", "--", "no-such-command-here"), "no-such-command-here: is not a command"),
    ):
        code, out, err = kinema(*words)
        assert (code, out) == (2, "") and message in err, (words, err)
        assert len(err.splitlines()) == 1
