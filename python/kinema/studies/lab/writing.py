"""`WriteLaboratory`: the experiment of `kinema bench-write` on an emulated cluster, in virtual time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kinema._core import __version__
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.base.timings import format_seconds
from kinema.studies.lab.cases import ASCII, BINARY, collective_write, direct_write, serial_write
from kinema.studies.lab.operations import RankProgram, StoredFile
from kinema.studies.lab.platform import Platform
from kinema.studies.lab.replay import emulate
from kinema.studies.results_log import ResultsLog
from kinema.studies.write_strategies.design import WriteDesign, WriteSetting
from kinema.studies.write_strategies.experiment import system_of
from kinema.studies.write_strategies.outcome import WriteRun
from kinema.studies.write_strategies.study import StudyFiles, report_files, report_study
from kinema.studies.write_strategies.summary import WriteStudy

STRATEGIES = ("serial", "direct", "mpiio-collective")
_RECORDS = {"ascii": ASCII, "binary": BINARY}
# ROMIO's name for the number of ranks that write in collective calls
_WRITERS = "cb_nodes"
# records of an atom: name and index, position, velocity, force
_ASCII_ATOM, _BINARY_ATOM = 4 * ASCII.size, 3 * BINARY.size


@dataclass(frozen=True)
class WriteLaboratory:
    """The emulated cluster of an experiment on writing.

    `nodes`: number of nodes for all numbers of ranks; None: as few as have a core for each rank.
    `stripes`: number of storage targets of a file; None: the platform's own.
    """

    platform: Platform
    nodes: int | None = None
    stripes: int | None = None

    def check(self, design: WriteDesign) -> None:
        """Raises ArgumentError for designs that the laboratory cannot carry out."""
        named = {"records": (design.records, tuple(_RECORDS)), "hints": (tuple(design.hints), (_WRITERS,))}
        named["strategies"] = (() if design.asks_for_all else design.strategies, STRATEGIES)
        for name, (values, known) in named.items():
            for value in values:
                if value not in known:
                    raise ArgumentError(f"{name} in the laboratory: expected {' or '.join(known)}, found {value}")
        most = {_WRITERS: min(design.ranks), "stripes": self.platform.targets}
        found = {**design.hints, "stripes": () if self.stripes is None else (str(self.stripes),)}
        for name, text in ((name, one) for name, values in found.items() for one in values):
            if not text.isdecimal() or not 1 <= int(text) <= most[name]:
                raise ArgumentError(f"{name} must be a whole number from 1 to {most[name]}, found {text}")
        if self.nodes is not None and self.nodes > min(design.ranks):
            raise ArgumentError(
                f"nodes must be from 1 to the smallest number of ranks, {min(design.ranks)}, found {self.nodes}"
            )
        if self.nodes is not None and design.ranks_per_node is not None:
            raise ArgumentError("nodes and ranks per node both say how ranks are placed; give one")

    def run(
        self,
        design: WriteDesign,
        folder: str | os.PathLike[str],
        notify: Callable[[str], None],
        *,
        overwrite: bool = False,
    ) -> StudyFiles:
        """As `run_study`, in virtual time. Each run is made once: a repeat would give the same bits.

        Raises ArgumentError as `check`.
        """
        self.check(design)
        place, system = Path(folder), system_of(design)
        with ResultsLog(place, overwrite=overwrite, remade=report_files(place)) as log:
            runs = []
            for setting in self._settings(design):
                run = self._write(setting, system.n_atoms, design.ranks_per_node)
                log.add(run.as_dict())
                words = f"{setting.records}, {setting.label} on {counted(setting.ranks, 'rank')}"
                notify(f"emulated: {words}: {format_seconds(run.seconds)}")
                runs.append(run)
        platform = self.platform
        machine = {
            "host": f"the platform {platform.name}", "processor": platform.description,
            "allowed_cores": platform.cores, "kinema": __version__, "emulated": platform.as_dict(),
        }  # fmt: skip
        storage = f"{platform.name}, {counted(self._stripes, 'stripe')}"
        study = WriteStudy(design, system, runs, (), machine, storage)
        return report_study(study, place)

    @property
    def _stripes(self) -> int:
        return self.platform.stripes if self.stripes is None else self.stripes

    def _settings(self, design: WriteDesign) -> Iterator[WriteSetting]:
        """The cells; a strategy that ignores hints has one for all of them."""
        found = [one for one in design.settings() if one.strategy in STRATEGIES]
        yield from dict.fromkeys(
            one if one.strategy == "mpiio-collective" else replace(one, hints=()) for one in found
        )  # fmt: skip

    def _write(self, setting: WriteSetting, n_atoms: int, ranks_per_node: int | None) -> WriteRun:
        """Emulates one run."""
        size = n_atoms * (_ASCII_ATOM if setting.records == "ascii" else _BINARY_ATOM)
        file = StoredFile("configuration", size, self._stripes)
        nodes = self.nodes if ranks_per_node is None else -(-setting.ranks // ranks_per_node)
        on_nodes = nodes or -(-setting.ranks // self.platform.cores)
        # as ROMIO does: one writer a node
        n_writers = int(dict(setting.hints).get(_WRITERS, on_nodes))
        run = emulate(self._program(setting, file, n_writers), setting.ranks, self.platform, nodes)
        phases = {
            "communicate": run.largest("communicate"), "encode": run.largest("compute"), "write": run.largest("io"),
        }  # fmt: skip
        cpu = run.mean("compute") * setting.ranks
        return WriteRun(setting, 0, "", run.seconds, run.seconds, cpu, size, phases)

    def _program(self, setting: WriteSetting, file: StoredFile, n_writers: int) -> RankProgram:
        record = _RECORDS[setting.records]
        if setting.strategy == "serial":
            return serial_write(file, setting.ranks, record)
        if setting.strategy == "direct":
            return direct_write(file, setting.ranks, record)
        return collective_write(file, setting.ranks, n_writers, record)
