"""What a job file does not say by itself, as it may come from a stranger: `--set` says it for the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinema.cli.jobs.text import JobText, Place

__all__ = ["SET_ALONE", "check_untrusted"]

SET_ALONE = ("scheduler",)
"""Keys that `--set` alone gives: what answers from there runs as code here."""

_STREAMS = ("-", "/dev/stdout", "/dev/stderr")
# keys of files that a run writes or replaces, and suffixes of those whose names are free otherwise: names of atoms and
# texts of the job are written into them, which a program that is replaced so would run
_WRITTEN: dict[str | int, tuple[str, ...]] = {
    "output": (".csv", ".xvg", ".dat", ".npy", ".parquet", ".h5"),
    "report": (".json",),
    "plot": (),
    "checkpoint": (),
    "out": (),
}


def check_untrusted(text: JobText, place: Place, value: Any) -> None:
    """Raises ArgumentError for a key of `SET_ALONE`, and for an output that is hidden, has no suffix of an output, or
    lies neither in the working folder nor in that of the job file or below them, unless `--set` gave the value."""
    if text.is_set(place):
        return
    setting = f"--set {'.'.join(map(str, place))}={value}"
    if place[-1] in SET_ALONE:
        raise text.error(place, f"a {place[-1]} may run code as you, so a job file names none; give it with {setting}")
    suffixes = _WRITTEN.get(place[-1])
    if suffixes is None or str(value) in _STREAMS:
        return
    # of stdin as well, which has no folder of its own
    what = _unusual(Path(value), suffixes, (Path.cwd(), Path(text.name).parent.resolve()))
    if what is not None:
        raise text.error(
            place, f"{value}: is {what}, where a job file may not write; if it may, give it with {setting}"
        )


def _unusual(path: Path, suffixes: tuple[str, ...], folders: Sequence[Path]) -> str | None:
    """Why an output may be another file of the user's than one of these folders."""
    folder = path.parent.resolve()
    above = next((one for one in folders if folder.is_relative_to(one)), None)
    if above is None:
        return "outside of the working folder and that of the job file"
    if any(part.startswith(".") for part in (*folder.relative_to(above).parts, path.name)):
        return "hidden"
    if suffixes and path.suffix.lower() not in suffixes:
        return f"not a file that ends in {', '.join(suffixes)}"
    return None
