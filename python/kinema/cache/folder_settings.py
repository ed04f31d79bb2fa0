"""Settings of a node cache, kept in its folder: who names the folder alone has those that were given for it last."""

from __future__ import annotations

import errno
import os

from kinema.base.errors import FileIOError

__all__ = ["DEFAULT_LIMIT", "INSIDE", "LIMIT", "VERIFY_WHEN", "store_setting", "stored_limit", "stored_setting"]

DEFAULT_LIMIT = "200 GiB"
# the folder within that of a cache in which the core keeps all of it
INSIDE = "kinema-cache-1"
# the settings
LIMIT, VERIFY_WHEN = "limit", "verify"


def stored_setting(root: str | os.PathLike[str], name: str) -> str | None:
    """A setting; None where nobody has given any."""
    try:
        with open(os.path.join(root, INSIDE, name), "rb") as file:
            return file.read(32).decode("ascii", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileIOError(f"{os.fspath(root)}: cannot read the {name} of the node cache: {error.strerror}") from error


def stored_limit(root: str | os.PathLike[str]) -> int | None:
    """Bytes; None where nobody has given any. What is no number is none: it is not ours."""
    words = stored_setting(root, LIMIT)
    return int(words) if words is not None and words.isascii() and words.isdigit() else None


def store_setting(root: str, name: str, value: str) -> None:
    """Keeps a setting, in a folder that was checked. A full disk is no error of a cache: then it is not kept."""
    if stored_setting(root, name) == value:
        return
    place = os.path.join(root, INSIDE, name)
    temporary = f"{place}-{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(value.encode())
        os.replace(temporary, place)
    except OSError as error:
        # an empty one would stay
        if os.path.exists(temporary):
            os.unlink(temporary)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise FileIOError(f"{root}: cannot keep the {name} of the node cache: {error.strerror}") from error
