"""Where files lie: file system, mount options, stripes, kind of disk.

Programs of a parallel file system are asked only on such a file system, and for a bounded time. Facts that nothing
reports are left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MOUNTS = Path("/proc/self/mountinfo")
_BLOCK_DEVICES = Path("/sys/dev/block")
# the servers of a parallel file system may not answer
_SECONDS = 2.0
_SECONDS_TO_END = 0.2
# files that are asked for their stripes
_FILES = 4
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Mount:
    """A line of the table of mounts.

    `type`, `device`: "ext4", "/dev/sda1".
    `options`: options of the mount and of the file system, with commas between.
    `number`: major and minor number of the device, "8:1".
    """

    type: str
    device: str
    options: str
    number: str

    def __str__(self) -> str:
        return f"{self.type} on {self.device}"


def mounts(paths: Iterable[str]) -> dict[str, Mount]:
    """The mount of each file, by path; files are left out if the system does not say where they lie."""
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    known = {}
    for line in lines:
        # number, root, mount point, options; after a dash type, device, options of the file system
        own, _, rest = line.partition(" - ")
        words, more = [_unescaped(word) for word in own.split()], [_unescaped(word) for word in rest.split()]
        known[words[4]] = Mount(
            more[0], more[1], ",".join(dict.fromkeys(",".join([words[5], *more[2:3]]).split(","))), words[2]
        )
    found = {}
    for path in paths:
        folder = Path(path).resolve().parent
        at = next((str(one) for one in (folder, *folder.parents) if str(one) in known), None)
        if at is not None:
            found[path] = known[at]
    return found


def file_systems(paths: Iterable[str]) -> list[str]:
    """Type and device of the file systems that hold the files, "ext4 on /dev/sda1"; empty if they are not known."""
    return sorted({str(mount) for mount in mounts(paths).values()})


def storage_facts(paths: Sequence[str]) -> list[dict[str, Any]]:
    """A mapping for each file system that holds files: "file_system", "options", "disk" ("hdd" or "ssd"), and for the
    first files on a parallel file system "stripes": "4 x 1048576 bytes", ...
    """
    groups: dict[Mount, list[str]] = {}
    for path, mount in mounts(paths).items():
        groups.setdefault(mount, []).append(path)
    facts = []
    for mount, found in sorted(groups.items(), key=lambda one: str(one[0])):
        described: dict[str, Any] = {"file_system": str(mount), "options": mount.options}
        if disk := _disk(mount.number):
            described["disk"] = disk
        layouts = filter(None, (stripes(path, mount.type) for path in found[:_FILES]))
        if words := list(dict.fromkeys(f"{count} x {size} bytes" for count, size in layouts)):
            described["stripes"] = words
        facts.append(described)
    return facts


def stripes(path: str, type: str) -> tuple[int, int] | None:
    """Number of stripes of a file and their bytes; None if its file system has none, or does not say.

    For a file that is not there it is what the folder gives to new files.
    """
    path = path if os.path.exists(path) else os.path.dirname(path)
    if type == "lustre":
        said = _answer("lfs", "getstripe", "-c", "-S", path)
        count, size = (re.search(rf"stripe_{what}:\s*(\d+)", said) for what in ("count", "size"))
        return (int(count[1]), int(size[1])) if count and size else None
    if type == "beegfs":
        said = _answer("beegfs-ctl", "--getentryinfo", path)
        count = re.search(r"Number of storage targets:.*?actual:\s*(\d+)", said)
        size = re.search(r"Chunksize:\s*(\d+)([kmg]?)", said, re.IGNORECASE)
        return (int(count[1]), int(size[1]) * _UNITS[size[2].lower()]) if count and size else None
    return None


def _answer(*words: str) -> str:
    """The output of a program; nothing if it is missing, fails, or does not answer in time."""
    program = shutil.which(words[0])
    if program is None:
        return ""
    try:
        process = subprocess.Popen(
            [program, *words[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, errors="replace",
        )  # fmt: skip
    except OSError:
        return ""
    try:
        said, _ = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a program that waits for a dead server does not end
            process.communicate(timeout=_SECONDS_TO_END)
        return ""
    return said if process.returncode == 0 else ""


def _disk(number: str) -> str:
    """The kind of the disk below a mount; "" for network file systems and memory."""
    device = _BLOCK_DEVICES / number
    with suppress(OSError):
        for folder in _and_its_disk(device.resolve()):
            rotational = folder / "queue/rotational"
            if rotational.exists():
                return "hdd" if rotational.read_text().strip() == "1" else "ssd"
    return ""


def _and_its_disk(device: Path) -> Iterator[Path]:
    """A device; if it is a partition, the disk that it is on."""
    yield device
    if (device / "partition").exists():
        yield device.parent


def _unescaped(word: str) -> str:
    """Decodes blanks and the like, which `mountinfo` writes as octal numbers."""
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), word)
