"""DeePMD's npy layout: a folder for each system (type.raw, type_map.raw, set.000/coord.npy, ...); angstrom and eV."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.schema import SYMBOLS
from kinema.ml.batch import Batch
from kinema.ml.export.base import ExportFormat, ranges_of
from kinema.ml.export.energies import FORCE_TO_EV, Energies, converted, elements_of
from kinema.ml.export.source import ExportSource, Run


class DeepMd(ExportFormat):
    """A system has the frames of all trajectories whose atoms have the same elements in the same order, in their order.

    A system without a cell has the file `nopbc`, and boxes of zeros.
    """

    name = "deepmd"
    suffix = ""
    # as arrays, and as copies in other units
    factor = 6.0

    def __init__(self, energy: str | None, units: dict[str, str]) -> None:
        self._named, self._given = energy, units
        self.units = {"coord": "angstrom", "box": "angstrom", "force": "eV/angstrom", "energy": "eV"}

    def check(self, source: ExportSource) -> None:
        frames = source.require_frames(self.name)
        self._fields = frames.fields
        if "positions" not in self._fields or not {"positions", "forces"}.issuperset(self._fields):
            raise ArgumentError(f"deepmd has positions and forces, found fields {', '.join(self._fields)}")
        self._energies = Energies.from_source(source, self.name, self._named, self._given)
        others = [name for name in frames.label_units if name != self._energies.name]
        if others:
            raise ArgumentError(f"deepmd has no label {others[0]}, only the energy; leave it out, or use extxyz or npz")
        self._energies.convert_batch(source.dataset.read([0], workers=1))
        numbers = elements_of(frames, self.name)
        there = sorted(set(np.concatenate(numbers).tolist()))
        self._type_map = [SYMBOLS[number - 1] for number in there]
        # trajectories of each system, by the types of its atoms
        self._systems: dict[bytes, list[int]] = {}
        for trajectory in np.unique(source.trajectory_of).tolist():
            types = np.searchsorted(there, numbers[trajectory]).astype(np.int64)
            self._systems.setdefault(types.tobytes(), []).append(trajectory)

    def sample_bytes(self, source: ExportSource) -> int:
        return source.dataset.sample_bytes

    def runs(self, source: ExportSource, shard_bytes: int | None) -> list[Run]:
        """Sets of each system."""
        runs: list[Run] = []
        for number, trajectories in enumerate(self._systems.values()):
            samples = np.flatnonzero(np.isin(source.trajectory_of, trajectories))
            length = len(samples) if shard_bytes is None else max(1, shard_bytes // self.sample_bytes(source))
            for at in range(0, len(samples), length):
                name = f"system-{number:03d}/set.{at // length:03d}"
                runs.append(Run(name, ranges_of(samples[at : at + length])))
        return runs

    def write(self, source: ExportSource, run: Run, path: str, memory: int, workers: int) -> None:
        os.makedirs(path)
        width = 3 * self._types(run.name).size
        with ExitStack() as stack, closing(source.blocks(run, memory, self.factor, workers)) as blocks:
            files: dict[str, Any] = {}
            for batch in blocks:
                for name, (values, columns) in self._arrays(batch, width).items():
                    if name not in files:
                        files[name] = stack.enter_context(open(os.path.join(path, f"{name}.npy"), "xb"))
                        shape = (len(run), *columns)
                        descr = npy.dtype_to_descr(values.dtype)
                        npy.write_array_header_1_0(
                            files[name], {"descr": descr, "fortran_order": False, "shape": shape}
                        )
                    files[name].write(np.ascontiguousarray(values).data)

    def _arrays(self, batch: Batch, width: int) -> dict[str, tuple[NDArray[Any], tuple[int, ...]]]:
        positions = batch["positions"]
        arrays: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
            "coord": (positions, (width,)),
            "box": (batch["cell"].astype(positions.dtype), (9,)),
        }
        if "forces" in self._fields:
            arrays["force"] = (converted(batch["forces"], FORCE_TO_EV), (width,))
        energies = self._energies.convert_batch(batch)
        if energies is not None:
            arrays["energy"] = (energies, ())
        return arrays

    def finish(self, source: ExportSource, runs: Sequence[Run], folder: str) -> None:
        for number, types in enumerate(self._systems):
            system = os.path.join(folder, f"system-{number:03d}")
            own = [run for run in runs if run.name.startswith(f"system-{number:03d}/")]
            _write_lines(system, "type.raw", map(str, np.frombuffer(types, np.int64)))
            _write_lines(system, "type_map.raw", self._type_map)
            empty = [_frames_without_box(os.path.join(folder, run.name, "box.npy")) for run in own]
            without, frames = sum(empty), sum(len(run) for run in own)
            if without == frames:
                _write_lines(system, "nopbc", [])
            elif without:
                raise ArgumentError(
                    f"{without} of {frames} frames of system {number} have no cell, which deepmd says of all or none; "
                    "export them by themselves"
                )

    def _types(self, name: str) -> NDArray[np.int64]:
        number = int(name.partition("/")[0].rpartition("-")[2])
        return np.frombuffer(list(self._systems)[number], np.int64)

    def describe(self, run: Run) -> dict[str, Any]:
        return {"folder": run.name, "samples": len(run)}


def _frames_without_box(path: str) -> int:
    boxes = np.load(path)
    return int(np.count_nonzero(~boxes.any(axis=1)))


def _write_lines(folder: str, name: str, lines: Any) -> None:
    with open(os.path.join(folder, name), "x", encoding="ascii") as file:
        file.writelines(f"{line}\n" for line in lines)
