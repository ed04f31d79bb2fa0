"""Markers: `NAME.ready` beside the name of a published file says that it is whole, its size and its checksum.

A marker is JSON, written whole and renamed:

    {"version": 2, "size": bytes, "xxh3": 16 hexadecimal digits, "frames": number or null, "id": 32 digits,
     "owner": {"node", "host", "address", "port", "boot"} or null, "folder": {"path", "inode"},
     "proof": HMAC-SHA256 of all else and the marker's name, by the user's key}

`folder`: that of the marker, its symbolic links resolved; in another one the proof does not hold. `owner`: the file is
on that node and is fetched from there; null: it is beside the marker. `id` is another one for each publication. A
marker that names an owner is used only where its proof holds.

A server that is started later writes its address to `.kinema-peer-NODE` in the folders of its node's markers, likewise
with a proof: it is where the files of that node are now.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from typing import Any

from kinema.base.errors import CorruptFileError
from kinema.storage.signed_json import read_signed, write_signed

__all__ = [
    "SUFFIX",
    "Marker",
    "Owner",
    "addresses_in",
    "marker_path",
    "read_address",
    "read_marker",
    "write_address",
    "write_marker",
]

SUFFIX = ".ready"
_LONGEST_TEXT = 256


@dataclass(frozen=True)
class Owner:
    """Where published files of a node are served.

    Attributes
    ----------
    node : str
        The folder of the node's files, in 16 hexadecimal digits.
    host : str
        The node's name.
    address : str
    port : int
    boot : str
        Another one for each boot of the node.
    """

    node: str
    host: str
    address: str
    port: int
    boot: str

    def __post_init__(self) -> None:
        """Raises ValueError for what no owner has."""
        texts = (self.node, self.host, self.address, self.boot)
        if not all(isinstance(text, str) and len(text) < _LONGEST_TEXT for text in texts):
            raise ValueError("the owner's names are no text")
        if not re.fullmatch("[0-9a-f]{16}", self.node):
            raise ValueError("the owner's node is none")
        if type(self.port) is not int or not 0 < self.port < 1 << 16:
            raise ValueError("the owner's port is none")


@dataclass(frozen=True)
class Marker:
    """What a marker says.

    Attributes
    ----------
    size : int
        Bytes of the file.
    xxh3 : str
        XXH3-64 of its content, 16 hexadecimal digits.
    frames : int or None
    id : str
    owner : Owner or None
    """

    size: int
    xxh3: str
    frames: int | None
    id: str
    owner: Owner | None = None

    def __post_init__(self) -> None:
        """Raises ValueError or TypeError for what no marker has."""
        numbers = [self.size, *([] if self.frames is None else [self.frames])]
        if any(type(number) is not int or not 0 <= number < 1 << 62 for number in numbers):
            raise ValueError("size or frames are no numbers of bytes and frames")
        if not re.fullmatch("[0-9a-f]{16}", self.xxh3) or not re.fullmatch("[0-9a-f]{32}", self.id):
            raise ValueError("checksum or id are no hexadecimal digits")

    def has_bytes_of(self, other: Marker) -> bool:
        """Whether both are of files of the same size and checksum."""
        return (self.size, self.xxh3) == (other.size, other.xxh3)


def marker_path(path: str | os.PathLike[str]) -> str:
    """Name of the marker of a file."""
    return os.fspath(path) + SUFFIX


def write_marker(path: str, marker: Marker) -> None:
    """Writes the marker of `path`, in place of one that is there. Raises as `write_signed`."""
    write_signed(marker_path(path), "marker", asdict(marker))


def read_marker(path: str) -> tuple[Marker, bool] | None:
    """The marker of `path`, and whether it was written with this user's key; None where there is none.

    CorruptFileError for one that is damaged, or names an owner without the proof; also as `read_signed`.
    """
    name = marker_path(path)
    found = read_signed(name, "marker")
    if found is None:
        return None
    content, is_ours = found
    try:
        owner = content.pop("owner")
        marker = Marker(**content, owner=None if owner is None else Owner(**owner))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"{name}: is no marker that Kinema has written ({error})", path=name) from None
    if marker.owner is not None and not is_ours:
        raise CorruptFileError(
            f"{name}: the marker is forged, or was written with another key than this user's or for another folder: "
            "its proof does not hold",
            path=name,
        )
    return marker, is_ours


def write_address(folder: str, owner: Owner) -> None:
    """Says in a folder where the files of a node are served now. Raises as `write_signed`."""
    write_signed(_address_path(folder, owner.node), "address", asdict(owner))


def read_address(folder: str, node: str) -> Owner | None:
    """Where the files of a node are served now; None where no server was started later, or the file is none of ours."""
    try:
        found = read_signed(_address_path(folder, node), "address")
        if found is None or not found[1]:
            return None
        content: dict[str, Any] = found[0]
        owner = Owner(**content)
    except (CorruptFileError, ValueError, TypeError):
        return None
    return owner if owner.node == node else None


def addresses_in(folder: str) -> list[Owner]:
    """Of all nodes that have written theirs, in the order of their names."""
    names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"\.kinema-peer-[0-9a-f]{16}", name))
    found = [read_address(folder, name.rpartition("-")[2]) for name in names]
    return [owner for owner in found if owner is not None]


def _address_path(folder: str, node: str) -> str:
    return os.path.join(folder, f".kinema-peer-{node}")
