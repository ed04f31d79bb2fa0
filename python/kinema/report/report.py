"""`Report`: a run with every second accounted for, as text, JSON and pictures.

It is made from the record of a run, or read from a file; it runs nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kinema.base.errors import ArgumentError, CorruptFileError, Error
from kinema.base.input_files import read_regular
from kinema.base.printable import printable, three_digits
from kinema.base.resources import default_workers
from kinema.base.timings import Timings, format_seconds
from kinema.cache.counts import CacheCounts
from kinema.execution.record import RunRecord
from kinema.formats.all_formats import format_named
from kinema.report import stored
from kinema.report.advice import Circumstances, advise
from kinema.report.machine import machine_facts
from kinema.report.places import Places
from kinema.report.quantities import PARTS, Quantities, quantities_of
from kinema.report.storage_facts import file_systems, storage_facts
from kinema.report.stragglers import SlowFile, Straggler, find_slow_files, find_stragglers
from kinema.storage.output_checks import check_not_input, check_plot_path, check_remade
from kinema.storage.output_file import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Report", "report_of"]

# bytes of an atom in a frame of an HDF5 or DCD file
_ATOM_BYTES = 12
# most files of a trajectory whose layout is checked
_LAYOUTS = 4
# reports have timings of every block; larger files are not reports
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class Report:
    """Where the time of a run went. `print(report)` shows it.

    Attributes
    ----------
    machine : mapping
        Processor, cores, memory, versions of libraries, load, batch job (`kinema.report.machine`).
    input : mapping
        "files" (path, format, size, fingerprint), "file_systems", "storage" (of `storage_facts`), "topology", "format",
        "n_atoms", "n_frames".
    run : mapping
        "analyses", "atoms" (of all selections together), "command", "runner", "access", "plan" (in words), "date".
    timings : Timings
    stragglers, slow_files : worst first
    advice : tuple of str
    extra : mapping
        Additions by the caller: the repeat, the page cache, the work multiplier of `kinema scaling`.
    """

    machine: Mapping[str, Any]
    input: Mapping[str, Any]
    run: Mapping[str, Any]
    timings: Timings
    stragglers: tuple[Straggler, ...]
    slow_files: tuple[SlowFile, ...]
    advice: tuple[str, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def quantities(self) -> Quantities:
        """The publications' quantities."""
        return quantities_of(self.timings)

    @property
    def n_workers(self) -> int:
        """Number of workers of a round."""
        return self.timings.n_workers

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON; see `kinema.report.stored`."""
        return stored.report_as_dict(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the report as JSON, whole or not at all. Raises as other outputs do if the folder is missing, and if
        `path` is the run's trajectory or topology. `overwrite` replaces a file that Kinema did not write."""
        self._check_not_input(path)
        check_remade(path, overwrite=overwrite)
        text = json.dumps(self.as_dict(), allow_nan=False)
        write_whole(path, lambda file: file.write(text.encode()))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Report:
        """Reads a report that `save` wrote.

        Raises CorruptFileError for other files, ArgumentError for a newer version of reports.
        """
        name = os.fspath(path)
        try:
            text = read_regular(name, "report", most=_MOST_BYTES).decode()
        except UnicodeDecodeError:
            raise CorruptFileError(f"{name}: is not a report of kinema, expected JSON", path=name) from None
        try:
            found = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(
                f"{name}: is not a report of kinema, expected JSON, found {error}", path=name
            ) from None
        return Report(**stored.report_from_dict(found, name))

    def plot(
        self, path: str | os.PathLike[str] | None = None, *, kind: str = "bars", overwrite: bool = False
    ) -> Figure:
        """A matplotlib figure, written to `path` (.png, .pdf, .svg) if one is given.

        `kind`: "bars", where the time of each worker went; "timeline", the blocks of each worker.
        `overwrite` replaces a file that Kinema did not write.
        """
        from kinema.report.figures import style, workers

        kinds = {"bars": workers.draw_bars, "timeline": workers.draw_timeline}
        if kind not in kinds:
            raise ArgumentError(f"kind must be one of {', '.join(map(repr, kinds))}, found {kind!r}")
        if path is not None:
            self._check_not_input(path)
            check_plot_path(path, overwrite=overwrite)
        figure = kinds[kind](self)
        if path is not None:
            style.write(figure, path)
        return figure

    def _check_not_input(self, path: str | os.PathLike[str]) -> None:
        files = [one["path"] for one in self.input.get("files", ())]
        check_not_input(path, *files, self.input.get("topology"))

    def __str__(self) -> str:
        return "\n".join(map(printable, _lines(self)))


def report_of(run: RunRecord, *, extra: Mapping[str, Any] | None = None) -> Report:
    """The report of a finished run, which analyses have as `record`; `extra` as in `Report`."""
    timings = run.timings
    places = Places(run.trajectory.core, run.frames)
    stragglers = find_stragglers(timings.passes, places)
    slow_files = find_slow_files(timings.passes, places) if len(places.paths) > 1 else ()
    described = dict(extra or {})
    # files that `kinema scaling` has made
    temporary = "format" in described or "source" in described or described.get("page_cache") == "copy"
    circumstances = replace(_circumstances(run), temporary=temporary)
    parts = run.trajectory.parts
    return Report(
        machine=machine_facts(),
        input={
            "files": [
                {"path": part.path, "format": part.format, "size": part.size, "fingerprint": part.fingerprint}
                for part in parts
            ],
            "file_systems": file_systems(run.trajectory.paths),
            "storage": storage_facts(run.trajectory.paths),
            "topology": run.trajectory.topology_name,
            "format": run.trajectory.format,
            "n_atoms": run.trajectory.n_atoms,
            "n_frames": run.trajectory.n_frames,
            "bytes_wanted": circumstances.bytes_wanted,
        },
        run={
            "analyses": list(run.analyses),
            "atoms": run.n_atoms,
            "command": run.command,
            "runner": timings.runner,
            "access": timings.access,
            "plan": run.plan,
            "node_cache": None if run.node_cache is None else run.node_cache.as_dict(),
            "date": run.date,
        },
        timings=timings,
        stragglers=stragglers,
        slow_files=slow_files,
        advice=advise(timings, quantities_of(timings), stragglers, slow_files, circumstances),
        extra=described,
    )


def _no_number(name: str) -> None:
    """Refuses the numbers that Python's JSON accepts beyond the standard: NaN, Infinity."""
    raise ValueError(f"the number {name}")


def _circumstances(run: RunRecord) -> Circumstances:
    trajectory, timings = run.trajectory, run.timings
    layouts, layout_advice = _layouts(trajectory.paths) if format_named(trajectory.format).chunked else ({}, ())
    n_read = timings.frames_read * run.n_atoms * _ATOM_BYTES
    return Circumstances(
        format=trajectory.format,
        paths=tuple(trajectory.paths),
        cores=default_workers(),
        runner=timings.runner,
        one_sided=timings.gather == "one-sided",
        access=timings.access,
        # packed frames are read whole
        bytes_wanted=0 if format_named(trajectory.format).packed else n_read,
        layouts=layouts,
        layout_advice=layout_advice,
    )


def _layouts(paths: Sequence[str]) -> tuple[dict[str, Mapping[str, float]], tuple[str, ...]]:
    """Read amplification of each file's positions, and reasons why a file is slow or was not judged."""
    from kinema.files.layout import layout_of

    layouts: dict[str, Mapping[str, float]] = {}
    described: list[str] = []
    for path in paths[:_LAYOUTS]:
        try:
            found = layout_of(path)
        except Error as error:
            # bare data sets and other programs' HDF5 files have no H5MD structure
            described.append(f"the layout of the file is not judged: {error}")
            continue
        positions = [field for group in found.groups for field in group.fields if field.name == "positions"]
        if positions:
            layouts[path] = positions[0].amplification
        described += [f"{path}: {sentence}" for sentence in found.advice if "h5py, which is slow" in sentence]
    return layouts, tuple(described)


def _lines(report: Report) -> list[str]:
    timings, found = report.timings, report.quantities
    files = report.input["files"]
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    opening = timings.opening
    between = max(0.0, timings.whole - timings.wall)
    wanted = report.input.get("bytes_wanted", 0)
    access = "" if timings.access == "direct" else f", access {timings.access}"
    emulated = report.run.get("emulated")
    lines = [
        *([] if emulated is None else [_emulated_line(emulated)]),
        f"{', '.join(dict.fromkeys(report.run['analyses']))} of {files[0]['path']}{more} ({report.input['format']}, "
        f"{report.input['n_atoms']:,} atoms, {report.run['atoms']:,} of them used), runner {timings.runner}{access}",
        f"once: topology {format_seconds(opening.get('topology', 0.0))}, "
        f"headers {format_seconds(opening.get('trajectory', 0.0))}, "
        f"finding frames {format_seconds(opening.get('frames', 0.0))}; "
        f"besides the rounds (runner, planning, finishing, files): {format_seconds(between)}",
        *str(timings).splitlines(),
        "quantities: " + ", ".join(_quantity(name, value) for name, value in _described(found)),
    ]
    if where := ", ".join(_where(report)):
        lines.append(f"where: {where}")
    if wanted and timings.bytes_read:
        lines.append(f"bytes read: {timings.bytes_read / wanted:.2f} times the bytes of the atoms used")
    if report.run.get("node_cache") is not None:
        lines.append(f"node cache: {CacheCounts.from_core(report.run['node_cache'])}")
    lines += [_block_line(name, values) for name, values in stored.block_summary(timings).items()]
    lines += [f"straggler: {one}" for one in report.stragglers] or ["stragglers: none"]
    lines += [f"slow file: {one}" for one in report.slow_files]
    return lines + [f"advice: {one}" for one in report.advice]


def _emulated_line(emulated: Mapping[str, Any]) -> str:
    """Says that nothing was measured, and where the parameters are."""
    return (
        f"emulated, not measured: {emulated['name']}, nodes {emulated['nodes']} ({emulated['description']}); its "
        "parameters and their sources are in the report's run.emulated"
    )


def _where(report: Report) -> Iterator[str]:
    """Facts about the machine, libraries and storage; reports of earlier versions have fewer."""
    machine = report.machine
    yield from (str(machine[name]) for name in ("host", "processor") if machine.get(name))
    for one in report.input.get("storage", ()):
        yield from (str(one[name]) for name in ("file_system", "disk") if one.get(name))
        yield from (f"stripes {words}" for words in one.get("stripes", ()))
    yield from (f"{name} {machine[name]}" for name in ("mpi", "hdf5", "load", "job") if machine.get(name))


def _described(found: Quantities) -> list[tuple[str, Any]]:
    """Names as the publications write them."""
    names = ("t_total", *PARTS, "t_start", "t_open_topology", "t_open_trajectory")
    described = [(name, getattr(found, name)) for name in names]
    about = " (estimate)" if found.R_comp_IO_is_estimate else ""
    return [
        *described,
        ("t_communication with waiting", found.t_communication_with_wait),
        (f"R_comp/IO{about}", found.R_comp_IO),
        ("R_comp/comm", found.R_comp_comm),
        ("R_comp/comm with waiting", found.R_comp_comm_with_wait),
    ]


def _quantity(name: str, value: float | None) -> str:
    if value is None:
        return f"{name} -"
    return f"{name} {three_digits(value)}" + ("" if name.startswith("R_") else " s")


def _block_line(name: str, values: Mapping[str, float]) -> str:
    return (
        f"a block: {name} median {values['median'] * 1e3:.3f} ms, 95 % below {values['p95'] * 1e3:.3f} ms, "
        f"longest {values['max'] * 1e3:.3f} ms"
    )
