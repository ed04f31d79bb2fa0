"""The table of formats of exported samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.ml.export.array_formats import Npy, Npz, SamplesH5
from kinema.ml.export.base import ExportFormat
from kinema.ml.export.deepmd import DeepMd
from kinema.ml.export.extxyz import ExtendedXyz

# by name, called with energy=, label_units= and compress=
_MAKERS: Mapping[str, Callable[[str | None, dict[str, str], bool], ExportFormat]] = {
    "samples-h5": lambda energy, units, compress: SamplesH5(),
    "npy": lambda energy, units, compress: Npy(),
    "npz": lambda energy, units, compress: Npz(compress),
    "extxyz": lambda energy, units, compress: ExtendedXyz(energy, units),
    "deepmd": lambda energy, units, compress: DeepMd(energy, units),
}
EXPORT_FORMATS = tuple(_MAKERS)
_CONVERTING = ("extxyz", "deepmd")


def export_format(
    name: str, energy: str | None = None, units: Mapping[str, str] | None = None, compress: bool = False
) -> ExportFormat:
    """The format with this name.

    Raises UnsupportedFormatError for LMDB, ArgumentError for other unknown names and for options that the format does
    not have.
    """
    if str(name).lower() == "lmdb":
        raise UnsupportedFormatError(
            "lmdb is not written: its values are pickles or other texts of one program each; use samples-h5, which is "
            "read in any order at the speed of the storage, or extxyz, from which programs with LMDB make their own",
            format="LMDB",
        )
    check_choice("format", name, EXPORT_FORMATS)
    if compress and name != "npz":
        raise ArgumentError(f"compress= is of npz, found format {name}; leave it out")
    if name not in _CONVERTING and (energy is not None or units):
        raise ArgumentError(
            f"{name} has labels in the units that they have; energy= and label_units= are of extxyz and deepmd"
        )
    return _MAKERS[name](energy, dict(units or {}), compress)
