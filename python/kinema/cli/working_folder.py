"""Keeps matplotlib from taking settings from the working folder, which may belong to anybody."""

from __future__ import annotations

import os
from pathlib import Path

from kinema.base.notes import emit

# variables with the user's own paths of matplotlib's settings, perhaps relative to the working folder
_STATED = ("MATPLOTLIBRC", "MPLCONFIGDIR")


def leave_out_matplotlibrc() -> None:
    """If the working folder has a `matplotlibrc`, imports matplotlib in a folder of this package and emits a note.

    matplotlib reads that file first, on every import. The file may send text through TeX and name files for TeX to
    include, or be a FIFO that never ends. A file that the environment variable MATPLOTLIBRC names is still used.
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
