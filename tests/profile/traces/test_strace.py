"""Logs of strace as traces: a log written by hand, and real runs, of which each call and byte is known."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.report import record, summarise
from kinema.report.traces import read_trace, recording
from kinema.report.traces.strace import OPTIONS, import_log
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import start_child

LOG = r"""
100 1700000000.000000100 execve("/bin/a", ["a"], 0x7ffe /* 3 vars */) = 0 <0.000171807>
100 1700000000.000001000 openat(AT_FDCWD</work>, "in.dat", O_RDONLY|O_CLOEXEC) = 3</work/in.dat> <0.000000500>
100 1700000000.000002000 newfstatat(3</work/in.dat>, "", {st_mode=S_IFREG|0644, st_size=9, ...}, AT_EMPTY_PATH) = 0 <0.000000010>
100 1700000000.000003000 read(3</work/in.dat>, ""..., 4096) = 4000 <0.000000100>
100 1700000000.000004000 pread64(3</work/in.dat>, ""..., 512, 1024) = 512 <0.000000200>
101 1700000000.000004500 pread64(3</work/in.dat>, ""..., 256, 2048 <unfinished ...>
100 1700000000.000004600 clone3({flags=CLONE_VM|CLONE_THREAD|CLONE_SETTLS, stack_size=0x7fff80} => {parent_tid=[101]}, 88) = 101 <0.000128300>
100 1700000000.000004700 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f10) = 102 <0.0001>
101 1700000000.000005500 <... pread64 resumed>, ""..., 256, 2048) = 256 <0.000001000>
102 1700000000.000006000 openat(AT_FDCWD</work>, "/no/such", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000000007>
102 1700000000.000007000 stat("/work/a>b c\n\"\303\244", {st_mode=S_IFREG|0644, st_size=10, ...}) = 0 <0.000000008>
102 1700000000.000008000 writev(4</work/a\76b c\n"\303\244>, [{iov_base=""..., iov_len=7}, {iov_base=""..., iov_len=3}], 2) = 10 <0.000000009>
102 1700000000.000009000 preadv2(3</work/in.dat>, [{iov_base=""..., iov_len=7}], 1, 77, RWF_HIPRI) = 7 <0.000000009>
102 1700000000.000010000 write(1<pipe:[5383744]>, ""..., 3) = 3 <0.000000010>
102 1700000000.000011000 read(5</dev/null>, "", 3) = 0 <0.000000010>
102 1700000000.000012000 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7fc26ef36000 <0.000000010>
102 1700000000.000013000 mmap(NULL, 9, PROT_READ, MAP_PRIVATE, 3</work/in.dat>, 0) = 0x7fc26ef2c000 <0.000000011>
102 1700000000.000014000 openat(6</work/sub>, "deep/../x", O_WRONLY|O_CREAT, 0666) = -1 EACCES (Permission denied) <0.000000012>
102 1700000000.000015000 openat(AT_FDCWD</work>, ".", O_RDONLY|O_DIRECTORY) = 7</work> <0.000000013>
102 1700000000.000016000 lseek(3</work/in.dat>, 0, SEEK_END) = 123456789 <0.000000014>
102 1700000000.000017000 read(3</work/in.dat>(deleted), ""..., 8) = -1 EIO (Input/output error) <0.000000015>
102 1700000000.000018000 copy_file_range(3</work/in.dat>, NULL, 4</work/out>, NULL, 100, 0) = 100 <0.000000016>
102 1700000000.000019000 write(8</work/traces/kinema-a-1.pfw>, ""..., 50) = 50 <0.000000017>
102 1700000000.000020000 read(9</elsewhere/z>, ""..., 50) = 50 <0.000000018>
102 1700000000.000021000 read(3</work/in.dat>,  <unfinished ...>
102 1700000000.000022000 +++ killed by SIGKILL +++
100 1700000000.000023000 +++ exited with 0 +++
""".lstrip()  # noqa: E501


def imported(log: Path, **options: Any) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Events, with files by name, and what was left out."""
    out = io.BytesIO()
    found = import_log(str(log), out, host="node0", command="a", **options)
    lines = out.getvalue().decode().splitlines()
    assert (lines[0], lines[-1]) == ("[", "]")
    parsed = [json.loads(line) for line in lines[1:-1]]
    names = {one["args"]["value"]: one["args"]["name"] for one in parsed if one["name"] == "FH"}
    events = [one for one in parsed if one["ph"] == "X"]
    assert len(events) == found.events
    for one in events:
        one["file"] = names[one["args"].pop("fhash")]
    return events, +found.left_out


def test_a_log_by_hand(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG)
    events, left_out = imported(log, without=("/work/traces",), data=("/work", "/no"))
    begin = 1_700_000_000_000_000_000
    odd = '/work/a>b c\n"ä'
    data = "/work/in.dat"
    rows = [
        (one["name"], one["pid"], one["tid"], one["args"]["start_ns"] - begin, one["args"]["ns"], one["file"],
         one["args"].get("ret"), one["args"].get("offset"))
        for one in events
    ]  # fmt: skip
    assert rows == [
        ("open64", 100, 100, 1000, 500, data, None, None),
        ("fstat", 100, 100, 2000, 10, data, None, None),
        ("read", 100, 100, 3000, 100, data, 4000, None),
        ("pread64", 100, 100, 4000, 200, data, 512, 1024),
        # of the thread that the second line after it makes; it begins with its first half
        ("pread64", 100, 101, 4500, 1000, data, 256, 2048),
        ("open64", 102, 102, 6000, 7, "/no/such", -1, None),
        ("stat", 102, 102, 7000, 8, odd, None, None),
        ("writev", 102, 102, 8000, 9, odd, 10, None),
        ("preadv64v2", 102, 102, 9000, 9, data, 7, 77),
        ("mmap", 102, 102, 13000, 11, data, None, None),
        ("open64", 102, 102, 14000, 12, "/work/sub/x", -1, None),
        ("opendir", 102, 102, 15000, 13, "/work", None, None),
        ("lseek64", 102, 102, 16000, 14, data, 123456789, None),
        ("read", 102, 102, 17000, 15, data, -1, None),
        ("copy_file_range", 102, 102, 18000, 16, data, 100, None),
    ]
    assert left_out == {
        "on pipes, sockets, devices, memory, /proc and /sys": 3, "on the trace itself": 1,
        "on files that are not asked for": 1, "that did not return": 1,
    }  # fmt: skip
    assert [one["args"]["error"] for one in events if "error" in one["args"]] == ["ENOENT", "EACCES", "EIO"]


def test_files_in_memory_are_files(tmp_path: Path) -> None:
    # files of a node cache
    paths = ["/dev/shm/cache/a", "/dev/shmem", "/dev/null", "/sys/a", "/system"]
    lines = [f'1 1700000000.00000{n}000 read(3<{path}>, "", 3) = 3 <0.000000010>\n' for n, path in enumerate(paths)]
    (tmp_path / "a.log").write_text("".join(lines))
    events, left_out = imported(tmp_path / "a.log")
    assert [one["file"] for one in events] == ["/dev/shm/cache/a", "/system"]
    assert left_out.total() == 3


def test_the_summary_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    with (tmp_path / "strace-node0-100.pfw").open("wb") as out:
        import_log(str(tmp_path / "a.log"), out, host="node0", command="a b")
    found = summarise(tmp_path)
    operations = {name: (one.count, one.failed, one.bytes) for name, one in found.operations.items()}
    assert operations == {
        "read": (6, 1, 4000 + 512 + 256 + 7 + 50), "write": (2, 0, 60), "copy": (1, 0, 100),
        "metadata": (7, 2, 0), "sync": (0, 0, 0), "map": (1, 0, 0),
    }  # fmt: skip
    assert (found.processes, found.threads, found.commands, found.sources) == (2, 3, ("a b",), ("strace",))


def test_logs_that_are_none_or_cut(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG + "102 1700000000.0000")
    assert len(imported(log)[0]) == 17
    log.write_text("nonsense\n")
    with pytest.raises(kn.CorruptFileError, match=r"a\.log: line 1: is none of a log of strace, expected a thread"):
        imported(log)


PROGRAM = """
import os, sys, threading, signal
folder = sys.argv[1]
def read(number):
    file = os.open(f"{folder}/in", os.O_RDONLY)
    for at in range(number):
        os.pread(file, 1000 + at, 100 * at)
    os.lseek(file, 5, os.SEEK_SET)
    os.close(file)
if len(sys.argv) > 2:
    os.kill(os.getpid(), int(sys.argv[2]))
thread = threading.Thread(target=read, args=(7,))
thread.start(); thread.join()
child = os.fork()
read(3)
if not child:
    os._exit(0)
os.waitpid(child, 0)
file = os.open(f"{folder}/out", os.O_WRONLY | os.O_CREAT)
os.write(file, b"x" * 5000); os.fsync(file); os.close(file)
sys.stdout.write(sys.stdin.read().upper()); sys.stdout.flush()
sys.exit(7)
"""


@pytest.fixture(scope="session")
def ptrace() -> None:
    """Skips where strace is not there, or may not trace."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run(["strace", *OPTIONS, "-o", os.devnull, "true"], capture_output=True, text=True, timeout=60)
    if tried.returncode:
        pytest.skip(f"strace may not trace here: {tried.stderr.strip()}")


@pytest.mark.processes
@pytest.mark.usefixtures("ptrace")
def test_a_real_run(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/in").write_bytes(b"y" * 10_000)
    words = [sys.executable, "-S", "-c", PROGRAM, str(tmp_path / "data")]
    call = [sys.executable, "-m", "kinema", "trace", "--out", "t", "--data", "data", "--", *words]
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    process = start_child(call, cwd=tmp_path, env=environment, stdin=subprocess.PIPE)
    out, err = process.communicate("hello", timeout=120)
    # streams and exit code are the command's own
    assert (process.returncode, out) == (7, "HELLO"), err
    assert "calls on files that are not asked for left out" in err and "kinema report t" in err
    (trace,) = (tmp_path / "t").iterdir()
    assert re.fullmatch(r"strace-.+-\d+\.pfw", trace.name)
    found = summarise(tmp_path / "t")
    sizes = [1000 + at for at in (*range(7), *range(3), *range(3))]
    counts = {one.name: (one.count, one.bytes) for one in found.functions}
    assert counts == {
        "open64": (4, 0), "pread64": (13, sum(sizes)), "lseek64": (3, 0), "close": (4, 0), "write": (1, 5000),
        "fsync": (1, 0),
    }  # fmt: skip
    assert (found.processes, found.threads, found.io_threads) == (2, 3, 3)
    assert {one.path: (one.read, one.written) for one in found.files} == {
        str(tmp_path / "data/in"): (sum(sizes), 0), str(tmp_path / "data/out"): (0, 5000),
    }  # fmt: skip
    again = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert again.returncode == 2 and "has a trace already" in again.stderr and "--force replaces it" in again.stderr
    forced = [*call[: call.index("trace") + 1], "--force", *call[call.index("trace") + 1 :]]
    again = subprocess.run(forced, cwd=tmp_path, env=environment, input="", capture_output=True, text=True, timeout=60)
    assert again.returncode == 7, again.stderr
    (other,) = (tmp_path / "t").iterdir()
    assert other.name != trace.name


@pytest.mark.usefixtures("ptrace")
def test_counts_are_those_of_strace_itself(tmp_path: Path) -> None:
    """Python's own start: thousands of calls of all kinds; its table of calls is made by the same run."""
    log = tmp_path / "a.log"
    words = ["strace", *OPTIONS, "-C", "-o", str(log), sys.executable, "-c", "import json"]
    subprocess.run(words, check=True, timeout=120, capture_output=True)
    text = log.read_text(errors="surrogateescape")
    calls, _, table = text.partition("% time")
    log.write_text(calls, errors="surrogateescape")
    of_strace = {
        line.split()[-1]: int(line.split()[3]) for line in table.splitlines()[2:] if re.match(r" *\d+\.\d+ ", line)
    }
    events, left_out = imported(log)
    of_strace = {
        name: number for name, number in of_strace.items() if name not in ("total", "execve", "clone3", "vfork")
    }
    assert len(events) + sum(left_out.values()) == sum(of_strace.values()) > 300
    opened = [one for one in events if one["name"] in ("open64", "opendir")]
    assert len(opened) + len(re.findall(r'openat\(.*"/(?:dev|proc|sys)/', calls)) == of_strace["openat"]
    # bytes, by a sum of the text alone
    reads = re.findall(r" read\(\d+</(?!dev/|proc/|sys/).*\) = (\d+) ", calls)
    assert sum(one["args"]["ret"] for one in events if one["name"] == "read") == sum(map(int, reads)) > 0


@pytest.mark.processes
@pytest.mark.usefixtures("ptrace")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGUSR1", 138)])
def test_signals_reach_the_command(tmp_path: Path, name: str, code: int) -> None:
    """Sent to `kinema trace` alone, as batch systems and people do; the trace is whole nevertheless."""
    program = "import os, sys; os.stat(sys.argv[1]); print('ready', flush=True); os.read(0, 1)"
    words = [sys.executable, "-S", "-c", program, str(tmp_path)]
    if name == "SIGINT":
        words[3] = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); " + program
    call = [sys.executable, "-m", "kinema", "trace", "-o", "t", "--", *words]
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    process = start_child(call, cwd=tmp_path, env=environment, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(getattr(signal, name))
    # communicate() closes the pipe that the program reads, which would end it before the signal does
    process.wait(120)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert [one for one in read_trace(tmp_path / "t").files if one == str(tmp_path)]


@pytest.mark.processes
@pytest.mark.usefixtures("ptrace")
def test_ctrl_c_in_a_terminal_is_heard_once(tmp_path: Path) -> None:
    program = """
import signal, sys, time
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
print("ready", flush=True)
until = time.monotonic() + 60
while not heard and time.monotonic() < until:
    time.sleep(0.01)
# time in which it would come again
time.sleep(1)
sys.exit(40 + len(heard))
"""
    # a session whose terminal this is
    session = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    call = [sys.executable, "-m", "kinema", "trace", "-o", "t", "--", sys.executable, "-S", "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    master, terminal = os.openpty()
    try:
        process = start_child(
            [sys.executable, "-S", "-c", session, *call], cwd=tmp_path, env=environment, stdin=terminal
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.write(master, b"\x03")
        _, err = process.communicate(timeout=120)
    finally:
        os.close(master)
        os.close(terminal)
    assert process.returncode == 41, err


@pytest.mark.usefixtures("ptrace")
def test_kinemas_own_events_are_straces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read of a trajectory, by place and result; the summary counts it once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(kn.__file__).parent.parent))
    write_dcd("a.dcd", random_walk(60, 500))
    words = [sys.executable, "-m", "kinema", "rgyr", "-f", "a.dcd", "--weights", "none", "-o", "a.csv", "--quiet"]
    recorded = record(words, "t", data=["a.dcd"])
    assert recorded.code == 0
    reads = {}
    for path in Path("t").iterdir():
        trace = read_trace(path)
        chosen = trace.matches(kind="posix", operation="read") & np.isin(
            trace.columns["file"], [at for at, file in enumerate(trace.files) if file.endswith("a.dcd")]
        )
        places = zip(*(trace.columns[name][chosen].tolist() for name in ("offset", "size")), strict=True)
        reads[path.name.partition("-")[0]] = sorted(places)
    assert reads["kinema"] == reads["strace"]
    assert len(reads["strace"]) > 2
    with pytest.warns(kn.Note, match=r"POSIX events of Kinema's own left out"):
        found = summarise("t")
    assert (found.processes, found.sources) == (1, ("kinema", "strace"))
    assert found.operations["read"].count == len(reads["strace"])
    assert found.operations["read"].bytes == sum(size for _, size in reads["strace"])
    assert found.kinds["application"] > 0 and found.kinds["compute"] > 0


def test_without_strace_or_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(kn.ArgumentError, match="no command is named; it follows --"):
        record([], tmp_path / "t")
    monkeypatch.setattr(recording.shutil, "which", lambda name: None if name == "no-such" else f"/bin/{name}")
    with pytest.raises(kn.ArgumentError, match="no-such: is not a command that can be run"):
        record(["no-such"], tmp_path / "t")
    monkeypatch.setattr(recording.shutil, "which", lambda _: None)
    with pytest.raises(kn.MissingPackageError, match="needs strace, which is not installed; install it with: apt"):
        record(["true"], tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_a_system_that_lets_nobody_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "strace"
    fake.write_text("#!/bin/sh\necho 'ptrace(PTRACE_TRACEME): Operation not permitted' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(kn.FileIOError, match="strace could not run true, as it says above"):
        record(["true"], tmp_path / "t")
    assert os.listdir(tmp_path / "t") == []
