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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
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
            threading.Thread(target=_send_after, args=(number, dropped.__code__), daemon=True).start()

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


def _send_after(number: signal.Signals, hook: CodeType) -> None:
    """Sends a signal to this process when the main thread is out of this hook, which a busy machine may hold up."""
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
    """Sets the handler of a signal that is not ignored; gives the one before."""
    before = signal.getsignal(number)
    if before is not signal.SIG_IGN:
        signal.signal(number, handler)
    return before
