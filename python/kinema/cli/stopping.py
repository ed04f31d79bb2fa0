"""Signals as exceptions: a stopped run closes its files and leaves no partial output.

Python drops an exception that is raised in a destructor or in the callback of a weak reference, and h5py has many of
these: a signal that arrives there is sent again.

A signal that was ignored when the process started stays ignored, as for jobs that a shell starts in the background:
Ctrl-C in that terminal is not meant for them.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

# seconds until a dropped signal is sent again
_AGAIN = 0.01


class Terminated(BaseException):
    """The process got SIGTERM, from a batch system or a person; `except Exception` does not catch it."""


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Within the block, SIGTERM raises Terminated in the main thread, unless it is ignored; no signal is lost."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before, hook = replace_handler(signal.SIGTERM, stop), sys.unraisablehook

    def dropped(what: Any) -> None:
        number = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}.get(what.exc_type)
        if number is None:
            hook(what)
        else:
            # not here: it would be dropped again
            threading.Thread(target=_send_after, args=(number, dropped.__code__), daemon=True).start()

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


def _send_after(number: signal.Signals, hook: CodeType) -> None:
    """Sends a signal to this process once the main thread has left this hook; a busy machine may delay that."""
    frame: FrameType | None
    while True:
        time.sleep(_AGAIN)
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None and frame.f_code is not hook:
            frame = frame.f_back
        if frame is None:
            break
    os.kill(os.getpid(), number)


def replace_handler(number: signal.Signals, handler: Any) -> Any:
    """Sets the handler of a signal unless the signal is ignored. Returns the previous handler."""
    before = signal.getsignal(number)
    if before is not signal.SIG_IGN:
        signal.signal(number, handler)
    return before
