"""Published files that stay on their node: fetched once by others, whatever becomes of the one that serves them."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

import kinema as kn
from kinema import _core
from kinema.base.notes import collected
from kinema.cache import NodeServer, await_ready, publish, published
from kinema.cache.markers import read_marker, write_marker
from kinema.cache.node_files import NodeFiles
from kinema.ml import SampleDataset
from kinema.storage.user_key import user_key
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.usefixtures("own_key")

HERE = "127.0.0.1"
BEGIN = f"""
import os, sys, time
sys.path.insert(0, {str(Path(kn.__file__).parent.parent)!r})
from kinema.cache import NodeServer, await_ready, publish
"""


def content(number: int, size: int = 700_001) -> bytes:
    return np.random.default_rng(number).bytes(size)


@contextmanager
def node(root: Path, **options: float) -> Iterator[NodeServer]:
    with NodeServer(root, address=HERE, **options) as server:  # type: ignore[arg-type]
        yield server


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def made(root: Path, name: str, data: bytes) -> Path:
    root.mkdir(mode=0o700, exist_ok=True)
    (root / name).write_bytes(data)
    return root


def served_by_a_child(root: Path, shared: Path, *more: str) -> subprocess.Popen[str]:
    """A process that has published `part.bin` of the folder, or waits to take over; it has said so."""
    lines = [BEGIN, f"server = NodeServer({str(root)!r}, address={HERE!r})", *more]
    process = start_child([sys.executable, "-c", "\n".join([*lines, "print('ready', flush=True)", "time.sleep(600)"])])
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.stderr and process.stderr.read()
    return process


def test_a_file_is_fetched_once_and_only_its_marker_is_shared(tmp_path: Path, shared: Path) -> None:
    data = content(1)
    root = made(tmp_path / "A", "part.bin", data)
    with node(root) as server:
        published_file = publish(shared / "part.bin", local=root, frames=7)
        assert publish(shared / "part.bin", local=root) == published_file
        assert (root / "part.bin").exists()
        with pytest.raises(kn.ArgumentError, match="give local="):
            await_ready(shared / "part.bin", 1)
        found: list[tuple[str, bytes]] = []

        def consume() -> None:
            one = await_ready(shared / "part.bin", 60, local=tmp_path / "B")
            found.append((one.origin, Path(one.path).read_bytes()))

        threads = [threading.Thread(target=consume) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(origin for origin, _ in found) == ["local"] * 7 + ["peer"]
        assert all(got == data for _, got in found)
        assert server.counts() == {"clients": 1, "strangers": 0, "requests": 1, "bytes": len(data), "failures": 0}
        # on its own node it is where it was
        here = await_ready(shared / "part.bin", 1, local=root)
        assert (here.origin, here.frames) == ("local", 7)
        assert os.stat(here.path).st_ino == os.stat(root / "part.bin").st_ino
    assert os.listdir(shared) == ["part.bin.ready"]
    assert (shared / "part.bin.ready").stat().st_size < 1000
    # it stays where it was fetched to
    assert await_ready(shared / "part.bin", 0, local=tmp_path / "B").origin == "local"
    with pytest.raises(kn.ArgumentError, match="no process serves"):
        publish(shared / "other.bin", local=made(root, "other.bin", data))


def test_a_second_publication_is_another_file(tmp_path: Path, shared: Path) -> None:
    root = made(tmp_path / "A", "part.bin", b"first")
    with node(root):
        publish(shared / "part.bin", local=root)
        assert Path(await_ready(shared / "part.bin", 60, local=tmp_path / "B").path).read_bytes() == b"first"
        (tmp_path / "A" / "again.bin").write_bytes(b"second")
        with pytest.raises(kn.ArgumentError, match="another file is published under this name"):
            publish(shared / "part.bin", local=root, file=root / "again.bin")
        publish(shared / "part.bin", local=root, file=root / "again.bin", replace=True)
        assert Path(await_ready(shared / "part.bin", 60, local=tmp_path / "B").path).read_bytes() == b"second"


def test_a_peer_that_lies_is_an_error(tmp_path: Path, shared: Path) -> None:
    root = made(tmp_path / "A", "part.bin", content(1))
    with node(root):
        kept = publish(shared / "part.bin", local=root).path
        for damaged, message in ((content(2), "another checksum"), (content(1)[:-1], "file of another size")):
            Path(kept).write_bytes(damaged)
            with pytest.raises(kn.CorruptFileError, match=message):
                await_ready(shared / "part.bin", 60, local=tmp_path / "B")
        os.unlink(kept)
        with pytest.raises(kn.WaitTimeoutError, match="the peer does not have it"):
            await_ready(shared / "part.bin", 0.3, local=tmp_path / "B")
    left = [name for _, _, names in os.walk(tmp_path / "B" / "fetched") for name in names]
    assert left == []
    # nobody listens any more
    with pytest.raises(kn.WaitTimeoutError, match=r"attempts; the last: .*cannot connect"):
        await_ready(shared / "part.bin", 0.3, local=tmp_path / "B")
    # what is beside the marker as well is used, and said
    (shared / "part.bin").write_bytes(content(1))
    with pytest.warns(kn.Note, match=r"read from the shared file system after 1 failed"):
        found = await_ready(shared / "part.bin", 60, local=tmp_path / "B")
    assert (found.origin, found.path) == ("shared", str(shared / "part.bin"))


def test_without_the_key_there_are_no_bytes(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(tmp_path / "A", "part.bin", content(1))
    with node(root) as server:
        one = publish(shared / "part.bin", local=root)
        asked = "/".join(Path(one.path).parts[-2:]).encode()
        target = tmp_path / "target"
        target.touch()
        host, port = server.address or ("", 0)

        def fetch(key: bytes, name: bytes = asked) -> None:
            _core.fetch_published(host, port, key, name, one.size, int(one.xxh3, 16), str(target), step=20, timeout=20)

        with pytest.raises(kn.FileAccessError, match="refuses this user's key"):
            fetch(bytes(32))
        assert target.stat().st_size == 0
        with pytest.raises(kn.FileIOError, match="not the name of a published file"):
            fetch(user_key(), b"../../part.bin")
        fetch(user_key())
        assert target.read_bytes() == content(1)
        # whoever may write into another folder puts the marker of an older file of this name there
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "part.bin.ready").write_bytes((shared / "part.bin.ready").read_bytes())
        with pytest.raises(kn.CorruptFileError, match="or for another folder"):
            await_ready(tmp_path / "other" / "part.bin", 60, local=tmp_path / "B")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
        with pytest.raises(kn.CorruptFileError, match="forged, or was written with another key"):
            await_ready(shared / "part.bin", 60, local=tmp_path / "B")


@pytest.mark.processes
def test_who_serves_may_stall_or_be_killed_and_the_next_one_takes_over(tmp_path: Path, shared: Path) -> None:
    root = made(tmp_path / "A", "part.bin", content(1))
    holder = served_by_a_child(root, shared, f"publish({str(shared / 'part.bin')!r}, local={str(root)!r})")
    with node(root) as waiting:
        assert not waiting.is_serving
        assert waiting.counts() == {}
        os.kill(holder.pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(kn.WaitTimeoutError, match="did not come in time"):
            await_ready(shared / "part.bin", 0.5, local=tmp_path / "B", peer_timeout=0.2)
        assert time.monotonic() - began < 60
        # as it is here, this process can add to what the other one serves
        publish(shared / "more.bin", local=made(root, "more.bin", content(3)))
        os.kill(holder.pid, signal.SIGKILL)
        with collected() as noted:
            found = await_ready(shared / "part.bin", 60, local=tmp_path / "B")
            await_ready(shared / "more.bin", 60, local=tmp_path / "B")
        assert found.origin == "peer"
        # it may have taken over before the first attempt
        assert all("was fetched after" in note for note in noted)
        assert Path(found.path).read_bytes() == content(1)
        assert waiting.is_serving
        assert waiting.counts()["requests"] == 2
        assert sorted(os.listdir(shared))[0].startswith(".kinema-peer-")


FORKS = """
import socket
root = sys.argv[1]
server = NodeServer(root, address="127.0.0.1")
address = server.address
come, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.write(come[1], b"%d" % server.is_serving)
    os.close(go[1])
    os.read(go[0], 1)
    os._exit(0)
print("in the child", os.read(come[0], 1).decode())
server.close()
server.close()
# while the child lives
try:
    socket.create_connection(address, 10)
except ConnectionRefusedError:
    print("the port is free")
with NodeServer(root, address="127.0.0.1") as again:
    print("the lock is free", again.is_serving, server.is_serving)
os.close(go[1])
os.waitpid(child, 0)
"""


@pytest.mark.processes
def test_a_handle_belongs_to_its_process(tmp_path: Path) -> None:
    with node(tmp_path / "A") as server, pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(server)
    out, err = start_child([sys.executable, "-c", BEGIN + FORKS, str(tmp_path / "A")]).communicate(timeout=100)
    assert out.splitlines() == ["in the child 0", "the port is free", "the lock is free True False"], err


def test_hostile_clients_neither_stop_nor_fill_the_server(tmp_path: Path, shared: Path) -> None:
    root = made(tmp_path / "A", "part.bin", content(1))
    before, threads = psutil.Process().memory_info().rss, psutil.Process().num_threads()
    random = np.random.default_rng(5)
    with node(root, timeout=0.5) as server:
        publish(shared / "part.bin", local=root)
        assert server.address is not None
        crowd = []
        for number in range(300):
            one = socket.create_connection(server.address, 30)
            crowd.append(one)
            # slow ones, random bytes, a right beginning and a huge length
            said = [b"", random.bytes(200), b"KINEMAP3" + bytes(48) + b"\xff" * 200][number % 3]
            try:
                one.sendall(said)
            except (BrokenPipeError, ConnectionResetError):
                continue
        assert psutil.Process().num_threads() < threads + 150
        for number in range(3):
            found = await_ready(shared / "part.bin", 60, local=tmp_path / f"B{number}")
            assert Path(found.path).read_bytes() == content(1)
        for one in crowd:
            one.close()
        assert server.counts()["requests"] == 3
    assert psutil.Process().memory_info().rss - before < 128 << 20


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "A"
    NodeFiles(root)
    assert root.stat().st_mode & 0o777 == 0o700
    root.chmod(0o770)
    with pytest.raises(kn.ArgumentError, match=r"others may write into this folder.*expected mode 700, found 770"):
        NodeServer(root)
    root.chmod(0o700)
    with pytest.raises(kn.FileIOError, match=r"cannot listen on address 192\.0\.2\.1"):
        NodeServer(root, address="192.0.2.1")
    with node(root) as server:  # what has failed holds no lock
        assert server.is_serving
    (tmp_path / "file").touch()
    with pytest.raises(kn.FileIOError, match="cannot keep published files"):
        NodeServer(tmp_path / "file")


def test_what_was_fetched_is_listed_and_cleared_and_what_is_published_is_not(tmp_path: Path, shared: Path) -> None:
    root = made(tmp_path / "A", "part.bin", content(1))
    own = kn.cache.NodeCache(tmp_path / "B")
    with node(root):
        kept = publish(shared / "part.bin", local=root)
        fetched = await_ready(shared / "part.bin", 60, local=own.root)
        assert own.stat()["fetched"] == [(fetched.path, fetched.size)]
        assert kn.cache.NodeCache(root).stat()["fetched"] == []
        assert kn.cache.NodeCache(root).clear_fetched() == (0, 0)
        # one that is just being fetched stays
        marker = read_marker(str(shared / "part.bin"))
        assert marker is not None
        with NodeFiles(own.root).fetching(str(shared / "part.bin"), marker[0], time.monotonic() + 60):
            assert own.clear_fetched() == (0, 0)
        assert own.clear_fetched() == (1, fetched.size)
        assert not Path(fetched.path).exists()
        assert Path(kept.path).exists()
        # it comes once more
        assert await_ready(shared / "part.bin", 60, local=own.root).origin == "peer"


@pytest.mark.processes
def test_a_link_that_a_killed_publisher_left_goes_with_the_next_publication(tmp_path: Path, shared: Path) -> None:
    root = made(tmp_path / "A", "part.bin", content(1))
    made(root, "more.bin", content(2))
    killed = """
import kinema.cache.publishing as publishing
def write_marker(name, marker):
    if {after}:
        original(name, marker)
    os.kill(os.getpid(), 9)
original, publishing.write_marker = publishing.write_marker, write_marker
publish({name!r}, local={root!r})
"""
    with node(root):
        ends = []
        for name, after in (("part.bin", False), ("more.bin", True)):
            script = BEGIN + killed.format(name=str(shared / name), root=str(root), after=after)
            ends.append(start_child([sys.executable, "-c", script]).wait(100))
        assert ends == [-9, -9]
        # the first one left a link without a marker, which the second one has removed before it was killed
        assert [path.name for path in (root / "published").glob("*/*")] == ["more.bin"]
        assert sorted(os.listdir(shared)) == ["more.bin.ready"]
        assert len(os.listdir(root / "publishing")) == 1
        publish(shared / "third.bin", local=made(root, "third.bin", b"3"))
        assert sorted(path.name for path in (root / "published").glob("*/*")) == ["more.bin", "third.bin"]
        assert os.listdir(root / "publishing") == []
        for name in ("more.bin", "third.bin"):
            assert await_ready(shared / name, 60, local=tmp_path / "B").origin == "peer"


@pytest.mark.parametrize("name", ["../out.bin", "/out.bin", "a\0b", ".", "..", "", "x" * 300, "a/b", "link/out.bin"])
def test_names_that_lead_out_of_the_folder_get_no_bytes(tmp_path: Path, name: str) -> None:
    root = made(tmp_path / "A", "secret.bin", b"secret")
    target = tmp_path / "target"
    target.touch()
    with node(root) as server:
        folder = root / "published" / ("0" * 32)
        folder.mkdir()
        (folder / "link").symlink_to(tmp_path)
        (tmp_path / "out.bin").write_bytes(b"outside")
        host, port = server.address or ("", 0)
        asked = b"0" * 32 + b"/" + name.encode()
        with pytest.raises(kn.FileIOError, match="not the name of a published file"):
            _core.fetch_published(host, port, user_key(), asked, 7, 0, str(target), step=20, timeout=20)
    assert target.read_bytes() == b""


def test_links_and_pipes_among_published_files_are_not_followed(tmp_path: Path) -> None:
    root = made(tmp_path / "A", "secret.bin", b"secret!")
    target = tmp_path / "target"
    target.touch()
    with node(root) as server:
        folder = root / "published" / ("0" * 32)
        folder.mkdir()
        (folder / "link").symlink_to(root / "secret.bin")
        os.mkfifo(folder / "pipe")
        (folder / "folder").mkdir()
        host, port = server.address or ("", 0)
        for name in ("link", "pipe", "folder"):
            asked = b"0" * 32 + b"/" + name.encode()
            with pytest.raises(kn.FileIOError, match="the peer failed"):
                _core.fetch_published(host, port, user_key(), asked, 7, 0, str(target), step=5, timeout=5)
        assert server.counts()["failures"] == 3
    assert target.read_bytes() == b""


def test_a_signed_marker_of_a_huge_file_takes_no_memory_and_no_disk(tmp_path: Path, shared: Path) -> None:
    root = made(tmp_path / "A", "part.bin", content(1))
    with node(root):
        publish(shared / "part.bin", local=root)
        found = read_marker(str(shared / "part.bin"))
        assert found is not None
        write_marker(str(shared / "part.bin"), replace(found[0], size=1 << 61))
        before = psutil.Process().memory_info().rss
        with pytest.raises(kn.CorruptFileError, match="another size, expected 2305843009213693952, found 700001"):
            await_ready(shared / "part.bin", 60, local=tmp_path / "B")
        assert psutil.Process().memory_info().rss - before < 64 << 20
        assert NodeFiles(tmp_path / "B").fetched() == []


PRODUCER = """
from kinema.base.notes import collected
from kinema.testing.programs.children import kill_at_random
root, shared = {root!r}, {shared!r}

def produce():
    with NodeServer(root, address="127.0.0.1") as server:
        for number in range(8):
            name = f"part-{{number}}.bin"
            with open(f"{{root}}/{{name}}.writing", "wb") as file:
                for piece in range(40):
                    file.write(bytes([number, piece]) * 20000)
            os.rename(f"{{root}}/{{name}}.writing", f"{{root}}/{{name}}")
            publish(f"{{shared}}/{{name}}", local=root)
        time.sleep(0.2)

kill_at_random(produce, {seed}, {kills}, 0.2)
"""


@pytest.mark.processes
def test_a_serving_producer_killed_at_random_gives_right_bytes_or_an_error_in_time(
    tmp_path: Path, shared: Path, kills: Callable[..., int]
) -> None:
    root = tmp_path / "A"
    root.mkdir(mode=0o700)
    script = PRODUCER.format(root=str(root), shared=str(shared), seed=11, kills=kills())
    process = start_child([sys.executable, "-c", BEGIN + script], stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    stopped, outcomes = threading.Event(), []

    def consume() -> None:
        rounds = 0
        while not stopped.is_set():
            rounds += 1
            local = tmp_path / f"B{rounds}"
            for number in range(8):
                try:
                    found = await_ready(shared / f"part-{number}.bin", 0.05, local=local)
                except (kn.WaitTimeoutError, kn.FileIOError) as error:
                    outcomes.append(type(error).__name__)
                    continue
                expected = b"".join(bytes([number, piece]) * 20000 for piece in range(40))
                outcomes.append(Path(found.path).read_bytes() == expected)
            shutil.rmtree(local, ignore_errors=True)

    reader = threading.Thread(target=consume)
    reader.start()
    try:
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
    assert True in outcomes
    assert False not in outcomes
    assert set(outcomes) <= {True, "WaitTimeoutError"}


# two namespaces of the network with a cable between them, and for each a disk of its own
NAMESPACES = """
set -e
mkfifo ready
unshare --net --mount sh -c 'echo up > ready; ip link set lo up
  until ip address add 10.9.8.2/30 dev cable-b 2> /dev/null; do sleep 0.02; done
  ip link set cable-b up
  mount -t tmpfs -o size=64m,mode=700 kinema consumer
  exec "$0" consumer.py' {python} &
consumer=$!
read line < ready
ip link set lo up
ip link add cable-a type veth peer name cable-b netns $consumer
ip address add 10.9.8.1/30 dev cable-a
ip link set cable-a up
mount -t tmpfs -o size=64m,mode=700 kinema producer
{python} producer.py &
wait $consumer
echo consumer ended with $?
"""


def namespaces(*kinds: str) -> list[str]:
    """Words to put before a command to give it namespaces of its own; skips the test if they are not allowed."""
    words = ["unshare", "--user", "--map-root-user", *kinds]
    if shutil.which("unshare") is None or ("--net" in kinds and shutil.which("ip") is None):
        pytest.skip("needs the programs unshare and ip")
    tried = subprocess.run([*words, "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, text=True, timeout=60)
    if tried.returncode != 0:
        pytest.skip(f"namespaces are not allowed here: {tried.stderr.strip()}")
    return words


@pytest.mark.processes
def test_between_two_networks_with_disks_of_their_own_markers_alone_are_shared(tmp_path: Path, shared: Path) -> None:
    (tmp_path / "producer").mkdir(mode=0o700)
    (tmp_path / "consumer").mkdir(mode=0o700)
    (tmp_path / "producer.py").write_text(
        BEGIN
        + """
server = NodeServer("producer", address="10.9.8.1")
for number in range(4):
    with open(f"producer/part-{number}.bin", "wb") as file:
        file.write(bytes([number]) * 3_000_000)
    publish(f"shared/part-{number}.bin", local="producer")
await_ready("shared/done", 60)
"""
    )
    (tmp_path / "consumer.py").write_text(
        BEGIN
        + """
from kinema.cache import published
assert not os.listdir("producer")
for number, part in enumerate(published("shared/part-*.bin", 60, count=4, local="consumer")):
    assert part.origin == "peer"
    with open(part.path, "rb") as file:
        assert file.read() == bytes([number]) * 3_000_000
for line in open("/proc/net/dev"):
    if "cable-b" in line:
        print("received", int(line.split()[1]))
print("shared", sum(os.stat(f"shared/{name}").st_size for name in os.listdir("shared")))
open("shared/done", "w").close()
publish("shared/done")
"""
    )
    script = NAMESPACES.format(python=sys.executable)
    process = start_child([*namespaces("--net", "--mount"), "sh", "-c", script], cwd=tmp_path, seconds=120)
    out, err = process.communicate(timeout=150)
    numbers = dict(line.split() for line in out.splitlines() if len(line.split()) == 2)
    assert "consumer ended with 0" in out, out + err
    assert int(numbers["received"]) > 12_000_000
    assert int(numbers["shared"]) < 4000
    assert sorted(os.listdir(shared)) == ["done", "done.ready", *(f"part-{number}.bin.ready" for number in range(4))]


@pytest.mark.processes
def test_a_full_disk_of_the_consumer_is_an_error(tmp_path: Path, shared: Path) -> None:
    root = made(tmp_path / "A", "part.bin", content(1))
    (tmp_path / "B").mkdir(mode=0o700)
    script = """
import kinema as kn
os.system("mount -t tmpfs -o size=300k,mode=700 kinema B")
began = time.monotonic()
try:
    await_ready("shared/part.bin", 100, local="B")
except kn.FileIOError as error:
    print(time.monotonic() - began < 50, error)
print([names for _, _, names in os.walk("B/fetched")])
"""
    with node(root):
        publish(shared / "part.bin", local=root)
        words = [*namespaces("--mount"), sys.executable, "-c", BEGIN + script]
        out, err = start_child(words, cwd=tmp_path).communicate(timeout=150)
    assert "True " in out, out + err
    assert "no space left on device" in out.lower()
    assert out.endswith("[[], []]\n")  # and nothing is left of it


def test_data_sets_are_made_of_published_parts(tmp_path: Path, shared: Path) -> None:
    root = tmp_path / "A"
    root.mkdir(mode=0o700)
    rows = np.random.default_rng(2).normal(size=(30, 9)).astype(np.float32)
    with node(root):
        for number in range(3):
            np.save(root / f"part-{number}.npy", rows[10 * number : 10 * number + 10])
            publish(shared / f"part-{number}.npy", local=root, frames=10)
        parts = list(published(shared / "part-*.npy", 60, count=3, local=tmp_path / "B"))
    assert [part.frames for part in parts] == [10, 10, 10]
    samples = SampleDataset([part.path for part in parts])
    assert len(samples) == 30
    batch = samples.read([29, 3, 15])
    np.testing.assert_array_equal(next(iter(batch.values())), rows[[29, 3, 15]])
