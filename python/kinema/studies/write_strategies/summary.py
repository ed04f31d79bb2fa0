"""Cells of an experiment on writing, summarised over their repeats, and numbers for the DL_POLY paper's findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from kinema.base.printable import counted
from kinema.studies.write_strategies.design import (
    NETCDF_LIBRARY,
    PNETCDF,
    WITHOUT_ATOMS,
    WriteDesign,
    WriteSetting,
)
from kinema.studies.write_strategies.outcome import PHASES, RankMemory, WriteRun
from kinema.studies.write_strategies.peers import FormattedWrite
from kinema.studies.write_strategies.pyrochlore import Pyrochlore

MPIIO = ("mpiio", "mpiio-collective")
ALLOWANCE = 64 << 20
"""Bytes that a rank may take in addition to twice its share."""
_GIB = 1 << 30


@dataclass(frozen=True)
class WriteCell:
    """All runs of one setting."""

    setting: WriteSetting
    runs: tuple[WriteRun, ...]

    @cached_property
    def done(self) -> tuple[WriteRun, ...]:
        """Runs that have a time."""
        return tuple(run for run in self.runs if not run.reason)

    @property
    def reason(self) -> str:
        """Why there is no time at all; "" if there is one."""
        return "" if self.done else self.runs[0].reason

    @property
    def is_missing(self) -> bool:
        """Whether there is no time because an optional library is missing."""
        return not self.done and all(run.missing for run in self.runs)

    @property
    def times(self) -> dict[int, float]:
        """Seconds by the number of the repeat."""
        return {run.repeat: run.seconds for run in self.done}

    @property
    def failures(self) -> tuple[str, ...]:
        """Reasons of all runs without a time."""
        return tuple(dict.fromkeys(run.reason for run in self.runs if run.reason))

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return self.done[0].bytes

    @property
    def seconds(self) -> float:
        """Median over the runs."""
        return median(run.seconds for run in self.done)

    @property
    def cpu(self) -> float:
        """Processor seconds of all ranks, median over the runs."""
        return median(run.cpu for run in self.done)

    @property
    def speed(self) -> float:
        """GiB/s at the median time."""
        return self.bytes / self.seconds / _GIB

    @property
    def speed_of_writing(self) -> float:
        """GiB/s of writing and syncing alone, without sorting, communicating, encoding; 0 if unknown."""
        seconds = self.phases["write"] + self.phases["sync"]
        return self.bytes / seconds / _GIB if seconds else 0.0

    @property
    def speeds(self) -> tuple[float, float]:
        """The speeds of the slowest and the fastest run."""
        found = [run.speed for run in self.done]
        return min(found), max(found)

    @property
    def phases(self) -> dict[str, float]:
        """Medians, over the runs, of the most seconds of any rank."""
        return {name: median(run.phases.get(name, 0.0) for run in self.done) for name in PHASES}

    @property
    def memory(self) -> RankMemory:
        """Memory of the rank that took the most beyond twice its share, in any run."""
        return max((one for run in self.done for one in run.memory), key=lambda one: one.writing_peak - 2 * one.share)

    @property
    def roundings(self) -> Mapping[str, float]:
        """Largest differences found, by field."""
        return self.done[0].roundings

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        setting = self.setting
        found: dict[str, Any] = {
            "records": setting.records, "strategy": setting.strategy, "paper_name": setting.paper_name,
            "ranks": setting.ranks, "writers": setting.writers, "hints": dict(setting.hints),
            "repeats": len(self.done), "failures": list(self.failures),
        }  # fmt: skip
        if self.done:
            low, high = self.speeds
            found |= {"bytes": self.bytes, "seconds": self.seconds, "cpu": self.cpu, "gib_per_second": self.speed}
            found |= {"gib_per_second_of_writing": self.speed_of_writing}
            found |= {"slowest_gib_per_second": low, "fastest_gib_per_second": high, "phases": self.phases}
            found |= {"checked": self.done[0].checked, "roundings": dict(self.roundings)}
        return found


@dataclass(frozen=True)
class Lost:
    """Cost of writing for a simulation: `seconds` per configuration, and the share of all time."""

    records: str
    which: str
    strategy: str
    seconds: float
    share: float


@dataclass(frozen=True, eq=False)
class WriteStudy:
    """A finished experiment.

    `runs`: in the order in which they were carried out.
    `peers`: formatted writes by other programs.
    `machine`: `kinema.report.machine_facts`; of the laboratory, with the platform as "emulated".
    `file_system`: of the folder.
    """

    design: WriteDesign
    system: Pyrochlore
    runs: Sequence[WriteRun]
    peers: Sequence[FormattedWrite]
    machine: Mapping[str, Any]
    file_system: str

    @cached_property
    def cells(self) -> dict[WriteSetting, WriteCell]:
        """Cells in the order of their first runs."""
        found: dict[WriteSetting, list[WriteRun]] = {}
        for run in self.runs:
            found.setdefault(run.setting, []).append(run)
        return {setting: WriteCell(setting, tuple(runs)) for setting, runs in found.items()}

    @property
    def cores(self) -> int:
        """Number of cores that this machine's ranks may use."""
        return int(self.machine["allowed_cores"])

    @property
    def is_emulated(self) -> bool:
        """Whether the runs are of the laboratory, in virtual time."""
        return "emulated" in self.machine

    @property
    def gaps(self) -> list[WriteCell]:
        """Cells without a time, not counting those whose library is missing."""
        return [cell for cell in self.cells.values() if cell.reason and not cell.is_missing]

    def select_cells(self, records: str, strategies: Iterable[str], ranks: int | None = None) -> list[WriteCell]:
        """Cells with a time, of one kind of records."""
        wanted = tuple(strategies)
        return [
            cell
            for setting, cell in self.cells.items()
            if cell.done
            and setting.records == records
            and setting.strategy in wanted
            and ranks in (None, setting.ranks)
        ]

    def fastest(self, records: str, strategies: Iterable[str], ranks: int | None = None) -> WriteCell | None:
        """The cell with the least time; files of the netCDF4 library and of Kinema differ in size."""
        return min(self.select_cells(records, strategies, ranks), key=lambda cell: cell.seconds, default=None)

    @property
    def own_strategies(self) -> set[str]:
        """Kinema's strategies; writes without atoms and other libraries are left out."""
        return {setting.strategy for setting in self.cells} - {*WITHOUT_ATOMS, NETCDF_LIBRARY, PNETCDF}

    def fastest_of_all(self, records: str) -> WriteCell | None:
        """The fastest of Kinema's strategies."""
        return self.fastest(records, self.own_strategies)

    def ratio(self, records: str, over: Iterable[str], under: Iterable[str], ranks: int) -> float | None:
        """Speed of the fastest of `over` divided by the fastest of `under` on `ranks` ranks; None if one is missing."""
        first, second = self.fastest(records, over, ranks), self.fastest(records, under, ranks)
        return None if first is None or second is None else first.speed / second.speed

    def lost(self) -> list[Lost]:
        """Cost of configurations at the design's intervals; empty if the design states none."""
        if self.design.step_time is None or self.design.every is None:
            return []
        between = self.design.step_time * self.design.every
        found = []
        for records in self.design.records:
            fastest, alone = self.fastest_of_all(records), self.fastest(records, ("serial", NETCDF_LIBRARY))
            cells = {"fastest": fastest, "by rank 0 alone": None if alone is fastest else alone}
            for which, cell in cells.items():
                if cell is not None:
                    name = f"{cell.setting.label} on {counted(cell.setting.ranks, 'rank')}"
                    found.append(Lost(records, which, name, cell.seconds, cell.seconds / (cell.seconds + between)))
        return found
