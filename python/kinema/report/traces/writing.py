"""`TraceWriter`: writes a trace file in Chrome's dialect, of what another program has recorded or computed."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import IO, Any


class TraceWriter:
    """Writes events; a file's name comes before the first event with its hash.

    Parameters
    ----------
    out : file
    host, command : str
        Where it ran, and what.
    source : str
        The recorder: "strace", "kinema".
    facts : text
        More about the process: its rank.
    """

    def __init__(self, out: IO[bytes], host: str, command: str, source: str, **facts: str) -> None:
        self._out = out
        self._host = _hash(host)
        self._known: dict[str, str] = {}
        self.events = 0
        self._out.write(b"[\n")
        self._describe("HH", "dftracer", 0, {"hhash": self._host, "name": host, "value": self._host})
        self._describe("process", source, 0, {"hhash": self._host, "command": command, **facts})

    def hash_of(self, path: str, process: int) -> str:
        """The hash of a path."""
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = _hash(path)
            self._describe("FH", "dftracer", process, {"hhash": self._host, "name": path, "value": found})
        return found

    def add(
        self, category: str, name: str, process: int, thread: int, start: int, duration: int, args: dict[str, Any]
    ) -> None:
        """Writes an event; times in ns."""
        self.events += 1
        self._write(
            {
                "id": self.events, "name": name, "cat": category, "pid": process, "tid": thread,
                "ts": start // 1000, "dur": duration // 1000, "ph": "X",
                "args": {"hhash": self._host, **args, "ns": duration, "start_ns": start},
            }
        )  # fmt: skip

    def _describe(self, name: str, category: str, process: int, args: dict[str, Any]) -> None:
        self._write({"name": name, "cat": category, "pid": process, "tid": process, "ph": "M", "args": args})

    def _write(self, one: dict[str, Any]) -> None:
        self._out.write(json.dumps(one, separators=(",", ":")).encode() + b"\n")

    def finish(self) -> None:
        """The end of the file."""
        self._out.write(b"]\n")


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
