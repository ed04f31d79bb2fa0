"""Commands give the same with what was stored, and without: to the bit. With --no-stored nothing is used or stored."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.cli import main
from kinema.storage.hdf5.chunk_maps import FEWEST_CHUNKS
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.h5md_files import write_small_chunks
from kinema.testing.keepers import settle

_SPEED = re.compile(r" in [\d.]+ s, [\d,]+ frames/s")


def commands(name: str, out: Path) -> dict[str, list[str]]:
    """Commands on a file, by the names of what they write."""
    frames = ["--step", "7", "--runner", "threads", "-j", "2"]
    return {
        "info": ["info", name, "--json"],
        "check": ["check", name, "--json"],
        "rmsd": ["rmsd", name, "-o", str(out / "rmsd.npy"), *frames],
        "rmsf": ["rmsf", name, "-o", str(out / "rmsf.npy"), *frames],
        "rgyr": ["rgyr", name, "--weights", "none", "-o", str(out / "rgyr.npy"), "--skip-damaged"],
        "reference": ["rmsd", name, "--reference", name, "-o", str(out / "reference.npy")],
        "window": ["rgyr", name, "--weights", "none", "-b", "3", "-e", "20", "-o", str(out / "window.npy")],
        "split": ["split", name, "--parts", "3", "-o", str(out / "parts")],
    }


def ran(words: list[str], capsys: Any) -> str:
    """Text that a command prints."""
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, (words, capsys.readouterr().err)
    return str(capsys.readouterr().out)


def results(name: str, out: Path, capsys: Any, *more: str) -> dict[str, Any]:
    """All that the commands print and write."""
    out.mkdir()
    found: dict[str, Any] = {}
    for command, words in commands(name, out).items():
        text = ran([*words, *more], capsys)
        found[command] = (
            json.loads(text) if command in ("info", "check") else _SPEED.sub("", text.replace(str(out), "OUT"))
        )
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.suffix != ".json":
            # the others say when and by which call they were written
            content = kn.open(path, stored=False).read().tobytes() if path.suffix == ".h5md" else path.read_bytes()
            found[str(path.relative_to(out))] = content
    return found


def drop_origin(found: dict[str, Any]) -> dict[str, Any]:
    """Without where indices come from, and what else differs from run to run."""
    for part in found["info"]["parts"]:
        del part["index"], part["index_path"]
    return found


def state(*folders: Path) -> dict[str, tuple[int, int]]:
    """All files of folders, with their times."""
    paths = [path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


@pytest.fixture(params=["xtc", "dcd", "h5md"])
def name(request: Any, tmp_path: Path) -> str:
    path = tmp_path / "data" / f"a.{request.param}"
    path.parent.mkdir()
    if request.param == "h5md":
        write_small_chunks(path, FEWEST_CHUNKS)
    else:
        {"xtc": write_xtc, "dcd": write_dcd}[request.param](path, random_walk(60, 40))
    settle(path)
    return str(path)


def test_results_are_the_same_to_the_bit_with_and_without_what_is_stored(
    name: str, tmp_path: Path, capsys: Any
) -> None:
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "kinema"
    data = Path(name).parent
    before = state(data, cache)
    without = drop_origin(results(name, tmp_path / "without", capsys, "--no-stored"))
    assert state(data, cache) == before, "something was stored"
    first = drop_origin(results(name, tmp_path / "first", capsys))
    stored = state(data, cache)
    assert len(stored) > len(before)
    second = drop_origin(results(name, tmp_path / "second", capsys))
    again = drop_origin(results(name, tmp_path / "again", capsys, "--no-stored"))
    assert without == first == second == again
    # of arrays and parts, and each is there
    assert sum(isinstance(value, bytes) for value in without.values()) >= 8


def test_nothing_that_is_stored_is_used(name: str, tmp_path: Path, capsys: Any) -> None:
    """All of it is made wrong in a way that a reader would note."""
    expected = drop_origin(results(name, tmp_path / "one", capsys))
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "kinema"
    wrong = [Path(path) for path in state(Path(name).parent, cache) if path != name]
    assert wrong
    for path in wrong:
        path.write_bytes(b"wrong")
    assert drop_origin(results(name, tmp_path / "other", capsys, "--no-stored")) == expected
    assert {path.read_bytes() for path in wrong} == {b"wrong"}


def test_the_command_that_stores_says_so(name: str, tmp_path: Path, capsys: Any) -> None:
    found = json.loads(ran(["index", name, "--json", "--no-stored"], capsys))
    assert [one["index_path"] for one in found] == [None]
    assert list(Path(name).parent.iterdir()) == [Path(name)]
    with pytest.raises(SystemExit, match="2"):
        main(["index", name, "--rebuild", "--no-stored"])
    assert "--no-stored forbids" in capsys.readouterr().err


def test_join_and_salvage(tmp_path: Path, capsys: Any) -> None:
    names = [str(tmp_path / f"{number}.xtc") for number in range(2)]
    for number, one in enumerate(names):
        write_xtc(Path(one), random_walk(20, 40), first_step=20 * number)
    ran(["join", *names, "-o", str(tmp_path / "one.xtc"), "--no-stored"], capsys)
    ran(["check", names[0], "--salvage", "-o", str(tmp_path / "two.xtc"), "--no-stored"], capsys)
    assert {path.name for path in tmp_path.iterdir()} == {"0.xtc", "1.xtc", "one.xtc", "two.xtc"}
    assert not (Path(os.environ["XDG_CACHE_HOME"]) / "kinema").exists()
    whole = b"".join(Path(one).read_bytes() for one in names)
    assert (tmp_path / "one.xtc").read_bytes() == whole
    assert (tmp_path / "two.xtc").read_bytes() == Path(names[0]).read_bytes()
