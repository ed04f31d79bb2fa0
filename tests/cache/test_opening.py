"""`kn.open(node_cache=)`: the same bits on every format and runner, each byte once from the source, what is said."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.serialisation import serialize
from kinema.cache import CacheCounts, NodeCache
from kinema.cache.blocks import amplification, chosen_block, explain_blocks
from kinema.cache.counts import add_counts, counts_of_all, take_counts
from kinema.cache.trajectories import not_covered
from kinema.testing import (
    random_walk,
    rewrite_middle,
    write_dcd,
    write_h5md,
    write_history,
    write_netcdf,
    write_trr,
    write_xtc,
)
from kinema.testing.synthetic import synthetic

FRAMES, ATOMS = 300, 150
BLOCK = 64 << 10


def write_hdf5(path: Path, positions: Any) -> None:
    write_h5md(path, synthetic(*positions.shape[:2]), chunks=(4, positions.shape[1], 3), compression="gzip")


FORMATS: dict[str, Callable[..., Any]] = {
    "xtc": write_xtc,
    "trr": write_trr,
    "dcd": write_dcd,
    "nc": write_netcdf,
    "h5md": write_hdf5,
    "history": write_history,
}


def cache_in(folder: Path, **options: Any) -> NodeCache:
    return NodeCache(folder / "node", **({"limit": "1 GiB", "block": BLOCK} | options))


@pytest.fixture(params=list(FORMATS))
def path(request: Any, tmp_path: Path) -> Path:
    made = tmp_path / f"HISTORY.{request.param}" if request.param == "history" else tmp_path / f"a.{request.param}"
    FORMATS[request.param](made, random_walk(FRAMES, ATOMS))
    return made


def everything(path: Any, **options: Any) -> dict[str, bytes]:
    arrays = kn.open(path, stored=False, **options).read(fields=["positions"], workers=2)
    return {name: values.tobytes() for name, values in arrays.items()}


def test_the_same_bits_and_each_byte_once(path: Path, tmp_path: Path, counted: Any) -> None:
    expected, size = everything(path), path.stat().st_size
    cold = everything(path, node_cache=cache_in(tmp_path))
    found = counted()
    assert cold == expected
    # of HDF5 files the structure is read by h5py
    assert 0.5 * size < found.bytes_source <= size
    assert found.misses and found.source_reads and not found.errors
    assert everything(path, node_cache=cache_in(tmp_path)) == expected
    again = counted()
    assert (again.bytes_source, again.misses, again.source_reads) == (0, 0, 0)
    assert again.hits and again.bytes_saved == again.bytes_read == again.bytes_hit > 0


def test_parts_and_a_folder_as_the_cache(tmp_path: Path, counted: Any) -> None:
    names = []
    for number in range(3):
        names.append(tmp_path / f"{number}.xtc")
        write_xtc(names[-1], random_walk(40, ATOMS, seed=number), first_step=40 * number)
    expected = everything(names)
    assert everything(names, node_cache=tmp_path / "node") == expected
    assert counted().bytes_source == sum(name.stat().st_size for name in names)
    # views, frames one by one, blocks, and a pickle of it
    traj = kn.open(names, stored=False, node_cache=str(tmp_path / "node"))
    one = np.stack([frame.positions for frame in traj[5:100:7]])
    sent = pickle.loads(pickle.dumps(traj))
    np.testing.assert_array_equal(one, sent.read(slice(5, 100, 7)))
    assert one.tobytes() in [traj.read(slice(5, 100, 7)).tobytes()]
    assert counted().bytes_source == 0


def test_a_source_that_changes_is_found_when_it_is_opened(path: Path, tmp_path: Path, counted: Any) -> None:
    before = everything(path, node_cache=cache_in(tmp_path))
    other = tmp_path / "other"
    kind = path.suffix.lstrip(".")
    if kind == "h5md":
        write_h5md(other, synthetic(FRAMES, ATOMS, seed=9), chunks=(4, ATOMS, 3), compression="gzip")
    else:
        FORMATS[kind](other, random_walk(FRAMES, ATOMS, seed=9))
    times = path.stat()
    data = bytearray(other.read_bytes())
    # of the same size, if the format allows it, with the time restored
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    counted()
    found = everything(path, node_cache=cache_in(tmp_path))
    assert found == everything(path) != before
    # of HDF5 files without their structure
    assert len(data) // 2 < counted().bytes_source <= len(data)


def test_the_middle_was_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(FRAMES, ATOMS))
    before = everything(path, node_cache=cache_in(tmp_path))
    rewrite_middle(path)
    assert everything(path, node_cache=cache_in(tmp_path)) == everything(path) != before


def test_a_limit_below_the_size_of_the_file(tmp_path: Path, counted: Any) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(1200, ATOMS))
    expected = everything(path)
    for _ in range(2):
        # another each time: what one has open is closed a second after it was evicted
        small = cache_in(tmp_path, limit=600_000)
        assert path.stat().st_size > 3 * small.limit
        assert everything(path, node_cache=small) == expected
        found = counted()
        assert found.evicted and found.bytes_source > 0
        assert small.stat()["bytes"] <= small.limit


@pytest.mark.parametrize("verify", ["never", "first", "always"])
def test_a_damaged_block_is_fetched_again(tmp_path: Path, counted: Any, verify: str) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(FRAMES, ATOMS))
    expected = everything(path, node_cache=cache_in(tmp_path))
    blocks = [one for one in (tmp_path / "node").rglob("*") if one.is_file() and one.stat().st_size > BLOCK]
    data = bytearray(blocks[0].read_bytes())
    data[1000] ^= 1
    blocks[0].write_bytes(data)
    cache = cache_in(tmp_path, verify=verify)
    if verify != "never":
        counted()
        assert everything(path, node_cache=cache) == expected
        assert (found := counted()).corrupt == found.refetched == 1
        assert "1 block damaged and removed, 1 fetched again" in str(found)
        assert cache.verify_all() == []
    else:
        assert [one[0] for one in cache.verify_all()] == [str(path)]
        assert everything(path, node_cache=cache) == expected


# -- runners -----------------------------------------------------------------------------------------------------------


def rmsf(path: Path, cache: NodeCache | None, **options: Any) -> Any:
    traj = kn.open(path, stored=False, node_cache=cache)
    return kn.analysis.RMSF(traj, align="average").run(**options)


@pytest.mark.parametrize("runner", ["serial", "threads"])
def test_runs_and_their_records(tmp_path: Path, runner: str) -> None:
    path = tmp_path / "a.xtc"
    write_xtc(path, random_walk(FRAMES, ATOMS))
    expected = rmsf(path, None, runner=runner)
    assert expected.record.node_cache is None and "node cache" not in expected.record.plan
    cache, before = cache_in(tmp_path), counts_of_all()
    cold = rmsf(path, cache, runner=runner)
    assert (counts_of_all() - before).bytes_source == path.stat().st_size
    warm = rmsf(path, cache, runner=runner)
    for run in (cold, warm):
        assert run.results.rmsf.tobytes() == expected.results.rmsf.tobytes()
        assert f"node cache: {cache.root}, blocks of {BLOCK} bytes" in run.record.plan
    # the first block was fetched when the file was opened
    assert cold.record.node_cache.bytes_source == path.stat().st_size - BLOCK
    assert warm.record.node_cache.bytes_source == 0 < warm.record.node_cache.bytes_saved
    report = warm.report()
    assert report.as_dict()["run"]["node_cache"] == warm.record.node_cache.as_dict()
    assert f"node cache: {warm.record.node_cache}" in str(report)
    report.save(tmp_path / "report.json")
    assert str(type(report).load(tmp_path / "report.json")) == str(report)


@pytest.fixture(params=["processes", "dask"])
def runner(request: pytest.FixtureRequest) -> Iterator[Any]:
    """For several runs; Dask's workers are the same in all of them."""
    if request.param != "dask":
        yield request.param
        return
    from distributed import Client, LocalCluster

    from kinema.runners import Dask

    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield Dask(client)


@pytest.mark.processes
def test_workers_share_the_cache_and_their_counts_are_summed(tmp_path: Path, runner: Any) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(2000, ATOMS))
    expected = rmsf(path, None)
    cache = cache_in(tmp_path)
    before = counts_of_all()
    cold = rmsf(path, cache, runner=runner, workers=3)
    assert cold.results.rmsf.tobytes() == expected.results.rmsf.tobytes()
    assert cold.timings.n_workers == 3
    # three cold processes: each byte leaves the source once, whoever asked first
    assert (counts_of_all() - before).bytes_source == path.stat().st_size
    assert cold.record.node_cache.bytes_source == path.stat().st_size - BLOCK
    # two rounds of all atoms
    assert cold.record.node_cache.bytes_read >= 2 * 12 * ATOMS * 2000
    warm = rmsf(path, cache, runner=runner, workers=2)
    assert (warm.record.node_cache.bytes_source, warm.record.node_cache.misses) == (0, 0)
    assert warm.record.node_cache.hits
    # functions that workers call
    target = tmp_path / "b.xtc"
    before = counts_of_all()
    kn.convert(kn.open(path, stored=False, node_cache=cache), target, runner=runner, workers=2)
    assert (counts_of_all() - before).bytes_read >= 12 * ATOMS * 2000
    assert (counts_of_all() - before).bytes_source == 0
    assert len(kn.open(target)) == 2000


MPI_PROGRAM = """
from kinema.cache import NodeCache
cache = NodeCache("node", limit="1 GiB", block=64 << 10)
run = kn.analysis.RMSF(kn.open("a.dcd", stored=False, node_cache=cache), align="average").run(runner="mpi")
if rank == 0:
    found = run.record.node_cache
    np.save("mpi.npy", run.results.rmsf)
    say(run.timings.n_workers, found.bytes_source, found.bytes_read)
"""


@pytest.mark.processes
def test_ranks_share_the_cache(tmp_path: Path, mpi: Any) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(2000, ATOMS))
    expected = rmsf(path, None).results.rmsf
    workers, source, read = map(int, mpi.script(3, MPI_PROGRAM, tmp_path).split())
    # all ranks run the script, and open it: which of them fetches the first block is open
    assert workers == 3 and path.stat().st_size - BLOCK <= source <= path.stat().st_size
    assert read >= 2 * 12 * ATOMS * 2000
    assert np.load(tmp_path / "mpi.npy").tobytes() == expected.tobytes()


FORKED = """
import os, sys, kinema as kn
from kinema.cache.counts import counts_of_all
traj = kn.open(sys.argv[1], stored=False, node_cache=sys.argv[2])
before = traj.read().tobytes()
assert counts_of_all().bytes_source > 0
child = os.fork()
if child == 0:
    same = traj.read().tobytes() == before
    found = counts_of_all()
    os._exit(0 if same and found.bytes_source == 0 and found.hits else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_counts_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(FRAMES, ATOMS))
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parents[1])}
    words = [sys.executable, "-c", FORKED, str(path), str(tmp_path / "node")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


class PartRead:
    """The bytes of some frames, as workers make them for a file."""

    def __init__(self, traj: kn.Trajectory) -> None:
        self.traj = traj

    def __call__(self, frames: list[int]) -> tuple[bytes, None]:
        return self.traj.read(frames).tobytes(), None


def test_bytes_that_another_worker_describes_bring_the_counts_of_their_maker(tmp_path: Path) -> None:
    from kinema.runners.calls import CalledFunction
    from kinema.runners.dask.ordered import describe_bytes, make_bytes

    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(FRAMES, ATOMS))
    function = CalledFunction.from_function(PartRead(kn.open(path, stored=False, node_cache=cache_in(tmp_path))))
    take_counts()
    made = make_bytes(function, (0, serialize([3, 7])))
    # this process stands for the other worker, too, which has read nothing
    assert take_counts() is None
    described = describe_bytes(function, 0, pickle.loads(pickle.dumps(made)))
    assert isinstance(described, tuple)
    n_bytes, _, sent = described
    assert sent is not None
    assert n_bytes == 2 * 12 * ATOMS <= sent.counts.bytes_read


def test_counts_of_other_processes_are_added_once() -> None:
    before = counts_of_all()
    add_counts(take_counts())
    add_counts(None)
    assert counts_of_all() == before
    other = CacheCounts(hits=3, bytes_read=100, bytes_source=40)
    from kinema.cache.counts import SentCounts

    add_counts(SentCounts("another", other))
    assert counts_of_all() - before == other
    assert (other.bytes_saved, bool(other), bool(CacheCounts())) == (60, True, False)
    # of processes that fetch and others that read, the sum counts
    assert (other + CacheCounts(bytes_read=0, bytes_source=100)).bytes_saved == 0


# -- what is said ------------------------------------------------------------------------------------------------------


def test_what_it_does_not_cover(tmp_path: Path) -> None:
    hdf5, xyz = tmp_path / "a.h5md", tmp_path / "a.xyz"
    write_hdf5(hdf5, random_walk(20, 10))
    traj = kn.open(hdf5, stored=False, node_cache=cache_in(tmp_path))
    assert traj.n_frames == 20
    assert "h5py reads the structure" in " ".join(not_covered(traj.core))
    assert "MPI-IO reads the files themselves" in not_covered(traj.core, "MPI-IO")[0]
    xyz.write_text("2\na\nC 0 0 0\nC 1 0 0\n" * 3)
    with pytest.warns(kn.Note, match=r"a\.xyz: is read by MDAnalysis, from the file itself: the node cache"):
        external = kn.open(xyz, node_cache=cache_in(tmp_path))
    assert "MDAnalysis reads it" in not_covered(external.core)[0]
    plain = tmp_path / "a.dcd"
    write_dcd(plain, random_walk(20, 10))
    traj = kn.open(plain, node_cache=cache_in(tmp_path))
    traj.scan()
    assert not_covered(traj.core) == []


def test_amplification_of_small_reads() -> None:
    # all of it: nothing is fetched that is not used
    assert amplification(1000, 1 << 24) == 1
    # so few that each has a block of its own: that block, and where it lies across a border both
    assert amplification(1 << 16, 1 << 20, 1e-9) == pytest.approx(17, rel=1e-6)
    assert 7.9 < amplification(69_528, 16 << 20, 1 / 8) <= 8
    # beside a draw of samples: blocks that they touch
    random, unit, block, n = np.random.default_rng(1), 69_528, 1 << 20, 8000
    for share in (0.5, 0.1, 0.01):
        drawn = np.flatnonzero(random.random(n) < share)
        touched = set((drawn * unit) // block) | set((drawn * unit + unit - 1) // block)
        assert len(touched) * block / (len(drawn) * unit) == pytest.approx(amplification(unit, block, share), rel=0.1)


@pytest.mark.parametrize("unit", [1, 100, 69_528, 1 << 20, 5 << 20, 20 << 20])
def test_the_block_that_is_chosen(unit: int) -> None:
    block = chosen_block(unit)
    assert block % (64 << 10) == 0 and (256 << 10) <= block <= (16 << 20)
    # of neighbours nothing is fetched for nothing
    assert block >= min(16 << 20, 16 * unit) - unit
    few = chosen_block(unit, coverage=1 / 64)
    assert few <= block
    assert few < block or unit >= 5 << 20
    lines = explain_blocks(unit, block, size=100 << 30, limit=50 << 30, batch=256, coverage=1 / 64)
    assert f"{amplification(unit, block, 1 / 64):.2f} of 1/64" in lines[0]
    assert "the cache holds" in lines[-1]


def test_blocks_for_what_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(20, 10_000))
    cache = NodeCache(tmp_path / "node", block="auto")
    assert cache.block is None and "blocks of auto" in repr(cache)
    run = kn.analysis.RadiusOfGyration(kn.open(path, node_cache=cache), weights=None).run()
    block = int(run.record.plan.split(f"{cache.root}, blocks of ")[1].split()[0])
    # x, y and z of all atoms, each with two record marks, and no cell
    assert block == chosen_block(3 * (40_000 + 8))
    assert pickle.loads(pickle.dumps(cache)) == cache != cache_in(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"verify": "sometimes"}, "verify must be one of 'never', 'first', 'always', found 'sometimes'"),
        ({"limit": "many"}, "limit is a number of bytes"),
        ({"block": 0}, "block must be at least one byte"),
        ({"block": 1000}, "multiple of 65536 bytes"),
        ({"limit": "128 KiB"}, "the limit of the node cache is too small"),
    ],
)
def test_bad_arguments(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(kn.ArgumentError, match=words):
        cache_in(tmp_path, **options)


def test_a_folder_that_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir(mode=0o700)
    (tmp_path / "node").chmod(0o777)
    with pytest.raises(kn.ArgumentError, match="others may write"):
        cache_in(tmp_path)
    with pytest.raises(kn.ArgumentError, match="node_cache is a folder or a"):
        kn.open(tmp_path / "a.dcd", node_cache=3)  # type: ignore[arg-type]


def test_a_call_that_is_refused_leaves_no_cache_folder(tmp_path: Path) -> None:
    for paths in ("none.xtc", ["none.xtc", "other.xtc"], "none*.xtc"):
        given = [str(tmp_path / one) for one in ([paths] if isinstance(paths, str) else paths)]
        with pytest.raises(kn.FileNotFound):
            kn.open(given, node_cache=tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []
