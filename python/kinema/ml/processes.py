"""Values that belong to one process, such as open files.

A process that was forked, or that unpickled a data set, opens its own. Values from before a fork are left alone: their
locks may be held by threads that the new process does not have. The same is true of Python's lock of a module that is
being imported; therefore everything that reading needs is imported with this package.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

# `numpy.unique` imports it at its first call
import numpy.ma  # noqa: F401

from kinema import _core
from kinema.base.resources import shared_open_files
from kinema.cache.node_cache import NodeCache

T = TypeVar("T")


class ProcessLocal(Generic[T]):
    """A value that each process makes when it first asks for it. A pickle has only the function that makes it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # values of the processes that this one was forked from stay: ending them could wait for their threads
        self._values: dict[int, T] = {}

    def get(self) -> T:
        """The value of this process."""
        value = self._values.get(os.getpid())
        if value is None:
            value = self._values.setdefault(os.getpid(), self._make())
        return value

    def __reduce__(self) -> tuple[type[ProcessLocal[T]], tuple[Callable[[], T]]]:
        return ProcessLocal, (self._make,)


_MOST_OPEN = shared_open_files()


def _no_pools() -> dict[NodeCache | None, _core.FilePool]:
    return {}


_POOLS: ProcessLocal[dict[NodeCache | None, _core.FilePool]] = ProcessLocal(_no_pools)


def file_pool(node_cache: NodeCache | None = None) -> _core.FilePool:
    """The open files of all data sets of this process: three quarters of what it may open, at most 12,288.

    Files that are read through a node cache have a pool of their own, a quarter of that size, because blocks are open
    as well.
    """
    pools = _POOLS.get()
    found = pools.get(node_cache)
    if found is None:
        if node_cache is None:
            found = _core.FilePool(_MOST_OPEN)
        else:
            found = _core.FilePool(max(1, _MOST_OPEN // 4), node_cache=node_cache.core)
        found = pools.setdefault(node_cache, found)
    return found


def replace_pool(pool: _core.FilePool) -> None:
    """Makes data sets that this process opens from now on use another pool: in tests, one that records reads."""
    _POOLS.get()[None] = pool
