"""Root, version and creator of an H5MD file, and its particles groups: listing and choice, by names and shapes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import h5py

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.schema import ELEMENTS, METADATA, PARTICLES, PLURALS
from kinema.storage.hdf5.file import numbers, objects_below
from kinema.storage.hdf5.text import attribute, text_attribute


@dataclass(frozen=True)
class GroupSummary:
    """One particles group."""

    name: str
    """"particles/system", as `kn.open(particles=)` takes it."""
    fields: tuple[str, ...]
    """The ones of "positions", "velocities", "forces" that have values."""
    n_atoms: int
    n_frames: int
    """Rows of the first of `fields`; 1 if it is time-independent."""


def find_root(opened: H5mdFile) -> Any | None:
    """The group that holds the H5MD structure; None if there is none.

    A file without the group `h5md`, which has the version, counts if it has particles groups with positions, velocities
    or forces at its root, or in `root=`; a note says so. Raises ArgumentError if `root=` does not name such a group,
    and if several are found.
    """
    file, wanted = opened.file, opened.options.root
    if wanted is not None:
        node = file.get(wanted)
        if isinstance(node, h5py.Group) and (_is_root(node) or _holds_vectors(opened, node)):
            return node
        raise ArgumentError(
            f"{wanted} is not an H5MD root, which has a group h5md with attribute version",
            at=opened.path,
            format="H5MD",
        )
    if _is_root(file):
        return file["/"]
    roots = [node for _, node in objects_below(file) if isinstance(node, h5py.Group) and _is_root(node)]
    if len(roots) > 1:
        names = ", ".join(node.name for node in roots)
        raise ArgumentError(
            f"there are several H5MD structures ({names}); choose one with root=", at=opened.path, format="H5MD"
        )
    if roots:
        return roots[0]
    return file["/"] if _holds_vectors(opened, file["/"]) else None


def _holds_vectors(opened: H5mdFile, group: Any) -> bool:
    """Whether a group without the group `h5md` has particles groups as in H5MD; emits a note if so."""
    if not any(summary.fields for summary in list_groups(group)):
        return False
    opened.warn(f"there is no group {METADATA} with a version: {group.name} is read as H5MD for its group {PARTICLES}")
    return True


def _is_root(group: Any) -> bool:
    metadata = group.get(METADATA)
    return isinstance(metadata, h5py.Group) and "version" in metadata.attrs


def version_of(root: Any) -> str:
    """The version, "1.1"; "" if the file does not state it."""
    metadata = root.get(METADATA)
    version = None if metadata is None else numbers(attribute(metadata, "version"))
    return "" if version is None else ".".join(str(int(number)) for number in version.reshape(-1)[:3])


def creator_of(root: Any) -> str:
    """The program, "GROMACS 2026.1"; "" if the file does not state it."""
    metadata = root.get(METADATA)
    creator = metadata.get("creator") if isinstance(metadata, h5py.Group) else None
    if creator is None:
        return ""
    return " ".join(filter(None, (text_attribute(creator, "name"), text_attribute(creator, "version"))))


def element_name(group: Any, name: str) -> str | None:
    """A group's name for an H5MD quantity, allowing for plurals as ZnH5MD writes them."""
    candidates: tuple[str, ...] = (name, *PLURALS.get(name, ()))
    for candidate in candidates:
        node = group.get(candidate)
        if isinstance(node, (h5py.Group, h5py.Dataset)):
            return candidate
    return None


def list_groups(root: Any) -> tuple[GroupSummary, ...]:
    """All particles groups below a root, in the file's order, including those without vectors."""
    particles = root.get(PARTICLES)
    if not isinstance(particles, h5py.Group):
        return ()
    return tuple(
        _summary(node, f"{PARTICLES}/{name}")
        for name, node in ((name, particles.get(name)) for name in particles)
        if isinstance(node, h5py.Group)
    )


def choose_group(opened: H5mdFile, root: Any) -> Any:
    """The particles group that `particles=` names, or the only one that holds vectors.

    Raises ArgumentError, listing the existing groups.
    """
    known = list_groups(root)
    names = [summary.name for summary in known]
    wanted = opened.options.particles
    if wanted is not None:
        short = wanted.strip("/").removeprefix(root.name.strip("/")).strip("/")
        for name in (short, f"{PARTICLES}/{short}"):
            if name in names:
                return root[name]
        raise ArgumentError(
            f"there is no particles group {wanted!r}, only {_listed(names)}", at=opened.path, format="H5MD"
        )
    usable = [summary.name for summary in known if summary.fields]
    if len(usable) == 1:
        others = [name for name in names if name != usable[0]]
        if others:
            opened.remark(f"group {usable[0]} is read; {_listed(others)} hold no positions, velocities or forces")
        return root[usable[0]]
    if not usable:
        raise ArgumentError(
            f"no particles group holds positions, velocities or forces; there is {_listed(names)}",
            at=opened.path,
            format="H5MD",
        )
    raise ArgumentError(
        f"there are several particles groups ({_listed(usable)}); choose one with particles=",
        at=opened.path,
        format="H5MD",
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none"


def _summary(group: Any, name: str) -> GroupSummary:
    fields: list[str] = []
    n_atoms = n_frames = 0
    for field, stored in ELEMENTS.items():
        member = element_name(group, stored)
        node = None if member is None else group.get(member)
        fixed = isinstance(node, h5py.Dataset)
        value = node if fixed or node is None else node.get("value")
        if not isinstance(value, h5py.Dataset) or not value.shape or 0 in value.shape[1:]:
            continue
        # a virtual data set may lack files, which reading reports
        if value.shape[0] == 0 and not value.is_virtual:
            continue
        if not fields:
            n_frames = 1 if fixed else int(value.shape[0])
            n_atoms = int(value.shape[0 if fixed else 1]) if value.ndim > (0 if fixed else 1) else 0
        fields.append(field)
    return GroupSummary(name, tuple(fields), n_atoms, n_frames)
