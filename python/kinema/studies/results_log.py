"""results.jsonl: one line per run of an experiment, in the folder that the user has named for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kinema._core import __version__
from kinema.base.errors import ArgumentError, CorruptFileError, from_os
from kinema.base.input_files import read_regular
from kinema.storage.output_checks import check_remade, check_target
from kinema.storage.output_file import write_whole

__all__ = ["ResultsLog", "marked", "read_results"]

_MOST_BYTES = 1 << 30


def marked(text: str) -> str:
    """A report in Markdown, with a comment that gives the version of Kinema."""
    return f"<!-- kinema {__version__} -->\n{text}"


class ResultsLog:
    """results.jsonl in the folder of an experiment; if an error ends the experiment early, a note on it gives the path.

    The file is whole at any moment: it is rewritten for each line.
    """

    def __init__(
        self,
        place: Path,
        beside: str | None = None,
        *,
        overwrite: bool = False,
        remade: Sequence[Path] = (),
        kept: Sequence[Mapping[str, Any]] = (),
        resumed: bool = False,
    ) -> None:
        """`beside` is the name of a folder to be made in `place` for files that belong to the lines.

        `remade` are files that are made from the lines at the end. `overwrite` replaces existing files; without it,
        results of another experiment are refused, and so are `remade` files that Kinema did not write. `kept` are lines
        of the file that stay if the experiment is `resumed`.
        """
        self._place = place
        self._path = place / "results.jsonl"
        if place.exists() and not place.is_dir():
            raise ArgumentError(f"{place}: is a file, expected a folder for results.jsonl and what belongs to it")
        self._lines: list[bytes] = [_line(one) for one in kept]
        if not (overwrite or resumed) and self._path.exists() and self._path.stat().st_size > 0:
            raise ArgumentError(
                f"{self._path}: holds the results of another experiment; name another folder, or overwrite=True "
                "replaces them"
            )
        for path in filter(Path.exists, remade):
            check_remade(path, overwrite=overwrite)
        self._beside = place if beside is None else place / beside
        self._made = [folder for folder in dict.fromkeys((self._beside, place)) if not folder.exists()]
        try:
            self._beside.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise from_os("cannot write", error, str(place)) from None
        check_target(self._path)

    def __enter__(self) -> ResultsLog:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        n = len(self._lines)
        if n == 0:
            self._leave_nothing_empty()
        elif error is not None:
            runs = "1 run is" if n == 1 else f"{n} runs are"
            more = "" if self._beside == self._place else f", with {self._beside.name} in {self._beside}"
            error.add_note(f"{runs} kept in {self._path}{more}")

    def _leave_nothing_empty(self) -> None:
        # a folder that is not empty does no harm, and must not hide an error
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def add(self, outcome: Mapping[str, Any]) -> None:
        """Writes the line of a run; the line is in the file when this returns."""
        lines = [*self._lines, _line(outcome)]
        write_whole(self._path, lambda file: file.writelines(lines))
        self._lines = lines


def _line(outcome: Mapping[str, Any]) -> bytes:
    return json.dumps(outcome, allow_nan=False).encode() + b"\n"


def read_results(place: Path) -> list[dict[str, Any]]:
    """The lines of results.jsonl in a folder; none if there is no such file. Raises CorruptFileError for others."""
    path = place / "results.jsonl"
    if not path.exists():
        return []
    lines = []
    for number, line in enumerate(read_regular(str(path), "results", most=_MOST_BYTES).splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise CorruptFileError(
                f"{path}: line {number + 1} is not a run of an experiment, expected JSON", path=str(path)
            )
        lines.append(found)
    return lines
