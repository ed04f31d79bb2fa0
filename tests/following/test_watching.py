"""Waiting for files: events and looks; the demo."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from tests.following.writers import make

import kinema as kn
from kinema.analysis.growing_outputs import GrowingOutputs
from kinema.base.errors import FileNotFound
from kinema.base.notes import collected
from kinema.cache import waiting
from kinema.cache.waiting import Watch
from kinema.testing.programs.children import start_child
from kinema.trajectory.following import when_there


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_events_end_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # whatever file system tests have
    monkeypatch.setattr(waiting, "_is_local", lambda folder: True)
    monkeypatch.setattr(waiting, "_SELDOM", 30.0)
    path = tmp_path / "md.xtc"
    path.touch()
    for change in (lambda: path.write_bytes(b"x"), lambda: (tmp_path / "md.part2.xtc").touch(), path.unlink):
        watch = Watch([str(path)])
        assert watch.uses_events
        change()
        began = time.monotonic()
        watch.wait(20.0)
        assert time.monotonic() - began < 15.0
        watch.wait(0.0)  # nothing more has happened
        watch.close()
        watch.close()
        assert not watch.uses_events


def test_without_events_files_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Watch([str(tmp_path / "md.xtc")], events=False).uses_events
    monkeypatch.setattr(waiting, "_is_local", lambda folder: False)
    watch = Watch([str(tmp_path / "md.xtc")], 0.01)
    assert not watch.uses_events
    watch.wait(3600.0)  # one interval
    made = make(tmp_path, "md.xtc", 4)
    path = tmp_path / "md.xtc"
    path.write_bytes(made.data[: made.ends[0]])
    timer = threading.Timer(0.2, lambda: path.write_bytes(made.data))
    timer.start()
    try:
        frames = list(kn.open(path, stored=False).follow(4, timeout=20.0, poll=0.02, events=False))
    finally:
        timer.join()
    assert len(frames) == 4


def test_the_kind_of_a_file_system() -> None:
    if sys.platform == "linux":
        assert not waiting._is_local("/proc/self")
        assert isinstance(waiting._is_local("/tmp"), bool)


def test_files_that_are_not_there_yet(tmp_path: Path) -> None:
    made = make(tmp_path, "md.xtc", 2)
    path = tmp_path / "md.xtc"
    path.write_bytes(made.data[:40])
    shown: list[str] = []
    timer = threading.Timer(0.3, lambda: path.write_bytes(made.data))
    timer.start()
    try:
        traj = when_there(lambda: kn.open(path, stored=False), 20.0, shown.append)
    finally:
        timer.join()
    assert traj.n_frames == 2 and len(shown) == 1 and "md.xtc" in shown[0]
    with pytest.raises(FileNotFound):
        when_there(lambda: kn.open(tmp_path / "other.xtc", stored=False), 0.05)
    (tmp_path / "text.xtc").write_bytes(b"no trajectory\n" * 1000)
    with pytest.raises(kn.Error):
        when_there(lambda: kn.open(tmp_path / "text.xtc", stored=False), 20.0)


@pytest.mark.processes
def test_ctrl_c_ends_it_with_what_has_come(tmp_path: Path) -> None:
    made = make(tmp_path, "md.xtc", 5)
    (tmp_path / "md.xtc").write_bytes(made.data)
    table = tmp_path / "rmsd.csv"
    child = start_child(
        [sys.executable, "-m", "kinema", "rmsd", str(tmp_path / "md.xtc"), "--follow", "-o", str(table)]
    )
    deadline = time.monotonic() + 60
    while not table.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    # the last frame comes after half an interval, and is not in the table before the next one is made
    time.sleep(0.5)
    wakes = psutil.Process(child.pid).num_ctx_switches
    before = wakes().voluntary
    while wakes().voluntary < before + 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    assert f"kinema: stopped; written, from 5 frames: {table}" in err
    assert len([line for line in table.read_text().splitlines() if line[:1].isdigit()]) == 5
    assert not list(tmp_path.glob("*.part-*"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is of Linux")
def test_a_stream_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "md.xtc").write_bytes(make(tmp_path, "md.xtc", 5).data)
    traj = kn.open(tmp_path / "md.xtc", stored=False)
    outputs = GrowingOutputs("/dev/full", format="csv")
    with pytest.raises(kn.errors.FileIOError, match=r"^/dev/full: cannot write: no space left"):
        kn.analysis.RadiusOfGyration(traj, weights=None).follow(5, timeout=20.0, callback=outputs.update)
    outputs.close()


def test_the_demo(tmp_path: Path) -> None:
    from kinema.demo.followed import follow_demo

    shown: list[str] = []
    with collected():
        found = follow_demo(tmp_path, 12, shown.append)
    whole = kn.analysis.RadiusOfGyration(kn.open(tmp_path / "following.xtc", stored=False), weights=None).run()
    assert found.analysis.results.values.tolist() == whole.results.values.tolist()
    assert found.picture.stat().st_size > 5000 and found.drawn >= 1
    rows = (tmp_path / "following.csv").read_text().splitlines()
    assert len([line for line in rows if line[:1].isdigit()]) == 12
    assert "simulates" in shown[0] and "   12 frames" in shown[-1]
