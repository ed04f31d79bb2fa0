"""What machine a report is of: processor, cores, memory, operating system, versions.

It says nothing about other machines of a run; a worker's `node` names its own.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import numpy as np

from kinema import _core
from kinema.resources import default_workers

__all__ = ["machine_facts"]


def machine_facts() -> dict[str, str | int | list[str]]:
    """By name; memory in bytes. What the operating system does not tell is left out."""
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
    if "SC_PHYS_PAGES" in os.sysconf_names:
        facts["memory"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return facts
