"""Signals as exceptions: a run that is stopped closes its files and leaves no partial output.

A signal that was ignored when the process started stays ignored, as for jobs that a shell starts in the background:
Ctrl-C in its terminal is for others.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Terminated(BaseException):
    """The process got SIGTERM, from a batch system or a person; `except Exception` does not catch it."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Within the block SIGTERM raises Terminated in the main thread, unless it is ignored."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = replace_handler(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def replace_handler(number: signal.Signals, handler: Any) -> Any:
    """Sets the handler of a signal that is not ignored; gives the one before."""
    before = signal.getsignal(number)
    if before is not signal.SIG_IGN:
        signal.signal(number, handler)
    return before
