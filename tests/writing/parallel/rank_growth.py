"""Programs of ranks on files that grow, which `test_parallel_writer.py` calls on all ranks.

Each writes into the current folder, checks on all ranks, and prints one line on rank 0 when all is well. `killed` runs
until its process is killed: `mpiexec -n 3 python -m mpi4py rank_growth.py FILE STRATEGY MODE`.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
from rank_common import CELL, COMM, N_ATOMS, RANK, SIZE, VECTORS, atoms, barrier, raised, values_of, write, write_whole

import kinema as kn

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
                    if RANK == 0 and out.n_flushed:
                        assert kn.open(name, stored=False).n_frames >= out.n_flushed, (name, frame)
                    barrier()
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
        barrier()
    if RANK == 0:
        print("appended")


def resumed() -> None:
    """A restart from a step: the file is cut after the last frame that is not later, and grows to the same bytes."""
    for suffix, strategy in (
        ("dcd", "direct"),
        ("trr", "mpiio"),
        ("history", "direct"),
        ("xtc", "gather"),
        ("xtc", "serial"),
    ):
        name = f"resumed-{strategy}.{suffix}"
        for start, n_frames, step in ((0, 7, None), (3, 4, 249), (1, 5, 100), (6, 1, 10_000)):
            start = COMM.bcast(kn.open(name, stored=False).n_frames if RANK == 0 else 0) if step == 10_000 else start
            options = {"mode": "a", "resume_from": step} if step is not None else {}
            with kn.Writer(name, N_ATOMS, comm=COMM, strategy=strategy, **options) as out:
                assert (out.n_frames, out.n_flushed) == (start, start), (out.n_frames, start)
                for frame in range(start, start + n_frames):
                    write(out, frame, VECTORS[:1])
        if RANK == 0:
            with kn.Writer(f"one.{suffix}", N_ATOMS, overwrite=True) as one:
                for frame in range(start + n_frames):
                    write_whole(one, frame, VECTORS[:1])
            assert Path(name).read_bytes() == Path(f"one.{suffix}").read_bytes(), name
        barrier()
        error = raised(kn.ArgumentError, lambda n=name: kn.Writer(n, mode="a", comm=COMM, resume_from=99))  # type: ignore[misc]
        assert "no frame with a step of 99 or less, the first frame has step 100" in str(error), error
    error = raised(kn.ArgumentError, lambda: kn.Writer("none.dcd", N_ATOMS, mode="a", comm=COMM, resume_from=99))
    assert "resume_from= is for mode='a' and a file that is there" in str(error)
    if RANK == 0:
        print("resumed")


def killed() -> None:
    """Writes until it is killed, and says which frames are flushed."""
    name, strategy, mode = sys.argv[1:4]
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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    killed()
