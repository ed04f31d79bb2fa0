"""SIGTERM as an exception, so that a run that is told to stop closes its files and leaves no half of an output.

Ctrl-C needs nothing of the kind: Python raises KeyboardInterrupt.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """The process was told to end, by a queueing system or a person; not an Exception, as nobody may go on."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Within the block SIGTERM raises Terminated in the main thread."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
