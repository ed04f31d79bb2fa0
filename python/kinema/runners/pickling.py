"""Bytes that carry functions, classes and exceptions of the user's own to other processes and back.

Code of a script or session goes along; modules are imported where the bytes arrive. `pickle.loads` is the way back.
"""

from __future__ import annotations

import io
import pickle
import sys
from operator import attrgetter
from typing import Any

from kinema.errors import InternalError

__all__ = ["pack", "pack_error"]


def pack(content: object) -> bytes:
    """As bytes. Whatever pickling raises for what cannot be sent."""
    # it takes longer to import than all else that a run on threads needs
    import cloudpickle

    packed: bytes = cloudpickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    return packed


def pack_error(error: BaseException, where: str) -> bytes:
    """An exception as bytes; one that cannot travel becomes an InternalError with its text and `where` it was raised.

    Where all ranks run the script, each gets the class of its own copy of it, so that `except` knows it.
    """
    try:
        packed = _pack_for_the_script(error)
        # many classes of others can be pickled and not be made again, as their `__init__` wants more than a message
        pickle.loads(packed)
    except Exception:
        packed = pack(InternalError(f"{type(error).__name__} {where}: {error}"))
    return packed


def _pack_for_the_script(content: object) -> bytes:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, item: Any) -> Any:
            if isinstance(item, type) and item.__module__ == "__main__":
                return _class_of_the_script, (item.__qualname__, pack(item))
            return super().reducer_override(item)

    buffer = io.BytesIO()
    Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(content)
    return buffer.getvalue()


def _class_of_the_script(name: str, packed: bytes) -> Any:
    """The class that the program which runs here has under its name, else the one that was sent."""
    try:
        found = attrgetter(name)(sys.modules["__main__"])
    except AttributeError:
        found = None
    return found if isinstance(found, type) else pickle.loads(packed)
