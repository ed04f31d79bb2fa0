"""`GridAnalysis`: an analysis whose result is a quantity on a grid along x, y and z, such as a density."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema.analysis.declared import DeclaredAnalysis
from kinema.analysis.density.cells import is_along_axes
from kinema.base.errors import ArgumentError, missing_package
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.analysis.declaration import Quantity

__all__ = ["GridAnalysis"]


class GridAnalysis(DeclaredAnalysis):
    """An analysis whose result is a quantity in the bins of a grid along x, y and z.

    Tables have a row for each bin, with its centre. `save` also writes .npz and .h5 (`grid`, `edges_x`, `edges_y`,
    `edges_z`, `origin`, `delta`, `provenance`; `cell`, if the grid is along the edges of a cell), and for grids along
    x, y and z .dx through GridDataFormats and .mrc through mrcfile, in single precision. The picture has three sections
    through the middle of the grid.

    After `run`
    -----------
    results.grid : (x, y, z) float64
        The quantity in each bin.
    results.edges_x, results.edges_y, results.edges_z : (bins + 1,) float64, angstrom
    results.origin : (3,) float64, angstrom
        Centre of the first bin.
    results.delta : (3,) float64, angstrom
        Widths of a bin.
    """

    other_formats: ClassVar[Mapping[str, str]] = {
        ".npz": "the grid with its edges",
        ".h5": "the same in HDF5",
        ".dx": "the grid for OpenDX",
        ".mrc": "the grid as an MRC2014 map",
    }

    @property
    def edges(self) -> tuple[NDArray[np.float64], ...]:
        """Edges of the bins along x, y and z, angstrom."""
        return tuple(self.results[f"edges_{axis}"] for axis in "xyz")

    @property
    def _names(self) -> str:
        """Names of the axes, a letter each: of space, or of the edges of a cell."""
        return "abc" if "cell" in self.results and not is_along_axes(self.results.cell) else "xyz"

    @staticmethod
    def _places(edges: tuple[NDArray[np.float64], ...]) -> dict[str, NDArray[np.float64]]:
        """Results that say where the grid is."""
        named = {f"edges_{axis}": along for axis, along in zip("xyz", edges, strict=True)}
        origin = np.array([(along[0] + along[1]) / 2 for along in edges])
        delta = np.array([(along[-1] - along[0]) / (len(along) - 1) for along in edges])
        return {**named, "origin": origin, "delta": delta}

    @property
    def _main(self) -> Quantity:
        """The quantity that was computed."""
        return self.quantities[0]

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        return self.results.grid.reshape(-1, 1), self._main

    @property
    def summarised_over(self) -> str | None:
        """See `DeclaredAnalysis`: "30 x 30 x 30 bins"."""
        *first, last = self.results.grid.shape
        return f"{' x '.join(f'{n:,}' for n in first)} x {counted(last, 'bin')}"

    def _table(self) -> Table:
        centres = [(along[1:] + along[:-1]) / 2 for along in self.edges]
        places = np.meshgrid(*centres, indexing="ij")
        axes = [Column(name, along.ravel(), "angstrom") for name, along in zip(self._names, places, strict=True)]
        values = Column(self._main.name, self.results.grid.ravel(), self._main.unit, digits=self._digits)
        return Table(self._title, (*axes, values), x=axes[0].name)

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_sections

        unit = table.columns[0].unit
        scale = 0.1 if unit == "nm" else 1.0
        values = table.columns[-1]
        edges = [along * scale for along in self.edges]
        label = self._main.description if values.unit == "1" else f"{self._main.description} ({values.unit})"
        grid = values.values.reshape(self.results.grid.shape)
        return draw_sections(grid, edges, unit, label, self._title, self._names)

    def _write_other(self, path: str, name: str) -> None:
        of, suffix = self.results, os.path.splitext(path)[1]
        lines = self.provenance().lines()
        if suffix in (".npz", ".h5"):
            kept = ("grid", "origin", "delta", "cell", *(f"edges_{axis}" for axis in "xyz"))
            arrays: dict[str, Any] = {one: np.asarray(of[one]) for one in kept if one in of}
            if suffix == ".npz":
                np.savez(path, provenance=np.array(lines), **arrays)
            else:
                from kinema.storage.hdf5.storage import write_results

                unit = {name: {"unit": self._main.unit if name == "grid" else "angstrom"} for name in arrays}
                written = {name: (values, unit[name]) for name, values in arrays.items()}
                write_results(path, {"provenance": lines}, written, ordered=False)
            return
        if self._names != "xyz":
            raise ArgumentError(
                f"{name}: the grid is along the edges of a cell that is not right-angled; save .npz or .h5"
            )
        if suffix == ".mrc":
            self._write_mrc(path, name)
            return
        try:
            from gridData import Grid
        except ImportError as error:
            raise missing_package(f"a {suffix} file", "GridDataFormats", "mdanalysis", error, name) from None
        grid = Grid(of.grid, edges=list(self.edges), metadata={"provenance": "; ".join(lines)})
        grid.export(path)

    def _write_mrc(self, path: str, name: str) -> None:
        # not by GridDataFormats, which rounds the origin to a multiple of the bins
        try:
            import mrcfile
        except ImportError as error:
            raise missing_package("a .mrc file", "mrcfile", "mdanalysis", error, name) from None
        with mrcfile.new(path, overwrite=True) as file:
            file.set_data(np.ascontiguousarray(self.results.grid.T, np.float32))
            file.set_volume()
            file.voxel_size = tuple(self.results.delta)
            file.header.origin = tuple(self.results.origin)
            unit = self._main.unit
            file.add_label(self._main.description if unit == "1" else f"{self._main.description}, {unit}")
