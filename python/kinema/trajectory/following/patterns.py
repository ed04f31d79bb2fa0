"""`GivenFiles`: file names and patterns, `simulation.part*.xtc`, including files that other nodes have published."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import field

from kinema.base.errors import ArgumentError, FileNotFound
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import natural_order

# files beside a trajectory that are not parts of it: temporary files, indices, markers
_BESIDE = re.compile(r"(^\.)|(\.part-[\w.-]+-k?[0-9a-f]{8}-\d+)|(\.(ready|end|kinema-index)$)")
# time limit to fetch a published file: these seconds, plus its bytes at this rate per second
_FETCHED_WITHIN = 30.0
_LEAST_RATE = 10e6


@dataclass(frozen=True)
class GivenFiles:
    """The user's files: names, and patterns if no file has exactly that name.

    If a name has no file, but a marker says that another node keeps it (`kinema.cache.publish(local=)`), the name
    stands for a copy on this node, which is fetched once.

    `local`: the folder of this node for fetched files.
    """

    given: tuple[str, ...]
    local: str | None = None
    _fetched: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns among them."""
        return tuple(name for name in self.given if _is_pattern(name))

    def paths(self) -> list[str]:
        """The present files of patterns, in the order of the numbers in their names; names as they are. Published files
        that another node keeps are fetched.

        If a published file cannot be fetched, raises as `kinema.cache.await_ready`; if `local` is None, ArgumentError.
        """
        return [self._readable(name) for name in self.names()]

    def names(self) -> list[str]:
        """The files by their own names; nothing is fetched."""
        return [name for given in self.given for name in (_matching(given) if _is_pattern(given) else [given])]

    def checked(self) -> list[str]:
        """As `paths`. Raises FileNotFound for a pattern that no file matches."""
        for pattern in self.patterns:
            if not _matching(pattern):
                raise FileNotFound("no file fits this pattern", at=pattern)
        return self.paths()

    def _readable(self, name: str) -> str:
        """The path to read the file of a name from."""
        if os.path.lexists(name):
            return name
        place = self._fetched.get(name)
        if place is not None and os.path.exists(place):
            return place
        size, host = _kept_elsewhere(name)
        if host is None:
            return name
        if self.local is None:
            raise ArgumentError(
                f"the file is kept on {host}; give node_cache= (--node-cache), a folder on a disk of this "
                "node, and it is fetched",
                at=name,
            )
        from kinema.cache.publishing import await_ready

        place = await_ready(name, _FETCHED_WITHIN + size / _LEAST_RATE, local=self.local).path
        self._fetched[name] = place
        return place


def _kept_elsewhere(name: str) -> tuple[int, str | None]:
    """Bytes and node of a file that its producer has published and keeps; no node for any other name."""
    from kinema.cache.markers import read_marker

    found = read_marker(name)
    if found is None or found[0].owner is None:
        return 0, None
    return found[0].size, found[0].owner.host


def _is_pattern(name: str) -> bool:
    return glob.has_magic(name) and not os.path.lexists(name)


def _matching(pattern: str) -> list[str]:
    from kinema.cache.markers import SUFFIX

    found = {path for path in glob.glob(pattern) if not _BESIDE.search(os.path.basename(path))}
    marked = {path.removesuffix(SUFFIX) for path in glob.glob(pattern + SUFFIX)} - found
    # a marker alone does not stand for a file that was beside it and is gone
    found |= {name for name in marked if _kept_elsewhere(name)[1] is not None}
    return sorted(found, key=natural_order)
