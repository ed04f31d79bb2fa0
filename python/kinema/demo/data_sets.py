"""The publications' data sets at a size of one's own: adenylate kinase, YiiP, MuMMI samples, pyrochlore.

Adenylate kinase is real: 98 frames of MDAnalysisTests, repeated. The other data are not on the package index. They are
random numbers with the atoms, arrays and records of the publications, because the speed of files depends on these.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.demo.case import real_files
from kinema.demo.repeat import repeat_dcd, repeat_xtc
from kinema.files.convert import convert
from kinema.files.join import join
from kinema.formats.writer import Writer
from kinema.model.atom_table import Atoms
from kinema.storage.output_checks import check_target
from kinema.storage.output_file import temporary_folder, write_whole
from kinema.studies.write_strategies.pyrochlore import CHARGES, MASSES, NAMES, Pyrochlore

Progress = Callable[[int, int], None]
Write = Callable[[Path], object]

_SEED = 1
_PROTEIN = np.array(["N", "HN", "CA", "HA", "CB", "HB1", "C", "O"])
_WATER = np.array(["OW", "HW1", "HW2"])


class DataSet(ABC):
    """A publication's data set, in files of one folder."""

    published: ClassVar[str]
    """Size and files in the publication."""

    @abstractmethod
    def files(self) -> dict[str, tuple[int, Write]]:
        """For each file its bytes, approximately, and the function that writes it."""

    @property
    def n_bytes(self) -> int:
        """Bytes of all files, approximately."""
        return sum(size for size, _ in self.files().values())


@dataclass(frozen=True)
class Adk(DataSet):
    """Adenylate kinase in vacuum: the real frames `times` times, as XTC and DCD, and their topology.

    `virtual`: as two H5MD files, of which one has the frames once and the other refers to it `times` times.
    """

    times: int = 10
    virtual: bool = False

    published = "3,341 atoms, 600 x 4,187 = 2,512,200 frames, 30 GB of XTC"
    frames: ClassVar[int] = 98
    atoms: ClassVar[int] = 3341
    # bytes of a frame of XTC, the mean of the real ones
    packed: ClassVar[int] = 12_900

    def __str__(self) -> str:
        return f"{self.times * self.frames:,} frames of {self.atoms:,} atoms, {self.frames} real ones repeated"

    def files(self) -> dict[str, tuple[int, Write]]:
        stored = 12 * self.frames * self.atoms
        topology = {"adk.psf": (real_files()[0].stat().st_size, self._copy_topology)}
        if self.virtual:
            return topology | _virtual_files("adk", self.times, stored, self._write_once)
        name = f"adk_{self.times}_times"
        return topology | {
            f"{name}.xtc": (self.times * self.frames * self.packed, self._write_xtc),
            f"{name}.dcd": (self.times * stored, lambda path: repeat_dcd(real_files()[1], path, self.times)),
        }

    def _copy_topology(self, path: Path) -> None:
        data = real_files()[0].read_bytes()
        write_whole(path, lambda file: file.write(data))

    def _write_once(self, path: Path) -> None:
        topology, source = real_files()
        with collected():  # of times and cells that the DCD file does not have
            convert(source, path, topology=topology, dialect="mdanalysis", overwrite=True, verify=False)

    def _write_xtc(self, path: Path) -> None:
        topology, source = real_files()
        with temporary_folder(path.with_suffix(".once")) as folder, collected():
            once = Path(folder) / "once.xtc"
            convert(source, once, topology=topology)
            repeat_xtc(once, path, self.times)


@dataclass(frozen=True)
class Yiip(DataSet):
    """A solvated membrane protein: `frames` random frames `times` times, as H5MD with one frame a chunk.

    The file is its own topology: a part of the atoms has names of a protein, all others have names of water.

    `virtual`: one file has the frames once, and the other refers to it `times` times.
    """

    times: int = 10
    virtual: bool = False
    frames: int = 20
    atoms: int = 111_815

    published = "111,815 atoms, 90,100 frames, 113 GiB of H5MD"

    def __str__(self) -> str:
        return f"{self.times * self.frames:,} frames of {self.atoms:,} atoms, {self.frames} random ones repeated"

    def files(self) -> dict[str, tuple[int, Write]]:
        stored = 12 * self.frames * self.atoms
        if self.virtual:
            return _virtual_files("yiip", self.times, stored, partial(self._write, times=1))
        return {f"yiip_{self.times}_times.h5md": (self.times * stored, partial(self._write, times=self.times))}

    def _write(self, path: Path, times: int) -> None:
        # as dense as water
        edge = (self.atoms / 0.1) ** (1 / 3)
        layout = (1, self.atoms, 3)
        with Writer(
            path, atoms=self._table(), n_atoms=self.atoms, overwrite=True, layout=layout, dtype="float32"
        ) as out:
            for step in range(times * self.frames):
                if step % self.frames == 0:
                    random = np.random.default_rng(_SEED)
                    positions = random.uniform(0.0, edge, (self.atoms, 3)).astype(np.float32)
                else:
                    positions = positions + random.normal(0.0, 0.3, positions.shape).astype(np.float32)
                out.write(positions, cell=(edge, edge, edge), step=step, time=float(step))

    def _table(self) -> Atoms:
        """A sixteenth of the atoms is protein, residues of eight; the rest is water."""
        n_residues = max(1, self.atoms // 128)
        protein = np.arange(self.atoms) < 8 * n_residues
        names = np.where(protein, np.resize(_PROTEIN, self.atoms), np.resize(_WATER, self.atoms))
        residues = np.where(protein, np.arange(self.atoms) // 8, n_residues + np.arange(self.atoms) // 3)
        return Atoms(self.atoms, names=names, resnames=np.where(protein, "ALA", "SOL"), resids=residues + 1)


@dataclass(frozen=True)
class Mummi(DataSet):
    """Samples for machine learning: `times` NPZ files, each of `frames` samples of `atoms` values, float64."""

    times: int = 2
    frames: int = 8_000
    atoms: int = 8_691

    published = "600 files of 8,000 samples of 8,691 values, 320 GB of NPZ"

    def __str__(self) -> str:
        return f"{self.times:,} files of {self.frames:,} random samples of {self.atoms:,} values"

    def files(self) -> dict[str, tuple[int, Write]]:
        size = 8 * self.frames * self.atoms
        return {f"mummi_{number:04d}.npz": (size, partial(self._write, number)) for number in range(self.times)}

    def _write(self, number: int, path: Path) -> None:
        samples = np.random.default_rng([_SEED, number]).standard_normal((self.frames, self.atoms))
        write_whole(path, lambda file: np.savez(file, samples=samples))


@dataclass(frozen=True)
class PyrochloreConfigurations(DataSet):
    """Gd2Zr2O7 as DL_POLY writes it: HISTORY with positions, velocities and forces of `times` configurations."""

    times: int = 1
    atoms: int = 3_773_000

    published = "3,773,000 atoms, 1.1 GB a configuration"

    def __str__(self) -> str:
        return f"{self.times:,} configurations of {self._system.n_atoms:,} atoms"

    @property
    def _system(self) -> Pyrochlore:
        """Whole cells of Gd2Zr2O7."""
        return Pyrochlore.from_particle_count(self.atoms, _SEED)

    def files(self) -> dict[str, tuple[int, Write]]:
        # four records of 73 bytes an atom
        return {f"pyrochlore_{self.times}.history": (self.times * 4 * 73 * self._system.n_atoms, self._write)}

    def _write(self, path: Path) -> None:
        system = self._system
        kinds = system.kinds()
        table = Atoms(system.n_atoms, names=np.array(NAMES)[kinds], masses=MASSES[kinds], charges=CHARGES[kinds])
        values = system.state(np.arange(system.n_atoms))
        # values are rounded to the digits of the format, which is noted
        with collected(), Writer(path, format="history", atoms=table, overwrite=True) as out:
            for step in range(self.times):
                positions, velocities, forces = values
                out.write(positions, velocities=velocities, forces=forces, cell=system.box, step=step, time=float(step))


def _virtual_files(name: str, times: int, stored: int, write_once: Write) -> dict[str, tuple[int, Write]]:
    once = f"{name}_once.h5md"
    # steps and times, 16 bytes a frame, are little beside positions
    return {
        once: (stored, write_once),
        f"{name}_{times}_times.h5md": (0, lambda path: _refer(path.with_name(once), path, times)),
    }


def _refer(once: Path, path: Path, times: int) -> None:
    join([once] * times, path, renumber=True, overwrite=True, verify=False)


CASES: Mapping[str, type[DataSet]] = {"adk": Adk, "yiip": Yiip, "mummi": Mummi, "pyrochlore": PyrochloreConfigurations}
"""The data sets by name."""


def choose_data_set(name: str, **sizes: int | bool | None) -> DataSet:
    """The data set of a name; None of `times`, `frames`, `atoms`, `virtual` is its default.

    Raises ArgumentError for unknown names, for sizes that the data set does not have, and for numbers below 1.
    """
    check_choice("case", name, tuple(CASES))
    case = CASES[name]
    given = {what: size for what, size in sizes.items() if size is not None}
    known = [field.name for field in fields(case)]  # type: ignore[arg-type]
    for what, size in given.items():
        if what not in known:
            raise ArgumentError(f"{name}: {what} cannot be chosen, only {', '.join(known)}")
        if size < 1:
            raise ArgumentError(f"{what} must be at least 1, found {size}")
    return case(**given)


def make_data_set(
    data_set: DataSet, folder: Path, progress: Progress | None = None, *, overwrite: bool = False
) -> list[Path]:
    """Writes the files of a data set into `folder`, each of them whole or not at all. Returns their paths.

    `progress` gets bytes written and bytes in all. Raises ArgumentError, before anything is written, if the disk has
    no room, and if a file exists without `overwrite`; otherwise as writing files does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / name: file for name, file in data_set.files().items()}
    total, free = data_set.n_bytes, shutil.disk_usage(folder).free
    if total > free:
        raise ArgumentError(
            f"{folder}: the data set takes about {total:,} bytes, and {free:,} are free there; choose fewer times, or "
            "another folder"
        )
    for path in files:
        check_target(path, overwrite=overwrite)
    done = 0
    for path, (size, write) in files.items():
        write(path)
        done += size
        if progress is not None:
            progress(done, total)
    return list(files)
