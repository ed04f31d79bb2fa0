"""Settings that libraries would take from the working folder, which may be anybody's: those of matplotlib."""

from __future__ import annotations

import os
from pathlib import Path

from kinema.base.notes import emit

__all__ = ["leave_out_matplotlibrc"]

# what the user says of matplotlib's settings, relative to the working folder
_STATED = ("MATPLOTLIBRC", "MPLCONFIGDIR")


def leave_out_matplotlibrc() -> None:
    """Imports matplotlib in a folder of this package, where the working folder has a `matplotlibrc`; emits a note.

    matplotlib reads that file before all others and wherever it is imported. It may say that texts go through TeX, and
    what TeX includes, or be a FIFO that never ends. One that the environment variable MATPLOTLIBRC names is used.
    """
    if not os.path.lexists("matplotlibrc"):
        return
    os.environ.update({name: os.path.abspath(os.environ[name]) for name in _STATED if os.environ.get(name)})
    here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
    try:
        os.chdir(Path(__file__).parent)
        import matplotlib  # noqa: F401
    finally:
        os.fchdir(here)
        os.close(here)
    if "MATPLOTLIBRC" not in os.environ:
        emit(["matplotlibrc of the working folder is not used for pictures; set the variable MATPLOTLIBRC to use one"])
