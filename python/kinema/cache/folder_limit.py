"""The limit of a node cache, kept in its folder: who names the folder alone has the one that was given for it last."""

from __future__ import annotations

import errno
import os

from kinema.errors import FileIOError

__all__ = ["DEFAULT_LIMIT", "INSIDE", "store_limit", "stored_limit"]

DEFAULT_LIMIT = "200 GiB"
# the folder within that of a cache in which the core keeps all of it
INSIDE = "kinema-cache-1"
_NAME = "limit"


def stored_limit(root: str | os.PathLike[str]) -> int | None:
    """Bytes; None where nobody has given any. What is no number is none: it is not ours."""
    try:
        with open(os.path.join(root, INSIDE, _NAME), "rb") as file:
            words = file.read(32)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileIOError(f"{os.fspath(root)}: cannot read the limit of the node cache: {error.strerror}") from error
    return int(words) if words.isdigit() else None


def store_limit(root: str, limit: int) -> None:
    """Keeps it, in a folder that was checked. A full disk is no error of a cache: then it is not kept."""
    if stored_limit(root) == limit:
        return
    place = os.path.join(root, INSIDE, _NAME)
    temporary = f"{place}-{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(b"%d" % limit)
        os.replace(temporary, place)
    except OSError as error:
        # an empty one would stay
        if os.path.exists(temporary):
            os.unlink(temporary)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise FileIOError(f"{root}: cannot keep the limit of the node cache: {error.strerror}") from error
