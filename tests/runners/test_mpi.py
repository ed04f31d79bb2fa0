"""The MPI runner, under `mpiexec` with 1, 2, 3 and 5 ranks: same bits, one opening, errors and deaths, the command."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.execution.checkpoint.file import load
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.amounts import LONG, each, pairs

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent
# MPICH takes every second rank for one of another node
TWO_NODES = {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}

MODULE = """
import os, time
from mpi4py import MPI

def corner(frame):
    # a run that is to be found at work takes five seconds after its first frames: Open MPI's mpiexec passes a
    # signal on after one
    time.sleep(0.05 if "WAIT" in os.environ and frame.frame >= 64 else 0.003)
    return frame.positions[0].astype(float)

def failing(frame):
    # on any rank but the first, so that it has to be told
    if MPI.COMM_WORLD.Get_rank() == 1 and frame.frame > 40:
        open("failed", "w").close()
        raise ZeroDivisionError("as was to be shown")
    # the others leave some frames to it
    until = time.monotonic() + 120
    while frame.frame > 40 and not os.path.exists("failed"):
        assert time.monotonic() < until, "rank 1 was given nothing"
        time.sleep(0.01)
    return frame.positions[0].astype(float)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trajectory and a module of functions."""
    write_dcd(tmp_path / "a.dcd", random_walk(400, 12))
    (tmp_path / "slow.py").write_text(MODULE)
    return tmp_path


# -- the suite of every runner ---------------------------------------------------------------------------------------


# what number of ranks, schedule and gathering may change: all laws hold on three ranks
ON_ALL = "same_bits or several or any_order or damaged or goes_on or (access and frame) or test_map or as_they_come"


@pytest.mark.parametrize(
    ("n_ranks", "options", "laws"),
    [
        (1, [], ON_ALL),
        (2, ["schedule=static", "gather=one-sided"], ON_ALL),
        (3, [], ""),
        (5, ["gather=one-sided", "oversubscribe=9"], ON_ALL),
    ],
)
def test_the_suite_of_every_runner(mpi: Any, n_ranks: int, options: list[str], laws: str, tmp_path: Path) -> None:
    words = [str(HERE / "mpi_cases.py"), *options, f"--basetemp={tmp_path / 'cases'}"]
    if laws and not LONG:
        words += ["-k", laws]
    code, out, err = mpi.ended(mpi.started(n_ranks, words, tmp_path))
    assert code == 0, out + err
    assert " passed" in out


# -- the same bits ---------------------------------------------------------------------------------------------------

WAYS = pairs(("dynamic", "static"), ("collective", "one-sided"), (0, 1 << 40), (1, 2))
SAME = (
    f"WAYS = {WAYS!r}"
    + """
def bits(analysis):
    return [np.asarray(analysis.results[name]).tobytes() for name in analysis.results]

with kn.runners.MPI() as mpi:
    if mpi.is_root:
        traj = kn.open("a.dcd")
        make = [lambda: kn.analysis.RMSD(traj, groups=[[0, 3]]), lambda: kn.analysis.RMSF(traj, align="average")]
        expected = [bits(one().run(runner="serial")) for one in make]
        for schedule, gather, tree_from, threads in WAYS:
            runner = mpi.configured(schedule=schedule, gather=gather, threads_per_worker=threads)
            runner._tree_from = tree_from
            found = [one().run(runner=runner) for one in make]
            assert [bits(one) for one in found] == expected, (schedule, gather, tree_from, threads)
            for worker in found[0].timings.workers:
                assert worker.node and worker.total <= threads * found[0].timings.wall + 1e-6
        say("all the same")
"""
)


@pytest.mark.parametrize(("n_ranks", "more"), [(1, {}), (2, {}), (3, {}), (5, TWO_NODES)])
def test_same_bits_in_every_way(mpi: Any, n_ranks: int, more: dict[str, str], folder: Path) -> None:
    assert mpi.compute(n_ranks, SAME, folder, **more) == "all the same\n"


def test_large_partials_merge_on_the_way(mpi: Any, folder: Path) -> None:
    # sums of many atoms: as many bytes from each rank, merged by ranks on the way to rank 0
    write_dcd(folder / "wide.dcd", random_walk(40, 60_000))
    text = """
from kinema.runners.mpi import reduction as mpi_reduction
reduce_on_tree = mpi_reduction._reduce_on_tree
def noted(*arguments):
    say("merges", rank)
    return reduce_on_tree(*arguments)
mpi_reduction._reduce_on_tree = noted
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        traj = kn.open("wide.dcd")
        found = kn.analysis.RMSF(traj).run(runner=mpi).results.rmsf
        # more than five ranks send that have no nodes, where rank 0 was faster than all others
        mpi._tree_from = 100
        kn.analysis.RMSD(traj, select=[1, 2]).run(runner=mpi)
        assert found.tobytes() == kn.analysis.RMSF(traj).run(runner="serial").results.rmsf.tobytes()
"""
    merged = sorted(mpi.script(5, text, folder).replace("merges ", "").split())
    # by all ranks, each time that they send: once, unless the system has stopped one of them for long
    assert merged == sorted(list("01234") * (len(merged) // 5)) != []


# -- who has results -------------------------------------------------------------------------------------------------

SPMD = """
results = sys.argv[1] if len(sys.argv) > 1 else os.environ["RESULTS"]
rmsd = kn.analysis.RMSD(kn.open("a.dcd"))
rmsd.run(runner=kn.runners.MPI(results=results))
expected = kn.analysis.RMSD(kn.open("a.dcd")).run(runner="serial").results.rmsd
try:
    same = rmsd.results.rmsd.tobytes() == expected.tobytes()
    rmsd.table()
    said = f"same {same}"
except kn.ArgumentError as error:
    said = str(error)
    for ask in (lambda: rmsd.results["rmsd"], lambda: len(rmsd.results), lambda: list(rmsd.results), rmsd.table,
                lambda: "rmsd" in rmsd.results, lambda: rmsd.save("x.csv")):
        try:
            ask()
        except kn.ArgumentError as again:
            assert str(again) == said
        else:
            said = "no error"
MPI.COMM_WORLD.Barrier()
for one in range(MPI.COMM_WORLD.Get_size()):
    MPI.COMM_WORLD.Barrier()
    if one == rank:
        say(rank, said)
"""


def test_results_on_rank_0_or_on_all(mpi: Any, folder: Path) -> None:
    lines = sorted(mpi.compute(3, SPMD, folder, RESULTS="root").splitlines())
    assert lines[0] == "0 same True"
    assert len(lines) == 3
    assert all("the results are on rank 0" in line and "results='all'" in line for line in lines[1:])
    assert not (folder / "x.csv").exists()
    lines = sorted(mpi.compute(3, SPMD, folder, RESULTS="all").splitlines())
    assert lines == ["0 same True", "1 same True", "2 same True"]


def test_nothing_of_an_earlier_run_is_left_on_other_ranks(mpi: Any, folder: Path) -> None:
    text = """
rmsd = kn.analysis.RMSD(kn.open("a.dcd")).run(runner=kn.runners.MPI(results="all"))
rmsd.run(runner=kn.runners.MPI(), stop=10)
say(rank, rmsd.timings.frames, bool(rmsd.plan))
"""
    lines = sorted(mpi.compute(3, text, folder).splitlines())
    assert lines == ["0 10 True", "1 0 False", "2 0 False"]


def test_by_name_and_by_function(mpi: Any, folder: Path) -> None:
    text = """
rmsd = kn.analysis.RMSD(kn.open("a.dcd")).run(runner="mpi")
found = kn.runners.MPI(results="all").on_root(lambda: kn.analysis.RMSF(kn.open("a.dcd")).run(runner="serial").results)
say("rmsf" in found)
"""
    assert mpi.compute(2, text, folder).split() == ["True", "True"]


# -- opening once ----------------------------------------------------------------------------------------------------

OPENS = """
from kinema import _core
from kinema.model import snapshot
opened = []
def audit(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(os.getcwd()):
        opened.append(os.path.basename(arguments[0]))
trajectories = []
def opening(self, data):
    recipe = dict(self.recipe)
    import pickle
    found = pickle.loads(data[self.core_bytes : self.core_bytes + self.described_bytes].tobytes())
    if found:
        recipe["describe"] = snapshot._CachedDescriptions(recipe["describe"], found)
    trajectories.append(_core.Trajectory(**recipe, snapshot=data[: self.core_bytes], record_reads=True))
    return trajectories[-1]
snapshot.TrajectorySnapshot.open = opening
from kinema.formats.h5md.read import describe as describing
described = describing._described
def noting(found):
    opened.append("described")
    return described(found)
describing._described = noting
names = os.environ["NAMES"].split()
with kn.runners.MPI(schedule="static") as mpi:
    if mpi.is_root:
        traj = kn.open([os.path.join(os.getcwd(), name) for name in names], overlap="all")
        found = kn.analysis.RMSD(traj).run(runner=mpi)
        assert found.results.rmsd.tobytes() == kn.analysis.RMSD(traj).run(runner="serial").results.rmsd.tobytes()
    else:
        sys.addaudithook(audit)
        opened.clear()
if rank:
    for trajectory in trajectories:
        opened += [os.path.basename(path) for path in trajectory.take_opens()]
for one in range(MPI.COMM_WORLD.Get_size()):
    MPI.COMM_WORLD.Barrier()
    if rank == one and rank:
        say(rank, *opened)
"""


def _lines(text: str) -> dict[int, list[str]]:
    return {int(line.split()[0]): line.split()[1:] for line in text.splitlines()}


@pytest.mark.parametrize("kind", ["dcd", "xtc"])
def test_each_rank_opens_only_the_parts_that_it_reads(mpi: Any, kind: str, tmp_path: Path) -> None:
    write = write_dcd if kind == "dcd" else write_xtc
    # equal shares would cut the first and the second one
    for name, frames in (("a", 336), ("b", 288), ("c", 336)):
        write(tmp_path / f"{name}.{kind}", random_walk(frames, 5))
    found = _lines(mpi.script(3, OPENS, tmp_path, NAMES=f"a.{kind} b.{kind} c.{kind}"))
    # shares begin with files, so that each has one; nothing else is opened or looked at
    assert found == {1: [f"b.{kind}"], 2: [f"c.{kind}"]}


def test_rounds_of_a_run_share_what_is_known_of_the_files(mpi: Any, tmp_path: Path) -> None:
    for name in ("a.dcd", "b.dcd"):
        write_dcd(tmp_path / name, random_walk(100, 5))
    text = """
from kinema.runners.mpi import session
made = session.NodeBytes
def noted(ranks, size, data):
    say(rank, "sent")
    return made(ranks, size, data)
session.NodeBytes = noted
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        for name in ("a.dcd", "b.dcd", "a.dcd"):
            found = kn.analysis.RMSF(kn.open(name), align="average").run(runner=mpi)
            assert len(found.timings.passes) == 2
            expected = kn.analysis.RMSF(kn.open(name), align="average").run(runner="serial")
            assert found.results.rmsf.tobytes() == expected.results.rmsf.tobytes()
"""
    lines = mpi.script(3, text, tmp_path).splitlines()
    # once with each of three runs, on each rank
    assert sorted(lines) == sorted(f"{rank} sent" for rank in range(3) for _ in range(3))


def test_hdf5_structure_is_read_by_rank_0_alone(mpi: Any, tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["positions"] = random_walk(200, 4)
    text = OPENS.replace('overlap="all")', 'overlap="all", dataset="positions", units={"length": "angstrom"})')
    found = _lines(mpi.script(2, text, tmp_path, NAMES="a.h5"))
    assert found == {1: ["a.h5"]}


def test_a_file_that_changes_meanwhile_is_refused(mpi: Any, folder: Path) -> None:
    text = """
from kinema.model import snapshot
of = snapshot.TrajectorySnapshot.take
def changing(trajectory, *rest):
    known = of(trajectory, *rest)
    with open("a.dcd", "r+b") as file:
        file.seek(-20, 2)
        file.write(b"1234")
    return known
snapshot.TrajectorySnapshot.take = changing
with kn.runners.MPI(schedule="static") as mpi:
    if mpi.is_root:
        try:
            kn.analysis.RMSD(kn.open("a.dcd")).run(runner=mpi)
        except kn.CorruptFileError as error:
            say(error, *getattr(error, "__notes__", []))
"""
    said = mpi.script(2, text, folder)
    assert "a.dcd: DCD" in said
    # by rank 1 when it opens the file, or by rank 0 after its read
    assert "the file has changed since it was opened" in said


# -- finding frames together ----------------------------------------------------------------------------------------

INDEXING = """
from kinema.runners.mpi import indexing as mpi_indexing, runner as mpi
search = mpi_indexing.search
def noted(ranks, command, *rest):
    if rank:
        mine = command.ranges[rank :: ranks.size]
        say(rank, *(os.path.basename(command.recipe["paths"][part]) for part, _, _ in mine))
    return search(ranks, command, *rest)
mpi.search = mpi_indexing.search = noted
with kn.runners.MPI() as ranks:
    if ranks.is_root:
        ranks._index_from = 0
        for again in range(2):
            traj = kn.open(os.environ["NAMES"].split(), overlap="all")
            try:
                found = kn.analysis.RMSD(traj).run(runner=ranks)
            except kn.Error as error:
                say("error", error)
                break
            alone = kn.open(os.environ["NAMES"].split(), overlap="all", stored=False)
            assert traj.steps.tobytes() == alone.steps.tobytes() and traj.n_frames == alone.n_frames
            assert found.results.rmsd.tobytes() == kn.analysis.RMSD(alone).run(runner="serial").results.rmsd.tobytes()
            say("same", [part.index for part in traj.parts])
"""


def test_unindexed_files_are_searched_by_all_ranks(mpi: Any, tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(700, 9))
    for name in "bc":
        write_xtc(tmp_path / f"{name}.xtc", random_walk(100, 9))
    lines = mpi.script(3, INDEXING, tmp_path, NAMES="a.xtc b.xtc c.xtc").splitlines()
    # the large one in pieces, the others as they are; the second time there is nothing to search
    assert sorted(line for line in lines if line[0] in "12") == ["1 a.xtc", "2 b.xtc"]
    assert [line for line in lines if line[0] not in "12"] == [
        f"same ['{how}', '{how}', '{how}']" for how in ("built", "stored")
    ]


def test_what_is_wrong_with_a_file_is_told_as_ever(mpi: Any, tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(100, 9))
    whole = bytearray((tmp_path / "a.xtc").read_bytes())
    whole[len(whole) // 100 * 60 + 0 : len(whole) // 100 * 60 + 400] = bytes(400)
    (tmp_path / "a.xtc").write_bytes(whole)
    with pytest.raises(kn.Error) as expected:
        kn.open(tmp_path / "a.xtc").scan()
    said = mpi.script(2, INDEXING, tmp_path, NAMES=str(tmp_path / "a.xtc"))
    assert f"error {expected.value}\n" in said


# -- failure ---------------------------------------------------------------------------------------------------------

FAILING = """
from slow import failing
try:
    kn.analysis.from_function(failing, kn.open("a.dcd")).run(runner=kn.runners.MPI(), **KEPT)
except ZeroDivisionError as error:
    say(rank, str(error), [note[:9] for note in error.__notes__].count("on rank 1"))
def failing_on_0(frame):
    if MPI.COMM_WORLD.Get_rank() == 0:
        raise KeyError("mine")
    return 1.0
try:
    kn.analysis.from_function(failing_on_0, kn.open("a.dcd")).run(runner=kn.runners.MPI(schedule="static"))
except KeyError as error:
    say(rank, error, [note[:9] for note in error.__notes__].count("on rank 0"))
rmsd = kn.analysis.RMSD(kn.open("a.dcd")).run(runner=kn.runners.MPI(results="all"))
assert len(rmsd.results.rmsd) == 400
"""


@pytest.mark.parametrize("kept", ["{}", "dict(checkpoint='run.ckpt', checkpoint_interval=0)"])
@pytest.mark.parametrize(("n_ranks", "more"), [(2, {}), (3, TWO_NODES)])
def test_an_exception_of_one_rank_is_raised_on_all(
    mpi: Any, n_ranks: int, more: dict[str, str], kept: str, folder: Path
) -> None:
    out = mpi.compute(n_ranks, FAILING.replace("KEPT", kept), folder, **more)
    lines = sorted(out.splitlines())
    assert lines == [f"{rank} {said} 1" for rank in range(n_ranks) for said in ("'mine'", "as was to be shown")]


def test_an_error_of_rank_0_is_raised_on_all(mpi: Any, folder: Path) -> None:
    text = """
for arguments in (dict(frames=[1000]), dict(workers=9)):
    try:
        kn.analysis.RMSD(kn.open("a.dcd")).run(runner="mpi", **arguments)
    except kn.Error as error:
        say(rank, type(error).__name__, error)
"""
    lines = sorted(mpi.compute(2, text, folder).splitlines())
    assert len(lines) == 4
    assert [line.split()[:2] for line in lines] == [
        [rank, name] for rank in "01" for name in ("ArgumentError", "OutOfRangeError")
    ]
    assert "there are 2 ranks, asked for 9 workers" in lines[0]


# -- ranks that die, signals, continuing -----------------------------------------------------------------------------

KEPT = """
from slow import corner
def run(mpi):
    traj = kn.open("a.dcd")
    said = []
    def progress(done, total):
        if done > 40 and not said and "WAIT" in os.environ:
            said.append(True)
            say("at work")
    return kn.run([kn.analysis.from_function(corner, traj), kn.analysis.RMSF(traj, align="average")], runner=mpi,
                  checkpoint="run.ckpt", checkpoint_interval=float(os.environ.get("INTERVAL", "0")), progress=progress)
def save(made):
    np.savez("found.npz", **{f"{i}-{name}": one.results[name] for i, one in enumerate(made) for name in one.results})
"""
ON_RANKS = """
open(f"pid-{rank}", "w").write(str(os.getpid()))
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        save(run(mpi))
"""
ON_THREADS = """
save(run("threads"))
"""


def _at_work(mpi: Any, n_ranks: int, folder: Path, **more: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(mpi.begin + KEPT + ON_RANKS)
    process = mpi.started(n_ranks, ["script.py"], folder, WAIT="1", **more)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    return process


def _wait_for_nodes(path: Path) -> None:
    """Until the checkpoint has something of the first round, which is at work."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        content = load(str(path)) if path.exists() else None
        if content is not None and content.passes and content.passes[0].nodes:
            assert len(content.passes) == 1, "nothing was saved before the first round was done"
            return
        time.sleep(0.01)
    pytest.fail("nothing was saved")


def _results(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "found.npz") as found:
        return {name: found[name].tobytes() for name in found}


SEALED = """
from kinema.testing.runner_work import Sealed, SealedCount

with kn.runners.MPI() as mpi:
    if mpi.is_root:
        traj = kn.open("a.dcd")
        for tree_from in (1 << 40, 0):
            # static, so that both ranks have something
            runner = mpi.configured(schedule="static")
            runner._tree_from = tree_from
            found = kn.analysis.Custom(traj, SealedCount()).run(runner=runner)
            assert found.results.frames == 400
            first, second = found.timings.workers
            assert (first.frames, second.frames) == (200, 200)
            # rank 1 has packed what rank 0 has unpacked
            assert min(first.communicate, second.communicate) >= Sealed.SECONDS, found.timings
            assert all(worker.close > 0 and worker.plan > 0 and worker.cpu > 0 for worker in (first, second))
            # ranks are there already
            assert first.start == second.start == 0
        say("all told")
"""


def test_packing_and_unpacking_count_as_messages(mpi: Any, folder: Path) -> None:
    assert mpi.compute(2, SEALED, folder) == "all told\n"


NUMBERS = """
import time
from kinema.runners.mpi.shared_counter import Counter

number = Counter.next

def late(counter):
    time.sleep(0.05)
    return number(counter)

Counter.next = late
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        found = kn.analysis.RMSD(kn.open("a.dcd")).run(runner=mpi)
        # each rank asks at least once, if only to hear that there is no more
        assert min(worker.communicate for worker in found.timings.workers) >= 0.05, found.timings
        say("all told")
"""


def test_asking_for_a_number_counts_as_a_message(mpi: Any, folder: Path) -> None:
    assert mpi.script(2, NUMBERS, folder) == "all told\n"


@pytest.mark.parametrize(("victim", "again"), each([0, 2], ["ranks", "threads"]))
def test_a_rank_that_is_killed_ends_the_job_and_the_next_goes_on(
    mpi: Any, victim: int, again: str, folder: Path
) -> None:
    mpi.compute(1, KEPT + ON_THREADS, folder)
    expected = _results(folder)
    (folder / "found.npz").unlink()
    process = _at_work(mpi, 3, folder)
    _wait_for_nodes(folder / "run.ckpt")
    os.kill(int((folder / f"pid-{victim}").read_text()), signal.SIGKILL)
    code, _, _ = mpi.ended(process)
    assert code != 0
    assert not (folder / "found.npz").exists()
    content = load(str(folder / "run.ckpt"))
    assert content is not None
    assert content.passes[0].nodes
    # with another number of ranks, or with threads
    if again == "ranks":
        mpi.compute(2, KEPT + ON_RANKS, folder)
    else:
        mpi.compute(1, KEPT + ON_THREADS, folder)
    assert _results(folder) == expected
    assert not (folder / "run.ckpt").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_all_ranks_and_save_first(mpi: Any, number: signal.Signals, folder: Path) -> None:
    # nothing that was done is saved before, as it is not time yet
    process = _at_work(mpi, 3, folder, INTERVAL="1000")
    before = load(str(folder / "run.ckpt"))
    assert before is not None
    assert not before.passes[0].nodes
    process.send_signal(number)
    code, _, _ = mpi.ended(process)
    assert code != 0
    content = load(str(folder / "run.ckpt"))
    assert content is not None
    assert content.passes[0].nodes
    for one in range(3):
        assert mpi.is_gone(int((folder / f"pid-{one}").read_text()))
    mpi.compute(3, KEPT + ON_RANKS, folder)
    found = _results(folder)
    mpi.compute(1, KEPT + ON_THREADS, folder)
    assert _results(folder) == found
