"""A run's own cluster: clients without its credentials are refused, and no other user's folder is used.

The other users are clients without the credentials: any user of the machine can reach the ports.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed.comm import connect
from distributed.security import Security
from distributed.utils import LoopRunner

import kinema as kn
from kinema.runners.dask.cluster import OwnCluster
from kinema.testing import random_walk, write_dcd

pytestmark = pytest.mark.processes


def _listening(process: psutil.Process) -> set[int]:
    return {one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN}


def _answer(address: str, seconds: float = 1, **arguments: Any) -> str:
    """Result of a connection to a scheduler or worker: "connected", or the name of the error after `seconds`."""

    async def attempt() -> str:
        comm = await asyncio.wait_for(connect(address, timeout=seconds, **arguments), 2 * seconds)
        try:
            await comm.write({"op": "identity", "reply": True})
            await asyncio.wait_for(comm.read(), seconds)
        finally:
            await comm.close()
        return "connected"

    try:
        return str(LoopRunner().run_sync(attempt))
    except Exception as error:
        return type(error).__name__


def _says(port: int) -> bytes:
    """Answer to an HTTP client."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.settimeout(5)
        try:
            client.sendall(b"GET /info/main/workers.html HTTP/1.0\r\n\r\n")
            return client.recv(1000)
        except OSError:
            return b""


def _nobody() -> ssl.SSLContext:
    """TLS without any certificate of one's own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_who_has_no_credentials_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # somebody else has made the folder that Dask would use
    squatted = tmp_path / "dask-scratch-space"
    squatted.mkdir()
    squatted.chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, path = _listening(psutil.Process()), list(sys.path)
    with OwnCluster(1) as cluster:
        assert cluster.client.scheduler is not None
        addresses = [cluster.client.scheduler.address, *cluster.client.nthreads()]
        assert len(addresses) == 2
        for address in addresses:
            port = address.rpartition(":")[2]
            assert address.startswith("tls://127.0.0.1:")
            assert _answer(address, 20, **cluster.client.security.get_connection_args("client")) == "connected"
            strangers = Security.temporary().get_connection_args("client")
            assert _answer(address, **strangers) != "connected"
            assert _answer(address, ssl_context=_nobody(), require_encryption=True) != "connected"
            assert _answer(f"tcp://127.0.0.1:{port}") != "connected"
        # there is no other way in: a dashboard answers everybody
        ports = (_listening(psutil.Process()) - before) | _listening(psutil.Process(cluster.processes[0].pid))
        assert ports == {int(address.rpartition(":")[2]) for address in addresses}
        assert not any(_says(port).startswith(b"HTTP") for port in ports)
        # nothing is imported from a folder of the cluster's, and none but this user can enter it
        (searched,) = cluster.client.run(lambda: __import__("sys").path).values()
        assert sys.path == path
        assert not [name for name in searched if name.startswith(str(tmp_path))]
        (made,) = [one for one in tmp_path.iterdir() if one != squatted]
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        assert {stat.S_IMODE((made / name).stat().st_mode) for name in ("certificate", "key")} == {0o600}
        words = Path(f"/proc/{cluster.processes[0].pid}/cmdline").read_bytes()
        assert b"PRIVATE KEY" not in words
    assert os.listdir(squatted) == []
    assert not made.exists()


def test_a_run_on_it(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(60, 12))
    rmsd = kn.analysis.RMSD(kn.open(tmp_path / "a.dcd"))
    expected = rmsd.run(runner="serial").results.values.tobytes()
    found = rmsd.run(runner="dask", workers=2)
    assert found.results.values.tobytes() == expected


def test_without_cryptography_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("Using `Security.temporary` requires `cryptography`")

    monkeypatch.setattr(Security, "temporary", missing)
    with pytest.raises(kn.Error, match=r"needs cryptography .*pip install 'kinema\[dask\]'"), OwnCluster(1):
        pass
