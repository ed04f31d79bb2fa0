"""The user's key: 32 random bytes by which processes of one user recognise each other, in the configuration folder.

The file is `kinema/key` in `$XDG_CONFIG_HOME`, else `~/.config`; it is made when it is first needed. Nodes that do not
share that folder need a copy of the file.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from kinema.base.errors import ArgumentError, FileAccessError, from_os

KEY_BYTES = 32


def key_file() -> Path:
    """Path of the key, present or future."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(configured) if os.path.isabs(configured) else Path.home() / ".config"
    return folder / "kinema" / "key"


def user_key() -> bytes:
    """The key, 32 bytes; it is made if there is none.

    Raises FileAccessError if the file or its folder belongs to another user, if others may read or write the file, or
    if others may write into the folder; ArgumentError if the file is not a key; FileIOError.
    """
    path = key_file()
    try:
        _check_folder(path.parent)
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _key_error(error, "read", path) from None
    try:
        path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        _check_folder(path.parent)
        _make(path)
        return _read(path)
    except OSError as error:
        raise _key_error(error, "make", path) from None


def prove(key: bytes, purpose: str, data: bytes) -> str:
    """HMAC-SHA256 of `data` for a purpose, in hexadecimal digits: a proof is valid for one purpose only."""
    return hmac.new(key, purpose.encode() + b"\0" + data, "sha256").hexdigest()


def _check_folder(folder: Path) -> None:
    """Raises FileAccessError if others may replace the key in the folder; also FileNotFoundError and OSError."""
    status = os.stat(folder)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid() or mode & 0o022:
        raise FileAccessError(
            f"{folder}: others may write into the folder of the user's key, expected owner {os.geteuid()} and mode "
            f"0700, found owner {status.st_uid} and mode {mode:04o}; chmod 700 it, or remove it",
            path=str(folder),
        )


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ArgumentError(f"{path}: is not a regular file, expected the user's key", path=str(path))
        if status.st_uid != os.geteuid():
            raise FileAccessError(
                f"{path}: the key belongs to another user, expected {os.geteuid()}, found {status.st_uid}",
                path=str(path),
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise FileAccessError(
                f"{path}: others may read or write the key, expected mode 0600, found {mode:04o}; "
                "remove it, and a new one is made",
                path=str(path),
            )
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise ArgumentError(f"{path}: is not a key, expected {KEY_BYTES} bytes, found {status.st_size}", path=str(path))
    return key


def _make(path: Path) -> None:
    """Makes a new key, which appears whole under its name, and never replaces an existing one."""
    temporary = path.with_name(f"key.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def _key_error(error: OSError, doing: str, path: Path) -> Exception:
    if isinstance(error, (ArgumentError, FileAccessError)):
        return error
    return from_os(f"cannot {doing} the user's key", error, str(path))
