"""Reader of `results.json` of `kinema bench-write`: the speeds of an experiment, for figures of several machines."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from kinema.base.errors import CorruptFileError
from kinema.base.input_files import read_regular
from kinema.report.figures.machines import Speeds
from kinema.report.ranks import EMULATED, MEASURED
from kinema.studies.write_strategies.design import KINDS, PAPER_NAMES, WITHOUT_ATOMS

_MOST_BYTES = 1 << 28
_GIB, _MB = 1 << 30, 1e6
_KEYS = {"design", "machine", "file_system", "cells"}


def is_write_study(path: str | os.PathLike[str]) -> bool:
    """Whether the file is JSON with the parts of an experiment on writing."""
    try:
        found = json.loads(read_regular(path, "results of bench-write", most=_MOST_BYTES))
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() >= _KEYS


def read_speeds(path: str | os.PathLike[str]) -> list[Speeds]:
    """The speeds of each strategy and kind of records; of several sets of hints the fastest.

    Raises CorruptFileError for other files.
    """
    name = os.fspath(path)
    try:
        found = json.loads(read_regular(path, "results of bench-write", most=_MOST_BYTES))
        return _speeds_of(found)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CorruptFileError(
            "are not the results of kinema bench-write, expected results.json of its folder, found "
            f"{type(error).__name__} {error}",
            at=name,
        ) from None


def _speeds_of(found: Mapping[str, Any]) -> list[Speeds]:
    machine, design = found["machine"], found["design"]
    words = [machine.get("host"), machine.get("processor"), f"{int(machine['allowed_cores'])} cores"]
    words.append(found["file_system"])
    if design["ranks_per_node"] is not None:
        words.append(f"{int(design['ranks_per_node'])} ranks a node")
    platform = ", ".join(str(word) for word in words if word)
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in found["cells"]:
        if cell["strategy"] not in WITHOUT_ATOMS:
            cells.setdefault((cell["records"], cell["strategy"]), []).append(cell)
    speeds = []
    for (records, strategy), some in cells.items():
        points: dict[int, tuple[float, float, float]] = {}
        gaps: dict[int, str] = {}
        for cell in some:
            ranks = int(cell["ranks"])
            if "gib_per_second" not in cell:
                gaps[ranks] = "; ".join(map(str, cell["failures"]))
                continue
            names = ("gib_per_second", "slowest_gib_per_second", "fastest_gib_per_second")
            median, slowest, fastest = (float(cell[name]) * _GIB / _MB for name in names)
            points[ranks] = max(points.get(ranks, (0.0, 0.0, 0.0)), (median, slowest, fastest))
        # one name for a strategy, whatever it writes
        paper = PAPER_NAMES.get(("", strategy), str(some[0]["paper_name"]))
        method = f"{strategy} ({paper})" if paper else strategy
        left = {n: why for n, why in gaps.items() if n not in points}
        title = KINDS[records].title
        repeats = max(int(cell["repeats"]) for cell in some)
        kind = EMULATED if "emulated" in machine else MEASURED
        speeds.append(Speeds(platform, method, f"writing {title}", points, left, repeats, kind))
    return speeds
