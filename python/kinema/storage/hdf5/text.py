"""Text in HDF5 files, in any storage: fixed or variable length, ASCII or UTF-8, scalar or array of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kinema.storage.hdf5.file import OpenFile

# bytes of an array of texts, and characters of one text: only one of the two may be exceeded
_FREE_TEXT, _LONG_TEXT = 1 << 26, 64


def as_text(value: Any) -> str | None:
    """A stored value as text; None if it is not text, or is several texts.

    Bytes that are not UTF-8 are read as Latin-1, which Fortran programs write; padding is cut off.
    """
    if isinstance(value, np.ndarray):
        return as_text(value.reshape(-1)[0]) if value.size == 1 else None
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            value = value.decode("latin-1")
    if not isinstance(value, str):
        return None
    if any("\udc80" <= letter <= "\udcff" for letter in value):  # h5py's escapes for bytes that are not UTF-8
        value = value.encode("utf-8", "surrogateescape").decode("latin-1")
    return str(value).split("\0", 1)[0].strip()


def as_texts(value: Any) -> list[str]:
    """A stored value as a list of texts; elements that are not text are left out."""
    items = value.reshape(-1) if isinstance(value, np.ndarray) else [value]
    return [text for text in map(as_text, items) if text is not None]


def text_array(opened: OpenFile, name: str, texts: Sequence[str], count: int | None = None) -> NDArray[np.str_]:
    """Texts as an array, whose elements all have the length of the longest.

    `count`: number of elements of an array that will be made of them. Raises CorruptFileError if a long text among many
    short ones would take far more memory than the file.
    """
    count = len(texts) if count is None else count
    longest = max(map(len, texts), default=0)
    size = 4 * longest * count
    if size > _FREE_TEXT and longest > _LONG_TEXT:
        raise opened.corrupt(f"{name} has a text of {longest} characters, and {count} of that length take {size} bytes")
    return np.array(texts, dtype=np.str_)


def attribute(node: Any, name: str) -> Any:
    """An attribute's value; None if it is missing or empty."""
    if name not in node.attrs:
        return None
    value = node.attrs[name]
    return None if isinstance(value, h5py.Empty) else value


def text_attribute(node: Any, name: str) -> str | None:
    """An attribute that is text; None if it is missing or empty."""
    return as_text(attribute(node, name)) or None


def text_attributes(node: Any, name: str) -> list[str]:
    """An attribute that is a list of texts; empty if it is missing."""
    value = attribute(node, name)
    return [] if value is None else as_texts(value)
