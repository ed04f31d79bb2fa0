"""Dimensions and variables of a NetCDF-4 file as HDF5 has them: dimension scales, and data sets attached to them.

Source: NetCDF file format specification, the netCDF-4 format. A dimension is a dimension scale: the variable of its
name, or a scale without values, with its number in `_Netcdf4Dimid`. The longest variable gives the number of frames.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.formats.h5md.write.metadata import Dialect
from kinema.storage.hdf5.storage import Storage, create_dataset, series_storage, write_dataset

FILL = 9.9692099683868690e36
"""netCDF's value for numbers that were never written."""

_TEXT = Dialect("h5md")
_WITHOUT_VARIABLE = "This is a netCDF dimension but not a netCDF variable.%10d"


class Structure:
    """The dimensions and variables of the root group."""

    def __init__(self, root: h5py.Group) -> None:
        self.root = root
        self._scales: dict[str, Any] = {}

    def text(self, node: Any, name: str, value: str) -> None:
        """Sets an attribute of a variable, or of the file."""
        _TEXT.write_attributes(node, {name: value})

    def add_dimension(self, name: str, length: int | None, labels: tuple[str, ...] = (), over: str = "") -> None:
        """Adds a dimension; length None: unlimited.

        With `labels` it has a variable of its name, of a letter each, or of words over another dimension.
        """
        number = len(self._scales)
        if not labels:
            storage = Storage((length or 0,), np.dtype(">f4"))
            if length is None:
                storage = series_storage(storage.dtype)
            scale, title = create_dataset(self.root, name, storage), _WITHOUT_VARIABLE % (length or 0)
        else:
            letters = np.array([label.encode() for label in labels])
            width = letters.dtype.itemsize
            values = letters.view("S1").reshape((len(labels), width) if over else (len(labels),))
            scale, title = write_dataset(self.root, name, values), name
        if over:
            numbers = [number, self._scales[over].attrs["_Netcdf4Dimid"]]
            scale.attrs.create("_Netcdf4Coordinates", np.array(numbers, np.int32))
        h5py.h5ds.set_scale(scale.id, title.encode())
        scale.attrs.create("_Netcdf4Dimid", np.int32(number))
        self._scales[name] = scale

    def add_variable(
        self, name: str, dimensions: tuple[str, ...], storage: Storage, unit: str = "", factor: float | None = None
    ) -> Any:
        """Adds an empty variable over dimensions, whose values readers multiply by `factor`."""
        variable = create_dataset(self.root, name, storage)
        for axis, dimension in enumerate(dimensions):
            h5py.h5ds.attach_scale(variable.id, self._scales[dimension].id, axis)
        if unit:
            self.text(variable, "units", unit)
        if factor is not None:
            variable.attrs.create("scale_factor", np.float64(factor))
        return variable

    def remove_variable(self, name: str, dimensions: tuple[str, ...]) -> None:
        """Removes a variable of these dimensions."""
        variable = self.root[name]
        for axis, dimension in enumerate(dimensions):
            h5py.h5ds.detach_scale(variable.id, self._scales[dimension].id, axis)
        del self.root[name]

    def add_values(self, name: str, dimensions: tuple[str, ...], values: NDArray[Any], unit: str = "") -> None:
        """Adds a variable with its values."""
        self.add_variable(name, dimensions, Storage(values.shape, values.dtype), unit)[...] = values
