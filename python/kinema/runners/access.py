"""The registry of access methods: named ways to read the frames of a run, as the publications compare them.

A method is data: its needs, and its treatment by ranks and plans. The methods of the core are declared here; other
packages add theirs with `register_access`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass

if TYPE_CHECKING:
    from kinema import _core


@dataclass(frozen=True)
class AccessMethod:
    """One way to read the frames of a run.

    `description`: a few words for plans.
    `loads_pieces`: all frames of a piece of work are in memory before the first of them is computed; such a piece is
        never cut.
    `collective`: all ranks take part in each read, so no rank can take work ahead of the others.
    `runner`, `format`: the only runner and the only file format that it works with; None for any.
    `check_packages`: called with the name if runner and format fit; raises ArgumentError if a package is missing.
    `rank_reader`: "module:class" of the `kinema.runners.mpi.reading.RankReader` that replaces the core's reads on MPI
        ranks; it decodes whole frames itself. None: the core reads.
    """

    name: str
    description: str
    loads_pieces: bool = False
    collective: bool = False
    runner: str | None = None
    format: str | None = None
    check_packages: Callable[[str], None] | None = None
    rank_reader: str | None = None

    @property
    def plan_access(self) -> str:
        """The access method for plans of the core: "direct" if the core does not read."""
        return self.name if self.rank_reader is None else "direct"

    def check(self, runner: str, format: str | None = None, transforms: Iterable[_core.Transform] = ()) -> None:
        """Raises ArgumentError if the runner, the format or a transform does not fit, or a package is missing.

        The checks are made in this order. `format` None: files are not open yet, and packages are not checked either.
        """
        if self.runner not in (None, runner):
            raise ArgumentError(f"access {self.name!r} is for runner={self.runner!r}, and this is {runner!r}")
        if format is None:
            return
        if self.format not in (None, format):
            raise ArgumentError(f"access {self.name!r} is for {self.format} files, and this is a {format} file")
        back = ", ".join(transform.label for transform in transforms if transform.looks_back)
        if self.collective and back:
            # before its own frames each rank reads as many earlier ones as it needs, which no plan contains
            raise ArgumentError(
                f"access {self.name!r} cannot read for transforms that must see earlier frames: {back}; "
                "use access 'direct'"
            )
        if self.check_packages is not None:
            self.check_packages(self.name)


_METHODS: dict[str, AccessMethod] = {}
# packages that register their own methods, imported when a method is looked up
_EXTENSIONS = ("kinema.studies",)


def register_access(method: AccessMethod) -> None:
    """Adds a method under its name, after the existing ones. Raises ArgumentError if the name is taken."""
    if method.name in _METHODS:
        raise ArgumentError(f"access {method.name!r} is registered already")
    _METHODS[method.name] = method


def access_names() -> tuple[str, ...]:
    """The names of all methods, "direct" first."""
    _load_extensions()
    return tuple(_METHODS)


def access_method(name: str) -> AccessMethod:
    """The method of that name; raises ArgumentError for an unknown name."""
    if name not in _METHODS:
        _load_extensions()
    if name not in _METHODS:
        raise ArgumentError(f"access must be one of {', '.join(map(repr, _METHODS))}, found {name!r}")
    return _METHODS[name]


def _load_extensions() -> None:
    for module in _EXTENSIONS:
        importlib.import_module(module)


for _method in (
    AccessMethod("direct", "blocks of frames, of which the selected atoms are read"),
    AccessMethod("frame", "one frame at a time with all of its atoms, of which the selected ones are picked"),
    AccessMethod("subset", "one frame at a time, of which the selected atoms are read"),
    AccessMethod(
        "in-memory", "all frames of a piece with all of their atoms, before the first is computed", loads_pieces=True
    ),
):
    register_access(_method)
