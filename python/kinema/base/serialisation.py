"""Serialization of the user's functions, classes and exceptions for other processes, by cloudpickle.

Code of a script or session is sent along; the receiver imports modules. `pickle.loads` deserializes.
"""

from __future__ import annotations

import io
import pickle
import sys
from operator import attrgetter
from typing import Any

from kinema.base.errors import InternalError


def serialize(content: object) -> bytes:
    """`content` as bytes; raises what pickling raises for an object that cannot be sent."""
    # importing it takes longer than everything else that a run on threads needs
    import cloudpickle

    packed: bytes = cloudpickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    return packed


def serialize_error(error: BaseException, where: str) -> bytes:
    """An exception as bytes; if it cannot be pickled, an InternalError with its text and the place `where`.

    If all ranks run the script, each gets the class of its own copy of the script, so that `except` catches it.
    """
    try:
        packed = _serialize_for_script(error)
        # many exceptions of other packages can be pickled but not unpickled: `__init__` needs more than a message
        pickle.loads(packed)
    except Exception:
        packed = serialize(InternalError(f"{type(error).__name__} {where}: {error}"))
    return packed


def _serialize_for_script(content: object) -> bytes:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, item: Any) -> Any:
            if isinstance(item, BaseException):
                # as in Python: with Dask imported, tblib pickles exceptions, and loses the code of SystemExit
                return item.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            if isinstance(item, type) and item.__module__ == "__main__":
                return _class_of_script, (item.__qualname__, serialize(item))
            return super().reducer_override(item)

    buffer = io.BytesIO()
    Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(content)
    return buffer.getvalue()


def _class_of_script(name: str, packed: bytes) -> Any:
    """The class of that name in this process's main script, or else the class that was sent."""
    try:
        found = attrgetter(name)(sys.modules["__main__"])
    except AttributeError:
        found = None
    return found if isinstance(found, type) else pickle.loads(packed)
