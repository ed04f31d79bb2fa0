"""`ComputedFields`: values of analyses of frames, computed when a batch is read, for each trajectory of a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.execution.computation import Computation, parts_of
from kinema.model.selection.frames import FrameSelection
from kinema.runners.base import Job, PassRequest
from kinema.runners.local.threads import ThreadsRunner

if TYPE_CHECKING:
    from kinema.analysis.declared import UnboundAnalysis
    from kinema.analysis.ensembles.features import Encoding, Features
    from kinema.ml.systems import System
    from kinema.trajectory import Trajectory


# trajectories whose frames are looked at for reasons why values could mislead, such as broken molecules
_LOOKED_AT = 8


@dataclass(frozen=True, eq=False)
class _Field:
    """One field of one trajectory: how its values are computed, and what they are."""

    jobs: tuple[Job, ...]
    atoms: NDArray[np.uint32]
    dtype: np.dtype[Any]
    columns: tuple[str, ...]
    units: tuple[str, ...]
    encodings: tuple[Encoding, ...]
    """How the values of each job become features; none: the field has the values of the only job."""

    def values(self, results: Sequence[Mapping[str, Any]]) -> NDArray[Any]:
        """(frames, columns) values from the results of the jobs."""
        values = [one["values"] for one in results]
        if self.encodings:
            # imported when the field was made: a child that is forked later must not need to
            from kinema.analysis.ensembles.features import feature_rows

            joined: NDArray[Any] = feature_rows(values, self.encodings)
            return joined
        rows: NDArray[Any] = values[0].reshape(len(values[0]), -1)
        return rows


class ComputedFields:
    """Values of analyses for frames of the trajectories of a data set: the same bits as by `run`, in any order.

    `names`: the command of each analysis, "dihedrals"; a second one of the name is "dihedrals_2".
    """

    def __init__(self, unbound: Sequence[UnboundAnalysis], opened: Sequence[tuple[System, Trajectory]]) -> None:
        """Binds the analyses to each trajectory, and emits what they note of the frames of the first ones.

        Raises ArgumentError for an analysis that is not one row per frame, for columns that differ in number or unit,
        and as their classes.
        """
        fields, notes = [], dict[str, None]()
        for number, (system, trajectory) in enumerate(opened):
            bound = [_bound(one, system, trajectory) for one in unbound]
            fields.append([(name, field) for name, field, _ in bound])
            for _, _, analysis in bound if number < _LOOKED_AT else ():
                notes |= dict.fromkeys(analysis.notes_before(system.frames))
        emit(list(notes))
        commands = [name for name, _ in fields[0]] if fields else []
        self.names = tuple(
            name if commands.index(name) == at else f"{name}_{commands[: at + 1].count(name)}"
            for at, name in enumerate(commands)
        )
        self._fields = [[field for _, field in of_system] for of_system in fields]
        self._atoms = [np.unique(np.concatenate([one.atoms for one in some])) for some in self._fields if some]
        for (system, _), of_system in zip(opened, self._fields, strict=True):
            for name, first, other in zip(self.names, self._fields[0], of_system, strict=True):
                if first.units != other.units:
                    raise ArgumentError(
                        f"{name} has {len(first.units)} columns for {opened[0][0].name} and {len(other.units)} for "
                        f"{system.name}; fields have the same columns for all trajectories: choose others, or make a "
                        "data set of each"
                    )

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Names of the columns of each field, for the first trajectory; atoms count from 0."""
        return {name: one.columns for name, one in zip(self.names, self._first, strict=True)}

    @property
    def units(self) -> dict[str, str]:
        """The unit of each field; if its columns differ, that of each column: "1, angstrom"."""
        units = {name: list(dict.fromkeys(one.units)) for name, one in zip(self.names, self._first, strict=True)}
        first = zip(self.names, self._first, strict=True)
        return {name: units[name][0] if len(units[name]) == 1 else ", ".join(one.units) for name, one in first}

    @property
    def sample_bytes(self) -> int:
        """Bytes of the values of a frame."""
        return sum(one.dtype.itemsize * len(one.columns) for one in self._first)

    @property
    def _first(self) -> Sequence[_Field]:
        return self._fields[0] if self._fields else ()

    def atoms(self, number: int) -> list[NDArray[np.uint32]]:
        """Atoms of a trajectory whose positions are read; empty without fields."""
        return self._atoms[number : number + 1]

    def facts(self) -> list[str]:
        """Identifies what is computed: kernels and transforms with their arguments, for each trajectory."""
        from kinema.execution.checkpoint.run_identity import items_of_job

        facts = []
        for of_system in self._fields:
            items = [item for one in of_system for job in one.jobs for item in items_of_job(*job, "of a field")]
            kinds = [f"{name} {columns}" for name, columns in self.columns.items()]
            facts.append(blake2b(repr([*kinds, *map(tuple, items)]).encode(), digest_size=16).hexdigest())
        return facts

    def room(self, n: int) -> dict[str, NDArray[Any]]:
        """Arrays (n, columns) for the values of `n` frames."""
        return {
            name: np.empty((n, len(one.columns)), one.dtype) for name, one in zip(self.names, self._first, strict=True)
        }

    def compute(
        self,
        number: int,
        core: _core.Trajectory,
        frames: NDArray[np.int64],
        out: Mapping[str, NDArray[Any]],
        rows: NDArray[np.intp],
        workers: int,
    ) -> None:
        """Computes frames of a trajectory, in any order, repeats allowed, into `rows` of the arrays `out`.

        `number`: the trajectory, from 0.
        `core`: as it is open in this process.
        `frames`: (n,) numbers in the whole trajectory.
        """
        fields = self._fields[number]
        chosen, place = np.unique(frames, return_inverse=True)
        selection = FrameSelection.from_ascending(chosen.astype(np.uint64))
        jobs = [job for one in fields for job in one.jobs]
        found = iter(ThreadsRunner().map_reduce(PassRequest(core, selection, jobs, workers=workers)).results())
        for name, one in zip(self.names, fields, strict=True):
            out[name][rows] = one.values([next(found) for _ in one.jobs])[place]


def _bound(unbound: UnboundAnalysis, system: System, trajectory: Trajectory) -> tuple[str, _Field, Computation]:
    """Name and field of an analysis of a trajectory, and the analysis. Raises as `ComputedFields`."""
    from kinema.analysis.ensembles.features import Features, checked_feature

    try:
        analysis = unbound.bind(trajectory)
        if isinstance(analysis, Features):
            return "features", _of_features(analysis, system), analysis
        analysis = checked_feature(analysis)
    except ArgumentError as error:
        error.add_note(f"raised for {unbound!r} of {system.name}")
        raise
    columns = analysis._columns()
    names, units = tuple(name for name, _ in columns), tuple(one.unit for _, one in columns)
    dtype = np.dtype(analysis._rows().dtype)
    field = _Field(*_jobs_and_atoms(analysis, system), dtype, names, units, ())
    return analysis._result_name, field, analysis


def _of_features(features: Features, system: System) -> _Field:
    if features.scale != "none":
        raise ArgumentError(
            'features of single frames have no deviation, which scale="std" needs; leave it out, and give statistics '
            "of the data set to the loader (normalise=)"
        )
    jobs, atoms = _jobs_and_atoms(features, system)
    return _Field(jobs, atoms, np.dtype(np.float64), features.names, features.units, features.encodings)


def _jobs_and_atoms(analysis: Computation, system: System) -> tuple[tuple[Job, ...], NDArray[np.uint32]]:
    """The jobs of an analysis with one pass, and the atoms that they read."""
    jobs = [(one.kernel, tuple(one.transforms)) for one in parts_of(next(analysis._passes(system.frames)))]
    return tuple(jobs), np.unique(np.concatenate([one.indices for one in analysis.selections]))
