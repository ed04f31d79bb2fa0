"""Transforms written in Python: a function that is called with each frame that is read."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.code_identity import code_digest
from kinema.base.errors import ArgumentError
from kinema.base.serialisation import serialize
from kinema.model.frame import VECTOR_FIELDS, Frame
from kinema.model.selection.atoms import AtomChoice, Selection
from kinema.trajectory.transform import Transform, names_by_words, words_of

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory


class FunctionTransform(Transform):
    """See `function`."""

    name: ClassVar[str] = "function"

    def __init__(self, function: Callable[[Frame], Frame], select: AtomChoice, fields: str | Sequence[str]) -> None:
        if not callable(function):
            raise ArgumentError(f"a transform is one of kinema.transforms or a function, found {function!r}")
        self._fields = (fields,) if isinstance(fields, str) else tuple(fields)
        unknown = [field for field in self._fields if field not in VECTOR_FIELDS]
        if unknown or not self._fields:
            raise ArgumentError(f"fields are some of {', '.join(VECTOR_FIELDS)}, found {self._fields}")
        self._select = select
        self._adapter = FunctionAdapter(function)

    @property
    def arguments(self) -> Mapping[str, str]:
        given = {"function": self._adapter.name}
        if self._select is not None:
            given["select"] = repr(self._select) if isinstance(self._select, (str, Selection)) else "chosen by number"
        return given | ({} if self._fields == ("positions",) else {"fields": ", ".join(self._fields)})

    def for_other_atoms(self, bound: _core.Transform) -> FunctionTransform | None:
        """See `Transform`: the function gets the structure's atoms."""
        if not names_by_words(self._select):
            return None
        return FunctionTransform(self._adapter.function, words_of(self._select), self._fields)

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        selection = trajectory.select(self._select)
        trajectory.check_fields(self._fields)
        return _core.Transform(
            "python",
            trajectory.n_atoms,
            label=self.label,
            atoms=selection.indices,
            fields=list(self._fields),
            adapter=self._adapter,
        )


def function(
    function: Callable[[Frame], Frame], select: AtomChoice = None, *, fields: str | Sequence[str] = "positions"
) -> FunctionTransform:
    """A transform that calls a function with each frame; the function returns the changed frame.

    Parameters
    ----------
    function : callable
        Takes a `Frame` with arrays of its own: `positions` (atoms, 3) float32 in angstrom, in the order of `select`,
        `velocities` and `forces` if `fields` names them, else None, `cell` (3, 3) float64, and `step`, `time` (ps) and
        `frame`. Returns this frame, or one with other arrays of the same shapes, float32 or float64, which is rounded;
        step, time and number must stay. It is called for frames in any order and on several threads at a time, so its
        result must depend on the frame alone. It is pickled for other processes, with the code of a script or session.
    select : as `Trajectory.select`
        Atoms that the function sees and changes; None: all, which are then read whatever atoms are asked for.
    fields : str or list of str
        Vectors that the function sees and changes: each frame must have them.

    Returns
    -------
    FunctionTransform
        For `Trajectory.with_transform`, which also takes a plain function, applied to all atoms. If the function
        raises, the error is an ArgumentError with file and frame, raised from the exception; errors of Kinema keep
        their class.

    Examples
    --------
    >>> def lifted(frame):
    ...     frame.positions[:, 2] += 0.1 * frame.time
    ...     return frame
    >>> higher = traj.with_transform(kn.transforms.function(lifted, "protein"))
    >>> float(higher[5].positions[0, 2] - traj[5].positions[0, 2])
    50.0
    """
    return FunctionTransform(function, select, fields)


class FunctionAdapter:
    """The object that the core calls for a function, with the identity of the function."""

    def __init__(self, function: Callable[[Frame], Frame]) -> None:
        self.function = function
        self.name: str = getattr(function, "__qualname__", type(function).__qualname__)
        try:
            self.identity_bytes = code_digest(function, self.name).encode()
        except ArgumentError:
            # such a function equals only itself; with a checkpoint it is refused
            self.identity_bytes = uuid.uuid4().bytes

    def __call__(
        self, place: tuple[int, int, float], cell: NDArray[np.float64], vectors: dict[str, NDArray[np.float32]]
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float32]]]:
        """The cell and the vectors after the function."""
        number, step, time = place
        given: dict[str, Any] = {name: vectors.get(name) for name in VECTOR_FIELDS}
        changed = self.function(Frame(**given, cell=cell, step=step, time=time, frame=number))
        if not isinstance(changed, Frame):
            raise ArgumentError(f"{self.name} must return the frame, found {type(changed).__name__}")
        if (changed.step, changed.frame) != (step, number) or not np.array_equal(changed.time, time, equal_nan=True):
            raise ArgumentError(f"{self.name} must not change step, time or number of the frame")
        values = {name: self._checked(name, array, getattr(changed, name)) for name, array in vectors.items()}
        shape = np.shape(changed.cell)
        if shape != (3, 3) or not np.issubdtype(np.asarray(changed.cell).dtype, np.floating):
            raise ArgumentError(f"{self.name} must return a cell of floats, expected shape (3, 3), found {shape}")
        return np.ascontiguousarray(changed.cell, np.float64), values

    def _checked(self, name: str, given: NDArray[np.float32], changed: Any) -> NDArray[np.float32]:
        if not isinstance(changed, np.ndarray) or changed.dtype not in (np.float32, np.float64):
            kind = changed.dtype if isinstance(changed, np.ndarray) else type(changed).__name__
            raise ArgumentError(f"{self.name} must return {name} as an array of float32 or float64, found {kind}")
        if changed.shape != given.shape:
            raise ArgumentError(
                f"{self.name} must return {name} of all its atoms, expected shape {given.shape}, found {changed.shape}"
            )
        return np.ascontiguousarray(changed, np.float32)

    def identity(self) -> dict[str, tuple[str, str]]:
        """Values that a checkpoint compares: name, exact value, words. Raises ArgumentError without an identity."""
        digest = code_digest(self.function, self.name)
        return {"the code": (digest, f"{self.name}, digest {digest[:12]}")}

    def __reduce__(self) -> tuple[Any, ...]:
        """Sends the function to other processes with the code of the script or session, for any pickler."""
        try:
            return _unpickled, (serialize(self.function), self.name, self.identity_bytes)
        except Exception as error:
            # the user's objects may raise anything
            raise ArgumentError(
                f"{self.name} cannot be sent to workers ({error}): it must refer only to what pickle can store; "
                "or use runner='threads'"
            ) from error


def _unpickled(packed: bytes, name: str, identity: bytes) -> FunctionAdapter:
    adapter = FunctionAdapter.__new__(FunctionAdapter)
    adapter.function, adapter.name, adapter.identity_bytes = pickle.loads(packed), name, identity
    return adapter
