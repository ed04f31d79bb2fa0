"""Small JSON texts with a proof by the user's key: markers and addresses, which lie where others may write."""

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

__all__ = ["checked", "read_signed", "signed", "write_signed"]

_VERSION = 2
_MOST_BYTES = 1 << 16


def write_signed(path: str, purpose: str, content: dict[str, Any]) -> None:
    """Writes `content`, the file's folder and their proof, in place of a file that is there.

    Raises as `write_whole` and `user_key`.
    """

    def write(file: IO[bytes]) -> None:
        file.write(signed(path, purpose, {**content, "folder": asdict(_folder_of(path))}))

    write_whole(path, write)


def signed(name: str, purpose: str, content: dict[str, Any]) -> bytes:
    """`content` and its proof for a file, or whatever else has this name."""
    content = {"version": _VERSION, **content}
    content["proof"] = prove(user_key(), purpose, _canonical(name, content))
    return json.dumps(content, indent=1).encode() + b"\n"


def read_signed(path: str, purpose: str) -> tuple[dict[str, Any], bool] | None:
    """The content and whether its proof holds by this user's key, for this folder; None where there is no file.

    CorruptFileError for other files; also as `read_regular` and `user_key`.
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
        raise CorruptFileError(f"{path}: is no {purpose} that Kinema has written ({error})", path=path) from None
    return content, is_ours and (folder.path == here.path or folder.inode == here.inode)


def checked(path: str, purpose: str, data: bytes) -> tuple[dict[str, Any], bool]:
    """What `signed` has made for this name, and whether its proof holds; CorruptFileError for anything else."""
    try:
        content = json.loads(data)
        proof = content.pop("proof")
        is_ours = hmac.compare_digest(proof, prove(user_key(), purpose, _canonical(path, content)))
        if content.pop("version") != _VERSION:
            raise ValueError("it is of another version")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"{path}: is no {purpose} that Kinema has written ({error})", path=path) from None
    return content, is_ours


@dataclass(frozen=True)
class _Folder:
    """What a proof in a file is for: whoever writes into a folder puts no file of another one there.

    Known by its resolved path or by its inode: it may be mounted under another name on another node, and have moved.
    """

    path: str
    inode: int


def _folder_of(path: str) -> _Folder:
    """The folder of a file. OSError where there is none."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    return _Folder(folder, os.stat(folder).st_ino)


def _canonical(path: str, content: dict[str, Any]) -> bytes:
    """What the proof is of: a marker of one file is none of another."""
    return json.dumps([os.path.basename(path), content], sort_keys=True).encode()
