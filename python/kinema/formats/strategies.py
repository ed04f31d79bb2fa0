"""Strategies by which many workers write one file: which formats have which, and hints for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kinema.base.errors import ArgumentError
from kinema.formats.all_formats import FORMATS
from kinema.formats.format import Axis

AXES: tuple[Axis, ...] = ("atoms", "frames")
"""The axis that is spread over the workers: the atoms of each frame, or the frames."""

STRATEGIES: Mapping[str, str] = {
    "serial": "all values go to rank 0, which writes them in order",
    "direct": "each rank writes its bytes at computed offsets, with pwrite",
    "mpiio": "as direct, through MPI_File_write_at",
    "mpiio-collective": "as direct, through MPI_File_write_at_all",
    "gather": "whole frames or chunks are gathered on ranks that encode and write them",
    "subfiles": "a file a rank, and one virtual H5MD file on top",
}

# bytes of a batch without a hint: large enough for full speed, small beside a rank's share of a big frame
_BATCH_BYTES = 8 << 20
_LEAST_BATCH, _MOST_BATCH = 1 << 12, 1 << 30
# hints that every strategy follows, and hints of ROMIO that only MPI can follow
_STEERING = ("cb_nodes", "cb_buffer_size")
_OF_ROMIO = (
    "striping_factor",
    "striping_unit",
    "start_iodevice",
    "cb_block_size",
    "cb_config_list",
    "romio_cb_write",
    "romio_cb_read",
    "romio_ds_write",
    "romio_ds_read",
    "romio_no_indep_rw",
    "romio_cb_alltoall",
    "romio_cb_pfr",
    "romio_cb_fr_types",
    "romio_cb_fr_alignment",
    "romio_cb_ds_threshold",
    "ind_wr_buffer_size",
    "ind_rd_buffer_size",
)


@dataclass(frozen=True)
class Hints:
    """Hints with ROMIO's names.

    `writers`: cb_nodes: ranks that write, or gather whole frames; None: all ranks.
    `batch_bytes`: cb_buffer_size: bytes that a rank encodes and writes at a time.
    `info`: {name: value}; all hints, for MPI.Info.
    `unused`: names that the strategy does not follow.
    """

    writers: int | None = None
    batch_bytes: int = _BATCH_BYTES
    info: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


def strategies_of(format: str, axis: Axis = "atoms") -> tuple[str, ...]:
    """The strategies of a format, that of "auto" first; raises ArgumentError if the format has none."""
    if axis not in AXES:
        raise ArgumentError(f"axis must be 'atoms' or 'frames', found {axis!r}")
    found = _known(axis).get(format)
    if found is None:
        raise ArgumentError(f"no strategy writes {format}, the table is: {_table(axis)}")
    return found


def _known(axis: Axis) -> dict[str, tuple[str, ...]]:
    """The strategies for each format or variant; "auto" is the first."""
    known = {name: getattr(one, axis) for format in FORMATS.values() for name, one in format.strategies.items()}
    return {name: strategies for name, strategies in known.items() if strategies}


def check_strategy(format: str, axis: Axis, strategy: str) -> str:
    """The strategy, with "auto" replaced by the one that it stands for.

    Raises ArgumentError, which shows the table, for a strategy that the format does not have.
    """
    known = strategies_of(format, axis)
    if strategy == "auto":
        return known[0]
    if strategy not in STRATEGIES:
        names = ", ".join(repr(name) for name in ("auto", *STRATEGIES))
        raise ArgumentError(f"strategy must be one of {names}, found {strategy!r}; the table is: {_table(axis)}")
    if strategy not in known:
        raise ArgumentError(
            f"{format} has no strategy {strategy!r} with {axis} over ranks, expected one of {', '.join(known)}; the "
            f"table is: {_table(axis)}"
        )
    return strategy


def verifying(format: str) -> tuple[str, ...]:
    """Strategies with atoms over ranks in which one rank can check what another has written or encoded."""
    return tuple(one for one in strategies_of(format) if one != "serial" or format == "H5MD")


def check_verify(format: str, strategy: str) -> None:
    """Raises ArgumentError for verify=True with a strategy that is not in `verifying`."""
    known = verifying(format)
    if strategy in known:
        return
    instead = (
        f"choose one of {', '.join(known)}"
        if known
        else f"no strategy of {format} verifies: leave verify= out, and look through the file with kinema.check"
    )
    raise ArgumentError(f"verify=True is not for strategy {strategy!r} of {format}, {instead}")


def uses_mpiio(strategy: str) -> bool:
    """Whether a strategy writes through MPI-IO."""
    return strategy.startswith("mpiio")


def hints_of(hints: Mapping[str, object] | None, strategy: str) -> Hints:
    """Checked hints; raises ArgumentError for invalid values, and for unknown names if MPI does not get them."""
    given = {} if hints is None else hints
    if not isinstance(given, Mapping):
        raise ArgumentError(f"hints are a dict of ROMIO's names and values, found {type(hints).__name__}")
    info, unused = {}, []
    for name, value in given.items():
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"names of hints are texts, found {name!r}")
        info[name] = str(value)
        if uses_mpiio(strategy) or name in _STEERING:
            continue
        if name not in _OF_ROMIO:
            raise ArgumentError(f"no hint {name!r}, expected one of {', '.join((*_STEERING, *_OF_ROMIO))}")
        unused.append(name)
    writers = _number("cb_nodes", given.get("cb_nodes"), 1, 1 << 31)
    batch = _number("cb_buffer_size", given.get("cb_buffer_size"), _LEAST_BATCH, _MOST_BATCH)
    return Hints(writers, _BATCH_BYTES if batch is None else batch, info, tuple(unused))


def _number(name: str, value: object, least: int, most: int) -> int | None:
    if value is None:
        return None
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ArgumentError(f"hint {name} is a whole number from {least} to {most}, found {value!r}")
    return number


def table_rows(axis: Axis) -> list[tuple[str, ...]]:
    """The table for people: a header, then a row for each format; "auto" marks the default, "yes" the others."""
    rows: list[tuple[str, ...]] = [("format", *STRATEGIES)]
    for format, known in _known(axis).items():
        cells = ("auto" if name == known[0] else "yes" if name in known else "" for name in STRATEGIES)
        rows.append((format, *cells))
    return rows


def _table(axis: Axis) -> str:
    """The table in one line, for errors: formats with the same strategies together."""
    formats: dict[tuple[str, ...], list[str]] = {}
    for format, known in _known(axis).items():
        formats.setdefault(known, []).append(format)
    return "; ".join(
        f"{', '.join(names)}: {', '.join((f'{known[0]} (auto)', *known[1:]))}" for known, names in formats.items()
    )
