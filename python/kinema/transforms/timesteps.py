"""Kinema's transforms for MDAnalysis time steps: bound to a Universe, and applied frame by frame."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.model.frame import VECTOR_FIELDS
from kinema.model.topology import Topology
from kinema.model.universe import import_mdanalysis
from kinema.trajectory import Trajectory
from kinema.trajectory.one_frame import OneFrame, cell_of, has_vector
from kinema.trajectory.transform import Transform


class FrameOfFile:
    """The cell of a frame as stored in its file, and its periodic edges; a time step keeps only lengths and angles.

    Parameters
    ----------
    cell : (3, 3) float64
    periodic : (3,) bool
    dimensions : (6,) float32
        The time step's lengths and angles of the cell; if these differ later, the cell was changed.
    """

    def __init__(self, cell: NDArray[np.float64], periodic: NDArray[np.bool_], dimensions: NDArray[np.float32]) -> None:
        self._cell, self._dimensions = cell, dimensions
        self.periodic = cast("tuple[bool, bool, bool]", tuple(periodic.tolist()))

    def cell_of(self, ts: Any) -> NDArray[np.float64]:
        """The cell of the time step, (3, 3) in angstrom."""
        now = ts.dimensions
        unchanged = np.array_equal(np.zeros(6) if now is None else now, self._dimensions)
        return self._cell if unchanged else cell_of(ts)


class BoundTransform(Transform):
    """A transform bound to a Universe: a callable for `add_transformations` that can be pickled with its reader.

    `core`: the transform, bound to the atoms.
    `paths`: the files that it was bound to.
    """

    def __init__(self, transform: Transform, core: _core.Transform, n_atoms: int, paths: Sequence[str]) -> None:
        self.transform, self.core, self.n_atoms, self.paths = transform, core, n_atoms, tuple(paths)
        self._applied: _core.FrameTransforms | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """The transform's name."""
        return self.transform.name

    @property
    def arguments(self) -> Mapping[str, str]:
        return self.transform.arguments

    @property
    def label(self) -> str:
        return self.transform.label

    def prepared(self, trajectory: Trajectory) -> Trajectory:
        return self.transform.prepared(trajectory)

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        return self.transform.bind(trajectory)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_applied": None}

    def __call__(self, ts: Any, of_file: FrameOfFile | None = None) -> Any:
        """Changes positions, velocities and forces of a time step, and returns the time step.

        Raises ArgumentError if it has another number of atoms, and if the transform cannot be applied to it.
        """
        if ts.n_atoms != self.n_atoms:
            raise ArgumentError(f"{self.label} is bound to {self.n_atoms} atoms, found a time step of {ts.n_atoms}")
        if self._applied is None:
            self._applied = _core.FrameTransforms([self.core], self.n_atoms)
        # copies: if a transform fails, the time step stays as it was
        vectors = {
            name: np.array(getattr(ts, name), np.float32, order="C") for name in VECTOR_FIELDS if has_vector(ts, name)
        }
        if "positions" not in vectors:
            raise ArgumentError(f"{self.label} changes positions, and frame {ts.frame} has none")
        self._applied.apply(
            int(ts.frame),
            vectors["positions"],
            vectors.get("velocities"),
            vectors.get("forces"),
            cell_of(ts) if of_file is None else of_file.cell_of(ts),
            (True, True, True) if of_file is None else of_file.periodic,
            int(ts.data.get("step", ts.frame)),
            float(ts.time),
        )
        for name, values in vectors.items():
            setattr(ts, name, values)
        return ts


class _Binding:
    """A transform that was bound to a Universe when it first got one of the Universe's time steps."""

    def __init__(self, bound: BoundTransform, universe: Any, ts: Any) -> None:
        self.bound = bound
        self._universe = None if universe is None else weakref.ref(universe)
        self.last = ts

    def __getstate__(self) -> dict[str, Any]:
        # another process has its own Universe
        return {"bound": self.bound, "_universe": None, "last": None}

    def is_for(self, universe: Any) -> bool:
        """Whether it also fits another Universe of the same files and atoms, such as a copy."""
        own = None if self._universe is None else self._universe()
        if self.bound.n_atoms != len(universe.atoms) or self.bound.paths != _paths(universe.trajectory):
            return False
        # a pickled binding came with its reader
        return own is None or Topology(own).atoms == Topology(universe).atoms

    def has(self, ts: Any) -> bool:
        """Whether the time step belongs to the Universe."""
        if ts is not self.last:
            universe = None if self._universe is None else self._universe()
            if universe is None or universe.trajectory.ts is not ts:
                return False
            self.last = ts
        return True


def changed(transform: Transform, ts: Any, of_file: FrameOfFile | None = None) -> Any:
    """Applies a transform to a time step; the first time step of a Universe binds the transform to that Universe.

    `of_file` has more facts of the frame. Raises ArgumentError if no Universe has the time step, and the errors of
    binding and applying.
    """
    if isinstance(transform, BoundTransform):
        return transform(ts, of_file)
    bindings: list[_Binding] = transform.__dict__.setdefault("_bindings", [])
    for binding in bindings:
        if binding.has(ts):
            return binding.bound(ts, of_file)
    universe = universe_of_timestep(ts)
    if universe is not None:
        known = next((one.bound for one in bindings if one.is_for(universe)), None)
        bindings.append(_Binding(known or _bound_to_frame(transform, universe, ts), universe, ts))
    elif len({binding.bound.core.identity for binding in bindings}) == 1:
        # from a reader that was copied or pickled, and has no Universe yet
        bindings.append(_Binding(bindings[0].bound, None, ts))
    else:
        raise ArgumentError(
            f"{transform.label}: the time step belongs to no Universe in this process, whose atoms the transform "
            "needs; give the transform to add_transformations of a Universe's trajectory"
        )
    # some readers make a new time step for each frame
    del bindings[:-_MOST_BINDINGS]
    return bindings[-1].bound(ts, of_file)


_MOST_BINDINGS = 64


def universe_of_timestep(ts: Any) -> Any:
    """The Universe whose trajectory is at a time step; None if there is none.

    A reader does not know its Universe, so this searches all objects of the process, which takes some 10 ms.
    """
    universe = import_mdanalysis().Universe
    for one in gc.get_objects():
        if issubclass(type(one), universe):
            reader = getattr(one, "_trajectory", None)
            if reader is not None and getattr(reader, "ts", None) is ts:
                return one
    return None


def bound_to(trajectory: Trajectory, universe: Any, transforms: Sequence[Transform]) -> list[BoundTransform]:
    """Transforms bound to the trajectory that they are applied to, with the atoms of a Universe."""
    for transform in transforms:
        _check_atoms_stay(transform)
    stack = trajectory.core.transforms
    made = Trajectory(trajectory.core, Topology(universe), hdf5=trajectory.hdf5, stated=trajectory.stated)
    own = [one.transform if isinstance(one, BoundTransform) else one for one in transforms]
    made = made.with_transform(*own)
    cores = made.core.transforms[len(stack) :]
    return [BoundTransform(one, core, made.n_atoms, made.paths) for one, core in zip(own, cores, strict=True)]


def _bound_to_frame(transform: Transform, universe: Any, ts: Any) -> BoundTransform:
    """The transform, bound to a Universe's current frame as earlier transformations have left it.

    Raises ArgumentError for transforms that must see all frames, and for those that need a frame other than this.
    """
    reader = universe.trajectory
    if getattr(reader, "convert_units", True) is False:
        raise ArgumentError(
            f"{transform.label}: positions are in the file's own units (convert_units=False), and transforms are in "
            "angstrom; load the universe without it"
        )
    before: list[_core.Transform] = []
    for earlier in reader.transformations:
        if earlier is transform:
            break
        if isinstance(earlier, BoundTransform):
            before.append(earlier.core)
        elif isinstance(earlier, Transform):
            before += [one.bound.core for one in earlier.__dict__.get("_bindings", []) if one.has(ts)]
    _check_atoms_stay(transform)
    if transform.sees_all_frames:
        raise _looks_back(transform, reader)
    frame = OneFrame.from_timestep(
        ts,
        (True, True, True),
        time=float(ts.time),
        paths=_paths(reader),
        number=int(ts.frame),
        n_frames=int(reader.n_frames),
        transforms=tuple(before),
        label=transform.label,
    )
    stands_in = Trajectory(cast("_core.Trajectory", frame), Topology(universe))
    stands_in.is_one_frame = True
    core = transform.bind(stands_in)
    if core.looks_back:
        raise _looks_back(transform, reader)
    return BoundTransform(transform, core, ts.n_atoms, frame.paths)


def _check_atoms_stay(transform: Transform) -> None:
    if transform.name == "centers":
        raise ArgumentError(
            f"{transform.label} gives centres in place of atoms, and a Universe has the atoms of its topology; open "
            "the files with kinema.open"
        )


def _looks_back(transform: Transform, reader: Any) -> ArgumentError:
    return ArgumentError(
        f"{transform.label} must see other frames before one, and {type(reader).__name__} gives them in any order; "
        "load the universe with format=KinemaReader (kinema.interop.mdanalysis), and add it before transformations of "
        "MDAnalysis: there it is exact for frames in any order"
    )


def _paths(reader: Any) -> tuple[str, ...]:
    """The files of a reader, or names in place of files."""
    names = getattr(reader, "filenames", None)
    return tuple(str(name or "the universe") for name in ([reader.filename] if names is None else names))
