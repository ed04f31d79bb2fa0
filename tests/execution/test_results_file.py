"""Results per frame in a file: the layout for plain h5py, memory, what is refused, files that come and go."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.file import load
from kinema.execution.results_file import ResultArray, ResultFile, ResultTable
from kinema.testing import random_walk, write_dcd

N_FRAMES, N_ATOMS = 90, 12


@pytest.fixture
def traj(tmp_path: Path) -> kn.Trajectory:
    write_dcd(tmp_path / "a.dcd", random_walk(N_FRAMES, N_ATOMS), dt=2.0)
    return kn.open(tmp_path / "a.dcd")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "rows.h5"


def _names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def _part(out: Path) -> Path:
    """The temporary file of the results, of which there is one."""
    (part,) = out.parent.glob(f"{out.stem}.part-*{out.suffix}")
    return part


# -- the layout ---------------------------------------------------------------------------------------------------


def test_plain_h5py_reads_it(traj: kn.Trajectory, out: Path) -> None:
    rmsd = kn.analysis.RMSD(traj, groups=[[1, 2, 3]])
    rgyr = kn.analysis.RadiusOfGyration(traj, weights=None, axes=True)
    expected = [one.results.values for one in kn.run([rmsd, rgyr], step=3)]
    rmsd.command = "kinema rmsd and so on"
    kn.run([rmsd, rgyr], step=3, out=out)
    with h5py.File(out, "r") as file:
        assert file.attrs["format"] == "kinema results"
        assert file.attrs["version"] == 1
        assert file.attrs["kinema"] == kn.__version__
        assert file.attrs["complete"]
        assert sorted(file) == ["frames", "rgyr", "rmsd", "time"]
        np.testing.assert_array_equal(file["frames"], np.arange(0, N_FRAMES, 3))
        np.testing.assert_allclose(file["time"], np.arange(0, N_FRAMES, 3) * 2.0, atol=1e-3)
        assert file["time"].attrs["unit"] == "ps"
        for name, values in zip(("rmsd", "rgyr"), expected, strict=True):
            assert file[name].dtype == np.float64
            assert file[name][...].tobytes() == values.tobytes()
            assert file[name].attrs["unit"] == "angstrom"
            assert file[name].attrs["columns"].tolist() == [
                one.name for one in _columns(rmsd if name == "rmsd" else rgyr)
            ]
            told = json.loads(file[name].attrs["provenance"])
            assert told["inputs"][0]["fingerprint"] == traj.parts[0].fingerprint
            assert told["frames"] == "30 from 0, every 3"
        assert json.loads(file["rmsd"].attrs["provenance"])["call"] == "kinema rmsd and so on"


def _columns(analysis: Any) -> Any:
    return [column for column in analysis.table().columns if column.name not in ("frame", "time")]


@pytest.mark.parametrize(
    ("function", "dtype", "shape"),
    [
        (lambda frame: frame.frame, np.int64, ()),
        (lambda frame: frame.positions[:2], np.float32, (2, 3)),
        (lambda frame: frame.frame % 2 == 0, np.bool_, ()),
        (lambda frame: np.array([frame.time + 1j, 2.0]), np.complex128, (2,)),
        (lambda frame: np.uint8(frame.frame % 7), np.uint8, ()),
    ],
)
def test_numbers_of_any_kind_and_shape(
    traj: kn.Trajectory, out: Path, function: Any, dtype: type, shape: tuple[int, ...]
) -> None:
    made = kn.analysis.from_function(function, traj)
    expected = made.run().results.values
    found = made.run(out=out, workers=2).results.values
    assert (found.dtype, found.shape) == (np.dtype(dtype), (N_FRAMES, *shape))
    assert np.asarray(found).dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_two_of_a_kind_and_frames_in_any_order(traj: kn.Trajectory, out: Path) -> None:
    both = [kn.analysis.RMSD(traj, select=[1, 2, 3]), kn.analysis.RMSD(traj, select=[4, 5, 6])]
    order = [7, 3, 3, 80, 0]
    expected = [one.results.rmsd for one in kn.run(both, frames=order)]
    kn.run(both, frames=order, out=out)
    with h5py.File(out, "r") as file:
        assert sorted(file) == ["frames", "rmsd", "rmsd_2", "time"]
        assert file["frames"][...].tolist() == order
    for one, values in zip(both, expected, strict=True):
        assert np.asarray(one.results.rmsd).tobytes() == values.tobytes()


def test_a_long_provenance(tmp_path: Path, out: Path) -> None:
    names = []
    for number in range(400):
        names.append(tmp_path / f"{'part' * 30}{number}.dcd")
        write_dcd(names[-1], random_walk(1, 3), first_step=number)
    kn.analysis.RMSD(kn.open(names)).run(out=out)
    with h5py.File(out, "r") as file:
        told = file["rmsd"].attrs["provenance"]
    assert len(told) > 1 << 16
    assert len(json.loads(told)["inputs"]) == 400


# -- arrays in a file ---------------------------------------------------------------------------------------------


def test_arrays_in_a_file_are_read_where_they_are_asked_for(traj: kn.Trajectory, out: Path) -> None:
    rmsd = kn.analysis.RMSD(traj, groups=[[1, 2, 3]])
    table = rmsd.run().results.rmsd
    found = rmsd.run(out=out).results
    assert isinstance(found.values, ResultArray)
    assert isinstance(found.rmsd, ResultTable)
    assert (found.rmsd.shape, found.rmsd.dtype, len(found.rmsd)) == (table.shape, table.dtype, N_FRAMES)
    assert (found.values.shape, found.values.ndim, len(found.values)) == ((N_FRAMES, 2), 2, N_FRAMES)
    for key in (3, -1, slice(4, 20, 3), (slice(None), 2), (5, 3), (slice(2, 5), [0, 2]), ..., (..., 1)):
        np.testing.assert_array_equal(found.rmsd[key], table[key])
    for key in (3, slice(4, 20, 3), (slice(None), 1), (5, 0)):
        np.testing.assert_array_equal(found.values[key], table[:, 2:][key])
    np.testing.assert_array_equal(np.concatenate(list(found.values.chunks())), table[:, 2:])
    assert "rows.h5" in repr(found.values)
    assert np.asarray(found.values, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copied"):
        np.array(found.values, copy=False)
    out.unlink()
    with pytest.raises(kn.FileNotFound, match=r"rows\.h5: cannot read results"):
        found.values[0]


def test_tables_and_plots_of_results_in_a_file(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    for analysis in (
        kn.analysis.RMSD(traj),
        kn.analysis.RadiusOfGyration(traj, weights=None),
        kn.analysis.from_function(lambda frame: frame.time, traj),
    ):
        analysis.run().save(tmp_path / "memory.npy")
        analysis.run(out=out).save(tmp_path / "file.npy")
        assert (tmp_path / "memory.npy").read_bytes() == (tmp_path / "file.npy").read_bytes()
        analysis.plot(tmp_path / "plot.png")


# -- what is refused ----------------------------------------------------------------------------------------------


class Counting(kn.analysis.PythonKernel):
    def empty(self) -> int:
        return 0

    def accumulate(self, partial: int, block: Any) -> int:
        return partial + len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right

    def finish(self, partial: int) -> dict[str, int]:
        return {"count": partial}


def test_analyses_without_results_per_frame(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    before = _names(tmp_path)
    for analyses in (
        [kn.analysis.RMSF(traj)],
        [kn.analysis.RMSD(traj), kn.analysis.RMSF(traj)],
        [kn.analysis.Custom(traj, Counting())],
    ):
        with pytest.raises(kn.ArgumentError, match=r"(RMSF|Custom) has no results per frame.*\.save\(\)"):
            kn.run(analyses, out=out)
    assert _names(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        ("rows.npy", kn.UnsupportedFormatError, r"not written as \.npy during .* choose one of \.h5, \.hdf5"),
        ("rows", kn.UnsupportedFormatError, "a file without suffix"),
        ("nowhere/rows.h5", kn.FileNotFound, "its folder does not exist"),
        (7, kn.ArgumentError, "out is a file name, found int"),
    ],
)
def test_names_that_cannot_be(
    traj: kn.Trajectory, tmp_path: Path, name: Any, error: type[kn.Error], match: str
) -> None:
    with pytest.raises(error, match=match):
        kn.analysis.RMSD(traj).run(out=tmp_path / name if isinstance(name, str) else name)


def test_rows_that_do_not_fit(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    before = _names(tmp_path)
    for function, match in (
        (lambda frame: "text", "values of type <U4 are not written"),
        (
            lambda frame: np.zeros(2 if frame.frame < 50 else 3),
            r"rows of different kinds, expected float64 \(2,\), found",
        ),
        (lambda frame: 1 if frame.frame < 50 else 1.5, r"rows of different kinds, expected int64 \(\), found float64"),
    ):
        analysis = kn.analysis.from_function(function, traj)
        with pytest.raises(kn.ArgumentError, match=match):
            analysis.run(out=out, workers=1)
        assert not analysis.results
        assert _names(tmp_path) == before


# -- files that come and go ---------------------------------------------------------------------------------------


def test_a_complete_file_stays_until_the_next_is(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    kn.analysis.RMSD(traj).run(out=out)
    before = out.read_bytes()
    seen: list[bool] = []

    def look_and_fail(frame: Any) -> float:
        if frame.frame == 40:
            with h5py.File(_part(out), "r") as file:
                seen.append(bool(file.attrs["complete"]))
                assert file["frames"].shape == (N_FRAMES,)
            raise ZeroDivisionError
        return 0.5

    with pytest.raises(ZeroDivisionError):
        kn.analysis.from_function(look_and_fail, traj).run(out=out, workers=1)
    assert seen == [False]
    assert out.read_bytes() == before
    assert _names(tmp_path) == {"a.dcd", "rows.h5"}


def test_what_a_killed_run_has_left_is_replaced(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", "import os, sys; from kinema.storage.output_file import OutputFile\n"
         "held = OutputFile(sys.argv[1]); os.kill(os.getpid(), 9)", str(out)],
        env={**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}, timeout=120,
    )  # fmt: skip
    assert killed.returncode == -9
    assert _part(out).exists()
    found = kn.analysis.RMSD(traj).run(out=out)
    assert found.results.rmsd[:].tobytes() == kn.analysis.RMSD(traj).run().results.rmsd.tobytes()
    assert _names(tmp_path) == {"a.dcd", "rows.h5"}


def test_a_full_disk(traj: kn.Trajectory, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small:
        f_bavail, f_frsize = 1, 512

    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _path: Small)
        with pytest.raises(kn.FileIOError, match=r"the disk is too small .*, expected \d+ bytes, found 512"):
            kn.analysis.RMSD(traj).run(out=out)
    assert _names(tmp_path) == {"a.dcd"}

    def full(*_arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(kn.FileIOError, match=r"rows\.h5: cannot write results: no space left on device"):
            kn.analysis.RMSD(traj).run(out=out)
    assert _names(tmp_path) == {"a.dcd"}


def test_writes_that_take_several_calls(traj: kn.Trajectory, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = kn.analysis.RMSD(traj).run().results.rmsd
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda where, data, at: write(where, bytes(data[:5]), at))
    found = kn.analysis.RMSD(traj).run(out=out, workers=2)
    assert np.asarray(found.results.rmsd).tobytes() == expected.tobytes()


def test_another_run_with_the_same_file(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    def meddle(frame: Any) -> float:
        if frame.frame == 40:
            part = _part(out)
            os.unlink(part)
            part.write_bytes(b"of another run")
        return 0.5

    with pytest.raises(kn.FileIOError, match=r"rows\.part-.*\.h5: was replaced by another run"):
        kn.analysis.from_function(meddle, traj).run(out=out, workers=1)
    assert not out.exists()


# -- with a checkpoint --------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def _begun(traj: kn.Trajectory, path: Path, out: Path) -> None:
    def progress(done: int, total: int) -> None:
        if done == total:
            raise Stop

    with pytest.raises(Stop):
        kn.analysis.RMSD(traj).run(checkpoint=path, checkpoint_interval=0, out=out, progress=progress)
    assert path.exists()
    assert _part(out).exists()


def test_nothing_is_left_where_nothing_was_done(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    def fail(frame: Any) -> float:
        raise ZeroDivisionError

    for options in ({}, {"checkpoint": tmp_path / "run.ckpt"}):
        with pytest.raises(ZeroDivisionError):
            kn.analysis.from_function(fail, traj).run(out=out, workers=1, **options)
        assert _names(tmp_path) == {"a.dcd"}


def test_a_run_goes_on_in_its_file(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    expected = kn.analysis.RMSD(traj).run().results.rmsd
    _begun(traj, path, out)
    found = kn.analysis.RMSD(traj).run(checkpoint=path, out=out)
    assert found.timings.frames_restored == N_FRAMES
    assert np.asarray(found.results.rmsd).tobytes() == expected.tobytes()
    assert _names(tmp_path) == {"a.dcd", "rows.h5"}


def test_a_run_that_was_killed_when_only_its_checkpoint_was_left(
    traj: kn.Trajectory, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.ckpt"
    expected = kn.analysis.RMSD(traj).run().results.rmsd
    _begun(traj, path, out)
    finish = ResultFile.finish

    def finish_and_end(self: ResultFile) -> None:
        finish(self)
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(ResultFile, "finish", finish_and_end)
        with pytest.raises(Stop):
            kn.analysis.RMSD(traj).run(checkpoint=path, out=out)
    assert _names(tmp_path) == {"a.dcd", "rows.h5", "run.ckpt"}
    found = kn.analysis.RMSD(traj).run(checkpoint=path, out=out)
    assert np.asarray(found.results.rmsd).tobytes() == expected.tobytes()
    assert _names(tmp_path) == {"a.dcd", "rows.h5"}


def test_a_file_that_is_not_that_of_the_checkpoint(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    _begun(traj, path, out)
    part = _part(out)
    whole = part.read_bytes()
    with h5py.File(part, "r+") as file:
        file.attrs["run"] = "another"
    with pytest.raises(kn.ArgumentError, match=r"rows\.part-.*: the results are of another run than the checkpoint"):
        kn.analysis.RMSD(traj).run(checkpoint=path, out=out)
    part.write_bytes(b"no HDF5 at all")
    with pytest.raises(kn.FileIOError, match=r"rows\.part-.*\.h5: cannot read results"):
        kn.analysis.RMSD(traj).run(checkpoint=path, out=out)
    part.unlink()
    with pytest.raises(kn.ArgumentError, match=r"rows\.part-.*: not found, but the checkpoint relies on rows in it"):
        kn.analysis.RMSD(traj).run(checkpoint=path, out=out)
    # nothing of that has cost what was done
    part.write_bytes(whole)
    assert kn.analysis.RMSD(traj).run(checkpoint=path, out=out).timings.frames_restored == N_FRAMES


def test_a_file_that_was_changed_in_rows_that_count(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    _begun(traj, path, out)
    part, kept, saved = _part(out), _part(out).read_bytes(), path.read_bytes()
    content = load(str(path))
    assert content is not None
    digests = content.counted[part.name]
    assert sum(stop - start for start, stop, _ in digests) >= N_FRAMES * 8
    for start, stop, _ in digests:
        changed = bytearray(kept)
        changed[(start + stop) // 2] ^= 1
        part.write_bytes(changed)
        with pytest.raises(kn.CorruptFileError, match=rf"{part.name}: byte {start}: .* were changed since they were"):
            kn.analysis.RMSD(traj).run(checkpoint=path, out=out)
        assert part.read_bytes() == bytes(changed) and path.read_bytes() == saved
    part.write_bytes(kept)
    assert kn.analysis.RMSD(traj).run(checkpoint=path, out=out).timings.frames_restored > 0


def test_a_kept_checkpoint_of_a_run_with_a_file(traj: kn.Trajectory, out: Path, tmp_path: Path) -> None:
    expected = kn.analysis.RMSD(traj).run().results.rmsd
    for restored in (0, N_FRAMES):
        found = kn.analysis.RMSD(traj).run(checkpoint=Checkpoint(tmp_path / "run.ckpt", keep=True), out=out)
        assert found.timings.frames_restored == restored
        assert np.asarray(found.results.rmsd).tobytes() == expected.tobytes()
    assert _names(tmp_path) == {"a.dcd", "rows.h5", "run.ckpt"}


# -- memory -------------------------------------------------------------------------------------------------------

MODULE = """
import numpy as np

def rows(block):
    return np.broadcast_to(np.arange(10_000.0), (len(block), 10_000))
"""
MEMORY = """
import os, sys
import kinema as kn
from kinema.base.resources import peak_memory

path, out, runner = sys.argv[1:]
sys.path.insert(0, os.path.dirname(path))
from wide import rows

traj = kn.open(path)
analyses = [kn.analysis.from_function(rows, traj, select=[0], over="blocks"), kn.analysis.RMSD(traj)]
# what a run needs besides its results
kn.run([kn.analysis.RMSD(traj)], runner=runner, workers=2, out=out)
before = peak_memory()
kn.run(analyses, runner=runner, workers=2, out=out, memory="8 MiB")
print(peak_memory() - before)
"""


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_results_are_not_held_in_memory(tmp_path: Path, runner: str) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(1600, 4))
    (tmp_path / "wide.py").write_text(MODULE)
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    words = [sys.executable, "-c", MEMORY, str(tmp_path / "a.dcd"), str(tmp_path / "rows.h5"), runner]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=200)
    size = (tmp_path / "rows.h5").stat().st_size
    assert size > 120 << 20
    # a leaf of each worker, 16 frames here, or what worker processes hand over at a time
    assert int(done.stdout) < 30 << 20, done.stdout
