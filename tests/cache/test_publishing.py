"""Publishing on one node: whole files or none, markers that are checked, second publications, killed producers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kinema as kn
from kinema.cache import await_ready, publish, published
from kinema.storage.user_key import key_file, user_key
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.usefixtures("own_key")

OWNER = {"node": "0123456789abcdef", "host": "x", "address": "127.0.0.1", "port": 1, "boot": "b"}


def forged(path: Path, **changes: object) -> None:
    """The marker of a file with other content, and the old proof."""
    marker = path.with_name(path.name + ".ready")
    marker.write_text(json.dumps({**json.loads(marker.read_text()), **changes}))


def test_a_published_file_is_whole_and_named_by_its_marker(tmp_path: Path) -> None:
    write_dcd(tmp_path / "writing.dcd", random_walk(20, 15))
    content = (tmp_path / "writing.dcd").read_bytes()
    name = tmp_path / "part-1.dcd"

    made = publish(name, file=tmp_path / "writing.dcd", frames=20)
    assert not (tmp_path / "writing.dcd").exists()
    found = await_ready(name, 0)
    assert found == made
    assert (found.path, found.size, found.frames, found.origin) == (str(name), len(content), 20, "shared")
    assert json.loads((tmp_path / "part-1.dcd.ready").read_text())["xxh3"] == found.xxh3
    assert len(kn.open(found.path)) == 20
    assert sorted(os.listdir(tmp_path))[:2] == ["part-1.dcd", "part-1.dcd.ready"]
    # without a file of another name, what is there
    (tmp_path / "other.bin").write_bytes(b"")
    assert publish(tmp_path / "other.bin").xxh3 == "2d06800538d394c2"  # XXH3-64 of nothing
    with pytest.raises(kn.FileNotFound):
        publish(tmp_path / "none.bin")
    assert not (tmp_path / "none.bin.ready").exists()


def test_a_consumer_waits_no_longer_than_it_says(tmp_path: Path) -> None:
    name = tmp_path / "late.bin"
    with pytest.raises(kn.WaitTimeoutError, match=r"late\.bin: nothing was published within 0\.05 s"):
        await_ready(name, 0.05)
    with pytest.raises(kn.ArgumentError, match="timeout"):
        await_ready(name, float("nan"))

    def produce() -> None:
        time.sleep(0.2)
        name.write_bytes(b"x" * 1000)
        time.sleep(0.1)  # it is there, and not yet published
        publish(name)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        assert await_ready(name, 60).size == 1000
    finally:
        thread.join()


def test_a_second_publication_is_refused_unless_it_is_the_same_or_replaces(tmp_path: Path) -> None:
    name = tmp_path / "one.bin"
    name.write_bytes(b"first")
    first = publish(name)
    marker = (tmp_path / "one.bin.ready").read_bytes()
    assert publish(name) == first  # a producer that is started again
    assert (tmp_path / "one.bin.ready").read_bytes() == marker

    (tmp_path / "two.bin").write_bytes(b"second!")
    with pytest.raises(kn.ArgumentError, match=r"another file is published under this name.*replace=True"):
        publish(name, file=tmp_path / "two.bin")
    assert await_ready(name, 0) == first
    assert publish(name, file=tmp_path / "two.bin", replace=True).size == 7
    assert await_ready(name, 0).size == 7
    assert name.read_bytes() == b"second!"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"longer than it was"), "size in bytes, expected 5, found 18"),
        (lambda path: path.write_bytes(b"First"), "checksum, expected"),
        (lambda path: path.unlink(), "expected a file, found none"),
        (lambda path: forged(path, xxh3="0" * 16), "checksum, expected 0000000000000000"),
        (lambda path: forged(path, size=True), "is not a Kinema marker"),
        (lambda path: forged(path, size=1 << 70), "is not a Kinema marker"),
        (lambda path: forged(path, frames=-1), "is not a Kinema marker"),
        (lambda path: forged(path, proof=7), "is not a Kinema marker"),
        (lambda path: forged(path, extra=7), "is not a Kinema marker"),
        (lambda path: forged(path, owner={**OWNER, "port": 1 << 16}), "is not a Kinema marker"),
        (lambda path: path.with_name("a.bin.ready").write_bytes(b"[" * 60000), "is not a Kinema marker"),
        (lambda path: path.with_name("a.bin.ready").write_bytes(b'{"version": 1'), "is not a Kinema marker"),
        (lambda path: path.with_name("a.bin.ready").write_bytes(b'{"a":' * 12000), "is not a Kinema marker"),
        (lambda path: path.with_name("a.bin.ready").write_bytes(b"9" * 60000), "is not a Kinema marker"),
        (lambda path: path.with_name("a.bin.ready").write_bytes(b"\xff\xfe" * 99), "is not a Kinema marker"),
        (lambda path: forged(path, frames=float("inf")), "is not a Kinema marker"),
        (lambda path: forged(path, id="../../../../etc/passwd0000000000"), "is not a Kinema marker"),
        (
            lambda path: forged(path, owner=OWNER),
            "forged, or was written with another key",
        ),
    ],
)
def test_what_does_not_fit_its_marker_is_an_error(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    name = tmp_path / "a.bin"
    name.write_bytes(b"first")
    publish(name)
    damage(name)
    began = time.monotonic()
    with pytest.raises(kn.CorruptFileError, match=message):
        await_ready(name, 60)
    assert time.monotonic() - began < 50  # it does not wait for what will not come


def test_markers_that_are_no_files_or_are_too_long_are_not_read(tmp_path: Path) -> None:
    name, marker = tmp_path / "a.bin", tmp_path / "a.bin.ready"
    name.write_bytes(b"first")
    os.mkfifo(marker)
    with pytest.raises(kn.ArgumentError, match="is a pipe"):
        await_ready(name, 60)
    marker.unlink()
    marker.symlink_to("/dev/zero")
    with pytest.raises(kn.ArgumentError, match="is a character device"):
        await_ready(name, 60)
    marker.unlink()
    with open(marker, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(kn.ArgumentError, match="is too large"):
        await_ready(name, 60)


def test_what_lies_in_place_of_a_published_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"abc")
    publish(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(kn.ArgumentError, match=r"a\.bin: is a pipe \(FIFO\), expected a regular file"):
        await_ready(path, 1)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(kn.ArgumentError, match="is a character device"):
        await_ready(path, 1)


def test_a_marker_of_another_key_is_noted_and_one_of_another_file_is_no_marker_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = tmp_path / "a.bin"
    name.write_bytes(b"first")
    publish(name)
    (tmp_path / "b.bin").write_bytes(b"first")
    (tmp_path / "b.bin.ready").write_bytes((tmp_path / "a.bin.ready").read_bytes())
    with pytest.warns(kn.Note, match="does not prove who made the file"):
        await_ready(tmp_path / "b.bin", 0)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    with pytest.warns(kn.Note, match="does not prove who made the file"):
        await_ready(name, 0)


def test_a_marker_counts_in_its_own_folder_alone(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    for folder in (mine, shared):
        folder.mkdir()
    (mine / "a.bin").write_bytes(b"older")
    publish(mine / "a.bin")
    forged_before = (mine / "a.bin.ready").read_bytes()
    # the folder may have another name on another node, or links may lead to it
    moved = mine.rename(tmp_path / "moved")
    (tmp_path / "link").symlink_to(moved)
    for folder in (moved, tmp_path / "link"):
        await_ready(folder / "a.bin", 0)
    # a copy of all of it may be put back under the first name
    shutil.copytree(moved, mine)
    await_ready(mine / "a.bin", 0)
    assert not recwarn.list
    # somebody who may write into another folder puts file and marker there
    (shared / "a.bin").write_bytes(b"older")
    (shared / "a.bin.ready").write_bytes(forged_before)
    with pytest.warns(kn.Note, match=r"or for another folder.*does not prove who made the file"):
        await_ready(shared / "a.bin", 0)
    # a marker that names the folder in which it is, or none
    forged(shared / "a.bin", folder={"path": str(shared), "inode": shared.stat().st_ino})
    with pytest.warns(kn.Note, match="does not prove who made the file"):
        await_ready(shared / "a.bin", 0)
    forged(shared / "a.bin", folder=None)
    with pytest.raises(kn.CorruptFileError, match="is not a Kinema marker"):
        await_ready(shared / "a.bin", 0)


def test_the_key_is_made_once_and_refused_where_others_may_read_it(own_key: Path) -> None:
    key = user_key()
    assert len(key) == 32
    assert user_key() == key
    path = key_file()
    assert path == own_key / "kinema" / "key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o640)
    with pytest.raises(kn.FileAccessError, match="expected mode 0600, found 0640"):
        user_key()
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(kn.ArgumentError, match="expected 32 bytes, found 5"):
        user_key()
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(kn.FileIOError, match="cannot read the user's key"):
        user_key()
    path.unlink()
    if os.geteuid() == 0:
        user_key()
        os.chown(path, 65534, -1)
        with pytest.raises(kn.FileAccessError, match="belongs to another user"):
            user_key()


def test_parts_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        name = tmp_path / f"part-{number}.bin"
        name.write_bytes(b"x" * number)
        publish(name)
    (tmp_path / "part-11.bin").write_bytes(b"not published")
    parts = published(tmp_path / "part-*.bin", 30, count=4)
    assert [next(parts).size for _ in range(3)] == [1, 9, 10]
    publish(tmp_path / "part-11.bin")
    assert next(parts).size == 13
    assert list(parts) == []
    assert len(list(published(tmp_path / "part-*.bin", 0.02))) == 4
    with pytest.raises(kn.WaitTimeoutError, match="expected 5, found 4"):
        list(published(tmp_path / "part-*.bin", 0.02, count=5))


PRODUCER = """
import os, random, sys, time
sys.path.insert(0, {package!r})
from kinema.cache import publish
from kinema.testing.programs.children import kill_at_random

folder = {folder!r}

def produce():
    # the same numbers each time: a producer that is started again continues
    for number in range(20):
        name = f"{{folder}}/part-{{number}}.bin"
        if os.path.exists(name + ".ready"):
            continue
        with open(name + ".writing", "wb") as file:
            for piece in range(40):
                file.write(bytes([number, piece]) * 20000)
        publish(name, file=name + ".writing", frames=number)
    # the consumer has read a file once: on a busy machine it may not have run before
    while not os.path.exists(folder + "/seen"):
        time.sleep(0.001)
    for number in range(20):
        os.unlink(f"{{folder}}/part-{{number}}.bin.ready")

kill_at_random(produce, {seed}, {kills}, 0.15)
"""


@pytest.mark.processes
def test_a_producer_killed_at_random_publishes_whole_files_or_none(tmp_path: Path, kills: Callable[..., int]) -> None:
    """The consumer reads all the while: what it gets is what was published, and nothing is torn."""
    folder = tmp_path / "run"
    folder.mkdir()
    package = str(Path(kn.__file__).parent.parent)
    script = PRODUCER.format(package=package, folder=str(folder), seed=7, kills=kills())
    process = start_child([sys.executable, "-c", script], stdin=subprocess.PIPE)
    assert process.stdin is not None
    stopped, checked = threading.Event(), []

    def consume() -> None:
        while not stopped.is_set():
            for number in range(20):
                name = folder / f"part-{number}.bin"
                try:
                    found = await_ready(name, 0)
                except kn.WaitTimeoutError:
                    continue
                # a killed producer's successor may have renamed another file to the name: the same bytes
                content = b"".join(bytes([number, piece]) * 20000 for piece in range(40))
                checked.append((found.frames, Path(found.path).read_bytes() == content))
                (folder / "seen").touch()

    reader = threading.Thread(target=consume)
    reader.start()
    try:
        assert process.stdout is not None
        ends = []
        for line in process.stdout:
            ends.append(line)
            if line == "finished\n":
                process.stdin.write("\n")
                process.stdin.flush()
        assert process.wait(60) == 0, process.stderr and process.stderr.read()
    finally:
        stopped.set()
        reader.join()
    assert ends[-1] == f"kills {kills()}\n"
    assert checked
    assert all(right for _, right in checked)
    assert {frames for frames, _ in checked} <= set(range(20))
