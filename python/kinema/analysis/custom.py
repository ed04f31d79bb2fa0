"""The user's own analyses: a class with the kernel's methods, or a plain function of a frame or a block.

They run on every runner, alone or with the analyses of this package. Rust reads and decodes frames on all workers; the
Python code itself holds the interpreter lock: threads run it on one core, other runners on several.
"""

from __future__ import annotations

import hashlib
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.base import Analysis, Pass, Passes, Results
from kinema.base.errors import ArgumentError
from kinema.base.serialisation import serialize
from kinema.execution.checkpoint.value_bytes import from_bytes, to_bytes
from kinema.execution.results_file import ResultDataset
from kinema.model.frame import Block
from kinema.model.frame_atoms import FrameAtoms
from kinema.model.selection.atoms import AtomChoice
from kinema.model.selection.frames import FrameSelection
from kinema.runners.base import Rows
from kinema.storage.tables import NO_UNIT, Column, Table
from kinema.trajectory import Trajectory
from kinema.transforms.arguments import describe, select_atoms

__all__ = ["Custom", "FromFunction", "PythonKernel", "from_function"]


class PythonKernel(ABC):
    """A kernel written in Python, for `Custom`.

    The partial, which gathers values, is any object that pickle can store. It must hold sums and counts, never means:
    then merging partials is exact, and the results are the same for any number of workers. Several workers may use one
    kernel object at a time, so methods must not change it. A checkpoint stores numbers, text, arrays, and lists, tuples
    and mappings of them as they are; it pickles any other partial and signs it with the user's key.

    `fields` names the vectors that `accumulate` gets: "positions", "velocities", "forces".
    """

    fields: tuple[str, ...] = ("positions",)

    @abstractmethod
    def empty(self) -> Any:
        """A partial of no frames."""

    @abstractmethod
    def accumulate(self, partial: Any, block: Block) -> Any:
        """The partial with the frames of a block added, in order; the method may change and return it.

        `block.positions` is (frames, atoms, 3) float32 in angstrom, atoms in the order of the selection. The block has
        velocities and forces if `fields` names them, and always cells. Frames of it, `block[i]`, have pairs within a
        cutoff, groups and nearest images: see `Frame.pairs`, `Frame.groups` and `Frame.nearest_images`.
        """

    @abstractmethod
    def merge(self, left: Any, right: Any) -> Any:
        """The partial of both; `right` holds later frames."""

    @abstractmethod
    def finish(self, partial: Any) -> Mapping[str, Any]:
        """The results by name."""

    def checked_values(self) -> Mapping[str, Any]:
        """Values besides the code that a checkpoint must have been made with: numbers, text, arrays, lists of these."""
        return {}


class Custom(Analysis):
    """An analysis with a kernel written in Python.

    Parameters
    ----------
    trajectory : Trajectory
    kernel : PythonKernel
    select : as `Trajectory.select`
        Atoms that the kernel sees, in this order; an atom that is named n times appears n times. None: all.

    After `run`
    -----------
    results.<name> : the values that `kernel.finish` returned
    """

    def __init__(self, trajectory: Trajectory, kernel: PythonKernel, select: AtomChoice = None) -> None:
        if not isinstance(kernel, PythonKernel):
            raise ArgumentError(f"kernel must be a PythonKernel, found {type(kernel).__name__}")
        selection = select_atoms(trajectory, select)
        super().__init__(trajectory, selection, {"kernel": type(kernel).__qualname__, "select": describe(selection)})
        self._kernel = kernel
        trajectory.check_fields(kernel.fields)

    def _passes(self, frames: FrameSelection) -> Passes:
        results: Mapping[str, Any] = yield self._pass()
        return Results(**results)

    def __getstate__(self) -> dict[str, Any]:
        """The state with the kernel as workers get it: the pickle includes code of the script or session."""
        return self.__dict__ | {"_kernel": Adapter(self._kernel)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_kernel": state["_kernel"].kernel})

    def _pass(self) -> Pass:
        return Pass(python_kernel(self, self._kernel, self.selection.indices))

    def _table(self) -> Table:
        raise ArgumentError(f"results of {type(self._kernel).__name__} have no columns; save the arrays of .results")


class FromFunction(Custom):
    """A function of each frame or block; made by `from_function`."""

    def __init__(
        self,
        function: Callable[..., Any],
        trajectory: Trajectory,
        select: AtomChoice,
        over: Literal["frames", "blocks"],
        fields: str | Sequence[str] = "positions",
    ) -> None:
        if not callable(function):
            raise ArgumentError(f"function must be callable, found {type(function).__name__}")
        if over not in ("frames", "blocks"):
            raise ArgumentError(f"over must be 'frames' or 'blocks', found {over!r}")
        applied = _Applied(function, over, (fields,) if isinstance(fields, str) else tuple(fields))
        super().__init__(trajectory, applied, select)
        self.arguments = {
            "function": getattr(function, "__qualname__", repr(function)),
            "select": describe(self.selection),
            "over": describe(over),
        }

    def _passes(self, frames: FrameSelection) -> Passes:
        results: Mapping[str, Any] = yield replace(self._pass(), rows=Rows())
        # if results go to a file, the file has the frame numbers
        frame_numbers = results["frames"] if "frames" in results else frames.numbers().astype(np.int64)
        values = results["values"]
        # on ranks that keep their rows it is not a NumPy array
        named = {name: values[name] for name in values.dtype.names or ()} if isinstance(values, np.ndarray) else {}
        return Results(frames=frame_numbers, values=values, time=results["time"], **named)

    def _table(self) -> Table:
        values = np.asarray(self.results.values)
        columns = []
        for name in values.dtype.names or ("",):
            rows = values[name] if name else values
            if rows.dtype.kind not in "biuf":
                raise ArgumentError(f"values of type {rows.dtype} are not written as a table; save .results.values")
            flat = rows.reshape(len(rows), -1)
            title = name or "value"
            # a column without any unit is not drawn
            names = [title] if flat.shape[1] == 1 else [f"{title}_{i}" for i in range(flat.shape[1])]
            columns += [Column(one, flat[:, i], NO_UNIT) for i, one in enumerate(names)]
        return Table(self.arguments["function"], (*self._frames_and_times(), *columns))

    def _row_dataset(self, frames: FrameSelection) -> ResultDataset:
        return self._dataset("values", NO_UNIT, (), self.arguments["function"], frames)


def from_function(
    function: Callable[..., Any],
    trajectory: Trajectory,
    select: AtomChoice = None,
    *,
    over: Literal["frames", "blocks"] = "frames",
    fields: str | Sequence[str] = "positions",
) -> FromFunction:
    """An analysis that applies a function to every frame, or to whole blocks of frames.

    Parameters
    ----------
    function : callable
        over="frames": takes a `Frame` and returns a number, an array of one shape, or a dict of these by name; each
        entry of a dict is a result, and a column of tables, under its name. `Frame.pairs` finds near atoms,
        `Frame.groups` residues and other groups, `Frame.nearest_images` vectors in the cell. over="blocks": takes a
        `Block` and returns an array with one row per frame of the block, or a dict of such arrays; blocks differ in
        length.
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms in the vectors; None: all.
    over : {"frames", "blocks"}
    fields : str or list of str
        Vectors in frames and blocks, beside cells, steps and times: "positions", "velocities", "forces".

    Returns
    -------
    FromFunction
        After `run`: results.values (frames, ...), results.time (frames,) in ps, results.frames (frames,). For a dict,
        results.<name> (frames, ...), and results.values is a structured array of them. If the function raises, the
        exception has a note that names the frame.

    Examples
    --------
    >>> end_to_end = kn.analysis.from_function(
    ...     lambda frame: np.linalg.norm(frame.positions[-1] - frame.positions[0]), traj, "name CA"
    ... ).run()
    """
    return FromFunction(function, trajectory, select, over, fields)


# names of results of `FromFunction`
_TAKEN = ("frames", "time", "values")
# return values of the function: rows, or rows by name
_Rows = NDArray[Any] | dict[str, NDArray[Any]]


class RowsKernel(PythonKernel):
    """A kernel whose partial is a list of the rows of blocks, and one of their times."""

    def empty(self) -> tuple[list[_Rows], list[NDArray[np.float64]]]:
        return [], []

    def merge(self, left: Any, right: Any) -> Any:
        left[0].extend(right[0])
        left[1].extend(right[1])
        return left


class _Applied(RowsKernel):
    """Gathers times and the function's return values, row by row."""

    def __init__(self, function: Callable[..., Any], over: str, fields: tuple[str, ...]) -> None:
        self.function = function
        self.over = over
        self.fields = fields

    def accumulate(self, partial: Any, block: Block) -> Any:
        values, times = partial
        values.append(self._call_on_frames(block) if self.over == "frames" else self._call_on_block(block))
        times.append(block.times)
        return partial

    def _call_on_frames(self, block: Block) -> _Rows:
        found: list[_Rows] = []
        for frame in block:
            try:
                value = self.function(frame)
                if value is None:
                    raise ArgumentError("the function returned None; it must return a number, an array or a dict")
                found.append(_named_arrays(value) if isinstance(value, Mapping) else np.asarray(value))
                _check_alike(found[0], found[-1], rows=False)
            except Exception as error:
                error.add_note(f"raised by {_name_of(self.function)} in frame {frame.frame}")
                raise
        first = found[0]
        if isinstance(first, dict):
            return {name: np.stack([one[name] for one in found]) for name in first}
        return np.stack(found)  # type: ignore[arg-type]

    def _call_on_block(self, block: Block) -> _Rows:
        value = self.function(block)
        rows: _Rows = _named_arrays(value) if isinstance(value, Mapping) else np.asarray(value)
        for one in rows.values() if isinstance(rows, dict) else (rows,):
            if one.shape[:1] != (len(block),):
                raise ArgumentError(
                    f"the function must return one row a frame of the block, expected {len(block)}, "
                    f"found shape {one.shape}"
                )
        return rows

    def finish(self, partial: Any) -> Mapping[str, Any]:
        values, times = partial
        for one in values:  # in the order of frames
            _check_alike(values[0], one, rows=True)
        if not isinstance(values[0], dict):
            return {"values": np.concatenate(values), "time": np.concatenate(times)}
        rows = {name: np.concatenate([one[name] for one in values]) for name in values[0]}
        time = np.concatenate(times)
        named = np.empty(len(time), [(name, one.dtype, one.shape[1:]) for name, one in rows.items()])
        for name, one in rows.items():
            named[name] = one
        return {"values": named, "time": time}


def _named_arrays(value: Mapping[Any, Any]) -> dict[str, NDArray[Any]]:
    """The arrays of a dict. Raises ArgumentError for names or values that cannot be results."""
    parts = {name: np.asarray(one) for name, one in value.items()}
    for name, one in parts.items():
        if not isinstance(name, str) or not name.isidentifier() or name in _TAKEN or name.startswith("_"):
            taken = ", ".join(_TAKEN)
            raise ArgumentError(f"the function returned a dict with {name!r}, expected names, and none of {taken}")
        if one.dtype.kind not in "biufc":
            raise ArgumentError(
                f"the function returned a dict whose {name} is neither a number nor an array of numbers"
            )
    if not parts:
        raise ArgumentError("the function returned an empty dict; it must have a number or an array of each name")
    return parts


def _check_alike(first: _Rows, other: _Rows, *, rows: bool) -> None:
    """Raises ArgumentError if names or shapes differ; with `rows`, the number of rows may differ."""
    skipped = 1 if rows else 0
    expected, found = (
        {name: value.shape[skipped:] for name, value in one.items()} if isinstance(one, dict) else one.shape[skipped:]
        for one in (first, other)
    )
    if expected != found:
        raise ArgumentError(
            f"the function must return values of one shape for all frames, expected {expected}, found {found}"
        )


def _name_of(code: Any) -> str:
    """The name of a function or an object, for messages."""
    return getattr(code, "__qualname__", type(code).__qualname__)


class Adapter:
    """The object that the core calls for a `PythonKernel`: turns arrays into blocks, and partials into bytes."""

    def __init__(self, kernel: PythonKernel, atoms: FrameAtoms | None = None) -> None:
        self.kernel = kernel
        self.atoms = atoms

    def empty(self) -> Any:
        """See `PythonKernel`."""
        return self.kernel.empty()

    def accumulate(self, partial: Any, arrays: dict[str, NDArray[Any]]) -> Any:
        """See `PythonKernel`; an exception gets a note that names the frames."""
        block = Block.from_arrays(arrays, self.kernel.fields, self.atoms)
        try:
            gathered = self.kernel.accumulate(partial, block)
        except Exception as error:
            # a function of frames has its note, with the frame, already
            if not any(note.startswith("raised by ") for note in getattr(error, "__notes__", ())):
                error.add_note(f"raised by {self._name()} in frames {int(block.frames[0])} to {int(block.frames[-1])}")
            raise
        if gathered is None:
            raise ArgumentError(f"{self._name()}.accumulate returned None; it must return the partial")
        return gathered

    def merge(self, left: Any, right: Any) -> Any:
        """See `PythonKernel`."""
        gathered = self.kernel.merge(left, right)
        if gathered is None:
            raise ArgumentError(f"{self._name()}.merge returned None; it must return the partial")
        return gathered

    def finish(self, partial: Any) -> dict[str, Any]:
        """See `PythonKernel`."""
        return dict(self.kernel.finish(partial))

    def to_bytes(self, partial: Any) -> bytes:
        """The partial for another process, or for a checkpoint."""
        return to_bytes(partial)

    def from_bytes(self, data: bytes) -> Any:
        """The partial from another process of this run, or from a checkpoint, which was checked when it was read."""
        return from_bytes(data)

    def identity(self) -> dict[str, tuple[str, str]]:
        """Values that a checkpoint compares: name, exact value, words; see `code_identity`."""
        from kinema.base.code_identity import code_digest

        function = getattr(self.kernel, "function", None)
        items = {"over": (self.kernel.over,) * 2} if isinstance(self.kernel, _Applied) else {}
        digest = code_digest(self.kernel if function is None else function, self._name())
        for name, value in self.kernel.checked_values().items():
            found = hashlib.sha256(to_bytes(value)).hexdigest()
            items[name] = (found, f"{name} of {self._name()}, digest {found[:12]}")
        return items | {"the code": (digest, f"{self._name()}, digest {digest[:12]}")}

    def _name(self) -> str:
        return _name_of(getattr(self.kernel, "function", self.kernel))

    def __reduce__(self) -> tuple[Any, ...]:
        """Sends the kernel to other processes with the code of the script or session, for any pickler."""
        try:
            return _deserialized, (serialize(self.kernel), self.atoms)
        except Exception as error:
            # the user's objects may raise anything
            raise ArgumentError(
                f"{self._name()} cannot be sent to workers ({error}): it must refer only to what pickle can store; "
                "or use runner='threads'"
            ) from error


def python_kernel(analysis: Analysis, kernel: PythonKernel, atoms: NDArray[np.uint32]) -> _core.Kernel:
    """The kernel of the core that calls a kernel in Python with these atoms of an analysis' trajectory."""
    adapter = Adapter(kernel, analysis.trajectory.atoms_of_frames(atoms))
    return _core.Kernel("python", analysis.trajectory.n_atoms, atoms=atoms, fields=kernel.fields, adapter=adapter)


def _deserialized(packed: bytes, atoms: FrameAtoms | None) -> Adapter:
    return Adapter(pickle.loads(packed), atoms)
