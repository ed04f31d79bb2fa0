"""A published file fetched from another process of this machine, beside plain copies of it through a socket.

`python benchmarks/peer_transfer.py [--size 536870912] [--repeats 5] [--folder /dev/shm]`. Each repeat is one transfer
of each kind, in turns; all write the bytes to a file that they make, and sync it. Plain copies prove and check nothing.
Both sides are on this machine and share its cores, so that hashing costs more here than between two machines.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from kinema import _core
from kinema.cache import await_ready

PIECE = 1 << 20

# serves the file of its first argument by one way or the other, to one connection after the other
PLAIN = """
import os, socket, sys
path, way = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
buffer = memoryview(bytearray(1 << 20))
while True:
    client, _ = listener.accept()
    with client, open(path, "rb", buffering=0) as file:
        if way == "sendfile":
            client.sendfile(file)
            continue
        while n := file.readinto(buffer):
            client.sendall(buffer[:n])
"""

KINEMA = """
import sys, time
from kinema.cache import NodeServer, publish
root, name = sys.argv[1:]
with NodeServer(root, address="127.0.0.1"):
    publish(name, local=root)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def plain_copy(port: int, target: Path) -> None:
    """Receives 1 MiB at a time and writes it."""
    buffer = memoryview(bytearray(PIECE))
    with socket.create_connection(("127.0.0.1", port)) as connection, open(target, "xb", buffering=0) as file:
        while n := connection.recv_into(buffer):
            file.write(buffer[:n])
        os.fsync(file.fileno())


def started(folder: Path, script: str, *words: str) -> tuple[subprocess.Popen[str], str]:
    """A process and the first line that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def measured(folder: Path, size: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of each transfer, by kind."""
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    root, shared = folder / "producer", folder / "shared"
    root.mkdir(mode=0o700)
    shared.mkdir()
    with open(root / "part.bin", "wb") as file:
        for _ in range(0, size, PIECE):
            file.write(secrets.token_bytes(PIECE))
    processes = []
    seconds: dict[str, list[float]] = {}
    try:
        ways: dict[str, Callable[[Path], object]] = {}
        for way in ("read and send", "sendfile"):
            process, port = started(folder, PLAIN, str(root / "part.bin"), way)
            processes.append(process)
            ways[way] = lambda target, port=int(port): plain_copy(port, target)
        process, line = started(folder, KINEMA, str(root), str(shared / "part.bin"))
        processes.append(process)
        assert line == "ready", line
        ways["kinema"] = lambda target: await_ready(shared / "part.bin", 600, local=target)
        expected = _core.file_checksum(str(root / "part.bin"))
        for number in range(repeats):
            for way, transfer in ways.items():
                target = folder / f"{way.replace(' ', '-')}-{number}"
                began = time.perf_counter()
                transfer(target)
                seconds.setdefault(way, []).append(time.perf_counter() - began)
                (made,) = [target] if target.is_file() else (target / "fetched").glob("*/part.bin")
                assert _core.file_checksum(str(made)) == expected
                shutil.rmtree(target) if target.is_dir() else target.unlink()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return seconds


def main() -> None:
    """Prints a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512 << 20, help="bytes of the file")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm", help="where the files are made")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kinema-transfer-", dir=options.folder))
    try:
        seconds = measured(folder, options.size, options.repeats)
    finally:
        shutil.rmtree(folder)
    rates = {way: options.size / median(times) / 1e9 for way, times in seconds.items()}
    for way, rate in rates.items():
        spread = ", ".join(f"{options.size / one / 1e9:.2f}" for one in sorted(seconds[way]))
        print(f"{way:15s} {rate:6.2f} GB/s   ({spread})")
    fastest = max(rates["read and send"], rates["sendfile"])
    print(
        f"kinema / read and send {rates['kinema'] / rates['read and send']:.2f}, kinema / the faster one "
        f"{rates['kinema'] / fastest:.2f} (goal: at least 0.65)"
    )
    print(json.dumps({"size": options.size, "seconds": seconds}))


if __name__ == "__main__":
    main()
