"""Every line of docs/first-day.md runs on the files that it names, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.cli.in_process import call_kinema

from .documents import Line, blocks, kinema_lines

LINES = kinema_lines("docs/first-day.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the program on the page copies, and the job file that it shows."""
    folder = tmp_path_factory.mktemp("first-day")
    (program,) = blocks("docs/first-day.md", "python")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        exec(compile(program, "docs/first-day.md", "exec"), {})
    (job,) = blocks("docs/first-day.md", "toml")
    (folder / "job.toml").write_text(job)
    return folder


def test_there_are_lines() -> None:
    assert len(LINES) >= 10


@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_line_runs_and_prints_what_the_page_shows(line: Line, folder: Path) -> None:
    words = [*line.words, "--timeout", "120"] if line.words == ["doctor"] else line.words
    done = call_kinema(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    shown = [text for text in line.output if text and text != "..."]
    assert [text for text in shown if text not in done.stdout.splitlines()] == []
