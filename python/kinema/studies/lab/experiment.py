"""A scaling experiment in the laboratory: every run of a design, on an emulated cluster in virtual time.

Frames, atoms, sizes and leaves are those of the real files; nothing of them is read but what is needed to open them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.base.choices import GATHER
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.model.selection.frames import FrameSelection
from kinema.report import Report
from kinema.report.places import Places
from kinema.runners.scheduler import DEFAULT_PIECES
from kinema.storage.output_file import temporary_folder
from kinema.studies.design import FORMATS, READERS, Design, Setting
from kinema.studies.experiment import ExperimentRun, run_name
from kinema.studies.lab.calibration import frame_cost
from kinema.studies.lab.cases import split_trajectory
from kinema.studies.lab.operations import RankProgram, StoredFile
from kinema.studies.lab.platform import Platform
from kinema.studies.lab.programs import AnalysisWork, FrameCost, FrameFile, analysis_program, split_evenly
from kinema.studies.lab.real_runs import MOST_RANKS, RealRuns
from kinema.studies.lab.recording import recorded_run
from kinema.studies.lab.replay import emulate, emulated_report
from kinema.studies.results_log import ResultsLog
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

# a number for each frame
_RESULT_BYTES = 8
_FORMATS = ("as is", "subfiles", "chain")
_TASKS = ("rmsd", "split")
_RECORDED_TASKS = ("rmsd", "convert")
# formats of which each rank writes its frames itself: of others rank 0 writes what ranks send, and a trace has no
# messages; calls of HDF5 are not in it either
WRITTEN_IN_PLACE = ("dcd", "nc")
# in place of the folder of a trace: real runs are made and recorded
OWN = "auto"


@dataclass(frozen=True)
class Laboratory:
    """The emulated cluster of an experiment.

    `nodes`: number of nodes for all numbers of ranks; None: as few as have a core for each rank.
    `cost`: CPU time of a frame: "measured", "paper", or "DECODE,COMPUTE" in microseconds, as `calibration.frame_cost`.
    `recorded`: folder with the trace of a real run on as many ranks, which is replayed instead of the plan; "auto":
        real runs are made here and recorded, on up to 128 ranks; "" for the plan.
    """

    platform: Platform
    nodes: int | None = None
    cost: str = "measured"
    recorded: str = ""

    def check(self, design: Design) -> None:
        """Raises ArgumentError for designs that the laboratory cannot carry out."""
        own = self.recorded == OWN
        direct = tuple(name for name in design.accesses if not name.startswith("hdf5-mpio"))
        allowed: dict[str, tuple[Iterable[str], tuple[str, ...]]] = {
            "runner": (design.runners, ("mpi",)),
            "source": (design.sources, ("file",)),
            # a real run reads any format in any way; the plan knows frames of equal length
            "formats": (design.formats, FORMATS if own else _FORMATS),
            "format of task convert": (design.formats if "convert" in design.tasks else (), WRITTEN_IN_PLACE),
            "access": (design.accesses, direct if own else ("direct",)),
            "reader": (design.readers, ("kinema",) if own else READERS),
            "gather": (design.gathers, ("", "collective") if own else ("", *GATHER)),
            # a trace of cutting has no reads and writes: frames are copied outside of it
            "task": (design.tasks, _RECORDED_TASKS if own else ("rmsd",) if self.recorded else _TASKS),
            "analysis": (design.analyses, ("rmsd",)),
            "storage": (design.storages, ()),
        }
        if "convert" in design.tasks and not own:
            raise ArgumentError("task convert in the laboratory replays real ranks: add --recorded auto")
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
        if own:
            if max(design.workers) > MOST_RANKS:
                raise ArgumentError(
                    f"workers must be at most {MOST_RANKS} for runs that are recorded here, found "
                    f"{max(design.workers)}; the plan has any number, without --recorded"
                )
            return
        varied = {"formats": design.formats, "reader": design.readers, "workload": design.workloads}
        varied |= {"times": design.times, "gather": design.gathers, "tasks per worker": design.oversubscribes}
        for name, found in varied.items():
            if self.recorded and found not in (("as is",), ("kinema",), (1,), ("",), (0,)):
                raise ArgumentError(f"a recorded run was made with one {name}; leave it out")

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
        with ExitStack() as stack:
            results = stack.enter_context(ResultsLog(place, "reports", overwrite=overwrite, remade=beside))
            given = open_trajectory(list(design.files), design.topology, **design.stated)
            n_atoms = len(given.select(design.select).indices) if design.select is not None else given.n_atoms
            if "split" in design.tasks and max(design.workers) > given.n_frames:
                raise ArgumentError(
                    f"task split: {counted(given.n_frames, 'frame')} cannot be cut into {max(design.workers)} parts of "
                    "one frame at least; give fewer workers"
                )
            cost = frame_cost(self.cost, given, design.select, self.platform)
            notify(f"CPU time of a frame: decoding {cost.decode} ns, computing {cost.compute} ns ({cost.source})")
            real = None
            if self.recorded == OWN:
                scratch = Path(stack.enter_context(temporary_folder(place / "files")))
                real = RealRuns(design, self.platform, self.cost, scratch, notify, stack)
            emulator = _Emulator(design, self, given, n_atoms, cost, real)
            for setting in design.settings():
                for workers in design.workers:
                    report = emulator.report_of(setting, workers)
                    name = run_name(setting, workers, 0)
                    report.save(place / "reports" / f"{name}.json", overwrite=overwrite)
                    outcome = ExperimentRun(setting, workers, 0, report.timings.whole, report)
                    results.add({**outcome.as_dict(), "name": name, "emulated": self.platform.name})
                    notify(f"emulated: {outcome}")
                    yield outcome

    def nodes_of(self, setting: Setting, workers: int) -> int | None:
        """Number of nodes of a run; None: as few as have a core for each rank."""
        return self.nodes if setting.ranks_per_node is None else -(-workers // setting.ranks_per_node)


@dataclass(frozen=True)
class _Emulator:
    """The runs of a design: the open files, and what does not change from run to run."""

    design: Design
    laboratory: Laboratory
    given: Trajectory
    n_atoms: int
    cost: FrameCost
    real: RealRuns | None

    def report_of(self, setting: Setting, workers: int) -> Report:
        """Emulates a run."""
        laboratory, given = self.laboratory, self.given
        if setting.task == "split":
            return self._split_report(setting, workers)
        whole = setting.as_given and setting.task != "convert"
        cost = self.cost if self.real is None or whole else self.real.cost_of(setting, workers)
        chosen = slice(self.design.start, self.design.stop, self.design.step)
        frames = range(*chosen.indices(given.n_frames * setting.times))
        nodes = laboratory.nodes_of(setting, workers)
        program = self._recorded(setting, workers) if laboratory.recorded else self._planned(setting, workers, frames)
        run = emulate(program, workers, laboratory.platform, nodes)
        placed = {"schedule": self.design.schedule, "program": "recorded" if laboratory.recorded else ""}
        extra = self._extra(setting, workers, cost) | {name: value for name, value in placed.items() if value}
        known = setting.times == 1 and not laboratory.recorded
        return emulated_report(
            run,
            analyses=["convert" if setting.task == "convert" else "RMSD"],
            n_atoms=self.n_atoms,
            described=self._described(len(frames)),
            extra=extra,
            places=Places(given.core, FrameSelection(frames)) if known else None,
        )

    def _split_report(self, setting: Setting, workers: int) -> Report:
        """Emulates cutting the file into a part for each rank; `kinema.files.split` copies frames as bytes."""
        given, laboratory = self.given, self.laboratory
        (part,) = given.parts
        file = StoredFile(part.path, part.size, self._stripes(setting))
        program = split_trajectory(file, given.n_frames, workers, 0, self._stripes(setting))
        run = emulate(program, workers, laboratory.platform, laboratory.nodes_of(setting, workers))
        cost = FrameCost(0, 0, "frames are copied as bytes")
        return emulated_report(
            run,
            analyses=["split"],
            n_atoms=given.n_atoms,
            described=self._described(given.n_frames),
            extra=self._extra(setting, workers, cost),
        )

    def _extra(self, setting: Setting, workers: int, cost: FrameCost) -> dict[str, Any]:
        """The setting, as reports have it."""
        extra: dict[str, Any] = {"workload": setting.workload, "repeat": 0, "page_cache": "", "workers": workers}
        extra |= {"cpu_per_frame": [cost.decode, cost.compute], "cpu_source": cost.source}
        extra |= setting.varied | {"stripes": self._stripes(setting)}
        return extra | ({"nodes": self.laboratory.nodes} if self.laboratory.nodes else {})

    def _stripes(self, setting: Setting) -> int:
        return setting.stripes or self.laboratory.platform.stripes

    def _recorded(self, setting: Setting, workers: int) -> RankProgram:
        """The program of ranks that a trace has recorded."""
        if self.real is not None:
            # converting has no results that are gathered
            result_bytes = 0 if setting.task == "convert" else _RESULT_BYTES
            return self.real.program(setting, workers, stripes=self._stripes(setting), result_bytes=result_bytes)
        found = recorded_run(
            self.laboratory.recorded, stripes=self._stripes(setting), cost=self.cost, result_bytes=_RESULT_BYTES
        )
        if found.n_ranks != workers:
            raise ArgumentError(
                f"the trace is of {counted(found.n_ranks, 'rank')}, expected as many workers, found {workers}"
            )
        return found.program

    def _planned(self, setting: Setting, workers: int, frames: range) -> RankProgram:
        """The program of ranks by the plan."""
        stripes = self._stripes(setting)
        files: list[FrameFile] = []
        for number, part in enumerate(self.given.parts):
            # frames that another file has too are left out
            kept = part.kept[1] - part.kept[0]
            size = part.size * kept // max(1, part.file_frames)
            if kept:
                files.append(FrameFile(StoredFile(f"{number}:{part.path}", size, stripes, number * stripes), kept))
        files *= setting.times
        n_parts = {"subfiles": workers, "chain": max(self.design.workers)}.get(setting.format, 0)
        if n_parts:
            # written before the run, with the chosen frames only
            size = sum(one.file.size for one in files) * len(frames) // sum(one.n_frames for one in files)
            files = split_evenly([FrameFile(StoredFile("chosen", size), len(frames))], n_parts, stripes)
            frames = range(len(frames))
        work = AnalysisWork(
            files,
            frames,
            self.cost,
            reader="mdanalysis" if setting.reader == "mdanalysis" else "kinema",
            opens="own" if setting.format == "subfiles" else "all",
            gather="one-sided" if setting.gather == "one-sided" else "collective",
            schedule="static" if self.design.schedule == "static" else "dynamic",
            workload=setting.workload,
            oversubscribe=setting.oversubscribe or DEFAULT_PIECES,
            result_bytes=_RESULT_BYTES,
        )
        return analysis_program(work, workers)

    def _described(self, n_frames: int) -> dict[str, Any]:
        """The files, as reports have them."""
        given = self.given
        files = [
            {"path": part.path, "format": part.format, "size": part.size, "fingerprint": part.fingerprint}
            for part in given.parts
        ]
        found = {"files": files, "file_systems": [], "topology": given.topology_name, "format": given.format}
        return found | {"n_atoms": given.n_atoms, "n_frames": n_frames}
