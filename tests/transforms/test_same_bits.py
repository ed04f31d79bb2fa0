"""The same bits after every transform: on all runners and numbers of workers, together and alone, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from tests.transforms.lifting import lifted

import kinema as kn
from kinema import transforms
from kinema.base.notes import collected
from kinema.runners import Dask, Runner
from kinema.runners.registry import choose_runner
from kinema.testing.amounts import LONG, each
from kinema.testing.runner_work import assert_same

N_FRAMES, N_MOLECULES, SIZE = 2500, 12, 5
N_ATOMS = N_MOLECULES * SIZE
CELL = np.array([[21.0, 0, 0], [5, 19, 0], [-6, 7, 17]])
SOME = list(range(3, 40, 2))
BONDS = np.array([[i, i + 1] for i in range(N_ATOMS - 1) if (i + 1) % SIZE])


@pytest.fixture(autouse=True)
def noted() -> Iterator[None]:
    with collected():
        yield


def stack(name: str, **options: Any) -> list[transforms.Transform]:
    """By a name, as ranks of another process know it; passes over all frames have these options of `kinema.run`."""
    whole = transforms.whole(bonds=BONDS)
    match name.split():
        case ["wrap", compound, ur]:
            return [whole, transforms.wrap(compound=compound, ur=ur, weights=None, bonds=BONDS)]
        case ["all"]:
            first = transforms.cluster(SOME, bonds=BONDS)
            wrap = transforms.wrap(compound="molecules", ur="compact", weights=None, bonds=BONDS)
            fit = transforms.superpose(SOME)
            nojump = transforms.nojump(first=first, **options)
            return [lifting(), whole, nojump, transforms.center(SOME), wrap, fit]
    made = {
        "whole": [whole],
        "cluster": [whole, transforms.cluster(SOME, bonds=BONDS)],
        "center": [transforms.center(SOME)],
        "superpose": [transforms.superpose(SOME)],
        "trans": [transforms.superpose(SOME, mode="trans")],
        "progressive": [whole, transforms.superpose(SOME, reference="previous", **options)],
        "nojump": [transforms.nojump(**options)],
        "displacement": [whole, transforms.displacement(**options)],
        "function": [lifting()],
    }
    return made[name]


def lifting() -> transforms.Transform:
    return transforms.function(lifted, [5, 6, 50])


NAMES = ["whole", "cluster", "center", "superpose", "trans", "function", "progressive", "nojump", "displacement"]
NAMES += [f"wrap {compound} {ur}" for compound in ("atoms", "molecules") for ur in ("rect", "tric", "compact")]
ALL_NAMES = (*NAMES, "all")


def molecules() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions of molecules that walk, each atom in the cell, and the cells."""
    rng = np.random.default_rng(3)
    steps = rng.normal(0, 0.6, (N_FRAMES, N_MOLECULES, 1, 3))
    steps[0] += rng.uniform(0, 20, (N_MOLECULES, 1, 3))
    shapes = np.cumsum(rng.normal(0, 1.0, (N_MOLECULES, SIZE, 3)), axis=1)
    positions = (np.cumsum(steps, axis=0) + shapes).reshape(N_FRAMES, N_ATOMS, 3)
    positions += rng.normal(0, 0.1, positions.shape)
    cells = CELL * (1 + 0.02 * np.sin(np.arange(N_FRAMES) / 50))[:, None, None]
    reduced = np.einsum("fax,fxc->fac", positions, np.linalg.inv(cells))
    return np.einsum("fax,fxc->fac", reduced - np.floor(reduced), cells), cells


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bits")
    with kn.Writer(made / "walk.trr", N_ATOMS) as out:
        for frame, (positions, cell) in enumerate(zip(*molecules(), strict=True)):
            out.write(positions, cell=cell, time=float(frame))
    return made


def changed(folder: Path, name: str, **options: Any) -> kn.Trajectory:
    return kn.open(folder / "walk.trr", stored=False).with_transform(*stack(name, **options))


def analyses(folder: Path, name: str, **options: Any) -> list[Any]:
    """Three that need other atoms each."""
    traj = changed(folder, name, **options)
    return [kn.RMSD(traj, [0, 7, 8, 9]), kn.RMSF(traj, [33, 2, 50]), kn.RadiusOfGyration(traj, SOME, weights=None)]


def digest(analysis: Any) -> str:
    """The digest of all result arrays of an analysis."""
    found = sha256()
    for name in sorted(analysis.results):
        array = np.asarray(analysis.results[name])
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


WORKERS = (1, 2, 3, 7)


def names_on(workers: int) -> list[str]:
    """The stacks that this number of workers computes, a share of them; a file after all is converted besides."""
    return [name for name, number in each(ALL_NAMES, WORKERS) if number == workers]


def digests(
    folder: Path, out: Path, runner: Runner, workers: int, wanted: int | None, share: int | None = None
) -> dict[str, Any]:
    """Digests of stacks on a runner, by name, and of a converted file; `share`: if not that of `workers`."""
    options = {"runner": runner, "workers": wanted}
    found: dict[str, Any] = {}
    for name in names_on(share or workers):
        made = kn.run(analyses(folder, name, **options), **options)
        assert [len(one.workers) for one in made[0].timings.passes] == [workers], name
        found[name] = [digest(one) for one in made]
    out = out / f"{workers}.xtc"
    kn.convert(changed(folder, "all", **options)[:400], out, **options)
    found["file"] = sha256(out.read_bytes()).hexdigest()
    return found


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, list[Any]]:
    with collected():
        return {name: [one.run(runner="serial") for one in analyses(folder, name)] for name in ALL_NAMES}


@pytest.fixture(scope="module")
def expected(folder: Path, tmp_path_factory: pytest.TempPathFactory, alone: dict[str, list[Any]]) -> dict[str, Any]:
    """The same as `digests`, of each analysis alone on one thread of this process."""
    out = tmp_path_factory.mktemp("serial") / "out.xtc"
    with collected():
        kn.convert(changed(folder, "all", runner="serial")[:400], out, runner="serial")
    found: dict[str, Any] = {name: [digest(one) for one in made] for name, made in alone.items()}
    return found | {"file": sha256(out.read_bytes()).hexdigest()}


def expected_on(workers: int, expected: dict[str, Any]) -> dict[str, Any]:
    return {name: expected[name] for name in (*names_on(workers), "file")}


def assert_all_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected) == 3
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_what_is_done_is_something(alone: dict[str, list[Any]], expected: dict[str, Any]) -> None:
    """Superpositions and centres change no radius; all else gives other numbers than all others."""
    radii = {name: np.asarray(found[2].results.values).tobytes() for name, found in alone.items()}
    rmsf = {name: np.asarray(found[1].results.values).tobytes() for name, found in alone.items()}
    assert len(set(radii.values())) >= 10 and len(set(rmsf.values())) >= 13
    # so do their digests
    assert len({tuple(expected[name]) for name in ALL_NAMES}) >= 13


MEMORY = {1: "64 MiB", 2: None, 3: "96 MiB", 7: None}


@pytest.mark.parametrize("name", ALL_NAMES)
def test_on_threads(folder: Path, alone: dict[str, list[Any]], name: str) -> None:
    for workers, memory in MEMORY.items() if LONG else [(2, "64 MiB"), (7, None)]:
        assert_all_same(kn.run(analyses(folder, name), runner="threads", workers=workers, memory=memory), alone[name])


@pytest.mark.processes
def test_on_processes(folder: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    runner = choose_runner("processes")
    with runner.session():
        for workers in reversed(WORKERS):
            assert digests(folder, tmp_path, runner, workers, workers) == expected_on(workers, expected)


@pytest.mark.processes
def test_on_dask(folder: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    from distributed import Client, LocalCluster

    # two processes that run seven tasks at a time
    options = {"dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    with (
        LocalCluster(n_workers=2, threads_per_worker=4, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        for workers in WORKERS:
            runner = Dask(client)
            assert digests(folder, tmp_path, runner, workers, workers) == expected_on(workers, expected)


# ranks, and whose share they compute; five stay for other tests
RANKS_AND_SHARES = ((1, 1), (2, 2), (3, 3), (5, 7))
RANKS = """
sys.path.insert(0, ROOT)
import json
from pathlib import Path
from kinema.base.notes import collected
from kinema.runners.registry import choose_runner
from tests.transforms.test_same_bits import digests
with collected():
    size, runner = MPI.COMM_WORLD.Get_size(), choose_runner("mpi", results="all")
    found = MPI.COMM_WORLD.gather(digests(Path(FOLDER), Path("."), runner, size, None, SHARE))
if rank == 0:
    say(json.dumps(found))
"""


@pytest.mark.processes
@pytest.mark.parametrize(("n_ranks", "share"), RANKS_AND_SHARES)
def test_on_ranks(mpi: Any, folder: Path, tmp_path: Path, expected: dict[str, Any], n_ranks: int, share: int) -> None:
    root = Path(__file__).parent.parent.parent
    out = mpi.compute(n_ranks, f"ROOT, FOLDER, SHARE = {str(root)!r}, {str(folder)!r}, {share}\n{RANKS}", tmp_path)
    assert json.loads(out) == [expected_on(share, expected)] * n_ranks


@pytest.mark.parametrize("name", ALL_NAMES)
def test_read_blocks_and_frames(folder: Path, name: str) -> None:
    traj = changed(folder, name)
    every = traj.read(workers=1)
    assert np.abs(every - kn.open(folder / "walk.trr", stored=False).read()).max() > 0.05
    assert_array_equal(np.concatenate([block.positions for block in traj.blocks("18 MiB")]), every)
    assert_array_equal([frame.positions for frame in traj[1990:2010]], every[1990:2010])
    for workers in (2, 3, 7) if LONG else (7,):
        assert_array_equal(traj.read(workers=workers), every)
    frames, atoms = [2499, 0, 1300, 0], [58, 3, 4, 3]
    assert_array_equal(traj.read(frames, atoms), every[frames][:, atoms])
    assert_array_equal(traj[7::500].read(dtype="float64"), every[7::500])


# of HDF5 the values are compared: the library writes times of its own
@pytest.mark.parametrize("ending", ["xtc", "trr", "dcd", "nc", "h5md", "history"])
def test_converted_files_are_byte_identical(folder: Path, tmp_path: Path, ending: str) -> None:
    made = changed(folder, "all")[:400]
    found = {}
    counts = WORKERS if LONG else (1, 3)
    for workers in counts:
        out = tmp_path / f"{workers}" / f"out.{ending}"
        out.parent.mkdir()
        kn.convert(made, out, workers=workers)
        found[workers] = kn.open(out, stored=False).read() if ending == "h5md" else sha256(out.read_bytes()).hexdigest()
    for workers in counts[1:]:
        assert_array_equal(found[workers], found[1])
    accuracy = {"xtc": 0.0051, "history": 1e-4}.get(ending, 2e-5)
    assert np.abs(kn.open(out, stored=False).read() - made.read()).max() < accuracy
