"""One measurement of one runner, as a program: `python one_runner.py NAME RUNNER ARGUMENTS`; prints a line of JSON.

For the runner "mpi" it is what `mpiexec` starts. It chooses no cases and asserts nothing; `runners.py` does the former.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinema as kn
from kinema.runners import PassTimings, Runner, choose_runner

# leaves of the empty rounds, as many as a plan makes
_LEAVES = 256
_EMPTY_TASKS = 500
# of each length, for each of the tries that others have
_ROUNDS_A_TRY = 5
_COUNTER_SECONDS = 2.0


class Nothing(kn.analysis.PythonKernel):
    """A kernel that does nothing: what remains is the runner's, and one call of Python for each leaf."""

    def empty(self) -> int:
        """A partial of nothing."""
        return 0

    def accumulate(self, partial: int, block: kn.Block) -> int:
        """Looks at nothing."""
        return partial

    def merge(self, left: int, right: int) -> int:
        """Nothing and nothing."""
        return left

    def finish(self, partial: int) -> dict[str, Any]:
        """No results."""
        return {}


def nothing(_: int) -> None:
    """An empty task for the engines themselves."""


# -- runners ------------------------------------------------------------------------------------------------------


@contextmanager
def made_runner(name: str, workers: int, **options: Any) -> Iterator[Runner | None]:
    """A runner of that name; None on the ranks that do not lead. "dask-running" has a cluster that runs already."""
    if name == "mpi":
        with kn.runners.MPI(**options) as ranks:
            yield ranks if ranks.is_root else None
    elif name == "dask-running":
        from kinema.runners.dask.cluster import OwnCluster

        with OwnCluster(workers) as cluster:
            yield kn.runners.Dask(cluster.client, **options)
    else:
        yield type(choose_runner(name))(**options)


def _best(work: Callable[[], float], tries: int) -> float:
    return min(work() for _ in range(tries))


# -- what a leaf and a piece cost ---------------------------------------------------------------------------------


def overhead(runner: str, path: str, workers: str, tries: str) -> dict[str, Any] | None:
    """Seconds of a round, of a leaf without work and of one that is a piece of its own, with their noise, by kernel.

    All on workers that run, wall time. A leaf: a round of many less one of a single leaf, by turns; a piece: with as
    many pieces as leaves, less that. The first leaf's round has one worker, and opens the file as any.
    """
    found: dict[str, list[float]] = {}
    for pieces in ("few", "many"):
        if runner == "dask" and pieces == "many":
            from kinema.runners.dask import runner as dask

            # it makes no pieces shorter than this by itself
            dask._LEAST_SECONDS = 0.0
        alone = {} if pieces == "few" or runner in ("serial", "threads") else {"oversubscribe": 10**6}
        name = "dask-running" if runner == "dask" else runner
        with made_runner(name, int(workers), **alone) as made:
            if made is None:
                continue
            trajectory = kn.open(path)
            trajectory.scan()
            kernels = {
                "empty Python kernel": lambda t=trajectory: kn.analysis.Custom(t, Nothing(), select=[0]),
                "Rust kernel of one atom": lambda t=trajectory: kn.analysis.RadiusOfGyration(t, [0], weights=None),
            }
            number = 1 if runner == "serial" else int(workers)
            with made.session():
                for kernel, make in kernels.items():
                    for turn in range(_ROUNDS_A_TRY * int(tries) + 1):
                        for what, stop in (("one leaf", 1), ("leaves", None)):
                            analysis = make().run(stop=stop, workers=number, runner=made, progress=False)
                            if turn:  # not while workers may still be starting
                                wall = analysis.timings.passes[0].wall
                                found.setdefault(f"{kernel}, {pieces} pieces, {what}", []).append(wall)
    if not found:
        return None
    rows = {}
    for kernel in ("empty Python kernel", "Rust kernel of one atom"):
        one = found[f"{kernel}, few pieces, one leaf"]
        many = found[f"{kernel}, few pieces, leaves"]
        single = found[f"{kernel}, many pieces, leaves"]
        rows[kernel] = {
            "round": {"seconds": median(one), "noise": 0.0},
            "leaf": cost_each(many, one, _LEAVES - 1),
            "piece": cost_each(single, one, _LEAVES - 1),
        }
    return rows


def cost_each(longer: Sequence[float], shorter: Sequence[float], count: int) -> dict[str, float]:
    """Time that each of `count` adds, from the medians of both; `noise`: twice its standard error, from quartiles.

    The quartiles of a normal distribution are 1.349 standard deviations apart, and the standard error of the median is
    1.2533 standard deviations over the root of the number of values.
    """
    errors = [1.2533 / 1.349 * float(np.subtract(*np.percentile(one, (75, 25)))) for one in (longer, shorter)]
    noise = 2 * float(np.hypot(*(error / len(longer) ** 0.5 for error in errors)))
    return {"seconds": (median(longer) - median(shorter)) / count, "noise": noise / count}


def empty_tasks(engine: str, workers: str, tries: str) -> dict[str, Any] | None:
    """Seconds of an empty task of the engine itself, in a pool that runs: a call of Python, `concurrent.futures`,
    `distributed`, `mpi4py.futures` (rank 0 hands out, and takes none itself)."""
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    def timed(run: Callable[[], object]) -> float:
        began = time.perf_counter()
        run()
        return (time.perf_counter() - began) / _EMPTY_TASKS

    numbers = range(_EMPTY_TASKS)
    if engine == "serial":
        return {"task": _best(lambda: timed(lambda: [nothing(one) for one in numbers]), int(tries))}
    if engine == "dask":
        from kinema.runners.dask.cluster import OwnCluster

        with OwnCluster(int(workers)) as cluster:
            client = cluster.client
            run = lambda: client.gather(client.map(nothing, numbers, pure=False))  # noqa: E731
            run()
            return {"task": _best(lambda: timed(run), int(tries))}
    if engine == "mpi":
        from mpi4py.futures import MPICommExecutor

        with MPICommExecutor() as pool:
            return None if pool is None else {"task": _tasks_of(pool, timed, int(tries))}
    kind = ThreadPoolExecutor if engine == "threads" else ProcessPoolExecutor
    with kind(int(workers)) as pool:
        return {"task": _tasks_of(pool, timed, int(tries))}


def _tasks_of(pool: Any, timed: Callable[[Callable[[], object]], float], tries: int) -> float:
    def run() -> object:
        return list(pool.map(nothing, range(_EMPTY_TASKS)))

    run()
    return _best(lambda: timed(run), tries)


# -- throughput ---------------------------------------------------------------------------------------------------


def rmsd(runner: str, path: str, atoms: str, workers: str, repeats: str, tries: str) -> dict[str, Any] | None:
    """RMSD over a file that is read as a trajectory of `repeats` equal parts: the best run, its accounts."""
    with made_runner(runner, int(workers)) as made:
        if made is None:
            return None
        trajectory = kn.open([path] * int(repeats), overlap="all")
        trajectory.scan()
        chosen = np.load(atoms)
        number = 1 if runner == "serial" else int(workers)
        runs = []
        for _ in range(int(tries)):
            began = time.perf_counter()
            analysis = kn.analysis.RMSD(trajectory, chosen).run(workers=number, runner=made, progress=False)
            runs.append((time.perf_counter() - began, analysis))
        seconds, best = min(runs, key=lambda run: run[0])
        return {"frames": len(trajectory), "seconds": seconds} | _accounts(best, [one for _, one in runs])


def decoded(runner: str, path: str, workers: str) -> dict[str, Any] | None:
    """Bytes of compressed chunks that a run over all frames of an H5MD file reads and decodes, and that are stored."""
    import h5py

    with made_runner(runner, int(workers)) as made:
        if made is None:
            return None
        trajectory = kn.open(path)
        trajectory.scan()
        number = 1 if runner == "serial" else int(workers)
        analysis = kn.analysis.RMSD(trajectory).run(workers=number, runner=made, progress=False)
        read = sum(worker.bytes_read for worker in analysis.timings.workers)
    with h5py.File(path, "r") as file:
        stored = file["particles/all/position/value"].id.get_storage_size()
    return {"read": read, "stored": stored}


def _accounts(best: Any, all_runs: Sequence[Any]) -> dict[str, Any]:
    """Times from the clocks of a run, and their cost."""
    timings = best.timings
    one = timings.passes[0]
    busy = sum(worker.busy for worker in timings.workers)
    began = time.perf_counter()
    report = best.report()
    made = time.perf_counter() - began
    # of each block: when it begins, was read, is done; opening; the batch; of each read: before, after, decoded
    looks = 7 * len(timings.blocks) + 3 * timings.reads
    return {
        "wall": timings.wall,
        "start": max(worker.start for worker in one.workers),
        "unaccounted": median(run.timings.fractions["unaccounted"] for run in all_runs),
        "blocks": len(timings.blocks),
        "clocks": looks * _seconds_of_a_look() / busy,
        "report": made,
        "report_bytes": len(json.dumps(report.as_dict())),
        "tasks": None if one.tasks is None else {n: getattr(one.tasks, n) for n in ("function", "task", "job")},
        "piece_scheduler": None if one.tasks is None else _gaps(one),
    }


def _seconds_of_a_look(n: int = 200_000) -> float:
    """Cost of Python's clock: the same system call as in the Rust half, and Python's own cost on top."""
    began = time.perf_counter()
    for _ in range(n):
        time.perf_counter()
    return (time.perf_counter() - began) / n


def _gaps(one: PassTimings) -> dict[str, float] | None:
    """Between two tasks of a Dask worker, from the end of one to the beginning of the next, by its own account."""
    spans: dict[str, list[tuple[float, float]]] = {}
    assert one.tasks is not None
    for transition in one.tasks.transitions:
        for action, start, stop in transition.actions:
            if action == "compute":
                spans.setdefault(transition.worker, []).append((start, stop))
    gaps = []
    for found in spans.values():
        found.sort()
        gaps += [after[0] - before[1] for before, after in pairwise(found)]
    return _percentiles(np.array(gaps)) if gaps else None


def _percentiles(values: NDArray[np.float64]) -> dict[str, float]:
    return {"count": len(values)} | {f"p{share}": float(np.percentile(values, share)) for share in (50, 99)}


def mdanalysis(
    backend: str, reader: str, path: str, atoms: str, workers: str, frames: str, tries: str
) -> dict[str, Any]:
    """`MDAnalysis.analysis.rms.RMSD` with a backend of its own, or with one of Kinema's runners ("kinema-dask").

    `reader` "kinema" has Kinema's in the Universe. `seconds` is a whole run, `running` one whose workers run already:
    MDAnalysis forks new workers each time, so that both are the same.
    """
    import MDAnalysis
    from MDAnalysis.analysis.rms import RMSD

    from kinema.interop.mdanalysis import Backend, KinemaReader

    n_atoms = MDAnalysis.coordinates.core.reader(path).n_atoms
    universe = MDAnalysis.Universe.empty(n_atoms, trajectory=False)
    universe.add_TopologyAttr("masses", np.ones(n_atoms))
    universe.load_new(path, **({"format": KinemaReader} if reader == "kinema" else {}))
    chosen = universe.atoms[np.load(atoms)]
    options: dict[str, Any] = {"backend": backend, "n_workers": int(workers)}
    if backend == "serial":
        options = {"backend": backend}
    elif backend.startswith("kinema-"):
        ours = Backend(backend.removeprefix("kinema-"), int(workers), progress=False)
        options = {"backend": ours, "unsupported_backend": True, "n_parts": 4 * int(workers)}

    def run() -> float:
        began = time.perf_counter()
        RMSD(chosen, ref_frame=0).run(stop=int(frames), **options)
        return time.perf_counter() - began

    seconds = running = _best(run, int(tries))
    if backend.startswith("kinema-"):
        with ours:
            # the first one starts them, and one that came late starts with the second
            run(), run()
            running = _best(run, int(tries))
    return {"frames": int(frames), "seconds": seconds, "running": running}


# -- MPI alone ----------------------------------------------------------------------------------------------------


def counter(kind: str) -> dict[str, Any] | None:
    """How long ranks wait for a number of the counter while its owner multiplies matrices.

    "serving" has the thread of the owner that makes progress, "plain" has not.
    """
    from contextlib import nullcontext

    from mpi4py import MPI

    from kinema.runners.mpi.communicator import Ranks

    ranks = Ranks(MPI.COMM_WORLD)
    if ranks.is_root:
        ranks.counter.reset()
    ranks.comm.Barrier()
    waited: list[float] = []
    with ranks.counter.serving() if kind == "serving" else nullcontext():
        until = time.monotonic() + _COUNTER_SECONDS
        matrix = np.ones((400, 400))
        while time.monotonic() < until:
            if ranks.is_root:
                matrix @ matrix
            else:
                begun = time.perf_counter()
                ranks.counter.next()
                waited.append(time.perf_counter() - begun)
                time.sleep(0.001)
        ranks.comm.Barrier()
    # ranks of the owner's node are told apart: they share memory with it
    near = ranks.node.bcast(ranks.is_root if ranks.node.Get_rank() == 0 else None)
    everyone = ranks.comm.gather((near, waited))
    told = None
    if ranks.is_root and everyone is not None:
        told = {}
        for where, wanted in (("on its node", True), ("on another node", False)):
            found = [one for near, some in everyone if near == wanted for one in some]
            if found:
                told[where] = _percentiles(np.array(found))
    ranks.free()
    return told


def first_frame(*words: str) -> dict[str, Any] | None:
    """The command `kinema WORDS`, and when the first frames of each rank had been read, by the system's clock."""
    from kinema import _core
    from kinema.cli import main as command

    run_leaves = _core.run_leaves
    read: list[float] = []

    def noted(*arguments: Any, **named: Any) -> Any:
        began = time.time()
        nodes, timings = run_leaves(*arguments, **named)
        if not read:
            first = timings["blocks"][0]
            read.append(began + first[3] + first[4])
        return nodes, timings

    _core.run_leaves = noted
    sys.argv = ["kinema", *words]
    try:
        command()
    except SystemExit as ended:
        if ended.code:
            raise
    return {"read": read[0]} if read else None


_MEASUREMENTS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "overhead": overhead,
    "empty-tasks": empty_tasks,
    "rmsd": rmsd,
    "decoded": decoded,
    "mdanalysis": mdanalysis,
    "counter": counter,
    "first-frame": first_frame,
}


def main(arguments: Sequence[str]) -> None:
    """Measures, and prints unless this is a rank that only works for others."""
    with warnings.catch_warnings():
        # MDAnalysis on files without a topology
        warnings.simplefilter("ignore")
        found = _MEASUREMENTS[arguments[0]](*arguments[1:])
    if found is not None:
        # in one piece: several ranks may write at once
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    # by its own name, by which other processes find the kernel
    import one_runner

    one_runner.main(sys.argv[1:])
