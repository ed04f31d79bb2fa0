"""Files that grow: continuing at their end, and the remains of a process that is killed at any moment."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk
from kinema.testing.amounts import LONG
from kinema.testing.programs.children import start_child
from kinema.testing.writer_tests.commits import RecordedCommits

N_ATOMS = 11
CELL = np.diag([30.0, 31.0, 32.0]).astype(np.float32)


def coordinates(frame: int, n_atoms: int = N_ATOMS) -> np.ndarray[Any, Any]:
    """Positions that tell their frame and atom, so that a torn frame is seen."""
    return (frame + np.arange(n_atoms * 3).reshape(n_atoms, 3) / 1024).astype(np.float32)


@functools.cache
def all_coordinates(n_atoms: int, hundreds: int) -> np.ndarray:
    """Coordinates of the first `100 * hundreds` frames."""
    return np.array([coordinates(i, n_atoms) for i in range(100 * hundreds)]).reshape(-1, n_atoms, 3)


def whole_frames(path: Path, n_atoms: int = N_ATOMS) -> int:
    """The number of frames; each must be whole and in its place, as any reader sees the file."""
    with h5py.File(path, "r", locking=False) as h5:
        if "particles" not in h5:
            return 0
        group = h5["particles/trajectory"]
        parts = ("position/step", "position/time", "position/value", "box/edges/value")
        n = min(len(group[part]) for part in parts if group[part].ndim)
        for element in ("position", "box/edges"):
            for part, stride in (("step", 10), ("time", 0.5)):
                found = group[element][part]
                if found.ndim:
                    np.testing.assert_array_equal(found[:n], stride * np.arange(n))
                else:
                    assert (found[()], found.attrs["offset"]) == (stride, 0)
        np.testing.assert_array_equal(group["position/value"][:n], all_coordinates(n_atoms, -(-n // 100))[:n])
        np.testing.assert_array_equal(group["box/edges/value"][:n], np.tile(CELL, (n, 1, 1)))
        return n


def write_frames(out: kn.Writer, start: int, stop: int, n_atoms: int = N_ATOMS) -> None:
    for i in range(start, stop):
        out.write(coordinates(i, n_atoms), cell=CELL, step=10 * i, time=0.5 * i)


LAYOUTS: dict[str, dict[str, Any]] = {
    "one frame a chunk": {"layout": (1, N_ATOMS, 3)},
    "many frames a chunk": {},
    "chunks that split atoms": {"layout": (4, 5, 2)},
    "gzip": {"layout": (3, N_ATOMS, 3), "compression": "gzip"},
    "gzip, chunks that split atoms": {"layout": (4, 5, 3), "compression": "gzip"},
    "zstd": {"layout": (3, N_ATOMS, 3), "compression": "zstd", "workers": 2},
}


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_goes_on_where_the_file_ends(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "grows.h5md"
    n = 0
    for more in (1, 2, 5, 7, 0, 13):
        with kn.Writer(path, N_ATOMS, mode="a", **options) as out:
            assert out.n_frames == n
            write_frames(out, n, n + more)
        n += more
        assert whole_frames(path) == n


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_new_files_can_be_appended_to(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "new.h5md"
    with kn.Writer(path, N_ATOMS, **options) as out:
        write_frames(out, 0, 10)
    with h5py.File(path) as h5:
        assert h5["particles/trajectory/position/step"].shape == ()  # fixed storage
    with kn.Writer.append(path) as out:
        assert out.n_frames == out.n_flushed == 10
        write_frames(out, 10, 25)
        out.flush()
        assert whole_frames(path) == out.n_flushed == 25
    assert whole_frames(path) == 25


@pytest.mark.parametrize("dialect", ["h5md", "mdanalysis"])
def test_a_fixed_cell_goes_on(tmp_path: Path, dialect: str) -> None:
    path = tmp_path / "cell.h5md"
    for _ in range(2):
        with kn.Writer(path, N_ATOMS, mode="a", cell=[30, 31, 32], dialect=dialect) as out:
            out.write(coordinates(out.n_frames))
            out.write(coordinates(out.n_frames), cell=CELL)
            with pytest.raises(kn.ArgumentError, match="cell differs from the fixed one"):
                out.write(coordinates(out.n_frames), cell=2 * CELL)
    with h5py.File(path) as h5:
        edges = h5["particles/trajectory/box/edges"]
        if dialect == "h5md":
            np.testing.assert_array_equal(edges, CELL)
        else:
            np.testing.assert_array_equal(edges["value"], np.tile(CELL, (4, 1, 1)))


def test_flushed_frames_are_seen_while_the_file_is_open(tmp_path: Path) -> None:
    path = tmp_path / "open.h5md"
    with kn.Writer(path, N_ATOMS, mode="a") as out:
        for i in range(7):
            write_frames(out, i, i + 1)
            assert out.n_flushed == i
            out.flush()
            assert whole_frames(path) == out.n_flushed == i + 1


def test_an_error_of_the_caller_keeps_the_frames_taken(tmp_path: Path) -> None:
    path = tmp_path / "error.h5md"

    def stopped() -> None:
        with kn.Writer(path, N_ATOMS, mode="a") as out:
            write_frames(out, 0, 5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert whole_frames(path) == 5


def test_abort_keeps_the_file_as_it_was_flushed(tmp_path: Path) -> None:
    path = tmp_path / "aborted.h5md"
    out = kn.Writer(path, N_ATOMS, mode="a", layout=(1, N_ATOMS, 3))
    write_frames(out, 0, 5)
    out.flush()
    write_frames(out, 5, 9)
    out.abort()
    assert whole_frames(path) == 5


def test_observables_go_on(tmp_path: Path) -> None:
    path = tmp_path / "observables.h5md"
    for start in (0, 3):
        with kn.Writer(path, N_ATOMS, mode="a") as out:
            out.add_observable("energies/kinetic", unit="kJ mol-1")
            for i in range(start, start + 3):
                write_frames(out, i, i + 1)
                out.write_observable("energies/kinetic", float(i))
    with h5py.File(path) as h5:
        found = h5["observables/energies/kinetic"]
        np.testing.assert_array_equal(found["value"], np.arange(6.0))
        np.testing.assert_array_equal(found["step"], 10 * np.arange(6))
        np.testing.assert_array_equal(found["time"], 0.5 * np.arange(6))
        assert found["value"].attrs["unit"] == b"kJ mol-1"
    with kn.Writer(path, mode="a") as out:
        with pytest.raises(kn.ArgumentError, match=r"has shape \(\), expected \(3,\)"):
            out.add_observable("energies/kinetic", shape=(3,), unit="kJ mol-1")
        with pytest.raises(kn.ArgumentError, match="has unit kJ mol-1, expected K"):
            out.add_observable("energies/kinetic", unit="K")
    assert whole_frames(path) == 6


def test_rounding_and_units_go_on(tmp_path: Path) -> None:
    path = tmp_path / "rounded.h5md"
    positions = random_walk(6, 4)
    options: dict[str, Any] = {"max_error": 0.005, "length_unit": "nm", "time_unit": "ns"}
    with kn.Writer(path, 4, **options) as out:
        out.write(positions[:3], time=[1.0, 2.0, 4.0])
    with kn.Writer(path, 4, mode="a", **options) as out:
        out.write(positions[3:], time=[8.0, 9.0, 10.0])
    whole = tmp_path / "whole.h5md"
    with kn.Writer(whole, 4, **options) as out:
        out.write(positions, time=[1.0, 2.0, 4.0, 8.0, 9.0, 10.0])
    with h5py.File(path) as one, h5py.File(whole) as other:
        for part in ("value", "time", "step"):
            name = f"particles/trajectory/position/{part}"
            np.testing.assert_array_equal(one[name], other[name])


def test_a_full_disk_keeps_what_was_flushed(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "full.h5md"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill() -> None:
        with kn.Writer(path, N_ATOMS, mode="a", layout=(2, N_ATOMS, 3)) as out:
            for i in range(10_000):
                write_frames(out, i, i + 1)
                out.flush()

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, hard))
        with pytest.raises(kn.FileIOError, match=r"full\.h5md: cannot write"):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    n = whole_frames(path)
    assert n > 50
    with kn.Writer.append(path) as out:
        assert out.n_frames == n
        write_frames(out, n, n + 50)
    assert whole_frames(path) == n + 50


# what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_atoms": 12}, "n_atoms=12, the file has 11"),
        ({"fields": ["forces"]}, "fields=.*forces.*the file has .*positions"),
        ({"length_unit": "nm"}, "length_unit=nm, the file has angstrom"),
        ({"time_unit": "fs"}, "time_unit=fs, the file has ps"),
        ({"dtype": "float64"}, "dtype=float64, the file has float32"),
        ({"max_error": 0.01}, r"max_error=\(0.01, 'angstrom'\), the file has None"),
        ({"cell": [1, 2, 4]}, r"cell=\[\[1.0, 0.0, 0.0\], .* the file has \[\[1.0, 0.0, 0.0\]"),
        ({"particles": "other"}, "no group 'other', expected one of trajectory"),
    ],
)
def test_what_does_not_fit_the_file(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "file.h5md"
    with kn.Writer(path, N_ATOMS, mode="a", cell=[1, 2, 3]) as out:
        out.write(coordinates(0))
    before = path.read_bytes()
    with pytest.raises(kn.ArgumentError, match=message):
        kn.Writer(path, mode="a", **options)
    assert path.read_bytes() == before
    with kn.Writer.append(path, cell=[1, 2, 3]) as out:  # the lock is gone
        out.write(coordinates(1))


def test_frames_that_do_not_fit_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file.h5md"
    with kn.Writer(path, N_ATOMS, mode="a") as out:
        write_frames(out, 0, 3)
    with kn.Writer.append(path) as out:
        with pytest.raises(kn.ArgumentError, match=r"step must rise .* more than 20, found 20"):
            out.write(coordinates(3), cell=CELL, step=20, time=9)
        with pytest.raises(kn.ArgumentError, match=r"time must rise .* at least 1.0, found 0.9"):
            out.write(coordinates(3), cell=CELL, step=30, time=0.9)
        with pytest.raises(kn.ArgumentError, match="cell is missing"):
            out.write(coordinates(3), step=30, time=1.5)
        with pytest.raises(kn.ArgumentError, match="time is missing"):
            out.write(coordinates(3), cell=CELL, step=30)
        with pytest.raises(kn.ArgumentError, match="the file has positions but not velocities"):
            out.write(coordinates(3), velocities=coordinates(3), cell=CELL, step=30, time=1.5)
        write_frames(out, 3, 4)
    assert whole_frames(path) == 4


def test_files_of_other_kinds(tmp_path: Path) -> None:
    with pytest.raises(kn.FileNotFound, match="no such file to append to"):
        kn.Writer.append(tmp_path / "missing.h5md")
    text = tmp_path / "text.h5md"
    text.write_text("no HDF5 file at all, but longer than a superblock would be")
    with pytest.raises(kn.CorruptFileError, match="no HDF5 file"):
        kn.Writer.append(text)
    for name, libver, error in (("old", "earliest", "version 0"), ("new", "v110", "version 3")):
        path = tmp_path / f"{name}.h5md"
        h5py.File(path, "w", libver=(libver, "latest" if libver == "earliest" else "v110")).close()
        with pytest.raises(kn.UnsupportedFormatError, match=error):
            kn.Writer.append(path)
    damaged = tmp_path / "damaged.h5md"
    with kn.Writer(damaged, N_ATOMS) as out:
        write_frames(out, 0, 3)
    content = bytearray(damaged.read_bytes())
    headers = [at for at in range(len(content) - 4) if content[at : at + 4] == b"OHDR"]
    for name, at in (("superblock", 30), ("header", headers[len(headers) // 2] + 20)):
        broken = tmp_path / f"{name}.h5md"
        broken.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        with pytest.raises(kn.CorruptFileError, match=r"\.h5md: "):
            kn.Writer.append(broken)
    other = tmp_path / "other.h5"
    h5py.File(other, "w", libver=("v108", "v108")).close()
    with pytest.raises(kn.UnsupportedFormatError, match="no groups h5md and particles"):
        kn.Writer.append(other)


def test_one_of_several_groups_is_named(tmp_path: Path) -> None:
    path = tmp_path / "two.h5md"
    with kn.Writer(path, N_ATOMS, mode="a") as out:
        write_frames(out, 0, 2)
    with h5py.File(path, "r+", libver=("v108", "v108")) as h5:
        h5.copy("particles/trajectory", "particles/other")
    before = path.read_bytes()
    with pytest.raises(kn.ArgumentError, match="several groups, give particles= one of other, trajectory"):
        kn.Writer.append(path)
    assert path.read_bytes() == before
    with kn.Writer(path, mode="a", particles="trajectory") as out:
        write_frames(out, 2, 3)
    assert whole_frames(path) == 3


def test_structures_that_cannot_be_continued(tmp_path: Path) -> None:
    def changed(change: Any) -> Path:
        path = tmp_path / "changed.h5md"
        with kn.Writer(path, 4, overwrite=True, dialect="mdanalysis") as out:
            out.write(random_walk(3, 4), velocities=random_walk(3, 4), time=np.arange(3.0))
        with h5py.File(path, "r+", libver=("v108", "v108")) as h5:
            change(h5["particles/trajectory"])
        return path

    def steps_of_its_own(group: Any) -> None:
        del group["velocity/step"]
        group["velocity/step"] = np.arange(3)

    def no_values(group: Any) -> None:
        del group["velocity/value"]

    def another_element(group: Any) -> None:
        group["image/value"] = np.zeros((3, 4, 3), np.int32)

    def unknown_unit(group: Any) -> None:
        group["position/value"].attrs["unit"] = "furlong"

    for change, message in (
        (steps_of_its_own, "velocity has steps of its own"),
        (no_values, "velocity does not depend on time"),
        (another_element, "image depends on time"),
        (unknown_unit, "unit 'furlong'"),
    ):
        with pytest.raises(kn.UnsupportedFormatError, match=message):
            kn.Writer.append(changed(change))
    contiguous = tmp_path / "contiguous.h5md"
    with kn.Writer(contiguous, 4, layout="contiguous", n_frames=3) as out:
        out.write(random_walk(3, 4))
    with pytest.raises(kn.UnsupportedFormatError, match="fixed number of frames"):
        kn.Writer.append(contiguous)


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "locked.h5md"
    with kn.Writer(path, N_ATOMS, mode="a") as out:
        write_frames(out, 0, 1)
        with pytest.raises(kn.ArgumentError, match="is being written"):
            kn.Writer(path, N_ATOMS, mode="a")
        out.flush()
        with pytest.raises(kn.FileAccessError, match="another program has it open for writing"):
            kn.Writer.append(path)
        write_frames(out, 1, 2)
    assert whole_frames(path) == 2


# killed processes


# a short run tries all moments of the first layout, and a third of the others' moments, each layout another third
MOMENTS = [
    pytest.param(options, False, 3 if number and not LONG else 1, number, id=name)
    for number, (name, options) in enumerate(LAYOUTS.items())
] + [
    pytest.param(LAYOUTS[name], True, 1 if LONG else 3, number, id=f"{name}, fixed steps, new observables")
    for number, name in enumerate(("one frame a chunk", "gzip, chunks that split atoms"))
]


@pytest.mark.parametrize(("options", "more", "every", "first"), MOMENTS)
def test_every_moment_at_which_a_process_may_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], more: bool, every: int, first: int
) -> None:
    path, killed = tmp_path / "grows.h5md", tmp_path / "killed.h5md"
    with kn.Writer(path, N_ATOMS, mode="w" if more else "a", **options) as out:
        write_frames(out, 0, 5)
    recorder = RecordedCommits(path, monkeypatch)
    recorder.flushed = 5
    n = 5
    # the index of chunks is split several times on the way: a node has 64 entries
    batches = [1, 2, 3, 1, 60, 1, 1, 70, 2, 50, 1, 1]
    with kn.Writer.append(path) as out:
        for number, batch in enumerate(batches):
            write_frames(out, n, n + batch)
            n += batch
            if more and number % 2:
                # groups are made on the way, too
                out.add_observable(f"new/{number}", shape=(number,))
                out.write_observable(f"new/{number}", np.full(number, n))
            out.flush()
            recorder.flushed = out.n_flushed
    monkeypatch.undo()
    assert whole_frames(path) == n
    assert len(recorder.changes) > 50
    for at, (flushed, content) in enumerate(recorder.moments()):
        if at % every != first % every:
            continue
        # some file systems flush a file that is written over
        killed.unlink(missing_ok=True)
        killed.write_bytes(content)
        assert flushed <= whole_frames(killed), f"change {at}"


WORKER = """
import sys
import numpy as np
import kinema as kn

path, compression, n_atoms, batch = sys.argv[1], sys.argv[2] or None, int(sys.argv[3]), int(sys.argv[4])
cell = np.diag([30.0, 31.0, 32.0]).astype(np.float32)
with kn.Writer(path, n_atoms, mode="a", compression=compression, layout=(2, n_atoms, 3)) as out:
    print("start", out.n_frames, flush=True)
    i = out.n_frames
    while True:
        for i in range(i, i + batch):
            positions = (i + np.arange(n_atoms * 3).reshape(n_atoms, 3) / 1024).astype(np.float32)
            out.write(positions, cell=cell, step=10 * i, time=0.5 * i)
        i += 1
        print("flush", i, flush=True)
        out.flush()
        print("flushed", out.n_flushed, flush=True)
"""


@pytest.mark.processes
@pytest.mark.parametrize("compression", ["", "gzip"])
@pytest.mark.parametrize("during_flush", [False, True], ids=["anywhere", "during a flush"])
def test_killed_processes(tmp_path: Path, kills: Callable[..., int], compression: str, during_flush: bool) -> None:
    path = tmp_path / "killed.h5md"
    n_atoms, chance = 200, random.Random(f"{compression} {during_flush}")
    package = str(Path(kn.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    frames = 0
    for _ in range(kills(2)):
        command = [sys.executable, "-c", WORKER, str(path), compression, str(n_atoms), str(chance.choice([1, 3, 8]))]
        worker = start_child(command, env=environment, stderr=None)
        assert worker.stdout is not None
        first = worker.stdout.readline().split()
        # a later process continues after all frames of the process before
        assert first == ["start", str(frames)]
        flushes = chance.randrange(1, 40)
        reported = frames
        for line in worker.stdout:
            word, number = line.split()
            reported = int(number) if word == "flushed" else reported
            flushes -= word == "flush"
            if flushes == 0:
                break
        time.sleep(chance.uniform(0, 0.002 if during_flush else 0.02))
        worker.send_signal(signal.SIGKILL)
        # what has been read ahead may end within a line: the rest comes from the same reader
        rest = worker.stdout.read()
        worker.wait(120)
        assert worker.returncode == -signal.SIGKILL
        # the last line may be cut
        for word, number in (line.split() for line in rest.splitlines(keepends=True) if line.endswith("\n")):
            reported = int(number) if word == "flushed" else reported
        frames = whole_frames(path, n_atoms)
        assert frames >= reported
    copy = tmp_path / "copy.h5md"
    shutil.copy(path, copy)
    with kn.Writer.append(copy) as out:
        write_frames(out, frames, frames + 5, n_atoms)
    assert whole_frames(copy, n_atoms) == frames + 5
