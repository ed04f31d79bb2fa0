"""A scaling experiment in the laboratory: every run of a design, on an emulated cluster in virtual time.

Frames, atoms, sizes and leaves are those of the real files; nothing of them is read but what is needed to open them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.base.timings import format_seconds
from kinema.model.selection.frames import FrameSelection
from kinema.report import Report
from kinema.report.places import Places
from kinema.runners.scheduler import DEFAULT_PIECES
from kinema.studies.design import Design, Setting
from kinema.studies.experiment import ExperimentRun
from kinema.studies.lab.calibration import frame_cost
from kinema.studies.lab.operations import StoredFile
from kinema.studies.lab.platform import Platform
from kinema.studies.lab.programs import AnalysisWork, FrameCost, FrameFile, analysis_program, split_evenly
from kinema.studies.lab.replay import emulate, emulated_report
from kinema.studies.results_log import ResultsLog
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

__all__ = ["Laboratory"]

_FORMATS = ("as is", "subfiles", "chain")


@dataclass(frozen=True)
class Laboratory:
    """The emulated cluster of an experiment.

    Attributes
    ----------
    platform : Platform
    nodes : int or None
        Number of nodes for all numbers of ranks; None: as few as have a core for each rank.
    stripes : tuple of int
        Numbers of storage targets of each file, one series each; empty: the platform's own.
    cost : str
        CPU time of a frame: "measured", "paper", or "DECODE,COMPUTE" in microseconds, as `calibration.frame_cost`.
    """

    platform: Platform
    nodes: int | None = None
    stripes: tuple[int, ...] = ()
    cost: str = "measured"

    def check(self, design: Design) -> None:
        """Raises ArgumentError for designs that the laboratory cannot carry out."""
        if design.runner != "mpi":
            raise ArgumentError(f"the laboratory emulates the ranks of --runner mpi, found runner {design.runner}")
        varied = {"source": (design.sources, ("file",)), "formats": (design.formats, _FORMATS)}
        varied |= {"access": (design.accesses, ("direct",))}
        for name, (values, allowed) in varied.items():
            for value in values:
                if value not in allowed:
                    raise ArgumentError(
                        f"the laboratory has {name} {', '.join(allowed)}, found {value}; convert files before"
                    )
        for stripes in self.stripes:
            if not 1 <= stripes <= self.platform.targets:
                raise ArgumentError(
                    f"stripes must be from 1 to the {self.platform.targets} targets of {self.platform.name}, "
                    f"found {stripes}"
                )
        if self.nodes is not None and not 1 <= self.nodes <= min(design.workers):
            raise ArgumentError(
                f"nodes must be from 1 to the smallest number of workers, {min(design.workers)}, found {self.nodes}"
            )

    def run(
        self,
        design: Design,
        folder: str | os.PathLike[str],
        notify: Callable[[str], None],
        *,
        overwrite: bool = False,
        beside: Sequence[Path] = (),
    ) -> Iterator[ExperimentRun]:
        """As `run_design`, in virtual time. Each run is made once: a repeat would give the same bits.

        Raises ArgumentError as `check`, and as opening the files does.
        """
        self.check(design)
        place = Path(folder)
        with ResultsLog(place, "reports", overwrite=overwrite, remade=beside) as results:
            given = open_trajectory(list(design.files), design.topology, **design.stated)
            n_atoms = len(given.select(design.select).indices) if design.select is not None else given.n_atoms
            cost = frame_cost(self.cost, given, design.select, self.platform)
            notify(f"CPU time of a frame: decoding {cost.decode} ns, computing {cost.compute} ns ({cost.source})")
            for stripes in self.stripes or (self.platform.stripes,):
                for setting in design.settings():
                    for workers in design.workers:
                        report = _emulated(design, self, given, n_atoms, cost, setting, workers, stripes)
                        kind = f"{setting.format}-x{setting.workload}-{setting.gather or 'mpi'}".replace(" ", "-")
                        report.save(place / "reports" / f"{kind}-s{stripes}-n{workers}.json", overwrite=overwrite)
                        outcome = ExperimentRun(setting, workers, 0, report.timings.whole, report)
                        results.add({**outcome.as_dict(), "stripes": stripes, "emulated": self.platform.name})
                        notify(_summary(outcome, stripes))
                        yield outcome


def _emulated(
    design: Design,
    laboratory: Laboratory,
    given: Trajectory,
    n_atoms: int,
    cost: FrameCost,
    setting: Setting,
    workers: int,
    stripes: int,
) -> Report:
    files: list[FrameFile] = []
    for number, part in enumerate(given.parts):
        # frames that another file has too are left out
        kept = part.kept[1] - part.kept[0]
        size = part.size * kept // max(1, part.file_frames)
        if kept:
            files.append(FrameFile(StoredFile(f"{number}:{part.path}", size, stripes, number * stripes), kept))
    frames = range(*slice(design.start, design.stop, design.step).indices(given.n_frames))
    chosen = FrameSelection(frames)
    n_parts = {"subfiles": workers, "chain": max(design.workers)}.get(setting.format, 0)
    if n_parts:
        files, frames = split_evenly(files, n_parts, stripes), range(len(frames))
    work = AnalysisWork(
        files,
        frames,
        cost,
        gather="one-sided" if setting.gather == "one-sided" else "collective",
        schedule="static" if design.schedule == "static" else "dynamic",
        workload=setting.workload,
        oversubscribe=setting.oversubscribe or DEFAULT_PIECES,
    )
    run = emulate(analysis_program(work, workers), workers, laboratory.platform, laboratory.nodes)
    extra: dict[str, Any] = {"workload": setting.workload, "repeat": 0, "page_cache": "drop", "workers": workers}
    extra |= {"stripes": stripes, "cpu_per_frame": [cost.decode, cost.compute], "cpu_source": cost.source}
    varied: dict[str, Any] = {
        "nodes": laboratory.nodes,
        "gather": setting.gather,
        "schedule": design.schedule,
        "oversubscribe": setting.oversubscribe,
    }
    if setting.format != "as is":
        varied["format"] = setting.format
    described = {
        "files": [
            {"path": part.path, "format": part.format, "size": part.size, "fingerprint": part.fingerprint}
            for part in given.parts
        ],
        "file_systems": [f"emulated: {laboratory.platform.name}"],
        "topology": given.topology_name,
        "format": given.format,
        "n_atoms": given.n_atoms,
        "n_frames": len(frames),
    }
    return emulated_report(
        run,
        analyses=["RMSD"],
        n_atoms=n_atoms,
        described=described,
        extra=extra | {name: value for name, value in varied.items() if value},
        places=Places(given.core, chosen),
    )


def _summary(outcome: ExperimentRun, stripes: int) -> str:
    setting, found = outcome.setting, outcome.report.quantities
    return (
        f"emulated, {setting.format}, {counted(stripes, 'stripe')}, work x{setting.workload}, "
        f"{counted(outcome.workers, 'rank')}: {format_seconds(found.t_total)}, t_IO {format_seconds(found.t_IO)}, "
        f"t_compute {format_seconds(found.t_compute)}"
    )
