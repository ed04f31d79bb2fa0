"""Stored knowledge of files, keeper by keeper: index, checkpoint, snapshot, verdicts, chunk map."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.execution.checkpoint import Checkpoint
from kinema.model.selection import readable_frames as readable
from kinema.model.selection.frames import FrameSelection
from kinema.model.snapshot import TrajectorySnapshot
from kinema.storage.hdf5 import chunks
from kinema.storage.hdf5.chunk_maps import FEWEST_CHUNKS
from kinema.testing import KeeperTests, random_walk, rewrite_middle, write_dcd, write_xtc
from kinema.testing.h5md_files import write_small_chunks
from kinema.testing.keepers import settle

N_FRAMES, N_ATOMS = 60, 2000


@pytest.fixture(params=["xtc", "dcd"])
def ending(request: Any) -> str:
    return str(request.param)


class TestIndex(KeeperTests):
    """A stored index is used, or rebuilt."""

    knows_copies = True

    def make(self, folder: Path) -> Path:
        write_xtc(folder / "a.xtc", random_walk(N_FRAMES, N_ATOMS))
        return folder / "a.xtc"

    def keep(self, path: Path) -> None:
        kn.open(path).scan()

    def is_known(self, path: Path) -> bool:
        return kn.open(path).parts[0].index == "stored"


class TestIndexOfTheCacheFolder(TestIndex):
    """The same if nothing can be stored beside the file."""

    @pytest.fixture(autouse=True)
    def nothing_beside(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from kinema.trajectory import opening

        write = opening.write_index

        def write_elsewhere(path: str, data: bytes) -> str | None:
            if path.endswith(".xtc.kinema-index"):
                raise kn.errors.FileAccessError(f"{path}: not here", path=path)
            return write(path, data)

        monkeypatch.setattr(opening, "write_index", write_elsewhere)


class TestAtomCheckpoints(KeeperTests):
    """Places within frames at which decoding can start: used of this very file, or not at all."""

    knows_copies = False

    def make(self, folder: Path) -> Path:
        write_xtc(folder / "a.xtc", random_walk(N_FRAMES // 8, 8 * N_ATOMS))
        return folder / "a.xtc"

    def keep(self, path: Path) -> None:
        kn.open(path).store_atom_checkpoints()

    def is_known(self, path: Path) -> bool:
        return kn.open(path).parts[0].atom_checkpoints is not None


class TestCheckpoint(KeeperTests):
    """A finished run is taken as it is, or refused."""

    knows_copies = True

    def make(self, folder: Path) -> Path:
        # more than what a checkpoint samples
        write_dcd(folder / "a.dcd", random_walk(N_FRAMES, 8 * N_ATOMS))
        return folder / "a.dcd"

    def keep(self, path: Path) -> None:
        path.with_name("ck").unlink(missing_ok=True)
        kn.run([kn.analysis.RMSD(kn.open(path))], checkpoint=Checkpoint(path.with_name("ck"), keep=True))

    def is_known(self, path: Path) -> bool:
        try:
            kn.run([kn.analysis.RMSD(kn.open(path))], checkpoint=Checkpoint(path.with_name("ck"), keep=True))
        except ArgumentError as error:
            assert "file 1 of 1, expected" in str(error)
            return False
        return True


class TestSmallCheckpoint(TestCheckpoint):
    """A checkpoint of a file that is hashed whole: bytes that are restored are recognised."""

    def make(self, folder: Path) -> Path:
        write_dcd(folder / "a.dcd", random_walk(N_FRAMES, N_ATOMS))
        return folder / "a.dcd"

    def test_the_middle_was_rewritten_twice(self, kept: Path) -> None:
        with kept.open("r+b") as file:
            file.seek(100_000)
            byte = file.read(1)
            for one in (bytes([byte[0] ^ 1]), byte):
                file.seek(100_000)
                file.write(one)
                file.flush()
                assert self.is_known(kept) == (one == byte)

    def test_another_mode_is_looked_into_and_what_is_kept_anew_holds(self, kept: Path) -> None:
        kept.chmod(0o640)
        assert self.is_known(kept)


class TestSnapshot(KeeperTests):
    """A worker reads the file that was opened, or refuses another."""

    knows_copies = True
    snapshot: tuple[TrajectorySnapshot, Any]

    def make(self, folder: Path) -> Path:
        write_dcd(folder / "a.dcd", random_walk(N_FRAMES, N_ATOMS))
        return folder / "a.dcd"

    def keep(self, path: Path) -> None:
        traj = kn.open(path)
        traj.scan()
        self.snapshot = TrajectorySnapshot.take(traj.core)

    def is_known(self, path: Path) -> bool:
        of_worker, data = self.snapshot
        try:
            of_worker.open(data).read(FrameSelection(range(1)))
        except CorruptFileError as error:
            assert "has changed since it was opened" in str(error)
            return False
        return True


class TestVerdicts(KeeperTests):
    """Frames are decoded once, or again."""

    @pytest.fixture(autouse=True)
    def decoded(self, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
        self.ending, self.numbers = ending, 0
        decode = readable._decode

        def counted(core: _core.Trajectory, frames: FrameSelection, *more: Any) -> None:
            self.numbers += len(frames)
            decode(core, frames, *more)

        monkeypatch.setattr(readable, "_decode", counted)

    def make(self, folder: Path) -> Path:
        path = folder / f"a.{self.ending}"
        {"dcd": write_dcd, "xtc": write_xtc}[self.ending](path, random_walk(N_FRAMES, N_ATOMS))
        return path

    def keep(self, path: Path) -> None:
        traj = kn.open(path)
        traj.scan(skip_damaged=True)
        readable.decode_frames(traj.core, FrameSelection(range(traj.n_frames)))

    def is_known(self, path: Path) -> bool:
        self.numbers = 0
        self.keep(path)
        return self.numbers == 0


class TestChunkMap(KeeperTests):
    """Chunks are walked through once, or again."""

    libver = "earliest"

    @pytest.fixture(autouse=True)
    def walked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.walks = 0
        walk = chunks._walked

        def counted(*arguments: Any) -> Any:
            self.walks += 1
            return walk(*arguments)

        monkeypatch.setattr(chunks, "_walked", counted)

    def make(self, folder: Path) -> Path:
        return write_small_chunks(folder / "a.h5md", FEWEST_CHUNKS, libver=self.libver)

    def keep(self, path: Path) -> None:
        kn.open(path)

    def is_known(self, path: Path) -> bool:
        """Whether the chunk map of the coordinates is known; steps and times are in few chunks."""
        self.walks = 0
        try:
            kn.open(path)
        except CorruptFileError:
            return False  # of what was rewritten libhdf5 may say that itself
        return self.walks == 0


class TestChunkMapOfNewFormat(TestChunkMap):
    """The same with the chunk index of libhdf5 1.10 and later."""

    libver = "latest"


def test_a_rewritten_middle_gives_other_numbers_and_not_those_of_before(tmp_path: Path) -> None:
    path = write_small_chunks(tmp_path / "a.h5md", FEWEST_CHUNKS)
    before = kn.open(path).read()
    np.testing.assert_array_equal(kn.open(path).read(), before)
    # a whole new file of the same size in its place, byte for byte elsewhere
    with h5py.File(path, "r+") as file:
        file["particles/all/position/value"][FEWEST_CHUNKS // 2] += 1
    after = kn.open(path).read()
    assert after.tobytes() == kn.open(path, stored=False).read().tobytes() != before.tobytes()


def test_the_word_of_before_is_refused_with_the_new_one(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(3, 4))
    with pytest.raises(ArgumentError, match="stored=False"):
        kn.open(tmp_path / "a.dcd", index="memory")
    with pytest.raises(ArgumentError, match="give one of them"):
        kn.open(tmp_path / "a.dcd", index="rebuild", stored=False)


def test_an_identity_survives_its_bytes_and_other_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(os.urandom(300_000))
    one = _core.FileIdentity.of(str(path))
    data = one.to_bytes()
    assert _core.FileIdentity.from_bytes(data).is_unchanged(_core.FileIdentity.of(str(path)))
    assert one.size == 300_000 and len(one.fingerprint) == 16
    for wrong in (b"", data[:-1], data + b"\0", b"\xff" * len(data)):
        with pytest.raises(ArgumentError, match="not the identity of a file"):
            _core.FileIdentity.from_bytes(wrong)
    rewrite_middle(path)
    now = _core.FileIdentity.of(str(path))
    assert not one.is_unchanged(now)
    assert "changed in place" in str(one.difference(now))
    assert one.fingerprint == now.fingerprint


def test_a_source_of_a_virtual_data_set_counts_as_the_file_itself(tmp_path: Path) -> None:
    source, virtual = tmp_path / "source.h5", tmp_path / "virtual.h5"
    shape = (400, 100, 3)
    with h5py.File(source, "w") as file:
        file["x"] = random_walk(*shape[:2])
    with h5py.File(virtual, "w") as file:
        layout = h5py.VirtualLayout(shape, "f4")
        layout[:] = h5py.VirtualSource(source.name, "x", shape)
        file.create_virtual_dataset("x", layout)
    settle(source)
    settle(virtual)

    def opened() -> kn.Trajectory:
        return kn.open(virtual, dataset="x", units={"length": "nm"})

    def run() -> None:
        kn.run([kn.analysis.RMSD(opened())], checkpoint=Checkpoint(tmp_path / "ck", keep=True))

    run()
    run()
    traj = opened()
    traj.scan()
    of_worker, data = TrajectorySnapshot.take(traj.core)
    frames = FrameSelection(range(400))
    np.testing.assert_array_equal(of_worker.open(data).read(frames)["positions"], traj.read())
    rewrite_middle(source)
    with pytest.raises(ArgumentError, match="a file that it takes values from was changed"):
        run()
    with pytest.raises(CorruptFileError, match=r"source.h5: .*the file has changed since it was opened.* in place"):
        of_worker.open(data).read(frames)


def test_an_index_of_ranges_belongs_to_the_file_before_they_were_scanned(tmp_path: Path) -> None:
    """As ranks scan large files: one asks for the ranges, all scan, one stores."""
    path = tmp_path / "a.xtc"
    write_xtc(path, random_walk(N_FRAMES, N_ATOMS))
    core = kn.open(path).core
    ((part, start, stop),) = core.unindexed()
    ranges = [core.scan_range(part, start, stop)]
    rewrite_middle(path)
    core.add_scanned_ranges(part, ranges)
    core.scan()
    assert kn.open(path).parts[0].index == "built"
    assert kn.open(path).parts[0].index == "stored"
