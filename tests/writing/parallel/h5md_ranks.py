"""Programs that ranks run in the tests of H5MD: by `test_h5md.py` on ranks that stay, or with its name as a program.

Each program writes into the current folder, checks, and prints one line on rank 0 when all is well.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import warnings
from typing import Any

import h5py
import hdf5plugin  # noqa: F401, registers filters
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from rank_common import barrier

import kinema as kn
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.hdf5.writer import Hdf5Writer
from kinema.parallel import verification
from kinema.parallel.agreement import Agreement, WriterTimings
from kinema.parallel.hdf5 import gathered, mpiio

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
N_ATOMS, N_FRAMES = 300, 13
# frames of files that are verified, of which the frame 7 is damaged
VERIFIED = 10
CELL = np.array([[60.0, 0, 0], [5.0, 61.0, 0], [2.0, -3.0, 62.0]])
STORED: list[dict[str, Any]] = [
    {},
    {"compression": "zstd", "max_error": 0.01},
    {"compression": "gzip", "layout": (4, 100, 3)},
    {"compression": "bitshuffle-zstd", "layout": "atoms", "dtype": "float64"},
    {"layout": (3, 300, 3), "dialect": "mdanalysis", "length_unit": "nm"},
]


def values_of(frame: int, n_atoms: int = N_ATOMS, dtype: str = "float32") -> NDArray[Any]:
    """Positions from which frame and atom follow."""
    return (frame % 97 + np.arange(n_atoms * 3).reshape(n_atoms, 3) % 331 / 10).astype(dtype)


def owned(frame: int, *, fixed: bool = False) -> NDArray[np.int64]:
    """The atoms that this rank has in a frame, in any order: different atoms in each frame, and sometimes none."""
    if fixed:
        # the last of several ranks has none
        writers = max(1, SIZE - 1)
        mine = np.arange(N_ATOMS)[np.arange(N_ATOMS) // 25 % writers == RANK]
        return np.random.default_rng(frame).permutation(mine)
    rng = np.random.default_rng(frame)
    owner, order = rng.integers(0, SIZE, N_ATOMS), rng.permutation(N_ATOMS)
    if frame % 4 == 1:
        owner[:] = frame % SIZE
    return order[owner[order] == RANK]


def stamps(frame: int) -> dict[str, Any]:
    """Cell, step and time of a frame, on rank 0."""
    return {} if RANK else {"cell": CELL + frame, "step": 100 + 50 * frame, "time": 0.5 + 0.25 * frame}


def write(path: str, strategy: str, flushes: tuple[int, ...] = (), **options: Any) -> None:
    """All frames, by all ranks."""
    dtype = options.get("dtype", "float32")
    with kn.Writer(path, N_ATOMS, comm=COMM, strategy=strategy, **options) as out:
        out.add_observable("energy", unit="kJ mol-1")
        for frame in range(N_FRAMES):
            mine = owned(frame, fixed=strategy == "subfiles")
            values = values_of(frame, dtype=dtype)
            out.write(values[mine], ids=mine, velocities=-values[mine], **stamps(frame))
            out.write_observable("energy", float(frame))
            if frame in flushes:
                out.flush()
                assert out.n_flushed == (0 if options.get("layout") == "contiguous" else frame + 1)
        assert out.n_frames == N_FRAMES


def expected(path: str, **options: Any) -> None:
    """The same by one process."""
    dtype = options.get("dtype", "float32")
    with kn.Writer(path, N_ATOMS, **options) as out:
        out.add_observable("energy", unit="kJ mol-1")
        for frame in range(N_FRAMES):
            values = values_of(frame, dtype=dtype)
            own = {"cell": CELL + frame, "step": 100 + 50 * frame, "time": 0.5 + 0.25 * frame}
            out.write(values, velocities=-values, **own)
            out.write_observable("energy", float(frame))


def contents(path: str) -> dict[str, Any]:
    """Values and attributes of all data sets, steps and times as they are meant."""
    found: dict[str, Any] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and name.rpartition("/")[2] not in ("step", "time"):
            found[name] = node[()], {key: np.asarray(value).tolist() for key, value in node.attrs.items()}

    with h5py.File(path) as file:
        file.visititems(visit)
    trajectory = kn.open(path, stored=False)
    found["steps"], found["times"] = (trajectory.steps, {}), (trajectory.times, {})
    return found


def compare(path: str, reference: str) -> None:
    """Both files hold the same."""
    one, other = contents(path), contents(reference)
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    for name, (values, attributes) in one.items():
        assert np.array_equal(values, other[name][0]), (path, name)
        assert attributes == other[name][1], (path, name, attributes)


def values(numbers: str, *strategies: str) -> None:
    """Strategies give what one process gives, for these storages; also flushed in between, and verified."""
    done = 0
    for number in map(int, numbers):
        options = STORED[number]
        if RANK == 0:
            expected(f"expected{number}.h5md", **options)
        for place, strategy in enumerate(strategies or ("gather", "serial", "subfiles")):
            path, flushes = f"{strategy}{number}.h5md", (4, 9) if (number + place) % 2 else ()
            verify = {"verify": True} if strategy == "gather" and flushes else {}
            write(path, strategy, flushes, **verify, **options)
            if RANK == 0:
                compare(path, f"expected{number}.h5md")
                done += 1
            barrier()
    if RANK == 0:
        print("values", done)


def direct() -> None:
    """Values without chunks are written by all ranks where they belong."""
    options: dict[str, Any] = {"layout": "contiguous", "n_frames": N_FRAMES, "time_unit": "fs"}
    strategies = ("auto", "serial", "mpiio", "mpiio-collective")
    for strategy in strategies:
        write(f"{strategy}.h5md", strategy, (3,) if strategy == "serial" else (), **options)
    if RANK == 0:
        expected("expected.h5md", **options)
        for strategy in strategies:
            compare(f"{strategy}.h5md", "expected.h5md")
    error = raised(kn.ArgumentError, lambda: write("no.h5md", "gather", **options))
    assert "H5MD (contiguous): direct (auto), serial" in str(error)
    if RANK == 0:
        print("direct")


def peers() -> None:
    """MDAnalysis reads what ranks have written."""
    for strategy in ("gather", "subfiles"):
        write(f"{strategy}.h5md", strategy, dialect="mdanalysis", compression="gzip")
    if RANK == 0:
        import MDAnalysis

        for strategy in ("gather", "subfiles"):
            universe = MDAnalysis.Universe.empty(N_ATOMS, trajectory=True)
            universe.load_new(f"{strategy}.h5md")
            assert universe.trajectory.n_frames == N_FRAMES
            for frame in (0, 8, N_FRAMES - 1):
                assert np.array_equal(universe.trajectory[frame].positions, values_of(frame))
                assert np.array_equal(universe.trajectory[frame].velocities, -values_of(frame))
        # moved with its folder
        os.makedirs("other")
        os.rename("subfiles.h5md", "other/subfiles.h5md")
        os.rename("subfiles.h5md.d", "other/subfiles.h5md.d")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert np.array_equal(kn.open("other/subfiles.h5md", stored=False)[3].positions, values_of(3))
        print("peers")


def errors() -> None:
    """Refused arguments raise the same error on all ranks."""
    values_, mine = values_of(0), np.arange(RANK, N_ATOMS, SIZE)
    for strategy in ("gather", "subfiles"):
        with kn.Writer(f"{strategy}.h5md", N_ATOMS, comm=COMM, strategy=strategy) as out:
            twice = np.concatenate([mine, mine[:1]]) if RANK == SIZE - 1 else mine
            error = raised(kn.ArgumentError, lambda ids=twice: out.write(values_[ids], ids=ids))
            assert "is given by rank" in str(error)
            fewer = mine[1:] if RANK == 0 else mine
            error = raised(kn.ArgumentError, lambda ids=fewer: out.write(values_[ids], ids=ids))
            assert "is given by no rank" in str(error)
            out.write(values_[mine], ids=mine, step=10)
            again = raised(kn.ArgumentError, lambda: out.write(values_[mine], ids=mine, step=10))
            assert "step" in str(again)
            if strategy == "subfiles" and SIZE > 1:
                other = np.arange((RANK + 1) % SIZE, N_ATOMS, SIZE)
                moved = raised(kn.ArgumentError, lambda other=other: out.write(values_[other], ids=other, step=20))
                assert "gives other atoms than in the first frame" in str(moved)
            out.write(values_[mine], ids=mine, step=20)
        if RANK == 0:
            trajectory = kn.open(f"{strategy}.h5md", stored=False)
            assert trajectory.steps.tolist() == [10, 20]
            assert np.array_equal(trajectory[1].positions, values_)
    refused = lambda path, **more: raised(kn.ArgumentError, lambda: kn.Writer(path, N_ATOMS, comm=COMM, **more))  # noqa: E731
    assert "choose one of direct, mpiio" in str(refused("no.dcd", verify=True, strategy="serial"))
    assert "no strategy of NetCDF-4 verifies" in str(refused("no.nc", verify=True, netcdf4=True))
    bound = {"max_error": 1e-9, "strategy": "gather"}
    with kn.Writer("bound.h5md", N_ATOMS, comm=COMM, keep_partial=False, **bound) as out:
        wide = values_.astype(np.float64) * 1e6
        assert "within max_error" in str(raised(kn.ArgumentError, lambda: out.write(wide[mine], ids=mine)))
        out.write(values_[mine], ids=mine)
    if not h5py.get_config().mpi:
        for strategy in ("mpiio", "mpiio-collective"):
            missing = raised(
                kn.errors.MissingPackageError, lambda s=strategy: kn.Writer("no.h5md", N_ATOMS, comm=COMM, strategy=s)
            )
            assert "make test-hdf5-mpi" in str(missing)
    assert not os.path.exists("no.h5md")
    if RANK == 0:
        print("errors")


def growth() -> None:
    """A file that grows, and is cut after a step, by ranks and by one process."""
    for number, options in enumerate(STORED[:4]):
        path, dtype = f"grows{number}.h5md", options.get("dtype", "float32")
        at = 0
        for stop, resume in ((5, None), (11, None), (12, 100 + 50 * 6), (N_FRAMES, 100 + 50 * 8 + 49)):
            if resume is not None:
                at = (resume - 100) // 50 + 1
            more = options if at == 0 else {}
            with kn.Writer(path, N_ATOMS, comm=COMM, mode="a", resume_from=resume, buffer_frames=2, **more) as out:
                assert out.n_frames == at, (out.n_frames, at)
                out.add_observable("energy", unit="kJ mol-1")
                for frame in range(at, stop):
                    mine, values_ = owned(frame), values_of(frame, dtype=dtype)
                    out.write(values_[mine], ids=mine, velocities=-values_[mine], **stamps(frame))
                    out.write_observable("energy", float(frame))
                    if frame % 5 == 2:
                        out.flush()
            at = stop
        if RANK == 0:
            expected(f"expected{number}.h5md", **options)
            compare(path, f"expected{number}.h5md")
    nothing = raised(kn.ArgumentError, lambda: kn.Writer("grows0.h5md", comm=COMM, mode="a", resume_from=99))
    assert "no frame has a step that is not greater" in str(nothing)
    if RANK == 0:
        print("growth")


def subfiles_growth() -> None:
    """The same with a file a rank: ranks that have the same atoms continue the files of an earlier run."""
    options = {"layout": (3, 40, 3), "compression": "gzip", "strategy": "subfiles"}
    at = 0
    for stop, resume, mode in ((5, None, "w"), (11, None, "a"), (12, 100 + 50 * 6, "a"), (N_FRAMES, 549, "a")):
        if resume is not None:
            at = (resume - 100) // 50 + 1
        with kn.Writer("a.h5md", N_ATOMS, comm=COMM, mode=mode, resume_from=resume, **options) as out:
            assert out.n_frames == at, (out.n_frames, at)
            out.add_observable("energy", unit="kJ mol-1")
            for frame in range(at, stop):
                mine, values_ = owned(frame, fixed=True), values_of(frame)
                out.write(values_[mine], ids=mine, velocities=-values_[mine], **stamps(frame))
                out.write_observable("energy", float(frame))
                if frame % 5 == 2:
                    out.flush()
                    # readers have it, under the name that it has now
                    barrier()
                    name = "a.h5md" if mode == "a" else next(n for n in os.listdir(".") if n.startswith("a.part-"))
                    assert kn.open(name, stored=False).n_frames == frame + 1
                    barrier()
        at = stop
    if RANK == 0:
        expected("expected.h5md", layout=(3, 40, 3), compression="gzip")
        compare("a.h5md", "expected.h5md")
        assert len(os.listdir("a.h5md.d")) == max(1, SIZE - 1)
    barrier()
    again = lambda **more: kn.Writer("a.h5md", N_ATOMS, comm=COMM, mode="a", **more)  # noqa: E731
    error = raised(kn.Error, lambda: again(strategy="gather"))
    assert "is a virtual data set, continue with strategy='subfiles'" in str(error)
    with again(strategy="subfiles") as out:
        other = np.arange(RANK, N_ATOMS, SIZE)
        moved = raised(
            kn.ArgumentError, lambda: out.write(values_of(0)[other], ids=other, velocities=values_of(0)[other])
        )
        assert SIZE == 1 or "gives atoms that match no file of a.h5md.d" in str(moved)
    with kn.Writer("none.h5md", N_ATOMS, comm=COMM, mode="a", strategy="subfiles") as out:
        out.flush()
    assert not os.path.exists("none.h5md")
    with kn.Writer("b.h5md", N_ATOMS, comm=COMM, mode="a") as out:
        out.write(values_of(0)[other], ids=other)
    error = raised(kn.Error, lambda: kn.Writer("b.h5md", N_ATOMS, comm=COMM, mode="a", strategy="subfiles"))
    assert "is not a virtual data set, continue with strategy='gather'" in str(error)
    barrier()
    if RANK == 0:
        os.rename("a.h5md.d", "gone")
        with contextlib.suppress(kn.errors.FileNotFound):
            kn.open("a.h5md", stored=False)
            raise AssertionError("without the files of the ranks")
        print("growth")


def verified(every: str, *nodes: str) -> None:
    """Values that change between a rank that writes them and the file are found, with the frame and that rank.

    `every`: "every" for all cases, "one" for one of each; `nodes`: the node of each rank, in place of its real
    one.
    """
    found = verification.nodes_of
    if nodes:
        verification.nodes_of = lambda agreement: np.array(list(map(int, nodes)))
    try:
        for number, (strategy, options) in enumerate(verified_cases(every=every == "every")):
            for damaged in (None, 7):
                verify(f"{strategy}{number}-{damaged}.h5md", strategy, damaged, nodes, options)
    finally:
        verification.nodes_of = found
    if RANK == 0:
        print("verified")


def verified_cases(*, every: bool) -> list[tuple[str, dict[str, Any]]]:
    """Strategies with options; or one of each strategy."""
    contiguous = {"layout": "contiguous", "n_frames": VERIFIED}
    chunks = {"layout": (2, 100, 3), "compression": "gzip", "max_error": 0.01, "dtype": "float64"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("gather", {"layout": (2, 300, 3)}),
        ("gather", {**chunks, "compression": "zstd"}),
        ("serial", chunks),
        ("serial", {"buffer_frames": 2}),
        ("subfiles", {}),
        ("subfiles", {**chunks, "layout": (2, 40, 3)}),
        *((strategy, contiguous) for strategy in ("direct", "mpiio", "mpiio-collective")),
    ]
    if h5py.get_config().mpi:
        cases += [("mpiio", {"layout": (2, 300, 3)}), ("mpiio", chunks), ("mpiio-collective", {})]
    return cases if every else list(dict(cases).items())


def verify(path: str, strategy: str, damaged: int | None, nodes: tuple[str, ...], options: dict[str, Any]) -> None:
    """A file that is verified, in which a frame is damaged or none."""
    # tens of atoms together, as of domains: HDF5 has a mapping for each piece of the files of "subfiles"
    mine = np.arange(N_ATOMS)[np.arange(N_ATOMS) // 10 % SIZE == RANK]
    out = kn.Writer(path, N_ATOMS, comm=COMM, strategy=strategy, verify=True, **options)
    if damaged is not None:
        damage(out, damaged)
    for frame in range(VERIFIED):
        out.write(values_of(frame)[mine], ids=mine, step=frame)
        if frame == 4:
            out.flush()
            words = [note for note in out.notes if "verified: " in note]
            assert len(words) == 1 and words[0].endswith(how(nodes)), out.notes
            assert out.timings["verify"] > 0  # type: ignore[attr-defined]
    if damaged is None:
        out.close()
        trajectory = kn.open(path, stored=False)
        assert trajectory.n_frames == VERIFIED
        np.testing.assert_allclose(trajectory[7].positions, values_of(7), atol=0.011)
        barrier()
        return
    error = raised(kn.Error, out.close)
    assert isinstance(error, kn.errors.CorruptFileError), error
    assert error.frame == damaged and "is not as it was written" in str(error), error
    writer = {"gather": damaged // 2 % SIZE, "serial": 0}.get(strategy, SIZE - 1)
    assert f" of rank {writer}, " in str(error) or f" rank {writer} wrote" in str(error), error
    out.abort()
    assert not os.path.exists(path)
    barrier()


def how(nodes: tuple[str, ...]) -> str:
    """Note about the ranks' nodes."""
    where = list(map(int, nodes)) or verification.nodes_of(Agreement(COMM, WriterTimings())).tolist()
    if len(set(where)) == 1:
        return "on this node, after its pages were dropped from the cache"
    # of three ranks on two nodes one has nobody on the other
    return "a rank of another node wrote" if len(set(where)) == SIZE else "after its pages were dropped from the cache"


def damage(out: kn.Writer, frame: int) -> None:
    """A value of a frame that the last rank writes changes when its checksum is known; of "gather" and "serial" that
    rank which writes the frame."""
    added_by = out._file._verification  # type: ignore[attr-defined]
    add, whole = added_by.add, out.strategy in ("gather", "serial")  # type: ignore[attr-defined]
    of_bytes = isinstance(added_by, verification.Verification)

    def added(*arguments: Any) -> None:
        if of_bytes:
            if arguments[0] == frame and RANK == SIZE - 1:
                arguments[2][8:16] ^= 0xFF
                add(*arguments)
                arguments[2][8:16] ^= 0xFF
                return
        elif arguments[0] == "positions" and (whole or RANK == SIZE - 1):
            name, first, prepared, *atoms = arguments
            changed = [np.array(one) for one in prepared]
            if first <= frame < first + len(changed):
                changed[frame - first][5, 1] += 1
            add(name, first, changed, *atoms)
            return
        add(*arguments)

    added_by.add = added


def disk_full() -> None:
    """The disk of one rank alone is full: the same error on all, naming the rank; what was flushed stays."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    mine = np.arange(RANK, N_ATOMS, SIZE)
    cases: list[tuple[str, int, dict[str, Any]]] = [
        ("direct", SIZE - 1, {"layout": "contiguous", "n_frames": 200}),
        ("subfiles", SIZE - 1, {}),
        ("gather", 0, {"compression": "gzip"}),
    ]
    if h5py.get_config().mpi:
        cases = [
            ("mpiio", SIZE - 1, {}),
            ("mpiio", SIZE - 1, {"compression": "gzip", "layout": (2, 100, 3)}),
            ("mpiio-collective", 0, {}),
        ]
    for strategy, full, options in cases:
        out = kn.Writer(
            f"{strategy}.h5md", N_ATOMS, comm=COMM, strategy=strategy, keep_partial=strategy == "gather", **options
        )
        for frame in range(6):
            out.write(values_of(frame)[mine], ids=mine, step=frame)
        out.flush()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if full == RANK:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        found: BaseException | None = None
        try:
            for frame in range(6, 200):
                out.write(values_of(frame)[mine], ids=mine, step=frame)
            out.close()
        except kn.Error as error:
            found = error
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert isinstance(found, kn.errors.FileIOError), (strategy, found)
        everywhere = COMM.allgather((str(found), " ".join(found.__notes__)))
        assert all(one == everywhere[0] for one in everywhere), everywhere
        assert f"on rank {full} " in everywhere[0][1], everywhere
        out.abort()
        assert not os.path.exists(f"{strategy}.h5md"), strategy
        if RANK == 0 and strategy == "gather":
            (left,) = [name for name in os.listdir(".") if name.startswith("gather.part-")]
            trajectory = kn.open(left, stored=False)
            assert trajectory.n_frames >= 6
            for frame in range(trajectory.n_frames):
                assert np.array_equal(trajectory[frame].positions, values_of(frame))
        barrier()
    if RANK == 0:
        print("disk full")


def mpiio_growth() -> None:
    """A file that grows through MPI-IO: also one that other strategies and one process continue."""
    at = 0
    for stop, strategy in ((5, "mpiio"), (7, "mpiio-collective"), (9, "gather"), (N_FRAMES, "mpiio")):
        options = {} if at else {"layout": (3, 100, 3)}
        with kn.Writer("a.h5md", N_ATOMS, comm=COMM, mode="a", strategy=strategy, verify=True, **options) as out:
            assert out.n_frames == at, (out.n_frames, at)
            out.add_observable("energy", unit="kJ mol-1")
            for frame in range(at, stop):
                mine, values_ = owned(frame), values_of(frame)
                out.write(values_[mine], ids=mine, velocities=-values_[mine], **stamps(frame))
                out.write_observable("energy", float(frame))
                if frame % 5 == 2:
                    out.flush()
                    barrier()
                    assert kn.open("a.h5md", stored=False).n_frames == frame + 1
                    barrier()
        at = stop
    if RANK == 0:
        expected("expected.h5md", layout=(3, 100, 3))
        compare("a.h5md", "expected.h5md")
        for name, options in (("plain", {}), ("packed", {"compression": "gzip"})):
            with kn.Writer(f"{name}.h5md", N_ATOMS, **options) as one:
                one.write(values_of(0))
    barrier()
    again = lambda name: kn.Writer(name, N_ATOMS, comm=COMM, mode="a", strategy="mpiio", compression="gzip")  # noqa: E731
    assert "it was not made by 'mpiio'" in str(raised(kn.ArgumentError, lambda: again("plain.h5md")))
    assert "it is compressed" in str(raised(kn.ArgumentError, lambda: again("packed.h5md")))
    mine = np.arange(RANK, N_ATOMS, SIZE)
    out = again("new.h5md")
    assert "it is compressed" in str(raised(kn.ArgumentError, lambda: out.write(values_of(0)[mine], ids=mine)))
    out.abort()
    if RANK == 0:
        print("growth")


def fails_within() -> None:
    """A rank fails within a collective call of HDF5: it raises its error, though the others never come."""
    mpiio._PATIENCE = 1.0
    write_field = mpiio.MpiioFields._write_field

    def failing(self: Any, *arguments: Any) -> None:
        if RANK == SIZE - 1 and self._first >= 4:
            raise OSError("as was to be shown")
        write_field(self, *arguments)

    mpiio.MpiioFields._write_field = failing  # type: ignore[method-assign]
    mine = np.arange(RANK, N_ATOMS, SIZE)
    out = kn.Writer("a.h5md", N_ATOMS, comm=COMM, strategy="mpiio-collective", layout=(2, 100, 3))
    try:
        for frame in range(9):
            out.write(values_of(frame)[mine], ids=mine, step=frame)
    except kn.errors.FileIOError as error:
        os.write(1, f"{error}; {'; '.join(error.__notes__)}\n".encode())
        COMM.Abort(3)


def endless(path: str, compression: str, strategy: str = "auto", mode: str = "a") -> None:
    """Goes on with a file, or makes one, until it is killed; says what is flushed."""
    options: dict[str, Any] = {"strategy": strategy, "mode": mode}
    if mode == "w" or not os.path.exists(path):
        options |= {"compression": compression if compression != "none" else None, "layout": (3, 100, 3)}
    with kn.Writer(path, N_ATOMS, comm=COMM, **options) as out:
        frame = out.n_frames
        while True:
            mine = owned(frame, fixed=strategy == "subfiles")
            out.write(values_of(frame)[mine], ids=mine, **stamps(frame))
            frame += 1
            if frame % 3 == 0:
                out.flush()
                if RANK == 0:
                    os.write(1, f"{frame}\n".encode())


def dies(path: str, rank: str, place: str, calls: str) -> None:
    """As `endless`, until one rank ends itself within a call of "gather"."""
    owner, name = {
        "exchange": (gathered, "whole_vectors"),
        "encode": (gathered.GatheredChunks, "_encoded"),
        "commit": (gathered.GatheredChunks, "_commit"),
        "announce": (Hdf5Writer, "stored"),
        "flush": (H5mdWriter, "flush"),
    }[place]
    call, left = getattr(owner, name), [int(calls)]

    def dying(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)

    if int(rank) == RANK:
        setattr(owner, name, dying)
    endless(path, "zstd")


def raised(kind: type[BaseException], call: Any) -> BaseException:
    """The error of a call, which is the same on all ranks."""
    found: BaseException | None = None
    try:
        call()
    except kind as error:
        found = error
    everywhere = COMM.allgather(None if found is None else str(found))
    assert found is not None, (kind, everywhere)
    assert all(one == everywhere[0] for one in everywhere), everywhere
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore", kn.Note)
    with contextlib.suppress(BrokenPipeError):
        globals()[sys.argv[1]](*sys.argv[2:])
