"""`kn.convert(..., "x.h5md", runner=)`: chunks that workers make are committed with the bytes that threads give."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")

pytestmark = pytest.mark.processes

N_ATOMS, N_FRAMES = 400, 230
STORED: list[dict[str, Any]] = [
    {"chunk_bytes": 20_000},
    {"chunk_bytes": 20_000, "compression": "zstd", "max_error": 0.01},
    {"layout": (7, 150, 3), "compression": "gzip"},
    {"layout": "atoms", "compression": "bitshuffle-zstd"},
    {"layout": (500, 400, 3), "compression": "lz4"},
    {"layout": "contiguous"},
]
NETCDF4 = {"netcdf4": True, "chunk_bytes": 20_000, "compression": "zstd"}


class Stop(Exception):
    """Ends a call."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with what threads make, and the source."""
    folder = tmp_path_factory.mktemp("h5md")
    source = str(folder / "in.dcd")
    write_dcd(source, random_walk(N_FRAMES, N_ATOMS))
    # notes in the provenance have the name of the file as it was given
    with contextlib.chdir(folder):
        for number, options in enumerate(STORED):
            kn.convert(source, f"{number}.h5md", **options)
        kn.convert(source, "4.nc", **NETCDF4)
    return folder, source


# every storage with every strategy by processes; some by the others
@pytest.mark.parametrize(
    ("name", "workers", "storages"),
    [("serial", 1, [0, 3]), ("processes", 2, range(len(STORED))), ("processes", 5, [1, 4]), ("dask", 2, [2])],
)
def test_same_bytes(
    files: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    workers: int,
    storages: Sequence[int],
) -> None:
    folder, source = files
    monkeypatch.chdir(tmp_path)
    runner = kn.runners.choose_runner(name)
    with runner.session():
        for strategy in ("gather", "serial"):
            how = {"runner": runner, "workers": workers, "strategy": strategy, "overwrite": True}
            for number in storages:
                done = kn.convert(source, f"{number}.h5md", verify="all", **how, **STORED[number])
                assert (done.compared, done.workers) == (N_FRAMES, workers)
                assert _content(Path(f"{number}.h5md")) == _content(folder / f"{number}.h5md"), number
            if name != "serial":
                kn.convert(source, "4.nc", **how, **NETCDF4)
                assert _content(Path("4.nc")) == _content(folder / "4.nc")


@pytest.mark.parametrize(("n_ranks", "storages"), [(2, [0, 3]), (3, [1, 2])])
def test_ranks(mpi: Any, files: tuple[Path, str], tmp_path: Path, n_ranks: int, storages: list[int]) -> None:
    folder, source = files
    text = f"""
for number, options in {[(number, STORED[number]) for number in storages]!r}:
    for strategy in ("gather", "serial"):
        kn.convert({source!r}, f"{{number}}.h5md", runner="mpi", strategy=strategy, **options)
        if rank == 0:
            os.rename(f"{{number}}.h5md", f"{{strategy}}{{number}}.h5md")
    kn.convert({source!r}, f"subfiles{{number}}.h5md", runner="mpi", strategy="subfiles", verify="all", **options)
"""
    mpi.compute(n_ranks, text, tmp_path)
    for number in storages:
        expected = folder / f"{number}.h5md"
        for strategy in ("gather", "serial"):
            assert _content(tmp_path / f"{strategy}{number}.h5md") == _content(expected)
        _same_values(tmp_path / f"subfiles{number}.h5md", expected)
        assert len(list((tmp_path / f"subfiles{number}.h5md.d").iterdir())) == n_ranks


def test_subfiles(files: tuple[Path, str], tmp_path: Path) -> None:
    _, source = files
    out = tmp_path / "made.h5md"
    for workers in (1, 3):
        done = kn.convert(
            source, out, runner="processes", workers=workers, strategy="subfiles", overwrite=True, dialect="mdanalysis"
        )
        parts = list((tmp_path / "made.h5md.d").iterdir())
        assert len(parts) == workers, "those that the file before was on top of are gone"
        assert done.size == sum(path.stat().st_size for path in [out, *parts])
    universe = MDAnalysis.Universe.empty(N_ATOMS, trajectory=True)
    universe.load_new(str(out))
    expected = kn.open(source)
    for frame in (0, 100, N_FRAMES - 1):
        assert np.array_equal(universe.trajectory[frame].positions, expected[frame].positions)
    universe.trajectory.close()
    parts[0].unlink()
    with pytest.raises(kn.errors.FileNotFound, match="is missing, from which virtual data set"):
        kn.open(out, stored=False)[0]
    with pytest.raises(kn.ArgumentError, match="has no checkpoint"):
        kn.convert(source, tmp_path / "no.h5md", runner="serial", strategy="subfiles", checkpoint=tmp_path / "c")
    assert not (tmp_path / "no.h5md").exists()


@pytest.mark.parametrize("number", [0, 1])
def test_checkpoint_goes_on_by_other_workers(files: tuple[Path, str], tmp_path: Path, number: int) -> None:
    folder, source = files
    call = {"checkpoint": tmp_path / "c", "checkpoint_interval": 0.0, **STORED[number]}

    def stop(done: int, total: int) -> None:
        if done > total // 3:
            raise Stop

    with pytest.raises(Stop):
        kn.convert(source, tmp_path / "made.h5md", runner="processes", workers=2, progress=stop, **call)
    done = kn.convert(source, tmp_path / "made.h5md", runner="serial", verify="all", **call)
    assert 0 < done.n_restored < N_FRAMES
    _same_values(tmp_path / "made.h5md", folder / f"{number}.h5md")


def test_what_workers_find_is_raised(files: tuple[Path, str], tmp_path: Path) -> None:
    _, source = files
    made = Path(source).read_bytes()
    damaged = tmp_path / "in.dcd"
    damaged.write_bytes(made[: len(made) // 2])
    trajectory = kn.open(damaged, stored=False)
    trajectory.scan()
    damaged.write_bytes(made[: len(made) // 4])
    with pytest.raises(kn.errors.Error):
        kn.convert(trajectory, tmp_path / "made.h5md", runner="processes", workers=2, verify=False)
    assert [path.name for path in tmp_path.iterdir()] == ["in.dcd"]


def _content(path: Path) -> bytes:
    """The bytes of a file; without the times that libhdf5 before 2.0 stores with each group, and their checksums."""
    content = bytearray(path.read_bytes())
    if h5py.version.hdf5_version_tuple >= (2,):
        return bytes(content)
    n_times = 0
    at = content.find(b"OHDR")
    while at >= 0:
        version, flags = content[at + 4 : at + 6]
        if version == 2 and flags & 0x20:
            n_times += 1
            after_times = at + 6 + 16
            # the bounds of attributes, then the size of the messages, which their checksum follows
            size_at = after_times + (4 if flags & 0x10 else 0)
            messages_at = size_at + (1 << (flags & 3))
            end = messages_at + int.from_bytes(content[size_at:messages_at], "little")
            content[at + 6 : after_times] = bytes(16)
            content[end : end + 4] = bytes(4)
        at = content.find(b"OHDR", at + 4)
    assert n_times
    return bytes(content)


def _same_values(path: Path, expected: Path) -> None:
    with h5py.File(path) as one, h5py.File(expected) as other:
        name = "particles/trajectory/position/value"
        assert np.array_equal(one[name][()], other[name][()])
    one_, other_ = kn.open(path, stored=False), kn.open(expected, stored=False)
    assert np.array_equal(one_.steps, other_.steps)
    assert np.array_equal(one_.times, other_.times)
