"""Common parts of the programs of ranks: a system, frames of which each rank has some atoms, errors on all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import kinema as kn
from kinema.cache.mpi.progress import sleep_between
from kinema.parallel import exchange, node_memory

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
    """The atoms that this rank has in a frame, in any order: different atoms in each frame, and sometimes none."""
    rng = np.random.default_rng(frame)
    owner, order = rng.integers(0, SIZE, n_atoms), rng.permutation(n_atoms)
    if frame % 4 == 1:
        owner[:] = frame % SIZE
    elif frame % 4 == 2:
        owner[owner == frame % SIZE] = (frame + 1) % SIZE
    elif frame % 8 in (3, 4):
        # those that it writes, where all ranks do: no values are sent
        owner = np.searchsorted(np.arange(1, SIZE) * n_atoms // SIZE, np.arange(n_atoms), side="right")
    if frame % 8 == 4:
        order = np.arange(n_atoms)
    return order[owner[order] == RANK]


NODES_OF, RESERVED = exchange.nodes_of, node_memory._reserved


def exchange_by(number: int) -> None:
    """How later writers exchange atoms: in shared memory; as ranks of several nodes do; as ranks that get
    no memory to share."""

    def refused(n_bytes: int) -> int:
        raise OSError(28, f"no room for {n_bytes} bytes")

    exchange.nodes_of = (lambda agreement: np.arange(agreement.size)) if number % 3 == 1 else NODES_OF
    node_memory._reserved = refused if number % 3 == 2 else RESERVED


def stamps(frame: int) -> dict[str, Any]:
    """Stamps of a frame, on the ranks that give them."""
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


def barrier() -> None:
    """Waits for all ranks without a core of its own, which rank 0 needs while it checks."""
    sleep_between(COMM.Ibarrier())


def call_on_root(call: Callable[[], Any]) -> Any:
    """Returns the value of a call on rank 0, on all ranks."""
    return COMM.bcast(call() if RANK == 0 else None)


def raised(kind: type[Exception], call: Callable[[], object]) -> Exception:
    """The error of a call, which is the same on all ranks except for the note with the rank."""
    try:
        call()
    except kind as error:
        errors = COMM.allgather((type(error).__name__, str(error)))
        assert len(set(errors)) == 1, errors
        return error
    raise AssertionError("no error")
