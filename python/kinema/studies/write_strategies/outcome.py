"""What was measured of one run of an experiment on writing, or why it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kinema.studies.write_strategies.design import WriteSetting

__all__ = ["PHASES", "RankMemory", "WriteRun", "files_of"]

PHASES = ("sort", "communicate", "encode", "write", "sync", "verify")


def files_of(path: str) -> list[str]:
    """The file that was written, and those of the ranks below it that strategy "subfiles" has made."""
    return [path, *sorted(str(one) for one in Path(f"{path}.d").glob("*"))]


@dataclass(frozen=True)
class RankMemory:
    """Bytes of one rank: the most while it wrote, what it had before it made its atoms, the arrays of these."""

    peak: int
    base: int
    share: int

    @property
    def writing_peak(self) -> int:
        """The most that was there for the atoms: given arrays and all that writing took."""
        return max(0, self.peak - self.base)


@dataclass(frozen=True)
class WriteRun:
    """One run.

    Attributes
    ----------
    setting : WriteSetting
    repeat : int
    reason : str
        Why there is no time; "" where there is one.
    job_seconds : of the program from its start to its end; 0 where none was started
    seconds : from when all ranks had their atoms to when all had closed the synced file
    bytes : of the file
    cpu : seconds of the processors of all ranks, of the system for them as well
    phases : {phase: seconds}, the most of any rank
    memory : a rank each
    checked : how the file was found right
    roundings : {field: largest difference from what was given}, where the file was read back
    mpi : the library
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

    @property
    def speed(self) -> float:
        """GiB/s, to the synced file."""
        return self.bytes / self.seconds / (1 << 30)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        setting = found.pop("setting")
        return {**setting, "hints": dict(self.setting.hints), "paper_name": self.setting.paper_name, **found}

    @classmethod
    def from_result(cls, setting: WriteSetting, repeat: int, job_seconds: float, found: Mapping[str, Any]) -> WriteRun:
        """Of what the program has written."""
        ranks = found["ranks"]
        phases = {name: max(one["phases"].get(name, 0.0) for one in ranks) for name in PHASES}
        memory = tuple(RankMemory(one["peak"], one["base"], one["share"]) for one in ranks)
        seconds, cpu = max(one["seconds"] for one in ranks), sum(one["cpu"] for one in ranks)
        return cls(
            setting, repeat, "", job_seconds, seconds, cpu, found["bytes"], phases, memory, mpi=found["mpi"]
        )  # fmt: skip
