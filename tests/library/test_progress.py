"""Progress: the bar on a terminal, lines where a launcher reads stderr, and when there is none."""

from __future__ import annotations

import io
import re
import sys
import time
from typing import Any

import pytest

from kinema.base import progress
from kinema.base.progress import NamesSlowest, report_slowest, reporting


class Terminal(io.StringIO):
    """Text that is written to a terminal."""

    def isatty(self) -> bool:
        return True


def _reported(report: Any) -> None:
    """Reports of a run of 99,960 frames that resumes from a checkpoint and does 1,000 of them."""
    assert isinstance(report, NamesSlowest)
    for frames in (90_000, 90_400, 90_700, 91_000):
        report(frames, 99_960)
        report.slowest("worker 1 (process 12345)", 1234.0)
        time.sleep(0.1)
    report(91_000, 99_960)


def _speed(text: str) -> int:
    (found,) = re.findall(r"([\d,]+) frames/s", text)
    return int(found.replace(",", ""))


@pytest.mark.parametrize("columns", [80, 200])
def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with reporting(None, "RMSD", 99_960) as report:
        _reported(report)
    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", terminal.getvalue())
    last = [line for line in re.split(r"[\r\n]", plain) if "91,000/99,960" in line][-1]
    assert len(last) <= columns
    assert last.startswith("RMSD ")
    # what was done earlier took no time of this run, of which 0.3 seconds have passed
    assert 0 < _speed(last) <= 1000 / 0.3
    assert re.search(r" \d:\d\d:\d\d ", last)
    assert "slowest 1,234: worker 1" in last
    assert ("(process 12345)" in last) == (columns == 200)


def test_lines_for_a_launcher(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with reporting(None, "RMSD", 99_960, launched=True) as report:
        _reported(report)
    # they are ten seconds apart
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(progress, "_BETWEEN_LINES", 0.0)
    with reporting(None, "RMSD", 99_960, launched=True) as report:
        _reported(report)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 5
    assert lines[0] == "RMSD: 90,000 of 99,960 frames, 0 frames/s"
    assert re.fullmatch(
        r"RMSD: 91,000 of 99,960 frames, [\d,]+ frames/s, \d:\d\d:\d\d left, slowest worker 1 \(process 12345\): 1,234",
        lines[-1],
    )
    assert 0 < _speed(lines[-1]) <= 1000 / 0.3
    with reporting(False, "RMSD", 99_960, launched=True) as report:
        assert report is None


class Shell:
    """A stand-in for IPython and the object that shows one output; it keeps what was shown."""

    def __init__(self, name: str) -> None:
        self.shown: list[dict[str, str]] = []
        self.get_ipython = type(name, (), {})
        self.display = self

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool = False) -> Shell:
        assert raw
        self.shown.append(data)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        self(data, raw=raw)


@pytest.mark.parametrize(("name", "shows"), [("ZMQInteractiveShell", True), ("TerminalInteractiveShell", False)])
def test_a_notebook_shows_one_bar_that_goes_at_the_end(
    name: str, shows: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(name)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", shell)
    monkeypatch.setattr("kinema.base.progress._BETWEEN_PICTURES", 0.0)
    with reporting(None, "RMSD of <all>", 10) as report:
        assert (report is not None) == shows
        if report is not None:
            report(0, 10)
            report_slowest(report, {"worker 1": 3, "worker 2": 9}, 3.0)
            report(5, 10)
    assert capsys.readouterr() == ("", "")
    if not shows:
        assert shell.shown == []
        return
    assert shell.shown[0] == {"text/plain": "RMSD of <all>"}
    assert '<progress value="5" max="10"' in shell.shown[-2]["text/html"]
    assert "RMSD of &lt;all&gt;: 5 of 10 frames" in shell.shown[-2]["text/html"]
    assert "slowest worker 1: 1" in shell.shown[-2]["text/plain"]
    assert shell.shown[-1] == {"text/plain": "", "text/html": ""}


def test_a_notebook_shows_nothing_if_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell("ZMQInteractiveShell")
    monkeypatch.setitem(sys.modules, "IPython", shell)
    with reporting(False, "RMSD", 10) as report:
        assert report is None
    assert shell.shown == []
