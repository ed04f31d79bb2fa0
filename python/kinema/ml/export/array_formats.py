"""npy, npz and samples-h5: the arrays of every batch as they are, with a row for each sample."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.ml.export.base import ExportFormat
from kinema.ml.export.source import Array, ExportSource, Run
from kinema.ml.stored.samples import samples_of
from kinema.storage.hdf5.output import hdf5_errors, written_in_place
from kinema.storage.hdf5.storage import Storage, create_dataset
from kinema.trajectory import UNITS

_COPIED = 4 << 20
# approximate bytes in an HDF5 file besides values
_STRUCTURE = 4096
# units of the values that Kinema returns for frames
_UNITS_OF: Mapping[str, str] = {
    "positions": UNITS["length"],
    "velocities": UNITS["velocity"],
    "forces": UNITS["force"],
    "cell": UNITS["length"],
    "time": UNITS["time"],
}


class ArrayFormat(ExportFormat):
    """Base class of the three formats."""

    # the block, the next one, and one being read
    factor = 4.0

    def check(self, source: ExportSource) -> None:
        self.arrays = source.arrays(self.name)
        units = {} if source.frames is None else {**source.frames.label_units, **_UNITS_OF}
        found = {array.name: units.get(array.name.removesuffix("_lagged")) for array in self.arrays}
        self.units = {name: unit for name, unit in found.items() if unit is not None}

    def sample_bytes(self, source: ExportSource) -> int:
        return sum(array.nbytes for array in self.arrays)

    def _write_npy(self, source: ExportSource, run: Run, paths: Mapping[str, str], memory: int, workers: int) -> None:
        """Writes one `.npy` file for each array: version 1.0, C order."""
        with ExitStack() as stack, closing(source.blocks(run, memory, self.factor, workers)) as blocks:
            files = {name: stack.enter_context(open(path, "xb")) for name, path in paths.items()}
            for array in self.arrays:
                _write_header(files[array.name], array, len(run))
            for batch in blocks:
                for array in self.arrays:
                    files[array.name].write(np.ascontiguousarray(batch[array.name]).data)


def _write_header(file: IO[bytes], array: Array, rows: int) -> None:
    header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": (rows, *array.shape)}
    npy.write_array_header_1_0(file, header)


class Npy(ArrayFormat):
    """A `.npy` file for each array and shard: positions-00000.npy."""

    name = "npy"
    suffix = ""

    def write(self, source: ExportSource, run: Run, path: str, memory: int, workers: int) -> None:
        folder = os.path.dirname(path)
        self._write_npy(
            source, run, {one: os.path.join(folder, name) for one, name in self._files(run).items()}, memory, workers
        )

    def _files(self, run: Run) -> dict[str, str]:
        number = run.name.rpartition("-")[2]
        return {array.name: f"{array.name.replace('/', '_')}-{number}.npy" for array in self.arrays}

    def describe(self, run: Run) -> dict[str, Any]:
        return {"files": self._files(run), "samples": len(run)}


class Npz(ArrayFormat):
    """A `.npz` archive for each shard, as `numpy.savez` (stored) or `numpy.savez_compressed` (deflated) writes it.

    Members are first written as files beside the archive, which needs twice the disk space of a shard.
    """

    name = "npz"
    suffix = ".npz"

    def __init__(self, compress: bool) -> None:
        self._kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED

    def check(self, source: ExportSource) -> None:
        super().check(source)
        wrong = [array.name for array in self.arrays if "/" in array.name]
        if wrong:
            raise ArgumentError(f"array {wrong[0]}: names of members of npz have no /; give a table with another name")

    def write(self, source: ExportSource, run: Run, path: str, memory: int, workers: int) -> None:
        parts = {array.name: f"{path}.{number}.part" for number, array in enumerate(self.arrays)}
        try:
            self._write_npy(source, run, parts, memory, workers)
            with zipfile.ZipFile(path, "w", self._kind, allowZip64=True) as archive:
                for name, part in parts.items():
                    # a constant date, so that the same samples give the same bytes
                    member = zipfile.ZipInfo(f"{name}.npy")
                    member.compress_type = self._kind
                    member.external_attr = 0o600 << 16
                    with archive.open(member, "w", force_zip64=True) as target, open(part, "rb") as values:
                        while piece := values.read(_COPIED):
                            target.write(piece)
                    os.unlink(part)
        finally:
            for part in parts.values():
                if os.path.exists(part):
                    os.unlink(part)


class SamplesH5(ArrayFormat):
    """An HDF5 file for each shard, with a contiguous data set for each array. `SampleDataset` reads it in place."""

    name = "samples-h5"
    suffix = ".h5"

    def write(self, source: ExportSource, run: Run, path: str, memory: int, workers: int) -> None:
        with open(path, "xb") as file:
            # fails here at a limit of the size of files, not within HDF5
            file.truncate(_STRUCTURE + len(run) * self.sample_bytes(source))
        self._make_structure(path, len(run))
        names = [array.name for array in self.arrays]
        # bytes go to the data sets directly, past HDF5: a full disk is an error of the system
        places = {one.name: one for one in samples_of(path, names, whole=False)}
        with (
            open(path, "r+b", buffering=0) as file,
            closing(source.blocks(run, memory, self.factor, workers)) as blocks,
        ):
            row = 0
            for batch in blocks:
                for name, one in places.items():
                    assert isinstance(one.place, tuple)
                    _write_at(file.fileno(), np.ascontiguousarray(batch[name]), one.place[0] + row * one.place[1])
                row += batch.n_samples

    def _make_structure(self, path: str, rows: int) -> None:
        with hdf5_errors(path), written_in_place(path, "w") as file:
            for array in self.arrays:
                made = create_dataset(file, array.name, Storage((rows, *array.shape), array.dtype, early=True))
                if array.name in self.units:
                    made.attrs["unit"] = self.units[array.name]


def _write_at(handle: int, array: NDArray[Any], offset: int) -> None:
    rest = memoryview(array.reshape(-1).view(np.uint8).data)
    while rest:
        written = os.pwrite(handle, rest, offset)
        rest, offset = rest[written:], offset + written
