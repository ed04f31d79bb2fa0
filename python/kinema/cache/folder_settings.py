"""Settings of a node cache, kept in its folder: a cache that is made without settings takes the last given ones."""

from __future__ import annotations

import errno
import os

from kinema.base.errors import FileIOError

DEFAULT_LIMIT = "200 GiB"
# subfolder in which the core keeps the whole cache
INSIDE = "kinema-cache-1"
# names of the settings
LIMIT, VERIFY_WHEN = "limit", "verify"


def stored_setting(root: str | os.PathLike[str], name: str) -> str | None:
    """A stored setting; None if none is stored."""
    try:
        with open(os.path.join(root, INSIDE, name), "rb") as file:
            return file.read(32).decode("ascii", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileIOError(f"{os.fspath(root)}: cannot read the {name} of the node cache: {error.strerror}") from error


def stored_limit(root: str | os.PathLike[str]) -> int | None:
    """Bytes; None if no limit is stored, or if the text is not a number: Kinema has not written it."""
    words = stored_setting(root, LIMIT)
    return int(words) if words is not None and words.isascii() and words.isdigit() else None


def store_setting(root: str, name: str, value: str) -> None:
    """Stores a setting in a folder that was checked. On a full disk the setting is not stored, without an error."""
    if stored_setting(root, name) == value:
        return
    place = os.path.join(root, INSIDE, name)
    temporary = f"{place}-{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(value.encode())
        os.replace(temporary, place)
    except OSError as error:
        # an empty file would stay
        if os.path.exists(temporary):
            os.unlink(temporary)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise FileIOError(f"{root}: cannot keep the {name} of the node cache: {error.strerror}") from error
