"""Signals on which a run saves its checkpoint: SIGUSR1 to save and continue, SIGTERM to save and end.

Ctrl-C needs no handler: Python raises KeyboardInterrupt.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class _SigtermReceived(BaseException):
    """SIGTERM came that would have ended the process at once; not an Exception, so that no code continues after it."""


@contextmanager
def save_on_signals(request: Callable[[], None]) -> Iterator[None]:
    """Within the block SIGUSR1 and SIGTERM call `request`, which requests a save, and then have their former effect.

    If the program has no handler for SIGTERM, the signal raises an exception, so that the block can save; after the
    block the process ends by the signal, as it would have done at once. If the program has a handler, it is called and
    decides whether to continue. SIGUSR1 without a handler has no further effect. Only the main thread may set handlers:
    in another thread signals keep their former effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for number in (signal.SIGUSR1, signal.SIGTERM):
        handler = signal.getsignal(number)
        # None: set by a C library; it could not be restored
        if handler is not None:
            before[number] = signal.signal(number, _handler(request, number, handler))
    try:
        yield
    except _SigtermReceived:
        _set_back(before)
        # now with its usual action
        os.kill(os.getpid(), signal.SIGTERM)
        raise
    finally:
        _set_back(before)


Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


def _handler(request: Callable[[], None], number: int, own: Handler) -> Callable[[int, FrameType | None], None]:
    def handle(received: int, frame: FrameType | None) -> None:
        request()
        if callable(own):
            own(received, frame)
        elif number == signal.SIGTERM and own == signal.SIG_DFL:
            raise _SigtermReceived

    return handle


def _set_back(before: dict[signal.Signals, Handler]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
