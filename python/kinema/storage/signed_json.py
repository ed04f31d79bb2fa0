"""Small JSON texts with a proof by the user's key: markers and addresses, in places where others may write."""

from __future__ import annotations

import hmac
import json
import os
from dataclasses import asdict, dataclass
from typing import IO, Any

from kinema.base.errors import CorruptFileError, Error, from_os
from kinema.base.input_files import read_regular
from kinema.storage.output_file import write_whole
from kinema.storage.user_key import prove, user_key

_VERSION = 2
_MOST_BYTES = 1 << 16


def write_signed(path: str, purpose: str, content: dict[str, Any]) -> None:
    """Writes `content`, the file's folder and their proof; replaces an existing file.

    Raises as `write_whole` and `user_key`.
    """

    def write(file: IO[bytes]) -> None:
        file.write(signed(path, purpose, {**content, "folder": asdict(_folder_of(path))}))

    write_whole(path, write)


def signed(name: str, purpose: str, content: dict[str, Any]) -> bytes:
    """`content` and its proof, as bytes, for a file or another object of this name."""
    content = {"version": _VERSION, **content}
    content["proof"] = prove(user_key(), purpose, _canonical(name, content))
    return json.dumps(content, indent=1).encode() + b"\n"


def read_signed(path: str, purpose: str) -> tuple[dict[str, Any], bool] | None:
    """The content, and whether its proof holds by this user's key for this folder; None if there is no file.

    Raises CorruptFileError for other files, and as `read_regular` and `user_key`.
    """
    try:
        data = read_regular(path, purpose, _MOST_BYTES)
        here = _folder_of(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise error if isinstance(error, Error) else from_os("cannot read", error, path) from None
    content, is_ours = checked(path, purpose, data)
    try:
        folder = _Folder(**content.pop("folder"))
    except (KeyError, TypeError) as error:
        raise CorruptFileError(f"is not a Kinema {purpose} ({error})", at=path) from None
    return content, is_ours and (folder.path == here.path or folder.inode == here.inode)


def checked(path: str, purpose: str, data: bytes) -> tuple[dict[str, Any], bool]:
    """The content that `signed` has packed for this name, and whether its proof holds. Raises CorruptFileError for
    other bytes."""
    try:
        content = json.loads(data)
        proof = content.pop("proof")
        is_ours = hmac.compare_digest(proof, prove(user_key(), purpose, _canonical(path, content)))
        if content.pop("version") != _VERSION:
            raise ValueError("it is of another version")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"is not a Kinema {purpose} ({error})", at=path) from None
    return content, is_ours


@dataclass(frozen=True)
class _Folder:
    """The folder for which a proof in a file is valid: a file copied from another folder is not accepted.

    A folder is recognised by its resolved path or by its inode: it may have another name on another node, or have
    moved.
    """

    path: str
    inode: int


def _folder_of(path: str) -> _Folder:
    """The folder of a file. Raises OSError if it does not exist."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    return _Folder(folder, os.stat(folder).st_ino)


def _canonical(path: str, content: dict[str, Any]) -> bytes:
    """The bytes that the proof covers, with the file's name: a marker of one file is not valid for another."""
    return json.dumps([os.path.basename(path), content], sort_keys=True).encode()
