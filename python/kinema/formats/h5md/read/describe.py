"""`describe`: recognition of the kind of HDF5 file, and its description from structure, `step` and `time`."""

from __future__ import annotations

from kinema.base.errors import ArgumentError
from kinema.base.tracing.recording import span
from kinema.formats.h5md.description import H5mdDescription, H5mdOptions
from kinema.formats.h5md.file import H5mdFile, opened
from kinema.formats.h5md.read.groups import GroupSummary, find_root, list_groups
from kinema.formats.h5md.read.mdcath import describe_mdcath, is_mdcath
from kinema.formats.h5md.read.netcdf4.read import convention_of, describe_netcdf4, has_vectors, what_it_is
from kinema.formats.h5md.read.other_layouts import (
    describe_dataset,
    describe_mdtraj,
    is_mdtraj,
    no_trajectory,
)
from kinema.formats.h5md.read.particles import describe_group, vectors_of
from kinema.formats.h5md.schema import METADATA
from kinema.formats.h5md.units import Dimension, scale_to_kinema

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "axis": (None, "positions", "velocities", "forces"),
    "absent": ("error", "nan", "hold"),
    "absent_particles": ("mask", "error"),
}
_UNITS: tuple[Dimension, ...] = ("length", "time", "velocity", "force")


def describe_file(path: str, options: H5mdOptions, index: str) -> H5mdDescription:
    """See `kinema.formats.h5md.describe`."""
    _check(options)
    with span("structure", "reader", path), opened(path, options, index) as source:
        return _described(source)


def groups_of_file(path: str, options: H5mdOptions) -> tuple[GroupSummary, ...]:
    """See `kinema.formats.h5md.groups_of`."""
    with span("structure", "reader", path), opened(path, options) as source:
        start = find_root(source)
        return () if start is None else list_groups(start)


def file_holds_frames(path: str) -> bool:
    """See `kinema.formats.h5md.holds_frames`."""
    with opened(path) as source:
        start = find_root(source)
        if start is not None:
            return any(vectors_of(source, start[group.name]) for group in list_groups(start))
        return convention_of(source.file) is None or has_vectors(source.file)


def _described(source: H5mdFile) -> H5mdDescription:
    options = source.options
    if options.dataset is not None:
        return describe_dataset(source, options.dataset)
    # H5MD's root is searched for everywhere, and a file of mdCATH has thousands of groups
    mdcath = options.root is None and METADATA not in source.file and is_mdcath(source.file)
    root = None if mdcath else find_root(source)
    if root is not None:
        return describe_group(source, root)
    if mdcath:
        if options.unwrap:
            raise ArgumentError("unwrap= is for H5MD files, and this is mdCATH's", at=source.path, format="H5MD")
        return describe_mdcath(source)
    by_mdtraj, convention = is_mdtraj(source.file), convention_of(source.file)
    if not (by_mdtraj or convention):
        raise no_trajectory(source, what_it_is(source.file))
    if options.particles is not None or options.unwrap:
        raise ArgumentError(
            "particles= and unwrap= are for H5MD files, and this is none", at=source.path, format="H5MD"
        )
    return describe_mdtraj(source) if convention is None else describe_netcdf4(source, convention)


def _check(options: H5mdOptions) -> None:
    for name, allowed in _CHOICES.items():
        if getattr(options, name) not in allowed:
            words = ", ".join(repr(word) for word in allowed if word is not None)
            raise ArgumentError(f"{name} must be one of {words}, found {getattr(options, name)!r}")
    for name in options.units or {}:
        if name not in _UNITS:
            raise ArgumentError(f"units= is given for {', '.join(_UNITS)}, found {name!r}")
    for dimension in _UNITS:
        if options.units is not None and dimension in options.units:
            scale_to_kinema(options.units[dimension], dimension)
    if options.dataset is not None and options.particles is not None:
        raise ArgumentError("particles= and dataset= cannot be combined; give one of them")
