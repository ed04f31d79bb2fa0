"""Files that are read: only regular ones, none waited for, none read without a bound."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.input_files import open_regular, read_regular
from kinema.model.selection.gromacs_index import read_groups
from kinema.model.topology import Topology
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.programs.children import start_child

# each reads `bad`, which is not a regular file; `traj` is a trajectory
READERS = {
    "trajectory": "kn.open(bad)",
    "index file": "read_groups(bad)",
    "topology": "kn.open('a.dcd', topology=bad)",
    "reference": "kn.analysis.RMSD(traj, reference=bad).run(runner='serial')",
    "reference trajectory": "kn.analysis.RMSD(traj, reference='bad.dcd').run(runner='serial')",
    "checkpoint": "kn.analysis.RMSD(traj).run(runner='serial', checkpoint=bad)",
    "results": "ResultArray('bad.h5', 'values', (1,), np.dtype(float))[0]",
    "HDF5": "open_file(bad)",
    "report": "Report.load(bad)",
    "check": "kn.check(bad)",
    "split": "kn.split('bad.dcd', 'parts', parts=2)",
    "layout": "kn.layout_of(bad)",
    "scheduler file": "client._address_in(bad)",
}

REGULAR = "regular file"

CHILD = """
import sys
import kinema as kn
import numpy as np
from kinema.execution.results_file import ResultArray
from kinema.storage.hdf5.file import open_file
from kinema.report import Report
from kinema.runners.dask import client
from kinema.model.selection.gromacs_index import read_groups
bad = "bad"
traj = kn.open("a.dcd")
for call in sys.argv[1:]:
    try:
        eval(call)
    except kn.Error as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    else:
        print("no error", flush=True)
"""


def made(kind: str, *paths: Path) -> None:
    for path in paths:
        if kind == "FIFO":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(5, 6))
    made(kind, *(tmp_path / name for name in ("bad", "bad.dcd", "bad.h5")))
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    words = [sys.executable, "-c", CHILD, *READERS.values()]
    child = start_child(words, cwd=tmp_path, env=environment, stderr=subprocess.STDOUT)
    try:
        lines = child.communicate(timeout=120)[0].splitlines()
    except subprocess.TimeoutExpired:
        child.kill()
        lines = child.communicate()[0].splitlines()
        pytest.fail(f"opening a {kind} waits: {list(READERS)[len(lines)]}")
    finally:
        child.kill()
        child.wait()
    found = dict(zip(READERS, lines, strict=True))
    assert not {
        name: said for name, said in found.items() if not said.startswith("ArgumentError: bad") or REGULAR not in said
    }


@pytest.mark.parametrize("kind", ["FIFO", "device", "sparse"])
def test_an_index_that_is_none_is_built_anew(tmp_path: Path, kind: str) -> None:
    """In a child, which on a FIFO or an endless device would never end."""
    write_xtc(tmp_path / "a.xtc", random_walk(7, 20))
    stored = tmp_path / ".a.xtc.kinema-index"
    if kind == "sparse":
        with stored.open("wb") as file:
            file.truncate(6 << 30)
    else:
        made(kind, stored)
    words = "import kinema as kn, resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))"
    words += "; traj = kn.open('a.xtc'); print(traj.n_frames, traj.parts[0].index, traj.parts[0].index_note)"
    done = subprocess.run(
        [sys.executable, "-c", words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.startswith("7 built the stored index was not used"), done.stderr
    assert ("too large" if kind == "sparse" else "not a regular file") in done.stdout


def test_a_file_beyond_its_bound_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.ndx").open("wb") as file:
        file.truncate(6 << 30)
    with pytest.raises(kn.ArgumentError, match=r"huge\.ndx: is too large for an index file"):
        read_groups(tmp_path / "huge.ndx")
    write_dcd(tmp_path / "a.dcd", random_walk(5, 6))
    with (tmp_path / "huge.gro").open("wb") as file:
        file.truncate((16 << 30) + 1)
    with pytest.raises(kn.ArgumentError, match=r"huge\.gro: is too large for a topology file, expected at most"):
        kn.open(tmp_path / "a.dcd", tmp_path / "huge.gro")
    # of a trajectory its header is read
    (tmp_path / "huge.gro").rename(tmp_path / "huge.xtc")
    Topology(tmp_path / "huge.xtc")
    (tmp_path / "small").write_bytes(b"12345")
    assert read_regular(tmp_path / "small", "file", most=5) == b"12345"
    with pytest.raises(kn.ArgumentError, match="expected at most 4 bytes, found 5"):
        read_regular(tmp_path / "small", "file", most=4)


def test_a_checkpoint_of_huge_records_is_not_read(tmp_path: Path) -> None:
    from kinema.execution.checkpoint.file import _HEAD, _MAGIC, _START, _VERSION, load

    for tag in (b"RUN ", b"NODE"):
        path = tmp_path / "huge.checkpoint"
        with path.open("wb") as file:
            file.write(_START.pack(_MAGIC, _VERSION) + _HEAD.pack(tag, 1 << 43))
            file.truncate((1 << 43) + 100)
        with pytest.raises(kn.Error, match=r"huge\.checkpoint: byte 16: .*record"):
            load(str(path))


def test_files_are_opened_for_reading_only_and_not_for_children(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with open_regular(tmp_path / "a", "file") as file:
        assert os.get_blocking(file.fileno())
        assert not os.get_inheritable(file.fileno())
        assert file.read() == b"abc"
    with pytest.raises(kn.FileNotFound, match="none: "):
        open_regular(tmp_path / "none", "file")
    with pytest.raises(kn.ArgumentError, match="is a directory, expected a regular file"):
        open_regular(tmp_path, "file")


def test_index_files_of_many_numbers(tmp_path: Path) -> None:
    path = tmp_path / "big.ndx"
    numbers = np.arange(1, 300_001)
    lines = [" ".join(map(str, row)) for row in numbers.reshape(-1, 15)]
    text = (
        "; made\r\n[ all ] ; every one\r\n" + "\r\n".join(lines) + "\n\n[ none ]\n[ last ]\n 3\t2 ; 9 9\n[ all ]\n7\n"
    )
    path.write_text(text)
    groups = read_groups(path)
    assert list(groups) == ["all", "none", "last"]
    np.testing.assert_array_equal(groups["all"], numbers - 1)
    assert groups["none"].tolist() == []
    assert groups["last"].tolist() == [2, 1]
    assert {atoms.dtype for atoms in groups.values()} == {np.dtype(np.int64)}
    for wrong in ("0", "-1", "1.5", "x", "99999999999999999999", "1_0"):
        path.write_text(f"[ a ]\n1 2\n3 {wrong} 4\n[ b ]\n1\n")
        with pytest.raises(kn.CorruptFileError, match=f"line 3: atom numbers.*found '{wrong}'"):
            read_groups(path)


def test_standard_input_is_no_trajectory(tmp_path: Path) -> None:
    """In a child, with a pipe that never gets a byte: none of it may be waited for."""
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    for words in (["check", "/dev/stdin"], ["info", "-"], ["rmsd", "-f", "/dev/stdin"]):
        line = [sys.executable, "-m", "kinema", *words]
        child = start_child(line, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            child.wait(timeout=120)
            said = child.stderr.read()
        finally:
            child.kill()
            child.wait()
        assert child.returncode == 2, said
        assert "regular file" in said or "no such file" in said.lower()


def byte_name(folder: Path, kind: str) -> str:
    """A path whose name has bytes that are no UTF-8; skips where file systems do not take it."""
    path = os.path.join(os.fsencode(folder), b"m\xff\xe2\x82d." + kind.encode())
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    except OSError:
        pytest.skip("the file system does not take such names")
    return os.fsdecode(path)


@pytest.mark.parametrize("kind", ["xtc", "dcd", "h5md"])
def test_names_that_are_no_utf8_keep_their_bytes(tmp_path: Path, kind: str) -> None:
    path = byte_name(tmp_path, kind)
    if kind == "h5md":
        with kn.Writer(path, 20, overwrite=True) as out:
            out.write(random_walk(5, 20))
    else:
        {"xtc": write_xtc, "dcd": write_dcd}[kind](tmp_path / "plain", random_walk(5, 20))
        os.replace(tmp_path / "plain", path)
    traj = kn.open(path)
    assert traj.n_frames == 5 and traj.paths == (path,)
    (part,) = traj.parts
    assert part.path == path and traj.core.locate(0)[0] == path
    if kind == "xtc":
        assert part.index_path == os.path.join(tmp_path, f".{os.path.basename(path)}.kinema-index")
        assert kn.open(path).parts[0].index == "stored"
    assert pickle.loads(pickle.dumps(traj))[1].positions is not None
    found = kn.analysis.RadiusOfGyration(traj, weights=None).run(runner="processes", workers=2, progress=False)
    assert len(found.results.values) == 5
    table = byte_name(tmp_path, "csv")
    # which `byte_name` has made to see whether it may
    found.save(table, overwrite=True)
    assert os.path.getsize(table) > 0
    # an error has the name as it is, and one that can be printed in its message
    with open(path, "r+b") as file:
        file.truncate(40)
    with pytest.raises(kn.Error) as caught:
        kn.open(path).scan()
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{tmp_path}/m\\udcff\\udce2\\udc82d.{kind}: ")
    gone = path + "x"
    with pytest.raises(kn.FileNotFound) as caught:
        kn.open(gone)
    assert caught.value.path == gone


def test_paths_may_be_objects_of_bytes(tmp_path: Path) -> None:
    class InBytes(os.PathLike[bytes]):
        def __fspath__(self) -> bytes:
            return os.fsencode(path)

    path = byte_name(tmp_path, "dcd")
    write_dcd(tmp_path / "plain", random_walk(5, 20))
    os.replace(tmp_path / "plain", path)
    assert kn.open([InBytes()]).paths == (path,)


def test_reads_leave_the_time_of_access_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(5, 3))
    os.utime(path, (1, 1_000_000_000))
    kn.open(path).read()
    assert os.stat(path).st_atime == 1
