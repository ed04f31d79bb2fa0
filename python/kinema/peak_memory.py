"""The most memory that this process has had resident so far.

It says nothing about other processes, and does not tell what the memory was used for.
"""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

__all__ = ["peak_memory"]


def peak_memory() -> int:
    """Bytes. From Linux' VmHWM, which begins anew with a program; elsewhere from getrusage."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)
        if found:
            return int(found.group(1)) * 1024
    # getrusage also counts the program that started this one, where that forked; kilobytes but on macOS
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
