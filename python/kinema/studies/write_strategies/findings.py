"""The DL_POLY paper's findings, and whether a run agrees with them, by the numbers of the run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kinema.base.printable import counted
from kinema.studies.write_strategies.design import NETCDF_LIBRARY
from kinema.studies.write_strategies.summary import MPIIO, WriteCell, WriteStudy

AGREES, IN_PART, DIFFERS, UNKNOWN = "agrees", "agrees in part", "differs", "not measured"
# speeds that differ by less count as equal
_ALIKE = 0.05
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
    best = [study.fastest("ascii", names) for names in (("direct",), MPIIO, ("serial",))]
    direct, mpiio, serial = best
    if direct is None or mpiio is None or serial is None:
        return Finding(paper, "not all of them have a result for ASCII records", UNKNOWN)
    here = ", ".join(
        f"{name} {cell.speed:.2f} GiB/s" for name, cell in (("direct", direct), ("MPI-IO", mpiio), ("serial", serial))
    )
    first, second = _compare(direct, mpiio), _compare(mpiio, serial)
    if (first, second) == (1, 1):
        return Finding(paper, here, AGREES)
    alike = [names for names, sign in (("direct and MPI-IO", first), ("MPI-IO and serial", second)) if sign == 0]
    here += f"; {' and '.join(alike)} are within 5 %" if alike else ""
    return Finding(paper, here, DIFFERS if min(first, second) < 0 else IN_PART)


def _compare(one: WriteCell, other: WriteCell) -> int:
    """1 if `one` is faster, -1 if it is slower, 0 if both count as equal."""
    ratio = one.speed / other.speed
    return 0 if abs(ratio - 1) <= _ALIKE else 1 if ratio > 1 else -1


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
    found = []
    for strategy in ("direct", "mpiio", "mpiio-collective", "serial"):
        text, binary = study.fastest("ascii", (strategy,)), study.fastest("binary", (strategy,))
        if text is not None and binary is not None:
            found.append((strategy, text.seconds / binary.seconds))
    if not found:
        return Finding(paper, "no strategy has both", UNKNOWN)
    here = ", ".join(f"{strategy} {ratio:.1f} times" for strategy, ratio in found)
    return Finding(paper, here, _verdict([_BINARY[0] <= ratio <= _BINARY[1] for _, ratio in found]))


def _serial_netcdf(study: WriteStudy) -> Finding:
    paper = "serial NetCDF (SNCW) is 1.5 to 10 times as fast as SDAW"
    library, serial = study.fastest("netcdf", (NETCDF_LIBRARY,)), study.fastest("ascii", ("serial",))
    if library is None or serial is None:
        return Finding(paper, "one of them has no result", UNKNOWN)
    ratio = serial.seconds / library.seconds
    here = f"{ratio:.1f} times, {library.seconds:.2f} s and {serial.seconds:.2f} s a configuration"
    return Finding(paper, here, AGREES if _NETCDF[0] <= ratio <= _NETCDF[1] else DIFFERS)


def _parallel_netcdf(study: WriteStudy) -> Finding:
    paper = "parallel NetCDF is wished for, with at least a further factor of two"
    library = study.fastest("netcdf", (NETCDF_LIBRARY,))
    parallel = study.fastest("netcdf", ("direct", *MPIIO))
    if library is None or parallel is None:
        return Finding(paper, "one of them has no result", UNKNOWN)
    ratio = library.seconds / parallel.seconds
    size = parallel.bytes / library.bytes
    here = (
        f"{parallel.setting.label} on {counted(parallel.setting.ranks, 'rank')} takes {ratio:.1f} times less time than "
        f"the serial library, in a file {size:.2f} times as large (float32 for float64)"
    )
    return Finding(paper, here, AGREES if ratio >= 2 else DIFFERS)


def _gaps(study: WriteStudy) -> Finding:
    paper = "gaps where runs failed or were not done in 5 hours"
    gaps = study.gaps
    if not gaps:
        return Finding(paper, f"all {len(study.cells)} cells have a result", DIFFERS)
    return Finding(paper, f"{len(gaps)} of {len(study.cells)} cells have none", AGREES)


def _verdict(agreeing: list[bool]) -> str:
    return AGREES if all(agreeing) else IN_PART if any(agreeing) else DIFFERS
