"""Programs of ranks that fail, which `test_parallel_writer.py` calls on all ranks.

Each writes into the current folder, checks on all ranks, and prints one line on rank 0 when all is well.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from rank_common import COMM, N_ATOMS, RANK, SIZE, barrier, call_on_root, exchange_by, raised, stamps, values_of

import kinema as kn
from kinema.formats.strategies import strategies_of
from kinema.parallel import agreement
from kinema.parallel import writer as parallel_writer
from kinema.parallel.placers import FilePlacer

PARALLEL_HDF5 = h5py.get_config().mpi

# failing


def wrong_atoms() -> None:
    """Atoms that are missing, given twice or beyond the system: an error on all ranks; the writer stays usable."""
    last = SIZE - 1
    cases: list[tuple[str, Callable[[NDArray[np.int64]], NDArray[np.int64]], str]] = [
        ("twice", lambda mine: np.append(mine, mine[0]), f"atom {last} is given by rank {last} twice"),
        ("instead", lambda mine: np.append(mine[:-1], mine[0]), f"atom {last} is given by rank {last} twice"),
        ("missing", lambda mine: mine[1:], f"atom {last} is given by no rank"),
        ("beyond", lambda mine: np.append(mine, N_ATOMS), f"rank {last} gives atom {N_ATOMS}, expected numbers from 0"),
        ("below", lambda mine: np.append(mine, -3), f"rank {last} gives atom -3, expected numbers from 0"),
    ]
    if SIZE > 1:
        cases.append(("others", lambda mine: np.append(mine, 0), f"atom 0 is given by ranks 0 and {last}"))
    tried = 0
    for suffix in ("dcd", "nc", "trr", "xtc", "history", "h5md"):
        known = {"dcd": "DCD", "nc": "NetCDF", "trr": "TRR", "xtc": "XTC", "h5md": "H5MD", "history": "DL_POLY HISTORY"}
        for strategy in strategies_of(known[suffix]):
            if strategy == "subfiles" or (suffix == "h5md" and strategy.startswith("mpiio") and not PARALLEL_HDF5):
                continue
            name = f"wrong-{strategy}.{suffix}"
            exchange_by(tried)
            tried += 1
            with kn.Writer(name, N_ATOMS, comm=COMM, strategy=strategy) as out:
                for frame, (_, change, words) in enumerate(cases):
                    mine = np.arange(RANK, N_ATOMS, SIZE)
                    wrong = change(mine) if last == RANK else mine
                    values = values_of(frame)[wrong.clip(0, N_ATOMS - 1)]
                    error = raised(
                        kn.ArgumentError, lambda w=wrong, v=values, f=frame: out.write(v, ids=w, **stamps(f))
                    )  # type: ignore[misc]
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
    exchange_by(0)
    if RANK == 0:
        print("wrong atoms", len(cases))


def wrong_arguments() -> None:
    """Wrong arguments, or arguments that differ between ranks, give the same error on all ranks, and leave no file."""
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
    assert call_on_root(lambda: os.listdir(".")) == []

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
    # one writer at a time, also if this very process has the other
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
    """An exception in the block: on all ranks what was taken is flushed; on one the others get its error as well."""
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
        barrier()
    if RANK == 0:
        print("left block")


def left_for_good() -> None:
    """The others get the error of a rank that is long gone when they call the writer again, each at another time."""
    mine, last = np.arange(RANK, N_ATOMS, SIZE), SIZE - 1
    patience = parallel_writer._FAREWELL, agreement._LAST_WORD
    parallel_writer._FAREWELL = agreement._LAST_WORD = 0.2
    try:
        leave(mine, last)
    finally:
        parallel_writer._FAREWELL, agreement._LAST_WORD = patience
    # the program's own communicator is as it was
    with kn.Writer("next.dcd", N_ATOMS, comm=COMM) as out:
        out.write(values_of(0)[mine], ids=mine)
    if RANK == 0:
        print("left for good", len(list(Path().glob("gone*.part-*"))))


def leave(mine: NDArray[np.int64], last: int) -> None:
    """The last rank fails, with an error of a short and of a long text."""
    for size in (1, 100_000):
        with_error: BaseException | None = None
        try:
            with kn.Writer(f"gone{size}.dcd", N_ATOMS, comm=COMM) as out:
                out.write(values_of(0)[mine], ids=mine)
                out.flush()
                if last == RANK:
                    raise ZeroDivisionError("of the simulation" + size * ".")
                time.sleep(0.5 * RANK)
                out.write(values_of(1)[mine], ids=mine)
        except (ZeroDivisionError, kn.errors.CancelledError) as error:
            # of a long text the first part is enough
            assert size > agreement._SHORT or isinstance(error, ZeroDivisionError)
            with_error = error
        assert with_error is not None and "of the simulation" in str(with_error)


@contextmanager
def slow_writes() -> Iterator[None]:
    """Each write into a file takes 20 ms longer."""
    write_at = FilePlacer.write_at

    def written(placer: FilePlacer, offset: int, data: Any) -> None:
        time.sleep(0.02)
        write_at(placer, offset, data)

    with mock.patch.object(FilePlacer, "write_at", written):
        yield


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
            size = call_on_root(lambda s=suffix: next(Path().glob(f"full-*.part-*.{s}")).stat().st_size)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            if last == RANK:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            try:
                # the other rank still writes when this one has failed
                with slow_writes() if RANK != last and buffered else nullcontext():
                    for frame in range(6, 60):
                        out.write(values_of(frame)[mine], ids=mine, **stamps(0))  # type: ignore[call-arg]
            except kn.Error as error:
                with_error = error
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert isinstance(with_error, kn.errors.FileIOError), with_error
            errors = COMM.allgather((str(with_error), with_error.__notes__))
            assert all(one == errors[0] for one in errors), errors
            assert "cannot write the file: file too large" in str(with_error)
            assert f"on rank {last} " in "".join(with_error.__notes__)
            broken = raised(kn.ArgumentError, lambda o=out: o.write(mine, ids=mine))  # type: ignore[misc]
            assert "an earlier error broke the writer" in str(broken)
            raised(kn.ArgumentError, out.close)
            if RANK == 0:
                (left,) = Path().glob(f"full-{strategy}-{buffered}.part-*")
                trajectory = kn.open(left, stored=False)
                trajectory.scan()
                assert trajectory.n_frames >= 6, trajectory.n_frames
                for frame in range(trajectory.n_frames):
                    np.testing.assert_allclose(trajectory[frame].positions, values_of(frame), atol=6e-3)
                left.unlink()
            barrier()
    if RANK == 0:
        print("disk full")


def not_committed() -> None:
    """Rank 0 cannot write while threads of other ranks do: after the cut nothing is added to the file."""
    mine, write_at = np.arange(RANK, N_ATOMS, SIZE), FilePlacer.write_at
    for suffix, announces in (("dcd", False), ("nc", False), ("trr", True)):
        tried = 0

        def failing(placer: FilePlacer, offset: int, data: Any, announces: bool = announces) -> None:
            nonlocal tried
            if threading.current_thread() is threading.main_thread() and (bytes(data[:4]) == b"KINE") == announces:
                tried += 1
                # frames are in the threads when the third one is announced
                if tried > 2 or not announces:
                    raise kn.errors.FileIOError("the storage is gone")
            write_at(placer, offset, data)

        out = kn.Writer(
            f"gone-{suffix}.{suffix}", N_ATOMS, comm=COMM, strategy="direct", buffer_frames=4, hints={"cb_nodes": SIZE}
        )

        def write(frames: range, out: kn.Writer = out) -> None:
            for frame in frames:
                out.write(values_of(frame)[mine], ids=mine, **stamps(0))  # type: ignore[call-arg]

        sizes = []
        for frame in range(3):
            write(range(frame, frame + 1))
            out.flush()
            (left,) = Path().glob(f"gone-{suffix}.part-*")
            sizes.append(left.stat().st_size)
            barrier()
        with slow_writes() if RANK else mock.patch.object(FilePlacer, "write_at", failing):
            error = raised(kn.errors.FileIOError, lambda: write(range(3, 40)))
            out.abort()
        assert "the storage is gone" in str(error) and "on rank 0 " in "".join(error.__notes__)
        barrier()
        trajectory = kn.open(left, stored=False)
        trajectory.scan()
        assert left.stat().st_size == sizes[-1] + (trajectory.n_frames - 3) * (sizes[-1] - sizes[-2])
        for frame in range(trajectory.n_frames):
            np.testing.assert_allclose(trajectory[frame].positions, values_of(frame), atol=6e-3)
        barrier()
    if RANK == 0:
        print("not committed")


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
