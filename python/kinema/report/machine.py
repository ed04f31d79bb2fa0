"""The machine of a report: processor, cores, memory, operating system, versions, file systems.

It covers one machine of a run; a worker's `node` names its own.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from kinema import _core
from kinema.base.resources import default_workers, physical_memory


def machine_facts() -> dict[str, str | int | list[str]]:
    """Facts about this machine, by name; memory in bytes. Facts that the operating system does not report are left
    out."""
    facts: dict[str, str | int | list[str]] = {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        "allowed_cores": default_workers(),
        "instructions": _core.cpu_features(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kinema": _core.__version__,
    }
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", cpu.read_text(errors="replace"), re.MULTILINE)
        if found:
            facts["processor"] = found.group(1)
    if (memory := physical_memory()) is not None:
        facts["memory"] = memory
    return facts


def file_systems(paths: Iterable[str]) -> list[str]:
    """Type and device of the file systems that hold the files, "ext4 on /dev/sda1"; empty if they are not known."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []
    mounts = {}
    for line in lines:
        # mount point, fifth; after a dash type and device
        own, _, rest = line.partition(" - ")
        mounts[_unescaped(own.split()[4])] = " on ".join(map(_unescaped, rest.split()[:2]))
    folders = {Path(path).resolve().parent for path in paths}
    found = {next((mounts[str(at)] for at in (folder, *folder.parents) if str(at) in mounts), "") for folder in folders}
    return sorted(found - {""})


def _unescaped(word: str) -> str:
    """Decodes blanks and the like, which `mountinfo` writes as octal numbers."""
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), word)
