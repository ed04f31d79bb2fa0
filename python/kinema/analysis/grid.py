"""`GridAnalysis`: an analysis whose result is a quantity on a grid along x, y and z, such as a density."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema.analysis.declared import DeclaredAnalysis
from kinema.base.errors import missing_package
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.analysis.declaration import Quantity

__all__ = ["GridAnalysis"]


class GridAnalysis(DeclaredAnalysis):
    """An analysis whose result is a quantity in the bins of a grid along x, y and z.

    Tables have a row for each bin, with its centre. `save` also writes .npz (`grid`, `edges_x`, `edges_y`, `edges_z`,
    `origin`, `delta`, `provenance`), and .dx through GridDataFormats. The picture has three sections through
    the middle of the grid.

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
        ".dx": "the grid for OpenDX",
    }

    @property
    def edges(self) -> tuple[NDArray[np.float64], ...]:
        """Edges of the bins along x, y and z, angstrom."""
        return tuple(self.results[f"edges_{axis}"] for axis in "xyz")

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
        axes = [Column(name, along.ravel(), "angstrom") for name, along in zip("xyz", places, strict=True)]
        values = Column(self._main.name, self.results.grid.ravel(), self._main.unit, digits=self._digits)
        return Table(self._title, (*axes, values), x="x")

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_sections

        unit = table.columns[0].unit
        scale = 0.1 if unit == "nm" else 1.0
        values = table.columns[-1]
        edges = [along * scale for along in self.edges]
        label = self._main.description if values.unit == "1" else f"{self._main.description} ({values.unit})"
        return draw_sections(values.values.reshape(self.results.grid.shape), edges, unit, label, self._title)

    def _write_other(self, path: str, name: str) -> None:
        of = self.results
        if os.path.splitext(path)[1] == ".npz":
            edges = {f"edges_{axis}": of[f"edges_{axis}"] for axis in "xyz"}
            lines = np.array(self.provenance().lines())
            np.savez(path, grid=of.grid, origin=of.origin, delta=of.delta, provenance=lines, **edges)
            return
        try:
            from gridData import Grid
        except ImportError as error:
            raise missing_package(
                f"a {os.path.splitext(path)[1]} file", "GridDataFormats", "mdanalysis", error, name
            ) from None
        grid = Grid(of.grid, edges=list(self.edges), metadata={"provenance": "; ".join(self.provenance().lines())})
        grid.export(path)
