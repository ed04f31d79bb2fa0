"""The structure of an H5MD file being written: groups, data sets and attributes; and the metadata group of each file.

H5MD requires strings of fixed length; MDAnalysis' own reader accepts only strings of variable length. Both can be
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import DIALECTS
from kinema.base.errors import ArgumentError
from kinema.formats.h5md.schema import METADATA, MODULES, PROVENANCE, UNITS_VERSION, VERSION
from kinema.storage.hdf5.storage import Storage, create_dataset, write_dataset

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Dialect:
    """A file's deviations from the specification.

    "h5md": none. "mdanalysis": strings of variable length; and steps, times and boxes always row by row (which the
    specification allows), as the reader of MDAnalysis (2.11) needs it; other readers understand both.
    """

    name: str = "h5md"

    def __post_init__(self) -> None:
        if self.name not in DIALECTS:
            raise ArgumentError(f"dialect is one of {', '.join(DIALECTS)}, found {self.name!r}")

    @property
    def always_explicit(self) -> bool:
        """Whether steps and boxes are stored row by row even if they could be stored once."""
        return self.name == "mdanalysis"

    def make_group(self, parent: h5py.Group, name: str, attributes: Mapping[str, Any] = _NONE) -> h5py.Group:
        """Makes a group, and the groups that "folder/name" names."""
        group = parent.create_group(name)
        self.write_attributes(group, attributes)
        return group

    def make_dataset(
        self, parent: h5py.Group, name: str, storage: Storage, attributes: Mapping[str, Any] = _NONE
    ) -> h5py.Dataset:
        """Makes a data set without values, in place of an existing one."""
        if name in parent:
            del parent[name]
        dataset = create_dataset(parent, name, storage)
        self.write_attributes(dataset, attributes)
        return dataset

    def write_values(
        self,
        parent: h5py.Group,
        name: str,
        values: NDArray[Any],
        attributes: Mapping[str, Any] = _NONE,
        *,
        dtype: np.dtype[Any] | None = None,
        compact: bool = True,
    ) -> h5py.Dataset:
        """Makes a data set with its values, and the groups that "folder/name" names."""
        dataset = write_dataset(parent, name, values, dtype=dtype, compact=compact)
        self.write_attributes(dataset, attributes)
        return dataset

    def write_attributes(self, target: Any, attributes: Mapping[str, Any]) -> None:
        """Sets attributes of a group or data set: texts, lists of texts, numbers; None: there is none."""
        for name, value in attributes.items():
            if isinstance(value, str):
                target.attrs.create(name, value, dtype=self._type([value]))
            elif isinstance(value, list):
                texts = np.array(value, dtype=object)
                target.attrs.create(name, texts, shape=texts.shape, dtype=self._type(value))
            elif value is not None:
                target.attrs.create(name, value)

    def _type(self, texts: Sequence[str]) -> np.dtype[Any]:
        charset = "ascii" if all(text.isascii() for text in texts) else "utf-8"
        if self.name == "mdanalysis":
            variable: np.dtype[Any] = h5py.string_dtype(charset)
            return variable
        fixed: np.dtype[Any] = h5py.string_dtype(charset, max(1, *(len(text.encode()) for text in texts)))
        return fixed


def text_of(value: Any) -> str | None:
    """A string attribute as h5py gives it, of fixed or variable length; None for None."""
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@dataclass(frozen=True)
class Origin:
    """Author and program of a file; `provenance`, as text: its sources."""

    author: str
    author_email: str | None
    creator: str
    creator_version: str
    provenance: str | None = None


def write_head(root: h5py.Group, origin: Origin, dialect: Dialect) -> None:
    """Makes `h5md` with version, author, creator and the units module; and the provenance, if known."""
    h5md = dialect.make_group(root, METADATA, {"version": np.array(VERSION, np.int32)})
    dialect.make_group(h5md, "author", {"name": origin.author, "email": origin.author_email})
    dialect.make_group(h5md, "creator", {"name": origin.creator, "version": origin.creator_version})
    dialect.make_group(root, f"{MODULES}/units", {"version": np.array(UNITS_VERSION, np.int32), "system": "SI"})
    if origin.provenance is not None:
        kind = h5py.string_dtype("utf-8", max(1, len(origin.provenance.encode())))
        value = np.array(origin.provenance.encode(), kind)
        dialect.write_values(root, PROVENANCE, value, dtype=kind, compact=False)
