"""Programs of ranks on the bytes of files, which `test_parallel_writer.py` calls on all ranks.

Each writes into the current folder, checks on all ranks, and prints one line on rank 0 when all is well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rank_common import (
    COMM,
    N_ATOMS,
    RANK,
    SIZE,
    VECTORS,
    atoms,
    barrier,
    exchange_by,
    owned,
    raised,
    values_of,
    write,
    write_whole,
)

import kinema as kn
from kinema.formats.strategies import strategies_of

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
    """Options of the writer of one process, or of many if only rank 0 has the atoms."""
    made = dict(options)
    if made.pop("atoms", False) and (one or RANK == 0):
        made["atoms"] = atoms()
    return made


def same_bytes(turn: str = "") -> None:
    """Files of one process and of many have the same bytes: all strategies, orders of atoms that come, batches.

    `turn`: "0" or "1" for half of the batches, of each case and strategy one.
    """
    hints = [None, {"cb_nodes": 2, "cb_buffer_size": 4096}, {"cb_nodes": 1}]
    tried = done = 0
    for suffix, name, fields, dtype, options in CASES:
        # each way of `owned` occurs, and a batch that is not full
        n_frames = 1 if suffix == "CONFIG" else 5
        expected = Path(f"one.{suffix}" if suffix.islower() else f"one/{suffix}")
        made = Path(f"many.{suffix}" if suffix.islower() else f"many/{suffix}")
        if RANK == 0:
            expected.parent.mkdir(exist_ok=True)
            made.parent.mkdir(exist_ok=True)
            with kn.Writer(expected, N_ATOMS, overwrite=True, **options_of(options, one=True)) as one:
                for frame in range(n_frames):
                    write_whole(one, frame, fields, dtype)
        barrier()
        for strategy in strategies_of(name):
            for number, buffered in enumerate((None, 3)):
                if turn and (tried // 2 + number) % 2 != int(turn):
                    tried += 1
                    continue
                exchange_by(tried // 2 + number)
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
                    check_index(made, suffix in ("trr", "xtc"))
                    assert set(many.losses) >= {loss.replace("one", "many", 1) for loss in one.losses}, many.losses
                tried += 1
                done += 1
    exchange_by(0)
    if RANK == 0:
        assert not list(Path().glob("**/*.part-*"))
        print("same bytes", done)


def check_index(made: Path, stored: bool) -> None:
    """The index of the frames is there, where the writer of one process stores it, and is that of a scan."""
    index = made.with_name(f".{made.name}.kinema-index")
    assert index.exists() == stored, made
    if not stored:
        return
    written = index.read_bytes()
    assert kn.open(made).parts[0].index == "stored"
    index.unlink()
    kn.open(made).scan()
    assert index.read_bytes() == written
    # of this file alone
    index.unlink()


def given_order() -> None:
    """Atoms in the order in which they come, each with its index; the ranks' atoms follow each other by rank."""
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


def many_frames(longest: int) -> None:
    """A thousand frames or more, and what reference libraries read of them."""
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


def mdanalysis() -> None:
    """AtomGroups of the atoms of each rank, by MDAnalysis' writer over ours; what fails on one rank fails on all."""
    import MDAnalysis
    from MDAnalysis.coordinates.memory import MemoryReader

    from kinema.interop.mdanalysis.writer import KinemaWriter

    values = np.stack([values_of(frame) for frame in range(6)])
    universe = MDAnalysis.Universe.empty(N_ATOMS, trajectory=True)
    universe.load_new(values, format=MemoryReader, dimensions=[50.0, 51, 52, 90, 90, 90], dt=2.0)
    universe.add_TopologyAttr("names", [f"A{number % 3}" for number in range(N_ATOMS)])
    universe.add_TopologyAttr("masses", np.arange(N_ATOMS) % 3 + 1.0)
    for suffix, strategy in (("dcd", "direct"), ("xtc", "auto"), ("history", "mpiio"), ("h5md", "serial")):
        if RANK == 0:
            with KinemaWriter(f"one.{suffix}", N_ATOMS) as one:
                for _ in universe.trajectory:
                    one.write(universe.atoms)
        with KinemaWriter(f"many.{suffix}", N_ATOMS, comm=COMM, strategy=strategy) as many:
            for ts in universe.trajectory:
                mine = universe.atoms[owned(ts.frame)]
                if ts.frame == 3:
                    wrong = universe.atoms[RANK + 1 :: SIZE]
                    raised(kn.ArgumentError, lambda m=many, w=wrong: m.write(w))  # type: ignore[misc]
                many.write(mine)
        if RANK == 0:
            one_file, many_file = (kn.open(f"{name}.{suffix}", stored=False) for name in ("one", "many"))
            np.testing.assert_array_equal(one_file.read(), many_file.read())
            assert suffix == "h5md" or Path(f"one.{suffix}").read_bytes() == Path(f"many.{suffix}").read_bytes(), suffix
        barrier()
    try:
        with KinemaWriter("wrong.dcd", N_ATOMS, comm=COMM, velocities=RANK == SIZE - 1) as many:
            many.write(universe.atoms[owned(0)])
        raise AssertionError("no error")
    except kn.ArgumentError as error:
        assert "the frame has no velocities" in str(error)
    if RANK == 0:
        print("mdanalysis")
