"""Labels of frames: tables and observables of H5MD joined by step, and atomic numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.input_files import read_regular
from kinema.base.notes import emit
from kinema.formats.h5md.schema import SYMBOLS
from kinema.ml.label_columns import LabelColumns
from kinema.ml.systems import CatalogueSystems, System
from kinema.trajectory import Trajectory

Table: TypeAlias = "Mapping[str, Any] | str | os.PathLike[str]"
_MISSING = ("error", "drop")
_LARGEST_TABLE = 4 << 30
# number of systems of a catalogue whose atomic numbers are kept
_MOST_KEPT = 4096


def label_values(
    opened: Sequence[tuple[System, Trajectory]],
    names: Sequence[str],
    labels: Table | Sequence[Table] | None,
    missing: str,
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_] | None, dict[str, str | None]]:
    """Labels of all frames of all trajectories.

    Returns the values by name, (frames, ...); a mask of the frames that have all of them, or None for all; and the
    units that the files state, by name. Raises ArgumentError for labels that are found nowhere, or that have no value
    for a step if `missing` is "error".
    """
    check_choice("missing", missing, _MISSING)
    tables = _tables(labels, len(opened))
    if not names:
        return {}, None, {}
    units: dict[str, set[str | None]] = {name: set() for name in names}
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    masks = []
    for (system, trajectory), table in zip(opened, tables, strict=True):
        there = np.ones(len(system.frames), bool)
        own = LabelColumns({}) if system.entry is None else LabelColumns.from_mapping(system.entry.labels())
        for name in names:
            unit: str | None
            if table is not None and (column := table.column(name)) is not None:
                values, known = join_by_step(trajectory.steps, table["step"], table[column], f"{system.name}: {name}")
                unit = table.units.get(column)
            elif (column := own.column(name)) is not None:
                values = np.asarray(own[column])[system.numbers(np.arange(len(system.frames)))]
                known, unit = np.ones(len(values), bool), own.units.get(column)
            else:
                values, known, unit = _observable_labels(system, trajectory, name, table, own)
            units[name].add(unit)
            columns[name].append(values)
            there &= known
        if missing == "error" and not there.all():
            step = trajectory.steps[~there][0]
            raise ArgumentError(
                f"{system.name}: {(~there).sum()} of {len(there)} frames have no value of {', '.join(names)}, the "
                f'first at step {step}; leave them out with missing="drop"'
            )
        if not there.all():
            emit([f"{system.name}: {(~there).sum()} of {len(there)} frames have no label and are left out"])
        masks.append(there)
    joined = {}
    for name, parts in columns.items():
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) > 1:
            raise ArgumentError(f"label {name} has values of different shapes: {', '.join(map(str, shapes))}")
        if len(units[name]) > 1:
            raise ArgumentError(f"label {name} has values in different units: {', '.join(map(str, units[name]))}")
        joined[name] = np.concatenate(parts)
    everywhere = np.concatenate(masks)
    return joined, None if everywhere.all() else everywhere, {name: found.pop() for name, found in units.items()}


def join_by_step(
    steps: NDArray[np.int64], table_steps: Any, values: Any, what: str
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The value for each step, and whether there is one; rows without one are zeros.

    Raises ArgumentError if columns differ in length, or a step occurs twice with different values.
    """
    known, column = np.asarray(table_steps), np.asarray(values)
    if known.ndim != 1 or column.shape[:1] != known.shape or column.dtype.kind not in "iufb":
        raise ArgumentError(f"{what}: a table has numbers for each step, found {column.dtype} {column.shape}")
    if known.dtype.kind not in "iu" and not (known == np.rint(known)).all():
        raise ArgumentError(f"{what}: steps are whole numbers")
    if not len(known):
        return np.zeros((len(steps), *column.shape[1:]), column.dtype), np.zeros(len(steps), bool)
    whole = known.astype(np.int64)
    order = np.argsort(whole, kind="stable")
    whole, column = whole[order], column[order]
    twice = np.flatnonzero(np.diff(whole) == 0)
    differ = [at for at in twice if not np.array_equal(column[at], column[at + 1], equal_nan=column.dtype.kind == "f")]
    if differ:
        raise ArgumentError(f"{what}: step {whole[differ[0]]} is there twice with different values")
    place = np.minimum(np.searchsorted(whole, steps), len(whole) - 1)
    there = whole[place] == steps
    result = column[place]
    result[~there] = 0
    return result, there


def read_table(path: str | os.PathLike[str]) -> LabelColumns:
    """Reads a CSV file with a line of names, as `Results.save` writes it; lines that begin with # are left out."""
    name = os.fspath(path)
    text = read_regular(name, "table of labels", _LARGEST_TABLE).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise CorruptFileError("the table has no line of names", at=name)
    names = [column.strip().strip('"') for column in lines[0].split(",")]
    try:
        values = np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]]).reshape(-1, len(names))
    except ValueError as error:
        raise CorruptFileError(f"a line of the table has other than {len(names)} numbers: {error}", at=name) from None
    return LabelColumns({column: values[:, i] for i, column in enumerate(names)})


def _tables(labels: Any, n: int) -> list[LabelColumns | None]:
    if labels is None:
        return [None] * n
    several = isinstance(labels, Sequence) and not isinstance(labels, (str, bytes))
    given = list(labels) if several else [labels]
    if len(given) != n:
        raise ArgumentError(f"labels are a table for each of {n} trajectories, found {len(given)}")
    tables: list[LabelColumns | None] = []
    for table in given:
        columns = read_table(table) if isinstance(table, (str, os.PathLike)) else table
        if not hasattr(columns, "__contains__") or "step" not in columns:
            raise ArgumentError('a table of labels has a column "step", by which it is joined to the frames')
        tables.append(LabelColumns.from_mapping(columns))
    return tables


def _observable_labels(
    system: System, trajectory: Trajectory, name: str, table: Mapping[str, Any] | None, own: Mapping[str, Any]
) -> tuple[NDArray[Any], NDArray[np.bool_], str | None]:
    observables = trajectory.observables if len(trajectory.paths) == 1 else {}
    one = observables.get(name)
    if one is None:
        known = [*(table or ()), *own, *observables]
        raise ArgumentError(
            f"{system.name}: there is no label {name}, only {', '.join(map(str, known)) or 'none'}; fields of frames "
            "are positions, velocities and forces"
        )
    values = np.asarray(one.read())
    if one.fixed:
        return np.repeat(values[None], len(system.frames), axis=0), np.ones(len(system.frames), bool), one.unit
    steps = one.steps
    if steps is None:
        raise ArgumentError(f"{system.name}: observable {name} has no steps by which it could be joined")
    return *join_by_step(trajectory.steps, steps, values, f"{system.name}: {name}"), one.unit


def atomic_numbers_of(
    opened: Sequence[tuple[System, Trajectory]], *, required: bool, wanted: bool
) -> list[NDArray[np.int64]] | None:
    """(atoms,) int64 of each system's selected atoms; None if they are not wanted, or some are not known.

    Raises ArgumentError if they are `required` and not known.
    """
    if not wanted:
        return None
    table = {symbol.upper(): number for number, symbol in enumerate(SYMBOLS, 1)}
    found = []
    for system, trajectory in opened:
        elements = None if trajectory.topology is None else trajectory.topology.atoms.get("elements")
        numbers = [] if elements is None else [table.get(str(symbol).upper(), 0) for symbol in elements]
        if not numbers or 0 in numbers:
            if required:
                raise ArgumentError(
                    f"{system.name}: elements of its atoms are not known; open it with a topology that has them"
                )
            return None
        array = np.array(numbers, np.int64)
        found.append(array if system.atoms is None else array[system.atoms])
    return found


class CatalogueNumbers(Sequence[NDArray[np.int64]]):
    """(atoms,) int64 of each system of a catalogue, read when first needed; ArgumentError if they are not known."""

    def __init__(self, systems: CatalogueSystems) -> None:
        self._systems = systems
        self._known: dict[int, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._systems)

    def __getitem__(self, number: Any) -> Any:
        known = self._known.get(number)
        if known is None:
            system = self._systems[int(number)]
            trajectory = self._systems.catalogue.entry(int(number)).open()
            found = atomic_numbers_of([(system, trajectory)], required=True, wanted=True)
            assert found is not None, "numbers that are not known are an error"
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            known = self._known[number] = found[0]
        return known
