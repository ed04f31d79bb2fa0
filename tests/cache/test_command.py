"""`--node-cache` of commands, and `kinema cache fill, stat, verify, clear`."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.cache import NodeCache
from kinema.cli import main
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.programs.children import start_child


def ran(words: list[Any], capsys: Any, code: int = 0) -> tuple[str, str]:
    """Text that a command prints on stdout and stderr."""
    try:
        main([str(word) for word in words])
        found = 0
    except SystemExit as end:
        found = int(end.code or 0)
    printed = capsys.readouterr()
    assert found == code, printed.err
    return printed.out, printed.err


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "data" / "a.xtc"
    made.parent.mkdir()
    write_xtc(made, random_walk(200, 150))
    return made


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return tmp_path / "node"


def test_commands_give_the_same_and_say_what_was_saved(path: Path, node: Path, tmp_path: Path, capsys: Any) -> None:
    size = path.stat().st_size
    np.savez(tmp_path / "samples.npz", x=random_walk(50, 40))
    commands: dict[str, list[Any]] = {
        "info": ["info", path],
        "rmsd": ["rmsd", path, "-o", tmp_path / "rmsd.npy"],
        "rgyr": ["rgyr", path, "--weights", "none", "-o", tmp_path / "rgyr.npy"],
        "rmsf": ["rmsf", path, "-o", tmp_path / "rmsf.npy"],
        "check": ["check", path],
        "convert": ["convert", path, "-o", tmp_path / "a.dcd", "--force"],
        "export": ["ml", "export", path, "--output-format", "npy", "-o", tmp_path / "exported", "--force"],
        "statistics": ["ml", "statistics", path, "-o", tmp_path / "s.json", "--force"],
        "samples": ["ml", "statistics", tmp_path / "samples.npz", "-o", tmp_path / "t.json", "--force"],
        "converted": ["ml", "convert", tmp_path / "samples.npz", "-o", tmp_path / "c.h5", "--force"],
    }
    first = True
    for name, words in commands.items():
        plain, err = ran([*words, "--json", "--no-stored"] if name == "info" else [*words, "--json"], capsys)
        assert "node_cache" not in json.loads(plain) and "node cache" not in err
        _, err = ran([*words, "--node-cache", node], capsys)
        line = re.search(r"^node cache: [\d,]+ hits, .* ([\d,]+) bytes from the source, .* bytes saved", err, re.M)
        assert line, (name, err)
        of_samples = name in ("samples",)
        if first:
            assert line[1].replace(",", "") == str(size)
        elif not of_samples:
            assert line[1] == "0", name
        first = False
        with_cache, err = ran([*words, "--node-cache", node, "--json"], capsys)
        found = json.loads(with_cache)
        assert found["node_cache"]["bytes_source"] == 0 < found["node_cache"]["bytes_hit"], name
        assert "node cache" not in err
        _, err = ran([*words, "--node-cache", node, "--quiet"], capsys)
        assert err == ""
        if name == "info":
            one, other = json.loads(plain), found
            del other["node_cache"]
            for part in (*one["parts"], *other["parts"]):
                del part["index"], part["index_path"]
            assert one == other


def test_fill_stat_verify_clear(path: Path, node: Path, tmp_path: Path, capsys: Any) -> None:
    other = tmp_path / "data" / "b.dcd"
    write_dcd(other, random_walk(100, 150))
    size = path.stat().st_size + other.stat().st_size
    out, _ = ran(["cache", "fill", "-f", path, other, "--node-cache", node, "--workers", "2"], capsys)
    assert re.fullmatch(rf"{node}: 2 files, {size:,} bytes, of which {size:,} were fetched in [\d.]+ s\n", out)
    out, _ = ran(["cache", "fill", path, other, "--node-cache", node, "--json"], capsys)
    found = json.loads(out)
    assert (found["files"], found["bytes"], found["fetched_bytes"]) == (2, size, 0)
    # what is filled is used
    out, _ = ran(["rgyr", other, "--weights", "none", "--node-cache", node, "--json"], capsys)
    assert json.loads(out)["node_cache"]["bytes_source"] == 0
    found = json.loads(ran(["cache", "stat", "--node-cache", node, "--json"], capsys)[0])
    assert {one["path"]: one["blocks"] for one in found["files"]} == {str(path): 1, str(other): 1}
    assert found["temporary"] == 0 and found["bytes"] >= size
    out, _ = ran(["cache", "stat", "--node-cache", node], capsys)
    assert out.splitlines()[0].startswith(f"{node}: 2 blocks, ") and len(out.splitlines()) == 3
    assert json.loads(ran(["cache", "verify", "--node-cache", node, "--json"], capsys)[0])["damaged"] == []
    # a bit of a block
    (block,) = [one for one in node.rglob("*") if one.is_file() and one.stat().st_size > other.stat().st_size]
    data = bytearray(block.read_bytes())
    data[10_000] ^= 4
    block.write_bytes(data)
    out, _ = ran(["cache", "verify", "--node-cache", node], capsys, code=1)
    assert "2 blocks, 1 of them damaged and removed" in out
    found = json.loads(ran(["cache", "verify", "--node-cache", node, "--json"], capsys)[0])
    assert (found["blocks"], found["damaged"]) == (1, [])
    out, _ = ran(["cache", "clear", other, "--node-cache", node, "--json"], capsys)
    left = json.loads(ran(["cache", "stat", "--node-cache", node, "--json"], capsys)[0])
    assert json.loads(out)["blocks"] + left["blocks"] == 1
    ran(["cache", "clear", "--node-cache", node], capsys)
    assert json.loads(ran(["cache", "stat", "--node-cache", node, "--json"], capsys)[0])["blocks"] == 0


def test_the_limit_and_the_blocks_of_a_fill_hold_for_who_reads(path: Path, node: Path, capsys: Any) -> None:
    """A command has no option for the limit: by one that fetches, blocks within the limit of the fill must stay."""
    assert NodeCache(node).limit == 200 << 30
    ran(["cache", "fill", path, "--node-cache", node, "--limit", "900 GiB", "--block", "64 KiB"], capsys)
    found = NodeCache(node, block="64 KiB")
    assert (found.limit, found.stat()["blocks"]) == (900 << 30, -(-path.stat().st_size // (64 << 10)))
    again = pickle.loads(pickle.dumps(NodeCache(node, "1 GiB")))
    assert again.limit == 1 << 30 == NodeCache(node).limit
    # handles of workers leave what was given since
    ran(["cache", "fill", path, "--node-cache", node, "--limit", "2 GiB"], capsys)
    assert pickle.loads(pickle.dumps(again)).limit == 1 << 30
    assert NodeCache(node).limit == 2 << 30


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cache", "fill", "none.xtc", "--node-cache", "NODE"], "none.xtc: cannot read the file: no such file"),
        (["cache", "fill", "--node-cache", "NODE"], "no trajectory is named"),
        (["cache", "fill", "PATH"], "Missing option '--node-cache'"),
        (["cache", "fill", "PATH", "--node-cache", "NODE", "--limit", "10 KiB"], "limit of the"),
        (["cache", "stat", "--node-cache", "nowhere"], "nowhere: there is no node cache; kinema cache fill makes one"),
        # a folder that is not a cache stays as it is
        (["cache", "stat", "--node-cache", "FOLDER"], "there is no node cache"),
        (["cache", "verify", "--node-cache", "nowhere"], "there is no node cache"),
        (["cache", "clear", "--node-cache", "nowhere"], "there is no node cache"),
        (["cache", "empty"], "empty"),
        (["info", "PATH", "--node-cache", "PATH"], "must be a folder"),
    ],
)
def test_bad_input(words: list[str], said: str, path: Path, node: Path, capsys: Any) -> None:
    words = [{"PATH": str(path), "NODE": str(node), "FOLDER": str(path.parent)}.get(word, word) for word in words]
    out, err = ran(words, capsys, code=2)
    assert os.listdir(path.parent) == [path.name]
    # no folder is made for what is not there
    assert not node.exists() or "--limit" in words
    assert out == "" and said in err and "defect" not in err
    assert len(err.splitlines()) == 1


def test_the_group_is_listed(capsys: Any) -> None:
    out, _ = ran(["cache", "--help"], capsys)
    assert all(name in out for name in ("fill", "stat", "verify", "clear"))


@pytest.mark.processes
def test_a_fill_that_is_stopped_leaves_nothing_half(tmp_path: Path, node: Path) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(3000, 900))
    words = [sys.executable, "-c", SLOW_FILL, str(path), str(node)]
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parents[1])}
    process = start_child(words, env=environment)
    until = time.monotonic() + 100
    while not [one for one in node.rglob("*") if one.is_file() and one.stat().st_size > 1 << 20]:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)
    assert process.returncode == 130
    cache = NodeCache(node, block="1 MiB")
    found = cache.stat()
    assert found["temporary"] == 0 and 0 < found["bytes"] < path.stat().st_size
    assert cache.verify_all() == []
    # it continues from where it was
    done = cache.fill(path, workers=2)
    assert 0 < done["fetched_bytes"] < path.stat().st_size == done["bytes"]
    np.testing.assert_array_equal(kn.open(path, node_cache=cache).read(), kn.open(path).read())


SLOW_FILL = """
import sys
from kinema.cache import NodeCache
try:
    NodeCache(sys.argv[2], block="1 MiB", source_rate="4 MB").fill(sys.argv[1], workers=2)
except KeyboardInterrupt as stop:
    assert stop.__notes__ == [f"blocks that were fetched stay in {sys.argv[2]}, and are not fetched again"]
    sys.exit(130)
"""
