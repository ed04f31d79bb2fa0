"""Runs on threads or processes: others can reach no port, no socket with a name, no shared memory, no file.

A server of published files has one port that others can reach."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import kinema as kn
from kinema.cache import NodeServer
from kinema.testing.runner_work import waiting_for, walk_in

pytestmark = pytest.mark.processes


def _reachable(folder: Path) -> dict[str, list[str]]:
    """Named or addressed things of this process and its children; content of the temporary folder, with modes."""
    me = psutil.Process()
    family = [me, *me.children(recursive=True)]
    found: dict[str, list[str]] = {"processes": [], "ports": [], "sockets": [], "memory": []}
    for process in family:
        # one that was there for something else may have ended: nobody reaches that
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            ports = [
                one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN or not one.raddr
            ]
            sockets = [one for one in process.net_connections("unix") if one.laddr]
            memory = re.findall("/dev/shm/.*", Path(f"/proc/{process.pid}/maps").read_text())
            found["ports"] += [f"{process.pid} {one.laddr}" for one in ports]
            # sockets of the abstract name space begin with "@"
            found["sockets"] += [f"{process.pid} {one.laddr}" for one in sockets]
            # memory of other running programs does not belong to this family
            found["memory"] += memory
            found["processes"].append(str(process.pid))
    # folders of `kinema scaling` that another test runs are none of this family's
    names = [name for name in os.listdir("/dev/shm") if "kinema" in name]
    found["memory"] += [name for name in names if not name.startswith("kinema-scaling.")]
    found["open"] = [f"{one.name} {stat.S_IMODE(one.stat().st_mode):o}" for one in folder.iterdir()]
    return found


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="of Linux")
@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_nothing_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: str) -> None:
    temporary, go = tmp_path / "temporary", tmp_path / "go"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = _reachable(temporary)
    seen: list[dict[str, list[str]]] = []

    def look(done: int, total: int) -> None:
        if 0 < done < total and not seen:
            seen.append(_reachable(temporary))
            go.touch()

    kn.analysis.from_function(waiting_for(go), walk_in(tmp_path)).run(runner=runner, workers=2, progress=look)
    (found,) = seen
    assert len(set(found["processes"]) - set(before["processes"])) >= (2 if runner == "processes" else 0)
    for what in ("ports", "sockets", "memory"):
        assert set(found[what]) <= set(before[what]), what
    assert bool(found["open"]) == (runner == "processes")
    assert all(one.startswith("kinema-") and one.endswith(" 700") for one in found["open"])
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="of Linux")
def test_one_port_of_a_server_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    before = _reachable(tmp_path)
    with NodeServer(tmp_path / "root", address="127.0.0.1") as server:
        found = _reachable(tmp_path)
        (port,) = set(found["ports"]) - set(before["ports"])
        assert server.address
        assert port == f"{os.getpid()} addr(ip='127.0.0.1', port={server.address[1]})"
        for what in ("sockets", "processes"):
            assert set(found[what]) <= set(before[what]), what
        key = tmp_path / "configuration" / "kinema"
        assert [stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "root", key, key / "key")] == [0o700] * 2 + [
            0o600
        ]
    assert set(_reachable(tmp_path)["ports"]) <= set(before["ports"])
