"""The driver of an experiment on writing: each run is a program under mpiexec with a time limit; its file is checked
and removed. A run that fails or takes too long is a result too: the table gives the reason.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kinema.base.errors import Error, from_os
from kinema.base.timings import format_seconds
from kinema.formats.strategies import strategies_of, verifying
from kinema.runners.local.interpreter import module_command
from kinema.storage.output_file import temporary_folder
from kinema.studies.launching import child_environment, in_one_line, mpi_launcher, reason_of, run_bounded
from kinema.studies.results_log import ResultsLog
from kinema.studies.write_strategies.checks import FileChecks
from kinema.studies.write_strategies.design import (
    KINDS,
    NETCDF_LIBRARY,
    PNETCDF,
    WITHOUT_ATOMS,
    WriteDesign,
    WriteSetting,
)
from kinema.studies.write_strategies.outcome import WriteRun
from kinema.studies.write_strategies.peers import PnetcdfProgram, pnetcdf_program, write_values
from kinema.studies.write_strategies.pyrochlore import Pyrochlore

__all__ = ["run_write_design", "system_of"]

# approximate bytes per atom in the largest file of a kind; room for one file is checked before it is written
_ATOM_BYTES = {
    "ascii": 292,
    "binary": 96,
    "netcdf": 108,
    "dcd": 12,
    "trr": 72,
    "xtc": 12,
    "h5md": 72,
    "h5md-contiguous": 72,
}
_ROOM = 1.1
# size of files that are written first, relative to the output, to warm up memory: a run has its file and buffers
_WARM = 1.4


def system_of(design: WriteDesign) -> Pyrochlore:
    """The atoms to be written."""
    return Pyrochlore.from_particle_count(design.particles, design.seed)


def run_write_design(
    design: WriteDesign,
    folder: str | os.PathLike[str],
    notify: Callable[[str], None],
    *,
    overwrite: bool = False,
    beside: Sequence[Path] = (),
) -> Iterator[WriteRun]:
    """Carries out all runs and yields each when it is done; results.jsonl (one line per run) goes to `folder`.

    Repeats are the outer loop. After the kinds of records from the paper, the disk itself is measured: as many bytes by
    as many processes. Files lie in a sub-folder of `folder` that is removed. `overwrite` and `beside` as in
    `kinema.studies.run_design`.

    Raises FileNotFound without mpiexec, ArgumentError for a folder that holds results, and as making files does.
    """
    place = Path(folder)
    launcher = mpi_launcher(design.ranks_per_node, design.launcher)
    checks = FileChecks(system_of(design), design.page_cache)
    with ResultsLog(place, overwrite=overwrite, remade=beside) as log, temporary_folder(place / "files") as scratch:
        driver = _Driver(design, launcher, checks, Path(scratch))
        for repeat in range(design.repeats):
            for settings in _groups(design):
                size = 0
                for setting in settings:
                    if setting.strategy in WITHOUT_ATOMS and not size:
                        continue  # without a file to compare with
                    run = driver.run(setting, repeat, Path(scratch), size)
                    if setting.strategy not in (NETCDF_LIBRARY, PNETCDF):
                        size = max(size, run.bytes)
                    log.add(run.as_dict())
                    notify(_summary(run))
                    yield run


def _groups(design: WriteDesign) -> Iterator[list[WriteSetting]]:
    """All settings of a kind of records on a number of ranks, followed by those without atoms."""
    groups: dict[tuple[str, int], list[WriteSetting]] = {}
    for setting in design.settings():
        groups.setdefault((setting.records, setting.ranks), []).append(setting)
    for (records, ranks), settings in groups.items():
        yield [*settings, *(WriteSetting(records, name, ranks) for name in WITHOUT_ATOMS)]


@dataclass
class _Driver:
    design: WriteDesign
    launcher: Callable[[int], list[str]]
    checks: FileChecks
    # a folder for the whole experiment: PnetCDF's program and the values that it writes
    shared: Path

    def run(self, setting: WriteSetting, repeat: int, scratch: Path, size: int) -> WriteRun:
        """One run; `size`: bytes for runs without atoms. An error of the run becomes its reason."""
        reason = self._refusal(setting, scratch)
        if reason:
            return WriteRun(setting, repeat, reason)
        if setting.strategy == PNETCDF and self.pnetcdf.reason:
            return WriteRun(setting, repeat, self.pnetcdf.reason, missing=True)
        with temporary_folder(scratch / f"{setting.records}-{setting.strategy}-n{setting.ranks}") as folder:
            return self._start(setting, repeat, Path(folder), size)

    def _verifies(self, setting: WriteSetting) -> bool:
        """Whether ranks read back what others wrote: if asked for, and if the strategy can."""
        return self.design.verify and setting.strategy in verifying(KINDS[setting.records].written)

    def _refusal(self, setting: WriteSetting, scratch: Path) -> str:
        """The reason why a run cannot succeed; "" if it may be tried."""
        format = KINDS[setting.records].written
        if setting.strategy not in (*WITHOUT_ATOMS, NETCDF_LIBRARY, PNETCDF, *strategies_of(format)):
            return f"{format} has no strategy {setting.strategy!r} with atoms over ranks"
        needed = int(_ROOM * _ATOM_BYTES[setting.records] * self.checks.system.n_atoms)
        free = shutil.disk_usage(scratch).free
        if needed > free:
            return f"no room: the file takes about {needed:,} bytes, and {free:,} are free"
        return ""

    @cached_property
    def pnetcdf(self) -> PnetcdfProgram:
        """The program, compiled on first use, with the values that it writes."""
        found = pnetcdf_program(self.shared, child_environment(), self.design.ranks_per_node)
        if not found.reason:
            write_values(self.shared, self.checks.system)
        return found

    def _start(self, setting: WriteSetting, repeat: int, folder: Path, size: int) -> WriteRun:
        path = str(folder / KINDS[setting.records].file)
        answer = folder / "result.json"
        words = self._program(setting, folder, path, size, answer)
        # dirty data of earlier runs must not count for this one
        os.sync()
        ended = run_bounded(words, child_environment(), self.design.time_limit)
        failed = WriteRun(setting, repeat, job_seconds=ended.seconds)
        if ended.code != 0 or not answer.exists():
            missing = sorted(folder.glob("missing-??????"))
            said = [one.read_text(encoding="utf-8") for one in (*missing, *sorted(folder.glob("reason-??????")))]
            why = said[0] if said and ended.code is not None else reason_of(ended, self.design.time_limit)
            return replace(failed, reason=in_one_line(why.replace(f"{folder}/", "")), missing=bool(missing))
        run = WriteRun.from_result(setting, repeat, ended.seconds, json.loads(answer.read_text(encoding="utf-8")))
        if setting.strategy in WITHOUT_ATOMS:
            return run
        try:
            checked, roundings = self.checks.check(setting, path)
        except Error as error:
            return replace(failed, reason=in_one_line(f"the file is wrong: {error}".replace(f"{folder}/", "")))
        verified = ", verified by the ranks" if self._verifies(setting) else ""
        return replace(run, checked=checked + verified, roundings=roundings)

    def _program(self, setting: WriteSetting, folder: Path, path: str, size: int, answer: Path) -> list[str]:
        warm_bytes = int(_WARM * _ATOM_BYTES[setting.records] * self.checks.system.n_atoms)
        if setting.strategy == PNETCDF:
            return self.pnetcdf.words(setting.ranks, path, answer, warm_bytes)
        settings: dict[str, Any] = {
            "records": setting.records,
            "strategy": setting.strategy,
            "hints": dict(setting.hints),
            "cells": self.checks.system.cells,
            "seed": self.design.seed,
            "verify": self._verifies(setting),
            "time_limit": self.design.time_limit,
            "path": path,
            "bytes": size,
            "warm_bytes": warm_bytes,
            "result": str(answer),
            "reasons": str(folder),
        }
        settings_file = folder / "settings.json"
        try:
            settings_file.write_text(json.dumps(settings), encoding="utf-8")
        except OSError as error:
            raise from_os("cannot write", error, str(settings_file)) from None
        return [
            *self.launcher(setting.ranks),
            *module_command("kinema.studies.write_strategies.one_cell", settings_file),
        ]


def _summary(run: WriteRun) -> str:
    ranks = f"{run.setting.ranks} rank{'' if run.setting.ranks == 1 else 's'}"
    found = run.reason or f"{format_seconds(run.seconds)}, {run.speed:.2f} GiB/s"
    return f"{run.setting.records}, {run.setting.label}, {ranks}, repeat {run.repeat}: {found}"
