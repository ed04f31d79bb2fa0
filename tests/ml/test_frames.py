"""`kinema.ml.FrameDataset`: frames of each format, many trajectories, labels, pairs and weights, against `read`."""

from __future__ import annotations

import pickle
import resource
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.base import errors
from kinema.base.notes import collected
from kinema.ml import Batch, FrameDataset
from kinema.ml.pairs import equal_runs
from kinema.ml.processes import file_pool, replace_pool
from kinema.model.atom_table import Atoms

N = 23
SUFFIXES = [".xtc", ".trr", ".nc", ".ncdf", ".dcd", ".h5md", ".history"]
VECTORS = {".trr", ".nc", ".ncdf", ".h5md", ".history"}


def write(path: Path, n_frames: int = N, n_atoms: int = 9, seed: int = 1, first: int = 0, **options: Any) -> Path:
    """Frames 2 ps and 10 steps apart, from frame `first` of the simulation on."""
    random = np.random.default_rng(seed)
    kind = {".ncdf": {"netcdf4": True}}.get(path.suffix, {})
    with collected(), kn.Writer(path, n_atoms, **kind, **options) as out:
        for i in range(first, first + n_frames):
            vectors = {"positions": random.uniform(0, 40, (n_atoms, 3)).astype(np.float32)}
            if path.suffix in VECTORS:
                vectors["velocities"] = random.uniform(-1, 1, (n_atoms, 3)).astype(np.float32)
                vectors["forces"] = random.uniform(-9, 9, (n_atoms, 3)).astype(np.float32)
            out.write(**vectors, cell=np.diag([40.0, 41, 42]), step=10 * i, time=2.0 * i)
    return path


@pytest.fixture
def pool() -> Iterator[_core.FilePool]:
    before, recording = file_pool(), _core.FilePool(2000, record_reads=True)
    replace_pool(recording)
    yield recording
    replace_pool(before)


IDS = np.array([22, 3, 3, 4, -1, 0, 17, 5, 3])


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batches_are_what_read_gives(tmp_path: Path, suffix: str, dtype: str) -> None:
    traj = kn.open(write(tmp_path / f"a{suffix}"))
    fields = ["positions", "velocities", "forces"] if suffix in VECTORS else ["positions"]
    for select in (None, [7, 2, 2, 0, 8]):
        expected = traj.read(select=select, fields=fields, dtype=dtype)
        frames = FrameDataset(traj, select, fields, dtype=dtype)
        assert len(frames) == N and not frames.is_ragged
        for workers in (1, 3):
            batch = frames.read(IDS, workers=workers)
            for name in fields:
                assert batch[name].dtype == dtype
                np.testing.assert_array_equal(batch[name], expected[name][IDS])
            np.testing.assert_array_equal(batch["cell"], expected["cells"][IDS])
            np.testing.assert_array_equal(batch["step"], expected["steps"][IDS])
            np.testing.assert_array_equal(batch["time"], expected["times"][IDS])
        one = frames[4]
        np.testing.assert_array_equal(one["positions"], expected["positions"][4])
        assert frames.read([]).n_samples == 0


def test_views_parts_and_files_that_mdanalysis_reads(tmp_path: Path) -> None:
    parts = [write(tmp_path / "a.xtc", 12), write(tmp_path / "b.xtc", 9, seed=2, first=12)]
    traj = kn.open(parts)
    view = traj[18:2:-3]
    frames = FrameDataset([view, traj])
    assert frames.bounds.tolist() == [0, len(view), len(view) + 21]
    ids = np.array([0, 5, 3, len(view) + 20, 1, 1])
    whole = np.concatenate([view.read(), traj.read()])
    np.testing.assert_array_equal(frames.read(ids)["positions"], whole[ids])
    with collected():
        kn.convert(parts[0], tmp_path / "a.pdb", topology=Atoms(9, names=["C"] * 9))
        pdb = kn.open(tmp_path / "a.pdb")
    np.testing.assert_array_equal(FrameDataset(pdb).read([3, 1, 3])["positions"], pdb.read([3, 1, 3]))


def test_systems_of_different_size_are_ragged(tmp_path: Path) -> None:
    sizes = [5, 9, 1]
    trajectories = []
    for n, (size, suffix) in enumerate(zip(sizes, (".xtc", ".h5md", ".dcd"), strict=True)):
        atoms = Atoms(size, elements=["C", "H", "O"] * 3 if size == 9 else ["N"] * size)
        path = write(tmp_path / f"{n}{suffix}", 6 + n, size, seed=n)
        trajectories.append(kn.open(path, topology=atoms))
    frames = FrameDataset(trajectories)
    assert frames.is_ragged and len(frames) == 21
    ids = np.array([20, 0, 8, 8, 13, 5, 1])
    batch = frames.read(ids)
    system, own = np.array([2, 0, 1, 1, 2, 0, 0]), np.array([7, 0, 2, 2, 0, 5, 1])
    expected = [trajectories[t].read([i])[0] for t, i in zip(system, own, strict=True)]
    np.testing.assert_array_equal(batch["positions"], np.concatenate(expected))
    counts = np.array(sizes)[system]
    np.testing.assert_array_equal(batch["ptr"], np.concatenate([[0], np.cumsum(counts)]))
    np.testing.assert_array_equal(batch["batch"], np.repeat(np.arange(7), counts))
    numbers = {5: [7] * 5, 9: [6, 1, 8] * 3, 1: [7]}
    np.testing.assert_array_equal(batch["atomic_numbers"], np.concatenate([numbers[n] for n in counts]))
    assert frames[8]["positions"].shape == (9, 3) and frames[8]["cell"].shape == (3, 3)
    # one by one, as torch's fetcher takes them, each is what it is alone
    for one, number in zip(frames.__getitems__(ids.tolist()), ids, strict=True):
        alone = frames[number]
        assert list(one) == list(alone)
        for name, values in one.items():
            np.testing.assert_array_equal(values, alone[name])
    # the same buffers hold a smaller batch
    again = frames.read([20, 19], out=batch)
    assert again["positions"].shape == (2, 3)
    with pytest.raises(errors.ArgumentError, match="1 to 9 atoms"):
        FrameDataset(trajectories, ragged=False)
    same = FrameDataset(trajectories, select=[0], fields=["positions", "atomic_numbers"])
    assert not same.is_ragged and same.read([0, 6])["atomic_numbers"].tolist() == [[7], [6]]
    with pytest.raises(errors.ArgumentError, match="elements of its atoms are not known"):
        FrameDataset(kn.open(tmp_path / "0.xtc"), fields=["positions", "atomic_numbers"])


def test_labels_are_joined_by_step(tmp_path: Path) -> None:
    traj = kn.open(write(tmp_path / "a.xtc"))
    steps = traj.steps
    shuffled = np.random.default_rng(3).permutation(np.concatenate([steps, steps + 1]))
    table = {"step": shuffled, "energy": shuffled * 0.5, "virial": np.outer(shuffled, [1, 2, 3])}
    frames = FrameDataset(traj, fields=["positions", "energy", "virial"], labels=table)
    batch = frames.read([9, 2, 2])
    np.testing.assert_array_equal(batch["energy"], steps[[9, 2, 2]] * 0.5)
    np.testing.assert_array_equal(batch["virial"], np.outer(steps[[9, 2, 2]], [1, 2, 3]))
    (tmp_path / "e.csv").write_text("# made by hand\nstep,energy\n" + "".join(f"{s},{s + 0.25}\n" for s in steps))
    from_file = FrameDataset(traj, fields=["energy"], labels=tmp_path / "e.csv")
    np.testing.assert_array_equal(from_file.read([4])["energy"], steps[[4]] + 0.25)
    assert from_file.label_units == {"energy": None}
    few = {"step": steps[::2], "energy": steps[::2] * 2}
    with pytest.raises(errors.ArgumentError, match="11 of 23 frames have no value of energy, the first at step 10"):
        FrameDataset(traj, fields=["energy"], labels=few)
    with pytest.warns(kn.Note, match="11 of 23 frames"):
        dropped = FrameDataset(traj, fields=["positions", "energy"], labels=few, missing="drop")
    batch = dropped.read([0, 1, 11])
    assert len(dropped) == 12 and batch["step"].tolist() == [0, 20, 220] and batch["energy"].tolist() == [0, 40, 440]
    np.testing.assert_array_equal(batch["positions"], traj.read([0, 2, 22]))
    with pytest.raises(errors.ArgumentError, match="there is no label energy, only none"):
        FrameDataset(traj, fields=["energy"])
    with pytest.raises(errors.ArgumentError, match="step 10 is there twice with different values"):
        FrameDataset(traj, fields=["e"], labels={"step": [0, 10, 10], "e": [1.0, 2, 3]})


@pytest.mark.parametrize("is_file", [True, False])
def test_labels_keep_the_units_of_their_table(tmp_path: Path, is_file: bool) -> None:
    traj = kn.open(write(tmp_path / "a.xtc"))
    names = ["step", "energy (eV)", "d (nm)", "d (angstrom)", "E (total)", "x (2)", "plain"]
    columns = {name: np.arange(len(traj.steps)) + 0.5 * n for n, name in enumerate(names)} | {"step": traj.steps}
    labels: Any = columns
    if is_file:
        rows = "".join(",".join(str(columns[name][i]) for name in names) + "\n" for i in range(len(traj.steps)))
        (tmp_path / "e.csv").write_text(",".join(names) + "\n" + rows)
        labels = tmp_path / "e.csv"
    asked = ["energy", "energy (eV)", "d (nm)", "E (total)", "x (2)", "plain"]
    frames = FrameDataset(traj, fields=asked, labels=labels)
    assert frames.label_units == {
        "energy": "eV", "energy (eV)": "eV", "d (nm)": "nm", "E (total)": None, "x (2)": None, "plain": None,
    }  # fmt: skip
    batch = frames.read([4, 2])
    np.testing.assert_array_equal(batch["energy"], columns["energy (eV)"][[4, 2]])
    np.testing.assert_array_equal(batch["d (nm)"], columns["d (nm)"][[4, 2]])
    with pytest.raises(errors.ArgumentError, match=r"label d may be d \(nm\) or d \(angstrom\)"):
        FrameDataset(traj, fields=["d"], labels=labels)
    with pytest.raises(errors.ArgumentError, match="there is no label E, only step, energy"):
        FrameDataset(traj, fields=["E"], labels=labels)
    other = {"step": traj.steps, "energy (kJ/mol)": columns["plain"]}
    with pytest.raises(errors.ArgumentError, match=r"label energy has values in different units: .*eV"):
        FrameDataset([traj, traj], fields=["energy"], labels=[labels, other])


def test_observables_of_h5md_are_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md")
    with h5py.File(path, "a") as file:
        group = file.create_group("observables/potential_energy")
        # in another order of rows than the frames, and at more steps
        group["step"] = np.arange(0, 230, 5)
        group["value"] = np.arange(0, 230, 5) * -1.5
        file["observables/charge"] = 3.0
    frames = FrameDataset(path, fields=["forces", "potential_energy", "charge"])
    batch = frames.read([3, 22])
    assert batch["potential_energy"].tolist() == [-45, -330] and batch["charge"].tolist() == [3, 3]
    np.testing.assert_array_equal(batch["forces"], kn.open(path).read([3, 22], fields="forces"))


class TestPairs:
    def test_pairs_are_a_lag_apart(self, tmp_path: Path) -> None:
        traj = kn.open(write(tmp_path / "a.xtc"))
        everything = traj.read()
        frames = FrameDataset(traj, lag=6.0)
        assert len(frames) == N - 3
        batch = frames.read(np.arange(N - 3))
        np.testing.assert_array_equal(batch["positions"], everything[:-3])
        np.testing.assert_array_equal(batch["positions_lagged"], everything[3:])
        np.testing.assert_array_equal(batch["time_lagged"] - batch["time"], 6.0)
        for lag in (3.0, 0.5):
            with pytest.raises(errors.ArgumentError, match="lag must be a multiple of the 2 ps between frames"):
                FrameDataset(traj, lag=lag)
        with pytest.raises(errors.ArgumentError, match="above 0 ps"):
            FrameDataset(traj, lag=-2)
        with pytest.raises(errors.ArgumentError, match="no two frames are 200 ps apart"):
            FrameDataset(traj, lag=200)

    def test_pairs_never_cross_parts_gaps_or_trajectories(self, tmp_path: Path) -> None:
        # parts that join without a gap, and one after a gap
        paths = [
            write(tmp_path / "a.xtc", 10),
            write(tmp_path / "b.xtc", 6, seed=2, first=10),
            write(tmp_path / "c.xtc", 5, seed=3, first=40),
        ]
        with collected():
            traj = kn.open(paths)
            frames = FrameDataset([traj, write(tmp_path / "d.dcd", 4, seed=4), traj[::2]], lag=4.0)
        first, last = frames.times
        np.testing.assert_allclose(last - first, 4.0, rtol=1e-6)
        # frames 8 and 9 of the first part have no partner, nor have the last ones of others
        starts = [*range(8), 10, 11, 12, 13, 16, 17, 18]
        assert frames.bounds.tolist()[:3] == [0, len(starts), len(starts) + 2]
        batch = frames.read(np.arange(len(starts)))
        everything = traj.read()
        np.testing.assert_array_equal(batch["positions"], everything[starts])
        np.testing.assert_array_equal(batch["positions_lagged"], everything[np.array(starts) + 2])
        view = frames.read(np.arange(len(starts) + 2, len(frames)))
        np.testing.assert_array_equal(view["positions_lagged"], everything[[2, 4, 6, 8, 12, 14, 18, 20]])

    def test_a_hole_within_a_file_interrupts(self) -> None:
        times = np.array([0.0, 1, 2, 3, 7, 8, 9, 8.5, 9.5, 10.5])
        assert equal_runs(times, np.array([2])) == [(0, 2), (2, 4), (4, 7), (7, 10)]
        assert equal_runs(np.array([0.0, 100, 101, 102]), np.array([])) == [(0, 1), (1, 4)]
        assert equal_runs(np.arange(5, dtype=np.float64), np.array([0, 5])) == [(0, 5)]
        assert equal_runs(np.zeros(0), np.array([])) == []

    def test_labels_and_ragged_pairs(self, tmp_path: Path) -> None:
        trajectories = [kn.open(write(tmp_path / f"{n}.xtc", 6, n, seed=n)) for n in (3, 5)]
        tables = [{"step": traj.steps, "e": traj.steps + 1000.0 * n} for n, traj in enumerate(trajectories)]
        frames = FrameDataset(trajectories, fields=["positions", "e"], labels=tables, lag=2)
        batch = frames.read([9, 0, 5])
        assert batch["e"].tolist() == [1040, 0, 1000] and batch["e_lagged"].tolist() == [1050, 10, 1010]
        np.testing.assert_array_equal(batch["ptr"], [0, 5, 8, 13])
        expected = [trajectories[1][5].positions, trajectories[0][1].positions, trajectories[1][1].positions]
        np.testing.assert_array_equal(batch["positions_lagged"], np.concatenate(expected))
        for one, number in zip(frames.__getitems__([9, 0, 5]), [9, 0, 5], strict=True):
            np.testing.assert_array_equal(one["positions_lagged"], frames[number]["positions_lagged"])
        without = FrameDataset(trajectories, transform=lambda batch: batch.drop("ptr"))
        with pytest.raises(errors.ArgumentError, match="single samples need ptr"):
            without[0]


def test_weights_mix_trajectories(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.dcd", n, seed=n) for n in (4, 16)]
    frames = FrameDataset(paths, weights=[3, 1])
    np.testing.assert_allclose(frames.weights, [3 / 16] * 4 + [1 / 64] * 16)
    drawn = frames.draw(4000, seed=5)
    assert 0.72 < (drawn < 4).mean() < 0.78 and len(np.unique(drawn)) == 20
    np.testing.assert_array_equal(drawn, frames.draw(4000, seed=5))
    np.testing.assert_allclose(FrameDataset(paths).weights, np.full(20, 1 / 20))
    with pytest.raises(errors.ArgumentError, match="weights are 2 numbers"):
        FrameDataset(paths, weights=[1, -1])


def test_a_transform_and_a_pickle(tmp_path: Path) -> None:
    traj = kn.open(write(tmp_path / "a.trr"))
    frames = FrameDataset(traj, [3, 1], transform=centred)
    expected = traj.read(select=[3, 1])
    expected = expected - expected.mean(axis=1, keepdims=True)
    frames.read([1])
    other = pickle.loads(pickle.dumps(frames))
    for one in (frames, other):
        np.testing.assert_array_equal(one.read([4, 2])["positions"], expected[[4, 2]])


def centred(batch: Batch) -> None:
    batch["positions"][...] -= batch["positions"].mean(axis=1, keepdims=True)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_permuted_neighbours_read_what_sorted_ones_do(tmp_path: Path, pool: _core.FilePool, suffix: str) -> None:
    frames = FrameDataset([write(tmp_path / f"{n}{suffix}", seed=n) for n in range(2)])
    ids = np.concatenate([np.arange(3, 12), np.arange(30, 38)])
    frames.read(ids, workers=1)
    pool.take_reads()
    frames.read(ids, workers=1)
    extents = pool.take_reads()
    assert 2 <= len(extents) <= 6 if suffix != ".ncdf" else extents
    for seed in range(2):
        frames.read(np.random.default_rng(seed).permutation(ids), workers=1)
        assert pool.take_reads() == extents


def test_many_trajectories_share_open_files(tmp_path: Path, pool: _core.FilePool) -> None:
    trajectories = [kn.open(write(tmp_path / f"{n:02}.dcd", 4, 3, seed=n)) for n in range(40)]
    expected = np.concatenate([traj.read() for traj in trajectories])
    frames = FrameDataset(trajectories)
    pool.take_opens()
    for ids in np.random.default_rng(0).permutation(160).reshape(-1, 10):
        np.testing.assert_array_equal(frames.read(ids)["positions"], expected[ids])
    opens = pool.take_opens()
    assert len(opens) == len(set(opens)) == 40


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")
def test_more_trajectories_than_files_may_be_open(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n:03}.dcd", 2, 3, seed=n) for n in range(90)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    before, small = file_pool(), _core.FilePool(20)
    replace_pool(small)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 60, limits[1]))
    try:
        frames = FrameDataset(paths)
        ids = np.random.default_rng(0).permutation(180)
        batch = frames.read(ids)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        replace_pool(before)
    np.testing.assert_array_equal(batch["positions"], np.concatenate([kn.open(path).read() for path in paths])[ids])


def test_explain_says_what_compressed_chunks_cost(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", 64, 50, layout=(16, 50, 3), compression="gzip")
    frames = FrameDataset(path)
    assert frames.chunk_samples == 16
    few = frames.plan(np.arange(0, 64, 16))
    assert few.decoded == 16 * few.useful
    said = frames.explain(4)
    assert "16 samples are decoded together" in said and "windows of 16 samples: " in said
    plain = FrameDataset(write(tmp_path / "b.h5md", 64, 50, layout=(1, 50, 3)))
    assert plain.chunk_samples == 1 and "decoded together" not in plain.explain(4)


@pytest.mark.parametrize("workers", [1, 3])
def test_no_chunk_is_read_twice_for_a_batch(tmp_path: Path, pool: _core.FilePool, workers: int) -> None:
    path = write(tmp_path / "a.h5md", 64, 50, layout=(16, 50, 3), compression="gzip")
    frames = FrameDataset([path, write(tmp_path / "b.h5md", 40, 50, layout=(8, 50, 3), compression="gzip")])
    ids = np.random.default_rng(3).integers(0, 104, 300)
    frames.read([0, 64])  # opens both
    pool.take_reads()
    batch = frames.read(ids, workers=workers)
    extents = sorted(pool.take_reads())
    for (one, begin, length), (other, after, _) in pairwise(extents):
        assert one != other or begin + length <= after
    whole = np.concatenate([kn.open(path).read(), kn.open(tmp_path / "b.h5md").read()])
    np.testing.assert_array_equal(batch["positions"], whole[ids])
