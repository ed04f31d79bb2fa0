"""`StagesLaboratory`: the stages of training on an emulated cluster.

The real loops read real files here, on as many ranks, with a trace; what they did for each batch is replayed in virtual
time, which writes a trace too. So reports and pictures are made as those of measured stages are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinema._core import __version__
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.ml.loading.arguments import memory_wanted
from kinema.studies.lab.platform import Platform
from kinema.studies.lab.real_runs import MOST_RANKS
from kinema.studies.lab.recording import recorded_batches
from kinema.studies.sample_loading.layouts import Samples
from kinema.studies.training_stages.design import Stage, StagesDesign
from kinema.studies.training_stages.emulation import EmulatedStage
from kinema.studies.training_stages.rank_loop import LOOPS
from kinema.studies.training_stages.ranks import stage_settings, train

MEASURED = "measured"
# the fastest counts
_TIMES = 3


@dataclass(eq=False)
class StagesLaboratory:
    """The emulated cluster of an experiment on the stages of training.

    Attributes
    ----------
    platform : Platform
    nodes : int or None
        Number of nodes; None: as few as have a core for each rank.
    stripes : int or None
        Number of storage targets of a file; None: the platform's own.
    cost : str
        CPU time of a sample: "measured" on one core of this machine, or microseconds, one number for each stage.
    """

    platform: Platform
    nodes: int | None = None
    stripes: int | None = None
    cost: str = MEASURED
    _cpu: dict[str, float] = field(default_factory=dict, init=False)

    def check(self, design: StagesDesign) -> None:
        """Raises ArgumentError for designs that the laboratory cannot carry out."""
        if design.page_cache != "drop":
            raise ArgumentError("page cache warm: every byte comes from the storage in the laboratory; leave it out")
        if design.ranks > MOST_RANKS:
            raise ArgumentError(
                f"ranks must be at most {MOST_RANKS}, whose runs are recorded here, found {design.ranks}"
            )
        if self.stripes is not None and not 1 <= self.stripes <= self.platform.targets:
            raise ArgumentError(
                f"stripes must be from 1 to the {self.platform.targets} targets of {self.platform.name}, "
                f"found {self.stripes}"
            )
        if not 1 <= self._nodes(design) <= design.ranks:
            raise ArgumentError(f"nodes must be from 1 to the number of ranks, {design.ranks}, found {self.nodes}")

    def _nodes(self, design: StagesDesign) -> int:
        return -(-design.ranks // self.platform.cores) if self.nodes is None else self.nodes

    @property
    def _stripes(self) -> int:
        return self.platform.stripes if self.stripes is None else self.stripes

    @property
    def storage(self) -> str:
        """The storage in words."""
        return f"{self.platform.name}, {counted(self._stripes, 'stripe')} a file"

    def machine(self, design: StagesDesign) -> dict[str, Any]:
        """The emulated machine, as reports have it."""
        platform = self.platform
        return {
            "host": f"the platform {platform.name}", "processor": platform.description,
            "allowed_cores": platform.cores, "kinema": __version__,
            "emulated": {**platform.as_dict(), "nodes": self._nodes(design)},
        }  # fmt: skip

    def calibrate(
        self, stages: Sequence[Stage], design: StagesDesign, samples: Samples, paths: Mapping[str, Path]
    ) -> Mapping[str, float]:
        """Microseconds of CPU time of a sample by stage. Raises ArgumentError for words that do not say them."""
        if self.cost == MEASURED:
            found = {(one.files, one.loop): math.inf for one in stages}
            for files, loop in found:
                settings = stage_settings(Stage(files, loop), design, samples, paths[files])
                found[files, loop] = min(_cpu_time(settings) for _ in range(_TIMES))
            self._cpu = {one.name: round(found[one.files, one.loop] * 1e6, 1) for one in stages}
        else:
            self._cpu = dict(zip([one.name for one in stages], _stated(self.cost, len(stages)), strict=True))
        return self._cpu

    def train(self, stage: Stage, design: StagesDesign, samples: Samples, path: Path, folder: Path, trace: str) -> None:
        """Runs a stage here without steps of training, and writes the trace of its run in virtual time."""
        recorded = f"{folder}/recorded"
        train(stage, design, samples, path, folder, recorded, step=0.0, next_epoch=False)
        batches = recorded_batches(recorded, stripes=self._stripes)
        cpu = round(self._cpu[stage.name] * 1000)
        emulated = EmulatedStage(stage, design, batches, cpu, _window(stage, design, samples))
        emulated.run(self.platform, self._nodes(design)).write(trace)


def _stated(words: str, n: int) -> list[float]:
    try:
        found = [float(word) for word in words.split(",")]
    except ValueError:
        found = []
    if len(found) != n or not all(0 <= one < math.inf for one in found):
        raise ArgumentError(
            f"CPU time of a sample: expected {MEASURED}, or {n} numbers of microseconds, one for each stage, "
            f"found {words!r}"
        )
    return found


def _window(stage: Stage, design: StagesDesign, samples: Samples) -> int:
    """Batches that Kinema's loader reads ahead, with the one in use; 0 for other loops."""
    batch = max(1, design.batch * samples.sample_bytes)
    return memory_wanted(batch) // batch - 1 if stage.loop == "Kinema" else 0


def _cpu_time(settings: Mapping[str, Any]) -> float:
    """Seconds of CPU time of a sample: an epoch on one thread, of files that are in memory."""
    alone = {**settings, "ranks": 1, "workers": 1, "epochs": 1, "step": 0.0, "next_epoch": False}
    batches = LOOPS[settings["loop"]](alone, 0)
    began = time.process_time()
    n = sum(len(ids) for ids, _ in batches)
    return (time.process_time() - began) / n
