"""`TrajectoryDescription`: facts about a trajectory's frames, atoms and files, without reading coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.printable import html_table
from kinema.base.resources import worker_count
from kinema.base.timings import Timings
from kinema.formats import h5md
from kinema.model.atom_table import Atoms
from kinema.model.topology import Topology
from kinema.trajectory.files import OpenedFiles

if TYPE_CHECKING:
    from kinema.formats.h5md.read.observables import Observable
    from kinema.model.frame_atoms import FrameAtoms

# units of all values from `read`, `blocks` and frames, whatever the file's own units are
UNITS: Mapping[str, str] = MappingProxyType(
    {"length": "angstrom", "time": "ps", "velocity": "angstrom/ps", "force": "kJ/(mol*angstrom)"}
)


class TrajectoryDescription(OpenedFiles):
    """The properties of a trajectory."""

    @property
    def n_atoms(self) -> int:
        """Number of atoms in every frame."""
        return self._core.n_atoms

    @property
    def fields(self) -> tuple[str, ...]:
        """The quantities in each frame of the files: "positions", "cell", "step", "time", ..."""
        return tuple(self._core.fields)

    @property
    def format(self) -> str:
        """The first file's format: "XTC"."""
        return self._core.format

    @property
    def units(self) -> Mapping[str, str]:
        """Units of the arrays that Kinema returns; the same for every format."""
        return UNITS

    @property
    def stated(self) -> Mapping[str, str]:
        """Facts stated when the files were opened, by argument: `units`, `dt`, `particles`, ..."""
        return MappingProxyType(self._stated)

    @property
    def hdf5(self) -> h5md.H5mdOptions | None:
        """Options for reading HDF5 files; None for other formats."""
        return self._hdf5

    @property
    def frame_numbers(self) -> NDArray[np.uint64]:
        """(frames,) numbers of this view's frames in the whole trajectory."""
        return self._frames(None).numbers()

    @property
    def times(self) -> NDArray[np.float64]:
        """(frames,) in ps; from the index, or read from the frames if the format's index has no times."""
        known = self._core.times()
        return self._read_stamps()["times"] if known is None else self._view_values(known)

    @property
    def steps(self) -> NDArray[np.int64]:
        """(frames,) numbers of the simulation's steps; from the index, or read if the format's index has none."""
        known = self._core.steps()
        return self._read_stamps()["steps"] if known is None else self._view_values(known)

    @property
    def dt(self) -> float | None:
        """Time between the first two frames in ps; None if there are fewer than two."""
        if self.n_frames < 2:
            return None
        pair = self._with(self._core, self._frames(slice(2)))
        # not the times of all frames: a file with holes may have any number of them
        first, second = (self._core.time(frame) for frame in pair.frame_numbers.tolist())
        if first is None or second is None:
            first, second = pair._read_stamps()["times"].tolist()
        return second - first

    @property
    def topology(self) -> Topology | None:
        """The topology, with its atom count checked; None if there is none.

        Raises ArgumentError if it has another number of atoms.
        """
        if self._topology is not None and not self._topology_fits:
            n_atoms = self._topology.n_atoms
            if n_atoms != self.n_atoms:
                raise ArgumentError(
                    f"topology {self._topology.name} has {n_atoms} atoms, but trajectory {self.paths[0]} has "
                    f"{self.n_atoms}; give the topology of the system that was written"
                )
            self._topology_fits = True
        return self._topology

    def atoms_of_frames(self, indices: NDArray[np.uint32] | None = None) -> FrameAtoms:
        """The atoms of frames that have only these (None: all); it reads no topology."""
        from kinema.model.frame_atoms import FrameAtoms

        return FrameAtoms(indices, self.n_atoms, self._topology)

    @property
    def atoms(self) -> Atoms:
        """The table of the atoms, from the topology or from the HDF5 file itself. It is read now.

            traj.atoms.masses, traj.atoms[traj.select("name CA")].resnames

        Views have the same table. Raises ArgumentError if nothing is known, and if the topology has another number of
        atoms.
        """
        topology = self.topology
        if topology is None:
            raise ArgumentError(
                f"{self.paths[0]}: nothing is known of its atoms (names, masses, ...); open it with topology= (-s)"
            )
        return topology.atoms

    @property
    def topology_name(self) -> str | None:
        """Name of the topology, without reading it."""
        return None if self._topology is None else self._topology.name

    @property
    def observables(self) -> Mapping[str, Observable]:
        """Energies and other values that an H5MD file records beside its particles, by name, with their own steps.

            traj.observables["potential_energy"].read()

        Empty for other formats. A view has the observables of the whole file. Their times are shifted like the frames'
        times; `dt=` applies to frames only, and a note says so. Raises ArgumentError for a trajectory of several files.
        """
        if self._hdf5 is None:
            return MappingProxyType({})
        if len(self.paths) > 1:
            raise ArgumentError(
                f"the trajectory has {len(self.paths)} files, each with observables of its own; open the one that is "
                "meant by itself"
            )
        stated = self._stated.keys()
        shift = self._core.time_shift() if stated & {"time_offset", "t0"} else 0.0
        return h5md.observables_of(self.paths[0], self._hdf5, time_shift=shift, unlike_frames="dt" in stated)

    @property
    def transforms(self) -> tuple[str, ...]:
        """The transforms applied to each frame, in words; empty if frames are as in the files."""
        return tuple(transform.label for transform in self._core.transforms)

    @property
    def opening(self) -> Mapping[str, float]:
        """Seconds of opening: "topology", "trajectory" (headers), "frames" (finding them)."""
        read = 0.0 if self._topology is None else self._topology.seconds
        return MappingProxyType({"topology": read, "trajectory": 0.0, "frames": 0.0} | self._opening)

    @property
    def timings(self) -> Timings | None:
        """Where the time of the last `read`, or of the last finished loop over frames or `blocks`, went.

        As the timings of a run; "compute" is the time to put atoms into the order asked for. None before the first.
        """
        return self._timings

    def __repr__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        known = self._view is not None or self._core.scanned
        number = f"{self.n_frames} frames of " if known else ""
        changed = f", {', '.join(self.transforms)}" if self.transforms else ""
        return f"<Trajectory {self.paths[0]}{more}: {self.format}, {number}{self.n_atoms} atoms{changed}>"

    def _repr_html_(self) -> str:
        """Files, format, frames (if known) and atoms, for notebooks."""
        known = self._view is not None or self._core.scanned
        rows = [("files", ", ".join(self.paths)), ("format", self.format)]
        rows += [("frames", f"{self.n_frames:,}")] if known else []
        rows += [("atoms", f"{self.n_atoms:,}")]
        rows += [("transforms", ", ".join(self.transforms))] if self.transforms else []
        return html_table("Trajectory", rows)

    def _read_stamps(self) -> dict[str, NDArray[Any]]:
        # no transform changes them
        stored, first_atom = self._core.with_transforms([]), np.zeros(1, dtype=np.uint32)
        return stored.read(
            self._frames(None), atoms=first_atom, fields=("positions",), workers=worker_count(None), mark_absent=True
        )
