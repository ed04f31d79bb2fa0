"""Checks of a loader's arguments, some of which come from torch.distributed."""

from __future__ import annotations

from typing import Any

from kinema.base.errors import ArgumentError

# if no limit is given: enough to bridge a slow read, without taking more of the machine
_READY = 16
_MEMORY = 256 << 20


def check_positive(name: str, value: Any) -> int:
    """Returns the value. Raises ArgumentError if it is not a whole number from 1 on."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ArgumentError(f"{name} must be a whole number from 1 on, found {value!r}")
    return int(value)


def rank_of(rank: int | None, ranks: int | None) -> tuple[int, int]:
    """Rank and number of ranks, as given or from torch.distributed."""
    if (rank is None) != (ranks is None):
        raise ArgumentError("rank= and ranks= go together")
    if rank is None or ranks is None:
        import sys

        # if nobody has imported it, it cannot be initialised
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1
    ranks = check_positive("ranks", ranks)
    if isinstance(rank, bool) or not hasattr(rank, "__index__") or not 0 <= int(rank) < ranks:
        raise ArgumentError(f"rank must be a whole number from 0 to {ranks - 1}, found {rank!r}")
    return int(rank), ranks


def memory_wanted(batch_bytes: int) -> int:
    """Bytes of batches that a loader without a limit would hold, on a machine that has room for them."""
    return max(_MEMORY, _READY * batch_bytes)
