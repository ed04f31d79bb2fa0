"""Extended XYZ as ASE reads it: angstrom, eV, eV/angstrom; the text is made in Rust."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.formats.h5md.schema import SYMBOLS
from kinema.ml.batch import Batch
from kinema.ml.export.base import ExportFormat
from kinema.ml.export.energies import FORCE_TO_EV, Energies, converted, elements_of, key_of
from kinema.ml.export.source import ExportSource, Run

# approximate bytes of text for each byte of float32 coordinates, and of a line of keys
_TEXT = 3
_LINE = 300
_COLUMNS = {"positions": "pos", "forces": "forces"}
_RESERVED = ("Lattice", "Properties", "pbc", "energy", "step", "time", "forces", "positions", "stress", "virial")


class ExtendedXyz(ExportFormat):
    """Frames of any systems, one after the other, as `.extxyz`."""

    name = "extxyz"
    suffix = ".extxyz"
    # three blocks, the text in Rust and in Python, copies in other units
    factor = 12.0

    def __init__(self, energy: str | None, units: dict[str, str]) -> None:
        self._named, self._given = energy, units
        self.units = {
            "positions": "angstrom",
            "cell": "angstrom",
            "forces": "eV/angstrom",
            "energy": "eV",
            "time": "ps",
        }

    def check(self, source: ExportSource) -> None:
        frames = source.require_frames(self.name)
        self._fields = frames.fields
        if "positions" not in self._fields:
            raise ArgumentError("extxyz has positions of the atoms; add them to fields=")
        wrong = [name for name in self._fields if name not in _COLUMNS]
        if wrong:
            raise ArgumentError(f"extxyz has positions and forces here, found {wrong[0]}; use npz, npy or samples-h5")
        elements_of(frames, self.name)
        self._energies = Energies.from_source(source, self.name, self._named, self._given)
        self._keys = {name: key_of(name) for name in frames.label_units if name != self._energies.name}
        taken = [name for name, key in self._keys.items() if key in _RESERVED]
        if taken:
            raise ArgumentError(f"label {taken[0]} has a name that extxyz uses itself; give it another name")
        self._energies.convert_batch(source.dataset.read([0], workers=1))

    def sample_bytes(self, source: ExportSource) -> int:
        return _TEXT * source.dataset.sample_bytes + _LINE

    def write(self, source: ExportSource, run: Run, path: str, memory: int, workers: int) -> None:
        with open(path, "xb") as file, closing(source.blocks(run, memory, self.factor, workers)) as blocks:
            for batch in blocks:
                file.writelines(self._text(batch, workers))

    def _text(self, batch: Batch, workers: int) -> list[bytes]:
        n = batch.n_samples
        begins = batch.get("ptr")
        if begins is None:
            begins = np.arange(n + 1, dtype=np.int64) * batch["positions"].shape[1]
        # positions first, as readers expect them
        vectors = [name for name in _COLUMNS if name in self._fields]
        keys: list[tuple[str, Any, int]] = []
        energies = self._energies.convert_batch(batch)
        if energies is not None:
            keys.append(("energy", energies, 1))
        keys += [("step", _flat(batch["step"]), 1), ("time", _flat(batch["time"]), 1)]
        for name, key in self._keys.items():
            values = _flat(batch[name])
            keys.append((key, values, len(values) // n))
        return _core.extended_xyz(
            np.ascontiguousarray(begins, np.int64),
            batch["atomic_numbers"].reshape(-1).astype(np.uint8),
            _symbols(),
            _flat(batch["cell"]),
            ":".join(["species:S:1", *(f"{_COLUMNS[name]}:R:3" for name in vectors)]),
            [_flat(converted(batch[name], FORCE_TO_EV) if name == "forces" else batch[name]) for name in vectors],
            keys,
            workers,
        )


@cache
def _symbols() -> list[str]:
    return ["X", *SYMBOLS]


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    """(values,) of one of the types that are printed: int64, float32 or float64."""
    if values.dtype.kind in "iub":
        values = values.astype(np.int64)
    elif values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    return np.ascontiguousarray(values).reshape(-1)
