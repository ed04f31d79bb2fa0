"""Names of files by patterns such as `simulation.part*.xtc`, in the order of their numbers."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass

from kinema.errors import FileNotFound
from kinema.files import natural_order

__all__ = ["GivenFiles"]

# what lies beside a trajectory without being a part of it: temporary files, indices, markers
_BESIDE = re.compile(r"(^\.)|(\.part-[^/]*-k[^/]*)|(\.(ready|end|kinema-index)$)")


@dataclass(frozen=True)
class GivenFiles:
    """Files as a user has given them: names, and patterns where no file has that very name."""

    given: tuple[str, ...]

    @property
    def patterns(self) -> tuple[str, ...]:
        """Those that are patterns."""
        return tuple(name for name in self.given if _is_pattern(name))

    def paths(self) -> list[str]:
        """The files that are there now for patterns, in the order of the numbers in their names; names as they are."""
        return [path for name in self.given for path in (_matching(name) if _is_pattern(name) else [name])]

    def checked(self) -> list[str]:
        """As `paths`; FileNotFound for a pattern that no file fits."""
        for pattern in self.patterns:
            if not _matching(pattern):
                raise FileNotFound(f"{pattern}: no file fits this pattern", path=pattern)
        return self.paths()


def _is_pattern(name: str) -> bool:
    return glob.has_magic(name) and not os.path.lexists(name)


def _matching(pattern: str) -> list[str]:
    found = [path for path in glob.glob(pattern) if not _BESIDE.search(os.path.basename(path))]
    return sorted(found, key=natural_order)
