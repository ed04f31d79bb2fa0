"""Conclusions from the numbers of a run: whether it agrees with the DL_POLY paper, and which strategy to use.

Each number of ranks is judged by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kinema.base.comparison import LEAST_REPEATS, compare, is_faster
from kinema.base.printable import counted
from kinema.formats.strategies import hints_of
from kinema.studies.write_strategies.design import NETCDF_LIBRARY, WriteSetting
from kinema.studies.write_strategies.summary import MPIIO, WriteCell, WriteStudy

AGREES, IN_PART, DIFFERS, UNKNOWN = "agrees", "agrees in part", "differs", "not measured"
# bounds of an order of magnitude, on a logarithmic scale
_TEN = (10**0.5, 10**1.5)
# 2.5 to 3, extended on both sides by the variation between runs
_BINARY = (2.25, 3.3)
_NETCDF = (1.5, 10.0)
# seconds per configuration, steps between two, seconds per step, particles: on 16,384 processors of a BG/L
PAPER_LOST = (600.0, 1000, 0.49, 15_000_000)


@dataclass(frozen=True)
class Finding:
    """One of the paper's findings, this run's counterpart, and the verdict."""

    paper: str
    here: str
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def findings_of(study: WriteStudy) -> list[Finding]:
    """All findings, including those to which this run has no answer."""
    return [
        _order(study), _span(study), _binary(study), _serial_netcdf(study), _parallel_netcdf(study), _gaps(study),
    ]  # fmt: skip


def caption(study: WriteStudy) -> list[str]:
    """Lines below the picture: its content, the paper's findings, whether this run agrees."""
    lines = [
        "Speed of one configuration (positions, velocities, forces) to the synced file, on a logarithmic scale. "
        "Dotted: the disk, as many bytes written and synced by as many processes."
    ]
    found = [one for one in findings_of(study) if one.verdict != UNKNOWN]
    return lines + [f"The DL_POLY paper: {one.paper}. Here: {one.here}: {one.verdict}." for one in found]


def _order(study: WriteStudy) -> Finding:
    paper = "direct (PDAW) is faster than MPI-IO (MPIW), which is faster than serial (SDAW)"
    words, orders = [], []
    for ranks in study.design.ranks:
        best = [study.fastest("ascii", names, ranks) for names in (("direct",), MPIIO, ("serial",))]
        direct, mpiio, serial = best
        if direct is None or mpiio is None or serial is None:
            continue
        repeats = min(len(cell.times) for cell in (direct, mpiio, serial))
        speeds = f"direct {direct.speed:.2f} GiB/s, MPI-IO {mpiio.speed:.2f} GiB/s, serial {serial.speed:.2f} GiB/s"
        if repeats < LEAST_REPEATS:
            words.append(f"{_on(ranks)} {speeds}, not told apart by {counted(repeats, 'repeat')}")
            continue
        signs = _compare(direct, mpiio), _compare(mpiio, serial)
        alike = [
            names for names, sign in zip(("direct and MPI-IO", "MPI-IO and serial"), signs, strict=True) if not sign
        ]
        words.append(f"{_on(ranks)} {speeds}" + (f" ({' and '.join(alike)} are a tie)" if alike else ""))
        orders.append(signs)
    if not words:
        return Finding(paper, "not all of them have a result for ASCII records on the same ranks", UNKNOWN)
    here = "; ".join(words)
    if not orders:
        return Finding(paper, f"{here}: at least {LEAST_REPEATS} are needed", UNKNOWN)
    agreeing = [signs == (1, 1) for signs in orders]
    if any(min(signs) < 0 for signs in orders) and not any(agreeing):
        return Finding(paper, here, DIFFERS)
    return Finding(paper, here, AGREES if all(agreeing) else IN_PART)


def _on(ranks: int) -> str:
    return f"{counted(ranks, 'rank')}:"


def _compare(one: WriteCell, other: WriteCell) -> int:
    """1 if `one` is faster, -1 if it is slower, 0 if it is a tie."""
    return int(is_faster(one.times, other.times)) - int(is_faster(other.times, one.times))


def _span(study: WriteStudy) -> Finding:
    paper = "the fastest strategy is up to an order of magnitude above the slowest"
    found = [
        (ratio, records, ranks)
        for records in ("ascii", "binary")
        for ranks in study.design.ranks
        if (ratio := study.ratio(records, ("direct",), ("serial",), ranks)) is not None
    ]
    if not found:
        return Finding(paper, "direct and serial have no result on the same ranks", UNKNOWN)
    ratio, records, ranks = max(found)
    here = f"direct is {ratio:.1f} times serial at the most ({records}, {counted(ranks, 'rank')})"
    return Finding(paper, here, AGREES if _TEN[0] <= ratio <= _TEN[1] else DIFFERS)


def _binary(study: WriteStudy) -> Finding:
    paper = "native binary takes 2.5 to 3 times less time than ASCII"
    words: list[str] = []
    ratios: list[float] = []
    for ranks in study.design.ranks:
        found = {}
        for strategy in ("direct", "mpiio", "mpiio-collective", "serial"):
            text, binary = (study.fastest(records, (strategy,), ranks) for records in ("ascii", "binary"))
            if text is not None and binary is not None:
                found[strategy] = text.seconds / binary.seconds
        if found:
            times = ", ".join(f"{strategy} {ratio:.1f} times" for strategy, ratio in found.items())
            words.append(f"{_on(ranks)} {times}")
            ratios += found.values()
    if not ratios:
        return Finding(paper, "no strategy has both on the same ranks", UNKNOWN)
    return Finding(paper, "; ".join(words), _verdict([_BINARY[0] <= ratio <= _BINARY[1] for ratio in ratios]))


def _serial_netcdf(study: WriteStudy) -> Finding:
    paper = "serial NetCDF (SNCW) is 1.5 to 10 times as fast as SDAW"
    words, agreeing = [], []
    for ranks in study.design.ranks:
        library, serial = (
            study.fastest(records, (strategy,), ranks)
            for records, strategy in (("netcdf", NETCDF_LIBRARY), ("ascii", "serial"))
        )
        if library is not None and serial is not None:
            ratio = serial.seconds / library.seconds
            times = f"{ratio:.1f} times, {library.seconds:.2f} s and {serial.seconds:.2f} s a configuration"
            words.append(f"{_on(ranks)} {times}")
            agreeing.append(_NETCDF[0] <= ratio <= _NETCDF[1])
    if not words:
        return Finding(paper, "one of them has no result", UNKNOWN)
    return Finding(paper, "; ".join(words), _verdict(agreeing))


def _parallel_netcdf(study: WriteStudy) -> Finding:
    paper = "parallel NetCDF is wished for, with at least a further factor of two"
    words, agreeing = [], []
    for ranks in study.design.ranks:
        library = study.fastest("netcdf", (NETCDF_LIBRARY,), ranks)
        parallel = study.fastest("netcdf", ("direct", *MPIIO), ranks)
        if library is not None and parallel is not None:
            ratio = library.seconds / parallel.seconds
            words.append(
                f"{_on(ranks)} {parallel.setting.label} takes {ratio:.1f} times less time than the serial library, in "
                f"a file {parallel.bytes / library.bytes:.2f} times as large (float32 for float64)"
            )
            agreeing.append(ratio >= 2)
    if not words:
        return Finding(paper, "one of them has no result", UNKNOWN)
    return Finding(paper, "; ".join(words), _verdict(agreeing))


def _gaps(study: WriteStudy) -> Finding:
    paper = "gaps where runs failed or were not done in 5 hours"
    gaps, tried = study.gaps, [cell for cell in study.cells.values() if not cell.is_missing]
    missing = len(study.cells) - len(tried)
    more = f"; {missing} more need a library that is missing" if missing else ""
    if not gaps:
        return Finding(paper, f"all {len(tried)} cells have a result{more}", DIFFERS if tried else UNKNOWN)
    return Finding(paper, f"{len(gaps)} of {len(tried)} cells have none{more}", AGREES)


def _verdict(agreeing: list[bool]) -> str:
    return AGREES if all(agreeing) else IN_PART if any(agreeing) else DIFFERS


# -- what to use -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StrategyAdvice:
    """The recommendation for one kind of file on one number of ranks.

    `setting`: the strategy, with the hints that have an effect; None for a tie, or if it cannot be judged.
    `verdict`: in words: the fastest, a tie, or why it is not judged.
    `notes`: hints without an effect.
    """

    records: str
    ranks: int
    setting: WriteSetting | None
    verdict: str
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        setting = self.setting
        return {
            "records": self.records,
            "ranks": self.ranks,
            "strategy": None if setting is None else setting.strategy,
            "hints": {} if setting is None else dict(setting.hints),
            "verdict": self.verdict,
            "notes": list(self.notes),
        }


def recommendations(study: WriteStudy) -> Iterator[StrategyAdvice]:
    """One for each kind of file and number of ranks with results of Kinema's strategies."""
    for records in study.design.records:
        for ranks in study.design.ranks:
            cells = study.select_cells(records, study.own_strategies, ranks)
            if cells:
                yield _recommended(records, ranks, {cell.setting: cell.times for cell in cells})


def _recommended(records: str, ranks: int, times: Mapping[WriteSetting, Mapping[int, float]]) -> StrategyAdvice:
    found = compare(times)
    notes, leaders = list(_ignored(times)), found.leaders
    verdict = found.in_words(lambda setting: setting.label)
    strategies = {one.strategy for one in leaders}
    if not found.is_judged or len(strategies) > 1:
        return StrategyAdvice(records, ranks, None, verdict, tuple(notes))
    (strategy,) = strategies
    unused = hints_of(dict(leaders[0].hints), strategy).unused
    # leaders with other values of a hint are a tie: that hint is not recommended
    hints = tuple(
        one for one in leaders[0].hints if one[0] not in unused and all(one in other.hints for other in leaders)
    )
    if len(leaders) > 1:
        varied = [name for name, value in leaders[0].hints if any((name, value) not in one.hints for one in leaders)]
        if len(leaders) == sum(one.strategy == strategy for one in times):
            notes += [f"{strategy}: hint {name} had no effect" for name in varied if name not in unused]
        if found.beaten:
            verdict = f"{strategy} is the fastest in each of {found.repeats} repeats, with {verdict}"
    best = WriteSetting(records, strategy, ranks, hints) if found.beaten else None
    return StrategyAdvice(records, ranks, best, verdict, tuple(notes))


def _ignored(settings: Mapping[WriteSetting, Any]) -> Iterator[str]:
    """Notes of hints that a strategy does not follow."""
    names: dict[str, dict[str, None]] = {}
    for one in settings:
        names.setdefault(one.strategy, {}).update(dict.fromkeys(hints_of(dict(one.hints), one.strategy).unused))
    for strategy, unused in names.items():
        if unused:
            yield f"{strategy}: follows no hint {', '.join(unused)}"
