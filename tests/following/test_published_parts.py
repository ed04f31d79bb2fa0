"""Parts that another process, with a folder of its own, publishes and keeps: they are followed, and read as samples."""

from __future__ import annotations

import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.following.test_schedules import check
from tests.following.writers import Program, Stage, Steps, make

import kinema as kn
from kinema.base.notes import collected
from kinema.ml import FrameDataset
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.processes

PRODUCER = """
import os, shutil, sys
from kinema.cache import NodeServer, publish
root, shared = sys.argv[1:]
with NodeServer(root, address="127.0.0.1"):
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        publish(os.path.join(shared, name), local=root)
        os.unlink(os.path.join(root, name))
        print("published", flush=True)
"""


@pytest.fixture(autouse=True)
def _noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with collected():
        yield


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_parts_that_stay_on_their_producers_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (5, 4, 6)
    parts = [make(tmp_path, "md.xtc", n, first=sum(sizes[:i])) for i, n in enumerate(sizes)]
    whole = make(tmp_path, "md.xtc", sum(sizes))
    producer, consumer, shared = tmp_path / "producer", tmp_path / "consumer", tmp_path / "shared"
    shared.mkdir()
    producer.mkdir(0o700)
    process = start_child([sys.executable, "-c", PRODUCER, str(producer), str(shared)], stdin=subprocess.PIPE)
    assert said(process) == "ready\n"

    def publish(number: int) -> None:
        name = f"md.part{number}.xtc"
        (producer / name).write_bytes(parts[number - 8].data)
        assert process.stdin is not None
        process.stdin.write(f"{name}\n")
        process.stdin.flush()
        assert said(process) == "published\n", process.stderr and process.stderr.read()
        Program.changes += 1

    def steps() -> Steps:
        yield
        publish(9)
        yield
        yield
        publish(10)

    # a marker of a file that has gone is none of a part
    (shared / "md.part2.xtc").write_bytes(b"moved away")
    kn.cache.publish(shared / "md.part2.xtc")
    (shared / "md.part2.xtc").unlink()
    publish(8)
    pattern = shared / "md.part*.xtc"
    with pytest.raises(kn.ArgumentError, match=r"md\.part8\.xtc: the file is kept on .*node_cache="):
        kn.open(pattern, stored=False)
    Stage(monkeypatch, steps(), random.Random(1))
    traj = kn.open(pattern, stored=False, node_cache=consumer)
    check(list(traj.follow(timeout=5.0)), whole)
    assert sorted(path.name for path in shared.iterdir() if not path.name.startswith(".")) == [
        f"md.part{number}.xtc.ready" for number in (10, 2, 8, 9)
    ]
    copies = sorted(consumer.glob("fetched/*/*.xtc"))
    assert sorted(path.read_bytes() for path in copies) == sorted(part.data for part in parts)
    # they are on this node: no blocks of them are kept besides
    assert kn.cache.NodeCache(consumer).stat()["blocks"] == 0

    # a data set of all, and of one by its name; nothing is fetched again
    process.kill()
    process.wait()
    samples = FrameDataset(str(pattern), node_cache=consumer)
    assert len(samples) == len(whole)
    np.testing.assert_array_equal(samples[9]["positions"], whole.positions[9])
    one = FrameDataset([str(shared / "md.part9.xtc")], node_cache=consumer)
    assert len(one) == 4
    np.testing.assert_array_equal(one[0]["positions"], parts[1].positions[0])

    # a worker or rank on another node, whose disk has no such copies, is refused
    sent = pickle.dumps(kn.open(pattern, stored=False, node_cache=consumer))
    np.testing.assert_array_equal(pickle.loads(sent).read(), whole.positions)
    other_node = "0123456789abcdef"
    own_node = (consumer / "node").read_text()
    for change in (lambda: (consumer / "node").write_text(other_node), (consumer / "node").unlink):
        change()
        with pytest.raises(
            kn.ArgumentError, match=r"md\.part8\.xtc: this published file is on .* use workers and ranks"
        ):
            pickle.loads(sent)
    (consumer / "node").write_text(own_node)

    # a file that cannot be fetched is an error in bounded time, and one without a marker is not there
    shutil.rmtree(consumer / "fetched")
    monkeypatch.setattr("kinema.trajectory.following.patterns._FETCHED_WITHIN", 0.5)
    with pytest.raises(kn.WaitTimeoutError, match=r"md\.part8\.xtc: could not be fetched"):
        kn.open(shared / "md.part8.xtc", stored=False, node_cache=consumer)
    with pytest.raises(kn.FileNotFound, match="no file fits"):
        kn.open(shared / "md.part*.trr", node_cache=consumer)
