"""A scaling experiment in the laboratory: every run of a design, on an emulated cluster in virtual time.

Frames, atoms, sizes and leaves are those of the real files; nothing of them is read but what is needed to open them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.model.selection.frames import FrameSelection
from kinema.report import Report
from kinema.report.places import Places
from kinema.runners.scheduler import DEFAULT_PIECES
from kinema.studies.design import Design, Setting
from kinema.studies.experiment import ExperimentRun, run_name
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
    cost : str
        CPU time of a frame: "measured", "paper", or "DECODE,COMPUTE" in microseconds, as `calibration.frame_cost`.
    """

    platform: Platform
    nodes: int | None = None
    cost: str = "measured"

    def check(self, design: Design) -> None:
        """Raises ArgumentError for designs that the laboratory cannot carry out."""
        allowed: dict[str, tuple[Iterable[str], tuple[str, ...]]] = {
            "runner": (design.runners, ("mpi",)),
            "source": (design.sources, ("file",)),
            "formats": (design.formats, _FORMATS),
            "access": (design.accesses, ("direct",)),
            "task": (design.tasks, ("rmsd",)),
            "analysis": (design.analyses, ("rmsd",)),
            "storage": (design.storages, ()),
        }
        for name, (values, known) in allowed.items():
            for value in values:
                if value not in known:
                    expected = " or ".join(known) or "none"
                    raise ArgumentError(f"{name} in the laboratory: expected {expected}, found {value}")
        for stripes in design.stripes:
            if stripes > self.platform.targets:
                raise ArgumentError(
                    f"stripes must be from 1 to the {self.platform.targets} targets of {self.platform.name}, "
                    f"found {stripes}"
                )
        if self.nodes is not None and self.nodes > min(design.workers):
            raise ArgumentError(
                f"nodes must be from 1 to the smallest number of workers, {min(design.workers)}, found {self.nodes}"
            )
        if self.nodes is not None and design.ranks_per_node != (None,):
            raise ArgumentError("nodes and ranks per node both say how ranks are placed; give one")

    def run(
        self,
        design: Design,
        folder: str | os.PathLike[str],
        notify: Callable[[str], None],
        *,
        overwrite: bool = False,
        resume: bool = False,
        beside: Sequence[Path] = (),
    ) -> Iterator[ExperimentRun]:
        """As `run_design`, in virtual time. Each run is made once: a repeat would give the same bits.

        Raises ArgumentError as `check`, if it is to `resume`, and as opening the files does.
        """
        self.check(design)
        if resume:
            raise ArgumentError("an experiment in the laboratory takes seconds and is not continued; make it again")
        place = Path(folder)
        with ResultsLog(place, "reports", overwrite=overwrite, remade=beside) as results:
            given = open_trajectory(list(design.files), design.topology, **design.stated)
            n_atoms = len(given.select(design.select).indices) if design.select is not None else given.n_atoms
            cost = frame_cost(self.cost, given, design.select, self.platform)
            notify(f"CPU time of a frame: decoding {cost.decode} ns, computing {cost.compute} ns ({cost.source})")
            for setting in design.settings():
                for workers in design.workers:
                    report = _emulated(design, self, given, n_atoms, cost, setting, workers)
                    name = run_name(setting, workers, 0)
                    report.save(place / "reports" / f"{name}.json", overwrite=overwrite)
                    outcome = ExperimentRun(setting, workers, 0, report.timings.whole, report)
                    results.add({**outcome.as_dict(), "name": name, "emulated": self.platform.name})
                    notify(f"emulated: {outcome}")
                    yield outcome

    def nodes_of(self, setting: Setting, workers: int) -> int | None:
        """Number of nodes of a run; None: as few as have a core for each rank."""
        return self.nodes if setting.ranks_per_node is None else -(-workers // setting.ranks_per_node)


def _emulated(
    design: Design,
    laboratory: Laboratory,
    given: Trajectory,
    n_atoms: int,
    cost: FrameCost,
    setting: Setting,
    workers: int,
) -> Report:
    platform = laboratory.platform
    stripes = setting.stripes or platform.stripes
    files: list[FrameFile] = []
    for number, part in enumerate(given.parts):
        # frames that another file has too are left out
        kept = part.kept[1] - part.kept[0]
        size = part.size * kept // max(1, part.file_frames)
        if kept:
            files.append(FrameFile(StoredFile(f"{number}:{part.path}", size, stripes, number * stripes), kept))
    files *= setting.times
    frames = range(*slice(design.start, design.stop, design.step).indices(given.n_frames * setting.times))
    chosen = FrameSelection(frames)
    n_parts = {"subfiles": workers, "chain": max(design.workers)}.get(setting.format, 0)
    if n_parts:
        # written before the run, with the chosen frames only
        size = sum(one.file.size for one in files) * len(frames) // sum(one.n_frames for one in files)
        files = split_evenly([FrameFile(StoredFile("chosen", size), len(frames))], n_parts, stripes)
        frames = range(len(frames))
    work = AnalysisWork(
        files,
        frames,
        cost,
        reader="mdanalysis" if setting.reader == "mdanalysis" else "kinema",
        opens="own" if setting.format == "subfiles" else "all",
        gather="one-sided" if setting.gather == "one-sided" else "collective",
        schedule="static" if design.schedule == "static" else "dynamic",
        workload=setting.workload,
        oversubscribe=setting.oversubscribe or DEFAULT_PIECES,
    )
    run = emulate(analysis_program(work, workers), workers, platform, laboratory.nodes_of(setting, workers))
    extra: dict[str, Any] = {"workload": setting.workload, "repeat": 0, "page_cache": "", "workers": workers}
    extra |= {"stripes": stripes, "cpu_per_frame": [cost.decode, cost.compute], "cpu_source": cost.source}
    placed = {"nodes": laboratory.nodes, "schedule": design.schedule}
    extra |= setting.varied | {name: value for name, value in placed.items() if value}
    described = {
        "files": [
            {"path": part.path, "format": part.format, "size": part.size, "fingerprint": part.fingerprint}
            for part in given.parts
        ],
        "file_systems": [],
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
        extra=extra,
        places=Places(given.core, chosen) if setting.times == 1 else None,
    )
