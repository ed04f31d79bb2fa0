"""`NodeMemory`: memory that all ranks of a node share; each rank puts values for others there without a message."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.parallel.agreement import Agreement

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
    """`n_bytes` that all ranks see as `data`; created collectively, and freed with the last reference.

    It has no name in any folder, so nothing of it stays if ranks are killed.
    """

    def __init__(self, agreement: Agreement, n_bytes: int) -> None:
        handle, mapped = -1, None
        try:
            if agreement.is_root:
                with suppress(OSError, AttributeError):  # AttributeError: not on this system
                    handle = _reserved(n_bytes)
            # the address by which others reach it, and random bytes by which they recognise it
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
        """(n_bytes,); None, on all ranks, if the system does not let them share memory."""

    def array(self, offset: int, n_atoms: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """(n_atoms, 3) numbers from byte `offset` on."""
        assert self.data is not None
        return self.data[offset : offset + 3 * n_atoms * kind.itemsize].view(kind).reshape(n_atoms, 3)


def _reserved(n_bytes: int) -> int:
    """A descriptor of a file in memory with allocated bytes: too little room is an error now, not a signal later."""
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
