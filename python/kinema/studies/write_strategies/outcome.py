"""Measurements of one run of an experiment on writing, or the reason why they are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kinema.studies.write_strategies.design import WriteSetting

PHASES = ("sort", "communicate", "encode", "write", "sync", "verify")


def files_of(path: str) -> list[str]:
    """The written file, and the ranks' files below it that strategy "subfiles" has made."""
    return [path, *sorted(str(one) for one in Path(f"{path}.d").glob("*"))]


@dataclass(frozen=True)
class RankMemory:
    """Bytes of one rank: the peak while it wrote, the memory before it made its atoms, the arrays of the atoms."""

    peak: int
    base: int
    share: int

    @property
    def writing_peak(self) -> int:
        """Peak memory for the atoms: given arrays and everything that writing took."""
        return max(0, self.peak - self.base)


@dataclass(frozen=True)
class WriteRun:
    """One run.

    `reason`: why there is no time; "" if there is one.
    `missing`: whether the reason is an optional library that is not installed or cannot be used: no result, and no
        failure.
    `job_seconds`: of the program from start to end; 0 if none was started.
    `seconds`: from the moment at which all ranks had their atoms until all had closed the synced file.
    `bytes`: size of the file.
    `cpu`: processor seconds of all ranks, including the system's work for them.
    `phases`: {phase: seconds}, the most of any rank.
    `memory`: one for each rank.
    `checked`: method by which the file was found right.
    `roundings`: {field: largest difference from the given values}, if the file was read back.
    """

    setting: WriteSetting
    repeat: int
    reason: str = ""
    job_seconds: float = 0.0
    seconds: float = 0.0
    cpu: float = 0.0
    bytes: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)
    memory: tuple[RankMemory, ...] = ()
    checked: str = ""
    roundings: Mapping[str, float] = field(default_factory=dict)
    mpi: str = ""
    missing: bool = False

    @property
    def speed(self) -> float:
        """GiB/s, up to the synced file."""
        return self.bytes / self.seconds / (1 << 30)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        setting = found.pop("setting")
        return {**setting, "hints": dict(self.setting.hints), "paper_name": self.setting.paper_name, **found}

    @classmethod
    def from_result(cls, setting: WriteSetting, repeat: int, job_seconds: float, found: Mapping[str, Any]) -> WriteRun:
        """The run from the data that the program has written."""
        ranks = found["ranks"]
        phases = {name: max(one["phases"].get(name, 0.0) for one in ranks) for name in PHASES}
        memory = tuple(RankMemory(one["peak"], one["base"], one["share"]) for one in ranks)
        seconds, cpu = max(one["seconds"] for one in ranks), sum(one["cpu"] for one in ranks)
        return cls(
            setting, repeat, "", job_seconds, seconds, cpu, found["bytes"], phases, memory, mpi=found["mpi"]
        )  # fmt: skip
