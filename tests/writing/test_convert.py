"""`kn.convert`: values, losses, refusals; the same bytes for any workers; what is left where it ends early."""

from __future__ import annotations

import glob
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import each
from kinema.testing.programs.imports import package_folder


def converted(source: Any, out: Path, **options: Any) -> kn.Converted:
    with collected():
        return kn.convert(source, out, **options)


def real_files(suffix: str) -> list[str]:
    folder = package_folder("MDAnalysisTests") / "data"
    found = glob.glob(f"{folder}/**/*{suffix}", recursive=True)
    return sorted(name for name in found if os.path.getsize(name))


def opened(path: str | Path) -> kn.Trajectory:
    with collected():
        trajectory = kn.open(path, stored=False)
        trajectory.scan()
    return trajectory


@pytest.mark.parametrize("path", real_files(".dcd"), ids=os.path.basename)
def test_dcd_keeps_every_bit(path: str, tmp_path: Path) -> None:
    source = opened(path)
    done = converted(source, tmp_path / "copy.dcd")
    copy = opened(tmp_path / "copy.dcd")
    (field,) = done.fields
    expected, found = source.read(fields=[field]), copy.read(fields=[field])
    # LAMMPS' time step is in another unit, and is rounded
    names = [field, "cells", "steps"] + ([] if done.losses else ["times"])
    assert all(np.array_equal(expected[name], found[name]) for name in names)
    assert bool(done.losses) == ("LAMMPS" in source.parts[0].variant)
    np.testing.assert_allclose(found["times"], expected["times"], rtol=1e-7, atol=0)
    assert opened(tmp_path / "copy.dcd").notes == ()


@pytest.mark.parametrize("path", real_files(".xtc"), ids=os.path.basename)
def test_xtc_keeps_its_bytes(path: str, tmp_path: Path) -> None:
    done = converted(path, tmp_path / "copy.xtc")
    assert Path(path).read_bytes()[: done.size] == (tmp_path / "copy.xtc").read_bytes()
    assert done.losses == ()
    # a selection keeps the integers, in its order
    source = opened(path)
    atoms = [*range(source.n_atoms - 1, 0, -2), 0]
    converted(path, tmp_path / "some.xtc", select=atoms)
    if len(atoms) > 9:
        assert np.array_equal(opened(tmp_path / "some.xtc").read(), source.read(select=atoms))


def test_xtc_with_other_times_keeps_its_precision(adk_dcd: Any, tmp_path: Path) -> None:
    converted(adk_dcd.trajectory, tmp_path / "fine.xtc", precision=20000, stop=5)
    done = converted(tmp_path / "fine.xtc", tmp_path / "later.xtc", t0=500.0)
    (loss,) = done.losses
    assert "times are rounded to float32" in loss
    fine, later = opened(tmp_path / "fine.xtc"), opened(tmp_path / "later.xtc")
    assert np.array_equal(fine.read(), later.read())
    np.testing.assert_allclose(later.times, fine.times - fine.times[0] + 500.0, rtol=1e-7)


def test_xtc_as_dcd_is_what_mdanalysis_reads(adk_xtc: Any, tmp_path: Path) -> None:
    import MDAnalysis

    done = converted(adk_xtc.trajectory, tmp_path / "a.dcd")
    assert [loss.partition(": ")[2][:17] for loss in done.losses] == ["times are rounded"]
    source = MDAnalysis.Universe(adk_xtc.topology, adk_xtc.trajectory)
    copy = MDAnalysis.Universe(adk_xtc.topology, str(tmp_path / "a.dcd"))
    assert copy.trajectory.n_frames == done.n_frames == 10
    for expected, found in zip(source.trajectory, copy.trajectory, strict=True):
        assert np.array_equal(expected.positions, found.positions)
        np.testing.assert_allclose(found.dimensions, expected.dimensions, rtol=1e-6)
        assert found.time == pytest.approx(expected.time, rel=1e-6)
    read, written = opened(adk_xtc.trajectory), opened(tmp_path / "a.dcd")
    assert np.array_equal(read.read(), written.read())
    assert np.array_equal(read.steps, written.steps)
    np.testing.assert_allclose(written.times, read.times, rtol=2e-7)


def test_dcd_as_xtc_is_what_mdanalysis_reads(adk_dcd: Any, tmp_path: Path) -> None:
    import MDAnalysis

    done = converted(adk_dcd.trajectory, tmp_path / "a.xtc", precision=10000)
    assert "rounded to multiples of 0.0001 nm" in done.losses[0]
    copy = MDAnalysis.Universe(adk_dcd.topology, str(tmp_path / "a.xtc"))
    expected = opened(adk_dcd.trajectory).read()
    for frame, positions in zip(copy.trajectory, expected, strict=True):
        assert np.abs(frame.positions - positions).max() <= 0.0005 * 1.01


@pytest.fixture
def h5md(tmp_path: Path) -> str:
    """20 frames of 15 atoms in float64 with velocities and a cell, gzip in chunks of 7 frames."""
    import h5py

    path = tmp_path / "in.h5md"
    cell = np.diag([30.0, 31.0, 32.0])
    with kn.Writer(path, 15) as writer:
        for i, positions in enumerate(random_walk(20, 15)):
            writer.write(positions, velocities=positions / 3, cell=cell, step=5 * i, time=0.5 * i)
    with h5py.File(path, "r+") as file:
        (group,) = file["particles"].values()
        for name in ("position", "velocity"):
            element = group[name]
            values, attributes = element["value"][...], dict(element["value"].attrs)
            del element["value"]
            made = element.create_dataset(
                "value", data=values.astype(np.float64), chunks=(7, 15, 3), compression="gzip"
            )
            made.attrs.update(attributes)
    return str(path)


def test_h5md_with_velocities(h5md: str, tmp_path: Path) -> None:
    source = opened(h5md)
    done = converted(h5md, tmp_path / "x.dcd", frames=[3, 1, 19], memory="9 MiB")
    losses = " ".join(done.losses)
    assert "velocities are not written" in losses and "positions are rounded from float64 to float32" in losses
    # 3, 1, 19 are not evenly spaced
    assert "steps are not kept" in losses and "times are not kept" in losses
    assert np.array_equal(opened(tmp_path / "x.dcd").read(), source.read([3, 1, 19]))
    done = converted(h5md, tmp_path / "v.dcd", fields="velocities", start=2, step=3)
    assert done.fields == ("velocities",) and (tmp_path / "v.dcd").read_bytes()[4:8] == b"VELD"
    copy = opened(tmp_path / "v.dcd")
    assert copy.fields[0] == "velocities"
    np.testing.assert_allclose(
        copy.read(fields="velocities"), source.read(slice(2, None, 3), fields="velocities"), rtol=3e-7
    )
    assert np.array_equal(copy.steps, source.steps[2::3])
    # velocities again as they are
    again = converted(copy, tmp_path / "w.dcd")
    assert again.fields == ("velocities",) and again.losses == ()
    assert (tmp_path / "w.dcd").read_bytes() == (tmp_path / "v.dcd").read_bytes()


def test_the_same_bytes_for_any_workers_and_memory(adk_dcd: Any, adk_xtc: Any, h5md: str, tmp_path: Path) -> None:
    for source in (adk_dcd.trajectory, adk_xtc.trajectory, h5md):
        for suffix in ("dcd", "xtc"):
            hashes = set()
            for workers in (1, 2, 3, 5):
                for memory in (None, "12 MiB"):
                    out = tmp_path / f"out.{suffix}"
                    converted(source, out, workers=workers, memory=memory, overwrite=True, precision=None)
                    hashes.add(hashlib.sha256(out.read_bytes()).hexdigest())
            assert len(hashes) == 1, (source, suffix)


def test_several_files_and_a_group_in_its_order(small: kn.Trajectory, tmp_path: Path) -> None:
    (tmp_path / "a.ndx").write_text("[ some ]\n 5 2 9 2\n")
    path = small.paths[0]
    done = converted(
        [path, path], tmp_path / "two.dcd", overlap="all", index_file=tmp_path / "a.ndx", group="some", step=3
    )
    expected = np.concatenate([small.read(), small.read()])[::3][:, [4, 1, 8, 1]]
    assert np.array_equal(opened(tmp_path / "two.dcd").read(), expected)
    assert (done.n_frames, done.n_atoms) == expected.shape[:2]


def test_xtc_files_open_without_a_scan_unless_nothing_is_stored(adk_dcd: Any, tmp_path: Path) -> None:
    out = tmp_path / "a.xtc"
    stored = tmp_path / ".a.xtc.kinema-index"
    converted(kn.open(adk_dcd.trajectory, stored=False), out)
    assert not stored.exists()
    converted(adk_dcd.trajectory, out, overwrite=True, select=range(100), workers=3)
    made = stored.read_bytes()
    with collected():
        copy = kn.open(out)
        assert (copy.parts[0].index, copy.n_frames) == ("stored", 98)
        # what a scan finds, and of the same file
        assert kn.open(out, index="rebuild").parts[0].index == "built"
    assert stored.read_bytes() == made
    # of a folder that takes no index it is in the cache; that the output could be written is what counts
    stored.unlink()
    stored.mkdir()
    with collected() as notes:
        done = kn.convert(adk_dcd.trajectory, out, overwrite=True)
        assert kn.open(out).parts[0].index == "stored"
    assert done.n_frames == 98 and not any("index" in note for note in notes)


def test_losses_are_noted_before_the_file_is_there(adk_xtc: Any, tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []

    def progress(done: int, total: int) -> None:
        seen.append(("frames", (tmp_path / "a.dcd").exists()))

    with pytest.warns(kn.Note, match="times are rounded"):
        done = kn.convert(adk_xtc.trajectory, tmp_path / "a.dcd", progress=progress)
    assert seen and not any(there for _, there in seen)
    assert done.losses[0] in done.notes


def test_what_is_refused_leaves_nothing(small: kn.Trajectory, adk_dcd: Any, tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    there = small.paths[0]
    for out, options, error, words in (
        (there, {}, kn.ArgumentError, "exists already"),
        (there, {"overwrite": True}, kn.ArgumentError, "is the file that is read"),
        (tmp_path / "a.xyz", {}, kn.UnsupportedFormatError, "no writer of .xyz, expected XTC"),
        (tmp_path / "a", {}, kn.UnsupportedFormatError, "a name without suffix"),
        (tmp_path / "a.dcd", {"format": "XTC"}, kn.UnsupportedFormatError, "the suffix is none of XTC"),
        (tmp_path / "a.dcd", {"runner": "mips"}, kn.ArgumentError, "runner must be one of .*, found .mips."),
        (tmp_path / "a.dcd", {"fields": "velocities"}, kn.ArgumentError, "lacks what is to be written"),
        (tmp_path / "a.dcd", {"fields": ["positions", "velocities"]}, kn.ArgumentError, "holds one field"),
        (tmp_path / "a.dcd", {"fields": "charges"}, kn.ArgumentError, "'charges' is none of"),
        (tmp_path / "a.dcd", {"precision": 100}, kn.ArgumentError, "DCD files do not have precision="),
        (tmp_path / "a.xtc", {"precision": -1}, kn.ArgumentError, "wrong precision"),
        (tmp_path / "a.dcd", {"memory": "1 MiB"}, kn.MemoryLimitError, "expected at least"),
        (tmp_path / "a.dcd", {"start": 30}, kn.ArgumentError, "names no frame"),
        (tmp_path / "a.dcd", {"units": {"length": "nm"}}, kn.ArgumentError, "is open already"),
        (tmp_path / "no" / "a.dcd", {}, kn.FileNotFound, "folder does not exist"),
        ("-", {}, kn.ArgumentError, "not into streams"),
    ):
        with pytest.raises(error, match=words):
            converted(small, out, **options)
        assert sorted(os.listdir(tmp_path)) == before, out


def test_values_beyond_a_format_are_errors_with_the_frame(tmp_path: Path) -> None:
    positions = random_walk(6, 12)
    positions[4, 3, 1] = np.nan
    write_dcd(tmp_path / "in.dcd", positions)
    (tmp_path / "a.xtc").write_bytes(b"before")
    with pytest.raises(kn.ArgumentError, match="XTC frame 4: y of atom 4"):
        converted(tmp_path / "in.dcd", tmp_path / "a.xtc", overwrite=True)
    assert (tmp_path / "a.xtc").read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["a.xtc", "in.dcd"]


def test_a_file_that_reads_back_otherwise_is_not_kept(
    small: kn.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import kinema.files.conversion.records as module

    class Wrong:
        """Writes what the core does, and one bit less in the last frame."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def write(self, path: str, name: str, **options: Any) -> Any:
            written = self.inner.write(path, name, **options)
            with open(path, "r+b") as file:
                file.seek(-8, os.SEEK_END)
                byte = file.read(1)[0]
                file.seek(-8, os.SEEK_END)
                file.write(bytes([byte ^ 1]))
            return written

    inner = module.encoder_of
    monkeypatch.setattr(module, "encoder_of", lambda *arguments: Wrong(inner(*arguments)))
    with pytest.raises(kn.CorruptFileError, match="DCD frame 19: positions or cell read back"):
        converted(small, tmp_path / "a.dcd")
    assert not (tmp_path / "a.dcd").exists()
    assert converted(small, tmp_path / "a.dcd", verify=False).compared == 0


@pytest.mark.parametrize("suffix", ["dcd", "xtc", "h5md"])
def test_a_full_disk_leaves_the_old_file(adk_dcd: Any, small_disk: Path, suffix: str) -> None:
    out = small_disk / f"a.{suffix}"
    out.write_bytes(b"before")
    with pytest.raises(kn.FileIOError, match="No space left on device") as caught:
        converted(adk_dcd.trajectory, out, overwrite=True, precision=1e5 if suffix == "xtc" else None)
    assert caught.value.path == str(out)
    assert os.listdir(small_disk) == [out.name]
    assert out.read_bytes() == b"before"


def test_a_full_disk_ends_a_call_that_goes_on_with_more_room(adk_dcd: Any, small_disk: Path) -> None:
    out, saved = small_disk / "a.dcd", small_disk.parent / "a.ckpt"
    out.write_bytes(b"before")
    options = {"overwrite": True, "workers": 1, "checkpoint": saved, "checkpoint_interval": 0}
    with pytest.raises(kn.FileIOError, match="No space left on device") as caught:
        converted(adk_dcd.trajectory, out, **options)
    assert caught.value.__notes__ == [f"what was done is in {saved}; the same call continues from there"]
    (part,) = (name for name in os.listdir(small_disk) if name != out.name)
    assert part.startswith("a.part-") and out.read_bytes() == b"before"
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True, timeout=60)
    assert converted(adk_dcd.trajectory, out, **options).n_restored > 0
    assert os.listdir(small_disk) == [out.name] and not saved.exists()
    converted(adk_dcd.trajectory, small_disk.parent / "b.dcd")
    assert out.read_bytes() == (small_disk.parent / "b.dcd").read_bytes()


# a file that may not be longer, as where no file system can be mounted: the same error comes from the system
LIMITED = """
import resource, signal, sys
import kinema as kn

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    kn.convert(sys.argv[1], sys.argv[2], overwrite=True)
except kn.FileIOError as error:
    print(error)
"""


@pytest.mark.parametrize("suffix", ["dcd", "xtc"])
def test_a_file_that_may_not_grow_leaves_the_old_one(adk_xtc: Any, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"a.{suffix}"
    out.write_bytes(b"before")
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    words = [sys.executable, "-W", "ignore", "-c", LIMITED, adk_xtc.trajectory, str(out)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{out}: ") and "File too large" in done.stdout
    assert os.listdir(tmp_path) == [out.name] and out.read_bytes() == b"before"


MEMORY = """
import sys
import kinema as kn
from kinema.base.resources import peak_memory

source, small, out, limit = sys.argv[1:]
kn.convert(small, out, overwrite=True, workers=2)  # what is there in any case
before = peak_memory()
kn.convert(kn.open(source, stored=False), out, overwrite=True, workers=2, memory=limit)
print(peak_memory() - before)
"""


@pytest.fixture(scope="module")
def chunks_of_many_frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each chunk holds 250 frames of a quarter of the atoms; all frames that share chunks are 15 MB."""
    import h5py

    n_frames, n_atoms, run = 1250, 5000, 250
    path = tmp_path_factory.mktemp("chunks") / "in.h5md"
    with h5py.File(path, "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        value = file.create_dataset(
            "particles/all/position/value",
            (n_frames, n_atoms, 3),
            "<f4",
            chunks=(run, n_atoms // 4, 3),
            compression="gzip",
            compression_opts=1,
        )
        value.attrs["unit"] = "nm"
        frames = np.round(np.random.default_rng(1).random((run, n_atoms, 3), np.float32), 2)
        for first in range(0, n_frames, run):
            value[first : first + run] = frames
    return path


@pytest.mark.parametrize(("suffix", "mebibytes"), each(["dcd", "xtc"], [16, 40]))
def test_memory_with_chunks_of_many_frames(
    small: kn.Trajectory, tmp_path: Path, chunks_of_many_frames: Path, suffix: str, mebibytes: int
) -> None:
    words = [sys.executable, "-W", "ignore", "-c", MEMORY, str(chunks_of_many_frames), small.paths[0]]
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    command = [*words, str(tmp_path / f"a.{suffix}"), f"{mebibytes} MiB"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    # the limit, what h5py takes, and the frames that are read back, which take a chunk more
    assert int(done.stdout) < (mebibytes + 24) << 20, (mebibytes, done.stdout)
