"""When `kinema.Writer` makes no file, or takes no frame: errors, Ctrl-C, full disks, and arguments that do not fit."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk
from kinema.testing.programs.children import start_child

Arrays = dict[str, Any]


def write(path: Path, positions: Any, **options: Any) -> None:
    with kn.Writer(path, np.shape(positions)[-2], **options) as out:
        out.write(positions)


# whole or not at all


def stopped_writing(path: Path, error: type[BaseException], **options: Any) -> None:
    with kn.Writer(path, 3, **options) as out:
        out.write(random_walk(4, 3))
        raise error


def test_nothing_is_seen_before_close(tmp_path: Path) -> None:
    path = tmp_path / "whole.h5md"
    out = kn.Writer(path, 3)
    out.write(random_walk(4, 3))
    out.flush()
    assert not path.exists() and out.n_flushed == 4
    out.close()
    out.close()
    assert [file.name for file in tmp_path.iterdir()] == ["whole.h5md"]
    assert out.n_flushed == 4
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    with pytest.raises(kn.ArgumentError, match="the writer is closed"):
        out.write(random_walk(1, 3))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_frames_under_a_temporary_name(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "none.h5md"
    with pytest.raises(error):
        stopped_writing(path, error, keep_partial=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(error) as caught:
        stopped_writing(path, error)
    (part,) = tmp_path.iterdir()
    assert part.name.startswith("none.part-") and part.suffix == ".h5md"
    assert caught.value.__notes__ == [f"4 frames are in {part}, which can be read and renamed"]
    np.testing.assert_array_equal(np.stack([frame.positions for frame in kn.open(part)]), random_walk(4, 3))
    # and the next Writer names it, but does not remove it
    with pytest.warns(kn.Note, match=rf"{part.name}: holds what a run has left"), kn.Writer(path, 3) as out:
        out.write(random_walk(2, 3))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["none.h5md", part.name]


def test_a_forgotten_writer_leaves_nothing(tmp_path: Path) -> None:
    def forget() -> None:
        kn.Writer(tmp_path / "forgotten.h5md", 3).write(random_walk(4, 3))
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"forgotten\.h5md: the writer was not closed"):
        forget()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_on_request_only(tmp_path: Path) -> None:
    path = tmp_path / "there.h5md"
    path.write_text("precious")
    with pytest.raises(kn.ArgumentError, match="exists already; overwrite=True replaces it, mode='a'"):
        kn.Writer(path, 3)
    with pytest.raises(ValueError):
        stopped_writing(path, ValueError, overwrite=True, keep_partial=False)
    assert path.read_text() == "precious"
    write(path, random_walk(2, 3), overwrite=True)
    assert h5py.is_hdf5(path)


def test_a_file_that_came_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "late.h5md"
    out = kn.Writer(path, 3)
    out.write(random_walk(1, 3))
    path.write_text("precious")
    with pytest.raises(kn.ArgumentError, match="exists already") as caught:
        out.close()
    assert path.read_text() == "precious"
    (part,) = tmp_path.glob("late.part-*.h5md")
    assert str(part) in caught.value.__notes__[0]
    assert kn.open(part).n_frames == 1


@pytest.mark.processes
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, numpy, kinema as kn\n"
        "with kn.Writer(sys.argv[1], 500, compression='gzip', keep_partial=False) as out:\n"
        "    for i in range(100_000):\n"
        "        out.write(numpy.random.rand(500, 3))\n"
        "        if i == 100: print('writing', flush=True)\n"
    )
    package = str(Path(kn.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", program, str(tmp_path / "out.h5md")]
    worker = start_child(command, env=environment)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "writing\n"
    time.sleep(0.05)
    worker.send_signal(signal.SIGINT)
    _, said = worker.communicate(timeout=120)
    assert "KeyboardInterrupt" in said
    assert worker.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path = tmp_path / "full.h5md"
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(kn.FileIOError, match=r"full\.h5md: cannot write") as caught:
            write(path, np.zeros((200, 1000, 3), np.float32))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert caught.value.path == str(path)
    assert list(tmp_path.iterdir()) == []


# what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_atoms": 0}, "n_atoms is a whole number from 1 on, found 0"),
        ({"n_atoms": None}, "n_atoms is needed"),
        ({"n_atoms": True}, "n_atoms is a whole number"),
        ({"mode": "x"}, "mode is 'w' for a new file or 'a' to append, found 'x'"),
        ({"mode": "a", "overwrite": True}, "overwrite=True is for mode='w'"),
        ({"fields": ["position"]}, "fields are some of positions, velocities, forces"),
        ({"fields": []}, "fields are some of"),
        ({"particles": "a/b"}, "particles is a name without '/'"),
        ({"layout": "rows"}, "layout is one of frames, atoms, contiguous or a chunk shape"),
        ({"layout": (1, 2)}, "layout is one of"),
        ({"layout": (0, 5, 3)}, "layout is one of"),
        ({"layout": (1, 6, 3)}, r"chunk shape \(1, 6, 3\) is larger than a frame, \(5, 3\)"),
        ({"layout": (1 << 27, 5, 3)}, "more than HDF5's limit"),
        ({"layout": "contiguous"}, "needs n_frames="),
        ({"layout": "contiguous", "n_frames": 3, "compression": "gzip"}, "cannot be compressed"),
        ({"layout": "contiguous", "n_frames": 3, "mode": "a"}, "cannot grow"),
        ({"n_frames": -1}, "n_frames is a whole number from 1 on"),
        ({"align": 0}, "align is a whole number from 1 on"),
        ({"compression": "snappy"}, "compression is None or one of gzip, zstd, lz4"),
        ({"compression": (1, 2)}, r"compression by number is \(number of a filter, its values\), found \(1, 2\)"),
        ({"compression": (99999, ())}, "the number of a filter is from 1 to 65535, found 99999"),
        ({"compression": (40001, ())}, "compression filter 40001: neither Kinema nor HDF5 .* has this filter"),
        ({"compression": (6, (2, 3))}, "filter 6 is not a compression to choose by number; give max_error="),
        ({"compression": (4, ())}, "filter 4 has a mask and a block size"),
        ({"compression": (32000, ()), "level": 3}, "level=3 is that of a compression by name"),
        ({"compression": "bitshuffle-lz4", "shuffle": True}, "which shuffles bits itself"),
        ({"compression": "lzf", "level": 3}, "lzf has no levels"),
        ({"shuffle": True}, "shuffle=True needs compression="),
        ({"compression": "gzip", "checksum": 1}, "shuffle and checksum are True or False, found None, 1"),
        ({"layout": "contiguous", "n_frames": 3, "checksum": True}, "cannot be given checksums"),
        ({"compression": "gzip", "level": 10}, "level of gzip is a whole number from 1 to 9, found 10"),
        ({"compression": "lz4", "level": 1}, "lz4 has no levels"),
        ({"level": 1}, "level=1 needs compression="),
        ({"max_error": 0}, "max_error is a positive number, found 0"),
        ({"max_error": float("nan")}, "max_error is a positive number"),
        ({"max_error": 1e-40}, "outside of what float32 resolves"),
        ({"max_error": 0.1, "unit": "furlong"}, "unit of max_error is one of angstrom, nm, pm"),
        ({"dtype": "int32"}, "dtype is float32 or float64, found int32"),
        ({"length_unit": "m"}, "length_unit is one of angstrom, nm, pm, found 'm'"),
        ({"time_unit": "s"}, "time_unit is one of ps, fs, ns, found 's'"),
        ({"cell": [1, 2]}, r"cell has shape \(2,\), expected \(3,\) or \(3, 3\)"),
        ({"boundary": "open"}, "boundary is 'periodic' or 'none'"),
        ({"masses": [1, 2]}, r"masses have shape \(2,\)"),
        ({"masses": [1, 2, 3, 4, np.nan]}, "masses have values that are not finite"),
        ({"charges": ["a"] * 5}, "charges have type"),
        ({"species": [1.5] * 5}, "species are whole numbers or names"),
        ({"ids": [1, 2, 3, 3, 4]}, "ids occur once each, found 3 more than once"),
        ({"bonds": [[0, 5]]}, "bonds name atoms from 0 to 5, expected 0 to 4"),
        ({"bonds": [0, 1]}, r"bonds have shape \(2,\)"),
        ({"dialect": "latin"}, "dialect is one of h5md, mdanalysis"),
        ({"workers": 0}, "workers must be a whole number from 1 on"),
    ],
)
def test_wrong_options(tmp_path: Path, options: Arrays, message: str) -> None:
    with pytest.raises(kn.ArgumentError, match=message):
        kn.Writer(tmp_path / "out.h5md", **{"n_atoms": 5, **options})
    assert list(tmp_path.iterdir()) == []


def test_folders_that_do_not_take_files(tmp_path: Path) -> None:
    with pytest.raises(kn.FileNotFound, match="its folder does not exist"):
        kn.Writer(tmp_path / "nowhere" / "out.h5md", 5)
    with pytest.raises(kn.ArgumentError, match="is a directory"):
        kn.Writer(tmp_path, 5, overwrite=True)


X = np.zeros((5, 3), np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no field is given"),
        ({"positions": np.zeros((4, 3))}, r"positions have shape \(4, 3\), expected \(5, 3\) for a frame"),
        ({"positions": np.zeros((2, 5, 2))}, r"positions have shape \(2, 5, 2\)"),
        ({"positions": np.zeros((5, 3), complex)}, "positions have type complex128, expected real numbers"),
        ({"positions": [["a", "b", "c"]] * 5}, "positions have type"),
        ({"positions": [[1, 2], [3]]}, "positions cannot be made an array"),
        ({"positions": X[None], "velocities": X}, "some fields are one frame and others a block"),
        ({"positions": X[None], "velocities": np.zeros((2, 5, 3))}, "velocities have 2 frames, expected 1"),
        ({"positions": X, "cell": np.zeros((2, 3))}, r"cell has shape \(2, 3\), expected \(3, 3\) or \(3,\)"),
        ({"positions": X, "cell": np.zeros((3, 3))}, "cell of frame 0 of the block is zero"),
        ({"positions": X, "cell": [1, 2, np.nan]}, "cell has elements that are not finite"),
        ({"positions": X, "step": 1.5}, "step has values that are not whole numbers"),
        ({"positions": X, "step": np.nan}, "step has values that are not whole numbers"),
        ({"positions": X, "step": 2**63}, "step has values beyond the range of int64"),
        ({"positions": X, "step": [1, 2]}, r"step has shape \(2,\), expected a number"),
        ({"positions": X, "time": np.inf}, "time has values that are not finite"),
        ({"positions": np.zeros((2, 5, 3)), "time": 1.0}, r"time has shape \(\), expected \(2,\), one for each frame"),
        (
            {"positions": np.zeros((2, 5, 3)), "step": [4, 4]},
            r"step must rise .* more than 4, found 4",
        ),
        ({"positions": np.zeros((2, 5, 3)), "time": [4, 3]}, r"time must rise .* expected at least 4.0, found 3.0"),
    ],
)
def test_wrong_frames_are_not_taken(tmp_path: Path, arguments: Arrays, message: str) -> None:
    path = tmp_path / "out.h5md"
    with kn.Writer(path, 5) as out:
        with pytest.raises(kn.ArgumentError, match=message):
            out.write(arguments.get("positions"), **{k: v for k, v in arguments.items() if k != "positions"})
        assert out.n_frames == 0
        out.write(X, step=3)
        assert out.n_frames == 1


def test_frames_that_differ_from_the_first(tmp_path: Path) -> None:
    cell = [10, 10, 10]
    with kn.Writer(tmp_path / "out.h5md", 5) as out:
        out.write(X, forces=X, cell=cell, time=1.0)
        for arguments, message in (
            ({"cell": cell, "time": 2}, "forces are missing"),
            ({"forces": X, "velocities": X, "cell": cell, "time": 2}, "but not velocities; give fields="),
            ({"forces": X, "time": 2}, "cell is missing"),
            ({"forces": X, "cell": cell}, "time is missing"),
            ({"forces": X, "cell": cell, "time": 2, "step": 0}, "step must rise"),
        ):
            with pytest.raises(kn.ArgumentError, match=message):
                out.write(X, **arguments)
        out.write(X, forces=X, cell=cell, time=2)
        assert out.n_frames == 2
    with kn.Writer(tmp_path / "bare.h5md", 5) as out:
        out.write(X)
        with pytest.raises(kn.ArgumentError, match="cell is given, but the file has none"):
            out.write(X, cell=cell)
        with pytest.raises(kn.ArgumentError, match="time is given, but the file has none"):
            out.write(X, time=1)


def test_fixed_cells_and_boundaries(tmp_path: Path) -> None:
    with kn.Writer(tmp_path / "fixed.h5md", 5, cell=[10, 11, 12]) as out:
        out.write(X)
        out.write(X, cell=[10, 11, 12])
        with pytest.raises(kn.ArgumentError, match="cell differs from the fixed one"):
            out.write(X, cell=[10, 11, 13])
    with (
        pytest.raises(kn.ArgumentError, match="boundary is periodic, but no cell is given"),
        kn.Writer(tmp_path / "periodic.h5md", 5, boundary="periodic") as out,
    ):
        out.write(X)
    assert not (tmp_path / "periodic.h5md").exists()


@pytest.mark.parametrize("written", [2, 4])
def test_contiguous_layouts_have_as_many_frames_as_announced(tmp_path: Path, written: int) -> None:
    path = tmp_path / "out.h5md"
    message = "2 frames were written of n_frames=3" if written == 2 else "n_frames=3 were announced, found frame 4"
    with pytest.raises(kn.ArgumentError, match=message):
        write(path, np.zeros((written, 5, 3)), layout="contiguous", n_frames=3)
    assert list(tmp_path.iterdir()) == []


def test_writing_imports_no_mdanalysis() -> None:
    program = "import sys, kinema as kn; kn.Writer; assert 'MDAnalysis' not in sys.modules"
    package = str(Path(kn.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=120)


def test_no_warnings(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(tmp_path / "quiet.h5md", random_walk(3, 5), compression="gzip")
    # what is asked for, and a loss all the same
    with pytest.warns(kn.Note, match=r"positions are rounded, none by more than 0\.01 angstrom") as noted:
        write(tmp_path / "rounded.h5md", random_walk(3, 5), compression="gzip", max_error=0.01)
    assert len(noted) == 1
