"""The node cache when processes race or die, disks are full, blocks damaged, files changed: the right bytes always."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import kinema as kn
from kinema import _core
from kinema.cache import NodeCache
from kinema.testing import KeeperTests
from kinema.testing.keepers import settle
from kinema.testing.programs.children import all_ended, end_children, start_child

BLOCK = 64 << 10
LIMIT = 64 << 20

# sys.argv: file, folder of the cache, limit, bytes a second, seed. All bytes once, in an order of its own.
READ = """
import json, random, sys
from kinema import _core
from kinema.cache import NodeCache

path, root, limit, rate, seed = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
content = open(path, "rb").read()

def run():
    cache = _core.NodeCache(root, limit, 65536, source_rate=rate or None)
    file = cache.open(path)
    places = list(range(0, len(content), 50_000))
    random.Random(seed).shuffle(places)
    for place in places:
        assert file.read_at(place, 50_000) == content[place : place + 50_000]
    return cache
"""


def _content(path: Path, size: int) -> bytes:
    content = random.Random(size).randbytes(size)
    path.write_bytes(content)
    settle(path)
    return content


def _start(script: str, *words: object, seconds: float = 200) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script, *map(str, words)]
    return start_child(command, env=environment, stdin=subprocess.PIPE, seconds=seconds)


def _blocks(root: Path) -> list[Path]:
    return sorted((root / "kinema-cache-1" / "blocks").glob("*/*"), key=lambda path: int(path.name, 16))


def _whole(root: Path, path: Path, content: bytes) -> _core.NodeCache:
    """All blocks that are there are right, nothing is left behind, and the file is read rightly."""
    cache = _core.NodeCache(str(root), LIMIT, BLOCK)
    assert cache.verify_all() == []
    assert cache.stat()["temporary"] == 0
    assert list((root / "kinema-cache-1" / "temporary").iterdir()) == []
    assert cache.open(str(path)).read_at(0, len(content)) == content
    assert cache.counts()["corrupt"] == 0
    return cache


@pytest.mark.processes
def test_each_byte_leaves_the_source_once_for_eight_processes_that_race(tmp_path: Path) -> None:
    path, root = tmp_path / "data", tmp_path / "cache"
    content = _content(path, 40 * BLOCK + 321)
    script = READ + "\nsys.stdin.readline()\nprint(json.dumps(run().counts()))"
    processes = [_start(script, path, root, LIMIT, 20 << 20, seed) for seed in range(8)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    found = [process.communicate(timeout=120) for process in processes]
    assert all(process.returncode == 0 for process in processes), [said for _, said in found]
    counts = [json.loads(out) for out, _ in found]
    total = {name: sum(one[name] for one in counts) for name in counts[0]}
    assert total["bytes_source"] == len(content)
    assert total["bytes_read"] == 8 * len(content)
    assert total["misses"] == total["source_reads"] == 41
    assert total["errors"] == total["corrupt"] == total["bytes_direct"] == 0
    _whole(root, path, content)


@pytest.mark.processes
@pytest.mark.parametrize("limit", [LIMIT, 6 * BLOCK], ids=["fetching", "evicting"])
def test_a_fetcher_that_is_killed_at_random_bytes(tmp_path: Path, kills: Callable[..., int], limit: int) -> None:
    path, root = tmp_path / "data", tmp_path / "cache"
    content = _content(path, 30 * BLOCK + 1)
    n_kills, seed = kills(), random.randrange(1 << 32)
    print("seed", seed)
    killer = (
        "\nfrom kinema.testing.programs.children import kill_at_random\nkill_at_random(run, seed, *eval(sys.argv[6]))"
    )
    process = _start(READ + killer, path, root, limit, 60 << 20, seed, (n_kills, 0.06), seconds=max(200, 10 * n_kills))
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        for line in process.stdout:
            if line != "finished\n":
                assert line == f"kills {n_kills}\n"
                break
            cache = _core.NodeCache(str(root), limit, BLOCK)
            stat = cache.stat()
            assert stat["bytes"] <= limit
            assert stat["temporary"] == 0
            assert cache.verify_all() == []
            cache.clear()
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    _whole(root, path, content)


@pytest.mark.processes
def test_a_fetcher_that_stops_in_the_middle_is_replaced_once_it_is_killed(tmp_path: Path) -> None:
    """Processes that wait for its lock continue, and so do children of the process that was killed."""
    path, root = tmp_path / "data", tmp_path / "cache"
    content = _content(path, 64 * BLOCK)
    # its block takes 4 s; 4 MiB are one read of the source
    slow = """
import os, threading, time
cache = _core.NodeCache(root, limit, 4 << 20, source_rate=rate)
file = cache.open(path)
threading.Thread(target=file.read_at, args=(0, 100), daemon=True).start()
while not os.listdir(root + "/kinema-cache-1/temporary"):
    time.sleep(0.01)
if os.fork() == 0:
    os.write(1, b"%d\\n" % os.getpid())
time.sleep(1000)
"""
    process = _start(READ + slow, path, root, LIMIT, 1 << 20, 0)
    assert process.stdout is not None
    forked = psutil.Process(int(process.stdout.readline()))
    # this one waits for the lock
    waiting = _start(
        READ + "\nfile = _core.NodeCache(root, limit, 4 << 20).open(path)\nprint('waits', flush=True)\n"
        "assert file.read_at(0, len(content)) == content",
        *(path, root, LIMIT, 0, 0),
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "waits\n"
    process.kill()
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, said
    # the child that was forked in the middle lives, and holds nothing
    assert forked.is_running()
    _whole(root, path, content)
    # it is killed with the group of its parent, which is dead
    end_children()
    assert all_ended([forked], 60)


def test_a_full_disk_is_no_error_of_the_reader(tmp_path: Path, small_disk: Path) -> None:
    path, root = tmp_path / "data", small_disk / "cache"
    content = _content(path, 40 * BLOCK)
    cache = _core.NodeCache(str(root), LIMIT, BLOCK)
    # the cache fills the disk, and shrinks to make room
    assert cache.open(str(path)).read_at(0, len(content)) == content
    assert cache.counts()["evicted"] > 20
    assert cache.verify_all() == []
    # others fill it
    cache.clear()
    with (small_disk / "others").open("wb", buffering=0) as others:
        left = os.statvfs(small_disk)
        others.write(bytes(left.f_bavail * left.f_frsize))
    assert os.statvfs(small_disk).f_bavail == 0
    cache = _core.NodeCache(str(root), LIMIT, BLOCK)
    file = cache.open(str(path))
    for place in range(0, len(content), 50_000):
        assert file.read_at(place, 50_000) == content[place : place + 50_000]
    counts = cache.counts()
    assert counts["errors"] >= 1
    assert counts["bytes_direct"] == counts["bytes_source"] == len(content)
    assert "No space left on device" in (cache.last_error or "")
    assert cache.stat()["blocks"] == 0
    # who fetches before a job is told that nothing of it is there
    with pytest.raises(kn.FileIOError, match=r"nothing was stored in the node cache: .*No space left on device"):
        NodeCache(root, "1 GiB", BLOCK).fill(path, workers=2)
    (small_disk / "others").unlink()
    with pytest.warns(kn.Note, match=r"\d+ blocks not in the node cache, .* themselves: .*No space left on device"):
        done = NodeCache(root, "1 GiB", BLOCK).fill(path, workers=1)
    assert 0 < done["not_stored"] < 40 and done["fetched_bytes"] > 0


class TestBlocks(KeeperTests):
    """Blocks of a file are used as long as it is what it was."""

    def make(self, folder: Path) -> Path:
        self.root = folder / "cache"
        path = folder / "data"
        _content(path, 6 * BLOCK)
        return path

    def keep(self, path: Path) -> None:
        self._read(path)

    def is_known(self, path: Path) -> bool:
        settle(path)
        return self._read(path)["bytes_source"] == 0

    def _read(self, path: Path) -> dict[str, int]:
        cache = _core.NodeCache(str(self.root), LIMIT, BLOCK)
        content = path.read_bytes()
        assert cache.open(str(path)).read_at(0, len(content)) == content
        return cache.counts()


def test_a_block_that_is_damaged_is_fetched_again(tmp_path: Path) -> None:
    path, root = tmp_path / "data", tmp_path / "cache"
    content = _content(path, 4 * BLOCK)
    _core.NodeCache(str(root), LIMIT, BLOCK).open(str(path)).read_at(0, len(content))
    with _blocks(root)[2].open("r+b") as file:
        file.seek(1000)
        file.write(b"damaged")
    cache = _core.NodeCache(str(root), LIMIT, BLOCK, "always")
    assert cache.open(str(path)).read_at(0, len(content)) == content
    counts = cache.counts()
    assert (counts["corrupt"], counts["refetched"], counts["bytes_source"]) == (1, 1, BLOCK)
    _whole(root, path, content)


@pytest.mark.processes
def test_a_forked_child_counts_and_reads_by_itself_and_fetches_nothing_in_advance(tmp_path: Path) -> None:
    path, root = tmp_path / "data", tmp_path / "cache"
    _content(path, 20 * BLOCK)
    script = """
import os, time
cache = _core.NodeCache(root, limit, 65536)
file = cache.open(path)
reads = [(path, place, 65536) for place in range(0, len(content), 65536)]
prefetch = cache.prefetch(reads, 4 * 65536)
while cache.counts()["prefetched"] < 4:
    time.sleep(0.01)
before = cache.counts()
child = os.fork()
if child == 0:
    assert cache.counts()["prefetched"] == 0, "its parent reports that"
    assert file.read_at(0, 2 * 65536) == content[: 2 * 65536]
    assert cache.counts()["hits"] == 2
    prefetch.position(2)
    prefetch.stop()
    del prefetch, cache
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
while cache.counts()["prefetched"] < 6:
    time.sleep(0.01)
assert cache.counts()["hits"] == 0
prefetch.stop()
"""
    process = _start(READ + script, path, root, LIMIT, 0, 0, seconds=60)
    _, said = process.communicate(timeout=90)
    assert process.returncode == 0, said


@pytest.mark.processes
def test_another_process_fetches_in_advance_when_the_first_is_killed(tmp_path: Path) -> None:
    path, root = tmp_path / "data", tmp_path / "cache"
    _content(path, 20 * BLOCK)
    script = """
import threading, time
cache = _core.NodeCache(root, limit, 65536)
prefetch = cache.prefetch([(path, place, 65536) for place in range(0, len(content), 65536)], 4 * 65536)
threading.Thread(target=lambda: prefetch.position(int(sys.stdin.readline())), daemon=True).start()
while cache.counts()["prefetched"] < 4:
    time.sleep(0.01)
print("fetches", flush=True)
time.sleep(1000)
"""
    processes = [_start(READ + script, path, root, LIMIT, 0, 0) for _ in range(2)]
    first = select.select([process.stdout for process in processes], [], [], 60)[0]
    assert len(first) == 1, "one of them fetches"
    killed, other = processes if processes[0].stdout is first[0] else processes[::-1]
    killed.kill()
    killed.wait(60)
    assert len(_blocks(root)) == 4
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write("8\n")
    other.stdin.flush()
    assert other.stdout.readline() == "fetches\n"
    assert [int(block.name, 16) for block in _blocks(root)] == [0, 1, 2, 3, 8, 9, 10, 11]
