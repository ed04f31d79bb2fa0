"""Checks of written files: read back and compared with the atoms, or compared by the digest of their bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import FileIOError
from kinema.base.input_files import open_regular
from kinema.base.notes import collected
from kinema.studies import files
from kinema.studies.write_strategies.binary import read_binary
from kinema.studies.write_strategies.design import FIELDS, NETCDF_LIBRARY, WriteSetting
from kinema.studies.write_strategies.outcome import files_of
from kinema.studies.write_strategies.pyrochlore import NAMES, Pyrochlore
from kinema.trajectory.opening import open as open_trajectory

_CHUNK = 8 << 20
_BATCH = 1 << 17
_MEMORY = "4 GiB"
_ALL = ("positions", "velocities", "forces")
# largest rounding of each kind of file, relative to the largest number of each field, or for XTC absolute, in angstrom:
# ten digits, float64, float32 (with factors of units), a thousandth of a nm
_RELATIVE: Mapping[str, float] = {
    "ascii": 1e-9, "binary": 0.0, "netcdf": 4e-7, "dcd": 4e-7, "trr": 4e-7, "h5md": 4e-7,
    "h5md-contiguous": 4e-7, NETCDF_LIBRARY: 1e-15,
}  # fmt: skip
_XTC_ROUNDING = 0.00501

Values = dict[str, NDArray[np.float64]]


@dataclass
class FileChecks:
    """Checks of an experiment's files: the first of each kind is read back; others of the same bytes are right too.

    `page_cache`: "warm" or "drop", as in `WriteDesign`.
    """

    system: Pyrochlore
    page_cache: str
    _known: dict[tuple[str, str], tuple[str, Mapping[str, float]]] = field(default_factory=dict)

    def check(self, setting: WriteSetting, path: str) -> tuple[str, Mapping[str, float]]:
        """The method by which the file was found right, and {field: largest rounding}.

        Raises FileIOError if the file has other values; raises as reading does.
        """
        if self.page_cache == "drop":
            files.forget(files_of(path))
        digest = _digest(path)
        kind = NETCDF_LIBRARY if setting.strategy == NETCDF_LIBRARY else setting.records
        known = self._known.get((kind, digest))
        if known is not None:
            return f"the bytes of {known[0]}", known[1]
        roundings = self._read_back(kind, path)
        self._known[kind, digest] = f"{setting.label} on {setting.ranks}", roundings
        return "read back", roundings

    def _read_back(self, kind: str, path: str) -> dict[str, float]:
        fields = FIELDS.get(kind, _ALL)
        roundings, largest = dict.fromkeys(fields, 0.0), dict.fromkeys(fields, 0.0)
        n = 0
        for start, found in _values_of(kind, path, self.system):
            ids = np.arange(start, start + len(found["positions"]))
            expected = dict(zip(_ALL, self.system.state(ids), strict=True))
            n += len(ids)
            for name in fields:
                if not np.isfinite(found[name]).all():
                    what = f"{name} from atom {start + 1} (counted from 1) on have numbers that are not finite"
                    raise FileIOError(f"{what}", at=path)
                difference = np.abs(found[name] - expected[name])
                roundings[name] = max(roundings[name], float(difference.max()))
                largest[name] = max(largest[name], float(np.abs(expected[name]).max()))
        if n != self.system.n_atoms:
            raise FileIOError(f"atoms, expected {self.system.n_atoms}, found {n}", at=path)
        for name in fields:
            allowed = _XTC_ROUNDING if kind == "xtc" else _RELATIVE[kind] * largest[name]
            if roundings[name] > allowed:
                what = (
                    f"{name} differ from what was written, expected at most {allowed:.2g}, found {roundings[name]:.2g}"
                )
                raise FileIOError(f"{what}", at=path)
        return roundings


def _values_of(kind: str, path: str, system: Pyrochlore) -> Iterator[tuple[int, Values]]:
    """First atom and values of each batch of atoms."""
    if kind == NETCDF_LIBRARY:
        from kinema.studies.write_strategies.netcdf_library import read_with_library

        for start in range(0, system.n_atoms, _BATCH):
            yield start, read_with_library(path, start, min(start + _BATCH, system.n_atoms))
    elif kind == "binary":
        yield from _binary_values(path, system)
    else:
        with collected():
            trajectory = open_trajectory(path, stored=False)
            found = (trajectory.n_frames, trajectory.n_atoms)
            if found != (1, system.n_atoms):
                what = f"expected 1 frame of {system.n_atoms} atoms, found {found[0]} of {found[1]}"
                raise FileIOError(f"{what}", at=path)
        wanted = FIELDS.get(kind, _ALL)
        for start in range(0, system.n_atoms, _BATCH):
            atoms = np.arange(start, min(start + _BATCH, system.n_atoms))
            with collected():
                rows = trajectory.read(select=atoms, fields=wanted, dtype="float64", memory=_MEMORY)
            yield start, {name: rows[name][0] for name in wanted}


def _binary_values(path: str, system: Pyrochlore) -> Iterator[tuple[int, Values]]:
    names = np.array([name.encode() for name in NAMES], "S8")[system.kinds()]
    for start in range(0, system.n_atoms, _BATCH):
        rows = read_binary(path, start, start + _BATCH)
        numbers = np.arange(start, start + len(rows))
        if not np.array_equal(rows["index"], numbers + 1) or not np.array_equal(rows["name"], names[numbers]):
            raise FileIOError(f"atoms from {start} on have other names or indices than were written", at=path)
        yield start, {name: rows[name] for name in _ALL}


def _digest(path: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for one in files_of(path):
        with open_regular(one, "file that was written") as file:
            while data := file.read(_CHUNK):
                digest.update(data)
    return digest.hexdigest()
