"""The varied settings of an experiment on writing: records, strategies, ranks, hints; checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from kinema.base.comparison import LEAST_REPEATS
from kinema.base.errors import ArgumentError
from kinema.formats.all_formats import format_named
from kinema.formats.strategies import STRATEGIES, strategies_of


@dataclass(frozen=True)
class RecordKind:
    """One kind of file.

    Attributes
    ----------
    format : of the file; for native binary records, the format whose strategies they use
    file : name of the file
    title : for tables and pictures
    options : of the writer
    """

    format: str
    file: str
    title: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def written(self) -> str:
        """Its row in the table of strategies."""
        return format_named(self.format).written_kind(self.options)


KINDS: Mapping[str, RecordKind] = {
    "ascii": RecordKind("DL_POLY CONFIG", "CONFIG", "ASCII records (CONFIG)"),
    "binary": RecordKind("DL_POLY CONFIG", "binary.config", "native binary records"),
    "netcdf": RecordKind("NetCDF", "configuration.nc", "NetCDF"),
    "dcd": RecordKind("DCD", "configuration.dcd", "DCD (positions)"),
    "trr": RecordKind("TRR", "configuration.trr", "TRR"),
    "xtc": RecordKind("XTC", "configuration.xtc", "XTC (positions)"),
    "h5md": RecordKind("H5MD", "configuration.h5md", "H5MD"),
    "h5md-contiguous": RecordKind(
        "H5MD", "contiguous.h5md", "H5MD, layout contiguous", {"layout": "contiguous", "n_frames": 1}
    ),
}
RECORDS = ("ascii", "binary")
FORMATS = tuple(name for name in KINDS if name not in RECORDS)

FIELDS: Mapping[str, tuple[str, ...]] = {
    "dcd": ("positions",), "xtc": ("positions",),
}  # fmt: skip
"""Fields of the kinds that do not hold all three."""

NETCDF_LIBRARY = "netcdf-library"
"""The netCDF4 library on rank 0, in DL_POLY's convention."""
PNETCDF = "pnetcdf"
"""The PnetCDF library on all ranks, through a separate program, in AMBER's convention like `kinema.Writer`."""
_OF_NETCDF = (NETCDF_LIBRARY, PNETCDF)
DISK, PLACER = "disk", "placer"
WITHOUT_ATOMS: Mapping[str, str] = {DISK: "(the disk: plain write and sync)", PLACER: "(the calls of direct alone)"}
"""Not strategies: as many bytes as a file has, written by as many processes, without atoms; for tables."""

PAPER_NAMES: Mapping[tuple[str, str], str] = {
    ("", "serial"): "SDAW",
    ("", "direct"): "PDAW",
    ("", "mpiio"): "MPIW",
    ("", "mpiio-collective"): "MPIW, collective",
    ("netcdf", NETCDF_LIBRARY): "SNCW",
}

SYSTEMS = ("pyrochlore",)
PAGE_CACHES = ("warm", "drop")

# mpiexec takes a second or two to start
_MOST_SECONDS = 1e7


@dataclass(frozen=True)
class WriteSetting:
    """One cell of the table, with all its repeats."""

    records: str
    strategy: str
    ranks: int
    hints: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """The strategy with its hints, for tables."""
        if self.strategy in WITHOUT_ATOMS:
            return WITHOUT_ATOMS[self.strategy]
        return " ".join([self.strategy, *(f"{name}={value}" for name, value in self.hints)])

    @property
    def paper_name(self) -> str:
        """The DL_POLY paper's name for it; "" if it has none."""
        own = PAPER_NAMES.get((self.records, self.strategy), "")
        return own if own or self.records not in RECORDS else PAPER_NAMES.get(("", self.strategy), "")

    @property
    def writers(self) -> int:
        """Number of ranks that write the one frame."""
        if self.strategy in ("serial", "gather", NETCDF_LIBRARY):
            return 1
        return min(self.ranks, int(dict(self.hints).get("cb_nodes", self.ranks)))


@dataclass(frozen=True)
class WriteDesign:
    """An experiment.

    `particles`: approximate number of atoms; the system consists of whole cells.
    `strategies`: of `kinema.formats.strategies`, "netcdf-library", "pnetcdf"; ("all",) for all that each kind has.
    `ranks`: numbers of MPI ranks.
    `hints`: {ROMIO's name: (values,)}; each combination of values is a separate series.
    `time_limit`: seconds of one program, from its start to its end.
    `repeats`: number of runs of each cell.
    `verify`: each rank reads what another has written (`kinema.Writer(verify=True)`), which is timed separately.
    `page_cache`: state of files when they are read back: "warm", as they lie in memory, or "drop": the system is asked
        to drop them.
    `ranks_per_node`: placement by the launcher.
    `launcher`: words of the program that starts ranks; empty for mpiexec.
    `step_time`, `every`: seconds per step of a simulation, and steps between two configurations.
    `peers`: formatted writes by Fortran and by Python are timed too, and ("all",) strategies include PnetCDF.
    `seed`: of velocities, displacements, and the order of atoms.
    """

    particles: int = 3_773_000
    system: str = SYSTEMS[0]
    records: tuple[str, ...] = (*RECORDS, "netcdf")
    strategies: tuple[str, ...] = ("all",)
    ranks: tuple[int, ...] = (1, 2)
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    time_limit: float = 600.0
    repeats: int = LEAST_REPEATS
    verify: bool = False
    page_cache: str = "drop"
    ranks_per_node: int | None = None
    launcher: tuple[str, ...] = ()
    step_time: float | None = None
    every: int | None = None
    peers: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        _check_each("system", (self.system,), SYSTEMS)
        _check_each("records", self.records, tuple(KINDS))
        _check_each("strategies", self.strategies, ("all", *STRATEGIES, *_OF_NETCDF))
        _check_each("page_cache", (self.page_cache,), PAGE_CACHES)
        whole = {"particles": (self.particles,), "ranks": self.ranks, "repeats": (self.repeats,)}
        whole |= {"ranks_per_node": (self.ranks_per_node,)} if self.ranks_per_node is not None else {}
        whole |= {"every": (self.every,)} if self.every is not None else {}
        for name, numbers in whole.items():
            if not numbers or min(numbers) < 1:
                raise ArgumentError(f"{name} must be at least 1, found {', '.join(map(str, numbers)) or 'none'}")
        seconds = {"time_limit": self.time_limit} | ({} if self.step_time is None else {"step_time": self.step_time})
        for name, value in seconds.items():
            if not 0 < value <= _MOST_SECONDS or math.isnan(value):
                raise ArgumentError(f"{name} is a number of seconds above 0, found {value:g}")
        if (self.step_time is None) != (self.every is None):
            raise ArgumentError("step_time and every belong together; give both")
        if not list(self.settings()):
            raise ArgumentError(
                f"none of {', '.join(self.strategies)} exists for {', '.join(self.records)}; see docs/bench-write.md"
            )

    @property
    def asks_for_all(self) -> bool:
        """Whether each kind of records is written by every strategy that it has."""
        return "all" in self.strategies

    def settings(self) -> Iterator[WriteSetting]:
        """All cells. A named strategy appears with each kind of records, as a gap if the kind does not have it.

        A strategy that ignores hints has one cell, whatever hints there are.
        """
        for records, ranks in product(self.records, self.ranks):
            for strategy in self._strategies_of(records):
                if strategy not in strategies_of(KINDS[records].written):
                    yield WriteSetting(records, strategy, ranks)
                    continue
                for values in product(*self.hints.values()):
                    yield WriteSetting(records, strategy, ranks, tuple(zip(self.hints, values, strict=True)))

    def _strategies_of(self, records: str) -> tuple[str, ...]:
        if not self.asks_for_all:
            # these libraries write only NetCDF, so no other kind can be meant
            return tuple(one for one in self.strategies if one not in _OF_NETCDF or records == "netcdf")
        known = strategies_of(KINDS[records].written)
        libraries: tuple[str, ...] = () if records != "netcdf" else _OF_NETCDF if self.peers else (NETCDF_LIBRARY,)
        # for one frame, "gather" only makes sense in formats whose atoms have no fixed places
        found = tuple(one for one in known if one != "gather" or "direct" not in known)
        return (*libraries, *found)


def parse_hints(text: str) -> dict[str, tuple[str, ...]]:
    """{"cb_nodes": ("1", "2"), "striping_factor": ("4",)} of "cb_nodes=1/2,striping_factor=4"."""
    found: dict[str, tuple[str, ...]] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, equals, values = word.partition("=")
        parts = tuple(dict.fromkeys(one.strip() for one in values.split("/")))
        if not name.strip() or not equals or not all(parts):
            raise ArgumentError(f"hints are name=value or name=value/value, with commas between, found {word!r}")
        if name.strip() in found:
            raise ArgumentError(f"hints name {name.strip()} twice; several values are name=value/value")
        found[name.strip()] = parts
    return found


def _check_each(name: str, values: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    if not values:
        raise ArgumentError(f"{name} must be of {', '.join(map(repr, allowed))}, found none")
    for value in values:
        if value not in allowed:
            raise ArgumentError(f"{name} must be of {', '.join(map(repr, allowed))}, found {value!r}")
