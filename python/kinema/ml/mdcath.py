"""`mdcath`: the trajectories of a folder of mdCATH files, by temperature and replica, with their labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.read.mdcath import domains, replicas
from kinema.formats.h5md.read.other_layouts import unit_of
from kinema.ml.label_columns import LabelColumns
from kinema.storage.hdf5.file import OpenFile, open_hdf5, reading
from kinema.storage.hdf5.virtual import values_of
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

# one value for each frame, beside coords and forces; dssp is text for each residue
_LABELS = ("gyrationRadius", "rmsd")


@dataclass(frozen=True)
class MdcathTrajectory:
    """One trajectory of an mdCATH file. `FrameDataset` takes it as it is."""

    path: str
    domain: str
    temperature: int
    """In K."""
    replica: int
    n_frames: int
    n_atoms: int
    label_names: tuple[str, ...]
    """Names of the values that the file has for each frame, in the file's units: "rmsd", "gyrationRadius"."""
    dt: float
    """Time between frames in ps."""

    @property
    def particles(self) -> str:
        """The value for `kinema.open(particles=)`."""
        return f"{self.domain}/{self.temperature}/{self.replica}"

    def open(self) -> Trajectory:
        """Opens the trajectory, with forces. Raises as `kinema.open`."""
        return open_trajectory(self.path, particles=self.particles, dt=self.dt)

    def labels(self) -> LabelColumns:
        """Values of all frames by name, (frames,), in the units of the file, and "temperature" in K.

        Raises CorruptFileError.
        """
        with open_hdf5(self.path) as file, reading(self.path, "labels"):
            opened = OpenFile(self.path, file, os.path.getsize(self.path), format="HDF5")
            group = file[self.particles]
            found = {name: np.asarray(values_of(opened, group[name])) for name in self.label_names}
            units = {name: unit_of(group[name]) for name in self.label_names}
        found["temperature"] = np.full(self.n_frames, float(self.temperature))
        return LabelColumns(found, {**units, "temperature": "K"})


def mdcath(
    folder: str | os.PathLike[str],
    temperature: int | Sequence[int] | None = None,
    replica: int | Sequence[int] | None = None,
    *,
    dt: float = 1000.0,
) -> list[MdcathTrajectory]:
    """Lists the trajectories of all mdCATH files of a folder, or of one file, in the order of names and numbers.

        frames = kinema.ml.FrameDataset(kinema.ml.mdcath("mdcath", temperature=320), fields=["positions", "forces"])

    Parameters
    ----------
    folder : path
        Folder with files `mdcath_dataset_*.h5`, or any `.h5` that has the structure; other files are left out.
    temperature, replica : int or list of int, optional
        The temperatures and replicas to include; by default all.
    dt : float, ps
        Time between frames, which the files do not state; by default 1 ns, as in the publication.

    Returns
    -------
    list of MdcathTrajectory

    Raises
    ------
    ArgumentError
        If there is none.
    """
    place = Path(os.fspath(folder))
    paths = [place] if place.is_file() else sorted(place.glob("*.h5"))
    temperatures, wanted = _numbers(temperature), _numbers(replica)
    found = []
    for path in paths:
        with open_hdf5(str(path)) as file, reading(str(path)):
            for domain in domains(file):
                for names in replicas(file[domain]):
                    if not all(name.isdigit() for name in names):
                        continue
                    kelvin, number = int(names[0]), int(names[1])
                    if (temperatures is None or kelvin in temperatures) and (wanted is None or number in wanted):
                        group = file[domain][names[0]][names[1]]
                        n_frames, n_atoms = (int(n) for n in group["coords"].shape[:2])
                        labels = tuple(name for name in _LABELS if name in group and group[name].shape == (n_frames,))
                        one = MdcathTrajectory(str(path), domain, kelvin, number, n_frames, n_atoms, labels, dt)
                        found.append(one)
    if not found:
        raise ArgumentError(
            f"{place}: no trajectories of mdCATH, of temperature {temperature or 'any'} and replica "
            f"{'any' if replica is None else replica}",
            path=str(place),
        )
    return found


def _numbers(given: int | Sequence[int] | None) -> set[int] | None:
    if given is None:
        return None
    return {given} if isinstance(given, int) else set(given)
