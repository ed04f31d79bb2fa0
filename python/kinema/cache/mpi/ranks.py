"""`run_on_all_ranks`: a step of all ranks of a communicator, which fails on all of them or on none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kinema.base.errors import Error, WorkerError

T = TypeVar("T")


@contextmanager
def duplicated(comm: Any) -> Iterator[Any]:
    """A duplicate of the caller's communicator, freed at the end; collective."""
    own = comm.Dup()
    try:
        yield own
    finally:
        own.Free()


def run_on_all_ranks(own: Any, step: Callable[[], T]) -> list[T]:
    """Runs a step on all ranks of a communicator of our own; returns each rank's result after all have finished.

    If the step fails, all ranks raise the same WorkerError, which names the first rank that failed.
    """
    result: tuple[T | None, str | None]
    try:
        result = step(), None
    except Exception as error:
        result = None, str(error) if isinstance(error, (Error, OSError)) else f"{type(error).__name__}: {error}"
    found: list[tuple[T, str | None]] = own.allgather(result)
    for rank, (_, failure) in enumerate(found):
        if failure is not None:
            raise WorkerError(f"rank {rank}: {failure}")
    return [one for one, _ in found]
