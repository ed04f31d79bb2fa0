"""Resources of the machine: workers and memory that a run may use, and the most memory that it has used."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from kinema.base.errors import ArgumentError

_UNITS = {
    "": 1,
    "b": 1,
    # as in ulimit and SLURM's --mem
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

# bytes that a machine can address: more is a mistake
_MOST_MEMORY = 1 << 62


def parse_memory(memory: int | str) -> int:
    """Bytes of "256 MiB", "1GB", "4g" (binary, as in SLURM) or a plain number.

    Raises ArgumentError for anything else, for less than one byte and for more than 4 EiB.
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
        # a number of hundreds of digits overflows a float
        size = int(min(float(match.group(1)) * unit, float(2 * _MOST_MEMORY)))
    if size < 1:
        raise ArgumentError(f"memory must be at least one byte, found {memory!r}")
    if size > _MOST_MEMORY:
        raise ArgumentError(f"memory must be at most {_MOST_MEMORY >> 60} EiB, found {memory!r}")
    return size


# least bytes that a run may use, on any machine
LEAST_MEMORY = 256 << 20
# share of the memory that the process may use
_MEMORY_SHARE = 4


def default_memory() -> int:
    """Bytes that a run may use if no limit is stated: a quarter of the memory that this process may use, and at least
    256 MiB. A process may use the smaller of the machine's memory and its control groups' limits (versions 1 and 2)."""
    limits = [limit for limit in (physical_memory(), *_cgroup_memory_in(int(time.monotonic()))) if limit]
    return max(LEAST_MEMORY, min(limits, default=0) // _MEMORY_SHARE)


def physical_memory() -> int | None:
    """Bytes of memory of this machine; None if the system does not say."""
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@lru_cache(maxsize=1)
def _cgroup_memory_in(_second: int) -> tuple[int, ...]:
    """The limits of this process's groups, read once a second: a run of few frames took half as long again."""
    return tuple(_cgroup_memory(Path("/sys/fs/cgroup")))


def _cgroup_memory(root: Path, membership: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """The limits of the control groups from this process's up to the root, in bytes."""
    for group in _cgroup_folders(root, membership, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            words = _read(group / name).split()  # "max": no limit
            if words and words[0].isdecimal():
                yield int(words[0])


# most files of one trajectory open at a time if no number is stated, even if the system allows more
_FEWEST_OPEN, _MOST_OPEN = 64, 4096


def default_open_files() -> int:
    """Number of files that a trajectory keeps open between reads: a quarter of the process's limit, within bounds."""
    limit = _open_files_limit()
    return max(_FEWEST_OPEN, min(_MOST_OPEN if limit is None else limit // 4, _MOST_OPEN))


def shared_open_files() -> int:
    """Number of files that all data sets of this process keep open: three quarters of its limit, at most 12,288."""
    limit = _open_files_limit()
    return 3 * _MOST_OPEN if limit is None else max(8, min(3 * (limit // 4), 3 * _MOST_OPEN))


def _open_files_limit() -> int | None:
    import resource  # not on every platform

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def peak_memory() -> int:
    """The most bytes that this process has had resident so far: Linux' VmHWM, or getrusage on other systems."""
    import resource  # not on every platform

    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)
        if found:
            return int(found.group(1)) * 1024
    # getrusage also counts the program that started this one by a fork; in kilobytes, except on macOS
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def worker_count(workers: int | None, name: str = "workers") -> int:
    """The requested number of workers, or `default_workers()` for None.

    Raises ArgumentError, with the argument's `name`, unless it is a whole number of at least 1.
    """
    if workers is None:
        return default_workers()
    if isinstance(workers, bool) or not hasattr(workers, "__index__") or int(workers) < 1:
        raise ArgumentError(f"{name} must be a whole number from 1 on, found {workers!r}")
    return int(workers)


# threads that `share_of_machine` leaves to the running code
_SHARE: ContextVar[int | None] = ContextVar("kinema_share_of_machine", default=None)


@contextmanager
def share_of_machine(threads: int) -> Iterator[None]:
    """Context in which `default_workers()` is at most `threads`: other workers use the rest of the machine."""
    token = _SHARE.set(threads)
    try:
        yield
    finally:
        _SHARE.reset(token)


def default_workers() -> int:
    """Number of threads that this process may run at once: the least of its CPU affinity, the CPU limit of its control
    group (versions 1 and 2), SLURM_CPUS_PER_TASK, and the threads that `share_of_machine` leaves."""
    limits = [_affinity(), *filter(None, [_SHARE.get()])]
    limits += [limit for limit in (_cgroup_limit_in(int(time.monotonic())), _slurm_limit()) if limit is not None]
    return max(1, min(limits))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _slurm_limit() -> int | None:
    value = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return int(value) if value.isdecimal() and int(value) > 0 else None


@lru_cache(maxsize=1)
def _cgroup_limit_in(_second: int) -> int | None:
    """This process's limit, read once a second: it is in several files, and needed at each reading of frames."""
    return _cgroup_limit(Path("/sys/fs/cgroup"))


def _cgroup_limit(root: Path, membership: Path = Path("/proc/self/cgroup")) -> int | None:
    """Whole CPUs, rounded up, that the control groups from this process's up to the root leave; None: no limit."""
    shares = []
    for group in _cgroup_folders(root, membership, "cpu"):
        share = _cgroup_v2_share(group) or _cgroup_v1_share(group)
        if share is not None:
            shares.append(share)
    return max(1, int(-(-min(shares) // 1))) if shares else None


def _cgroup_folders(root: Path, membership: Path, controller: str) -> list[Path]:
    folders = [root, root / controller]
    for line in _read(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            base = root
        elif controller in controllers.split(","):
            base = root / controller
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
    # a file that does not exist, or that a container hides, states no limit
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
