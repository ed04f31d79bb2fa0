"""`RealRuns`: runs on oversubscribed ranks of this machine, recorded so that the laboratory can replay them.

The ranks read real files and compute real results. Only what they did is kept, not how long it took.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from kinema.base.errors import WorkerError
from kinema.base.printable import counted
from kinema.base.tracing.recording import FOLDER_VARIABLE
from kinema.studies.design import Design, Setting
from kinema.studies.experiment import RunProgram
from kinema.studies.lab.calibration import frame_cost
from kinema.studies.lab.operations import RankProgram
from kinema.studies.lab.platform import Platform
from kinema.studies.lab.programs import FrameCost
from kinema.studies.lab.recording import recorded_run
from kinema.studies.launching import mpi_launcher
from kinema.studies.run_files import RunFiles
from kinema.trajectory.opening import open as open_trajectory

# a rank takes about 37 MB of memory
MOST_RANKS = 128


class RealRuns:
    """The recorded runs of an experiment; each is made once, whatever its platform and stripes.

    `cost`: as `Laboratory.cost`.
    `folder`: gets files, reports and traces.
    `notify`: gets a line for each run.
    `stack`: removes the files of other folders at the end.
    """

    def __init__(
        self,
        design: Design,
        platform: Platform,
        cost: str,
        folder: Path,
        notify: Callable[[str], None],
        stack: ExitStack,
    ) -> None:
        self._design, self._platform, self._cost, self._notify = design, platform, cost, notify
        self._folder = folder
        self._files = RunFiles(design, folder, notify, stack)
        self._launcher = mpi_launcher(None, design.launcher)
        self._traces: dict[tuple[Setting, int], Path] = {}
        self._costs: dict[tuple[str, str], FrameCost] = {}

    def program(self, setting: Setting, workers: int, *, stripes: int, result_bytes: int) -> RankProgram:
        """The recorded operations of a run's ranks. Raises WorkerError if the run fails."""
        # what does not change the program: where files lie, and on which nodes ranks are
        plain = replace(setting, stripes=0, ranks_per_node=None)
        if (plain, workers) not in self._traces:
            self._traces[plain, workers] = self._record(plain, workers)
        cost = self.cost_of(plain, workers)
        work = replace(cost, compute=cost.compute * setting.workload)
        return recorded_run(
            self._traces[plain, workers], stripes=stripes, cost=work, result_bytes=result_bytes
        ).program  # fmt: skip

    def cost_of(self, setting: Setting, workers: int) -> FrameCost:
        """CPU time of a frame in the format of the run."""
        key = (setting.task, setting.format)
        if key not in self._costs:
            opened = self._files.opened(replace(setting, stripes=0, ranks_per_node=None), workers)
            trajectory = open_trajectory(list(opened.paths), self._design.topology, overlap="all", **opened.stated)
            written = setting.format if setting.task == "convert" else ""
            self._costs[key] = frame_cost(self._cost, trajectory, self._design.select, self._platform, written)
        return self._costs[key]

    def _record(self, setting: Setting, workers: int) -> Path:
        number = len(self._traces)
        trace, report = self._folder / f"trace-{number}", self._folder / f"recorded-{number}.json"
        program = RunProgram(self._design, setting, workers, 0, report, {FOLDER_VARIABLE: str(trace)})
        ran = program.start(self._files, self._launcher)
        if ran.report is None:
            raise WorkerError(f"the run on {counted(workers, 'rank')} that is to be recorded failed: {ran.reason}")
        self._notify(f"recorded: {ran}")
        return trace
