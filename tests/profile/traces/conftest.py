"""Traces made by hand: events with times that one can add up in one's head."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

# ns since 1970: a day in 2026
BEGIN = 1_795_228_440_000_000_000


class TracesByHand:
    """Makes lines, and writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def event(
        self, category: str, name: str, start: int, duration: int, *, pid: int = 1, tid: int = 0, **args: Any
    ) -> dict[str, Any]:
        """An event in Kinema's own form: times in ns since `BEGIN`."""
        start += BEGIN
        return {
            "id": 1, "name": name, "cat": category, "pid": pid, "tid": tid or pid, "ts": start // 1000,
            "dur": duration // 1000, "ph": "X",
            "args": {"hhash": "h", **args, "ns": duration, "start_ns": start},
        }  # fmt: skip

    def head(
        self, host: str = "node0", source: str | None = "kinema", files: Iterable[str] = (), **process: str
    ) -> list[dict[str, Any]]:
        """The lines that say what hashes are of, and who has written the file."""

        def described(name: str, category: str, /, **args: Any) -> dict[str, Any]:
            return {"name": name, "cat": category, "pid": 1, "tid": 1, "ph": "M", "args": {"hhash": "h", **args}}

        lines = [described("HH", "dftracer", name=host, value="h")]
        lines += [described("FH", "dftracer", name=path, value=f"f{number}") for number, path in enumerate(files)]
        return lines + ([described("process", source, command="kinema rmsd", **process)] if source else [])

    def integers(self, one: dict[str, Any]) -> dict[str, Any]:
        """An event as DFTracer 2.2 writes it: times in µs alone."""
        args = {name: value for name, value in one["args"].items() if name not in ("ns", "start_ns")}
        return {**one, "type": 3, "ph": {"X": 1, "M": 4}[one["ph"]], "args": args}

    def write(self, name: str, lines: Iterable[dict[str, Any] | str], *, brackets: bool = True) -> Path:
        """A trace file, in Chrome's dialect, or of lines alone; compressed in members of a few lines each."""
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        data = "".join(f"{text}\n" for text in (["[", *texts, "]"] if brackets else texts)).encode()
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        step = 500 if len(data) < 50_000 else 50_000
        pieces = [data[at : at + step] for at in range(0, len(data), step)]
        path.write_bytes(b"".join(map(gzip.compress, pieces)) if name.endswith(".gz") else data)
        return path


@pytest.fixture
def traces(tmp_path: Path) -> TracesByHand:
    """Makes traces in the test's folder."""
    return TracesByHand(tmp_path)
