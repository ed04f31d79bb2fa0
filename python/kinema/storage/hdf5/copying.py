"""Copy of the structure of an HDF5 file: groups, links of every kind, attributes, references.

Data sets are copied as they are, chunk by chunk, unless the caller creates them. Objects with several hard links stay
one object. References are translated to the copies of their objects; references to objects that the caller leaves out
become null. Relative file names in external links are adapted if the copy is in another folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator
from typing import Any

import h5py
import numpy as np

from kinema.storage.hdf5.file import object_key
from kinema.storage.hdf5.object_copies import (
    attribute_names,
    copy_attributes,
    copy_dataset,
    copy_group,
    copy_type,
    refers,
    stored_parts,
)

DROPPED = object()
"""Returned by a `Maker` for an object that must not be in the copy."""

# (object, its group in the copy, its name there) -> the data set made, None to have it copied, or DROPPED
Maker = Callable[[Any, Any, str], Any]


def copy_structure(
    source: Any, target: Any, make: Maker, followed: Container[Any] = (), *, folder: str | None = None
) -> None:
    """Copies everything below the root of `source` into `target`, both open `h5py.File`s.

    Objects of other files whose key (`object_key`) is in `followed` become part of the copy, instead of their links.
    External links are relative to `folder`: by default the folder of `target`, which the `h5py.File` of a `NewFile`
    does not know.
    """
    copy = _Copy(source, target, make, followed, folder)
    copy.members(source["/"], target["/"])
    copy.references()


class _Copy:
    def __init__(
        self, source: Any, target: Any, make: Maker, followed: Container[Any], folder: str | None = None
    ) -> None:
        self.source, self.target, self.make, self.followed = source, target, make, followed
        self.paths: dict[Any, str] = {}
        """Where the copy of each object is."""
        self.pairs: list[tuple[Any, Any]] = []
        """Objects that may hold references, with their copies."""
        there = os.path.dirname(target.filename) if folder is None else folder
        self._folders = (os.path.dirname(os.path.realpath(source.filename)), os.path.realpath(there))

    def members(self, source: Any, target: Any) -> None:
        """Copies a group's attributes and everything below it, at any depth of nesting."""
        waiting = [self._begun(source, target)]
        while waiting:
            holder, made, names = waiting[-1]
            name = next(names, None)
            if name is None:
                waiting.pop()
                continue
            below = self._member(holder, made, name)
            if below is not None:
                waiting.append(self._begun(below, made[name]))

    def _begun(self, source: Any, target: Any) -> tuple[Any, Any, Iterator[str]]:
        """A group, its copy with the attributes, and the names of the members to copy."""
        self.paths[object_key(source)] = target.name
        copy_attributes(source.id, target.id)
        self._pair(source, target)
        return source, target, iter(list(source))

    def _pair(self, source: Any, target: Any) -> None:
        """Remembers an object that holds references; closes other objects."""
        kinds = [h5py.h5a.open(source.id, name).get_type() for name in attribute_names(source.id)]
        if isinstance(source, h5py.Dataset):
            kinds.append(source.id.get_type())
        if any(map(refers, kinds)):
            self.pairs.append((source, target))

    def _member(self, source: Any, target: Any, name: str) -> Any:
        """Copies a member; returns it if it is a group whose members must be copied, else None."""
        link = source.get(name, getlink=True)
        if isinstance(link, h5py.SoftLink):
            target[name] = h5py.SoftLink(link.path)
        elif isinstance(link, h5py.ExternalLink) and not self._is_followed(source.get(name)):
            target[name] = h5py.ExternalLink(self._file_name(link.filename), link.path)
        else:
            return self._object(source[name], target, name)
        return None

    def _is_followed(self, node: Any) -> bool:
        return node is not None and object_key(node) in self.followed

    def _object(self, node: Any, target: Any, name: str) -> Any:
        """As `_member`, for the object to which the link leads."""
        known = self.paths.get(object_key(node))
        if known is not None:
            target[name] = self.target[known]
            return None
        made = self.make(node, target, name)
        if made is DROPPED:
            return None
        encoded = name.encode("utf-8", "surrogateescape")
        if isinstance(node, h5py.Group):
            copy_group(node.id, target.id, encoded)
            return node
        if made is None:
            if isinstance(node, h5py.Dataset):
                made = h5py.Dataset(copy_dataset(node.id, target.id, encoded))
            else:
                made = h5py.Datatype(copy_type(node.id, target.id, encoded))
            copy_attributes(node.id, made.id)
        if isinstance(node, h5py.Dataset):
            self._pair(node, made)
        self.paths[object_key(node)] = made.name
        return None

    def _file_name(self, name: str) -> str:
        here, there = self._folders
        if os.path.isabs(name) or here == there:
            return name
        return os.path.relpath(os.path.join(here, name), there)

    def references(self) -> None:
        """Points references to the copies of their objects."""
        for source, target in self.pairs:
            for name in attribute_names(source.id):
                attribute = h5py.h5a.open(source.id, name)
                if refers(attribute.get_type()):
                    values = np.empty(attribute.shape, attribute.dtype)
                    attribute.read(values)
                    h5py.h5a.open(target.id, name).write(self._translated(values, attribute.dtype))
            if isinstance(source, h5py.Dataset) and refers(source.id.get_type()) and source.id.get_storage_size():
                for part in stored_parts(source.id):
                    target[part] = self._translated(np.asarray(source[part], source.dtype), source.dtype)

    def _translated(self, values: Any, dtype: Any) -> Any:
        result = values.copy()
        if dtype.names:
            for field in dtype.names:
                if refers(h5py.h5t.py_create(dtype[field], logical=True)):
                    result[field] = self._translated(values[field], dtype[field])
            return result
        inner = h5py.check_vlen_dtype(dtype)
        for place in np.ndindex(values.shape):
            item = values[place]
            result[place] = (
                self._translated(np.asarray(item, inner), inner) if inner is not None else self._reference(item)
            )
        return result

    def _reference(self, reference: Any) -> Any:
        if not reference:
            return type(reference)()
        path = self.paths.get(object_key(self.source[reference]))
        if path is None:
            return type(reference)()
        if isinstance(reference, h5py.RegionReference):
            space = h5py.h5r.get_region(reference, self.source.id)
            return h5py.h5r.create(self.target.id, path.encode(), h5py.h5r.DATASET_REGION, space)
        return self.target[path].ref
