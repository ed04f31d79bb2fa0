"""`NodeMemory`: memory that all ranks of one node share, into which each puts values for others without a message."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.parallel.agreement import Agreement

__all__ = ["NodeMemory", "nodes_of"]

_MARK = 16


def nodes_of(agreement: Agreement) -> NDArray[np.int64]:
    """The node of each rank, named by its first rank, (ranks,); collective. Ranks of a node can share memory."""
    node = agreement.comm.Split_type(MPI.COMM_TYPE_SHARED, agreement.rank)
    try:
        first = node.bcast(agreement.rank)
    finally:
        node.Free()
    return agreement.gathered(np.array([first], np.int64))[:, 0]


class NodeMemory:
    """`n_bytes` that all ranks see at `data`; collective to make. It is given back with the last reference to it.

    It has no name in any folder, so that nothing of it stays when ranks are killed.
    """

    def __init__(self, agreement: Agreement, n_bytes: int) -> None:
        handle, mapped = -1, None
        try:
            if agreement.is_root:
                with suppress(OSError, AttributeError):  # AttributeError: systems without it
                    handle = _reserved(n_bytes)
            # where others reach it, and random bytes by which they know that it is this one
            mark = os.urandom(_MARK) if handle >= 0 else b""
            if mark:
                os.pwrite(handle, mark, 0)
            path, mark = agreement.call_on_root(lambda: (f"/proc/{os.getpid()}/fd/{handle}", mark))
            if mark:
                with suppress(OSError, ValueError):
                    mapped = _mapped(path, n_bytes)
                if mapped is not None and mapped[:_MARK] != mark:
                    mapped = None
            works = agreement.gathered(np.array([mapped is not None], np.int64)).all()
        finally:
            if handle >= 0:
                os.close(handle)
        self.data: NDArray[np.uint8] | None = np.frombuffer(mapped, np.uint8) if works and mapped is not None else None
        """(n_bytes,); None, on all ranks, where the system does not let them share memory."""

    def array(self, offset: int, n_atoms: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """(n_atoms, 3) numbers from a byte on."""
        assert self.data is not None
        return self.data[offset : offset + 3 * n_atoms * kind.itemsize].view(kind).reshape(n_atoms, 3)


def _reserved(n_bytes: int) -> int:
    """A descriptor of a file in memory whose bytes are there: too little room is an error, and no signal later."""
    handle = os.memfd_create("kinema-exchange")
    try:
        os.posix_fallocate(handle, 0, n_bytes)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _mapped(path: str, n_bytes: int) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(handle, n_bytes, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
    finally:
        os.close(handle)
