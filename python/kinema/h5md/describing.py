"""`describe`: what kind of HDF5 file it is, and its description.

It reads structure, `step` and `time`; frames are read elsewhere.
"""

from __future__ import annotations

from kinema.errors import ArgumentError

from .description import H5mdDescription, H5mdOptions
from .foreign import describe_amber, describe_dataset, describe_mdtraj, is_amber, is_mdtraj, no_trajectory
from .groups import GroupSummary, find_root, list_groups
from .opening import OpenFile, opened
from .particles import describe_group

__all__ = ["describe_file", "groups_of_file"]

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "axis": (None, "positions", "velocities", "forces"),
    "absent": ("error", "nan", "hold"),
    "absent_particles": ("mask", "error"),
}
_UNITS = ("length", "time", "velocity", "force")


def describe_file(path: str, options: H5mdOptions) -> H5mdDescription:
    """See `kinema.h5md.describe`."""
    _check(options)
    with opened(path, options) as found:
        return _described(found)


def groups_of_file(path: str, root: str | None = None) -> tuple[GroupSummary, ...]:
    """See `kinema.h5md.groups_of`."""
    with opened(path, H5mdOptions(root=root)) as found:
        start = find_root(found)
        return () if start is None else list_groups(start)


def _described(found: OpenFile) -> H5mdDescription:
    options = found.options
    if options.dataset is not None:
        return describe_dataset(found, options.dataset)
    root = find_root(found)
    if root is not None:
        return describe_group(found, root)
    other = is_mdtraj(found.file), is_amber(found.file)
    if any(other) and (options.group is not None or options.unwrap):
        raise ArgumentError(
            f"{found.path}: group= and unwrap= are for H5MD files, and this is none", path=found.path, format="H5MD"
        )
    if other[0]:
        return describe_mdtraj(found)
    if other[1]:
        return describe_amber(found)
    raise no_trajectory(found)


def _check(options: H5mdOptions) -> None:
    for name, allowed in _CHOICES.items():
        if getattr(options, name) not in allowed:
            words = ", ".join(repr(word) for word in allowed if word is not None)
            raise ArgumentError(f"{name} must be one of {words}, found {getattr(options, name)!r}")
    for name in options.units or {}:
        if name not in _UNITS:
            raise ArgumentError(f"units= is given for {', '.join(_UNITS)}, found {name!r}")
    if options.dataset is not None and options.group is not None:
        raise ArgumentError("group= and dataset= cannot be combined; give one of them")
