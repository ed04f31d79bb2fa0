"""Markers: `NAME.ready` beside the name of a published file says that it is whole, its size and its checksum.

A marker is JSON, written whole and renamed:

    {"version": 1, "size": bytes, "xxh3": 16 hexadecimal digits, "frames": number or null, "id": 32 digits,
     "owner": {"host", "address", "port", "boot"} or null, "proof": HMAC-SHA256 of all else by the user's key}

`owner`: the file is on that node and is fetched from there; null: it is beside the marker. `id` is another one for each
publication. A marker that names an owner is used only where its proof holds.
"""

from __future__ import annotations

import hmac
import json
import os
import re
from dataclasses import asdict, dataclass
from typing import Any

from kinema.cache.keys import prove, user_key
from kinema.errors import CorruptFileError, FileNotFound
from kinema.files import read_regular
from kinema.writing.output_file import write_whole

__all__ = ["SUFFIX", "Marker", "Owner", "marker_path", "read_marker", "write_marker"]

SUFFIX = ".ready"
_VERSION = 1
_MOST_BYTES = 1 << 16
_PURPOSE = "marker"


@dataclass(frozen=True)
class Owner:
    """Where a published file is: the host's name, the address and port of its server, and its boot."""

    host: str
    address: str
    port: int
    boot: str


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

    def has_bytes_of(self, other: Marker) -> bool:
        """Whether both are of files of the same size and checksum."""
        return (self.size, self.xxh3) == (other.size, other.xxh3)


def marker_path(path: str | os.PathLike[str]) -> str:
    """Name of the marker of a file."""
    return os.fspath(path) + SUFFIX


def write_marker(path: str, marker: Marker) -> None:
    """Writes the marker of `path`, in place of one that is there. Raises as `write_whole`."""
    content = {"version": _VERSION, **asdict(marker)}
    content["proof"] = prove(user_key(), _PURPOSE, _canonical(path, content))
    data = json.dumps(content, indent=1).encode() + b"\n"
    write_whole(marker_path(path), lambda file: file.write(data))


def read_marker(path: str) -> tuple[Marker, bool] | None:
    """The marker of `path`, and whether it was written with this user's key; None where there is none.

    CorruptFileError for one that is damaged, or names an owner without the proof; also as `read_regular`.
    """
    name = marker_path(path)
    try:
        data = read_regular(name, "marker", _MOST_BYTES)
    except FileNotFound:
        return None
    try:
        content = json.loads(data)
        proof = content.pop("proof")
        is_ours = hmac.compare_digest(proof, prove(user_key(), _PURPOSE, _canonical(path, content)))
        marker = _decoded(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError(f"{name}: is no marker that Kinema has written ({error})", path=name) from None
    if marker.owner is not None and not is_ours:
        raise CorruptFileError(
            f"{name}: the marker is forged, or was written with another key than this user's: its proof does not hold",
            path=name,
        )
    return marker, is_ours


def _canonical(path: str, content: dict[str, Any]) -> bytes:
    """What the proof is of: a marker of one file is none of another."""
    return json.dumps([os.path.basename(path), content], sort_keys=True).encode()


def _decoded(content: dict[str, Any]) -> Marker:
    """ValueError, KeyError or TypeError for what no marker has."""
    if content.pop("version") != _VERSION:
        raise ValueError("it is of another version")
    owner = content.pop("owner")
    marker = Marker(**content, owner=None if owner is None else Owner(**owner))
    numbers = [marker.size, *([] if marker.frames is None else [marker.frames])]
    if any(type(number) is not int or not 0 <= number < 1 << 62 for number in numbers):
        raise ValueError("size or frames are no numbers of bytes and frames")
    if not re.fullmatch("[0-9a-f]{16}", marker.xxh3) or not re.fullmatch("[0-9a-f]{32}", marker.id):
        raise ValueError("checksum or id are no hexadecimal digits")
    if marker.owner is not None:
        texts = (marker.owner.host, marker.owner.address, marker.owner.boot)
        if not all(isinstance(text, str) and len(text) < 256 for text in texts):
            raise ValueError("the owner's names are no text")
        if type(marker.owner.port) is not int or not 0 < marker.owner.port < 1 << 16:
            raise ValueError("the owner's port is none")
    return marker
