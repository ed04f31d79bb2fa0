"""Text attributes of H5MD files, and the metadata group that every such file has.

H5MD requires strings of fixed length; MDAnalysis' own reader accepts only strings of variable length. Both can be
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from kinema.base.choices import DIALECTS
from kinema.base.errors import ArgumentError
from kinema.formats.h5md.schema import METADATA, MODULES, PROVENANCE, UNITS_VERSION, VERSION
from kinema.storage.hdf5.storage import write_dataset


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

    def write(self, target: Any, name: str, text: str) -> None:
        """Sets the scalar attribute `name` of a group or data set."""
        target.attrs.create(name, text, dtype=self._type([text]))

    def write_list(self, target: Any, name: str, texts: Sequence[str]) -> None:
        """Sets an attribute of rank 1."""
        kind = self._type(texts)
        target.attrs.create(name, np.array(list(texts), dtype=object), shape=(len(texts),), dtype=kind)

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
    h5md = root.create_group(METADATA)
    h5md.attrs.create("version", np.array(VERSION, np.int32))
    author = h5md.create_group("author")
    dialect.write(author, "name", origin.author)
    if origin.author_email is not None:
        dialect.write(author, "email", origin.author_email)
    creator = h5md.create_group("creator")
    dialect.write(creator, "name", origin.creator)
    dialect.write(creator, "version", origin.creator_version)
    units = root.create_group(f"{MODULES}/units")
    units.attrs.create("version", np.array(UNITS_VERSION, np.int32))
    dialect.write(units, "system", "SI")
    if origin.provenance is not None:
        kind = h5py.string_dtype("utf-8", max(1, len(origin.provenance.encode())))
        write_dataset(root, PROVENANCE, np.array(origin.provenance.encode(), kind), dtype=kind)
