"""Reports as JSON, with a version: the contents of the file, and how to read it.

    schema        "kinema-report", version 2
    machine, input, run, extra, advice    as `Report` has them
    opening, whole, wall, start, plan    seconds, as `Timings` has them
    totals        seconds of all workers by phase
    quantities    the publications' quantities
    blocks        {phase: {count, mean, median, p95, max}}, seconds of a block; "between": from a block to the next one
    rounds        wall, frames, restored, workers (all of WorkerTimings and unaccounted), block_columns, blocks (rows;
                  the longest MOST_BLOCKS of them), blocks_left_out, tasks (of Dask: function, task and job time)
    stragglers, slow_files

Version 1 had no planning: `start` of its workers has planning, and opening in a process. It had the quantities' former
names, which nothing reads: quantities follow from the rounds.

It draws no conclusions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.timings import (
    BLOCK_COLUMNS,
    BLOCK_PHASES,
    PassTimings,
    TaskTimes,
    Timings,
    WorkerTaskTimes,
    WorkerTimings,
    block_column,
)
from kinema.cache.counts import CacheCounts
from kinema.report.places import Place
from kinema.report.stragglers import PHASE_NAMES, SlowFile, Straggler

if TYPE_CHECKING:
    from kinema.report.report import Report

R = TypeVar("R")

SCHEMA = "kinema-report"
VERSION = 2
# versions that are read
_VERSIONS = (1, VERSION)
# blocks of a pass in a file: enough for a picture
MOST_BLOCKS = 20_000
# largest number of workers of a pass, and largest number in a report; larger ones were not measured
_MOST_WORKERS = 100_000
_LARGEST = 1e18
_DIGITS = 9  # of seconds: the clocks count nanoseconds


def report_as_dict(report: Report) -> dict[str, Any]:
    """The report as plain values."""
    timings = report.timings
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "machine": dict(report.machine),
        "input": dict(report.input),
        "run": dict(report.run),
        "extra": dict(report.extra),
        "opening": dict(timings.opening),
        "whole": timings.whole,
        "wall": timings.wall,
        "start": timings.start,
        "plan": timings.plan,
        "totals": timings.totals,
        "quantities": report.quantities.as_dict(),
        "blocks": block_summary(timings),
        "rounds": [_round(one) for one in timings.passes],
        "stragglers": [one.as_dict() for one in report.stragglers],
        "slow_files": [asdict(one) for one in report.slow_files],
        "advice": list(report.advice),
    }


def block_summary(timings: Timings) -> dict[str, dict[str, float]]:
    """Seconds per block by phase: count, mean, median, p95, max. "between" is the time until the worker's next block:
    merging, waiting, asking for work; absent for workers with several threads. Empty without blocks."""
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in (*BLOCK_PHASES, "between")}
    for one in timings.passes:
        for name in BLOCK_PHASES:
            found[name].append(block_column(one.blocks, name))
        workers = block_column(one.blocks, "worker")
        found["between"] += [_gaps(one.blocks[workers == worker.worker]) for worker in one.workers]
    joined = {name: np.concatenate(values) for name, values in found.items() if values}
    return {name: _summary(values) for name, values in joined.items() if len(values)}


def _gaps(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = rows[np.argsort(block_column(rows, "start"), kind="stable")]
    begun = block_column(rows, "start")
    gaps = begun[1:] - (begun + _seconds(rows))[:-1]
    # overlapping blocks of a worker belong to its threads
    return gaps.clip(min=0.0) if (gaps > -1e-3).all() else np.empty(0)


def _seconds(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """(blocks,) of all phases."""
    total: NDArray[np.float64] = np.sum([block_column(blocks, name) for name in BLOCK_PHASES], axis=0)
    return total


def _summary(values: NDArray[np.float64]) -> dict[str, float]:
    return {
        "count": len(values),
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "p95": float(np.percentile(values, 95)),
        "max": float(values.max()),
    }


def _round(one: PassTimings) -> dict[str, Any]:
    kept = np.sort(np.argsort(-_seconds(one.blocks), kind="stable")[:MOST_BLOCKS])
    return {
        "wall": one.wall,
        "frames": one.frames,
        "restored": one.restored,
        "workers": [asdict(worker) | {"unaccounted": worker.unaccounted} for worker in one.workers],
        "block_columns": list(BLOCK_COLUMNS),
        "blocks": [[int(n) for n in row[:3]] + [round(float(s), _DIGITS) for s in row[3:]] for row in one.blocks[kept]],
        "blocks_left_out": len(one.blocks) - len(kept),
        # without transitions: there are thousands, and the runner keeps them
        "tasks": None if one.tasks is None else _tasks(one.tasks),
    }


def _tasks(tasks: TaskTimes) -> dict[str, Any]:
    """Function time, task time and job time beside what they follow from."""
    facts = {name: getattr(tasks, name) for name in ("function", "task", "job", "redone", "note")}
    return facts | {"workers": [asdict(one) for one in tasks.workers], "lost_workers": list(tasks.lost_workers)}


def report_from_dict(found: Any, path: str) -> dict[str, Any]:
    """The arguments of `Report`. Raises CorruptFileError for other files, ArgumentError for a newer version.

    All that is printed or drawn of a report is checked here, so that nothing after it meets a value of another kind.
    """
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise CorruptFileError("is not a report of kinema, written with --report", at=path)
    if type(found.get("version")) is not int or found["version"] not in _VERSIONS:
        raise ArgumentError(f"version of the report, expected 1 to {VERSION}, found {found.get('version')}", at=path)
    if found["version"] == 1:
        found = _version_2(found)
    try:
        run = _mapping(found, "run")
        given = _mapping(found, "input")
        _check(run, {"analyses": list, "atoms": int, "runner": str})
        _check(given, {"files": list, "format": str, "n_atoms": int})
        if run.get("node_cache") is not None:
            _record(CacheCounts, _mapping(run, "node_cache"))
        if not all(isinstance(one, str) for one in _checked(list, given.get("file_systems", []), "file_systems")):
            raise TypeError("file_systems")
        for one in _checked(list, given.get("storage", []), "storage"):
            stripes = _checked(list, _checked(dict, one, "storage").get("stripes", []), "stripes")
            if not all(isinstance(words, str) for words in stripes):
                raise TypeError("stripes")
        for file in given["files"]:
            _check(file, {"path": str, "fingerprint": str} | ({"size": int} if "size" in file else {}))
        if not given["files"] or not found["rounds"] or not all(isinstance(one, str) for one in run["analyses"]):
            raise ValueError("files, rounds or analyses")
        _check(given, {name: int for name in ("bytes_wanted", "n_frames") if name in given})
        extra = _mapping(found, "extra")
        _check(extra, {name: int for name in ("workers", "workload", "repeat") if name in extra})
        _check(found, {"whole": float, "start": float, "plan": float, "advice": list})
        opening = {str(name): _checked(float, value, name) for name, value in _mapping(found, "opening").items()}
        # reports of earlier versions have no access: there was only one
        access = str(run.get("access", "direct"))
        passes = tuple(_round_from(one) for one in found["rounds"])
        return {
            "machine": _mapping(found, "machine"),
            "input": given,
            "run": run,
            "timings": Timings(
                passes, float(found["whole"]), opening, run["runner"], access, start=found["start"], plan=found["plan"]
            ),
            "stragglers": tuple(_straggler_from(one) for one in found["stragglers"]),
            "slow_files": tuple(_record(SlowFile, one) for one in found["slow_files"]),
            "advice": tuple(map(str, found["advice"])),
            "extra": extra,
        }
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise CorruptFileError(f"the report is damaged: {type(error).__name__} {error}", at=path) from None


def _version_2(found: dict[str, Any]) -> dict[str, Any]:
    """A report of version 1 as one of version 2, without the seconds that it does not have."""
    return found | {"start": 0.0, "plan": 0.0}


def _round_from(found: Mapping[str, Any]) -> PassTimings:
    _check(found, {"wall": float, "frames": int, "restored": int})
    workers = tuple(_worker_from(one, found["wall"]) for one in found["workers"])
    rows = [[_checked(float, value, "blocks") for value in row] for row in found["blocks"]]
    blocks = np.array(rows, dtype=np.float64).reshape(-1, len(BLOCK_COLUMNS))
    tasks = None if found["tasks"] is None else _tasks_from(found["tasks"])
    return PassTimings(float(found["wall"]), found["frames"], workers, blocks, found["restored"], tasks)


def _worker_from(found: Mapping[str, Any], wall: float) -> WorkerTimings:
    worker = _record(WorkerTimings, found)
    if "threads" not in found and wall > 0:
        # version 1
        worker = replace(worker, threads=max(1, round(worker.total / wall)))
    if worker.worker not in range(_MOST_WORKERS) or worker.threads not in range(1, _MOST_WORKERS):
        raise ValueError("number of a worker, or of its threads")
    return worker


def _tasks_from(found: Mapping[str, Any]) -> TaskTimes:
    _check(found, {"job": float, "lost_workers": list, "redone": int, "note": str})
    workers = tuple(_record(WorkerTaskTimes, one) for one in found["workers"])
    lost = tuple(map(str, found["lost_workers"]))
    return TaskTimes(float(found["job"]), workers, (), lost, found["redone"], found["note"])


def _straggler_from(found: Mapping[str, Any]) -> Straggler:
    return _record(Straggler, {**found, "places": tuple(_record(Place, place) for place in found["places"])})


def _record(cls: type[R], found: Mapping[str, Any]) -> R:
    """A dataclass from a mapping; its annotations name the kinds of the values, and other names are ignored."""
    kinds = get_type_hints(cls)
    return cls(**{name: _checked(kind, found[name], name) for name, kind in kinds.items() if name in found})


def _mapping(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(found[name], dict):
        raise TypeError(f"{name} is not an object")
    return dict(found[name])


def _check(found: Any, kinds: Mapping[str, Any]) -> None:
    for name, kind in kinds.items():
        _checked(kind, found[name], name)


def _checked(kind: Any, value: Any, name: str) -> Any:
    """The value. Raises TypeError or ValueError for another kind, and for numbers that cannot be measurements."""
    allowed = get_args(kind) or (kind,)
    if float in allowed:
        allowed = (*allowed, int)
    if name == "phase" and value not in PHASE_NAMES:
        raise ValueError(f"phase, found {value!r}")
    # only Python takes true and false for whole numbers
    if get_origin(kind) is not tuple and type(value) not in allowed:
        raise TypeError(f"{name}, found {value!r}")
    if isinstance(value, int | float) and not abs(value) < _LARGEST:
        raise ValueError(f"{name}, found {value!r}")
    return value
