"""Standard streams that are closed or full, and names that a terminal would obey or an encoding lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.base.notes import collected, emit
from kinema.base.printable import printable, printable_lines
from kinema.storage.provenance import Input, Provenance
from kinema.testing import random_walk, write_dcd, write_h5md
from kinema.testing.amounts import pairs
from kinema.testing.synthetic import synthetic

EVIL = "a\x1b[31m\n\u202e\udcff.dcd"
SHOWN = r"a\x1b[31m\n\u202e\udcff.dcd"


WHYS = {">&-": "bad file descriptor", ">/dev/full": "no space left on device"}


@pytest.mark.parametrize(
    ("command", "to", "word"), pairs(["info a.dcd", "--help", "--version"], list(WHYS), ["--json", "--debug"])
)
def test_stdout_cannot_be_written(
    tmp_path: Path, environment: dict[str, str], command: str, to: str, word: str
) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(5, 4))
    line = f"exec {sys.executable} -m kinema {word} {command} {to}"
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert last == f"kinema: stdout: cannot write: {WHYS[to]}"
    assert word == "--debug" or len(done.stderr.splitlines()) == 1


def test_streams_that_are_closed_take_nothing_of_others(tmp_path: Path, environment: dict[str, str]) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(5, 4))
    for closed in ("2>&-", "<&- 2>&-", ">&- 2>&-"):
        line = f"exec {sys.executable} -m kinema rmsd -f a.dcd -o out.csv --quiet {closed}"
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert "\n# kinema " in (tmp_path / "out.csv").read_text()
        line = f"exec {sys.executable} -m kinema info nothing.dcd 2>&-"
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, timeout=120)
        assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_that_a_terminal_would_obey(tmp_path: Path, environment: dict[str, str], encoding: str) -> None:
    # a name of this file system, not all of it in its encoding
    name = "\u00e9" + EVIL
    try:
        write_dcd(tmp_path / "plain.dcd", random_walk(5, 4))
        os.rename(tmp_path / "plain.dcd", tmp_path / name)
    except OSError:
        pytest.skip("the file system does not take such names")
    for words in (["rmsd", "-f", name, "-o", f"{name}.csv"], ["check", name], ["info", f"{name}.nothing"]):
        done = subprocess.run(
            [sys.executable, "-m", "kinema", *words],
            cwd=tmp_path,
            env=environment | {"PYTHONIOENCODING": encoding},
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == (2 if words[0] == "info" else 0), done.stderr
        said = (done.stdout + done.stderr).decode(encoding)
        assert r"a\x1b[31m\n\u202e" in said
        assert all(line.isprintable() for line in said.splitlines()), said
    written = (tmp_path / f"{name}.csv").read_text("utf-8")
    assert f"call: kinema rmsd -f '\u00e9{SHOWN}'" in written
    assert all(line.isprintable() for line in written.splitlines())


def test_names_inside_files(tmp_path: Path, run_kinema: Any) -> None:
    import h5py

    write_h5md(tmp_path / "a.h5md", synthetic(3, 4))
    with h5py.File(tmp_path / "a.h5md", "r+") as file:
        creator = file.require_group("h5md").require_group("creator")
        creator.attrs["name"] = "evil\x1b]0;title\x07\nnote: all is well"
        creator.attrs["version"] = "1"
        (group,) = file["particles"]
        file.move(f"particles/{group}", "particles/b\x1b[2J\nc")
    done = run_kinema("info", tmp_path / "a.h5md")
    assert done.returncode == 0, done.stderr
    assert r"evil\x1b]0;title\x07\nnote: all is well" in done.stdout
    assert r"b\x1b[2J\nc" in done.stdout
    assert all(line.isprintable() for line in (done.stdout + done.stderr).splitlines())


def test_one_function_for_all_that_is_printed(tmp_path: Path) -> None:
    assert printable(EVIL) == SHOWN
    assert printable("\u00c5ngstr\u00f6m \u03b1") == "\u00c5ngstr\u00f6m \u03b1"
    assert printable_lines("a\tb\nc") == r"a\tb" + "\nc"
    with pytest.raises(kn.FileNotFound) as caught:
        kn.open(tmp_path / EVIL.replace("\udcff", "")).scan()
    assert SHOWN.replace(r"\udcff", "") in str(caught.value)
    assert caught.value.path == str(tmp_path / EVIL.replace("\udcff", ""))
    with collected() as notes:
        emit([EVIL])
    assert notes == [SHOWN]
    assert f"input: {SHOWN}" in Provenance("1", "x", (Input(EVIL),)).lines()
    assert SHOWN in str(kn.Problem("gap", EVIL, 1, "x"))
    assert SHOWN in str(kn.CheckReport((EVIL,), 1, 1, ()))
