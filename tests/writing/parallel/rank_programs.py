"""What the ranks of the tests of `kn.Writer(comm=)` run: `mpiexec -n 3 python rank_programs.py NAME [words]`.

Each program writes into the current folder, checks on all ranks, and prints one line on rank 0 when all is well.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import kinema as kn
from kinema.writing.parallel.strategies import strategies_of

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
N_ATOMS = 211
CELL = np.array([[60.0, 0, 0], [5.0, 61.0, 0], [2.0, -3.0, 62.0]])
VECTORS = ("positions", "velocities", "forces")
FIXED = ("direct", "mpiio", "mpiio-collective", "gather", "serial")
NAMES, MASSES, CHARGES = (
    np.array(["OW", "HW1", "NA+", "CLPROTEINX"]),
    [15.9994, 1.008, 22.99, 35.45],
    [-0.8, 0.4, 1, -1],
)
KINDS = np.arange(N_ATOMS) * 7 % 4


def atoms() -> kn.Atoms:
    """A table that DL_POLY's files take."""
    masses, charges = np.array(MASSES)[KINDS], np.array(CHARGES)[KINDS]
    return kn.Atoms(N_ATOMS, names=NAMES[KINDS], masses=masses, charges=charges)


def values_of(frame: int, n_atoms: int = N_ATOMS, dtype: str = "float32") -> NDArray[Any]:
    """Positions from which frame and atom follow."""
    return (frame % 97 + np.arange(n_atoms * 3).reshape(n_atoms, 3) % 331 / 10).astype(dtype)


def owned(frame: int, n_atoms: int = N_ATOMS) -> NDArray[np.int64]:
    """The atoms that this rank has in a frame, in any order: other ones in each, and sometimes none."""
    rng = np.random.default_rng(frame)
    owner, order = rng.integers(0, SIZE, n_atoms), rng.permutation(n_atoms)
    if frame % 4 == 1:
        owner[:] = frame % SIZE
    elif frame % 4 == 2:
        owner[owner == frame % SIZE] = (frame + 1) % SIZE
    return order[owner[order] == RANK]


def stamps(frame: int) -> dict[str, Any]:
    """Of a frame, on the ranks that say it."""
    if RANK and frame % 2:
        return {}
    return {"cell": CELL + frame, "step": 100 + 50 * frame, "time": 0.5 + 0.25 * frame}


def write(out: kn.Writer, frame: int, fields: tuple[str, ...], dtype: str = "float32") -> None:
    """Writes a frame of which each rank has some atoms."""
    mine, values = owned(frame), values_of(frame, dtype=dtype)
    vectors = {name: values[mine] / (1 + number) for number, name in enumerate(VECTORS) if name in fields}
    out.write(vectors.pop("positions", None), ids=mine, **vectors, **stamps(frame))  # type: ignore[call-arg]


def write_whole(out: kn.Writer, frame: int, fields: tuple[str, ...], dtype: str = "float32") -> None:
    """The same frame by one process."""
    values = values_of(frame, dtype=dtype)
    vectors = {name: values / (1 + number) for number, name in enumerate(VECTORS) if name in fields}
    stamp = {"cell": CELL + frame, "step": 100 + 50 * frame, "time": 0.5 + 0.25 * frame}
    out.write(vectors.pop("positions", None), **vectors, **stamp)


def on_root(call: Callable[[], Any]) -> Any:
    """What a call gives on rank 0, on all ranks."""
    return COMM.bcast(call() if RANK == 0 else None)


def raised(kind: type[Exception], call: Callable[[], object]) -> Exception:
    """The error of a call, which is the same on all ranks but for the note with the rank."""
    try:
        call()
    except kind as error:
        told = COMM.allgather((type(error).__name__, str(error)))
        assert len(set(told)) == 1, told
        return error
    raise AssertionError("no error")


# one process and many


CASES: list[tuple[str, str, tuple[str, ...], str, dict[str, Any]]] = [
    ("HISTORY", "DL_POLY HISTORY", VECTORS, "float64", {"title": "a title", "atoms": True}),
    ("history", "DL_POLY HISTORY", VECTORS[:1], "float32", {}),
    ("CONFIG", "DL_POLY CONFIG", VECTORS[:2], "float64", {"atoms": True}),
    ("dcd", "DCD", VECTORS[:1], "float32", {}),
    ("dcd", "DCD", ("velocities",), "float64", {"fields": "velocities"}),
    ("nc", "NetCDF", VECTORS, "float32", {}),
    ("nc", "NetCDF", ("positions", "forces"), "float64", {}),
    ("trr", "TRR", VECTORS, "float64", {"dtype": "float64"}),
    ("trr", "TRR", VECTORS[:2], "float32", {}),
    ("xtc", "XTC", VECTORS[:1], "float32", {"precision": 500}),
]


def options_of(options: dict[str, Any], *, one: bool) -> dict[str, Any]:
    """Of the writer of one process, or of many, of which rank 0 alone has the atoms."""
    made = dict(options)
    if made.pop("atoms", False) and (one or RANK == 0):
        made["atoms"] = atoms()
    return made


def same_bytes() -> None:
    """Files of one process and of many have the same bytes: all strategies, orders of atoms that come, batches."""
    hints = [None, {"cb_nodes": 2, "cb_buffer_size": 4096}, {"cb_nodes": 1}]
    tried = 0
    for suffix, format, fields, dtype, options in CASES:
        n_frames = 1 if suffix == "CONFIG" else 7
        expected = Path(f"one.{suffix}" if suffix.islower() else f"one/{suffix}")
        made = Path(f"many.{suffix}" if suffix.islower() else f"many/{suffix}")
        if RANK == 0:
            expected.parent.mkdir(exist_ok=True)
            made.parent.mkdir(exist_ok=True)
            with kn.Writer(expected, N_ATOMS, overwrite=True, **options_of(options, one=True)) as one:
                for frame in range(n_frames):
                    write_whole(one, frame, fields, dtype)
        COMM.barrier()
        for strategy in strategies_of(format):
            for number, buffered in enumerate((None, 3)):
                given = {**options_of(options, one=False), "hints": hints[(tried + number) % 3]}
                with kn.Writer(
                    made, N_ATOMS if RANK == 0 else None, comm=COMM, strategy=strategy, buffer_frames=buffered,
                    overwrite=True, **given,
                ) as many:  # fmt: skip
                    for frame in range(n_frames):
                        write(many, frame, fields, dtype)
                        assert many.n_frames == frame + 1
                # each frame of a TRR file has its own
                found = (many.n_frames, many.n_flushed, fields if suffix == "trr" else many.fields)
                assert found == (n_frames, n_frames, fields), (made, strategy, found)
                assert len(set(COMM.allgather((tuple(many.notes), many.losses)))) == 1
                if RANK == 0:
                    assert made.read_bytes() == expected.read_bytes(), (made, strategy, buffered)
                    assert set(many.losses) >= {loss.replace("one", "many", 1) for loss in one.losses}, many.losses
                tried += 1
    if RANK == 0:
        assert not list(Path().glob("**/*.part-*"))
        print("same bytes", tried)


def given_order() -> None:
    """Atoms in the order in which they come: each with its index, those of each rank behind those of the ranks before."""
    tried = 0
    for strategy in ("direct", "mpiio", "mpiio-collective"):
        for buffered in (None, 2):
            made = f"{strategy}{buffered}.history"
            options = {"atoms": atoms() if RANK == 0 else None, "hints": {"cb_buffer_size": 4096}}
            with kn.Writer(
                made, N_ATOMS, comm=COMM, strategy=strategy, order="given", buffer_frames=buffered, **options
            ) as many:
                for frame in range(5):
                    write(many, frame, VECTORS[:2])
            orders = [np.concatenate(COMM.allgather(owned(frame))) for frame in range(5)]
            if RANK == 0:
                with kn.Writer("one.history", N_ATOMS, overwrite=True, atoms=atoms()) as one:
                    for frame in range(5):
                        write_whole(one, frame, VECTORS[:2])
                assert Path(made).read_bytes() == reordered(Path("one.history").read_bytes(), orders)
                tried += 1
    error = raised(kn.ArgumentError, lambda: kn.Writer("a.dcd", N_ATOMS, comm=COMM, order="given"))
    assert "order='given' is for DL_POLY HISTORY and DL_POLY CONFIG" in str(error)
    if RANK == 0:
        print("given order", tried)


def reordered(file: bytes, orders: list[NDArray[np.int64]]) -> bytes:
    """A HISTORY file whose atoms are in another order in each frame."""
    lines = file.splitlines(keepends=True)
    per_frame, made = 4 + 3 * N_ATOMS, lines[:2]
    for frame, order in enumerate(orders):
        here = lines[2 + frame * per_frame : 2 + (frame + 1) * per_frame]
        made += here[:4]
        for atom in order.tolist():
            made += here[4 + 3 * atom : 7 + 3 * atom]
    return b"".join(made)


def many_frames() -> None:
    """Thousands of frames, and what reference libraries read of them."""
    longest = int(sys.argv[2])
    for suffix, n_frames in (("dcd", longest), ("nc", longest // 10), ("xtc", longest // 10)):
        with kn.Writer(f"long.{suffix}", N_ATOMS, comm=COMM, buffer_frames=50) as out:
            for frame in range(n_frames):
                mine = np.arange((RANK + frame) % SIZE, N_ATOMS, SIZE)
                out.write(values_of(frame)[mine], ids=mine, cell=[90, 91, 92], step=10 * frame, time=0.5 * frame)
                if frame == n_frames // 2:
                    out.flush()
                    assert out.n_flushed == frame + 1
    if RANK == 0:
        read_back(longest)
        print("many frames", longest)


def read_back(longest: int) -> None:
    """MDAnalysis and scipy find each frame."""
    from MDAnalysis.coordinates.DCD import DCDReader
    from MDAnalysis.coordinates.XTC import XTCReader
    from scipy.io import netcdf_file

    for reader, name, n_frames in ((DCDReader, "long.dcd", longest), (XTCReader, "long.xtc", longest // 10)):
        with reader(name) as opened:
            assert len(opened) == n_frames
            for ts in opened:
                np.testing.assert_allclose(ts.positions, values_of(ts.frame), atol=6e-3)
    with netcdf_file("long.nc", mmap=False) as file:
        assert file.variables["coordinates"].shape == (longest // 10, N_ATOMS, 3)
        for frame in range(longest // 10):
            np.testing.assert_array_equal(file.variables["coordinates"][frame], values_of(frame))


# failing


def wrong_atoms() -> None:
    """Atoms that are missing, given twice or beyond the system: the same error on all ranks; the writer stays usable."""
    last = SIZE - 1
    cases: list[tuple[str, Callable[[NDArray[np.int64]], NDArray[np.int64]], str]] = [
        ("twice", lambda mine: np.append(mine, mine[0]), f"atom {last} is given by rank {last} twice"),
        ("missing", lambda mine: mine[1:], f"atom {last} is given by no rank"),
        ("beyond", lambda mine: np.append(mine, N_ATOMS), f"rank {last} gives atom {N_ATOMS}, expected numbers from 0"),
        ("below", lambda mine: np.append(mine, -3), f"rank {last} gives atom -3, expected numbers from 0"),
    ]
    if SIZE > 1:
        cases.append(("others", lambda mine: np.append(mine, 0), f"atom 0 is given by ranks 0 and {last}"))
    for suffix in ("dcd", "nc", "trr", "xtc", "history", "h5md"):
        format = {"dcd": "DCD", "nc": "NetCDF", "trr": "TRR", "xtc": "XTC", "h5md": "H5MD"}.get(
            suffix, "DL_POLY HISTORY"
        )
        for strategy in strategies_of(format):
            if strategy == "subfiles":
                continue
            name = f"wrong-{strategy}.{suffix}"
            with kn.Writer(name, N_ATOMS, comm=COMM, strategy=strategy) as out:
                for frame, (_, change, words) in enumerate(cases):
                    mine = np.arange(RANK, N_ATOMS, SIZE)
                    wrong = change(mine) if last == RANK else mine
                    values = values_of(frame)[wrong.clip(0, N_ATOMS - 1)]
                    error = raised(kn.ArgumentError, lambda w=wrong, v=values: out.write(v, ids=w, **stamps(0)))  # type: ignore[misc]
                    assert words in str(error), (words, str(error))
                    assert "on rank" in "".join(error.__notes__)
                    assert out.n_frames == frame
                    out.write(values_of(frame)[mine], ids=mine, **stamps(frame))  # type: ignore[call-arg]
            if RANK == 0:
                trajectory = kn.open(name, stored=False)
                trajectory.scan()
                assert trajectory.n_frames == len(cases)
                for frame in range(len(cases)):
                    np.testing.assert_allclose(trajectory[frame].positions, values_of(frame), atol=6e-3)
    if RANK == 0:
        print("wrong atoms", len(cases))


def wrong_arguments() -> None:
    """What is wrong, or differs between ranks, is the same error on all of them, and leaves no file."""
    last, mine = SIZE - 1, np.arange(RANK, N_ATOMS, SIZE)

    def refused(words: str, *args: Any, **options: Any) -> None:
        error = raised(Exception, lambda: kn.Writer(*args, **{"comm": COMM, **options}))
        assert isinstance(error, kn.Error) and words in str(error), str(error)

    refused("comm must be an intracommunicator", "a.dcd", N_ATOMS, comm="none")
    refused("comm must be an intracommunicator", "a.dcd", N_ATOMS, comm=MPI.COMM_NULL)
    refused("XTC has no strategy 'direct' with atoms over ranks", "a.xtc", N_ATOMS, strategy="direct")
    refused("the table is: DL_POLY HISTORY", "a.xtc", N_ATOMS, strategy="direct")
    refused("strategy must be one of 'auto', 'serial'", "a.dcd", N_ATOMS, strategy="nonsense")
    refused("no hint 'cb_node'", "a.dcd", N_ATOMS, hints={"cb_node": 2})
    refused("hint cb_nodes is a whole number from 1", "a.dcd", N_ATOMS, hints={"cb_nodes": "many"})
    refused("order must be 'sorted' or 'given'", "a.dcd", N_ATOMS, order="none")
    refused("buffer_frames is a whole number from 1 on", "a.dcd", N_ATOMS, buffer_frames=0)
    refused("buffer_frames is a number from 1 to 1024", "a.dcd", N_ATOMS, buffer_frames=1025)
    refused("resume_from= is for mode='a'", "a.dcd", N_ATOMS, resume_from=3)
    refused("DCD has no option precision=", "a.dcd", N_ATOMS, precision=3)
    refused("n_atoms is needed", "a.dcd")
    refused("its folder does not exist", "none/a.dcd", N_ATOMS)
    if SIZE > 1:
        refused("n_atoms= differs between ranks", "a.dcd", N_ATOMS + (last == RANK))
        refused("path= differs between ranks", f"a{int(last == RANK)}.dcd", N_ATOMS)
        refused("strategy= differs between ranks", "a.dcd", N_ATOMS, strategy="serial" if last == RANK else "direct")
        refused("hints= differs", "a.dcd", N_ATOMS, strategy="mpiio", hints={"cb_nodes": 1 + (last == RANK)})
    assert on_root(lambda: os.listdir(".")) == []

    with kn.Writer("a.dcd", N_ATOMS, comm=COMM) as out:
        values = values_of(0)[mine]
        for words, args, options in wrong_frames(values, mine, last):
            error = raised(kn.ArgumentError, lambda a=args, o=options: out.write(*a, **o))  # type: ignore[misc]
            assert words in str(error), str(error)
        out.write(values, ids=mine)
        if SIZE > 1:
            error = raised(kn.ArgumentError, lambda: out.flush() if last == RANK else out.write(values, ids=mine))
            assert f"ranks call different methods, expected write as on rank 0, found flush on rank {last}" in str(
                error
            )
        assert out.n_frames == 1
    # one writer at a time, also where it is this very process
    with kn.Writer("b.dcd", N_ATOMS, comm=COMM):
        assert "is being written by this process" in str(
            raised(kn.ArgumentError, lambda: kn.Writer("b.dcd", 3, comm=COMM))
        )
    assert COMM.allreduce(1) == SIZE
    if RANK == 0:
        assert os.listdir(".") == ["a.dcd"], os.listdir(".")
        print("wrong arguments")


def wrong_frames(
    values: NDArray[Any], mine: NDArray[np.int64], last: int
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Frames that are refused, with words of the error."""
    mark = last == RANK
    yield "each rank says which atoms it gives", (values,), {} if mark else {"ids": mine}
    yield "ids are whole numbers", (values,), {"ids": mine.astype(float) if mark else mine}
    yield "expected (", (values[:, :2] if mark else values,), {"ids": mine}
    yield "positions have shape (1, ", (values_of(0)[None] if mark else values,), {"ids": mine}
    yield "positions have type", (values.astype(str) if mark else values,), {"ids": mine}
    yield "no field is given", (None if mark else values,), {"ids": mine}
    yield "step has values that are not whole", (values,), {"ids": mine, "step": 0.5 if mark else 1}
    if SIZE > 1:
        different = f"expected 7 as on rank 0, found 8 on rank {last}"
        yield f"step differs between ranks, {different}", (values,), {"ids": mine, "step": 7 + mark}
        yield "time differs between ranks", (values,), {"ids": mine, "time": 7.0 + mark}
        yield "cell differs between ranks", (values,), {"ids": mine, "cell": [7.0 + mark] * 3}
        yield f"step differs between ranks, expected none as on rank 0, found 8 on rank {last}", (values,), {
            "ids": mine, **({"step": 8} if mark else {}),
        }  # fmt: skip
        more = {"velocities": values} if mark else {}
        yield f"rank {last} gives positions, velocities, expected positions", (values,), {"ids": mine, **more}


def left_block() -> None:
    """An exception in the block: on all ranks what was taken is flushed; on one the others get its error in their next call."""
    mine = np.arange(RANK, N_ATOMS, SIZE)
    for everywhere in (True, False):
        name = f"left{everywhere}.dcd"
        caught: BaseException | None = None
        try:
            with kn.Writer(name, N_ATOMS, comm=COMM, buffer_frames=2) as out:
                for frame in range(4):
                    out.write(values_of(frame)[mine], ids=mine)
                out.flush()
                out.write(values_of(4)[mine], ids=mine)
                if everywhere or RANK == SIZE - 1:
                    raise ZeroDivisionError("of the simulation")
                out.write(values_of(5)[mine], ids=mine)
        except ZeroDivisionError as error:
            caught = error
        assert caught is not None and "of the simulation" in str(caught)
        if RANK == 0:
            (left,) = Path().glob(f"left{everywhere}.part-*")
            assert any("frames are in" in note for note in caught.__notes__)
            expected = 5 if everywhere or SIZE == 1 else 4
            assert out.n_flushed == expected
            trajectory = kn.open(left, stored=False)
            trajectory.scan()
            # the frame that was taken and not flushed may be whole
            assert trajectory.n_frames >= expected
            for frame in range(trajectory.n_frames):
                np.testing.assert_array_equal(trajectory[frame].positions, values_of(frame))
        COMM.barrier()
    if RANK == 0:
        print("left block")


def disk_full() -> None:
    """The disk of one rank alone is full: the same error on all, naming the rank; what was flushed stays."""
    import resource
    import signal

    last, mine = SIZE - 1, np.arange(RANK, N_ATOMS, SIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for suffix, strategy in (
        ("dcd", "direct"),
        ("nc", "direct"),
        ("history", "gather"),
        ("xtc", "gather"),
        ("trr", "direct"),
    ):
        for buffered in (None, 4):
            name = f"full-{strategy}-{buffered}.{suffix}"
            with_error = None
            out = kn.Writer(
                name, N_ATOMS, comm=COMM, strategy=strategy, buffer_frames=buffered, hints={"cb_nodes": SIZE}
            )
            for frame in range(6):
                out.write(values_of(frame)[mine], ids=mine, **stamps(0))  # type: ignore[call-arg]
            out.flush()
            size = on_root(lambda s=suffix: next(Path().glob(f"full-*.part-*.{s}")).stat().st_size)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            if last == RANK:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            try:
                for frame in range(6, 60):
                    out.write(values_of(frame)[mine], ids=mine, **stamps(0))  # type: ignore[call-arg]
            except kn.Error as error:
                with_error = error
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert isinstance(with_error, kn.errors.FileIOError), with_error
            told = COMM.allgather((str(with_error), with_error.__notes__))
            assert all(one == told[0] for one in told), told
            assert "cannot write the file: file too large" in str(with_error)
            assert f"on rank {last} " in "".join(with_error.__notes__)
            assert "an earlier error broke the writer" in str(
                raised(kn.ArgumentError, lambda: out.write(mine, ids=mine))
            )
            raised(kn.ArgumentError, out.close)
            if RANK == 0:
                (left,) = Path().glob(f"full-{strategy}-{buffered}.part-*")
                trajectory = kn.open(left, stored=False)
                trajectory.scan()
                assert trajectory.n_frames >= 6, trajectory.n_frames
                for frame in range(trajectory.n_frames):
                    np.testing.assert_allclose(trajectory[frame].positions, values_of(frame), atol=6e-3)
                left.unlink()
            COMM.barrier()
    if RANK == 0:
        print("disk full")


def verified() -> None:
    """NULs that come into a file are found, with file, frame, byte and the rank that wrote them."""
    mine = np.arange(RANK, N_ATOMS, SIZE)
    for suffix, strategy in (("history", "direct"), ("dcd", "mpiio"), ("nc", "gather"), ("xtc", "gather")):
        name = f"verified-{suffix}-{strategy}.{suffix}"
        with kn.Writer(name, N_ATOMS, comm=COMM, strategy=strategy, verify=True, hints={"cb_nodes": SIZE}) as out:
            for frame in range(2 * SIZE):
                out.write(values_of(frame)[mine], ids=mine, **stamps(0))  # type: ignore[call-arg]
        assert any("verified: " in note for note in out.notes), out.notes
        assert out.timings["verify"] > 0  # type: ignore[attr-defined]
        out = kn.Writer(f"nul-{name}", N_ATOMS, comm=COMM, strategy=strategy, verify=True, hints={"cb_nodes": SIZE})
        for frame in range(2 * SIZE):
            out.write(values_of(frame)[mine], ids=mine, **stamps(0))  # type: ignore[call-arg]
        if RANK == 0:
            (part,) = Path().glob(f"nul-{Path(name).stem}.part-*")
            byte = part.stat().st_size * 2 // 3
            with open(part, "r+b") as file:
                file.seek(byte)
                file.write(bytes(100))
        error = raised(kn.Error, out.flush)
        assert isinstance(error, kn.errors.CorruptFileError), error
        assert error.format == out.format and error.frame is not None and "wrote from byte" in str(error)
        assert "NULs" in str(error) and str(error).startswith(f"nul-{name}: "), str(error)
        if RANK == 0 and suffix == "history":
            assert error.offset == byte, (error.offset, byte)
        raised(kn.ArgumentError, out.close)
    if RANK == 0:
        print("verified")


# files that grow


def appended() -> None:
    """mode="a" in several runs of ranks and of one process gives the bytes of one run."""
    for suffix, strategy in (
        ("dcd", "direct"), ("nc", "mpiio-collective"), ("trr", "direct"), ("history", "direct"), ("xtc", "gather"),
        ("history", "serial"), ("trr", "gather"), ("h5md", "serial"),
    ):  # fmt: skip
        name, start = f"{strategy}.{suffix}", 0
        table = atoms() if RANK == 0 and suffix == "history" else None
        for number, n_frames in enumerate((2, 3, 4)):
            options = {"atoms": table} if suffix == "history" and number == 0 else {}
            with kn.Writer(
                name, N_ATOMS if number == 0 else None, mode="a", comm=COMM, strategy=strategy, **options
            ) as out:
                assert (out.n_frames, out.n_flushed, out.n_atoms) == (start, start, N_ATOMS)
                for frame in range(start, start + n_frames):
                    write(out, frame, VECTORS[:1])
                out.flush()
            start += n_frames
        if RANK == 0 and suffix != "h5md":
            options = {"atoms": table} if suffix == "history" else {}
            with kn.Writer(f"one.{suffix}", N_ATOMS, overwrite=True, **options) as one:
                for frame in range(start):
                    write_whole(one, frame, VECTORS[:1])
            assert Path(name).read_bytes() == Path(f"one.{suffix}").read_bytes(), name
        elif RANK == 0:
            assert kn.open(name, stored=False).n_frames == start
        COMM.barrier()
    # a file that was begun otherwise is refused, unchanged
    before = on_root(lambda: Path("direct.history").read_bytes())
    out = kn.Writer("direct.history", mode="a", comm=COMM, title="another")
    error = raised(kn.ArgumentError, lambda: write(out, 9, VECTORS[:1]))
    assert "of the head is not what this writer makes" in str(error), error
    out.close()
    assert on_root(lambda: Path("direct.history").read_bytes()) == before
    if RANK == 0:
        print("appended")


def killed() -> None:
    """Writes until it is killed, and says which frames are flushed."""
    name, strategy, mode = sys.argv[2:5]
    mine = np.arange(RANK, N_ATOMS, SIZE)
    os.write(1, f"rank {os.getpid()}\n".encode())
    with kn.Writer(name, N_ATOMS, comm=COMM, strategy=strategy, mode=mode, buffer_frames=3) as out:  # type: ignore[arg-type]
        frame = out.n_frames
        while True:
            out.write(values_of(frame)[mine], ids=mine, cell=CELL, step=10 * frame, time=0.5 * frame)
            frame += 1
            if frame % 5 == 0:
                out.flush()
                if RANK == 0:
                    os.write(1, f"flushed {out.n_flushed}\n".encode())


PROGRAMS = (
    same_bytes, given_order, many_frames, wrong_atoms, wrong_arguments, left_block, disk_full, verified, appended, killed,
)  # fmt: skip

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {program.__name__: program for program in PROGRAMS}[sys.argv[1]]()
