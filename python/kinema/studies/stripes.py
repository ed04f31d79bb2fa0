"""Stripes of parallel file systems: how many storage targets share the bytes of each file in a folder."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

from kinema.base.errors import ArgumentError
from kinema.report.storage_facts import file_systems, mounts

# program -> the words that give new files of a folder their stripes
_PROGRAMS: dict[str, Callable[[int, str], list[str]]] = {
    "lfs": lambda count, folder: ["lfs", "setstripe", "-c", str(count), folder],
    "beegfs-ctl": lambda count, folder: ["beegfs-ctl", "--setpattern", f"--numtargets={count}", folder],
}
_PATIENCE = 60.0
# file systems on which MPI-IO's hint for new files has an effect
_HINTED = {"lustre": "Lustre", "beegfs": "BeeGFS"}
STRIPES_HINT = "striping_factor"


def set_stripes(folder: str, count: int) -> None:
    """Gives files that will be made in an empty folder `count` stripes, with `lfs` (Lustre) or `beegfs-ctl` (BeeGFS).

    Raises ArgumentError if the file system has no stripes, or refuses that number.
    """
    said = []
    for program, words in _PROGRAMS.items():
        if shutil.which(program) is None:
            continue
        try:
            done = subprocess.run(
                words(count, folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", timeout=_PATIENCE, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            said.append(f"{program} did not answer within {_PATIENCE:g} s")
            continue
        if done.returncode == 0:
            return
        said.append(
            f"{program} failed (exit {done.returncode}): {' '.join(done.stdout.split()) or 'it printed nothing'}"
        )
    where = _where(folder)
    why = "; ".join(said) or f"neither {' nor '.join(_PROGRAMS)} is on this machine"
    raise ArgumentError(f"{folder}: {count} stripes cannot be set on {where}: {why}")


def stripe_hints(folder: str, count: int) -> dict[str, str]:
    """MPI-IO's hints for files of `count` stripes, which are made in a folder by MPI-IO.

    Raises ArgumentError if the folder lies on a file system without stripes: there, MPI-IO ignores the hint silently.
    """
    if not any(mount.type in _HINTED for mount in mounts([f"{folder}/file"]).values()):
        raise ArgumentError(
            f"{folder}: MPI-IO's hint {STRIPES_HINT} has no effect on {_where(folder)}, expected "
            f"{' or '.join(_HINTED.values())}; leave out --stripes, or emulate a cluster with --lab lustre"
        )
    return {STRIPES_HINT: str(count)}


def _where(folder: str) -> str:
    return ", ".join(file_systems([f"{folder}/file"])) or "a file system that is not known"
