"""Analyses of the user's own: a class with the kernel's methods, or a plain function of a frame or a block.

They run on every runner, alone or with the analyses of this package. Frames are read and decoded in Rust on
all workers; the Python code itself holds the interpreter lock: threads run it on one core, other runners on several.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.arguments import describe, select_atoms
from kinema.analysis.base import Analysis, Pass, Passes, Results
from kinema.errors import ArgumentError
from kinema.execution.checkpoint.values import from_bytes, to_bytes
from kinema.execution.results_file import ResultDataset
from kinema.frame import Block
from kinema.runners.base import Rows
from kinema.runners.serialization import serialize
from kinema.selection.atoms import AtomChoice
from kinema.selection.frames import FrameSelection
from kinema.trajectory import Trajectory
from kinema.writing.tables import NO_UNIT, Column, Table

__all__ = ["Custom", "FromFunction", "PythonKernel", "from_function"]


class PythonKernel(ABC):
    """A kernel written in Python, for `Custom`.

    What is gathered, the partial, is any object that pickle can store. It must hold sums and counts, never means, so
    that merging partials is exact; then the results are the same for any number of workers. Several workers may use one
    kernel object at a time: methods must not change it. A checkpoint holds numbers, text, arrays, and lists, tuples and
    mappings of them as they are, any other partial pickled and signed with the user's key.

    `fields` names the vectors that `accumulate` gets: "positions", "velocities", "forces".
    """

    fields: tuple[str, ...] = ("positions",)

    @abstractmethod
    def empty(self) -> Any:
        """A partial of no frames."""

    @abstractmethod
    def accumulate(self, partial: Any, block: Block) -> Any:
        """The partial with the frames of a block added, in order; it may be changed and returned.

        `block.positions` is (frames, atoms, 3) float32 in angstrom, atoms in the order of the selection; velocities and
        forces are there if `fields` names them, cells always.
        """

    @abstractmethod
    def merge(self, left: Any, right: Any) -> Any:
        """The partial of both; `right` holds later frames."""

    @abstractmethod
    def finish(self, partial: Any) -> Mapping[str, Any]:
        """The results by name."""


class Custom(Analysis):
    """An analysis by a kernel written in Python.

    Parameters
    ----------
    trajectory : Trajectory
    kernel : PythonKernel
    select : as `Trajectory.select`
        Atoms that the kernel sees, in this order, one that is named several times as often; None: all.

    After `run`
    -----------
    results.<name> : what `kernel.finish` gave
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
        """With the kernel as workers get it: code of the script or session is pickled along."""
        return self.__dict__ | {"_kernel": Adapter(self._kernel)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_kernel": state["_kernel"].kernel})

    def _pass(self) -> Pass:
        adapter = Adapter(self._kernel)
        atoms, fields = self.selection.indices, self._kernel.fields
        return Pass(_core.Kernel("python", self.trajectory.n_atoms, atoms=atoms, fields=fields, adapter=adapter))

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
        super().__init__(
            trajectory, _Applied(function, over, (fields,) if isinstance(fields, str) else tuple(fields)), select
        )
        self.arguments = {
            "function": getattr(function, "__qualname__", repr(function)),
            "select": describe(self.selection),
            "over": describe(over),
        }

    def _passes(self, frames: FrameSelection) -> Passes:
        results: Mapping[str, Any] = yield replace(self._pass(), rows=Rows())
        # where results go to a file, it has the numbers of frames
        frame_numbers = results["frames"] if "frames" in results else frames.numbers().astype(np.int64)
        return Results(frames=frame_numbers, values=results["values"], time=results["time"])

    def _table(self) -> Table:
        values = np.asarray(self.results.values)
        if values.dtype.kind not in "biuf":
            raise ArgumentError(f"values of type {values.dtype} are not written as a table; save .results.values")
        flat = values.reshape(len(values), -1)
        # a column without any unit is not drawn
        names = ["value"] if flat.shape[1] == 1 else [f"value_{i}" for i in range(flat.shape[1])]
        columns = [Column(name, flat[:, i], NO_UNIT) for i, name in enumerate(names)]
        return Table(self.arguments["function"], (*self._frames_and_times(), *columns))

    def _per_frame(self, frames: FrameSelection) -> ResultDataset:
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
        over="frames": takes a `Frame`, returns a number or an array of one shape. over="blocks": takes a `Block`,
        returns an array with one row for each frame of the block; blocks differ in length.
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms in the vectors; None: all.
    over : {"frames", "blocks"}
    fields : str or list of str
        What frames and blocks hold besides cells, steps and times: "positions", "velocities", "forces".

    Returns
    -------
    FromFunction
        After `run`: results.values (frames, ...), results.time (frames,) in ps, results.frames (frames,).

    Examples
    --------
    >>> end_to_end = kn.analysis.from_function(
    ...     lambda frame: np.linalg.norm(frame.positions[-1] - frame.positions[0]), traj, "name CA"
    ... ).run()
    """
    return FromFunction(function, trajectory, select, over, fields)


class _Applied(PythonKernel):
    """Gathers times and what the function returned, row by row."""

    def __init__(self, function: Callable[..., Any], over: str, fields: tuple[str, ...]) -> None:
        self.function = function
        self.over = over
        self.fields = fields

    def empty(self) -> tuple[list[NDArray[Any]], list[NDArray[np.float64]]]:
        return [], []

    def accumulate(self, partial: Any, block: Block) -> Any:
        values, times = partial
        if self.over == "frames":
            values.append(_stacked([self.function(frame) for frame in block]))
        else:
            rows = np.asarray(self.function(block))
            if rows.shape[:1] != (len(block),):
                raise ArgumentError(
                    f"the function must return one row a frame of the block, expected {len(block)}, "
                    f"found shape {rows.shape}"
                )
            values.append(rows)
        times.append(block.times)
        return partial

    def merge(self, left: Any, right: Any) -> Any:
        left[0].extend(right[0])
        left[1].extend(right[1])
        return left

    def finish(self, partial: Any) -> Mapping[str, Any]:
        values, times = partial
        shapes = {rows.shape[1:]: None for rows in values}  # in the order of frames
        if len(shapes) > 1:
            raise _other_shapes(*shapes)
        return {"values": np.concatenate(values), "time": np.concatenate(times)}


def _stacked(values: list[Any]) -> NDArray[Any]:
    """Values of frames as rows; ArgumentError where there is none, and for other shapes than the first one's."""
    if any(value is None for value in values):
        raise ArgumentError("the function returned None; it must return a number or an array")
    rows = [np.asarray(value) for value in values]
    for row in rows:
        if row.shape != rows[0].shape:
            raise _other_shapes(rows[0].shape, row.shape)
    return np.stack(rows)


def _other_shapes(expected: tuple[int, ...], found: tuple[int, ...], *_: tuple[int, ...]) -> ArgumentError:
    return ArgumentError(
        f"the function must return values of one shape for all frames, expected {expected}, found {found}"
    )


class Adapter:
    """The object that the core calls for a `PythonKernel`: makes blocks of arrays, and bytes of partials."""

    def __init__(self, kernel: PythonKernel) -> None:
        self.kernel = kernel

    def empty(self) -> Any:
        """See `PythonKernel`."""
        return self.kernel.empty()

    def accumulate(self, partial: Any, arrays: dict[str, NDArray[Any]]) -> Any:
        """See `PythonKernel`; an exception gets a note that names the frames."""
        block = Block.from_arrays(arrays, self.kernel.fields)
        try:
            gathered = self.kernel.accumulate(partial, block)
        except Exception as error:
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
        """The partial of another process of this run, or of a checkpoint, which was checked when it was read."""
        return from_bytes(data)

    def identity(self) -> dict[str, tuple[str, str]]:
        """What a checkpoint compares: name, exact value, words; see `code_identity`."""
        from kinema.execution.checkpoint.code_identity import code_digest

        function = getattr(self.kernel, "function", None)
        items = {"over": (self.kernel.over,) * 2} if isinstance(self.kernel, _Applied) else {}
        digest = code_digest(self.kernel if function is None else function, self._name())
        return items | {"the code": (digest, f"{self._name()}, digest {digest[:12]}")}

    def _name(self) -> str:
        own = getattr(self.kernel, "function", self.kernel)
        return getattr(own, "__qualname__", type(own).__qualname__)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to other processes with the code of the script or session, whichever pickler is at work."""
        try:
            return _deserialized, (serialize(self.kernel),)
        except Exception as error:
            # what the user's objects raise can be anything
            raise ArgumentError(
                f"{self._name()} cannot be sent to workers ({error}): it must refer only to what pickle can store; "
                "or use runner='threads'"
            ) from error


def _deserialized(packed: bytes) -> Adapter:
    return Adapter(pickle.loads(packed))
