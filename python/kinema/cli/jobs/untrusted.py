"""Limits on job files, which may come from a stranger: some values count only if the user gives them with `--set`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinema.cli.jobs.text import JobText, Place

SET_ALONE = ("scheduler",)
"""Keys that only `--set` may give: the server that they name runs code here."""

_STREAMS = ("-", "/dev/stdout", "/dev/stderr")
# keys of files that a run writes or replaces, and the suffixes that they may have. Names of atoms and texts of the job
# are written into these files; if one replaced a program, that program would run them.
_WRITTEN: dict[str | int, tuple[str, ...]] = {
    "output": (".csv", ".xvg", ".dat", ".npy", ".parquet", ".h5"),
    "report": (".json",),
    "plot": (),
    "checkpoint": (),
    "out": (),
}


def check_untrusted(text: JobText, place: Place, value: Any) -> None:
    """Raises ArgumentError for a value that a job file may not give, unless `--set` gave it.

    That is a key of `SET_ALONE`, and an output that is hidden, has no suffix of an output, or lies outside the working
    folder and the job file's folder.
    """
    if text.is_set(place):
        return
    setting = f"--set {'.'.join(map(str, place))}={value}"
    if place[-1] in SET_ALONE:
        raise text.error(place, f"a {place[-1]} may run code as you, so a job file names none; give it with {setting}")
    suffixes = _WRITTEN.get(place[-1])
    if suffixes is None or str(value) in _STREAMS:
        return
    # also for stdin, which has no folder of its own
    what = _unusual(Path(value), suffixes, (Path.cwd(), Path(text.name).parent.resolve()))
    if what is not None:
        raise text.error(
            place, f"{value}: is {what}, where a job file may not write; if it may, give it with {setting}"
        )


def _unusual(path: Path, suffixes: tuple[str, ...], folders: Sequence[Path]) -> str | None:
    """Why an output may be a file that matters to the user; None if it is an ordinary file in these folders."""
    folder = path.parent.resolve()
    above = next((one for one in folders if folder.is_relative_to(one)), None)
    if above is None:
        return "outside of the working folder and that of the job file"
    if any(part.startswith(".") for part in (*folder.relative_to(above).parts, path.name)):
        return "hidden"
    if suffixes and path.suffix.lower() not in suffixes:
        return f"not a file that ends in {', '.join(suffixes)}"
    return None
