"""Small JSON texts with a proof by the user's key: markers and addresses, which lie where others may write."""

from __future__ import annotations

import hmac
import json
import os
from typing import Any

from kinema.cache.keys import prove, user_key
from kinema.errors import CorruptFileError, FileNotFound
from kinema.files import read_regular
from kinema.writing.output_file import write_whole

__all__ = ["checked", "read_signed", "signed", "write_signed"]

_VERSION = 1
_MOST_BYTES = 1 << 16


def write_signed(path: str, purpose: str, content: dict[str, Any]) -> None:
    """Writes `content` and its proof, in place of a file that is there. Raises as `write_whole` and `user_key`."""
    data = signed(path, purpose, content)
    write_whole(path, lambda file: file.write(data))


def signed(name: str, purpose: str, content: dict[str, Any]) -> bytes:
    """`content` and its proof for a file, or whatever else has this name."""
    content = {"version": _VERSION, **content}
    content["proof"] = prove(user_key(), purpose, _canonical(name, content))
    return json.dumps(content, indent=1).encode() + b"\n"


def read_signed(path: str, purpose: str) -> tuple[dict[str, Any], bool] | None:
    """The content and whether its proof holds by this user's key; None where there is no file.

    CorruptFileError for other files; also as `read_regular` and `user_key`.
    """
    try:
        data = read_regular(path, purpose, _MOST_BYTES)
    except FileNotFound:
        return None
    return checked(path, purpose, data)


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


def _canonical(path: str, content: dict[str, Any]) -> bytes:
    """What the proof is of: a marker of one file is none of another."""
    return json.dumps([os.path.basename(path), content], sort_keys=True).encode()
