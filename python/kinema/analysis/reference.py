"""Reference structures: positions to superpose on, from a frame, a file, a Universe or an array.

It superposes nothing.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError, OutOfRangeError
from kinema.opening import open
from kinema.selection import Selection
from kinema.topology import Topology, is_atom_group, is_universe
from kinema.trajectory import Trajectory

__all__ = ["Reference"]

_KINDS = "a Trajectory, a Universe, an AtomGroup, a file name or an array"


class Reference:
    """Where reference positions come from; they are read when asked for.

    Parameters
    ----------
    trajectory : Trajectory
        The one that is analysed.
    ref_frame : int
        Frame of the reference trajectory, may be negative.
    reference : Trajectory, Universe, AtomGroup, path, (atoms, 3) array in angstrom, or None for `trajectory` itself
    """

    def __init__(self, trajectory: Trajectory, ref_frame: int = 0, reference: Any = None) -> None:
        if isinstance(ref_frame, bool) or not hasattr(ref_frame, "__index__"):
            raise ArgumentError(f"ref_frame is a frame number, found {ref_frame!r}")
        self._n_atoms = trajectory.n_atoms
        self._frame = int(ref_frame)
        self._source = trajectory if reference is None else self._opened(reference)

    def positions(self, selection: Selection) -> NDArray[np.float64]:
        """(n, 3) float64 in angstrom for the atoms of `selection`, in its order.

        A selection string is applied anew to a reference that has a topology of its own; otherwise the reference
        must have as many atoms as the trajectory (an array or AtomGroup: or as the selection). Raises
        ArgumentError where the numbers of atoms differ and for coordinates that are not numbers.
        """
        source = self._source
        if isinstance(source, Trajectory):
            found = self._from_trajectory(source, selection)
        elif isinstance(source, np.ndarray):
            found = self._from_array(source, selection, "the reference array")
        elif is_universe(source):
            found = self._from_universe(source, selection)
        else:
            found = self._from_array(self._at_frame(source), selection, "the reference atom group")
        result = np.ascontiguousarray(found, dtype=np.float64)
        bad = ~np.isfinite(result).all(axis=1)
        if bad.any():
            atom = int(selection.indices[int(bad.argmax())])
            raise ArgumentError(f"the reference's atom {atom} is not a number; choose another frame or structure")
        return result

    def _opened(self, reference: Any) -> Any:
        if isinstance(reference, Trajectory) or is_universe(reference) or is_atom_group(reference):
            return reference
        if isinstance(reference, (str, os.PathLike)):
            name = os.fspath(reference)
            known = {suffix.lstrip(".").lower() for info in _core.formats() for suffix in info["extensions"]}
            if os.path.splitext(name)[1][1:].lower() in known:
                return open(name)
            return Topology(name).universe
        try:
            array = np.asarray(reference, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError(f"reference is {_KINDS}, found {type(reference).__name__}") from None
        if array.ndim != 2 or array.shape[1] != 3:
            raise ArgumentError(f"a reference array has the shape (atoms, 3), found {array.shape}")
        return array

    def _from_trajectory(self, source: Trajectory, selection: Selection) -> NDArray[Any]:
        indices = selection.indices
        if selection.string is not None and source.topology_name is not None:
            indices = source.select(selection.string).indices
            self._check_count(len(indices), selection, source.paths[0])
        else:
            self._check_atoms(source.n_atoms, source.paths[0])
        # float32, so that the frame itself is at distance 0 from its reference
        frame: NDArray[Any] = source.read(frames=[self._frame], select=indices, dtype="float32", workers=1)[0]
        return frame

    def _from_universe(self, source: Any, selection: Selection) -> NDArray[Any]:
        name = Topology(source).name
        positions = self._at_frame(source.atoms)
        if selection.string is not None and selection.string.strip() != "all":
            indices = Topology(source).select(selection.string)
            self._check_count(len(indices), selection, name)
            return positions[indices]
        self._check_atoms(len(positions), name)
        return positions[selection.indices]

    def _from_array(self, source: NDArray[Any], selection: Selection, name: str) -> NDArray[Any]:
        if len(source) == self._n_atoms:
            return source[selection.indices]
        if len(source) == selection.n_atoms:
            return source
        raise ArgumentError(
            f"{name} has {len(source)} atoms, expected {selection.n_atoms} (the selection) or {self._n_atoms} "
            "(the trajectory)"
        )

    def _at_frame(self, group: Any) -> NDArray[Any]:
        """Positions of an AtomGroup at the reference frame; its universe is left at the frame where it was."""
        try:
            reader = group.universe.trajectory
        except AttributeError:
            raise ArgumentError("the reference universe has no coordinates; load a structure with them") from None
        if not -reader.n_frames <= self._frame < reader.n_frames:
            raise OutOfRangeError(
                f"ref_frame {self._frame} is out of range, the reference has {reader.n_frames} frames"
            )
        before = reader.frame
        if self._frame % reader.n_frames == before:
            # also keeps positions that the user has set by hand
            return np.array(group.positions)
        try:
            reader[self._frame]
            return np.array(group.positions)
        finally:
            reader[before]

    def _check_count(self, found: int, selection: Selection, name: str) -> None:
        if found != selection.n_atoms:
            raise ArgumentError(
                f"selection {selection.string!r} names {found} atoms of reference {name}, but {selection.n_atoms} of "
                "the trajectory; choose atoms that both have"
            )

    def _check_atoms(self, found: int, name: str) -> None:
        if found != self._n_atoms:
            raise ArgumentError(
                f"reference {name} has {found} atoms, but the trajectory has {self._n_atoms}; give the same system, "
                "or a selection string and a reference with a topology"
            )
