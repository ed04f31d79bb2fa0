"""A run without a time is a gap with its reason, the experiment continues, and what was measured is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.cli.in_process import call_kinema
from kinema.studies import Design, ExperimentRun, experiment, run_design
from kinema.studies.launching import Ended, run_bounded
from kinema.studies.results_log import read_results
from kinema.testing import random_walk, write_xtc

# what a user's function may do
_FUNCTIONS = """
import os, signal, time

def fails(frame):
    raise ValueError("no atoms of gold")

def hangs(frame):
    time.sleep(600)

def is_killed(frame):
    os.kill(os.getpid(), signal.SIGKILL)

def count(frame):
    return len(frame.positions)
"""


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A trajectory, with a module of functions on PYTHONPATH."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "of_user.py").write_text(_FUNCTIONS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "code"))
    path = tmp_path / "walk.xtc"
    write_xtc(path, random_walk(20, 10), dt=1.0)
    return str(path)


def in_turn(seconds: float, codes: list[int | None], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Programs that end with these codes, without being started."""
    started: list[Any] = []

    def ended(words: list[str], _environment: Any, time_limit: float | None) -> Ended:
        started.append((words, time_limit))
        return Ended(codes[len(started) - 1], seconds, "one\nwhat it said last\n")

    monkeypatch.setattr(experiment, "run_bounded", ended)
    return started


def test_a_failing_a_hanging_and_a_killed_run_are_three_gaps(
    walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ",".join(f"of_user:{name}" for name in ("fails", "hangs", "is_killed", "count"))
    out = tmp_path / "out"
    words = ["scaling", "-f", walk, "--workers", "1", "--repeats", "1", "--analysis", names, "--time-limit", "60"]
    ran = run_bounded

    def bounded(words: list[str], environment: Any, seconds: float | None) -> Ended:
        """As the driver asks, except that the hanging run ends after three seconds."""
        assert seconds == 60.0
        hangs = json.loads(Path(words[-1]).read_text())["analysis"] == "of_user:hangs"
        return ran(words, environment, 3.0 if hangs else seconds)

    monkeypatch.setattr(experiment, "run_bounded", bounded)
    done = call_kinema(*words, "-o", out)
    assert done.returncode == 1
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    reasons = {line["analysis"]: line["reason"] for line in lines}
    assert reasons["of_user:fails"] == "ValueError: no atoms of gold; raised by fails in frame 0 (exit 1)"
    assert reasons["of_user:hangs"] == "out of time: not done after 60 s"
    assert reasons["of_user:is_killed"] == "killed by SIGKILL"
    assert reasons["of_user:count"] == ""
    told = [line for line in done.stdout.splitlines() if line.startswith("gap: ")]
    assert [line.rpartition(": ")[2] for line in told[1:]] == ["not done after 60 s", "killed by SIGKILL"]
    assert len(told) == 3 and "of_user:fails" in told[0]
    # files of the runs are gone
    assert sorted(os.listdir(out)) == ["reports", "results.jsonl", "scaling.png"]
    # another try keeps what was measured, and tries the gaps again
    started = in_turn(1.0, [7, -11, None], monkeypatch)
    before = (out / "results.jsonl").read_bytes().splitlines()
    done = call_kinema(*words, "-o", out, "--continue")
    assert done.returncode == 1 and len(started) == 3
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert (out / "results.jsonl").read_bytes().splitlines()[0] == before[3]
    assert [line["reason"] for line in lines] == [
        "", "what it said last (exit 7)", "killed by SIGSEGV", "out of time: not done after 60 s"
    ]  # fmt: skip


def test_an_experiment_that_was_ended_continues_where_it_was(
    walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = Design(files=(walk,), workers=(1,), repeats=3)
    out = tmp_path / "out"
    runs = run_design(design, out, lambda _line: None)
    first = next(runs)
    runs.close()
    kept = {path: path.read_bytes() for path in (out / "reports").iterdir()}
    assert len(kept) == 1
    # a report without a line is of a run that was not finished
    (out / "reports" / "file-as-is-direct-x1-threads-n1-r2.json").write_bytes(*kept.values())
    started = in_turn(1.0, [1, 1], monkeypatch)
    with pytest.raises(ArgumentError, match="holds the results of another experiment"):
        list(run_design(design, out, lambda _line: None))
    found: list[ExperimentRun] = list(run_design(design, out, lambda _line: None, resume=True))
    assert [(one.repeat, one.report is None) for one in found] == [(0, False), (1, True), (2, True)]
    assert len(started) == 2 and (found[0].job_seconds, found[0].workers) == (first.job_seconds, 1)
    assert {path: path.read_bytes() for path in kept} == kept


def test_only_the_same_experiment_is_continued(walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn(1.0, [1] * 10, monkeypatch)
    out = tmp_path / "out"
    list(run_design(Design(files=(walk,), workers=(1,), repeats=1), out, lambda _line: None, resume=True))
    # more of the same
    more = Design(files=(walk,), workers=(1, 2), repeats=2, runners=("serial", "threads"), time_limit=9.0)
    assert len(list(run_design(more, out, lambda _line: None, resume=True))) == 6
    other = Design(files=(walk,), workers=(1,), repeats=1, stop=9, page_cache="drop")
    with pytest.raises(ArgumentError, match="another experiment, with other stop, page_cache; name another folder"):
        list(run_design(other, out, lambda _line: None, resume=True))
    assert len(read_results(out)) == 6
    (out / "results.jsonl").write_text("{}\n")
    with pytest.raises(ArgumentError, match="cannot be continued"):
        list(run_design(more, out, lambda _line: None, resume=True))
    (out / "results.jsonl").write_text("{}\nhalf of a li")
    with pytest.raises(CorruptFileError, match="line 2 is not a run"):
        list(run_design(more, out, lambda _line: None, resume=True))


def test_gaps_alone_make_no_picture(walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn(1.0, [1] * 2, monkeypatch)
    done = call_kinema("scaling", "-f", walk, "--repeats", "1", "-o", tmp_path / "out")
    assert done.returncode == 1 and done.stdout.count("gap: ") == 2
    assert os.listdir(tmp_path / "out") == ["results.jsonl"] or "scaling.png" not in os.listdir(tmp_path / "out")
