"""The report of an experiment on writing, in Markdown: tables of speeds, sizes and precision, memory, and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kinema.base.comparison import LEAST_REPEATS
from kinema.base.printable import counted
from kinema.studies.write_strategies.design import (
    DISK,
    KINDS,
    NETCDF_LIBRARY,
    PLACER,
    PNETCDF,
    WITHOUT_ATOMS,
    WriteSetting,
)
from kinema.studies.write_strategies.findings import PAPER_LOST, findings_of, recommendations
from kinema.studies.write_strategies.outcome import PHASES
from kinema.studies.write_strategies.summary import ALLOWANCE, MPIIO, WriteStudy

_DIGITS = {
    "ascii": "10 digits",
    "binary": "float64, all bits",
    "netcdf": "float32, about 7 digits",
    "dcd": "float32, about 7 digits",
    "trr": "float32, about 7 digits",
    "xtc": "0.01 angstrom",
    "h5md": "float32, about 7 digits",
    "h5md-contiguous": "float32, about 7 digits",
    NETCDF_LIBRARY: "float64, all bits",
}
_MIB = 1 << 20


def report_text(study: WriteStudy, picture: str) -> str:
    """The whole report; `picture` is the file beside it."""
    parts = [
        _head(study, picture), _findings(study), _speeds(study), _recommended(study), _ratios(study), _sizes(study),
        _memory(study), _lost(study), _peers(study),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(study: WriteStudy, picture: str) -> str:
    cells = " x ".join(map(str, study.system.cells))
    machine = study.machine
    libraries = ", ".join(dict.fromkeys(run.mpi for run in study.runs if run.mpi))
    emulated = "Emulated, not measured. " if study.is_emulated else ""
    lines = [
        f"# One file from many ranks: {study.system.n_atoms:,} particles",
        "",
        f"{emulated}Gd2Zr2O7 pyrochlore, {cells} cells of 88 atoms; "
        f"{machine.get('processor', machine.get('architecture', ''))}, "
        f"{study.cores} cores, {study.file_system}; {libraries or 'no run of MPI'}; Kinema {machine['kinema']}. Times "
        "are from when all ranks have their atoms, in no order, to when all have closed the synced file.",
    ]
    if study.system.n_atoms != study.design.particles:
        lines += [
            "",
            f"{study.design.particles:,} particles were asked for; whole cells have {study.system.n_atoms:,}.",
        ]
    most = max(study.design.ranks)
    if study.design.ranks_per_node is not None:
        lines += ["", f"The launcher places {counted(study.design.ranks_per_node, 'rank')} on each node."]
    if most > study.cores:
        lines += ["", f"{counted(most, 'rank')} share {counted(study.cores, 'core')}."]
    return "\n".join([*lines, "", f"![speed against ranks]({picture})"])


def _findings(study: WriteStudy) -> str:
    rows = [(one.paper, one.here, one.verdict) for one in findings_of(study)]
    return _section("The DL_POLY paper and this run", ("the paper", "here", ""), rows)


def _speeds(study: WriteStudy) -> str:
    head = ("records", "strategy", "paper", "ranks", "writers", "MB", "s", "GiB/s", *PHASES, "CPU", "file")
    rows = []
    for setting, cell in study.cells.items():
        writers = "" if setting.strategy in WITHOUT_ATOMS else str(setting.writers)
        first = (setting.records, setting.label, setting.paper_name, str(setting.ranks), writers)
        if cell.reason:
            what = "left out" if cell.is_missing else "no result"
            rows.append((*first, "-", "-", "-", *("-" for _ in PHASES), "-", f"{what}: {cell.reason}"))
            continue
        low, high = cell.speeds
        spread = f" ({_figure(low)} to {_figure(high)})" if len(cell.done) > 1 else ""
        phases = (_figure(value) if value else "" for value in cell.phases.values())
        found = cell.done[0].checked + (
            f"; no result of some runs: {'; '.join(cell.failures)}" if cell.failures else ""
        )
        size = f"{cell.bytes / 1e6:,.2f}"
        rows.append(
            (*first, size, _figure(cell.seconds), f"{_figure(cell.speed)}{spread}", *phases, _figure(cell.cpu), found)
        )
    strategies = {setting.strategy for setting in study.cells}
    words = (
        "Phases are seconds of the rank that spent the most on them, so they may add up to more than a run took. "
        "CPU: processor seconds of all ranks. Where serial has no time to encode, that is part of its writing and "
        "syncing. A file is read back and compared with the atoms, or has the bytes of one that was. "
        + ("PnetCDF's ranks have their atoms in order: nothing is sorted or sent." if PNETCDF in strategies else "")
    )
    return _section("Speed", head, rows, words)


def _recommended(study: WriteStudy) -> str:
    lines = []
    for one in recommendations(study):
        lines.append(f"- {KINDS[one.records].title}, {counted(one.ranks, 'rank')}: {one.verdict}")
        if one.setting is not None and one.records != "binary":
            lines.append(f"\n  `{_call_of(one.setting)}`\n")
        lines += [f"  Note: {note}" for note in one.notes]
    if not lines:
        return ""
    words = [
        "A strategy is recommended only if it took less time than each other one in every repeat, at least "
        f"{LEAST_REPEATS}, and by more than the spread of what it gained. Otherwise it is a tie."
    ]
    if "binary" in study.design.records:
        words.append("Native binary records serve only this comparison; they are not a format of Kinema.")
    return "\n".join(["## Recommended strategy", "", *words, "", *lines])


def _call_of(setting: WriteSetting) -> str:
    """The call that chooses a setting."""
    hints = ", ".join(f"{name!r}: {value!r}" for name, value in setting.hints)
    chosen = f", hints={{{hints}}}" if hints else ""
    return f'kn.Writer("{KINDS[setting.records].file}", n_atoms, comm=comm, strategy="{setting.strategy}"{chosen})'


def _ratios(study: WriteStudy) -> str:
    rows = []
    for ranks in study.design.ranks:
        for records in study.design.records:
            found = [
                study.ratio(records, over, under, ranks)
                for over, under in (
                    (("direct",), ("serial",)), (MPIIO, ("direct",)), (("direct",), (DISK,)), (("direct",), (PLACER,)),
                )
            ]  # fmt: skip
            if any(one is not None for one in found):
                texts = ["-" if one is None else f"{one:.2f}" for one in found]
                rows.append((records, str(ranks), *texts, *_speed_per_core(study, records, ranks)))
    head = (
        "records", "ranks", "direct / serial", "MPI-IO / direct", "direct / the disk", "direct / its calls alone",
        "MB/s a core, direct", "MB/s a core by CPU time",
    )  # fmt: skip
    words = (
        "The disk: as many bytes by as many processes with write and fdatasync alone, as any program writes them, "
        "without atoms. Its calls alone: the same with the calls of direct, which has the storage begin while more "
        "is written. MB are 1e6 bytes. A core's are of the time of the run on as many cores as there are ranks, and of "
        "the processor seconds that all ranks took, which other programs on the machine change less."
    )
    return _section("Ratios of speeds", head, rows, words) if rows else ""


def _speed_per_core(study: WriteStudy, records: str, ranks: int) -> tuple[str, str]:
    """MB/s per core of "direct", by time and by processor seconds."""
    cell = study.fastest(records, ("direct",), ranks)
    if cell is None:
        return "-", "-"
    megabytes = cell.bytes / 1e6
    by_cpu = f"{megabytes / cell.cpu:.0f}" if cell.cpu else "-"
    return f"{megabytes / cell.seconds / min(ranks, study.cores):.0f}", by_cpu


def _sizes(study: WriteStudy) -> str:
    rows = []
    for records in study.design.records:
        kinds = [(records, study.fastest_of_all(records))]
        if records == "netcdf":
            kinds.append((NETCDF_LIBRARY, study.fastest(records, (NETCDF_LIBRARY,))))
        for kind, cell in kinds:
            if cell is None:
                continue
            title = "NetCDF, netCDF4 library (DL_POLY's convention)" if kind == NETCDF_LIBRARY else KINDS[records].title
            size = (f"{cell.bytes:,}", f"{cell.bytes / study.system.n_atoms:.1f}")
            rounded = [f"{cell.roundings[name]:.1g}" if name in cell.roundings else "-" for name in _FIELDS]
            rows.append((title, *size, _DIGITS[kind], *rounded))
    head = ("records", "bytes", "a particle", "precision", *(f"{name}, {unit}" for name, unit in _FIELDS.items()))
    words = "The last columns are the largest differences between what was given and what the file holds."
    return _section("Sizes and precision", head, rows, words) if rows else ""


_FIELDS = {"positions": "angstrom", "velocities": "angstrom/ps", "forces": "kJ/(mol angstrom)"}


def _memory(study: WriteStudy) -> str:
    rows = []
    for setting, cell in study.cells.items():
        if cell.reason or setting.strategy in WITHOUT_ATOMS or study.is_emulated:
            continue
        memory = cell.memory
        limit = 2 * memory.share + ALLOWANCE
        rows.append(
            (
                setting.records, setting.label, str(setting.ranks), f"{memory.share / _MIB:.0f}",
                f"{memory.writing_peak / _MIB:.0f}", f"{memory.writing_peak / limit:.2f}",
            )
        )  # fmt: skip
    head = ("records", "strategy", "ranks", "share, MiB", "the most, MiB", "of twice the share + 64 MiB")
    words = (
        "For the rank that took the most memory: the arrays that it gives, and the peak memory for them while it "
        "wrote, arrays included; memory that the process had before it made them (Python, NumPy, MPI) is not counted."
    )
    return _section("Memory", head, rows, words) if rows else ""


def _lost(study: WriteStudy) -> str:
    lost = study.lost()
    if not lost:
        return ""
    step, every = study.design.step_time, study.design.every
    seconds, paper_every, paper_step, particles = PAPER_LOST
    between, rows = paper_every * paper_step, []
    for one in lost:
        # longer in proportion to the number of particles
        longer = one.seconds * particles / study.system.n_atoms
        shares = [f"{_figure(100 * share)} %" for share in (one.share, longer / (longer + between))]
        rows.append((one.records, one.which, one.strategy, _figure(one.seconds), shares[0], _figure(longer), shares[1]))
    paper = f"{100 * seconds / (seconds + between):.0f} %"
    rows.append(("the paper", "", "16,384 processors", "-", "-", f"{seconds:.0f}", paper))
    words = (
        f"A configuration every {every:,} steps of {step:g} s. The last two columns: the paper's {particles:,} "
        f"particles at this speed, every {paper_every:,} steps of {paper_step:g} s; the paper says over ten minutes."
    )
    head = ("records", "", "strategy", "s a configuration", "of all time", f"s, {particles:,} particles", "of all time")
    return _section("Time that a simulation loses", head, rows, words)


def _peers(study: WriteStudy) -> str:
    if not study.peers:
        return ""
    rows = [
        (one.name, "-" if one.reason else f"{one.rate:.0f}", one.reason or f"{one.bytes / 1e6:.1f} MB")
        for one in study.peers
    ]
    own = study.fastest("ascii", ("direct",), 1)
    if own is not None and own.phases["encode"] > 0:
        phases = own.phases
        for what, seconds in (
            ("Kinema, formatting alone (direct, 1 rank)", phases["encode"]),
            ("Kinema, formatting and writing, not sorting and syncing", phases["encode"] + phases["write"]),
        ):
            rows.append((what, f"{own.bytes / 1e6 / seconds:.0f}", f"{own.bytes / 1e6:.1f} MB"))
    words = "Records of CONFIG by one process, into the page cache, not sorted and not synced."
    return _section("Formatted writes of others", ("", "MB/s", ""), rows, words)


def _figure(value: float) -> str:
    """The value with two decimals; with two digits below 0.1."""
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.2g}"


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], words: str = "") -> str:
    return "\n".join([f"## {title}", "", *([words, ""] if words else []), *_table(head, rows)])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    yield _row(head, widths)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    for row in rows:
        yield _row([cell.replace("|", "/") for cell in row], widths)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
