"""Signals as exceptions: a run that is stopped closes its files and leaves no partial output.

Python drops an exception that comes up in a destructor or in the callback of a weak reference, of which h5py has many:
a signal that came there is sent once more.

A signal that was ignored when the process started stays ignored, as for jobs that a shell starts in the background:
Ctrl-C in its terminal is for others.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# seconds until a signal that was dropped is sent again
_AGAIN = 0.01


class Terminated(BaseException):
    """The process got SIGTERM, from a batch system or a person; `except Exception` does not catch it."""


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Within the block SIGTERM raises Terminated in the main thread, unless it is ignored; no signal is lost."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before, hook = replace_handler(signal.SIGTERM, stop), sys.unraisablehook

    def dropped(what: Any) -> None:
        number = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}.get(what.exc_type)
        if number is None:
            hook(what)
        else:
            # not here, where it would be dropped as well
            threading.Timer(_AGAIN, os.kill, (os.getpid(), number)).start()

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


def replace_handler(number: signal.Signals, handler: Any) -> Any:
    """Sets the handler of a signal that is not ignored; gives the one before."""
    before = signal.getsignal(number)
    if before is not signal.SIG_IGN:
        signal.signal(number, handler)
    return before
