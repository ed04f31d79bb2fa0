"""Markers: `NAME.ready` beside the name of a published file says that it is whole, its size and its checksum.

A marker is JSON, written whole and renamed:

    {"version": 2, "size": bytes, "xxh3": 16 hexadecimal digits, "frames": number or null, "id": 32 digits,
     "owner": {"node", "host", "address", "port", "boot"} or null, "folder": {"path", "inode"},
     "proof": HMAC-SHA256 of all else and the marker's name, by the user's key}

`folder`: the marker's folder, with symbolic links resolved; in any other folder the proof does not hold. `owner`: the
node that has the file, and from which it is fetched; null: the file is beside the marker. Each publication has its own
`id`. A marker that names an owner is used only if its proof holds.

A server that is started later writes its address to `.kinema-peer-NODE` in the folders of its node's markers, also with
a proof: the files of that node are now served there.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from typing import Any

from kinema.base.errors import CorruptFileError
from kinema.storage.signed_json import read_signed, write_signed

SUFFIX = ".ready"
_LONGEST_TEXT = 256


@dataclass(frozen=True)
class Owner:
    """Address at which published files of a node are served.

    `node`: the folder of the node's files, as 16 hexadecimal digits.
    `boot`: differs for each boot of the node.
    """

    node: str
    host: str
    address: str
    port: int
    boot: str

    def __post_init__(self) -> None:
        """Raises ValueError for values that an owner cannot have."""
        texts = (self.node, self.host, self.address, self.boot)
        if not all(isinstance(text, str) and len(text) < _LONGEST_TEXT for text in texts):
            raise ValueError("the owner's names are not text")
        if not re.fullmatch("[0-9a-f]{16}", self.node):
            raise ValueError("the owner's node is not valid")
        if type(self.port) is not int or not 0 < self.port < 1 << 16:
            raise ValueError("the owner's port is not valid")


@dataclass(frozen=True)
class Marker:
    """Content of a marker.

    `size`: bytes of the file.
    `xxh3`: XXH3-64 of the file's content, 16 hexadecimal digits.
    """

    size: int
    xxh3: str
    frames: int | None
    id: str
    owner: Owner | None = None

    def __post_init__(self) -> None:
        """Raises ValueError or TypeError for values that a marker cannot have."""
        numbers = [self.size, *([] if self.frames is None else [self.frames])]
        if any(type(number) is not int or not 0 <= number < 1 << 62 for number in numbers):
            raise ValueError("size or frames is not a valid number")
        if not re.fullmatch("[0-9a-f]{16}", self.xxh3) or not re.fullmatch("[0-9a-f]{32}", self.id):
            raise ValueError("checksum or id is not hexadecimal digits")

    def has_bytes_of(self, other: Marker) -> bool:
        """Whether both markers give the same size and checksum."""
        return (self.size, self.xxh3) == (other.size, other.xxh3)


def marker_path(path: str | os.PathLike[str]) -> str:
    """Name of the marker of a file."""
    return os.fspath(path) + SUFFIX


def write_marker(path: str, marker: Marker) -> None:
    """Writes the marker of `path`, replacing an existing one. Raises as `write_signed`."""
    write_signed(marker_path(path), "marker", asdict(marker))


def read_marker(path: str) -> tuple[Marker, bool] | None:
    """The marker of `path`, and whether it was written with this user's key; None if there is no marker.

    Raises CorruptFileError if the marker is damaged, or names an owner without a valid proof; else as `read_signed`.
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
        raise CorruptFileError(f"is not a Kinema marker ({error})", at=name) from None
    if marker.owner is not None and not is_ours:
        raise CorruptFileError(
            "the marker is forged, or was written with another key than this user's or for another folder: "
            "its proof does not hold",
            at=name,
        )
    return marker, is_ours


def write_address(folder: str, owner: Owner) -> None:
    """Writes into a folder at which address the files of a node are now served. Raises as `write_signed`."""
    write_signed(_address_path(folder, owner.node), "address", asdict(owner))


def read_address(folder: str, node: str) -> Owner | None:
    """Address at which a node's files are now served; None if no server was started later or the file is not ours."""
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
    """Addresses of all nodes that have written theirs to the folder, in the order of their names."""
    names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"\.kinema-peer-[0-9a-f]{16}", name))
    found = [read_address(folder, name.rpartition("-")[2]) for name in names]
    return [owner for owner in found if owner is not None]


def _address_path(folder: str, node: str) -> str:
    return os.path.join(folder, f".kinema-peer-{node}")
