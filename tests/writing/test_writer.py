"""`kn.Writer` of XTC and DCD: values, blocks and single frames, errors, what is left of a file, files that grow."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.model.frame import Block
from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import wanted_kills
from kinema.testing.programs.children import start_child

N_ATOMS = 40
FORMATS = ("xtc", "dcd")
CELL = np.array([[60.0, 0, 0], [5.0, 61.0, 0], [2.0, -3.0, 62.0]])


@pytest.fixture(autouse=True)
def _noted() -> Iterator[list[str]]:
    """Notes of losses are expected here; tests that are about them look at the writer's."""
    with collected() as notes:
        yield notes


def coordinates(frame: int, n_atoms: int = N_ATOMS) -> np.ndarray[Any, Any]:
    """Positions from which frame and atom follow, as XTC holds them exactly enough."""
    return (frame % 97 + np.arange(n_atoms * 3).reshape(n_atoms, 3) % 331 / 10).astype(np.float32)


def write_frames(out: kn.Writer, start: int, stop: int) -> None:
    for i in range(start, stop):
        out.write(coordinates(i), cell=CELL, step=10 * i, time=0.5 * i)


def opened(path: Path | str) -> kn.Trajectory:
    trajectory = kn.open(path, stored=False)
    trajectory.scan()
    return trajectory


def read(path: Path | str) -> Block:
    blocks = list(opened(path).blocks())
    assert len(blocks) == 1
    return blocks[0]


def whole_frames(path: Path | str) -> int:
    """The number of frames; each must be whole and in its place."""
    trajectory = opened(path)
    n = 0
    for block in trajectory.blocks():
        assert block.positions is not None
        for i in range(len(block)):
            np.testing.assert_allclose(block.positions[i], coordinates(n), atol=5.1e-3)
            np.testing.assert_allclose(block.cells[i], CELL, rtol=1e-6, atol=1e-6)
            assert block.steps[i] == 10 * n
            assert block.times[i] == pytest.approx(0.5 * n, rel=1e-6)
            n += 1
    return n


def partials(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.part-*"))


# values


@pytest.mark.parametrize("suffix", FORMATS)
def test_values_are_those_that_mdanalysis_reads(tmp_path: Path, suffix: str) -> None:
    from MDAnalysis.coordinates.DCD import DCDReader
    from MDAnalysis.coordinates.XTC import XTCReader
    from MDAnalysis.lib.mdamath import triclinic_vectors

    path = tmp_path / f"made.{suffix}"
    with kn.Writer(path, N_ATOMS) as out:
        assert out.fields is None
        write_frames(out, 0, 7)
        assert (out.n_frames, out.fields, out.n_flushed) == (7, ("positions",), 0)
    assert whole_frames(path) == 7
    with (XTCReader if suffix == "xtc" else DCDReader)(str(path)) as reader:
        assert len(reader) == 7
        for i, ts in enumerate(reader):
            np.testing.assert_allclose(ts.positions, coordinates(i), atol=5.1e-3 if suffix == "xtc" else 0)
            np.testing.assert_allclose(triclinic_vectors(ts.dimensions), CELL, atol=2e-5)
            assert ts.time == pytest.approx(0.5 * i, rel=1e-6, abs=1e-9)
    assert partials(tmp_path) == []


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("workers", [1, 3])
def test_blocks_frames_and_arrays_give_the_bytes_of_convert(tmp_path: Path, suffix: str, workers: int) -> None:
    write_dcd(tmp_path / "source.dcd", random_walk(30, 500), cell=(50.0, 51.0, 52.0), dt=2.0)
    source = opened(tmp_path / "source.dcd")
    kn.convert(source, tmp_path / f"converted.{suffix}")
    expected = (tmp_path / f"converted.{suffix}").read_bytes()
    made = []
    for name in ("blocks", "frames", "arrays", "runs"):
        path = tmp_path / f"{name}.{suffix}"
        with kn.Writer(path, source.n_atoms, workers=workers) as out:
            for block in source.blocks():
                if name == "blocks":
                    out.write(block)
                elif name == "frames":
                    for frame in block:
                        out.write(frame)
                elif name == "arrays":
                    out.write(block.positions, cell=block.cells, step=block.steps, time=block.times)
                else:
                    for at in range(0, len(block), 4):
                        rows = slice(at, at + 4)
                        out.write(
                            block.positions[rows],  # type: ignore[index]
                            cell=block.cells[rows],
                            step=block.steps[rows],
                            time=block.times[rows],
                        )
                        out.flush()
        made.append(path.read_bytes() == expected)
    assert made == [True] * 4


def test_velocities_and_float64_and_other_numbers(tmp_path: Path) -> None:
    velocities = np.random.default_rng(1).normal(size=(4, N_ATOMS, 3))
    with kn.Writer(tmp_path / "v.dcd", N_ATOMS, fields="velocities") as out:
        out.write(random_walk(4, N_ATOMS), velocities=velocities)
        assert out.fields == ("velocities",)
    assert [loss.partition(": ")[2] for loss in out.losses] == [
        "positions are not written: the file holds velocities",
        "velocities are rounded from float64 to float32",
    ]
    assert out.notes == list(out.losses)
    found = next(iter(opened(tmp_path / "v.dcd").blocks(fields=["velocities"]))).velocities
    np.testing.assert_allclose(found, velocities, rtol=2e-7, atol=0)
    with kn.Writer(tmp_path / "only.dcd", N_ATOMS) as out:
        out.write(velocities=velocities)
    assert (tmp_path / "only.dcd").read_bytes() == (tmp_path / "v.dcd").read_bytes()
    whole = np.arange(3 * N_ATOMS, dtype=">i4").reshape(N_ATOMS, 3)
    with kn.Writer(tmp_path / "whole.dcd", N_ATOMS) as out:
        out.write(whole)
        out.write(np.asfortranarray(whole.astype(np.float32)))
    np.testing.assert_array_equal(read(tmp_path / "whole.dcd").positions, [whole, whole])


def test_precision_of_xtc(tmp_path: Path) -> None:
    positions = np.random.default_rng(2).normal(0, 10, (3, N_ATOMS, 3)).astype(np.float32)
    for precision, error in ((1000, 5e-3), (100_000, 5e-5)):
        path = tmp_path / f"{precision}.xtc"
        with kn.Writer(path, N_ATOMS, precision=precision) as out:
            out.write(positions)
        np.testing.assert_allclose(read(path).positions, positions, atol=error * 1.01 + 1e-5)
        assert np.abs(read(path).positions - positions).max() > error / 4
        with kn.Writer(path, mode="a") as out:
            out.write(positions)
        np.testing.assert_allclose(read(path).positions[3:], positions, atol=error * 1.01 + 1e-5)  # type: ignore[index]
        with pytest.raises(kn.ArgumentError, match=f"precision is that of the frames .* expected {precision}, found 7"):
            kn.Writer(path, mode="a", precision=7)


# steps, times, cells


@pytest.mark.parametrize("suffix", FORMATS)
def test_steps_and_times_go_on_from_the_last_frame(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"on.{suffix}"
    with kn.Writer(path, N_ATOMS) as out:
        out.write(coordinates(0), step=100, time=1.0)
        out.write(coordinates(1), step=150, time=1.5)
        out.write(random_walk(2, N_ATOMS))
    with kn.Writer(path, mode="a") as out:
        out.write(coordinates(4))
    block = read(path)
    assert block.steps.tolist() == [100, 150, 200, 250, 300]
    np.testing.assert_allclose(block.times, [1.0, 1.5, 2.0, 2.5, 3.0], rtol=1e-6)
    assert not block.cells.any()
    bare = tmp_path / f"bare.{suffix}"
    with kn.Writer(bare, N_ATOMS) as out:
        out.write(random_walk(3, N_ATOMS))
    block = read(bare)
    assert block.steps.tolist() == [0, 1, 2]
    assert np.isnan(block.times).all()
    assert any("without a time" in loss for loss in out.losses) == (suffix == "xtc")


def test_a_frame_that_does_not_follow_is_noted_once(tmp_path: Path) -> None:
    with kn.Writer(tmp_path / "odd.dcd", N_ATOMS) as out:
        for i, (step, at) in enumerate([(0, 0.0), (10, 1.0), (20, 2.0), (31, 3.0), (41, 4.5), (51, 5.0)]):
            out.write(coordinates(i), step=step, time=at)
    lost = [loss.partition(": ")[2] for loss in out.losses if "times are rounded" not in loss]
    assert lost == [
        "steps are not kept, a DCD file has evenly spaced ones from which times follow; frame 3 is the first",
        "times are not kept, a DCD file has evenly spaced ones that follow from steps; frame 4 is the first",
    ]
    assert read(tmp_path / "odd.dcd").steps.tolist() == [0, 10, 20, 30, 40, 50]
    with kn.Writer(tmp_path / "one.dcd", N_ATOMS) as out:
        out.write(coordinates(0), step=0, time=3.0)
        out.flush()
        assert not out.losses  # a second frame may come
    assert "steps are not kept" in out.losses[0]
    assert read(tmp_path / "one.dcd").times.tolist() == pytest.approx([3.0], rel=1e-6)


def test_cells(tmp_path: Path) -> None:
    for suffix in FORMATS:
        path = tmp_path / f"cells.{suffix}"
        with kn.Writer(path, N_ATOMS) as out:
            out.write(coordinates(0), cell=[50, 51, 52])
            out.write(coordinates(1))
        assert read(path).present["cells"].tolist() == [True, False]
    with kn.Writer(tmp_path / "turned.dcd", N_ATOMS) as out:
        out.write(coordinates(0), cell=[50, 51, 52])
        out.write(coordinates(1), cell=[[0, 50, 0], [-51, 0, 0], [0, 0, 52]])
    assert any("cells are turned" in loss and loss.endswith("frame 1 is the first") for loss in out.losses)
    np.testing.assert_allclose(read(tmp_path / "turned.dcd").cells[1], np.diag([50, 51, 52]), atol=1e-9)

    def late() -> None:
        with kn.Writer(tmp_path / "late.dcd", N_ATOMS) as out:
            out.write(coordinates(0))
            out.write(coordinates(1), cell=[50, 51, 52])

    with pytest.raises(kn.UnsupportedFormatError, match=r"late\.dcd: DCD frame 1: a cell in a DCD file without cells"):
        late()


# what is refused


def test_frames_that_do_not_fit_are_refused_and_nothing_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.xtc"
    with kn.Writer(path, N_ATOMS) as out:
        with pytest.raises(kn.ArgumentError, match="expected positions, found velocities"):
            out.write(velocities=coordinates(0))
        with pytest.raises(kn.ArgumentError, match=r"shape \(40, 2\), expected \(40, 3\)"):
            out.write(coordinates(0)[:, :2])
        with pytest.raises(kn.UnsupportedFormatError, match="XTC files hold no observables"):
            out.add_observable("energy")
        out.write(coordinates(0), cell=CELL, step=0, time=0.0)
        with pytest.raises(kn.ArgumentError, match="frame 1: the frame lacks positions"):
            out.write(forces=coordinates(0))
        write_frames(out, 1, 3)
        assert out.n_frames == 3
    assert whole_frames(path) == 3
    with pytest.raises(kn.ArgumentError, match="the writer is closed"):
        out.write(coordinates(3))
    with pytest.raises(kn.ArgumentError, match="exists already; overwrite=True replaces it, mode='a' appends"):
        kn.Writer(path, N_ATOMS)


def block_without(rows: list[int]) -> Block:
    present = np.ones(5, dtype=[("positions", bool), ("velocities", bool), ("cells", bool)])
    present["velocities"][rows] = False
    velocities = np.stack([coordinates(i) for i in range(5)])
    velocities[rows] = np.nan
    return Block(
        positions=velocities * 0 + 1,
        velocities=velocities,
        forces=None,
        cells=np.tile(CELL, (5, 1, 1)),
        steps=np.arange(5),
        times=np.arange(5.0),
        frames=np.arange(20, 25, dtype=np.uint64),
        present=present,
        periodic=np.ones((5, 3), bool),
    )


def test_frames_of_a_block_that_lack_a_field_are_named(tmp_path: Path) -> None:
    for name, options in (("a.h5md", {}), ("a.dcd", {"fields": "velocities"})):
        with kn.Writer(tmp_path / name, N_ATOMS, **options) as out:
            with pytest.raises(kn.ArgumentError, match=r"frame 2 of the block \(frame 22 of .*\) has no velocities"):
                out.write(block_without([2, 4]))
            assert out.n_frames == 0
            out.write(block_without([]))
    with kn.Writer(tmp_path / "b.dcd", N_ATOMS) as out:  # it holds positions, which are there
        out.write(block_without([]))
        assert out.n_frames == 5


def test_coordinates_that_are_no_numbers(tmp_path: Path) -> None:
    bad = np.stack([coordinates(i) for i in range(6)])
    bad[4, 7, 1] = np.nan
    with kn.Writer(tmp_path / "a.dcd", N_ATOMS) as out:
        out.write(bad)
    assert any("frame 4 has positions that are not numbers" in note for note in out.notes)
    for name in ("a.trr", "a.nc"):
        with kn.Writer(tmp_path / name, N_ATOMS) as out:
            out.write(bad, velocities=bad[:, ::-1])
        assert any("frame 4 has positions that are not numbers" in note for note in out.notes)
    path = tmp_path / "a.xtc"

    def write() -> None:
        with kn.Writer(path, N_ATOMS) as out:
            for i in range(6):
                out.write(bad[i], cell=CELL, step=10 * i, time=0.5 * i)

    with pytest.raises(
        kn.ArgumentError, match=r"a\.xtc: XTC frame 4: y of atom 8 \(counted from 1\) cannot be stored"
    ) as raised:
        write()
    # those before it are there
    (left,) = partials(tmp_path)
    assert whole_frames(left) == 4
    assert raised.value.__notes__ == [f"4 frames are in {left}, which can be read and renamed"]
    assert not path.exists()


# states of a file


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_exception_in_the_loop_keeps_the_frames_taken(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run.{suffix}"

    def stopped(**options: Any) -> None:
        with kn.Writer(path, N_ATOMS, **options) as out:
            write_frames(out, 0, 5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped(keep_partial=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt) as raised:
        stopped()
    (left,) = partials(tmp_path)
    assert left.suffix == f".{suffix}"
    assert whole_frames(left) == 5
    assert raised.value.__notes__ == [f"5 frames are in {left}, which can be read and renamed"]
    with collected() as notes, kn.Writer(path, N_ATOMS) as out:
        write_frames(out, 0, 2)
    assert any(f"{left.name}: holds what a run has left" in note for note in notes)
    assert (whole_frames(path), whole_frames(left)) == (2, 5)
    with pytest.raises(KeyboardInterrupt):
        stopped(overwrite=True)
    assert whole_frames(path) == 2


@pytest.mark.parametrize("suffix", FORMATS)
def test_flush_abort_and_a_writer_that_is_forgotten(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run.{suffix}"
    out = kn.Writer(path, N_ATOMS)
    write_frames(out, 0, 3)
    out.flush()
    (left,) = partials(tmp_path)
    assert (out.n_flushed, whole_frames(left)) == (3, 3)
    write_frames(out, 3, 5)
    out.flush()
    assert whole_frames(left) == 5
    write_frames(out, 5, 6)
    out.abort()
    out.close()
    assert (whole_frames(left), path.exists()) == (5, False)
    left.unlink()
    out = kn.Writer(path, N_ATOMS)
    write_frames(out, 0, 3)
    with pytest.warns(ResourceWarning, match="was not closed, its file is lost"):
        del out
    assert list(tmp_path.iterdir()) == []
    with kn.Writer(path, N_ATOMS) as out:
        pass
    assert out.notes == [f"{path}: no frame was written, so no file was made"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_goes_on_where_the_file_ends(tmp_path: Path, suffix: str) -> None:
    path, whole = tmp_path / f"grows.{suffix}", tmp_path / f"whole.{suffix}"
    n = 0
    for more in (1, 1, 5, 7, 0, 13):
        with kn.Writer(path, N_ATOMS, mode="a") as out:
            assert out.n_frames == n
            write_frames(out, n, n + more)
        n += more
        assert whole_frames(path) == n
    with kn.Writer(whole, N_ATOMS) as out:
        write_frames(out, 0, n)
    assert path.read_bytes() == whole.read_bytes()
    with kn.Writer.append(path) as out:
        assert out.n_atoms == N_ATOMS
        with pytest.raises(kn.FileAccessError, match="another program has it open for writing"):
            kn.Writer.append(path)
    with pytest.raises(kn.ArgumentError, match="n_atoms=3, the file has 40"):
        kn.Writer(path, 3, mode="a")
    with pytest.raises(kn.FileNotFound, match="no such file to append to"):
        kn.Writer.append(tmp_path / f"none.{suffix}")
    other = {"xtc": "dcd", "dcd": "xtc"}[suffix]
    path.rename(tmp_path / f"wrong.{other}")
    with pytest.raises(kn.UnsupportedFormatError, match=f"the file is {suffix.upper()}"):
        kn.Writer.append(tmp_path / f"wrong.{other}")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_torn_end_is_cut_off(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"torn.{suffix}"
    with kn.Writer(path, N_ATOMS) as out:
        write_frames(out, 0, 6)
    expected = path.read_bytes()
    path.write_bytes(expected[:-7])
    with kn.Writer.append(path) as out:
        assert out.n_frames == 5
        assert any("is cut off" in note for note in out.notes)
        assert any("header says 6 frames" in note for note in out.notes) == (suffix == "dcd")
        write_frames(out, 5, 6)
    assert path.read_bytes() == expected


def test_layouts_that_are_not_written_are_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "big.dcd"
    write_dcd(path, random_walk(4, N_ATOMS), byte_order=">")
    before = path.read_bytes()
    with pytest.raises(kn.UnsupportedFormatError, match=r"big\.dcd: DCD: .* it is big-endian"):
        kn.Writer.append(path)
    assert path.read_bytes() == before
    write_dcd(path, random_walk(4, N_ATOMS))
    with pytest.raises(kn.ArgumentError, match="one field in all frames, expected positions, found velocities"):
        kn.Writer.append(path, fields="velocities")


@pytest.mark.parametrize("mode", ["w", "a"])
def test_the_index_is_that_of_a_scan(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "indexed.xtc"
    with kn.Writer(path, N_ATOMS, mode=mode) as out:
        write_frames(out, 0, 100)
    if mode == "a":
        with kn.Writer(path, N_ATOMS, mode="a") as out:
            write_frames(out, 100, 150)
    stored = tmp_path / ".indexed.xtc.kinema-index"
    made = stored.read_bytes()
    trajectory = kn.open(path)
    trajectory.scan()
    assert trajectory.parts[0].index == "stored"
    stored.unlink()
    kn.open(path).scan()
    assert stored.read_bytes() == made


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_full_disk_keeps_what_was_flushed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"full.{suffix}"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill() -> None:
        with kn.Writer(path, N_ATOMS, mode="a") as out:
            for i in range(10_000):
                write_frames(out, i, i + 1)
                out.flush()

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_001, hard))
        with pytest.raises(kn.FileIOError, match=rf"full\.{suffix}: .* cannot write"):
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


# killed processes

WORKER = """
import sys
import numpy as np
import kinema as kn
from kinema.base.notes import collected

path, n_atoms, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cell = np.array([[60.0, 0, 0], [5.0, 61.0, 0], [2.0, -3.0, 62.0]])
with collected(), kn.Writer(path, n_atoms, mode="a") as out:
    print("start", out.n_frames, flush=True)
    i = out.n_frames
    while True:
        for i in range(i, i + batch):
            positions = (i % 97 + np.arange(n_atoms * 3).reshape(n_atoms, 3) % 331 / 10).astype(np.float32)
            out.write(positions, cell=cell, step=10 * i, time=0.5 * i)
        i += 1
        print("flush", i, flush=True)
        out.flush()
        print("flushed", out.n_flushed, flush=True)
"""


@pytest.mark.processes
@pytest.mark.parametrize("suffix", FORMATS)
def test_killed_processes(tmp_path: Path, suffix: str) -> None:
    path, chance = tmp_path / f"killed.{suffix}", random.Random(suffix)
    package = str(Path(kn.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    frames = 0
    for _ in range(wanted_kills(2)):
        words = [sys.executable, "-c", WORKER, str(path), str(N_ATOMS), str(chance.choice([1, 3, 8]))]
        worker = start_child(words, env=environment, stderr=None)
        assert worker.stdout is not None
        # a later process continues after all frames of the process before
        assert worker.stdout.readline().split() == ["start", str(frames)]
        flushes, reported = chance.randrange(1, 40), frames
        for line in worker.stdout:
            word, number = line.split()
            reported = int(number) if word == "flushed" else reported
            flushes -= word == "flush"
            if flushes == 0:
                break
        time.sleep(chance.uniform(0, chance.choice([0.002, 0.02])))
        worker.send_signal(signal.SIGKILL)
        # what has been read ahead may end within a line: the rest comes from the same reader
        rest = worker.stdout.read()
        worker.wait(120)
        assert worker.returncode == -signal.SIGKILL
        for word, number in (line.split() for line in rest.splitlines(keepends=True) if line.endswith("\n")):
            reported = int(number) if word == "flushed" else reported
        frames = whole_frames(path) if path.exists() else 0
        assert frames >= reported
    with kn.Writer(path, N_ATOMS, mode="a") as out:
        write_frames(out, frames, frames + 5)
    with kn.Writer(tmp_path / f"whole.{suffix}", N_ATOMS) as out:
        write_frames(out, 0, frames + 5)
    assert path.read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()


def test_rounding_within_a_bound_is_a_loss(tmp_path):
    path = tmp_path / "rounded.h5md"
    positions = random_walk(3, 5)
    lost = f"{path}: positions are rounded, none by more than 0.01 nm"
    with collected() as notes:
        with kn.Writer(path, 5, compression="gzip", max_error=0.01, unit="nm") as out:
            for frame in positions:
                out.write(frame)
        assert out.losses == (lost,)
        with kn.Writer.append(path) as more:
            more.write(positions[0])
        assert more.losses == (lost,)
        with kn.Writer(tmp_path / "exact.h5md", 5, compression="gzip") as exact:
            exact.write(positions)
        assert exact.losses == ()
    assert lost in notes
