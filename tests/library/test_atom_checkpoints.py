"""Atom checkpoints: made on demand, used by who opens the file afterwards, and not once it has changed."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.programs.imports import lazy

MDAnalysisTests = lazy("MDAnalysisTests")

N_FRAMES, N_ATOMS = 8, 10_000
END = np.arange(N_ATOMS - 50, N_ATOMS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    name = tmp_path / "large.xtc"
    write_xtc(name, random_walk(N_FRAMES, N_ATOMS))
    return name


@pytest.fixture
def stored(path: Path) -> Path:
    """Where the checkpoints of `path` are."""
    ((name, number, note),) = kn.open(path).store_atom_checkpoints(workers=2)
    assert number == N_FRAMES * 2 and note is None
    return Path(name)


def bytes_read(path: Path, atoms: np.ndarray) -> int:
    traj = kn.open(path)
    core = type(traj.core)(**(traj.core.recipe() | {"record_reads": True}))
    core.scan()
    core.take_reads()
    core.read(traj.choose(), atoms=atoms.astype(np.uint32), workers=1)
    return sum(length for _, _, length in core.take_reads())


def test_atoms_at_the_end_are_read_without_those_before_them_with_the_same_bits(path: Path) -> None:
    before = bytes_read(path, END)
    ((name, _, _),) = kn.open(path).store_atom_checkpoints()
    assert kn.open(path).parts[0].atom_checkpoints == 4096
    assert bytes_read(path, END) < before / 2
    assert stat.S_IMODE(os.stat(Path(name).parent).st_mode) == 0o700
    for atoms in (END, np.r_[0:5, END], np.arange(0, N_ATOMS, 3), np.array([5000, 4096, 4095])):
        plain = kn.open(path, stored=False).read(select=atoms)
        assert np.array_equal(kn.open(path).read(select=atoms), plain)


@pytest.mark.parametrize("name", ["adk_oplsaa.xtc", "analysis/YiiP_lipids.xtc"])
def test_files_of_gromacs_have_the_same_bits_for_any_atoms(name: str, tmp_path: Path) -> None:
    path = tmp_path / "real.xtc"
    shutil.copyfile(Path(MDAnalysisTests.__file__).parent / "data" / name, path)
    whole = kn.open(path).read()
    kn.open(path).store_atom_checkpoints()
    traj = kn.open(path)
    assert traj.parts[0].atom_checkpoints == 4096
    random = np.random.default_rng(3)
    for _ in range(60):
        kind, first = random.integers(3), random.integers(traj.n_atoms)
        atoms = {
            0: random.choice(traj.n_atoms, random.integers(1, 40), replace=False),
            1: np.arange(first, min(first + random.integers(1, 3000), traj.n_atoms)),
            2: np.flatnonzero(random.random(traj.n_atoms) < random.choice([0.01, 0.3])),
        }[int(kind)]
        assert np.array_equal(traj.read(select=atoms), whole[:, atoms])


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_runners_give_the_same_bits_with_and_without(path: Path, runner: str) -> None:
    traj = kn.open(path)
    plain = kn.analysis.RMSD(traj, select=END).run(runner="serial").results.rmsd
    traj.store_atom_checkpoints()
    found = kn.analysis.RMSD(kn.open(path), select=END).run(runner=runner, workers=2).results.rmsd
    assert np.array_equal(plain, found)


def test_other_processes_get_them_with_the_index(path: Path, stored: Path) -> None:
    traj = kn.open(path)
    traj.scan()
    copy = pickle.loads(pickle.dumps(traj))
    stored.unlink()
    assert copy.parts[0].atom_checkpoints == 4096
    assert np.array_equal(copy.read(select=END), kn.open(path, stored=False).read(select=END))
    assert kn.open(path).parts[0].atom_checkpoints is None


def test_no_read_makes_them(path: Path) -> None:
    kn.open(path).read(select=END)
    assert kn.open(path).parts[0].atom_checkpoints is None
    assert not (Path(os.environ["XDG_CACHE_HOME"]) / "kinema" / "atoms").exists()


def test_a_file_that_has_grown_gets_new_ones_on_demand(path: Path, stored: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)
    traj = kn.open(path)
    assert traj.parts[0].atom_checkpoints is None and traj.n_frames == 2 * N_FRAMES
    ((_, number, _),) = traj.store_atom_checkpoints()
    assert number == 4 * N_FRAMES and kn.open(path).parts[0].atom_checkpoints == 4096


def test_damaged_stored_checkpoints_are_not_used(path: Path, stored: Path) -> None:
    plain = kn.open(path, stored=False).read(select=END)
    whole = stored.read_bytes()
    for at in (0, 9, 30, 100, len(whole) // 2, len(whole) - 1):
        stored.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        traj = kn.open(path)
        assert traj.parts[0].atom_checkpoints is None and "not used" in (traj.parts[0].index_note or "")
        assert np.array_equal(traj.read(select=END), plain)
    stored.write_bytes(whole)
    assert kn.open(path).parts[0].atom_checkpoints == 4096
    assert kn.open(path, index="rebuild").parts[0].atom_checkpoints is None


def test_what_has_no_use_for_them_says_so(tmp_path: Path) -> None:
    write_xtc(tmp_path / "small.xtc", random_walk(3, 400))
    write_dcd(tmp_path / "a.dcd", random_walk(3, 9000))
    for name in ("small.xtc", "a.dcd"):
        assert kn.open(tmp_path / name).store_atom_checkpoints() == [None]
    with pytest.raises(kn.ArgumentError, match="stored=False"):
        kn.open(tmp_path / "small.xtc", stored=False).store_atom_checkpoints()
