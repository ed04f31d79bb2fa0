"""How many workers and how much memory a run may take.

It asks the machine only when called and starts nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from kinema.errors import ArgumentError

__all__ = ["default_workers", "parse_memory", "share_of_machine", "worker_count"]

_UNITS = {
    "": 1,
    "b": 1,
    # as ulimit and SLURM's --mem have it
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}


def parse_memory(memory: int | str) -> int:
    """Bytes of "256 MiB", "1GB", "4g" (binary, as in SLURM) or a plain number.

    Raises ArgumentError for anything else and for less than one byte.
    """
    if isinstance(memory, bool) or not isinstance(memory, (int, str)):
        raise ArgumentError(f"memory is a number of bytes or a text such as '256 MiB', found {memory!r}")
    if isinstance(memory, int):
        size = memory
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", memory)
        unit = _UNITS.get(match.group(2).lower()) if match else None
        if match is None or unit is None:
            raise ArgumentError(f"memory is a number of bytes or a text such as '256 MiB', found {memory!r}")
        size = int(float(match.group(1)) * unit)
    if size < 1:
        raise ArgumentError(f"memory must be at least one byte, found {memory!r}")
    return size


def worker_count(workers: int | None, name: str = "workers") -> int:
    """The number of workers that was asked for, or `default_workers()` for None.

    Raises ArgumentError, with the argument's `name`, unless it is a whole number from 1 on.
    """
    if workers is None:
        return default_workers()
    if isinstance(workers, bool) or not hasattr(workers, "__index__") or int(workers) < 1:
        raise ArgumentError(f"{name} must be a whole number from 1 on, found {workers!r}")
    return int(workers)


# what `share_of_machine` leaves to the code that is running
_SHARE: ContextVar[int | None] = ContextVar("kinema_share_of_machine", default=None)


@contextmanager
def share_of_machine(threads: int) -> Iterator[None]:
    """While it lasts, `default_workers()` is at most `threads`: other workers have the rest of the machine."""
    token = _SHARE.set(threads)
    try:
        yield
    finally:
        _SHARE.reset(token)


def default_workers() -> int:
    """As many threads as this process may run at once: the least of its CPU affinity, the CPU limit of its
    control group (versions 1 and 2), SLURM_CPUS_PER_TASK, and what `share_of_machine` leaves."""
    limits = [_affinity(), *filter(None, [_SHARE.get()])]
    limits += [limit for limit in (_cgroup_limit(Path("/sys/fs/cgroup")), _slurm_limit()) if limit is not None]
    return max(1, min(limits))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _slurm_limit() -> int | None:
    value = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return int(value) if value.isdecimal() and int(value) > 0 else None


def _cgroup_limit(root: Path, membership: Path = Path("/proc/self/cgroup")) -> int | None:
    """Whole CPUs, rounded up, that the control groups from this process's up to the root leave; None: no limit."""
    shares = []
    for group in _cgroup_folders(root, membership):
        share = _cgroup_v2_share(group) or _cgroup_v1_share(group)
        if share is not None:
            shares.append(share)
    return max(1, int(-(-min(shares) // 1))) if shares else None


def _cgroup_folders(root: Path, membership: Path) -> list[Path]:
    folders = [root, root / "cpu"]
    for line in _read(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            base = root
        elif "cpu" in controllers.split(","):
            base = root / "cpu"
        else:
            continue
        parts = [part for part in path.split("/") if part and part != ".."]
        folders += [base.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
    return folders


def _cgroup_v2_share(group: Path) -> float | None:
    # "max 100000" or "150000 100000": quota and period in microseconds
    words = _read(group / "cpu.max").split()
    if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]) > 0:
        return int(words[0]) / int(words[1])
    return None


def _cgroup_v1_share(group: Path) -> float | None:
    quota = _read(group / "cpu.cfs_quota_us").strip()  # -1: no limit
    period = _read(group / "cpu.cfs_period_us").strip()
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        return int(quota) / int(period)
    return None


def _read(path: Path) -> str:
    # a file that is not there, or that a container hides, states no limit
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
