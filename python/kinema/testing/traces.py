"""Readers of traces, with a plain parser of lines of JSON."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def lines_of(path: Path) -> list[str]:
    """All whole lines of a trace file: a process may be killed in the middle of the last one, or of a gzip member."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        text = b""
        while data:
            member = zlib.decompressobj(wbits=31)
            text += member.decompress(data)
            data = member.unused_data
        data = text
    return data[: data.rfind(b"\n") + 1].decode().splitlines()


def events_of(path: Path, *, whole: bool = True) -> list[Event]:
    """Events and metadata of a file; `whole`: the file must end as if its process had ended by itself."""
    first, *lines = lines_of(path)
    assert first == "["
    if whole or lines[-1] == "]":
        assert lines.pop() == "]"
    return [json.loads(line) for line in lines]


def all_events(folder: Path, *, whole: bool = True) -> list[Event]:
    """Events of all files of a folder, each file with its own metadata first."""
    found = []
    for path in sorted(folder.iterdir()):
        events = events_of(path, whole=whole)
        assert [events[0]["name"], events[1]["name"]] == ["HH", "process"]
        known = {event["args"]["value"] for event in events if event["name"] == "FH"}
        assert {event["args"]["fhash"] for event in events if "fhash" in event["args"]} <= known
        assert len({event["id"] for event in events if event["ph"] == "X"}) == sum(e["ph"] == "X" for e in events)
        found += events
    return found


def spans(events: Iterable[Event]) -> list[Event]:
    """The events that took time."""
    return [event for event in events if event["ph"] == "X"]


def nanoseconds(events: Iterable[Event]) -> Counter[str]:
    """Sums of `args.ns` by category and name."""
    found: Counter[str] = Counter()
    for event in spans(events):
        args = event["args"]
        assert event["ts"] == args["start_ns"] // 1000 and event["dur"] == args["ns"] // 1000
        found[f"{event['cat']}.{event['name']}"] += args["ns"]
    return found


def file_calls(events: list[Event], path: Path | str) -> list[Event]:
    """The system calls on a file."""
    hashes = {e["args"]["value"] for e in events if e["name"] == "FH" and e["args"]["name"] == str(path)}
    return [e for e in spans(events) if e["cat"] == "POSIX" and e["args"].get("fhash") in hashes]
