"""Reference structures: positions to superpose on, from a frame, a file, a Universe or an array.

The trajectory's transforms are applied to a reference structure as to a first frame: if they make molecules whole in
the frames, molecules are whole in the reference.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import MATCH, check_choice
from kinema.base.errors import ArgumentError, FileNotFound, MemoryLimitError, OutOfRangeError
from kinema.base.notes import emit
from kinema.base.resources import default_memory
from kinema.model.selection.atoms import Selection
from kinema.model.topology import Topology, is_atom_group, is_universe
from kinema.trajectory import Trajectory
from kinema.trajectory.bonds import Bonds, states_bonds
from kinema.trajectory.broken_molecules import MoleculeSearch, bonds_for_a_look
from kinema.trajectory.one_frame import OneFrame, cell_of
from kinema.trajectory.opening import open
from kinema.trajectory.transform import CENTERS, Transform
from kinema.transforms.matching import AtomsOf, compare_atoms, places_by_name

# singular values below this share of the largest are rounding of float32 positions
_ON_A_LINE = 1e-5

# positions in single precision, as read, and in double
_BYTES_OF_AN_ATOM = 36
_KINDS = "a Trajectory, a Universe, an AtomGroup, a file name or an array"


class Reference:
    """The source of reference positions, which are read when asked for.

    The trajectory's transforms are applied to it as to a first frame: transforms that need a pass over all frames, such
    as `nojump`, leave it as it is. Transforms that a reference Trajectory already has are not applied twice. An array
    is used as it is.

    `ref_frame`: frame of the reference trajectory; may be negative.
    `reference`: Trajectory, Universe, AtomGroup, path, (atoms, 3) array in angstrom, or None for `trajectory` itself.
    `match`: {"masses", "names", "order"}; property that `check` compares.
    `tol_mass`: largest accepted difference of masses, u.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        ref_frame: int = 0,
        reference: Any = None,
        match: str = "masses",
        tol_mass: float = 0.1,
    ) -> None:
        if isinstance(ref_frame, bool) or not hasattr(ref_frame, "__index__"):
            raise ArgumentError(f"ref_frame is a frame number, found {ref_frame!r}")
        check_choice("match", match, MATCH)
        if not 0 <= tol_mass < np.inf:
            raise ArgumentError(f"tol_mass is a number from 0 on, found {tol_mass!r}")
        self._trajectory = trajectory
        self._frame = int(ref_frame)
        self._match = match
        self._tol_mass = float(tol_mass)
        self._topology: Topology | None = None
        self._source = trajectory if reference is None else self._opened(reference)
        #: names of the files that it is read from, except the trajectory's own
        self.files = () if reference is None else _files_of(reference)
        self._is_own = isinstance(self._source, Trajectory) and self._source.core is trajectory.core

    def check(self, selection: Selection, *, whole: bool = True) -> None:
        """Compares the reference's atoms for `selection` with the trajectory's; emits notes on how far that went.

        If molecules must be `whole`, a note names one that is broken in the reference.

        For frames of the trajectory itself and for arrays, only the number of atoms is compared. Raises ArgumentError
        if numbers of atoms differ, or atoms differ by `match`; the error names the first difference.
        """
        reference = self._atoms(selection)
        if self._is_own or isinstance(self._source, np.ndarray):
            return
        # if the reference has no topology, the trajectory's need not be read
        topology = None if reference.topology is None else self._trajectory.topology
        own = AtomsOf(selection.indices, topology, self._trajectory.topology_name or self._trajectory.paths[0])
        emit(compare_atoms(own, reference, self._match, self._tol_mass))
        if whole:
            self._note_broken(selection, reference)

    def positions(self, selection: Selection) -> NDArray[np.float64]:
        """(n, 3) float64 in angstrom for the atoms of `selection`, in its order.

        If the reference has a topology of its own, a selection string is applied to it; otherwise the reference must
        have as many atoms as the trajectory (an array or AtomGroup: or as the selection). Raises ArgumentError if the
        numbers of atoms differ and for coordinates that are not numbers; MemoryLimitError for a frame that takes more
        than half of the memory that this process may use.
        """
        source, indices = self._source, self._atoms(selection).indices
        if isinstance(source, np.ndarray):
            positions = source[indices]
        else:
            if isinstance(source, Trajectory):
                _check_memory(source, len(indices))
            structure, frame = self._structure
            # float32, so that the reference frame itself has distance 0
            positions = structure.read([frame], select=indices, dtype="float32", workers=1)[0]
        result = np.ascontiguousarray(positions, dtype=np.float64)
        bad = ~np.isfinite(result).all(axis=1)
        if bad.any():
            atom = int(indices[int(bad.argmax())]) + 1
            raise ArgumentError(
                f"the position of the reference's atom {atom} (counted from 1) is not a number; choose another frame "
                "or structure"
            )
        return result

    @property
    def n_frames(self) -> int:
        """Number of its frames; 1 for a structure."""
        return self._source.n_frames if isinstance(self._source, Trajectory) else 1

    def positions_of_all_frames(self, selection: Selection) -> NDArray[np.float32]:
        """(frames, n, 3) in angstrom for the atoms of `selection`, in its order.

        A note names transforms that are left out. Raises as `positions`, but positions may not be numbers.
        """
        if not isinstance(self._source, Trajectory):
            return self.positions(selection)[None].astype(np.float32)
        structure, _ = self._structure
        known = {one.label for one in structure.core.transforms}
        left_out = [one.label for one in self._trajectory.core.transforms if one.label not in known]
        if left_out and not self._is_own:
            emit([f"{', '.join(left_out)}: not applied to {structure.paths[0]}; open it with the same transforms"])
        return structure.read(select=self._atoms(selection).indices, dtype="float32")

    def cell(self) -> tuple[NDArray[np.float64], tuple[bool, bool, bool]]:
        """The cell after the transforms, (3, 3) in angstrom, and which of its edges repeat; an array has none."""
        if isinstance(self._source, np.ndarray):
            return np.zeros((3, 3)), (False, False, False)
        structure, frame = self._structure
        read = structure.read([frame], select=[0], fields=["positions"], workers=1)
        x, y, z = (bool(edge) for edge in read["periodic"][0])
        return read["cells"][0], (x, y, z)

    def _atoms(self, selection: Selection) -> AtomsOf:
        """The reference's atoms for `selection`, in its order. Raises ArgumentError if the numbers of atoms differ."""
        source = self._source
        if self._is_own:
            return AtomsOf(selection.indices, None, "the trajectory")
        if isinstance(source, Trajectory):
            name = source.topology_name or source.paths[0]
            topology = source.topology
            if selection.string is None or topology is None:
                self._check_atoms(source.n_atoms, source.paths[0])
                return AtomsOf(selection.indices, topology, name)
            return self._selected(topology, selection)
        if isinstance(source, np.ndarray):
            return AtomsOf(self._match_atoms(len(source), selection, "the reference array"), None, "the array")
        topology = self._topology or Topology(source.universe)
        if is_universe(source):
            if selection.string is not None:
                return self._selected(topology, selection)
            self._check_atoms(topology.n_atoms, topology.name)
            return AtomsOf(selection.indices, topology, topology.name)
        positions = self._match_atoms(len(source), selection, "the reference atom group")
        return AtomsOf(source.indices[positions], topology, topology.name)

    def _selected(self, topology: Topology, selection: Selection) -> AtomsOf:
        """The atoms that the selection string names in another topology."""
        assert selection.string is not None, "only strings are applied again"
        indices = topology.select(selection.string)
        if len(indices) != selection.n_atoms:
            raise ArgumentError(
                f"selection {selection.string!r} names {len(indices)} atoms of reference {topology.name}, but "
                f"{selection.n_atoms} of the trajectory; choose atoms that both have"
            )
        return AtomsOf(indices, topology, topology.name)

    def _opened(self, reference: Any) -> Any:
        if isinstance(reference, Trajectory) or is_universe(reference) or is_atom_group(reference):
            return reference
        if isinstance(reference, (str, os.PathLike)):
            name = os.fspath(reference)
            known = {suffix.lstrip(".").lower() for info in _core.formats() for suffix in info["extensions"]}
            if os.path.splitext(name)[1][1:].lower() in known:
                return open(name, stored=self._trajectory.core.index != "memory")
            if not os.path.exists(name):
                raise FileNotFound("no such file; the reference is a structure or trajectory", at=name)
            self._topology = Topology(name)
            return self._topology.universe
        try:
            array = np.asarray(reference, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError(f"reference is {_KINDS}, found {type(reference).__name__}") from None
        if array.ndim != 2 or array.shape[1] != 3:
            raise ArgumentError(f"a reference array has the shape (atoms, 3), found {array.shape}")
        return array

    def _match_atoms(self, count: int, selection: Selection, name: str) -> NDArray[np.integer[Any]]:
        """Places of the selection's atoms among `count` atoms, which are the trajectory's or the selection's."""
        if count == self._trajectory.n_atoms:
            return selection.indices
        if count == selection.n_atoms:
            return np.arange(count)
        raise ArgumentError(
            f"{name} has {count} atoms, expected {selection.n_atoms} (the selection) or {self._trajectory.n_atoms} "
            "(the trajectory)"
        )

    @cached_property
    def _transforms(self) -> list[_core.Transform]:
        """The trajectory's transforms that the reference lacks, without transforms that look at other frames."""
        source, transforms = self._source, self._trajectory.core.transforms
        if self._is_own or isinstance(source, np.ndarray) or any(one.name == CENTERS for one in transforms):
            return []
        own = {one.label for one in source.core.transforms} if isinstance(source, Trajectory) else set()
        return [one for one in transforms if not one.looks_back and one.label not in own]

    @cached_property
    def _same_atoms(self) -> bool:
        """Whether the reference has the trajectory's atoms, by number and, if both have them, names."""
        source = self._source
        if isinstance(source, Trajectory):
            count, topology = source.n_atoms, source.topology
        else:
            topology = self._topology or Topology(source.universe)
            count = topology.n_atoms
        if count != self._trajectory.n_atoms:
            return False
        if topology is None or self._trajectory.topology is None:
            return True
        everything = np.arange(count)
        own = AtomsOf(everything, self._trajectory.topology, "").names()
        found = AtomsOf(everything, topology, "").names()
        # residue names are not compared: each program has its own convention
        return own is None or found is None or np.array_equal(own[0], found[0])

    @cached_property
    def _structure(self) -> tuple[Trajectory, int]:
        """The reference after the transforms, and the number of its frame. Emits notes on transforms left out."""
        source = self._source
        made, frame = (source, self._frame) if isinstance(source, Trajectory) else (self._from_universe(source), 0)
        if self._is_own:
            return made, frame
        if self._same_atoms:
            bound = made.core.with_transforms([*made.core.transforms, *self._transforms])
            return made.with_core(bound), frame
        made = self._with_bonds(made)
        for transform, again in self._pair_transforms():
            try:
                if again is None:
                    raise ArgumentError("it names atoms by their numbers in the trajectory; name them by a selection")
                made = made.with_transform(again)
            except ArgumentError as error:
                name = made.topology_name or made.paths[0]
                emit([f"{transform.label} is not applied to the reference {name}, whose atoms are others: {error}"])
        return made, frame

    def _pair_transforms(self) -> list[tuple[_core.Transform, Transform | None]]:
        """Each of `_transforms`, with its counterpart for the reference's atoms."""
        own, wanted = self._trajectory, {one.identity for one in self._transforms}
        pairs = zip(own.core.transforms, own.for_other_atoms, strict=True)
        return [(bound, other) for bound, other in pairs if not bound.looks_back and bound.identity in wanted]

    def _with_bonds(self, structure: Trajectory) -> Trajectory:
        """The reference; if it has no bonds, with the trajectory's, provided that all its atoms are found by name."""
        own = self._trajectory
        if own.topology is None or structure.topology is None or states_bonds(structure.atoms):
            return structure
        places = places_by_name(structure.atoms, own.atoms) if states_bonds(own.atoms) else None
        if places is None:
            return structure
        return structure.with_topology(Topology(structure.atoms.replace(bonds=own.atoms[places].get("bonds"))))

    def _from_universe(self, source: Any) -> Trajectory:
        """A Universe, or a group's Universe, at the reference frame. The Universe stays at its current frame."""
        universe = source.universe
        try:
            reader = universe.trajectory
        except AttributeError:
            raise ArgumentError("the reference universe has no coordinates; load a structure with them") from None
        if not -reader.n_frames <= self._frame < reader.n_frames:
            raise OutOfRangeError(
                f"ref_frame {self._frame} is out of range, the reference has {reader.n_frames} frames"
            )
        before = reader.frame
        # the current frame keeps positions that the user has set by hand
        moves = self._frame % reader.n_frames != before
        topology = self._topology or Topology(universe)
        try:
            ts = reader[self._frame] if moves else reader.ts
            x, y, z = (bool(edge.any()) for edge in cell_of(ts))
            time = float(ts.data.get("time", np.nan))
            frame = OneFrame.from_timestep(ts, (x, y, z), time=time, paths=(topology.name,))
        finally:
            if moves:
                reader[before]
        made = Trajectory(cast("_core.Trajectory", frame), topology)
        made.is_one_frame = True
        return made

    def _note_broken(self, selection: Selection, reference: AtomsOf) -> None:
        """Emits a note if a molecule of the selection is still broken in the reference.

        The bonds come from the trajectory if both have the same atoms, else from the reference.
        """
        own, (structure, frame) = self._trajectory, self._structure
        if self._same_atoms:
            if not own.n_frames:
                return
            bonds, guessed = bonds_for_a_look(own, selection, 0)
        else:
            selection = structure.select(reference.indices)
            bonds, guessed = bonds_for_a_look(structure, selection, frame)
        if not isinstance(bonds, Bonds):
            return
        search = MoleculeSearch(structure.n_atoms, bonds, selection)
        read = structure.read([frame], search.atoms, fields=["positions"], workers=1)
        search.add(read["positions"], read["cells"], read["periodic"], np.array([self._frame]))
        if search.found is not None:
            emit([f"reference {reference.label}: {replace(search.found, guessed=guessed)}"])

    def _check_atoms(self, found: int, name: str) -> None:
        if found != self._trajectory.n_atoms:
            raise ArgumentError(
                f"reference {name} has {found} atoms, but the trajectory has {self._trajectory.n_atoms}; give the "
                "same system, or a selection string and a reference with a topology"
            )


def note_free_rotation(positions: NDArray[np.float64], weights: NDArray[np.float64] | None) -> None:
    """Emits a note if a superposition on these positions (n, 3) leaves a rotation free: many rotations fit equally
    well, and frames get one of them. Atoms of weight 0 do not count."""
    counted = positions if weights is None else positions[weights > 0]
    n, sizes = len(counted), np.zeros(3)
    if n > 1:
        apart = counted - counted.mean(axis=0)
        sizes = np.sqrt(np.maximum(np.linalg.eigvalsh(apart.T @ apart), 0.0))
    if n > 2 and sizes[1] > _ON_A_LINE * sizes[2]:
        return
    which = "one atom" if n == 1 else "two atoms" if n == 2 else f"{n} atoms on a line"
    free = "any rotation" if n == 1 or not sizes.any() else "any rotation about the line through them"
    emit([f"the superposition is on {which}: {free} fits as well, so that the orientation of frames is arbitrary"])


def _files_of(reference: Any) -> tuple[str, ...]:
    if isinstance(reference, (str, os.PathLike)):
        return (os.fspath(reference),)
    if isinstance(reference, Trajectory):
        return tuple(reference.paths)
    if not (is_universe(reference) or is_atom_group(reference)):
        return ()
    universe = reference.universe
    names = (universe.filename, getattr(getattr(universe, "trajectory", None), "filename", None))
    return tuple(dict.fromkeys(os.fspath(name) for name in names if isinstance(name, (str, os.PathLike))))


def _check_memory(trajectory: Trajectory, n_atoms: int) -> None:
    """Raises MemoryLimitError for a frame that does not fit into memory: a small file may claim any number of atoms."""
    # the default of a run is a quarter of what this process may use
    needed, most = _BYTES_OF_AN_ATOM * n_atoms, 2 * default_memory()
    if needed > most:
        raise MemoryLimitError(
            f"the reference of {n_atoms} atoms needs {needed} bytes, expected at most {most}, "
            "half of the memory that this process may use; select fewer atoms",
            at=trajectory.paths[0],
        )
