"""Density of atoms on a grid along x, y and z, over the frames of a run.

    rho_k = (1 / T) sum_t N_k(t) / (dx dy dz)

N_k is the number of atoms in bin k, or the sum of their masses or charges. The grid stays where it is, and positions
are used as they are: molecules of interest are centred or superposed before. Or the grid divides the edges of each
frame's cell, and dx dy dz is the volume of a bin, the mean over the frames. Source: MDAnalysis' `DensityAnalysis`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.declared import group_arguments
from kinema.analysis.density.cells import first_cell
from kinema.analysis.density.grid import GridAnalysis
from kinema.base.choices import check_choice, positive_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["DensityAnalysis"]

QUANTITY = ("density", "occupancy", "mass", "charge")
GRID = ("still", "cell")
# g/cm^3 of 1 u/angstrom^3
_GRAM = 1.66053906892
# numbers per angstrom^3: of 1 mol/l, and of molecules of water of a density in g/cm^3
_MOLAR = 6.02214076e-4
_PER_DENSITY = 0.602214076 / 18.016
_WATERS = {"SPC": 0.985, "TIP3P": 1.002, "TIP4P": 1.001, "water": 0.997}
_UNITS = {
    "Angstrom^{-3}": 1.0,
    "A^{-3}": 1.0,
    "nm^{-3}": 1e-3,
    "Molar": _MOLAR,
    **{name: density * _PER_DENSITY for name, density in _WATERS.items()},
}
_MOST_BINS = 1 << 32
_NOT_STILL = (
    "nothing centres or superposes the frames: the density is that in the laboratory, in which molecules move; "
    "--pbc whole --center and --fit rot+trans (kn.transforms) keep one of them still"
)
_STILL = ("center", "superpose", "progressive")


class DensityAnalysis(GridAnalysis):
    """Density of atoms on a grid.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        None: all atoms.
    delta : float, angstrom
        Width of a bin.
    metadata : mapping of str to str, optional
        Further facts for provenance.
    padding : float, angstrom
        How far the grid extends beyond the atoms of the first frame of the run, if it is not given.
    gridcenter : (3,) floats, angstrom, optional
        Centre of the grid, with the three extents.
    xdim, ydim, zdim : float, angstrom, optional
        Extents of the grid along x, y and z.
    quantity : {"density", "occupancy", "mass", "charge"}
        "occupancy": the share of frames in which a bin has at least one atom. Masses and charges are those of the
        topology.
    grid : {"still", "cell"}
        "still": a grid along x, y and z that stays where it is. "cell": a grid along the edges of each frame's cell,
        into which atoms are wrapped, of bins that are at most `delta` long in the first frame; for any cell that is
        periodic along all edges.

    After `run`
    -----------
    results.grid : (x, y, z) float64
        The quantity in each bin.
    results.density : (x, y, z) float64, angstrom^-3
    results.occupancy, results.mass, results.charge : (x, y, z) float64; 1, g/cm^3, e/angstrom^3
        In place of the density, with that quantity.
    results.edges_x, results.edges_y, results.edges_z : (bins + 1,) float64, angstrom
        With grid="cell" they are lengths along the edges a, b and c.
    results.origin, results.delta : (3,) float64, angstrom
        Centre of the first bin, and widths of a bin.
    results.cell : (3, 3) float64, angstrom, with grid="cell"
        Mean of the edges over the frames.
    results.inside, results.outside : int
        Numbers of atoms in the grid and outside, over all frames: together atoms x frames. `inside` of an occupancy
        counts bins that are occupied.

    Raises
    ------
    ArgumentError for a grid that is not given whole, is empty, or has 2^32 bins and more; for masses or charges that
    the topology does not have; with grid="cell" for frames without a cell, and for a grid that is given as well.

    Notes
    -----
    The grid is a whole number of bins, at least as large as asked for, about the same centre, as in MDAnalysis, whose
    `results.density` is an object with the grid and its edges. Bins are half open, the last one of an axis closed.
    Atoms that leave the grid are counted and noted.

    Examples
    --------
    >>> density = kn.analysis.DensityAnalysis(traj, select="name CA", delta=2.0)
    >>> density.quantities[0].unit
    'angstrom^-3'
    """

    command_name = "density"
    summary = "Density of atoms on a grid: number, mass or charge, or how often its bins are occupied."
    quantities = (
        Quantity("density", "angstrom^-3", "number density"),
        Quantity("occupancy", "1", "share of frames with an atom", "with --quantity occupancy"),
        Quantity("mass", "g/cm^3", "mass density", "with --quantity mass"),
        Quantity("charge", "e/angstrom^3", "charge density", "with --quantity charge"),
    )
    takes_changing = True
    reference = "MDAnalysis.analysis.density.DensityAnalysis"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        delta: Annotated[float, Option("--delta", "Width of a bin.", least=0.0, unit="angstrom")] = 1.0,
        metadata: Mapping[str, str] | None = None,
        padding: Annotated[
            float, Option("--padding", "Extend the grid beyond the atoms of the first frame.", least=0, unit="angstrom")
        ] = 2.0,
        gridcenter: Annotated[
            Any, Option("--gridcenter", "Centre of the grid: x, y and z.", takes="list of numbers", unit="angstrom")
        ] = None,
        xdim: Annotated[
            float | None, Option("--xdim", "Extent along x.", takes="number", least=0.0, unit="angstrom")
        ] = None,
        ydim: Annotated[
            float | None, Option("--ydim", "Extent along y.", takes="number", least=0.0, unit="angstrom")
        ] = None,
        zdim: Annotated[
            float | None, Option("--zdim", "Extent along z.", takes="number", least=0.0, unit="angstrom")
        ] = None,
        quantity: Annotated[str, Option("--quantity", "Quantity to compute.", choices=QUANTITY)] = "density",
        grid: Annotated[
            str, Option("--grid", "Grid along x, y and z, or along the cell's edges.", choices=GRID)
        ] = "still",
    ) -> None:
        given = {"gridcenter": gridcenter, "xdim": xdim, "ydim": ydim, "zdim": zdim}
        in_cell = {"grid": grid} if grid != "still" else {}
        self.check_arguments({name: value for name, value in given.items() if value is not None} | in_cell)
        check_choice("quantity", quantity, QUANTITY)
        check_choice("grid", grid, GRID)
        # only what is given, so that calls without a grid or metadata are named alike
        more = {"metadata": dict(metadata)} if metadata else {}
        super().__init__(
            trajectory, select, delta=delta, padding=padding, quantity=quantity, **given, **in_cell, **more
        )
        self.selection.check_unique()
        if not self.selection.n_atoms:
            raise ArgumentError("the selection has no atoms, expected at least one")
        self._delta, self._quantity = positive_number("delta", delta), quantity
        if not (np.isfinite(padding) and padding >= 0):
            raise ArgumentError(f"padding is a length of at least 0, found {padding!r}")
        self._padding, self._given, self._in_cell = float(padding), None, grid == "cell"
        with self._noting():
            self._weights = self._weights_of_quantity()
        if gridcenter is not None:
            center = np.asarray(gridcenter, np.float64)
            sides = np.array([positive_number(name, given[name]) for name in ("xdim", "ydim", "zdim")])
            if center.shape != (3,) or not np.isfinite(center).all():
                raise ArgumentError(f"gridcenter is three finite numbers, found {gridcenter!r}")
            self._given = center - sides / 2, center + sides / 2

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        """See `DeclaredAnalysis`: a grid is given with its centre and all of its extents."""
        super().check_arguments(given, followed=followed)
        parts = ("gridcenter", "xdim", "ydim", "zdim")
        missing = [name for name in parts if given.get(name) is None]
        if missing and len(missing) < len(parts):
            raise ArgumentError(
                f"a grid has gridcenter, xdim, ydim and zdim; {', '.join(missing)} must be given as well"
            )
        if given.get("grid") == "cell" and len(missing) < len(parts):
            raise ArgumentError("grid='cell' has the extents of the cell; leave out gridcenter, xdim, ydim and zdim")

    @property
    def measures_whole_molecules(self) -> bool:
        """See `DeclaredAnalysis`: atoms are counted one by one."""
        return False

    def notes_before(self, frames: FrameSelection) -> Sequence[str]:
        """See `Computation`: also whether a molecule is kept still."""
        still = self._in_cell or any(one.name in _STILL for one in self.trajectory.core.transforms)
        return [*super().notes_before(frames), *([] if still else [_NOT_STILL])]

    def _weights_of_quantity(self) -> dict[str, NDArray[np.float64]]:
        """(atoms,) weights as an argument of the kernel, unless atoms are counted."""
        if self._quantity not in ("mass", "charge"):
            return {}
        topology = self.trajectory.topology
        if topology is None:
            raise ArgumentError(
                f"quantity={self._quantity!r} needs a topology: open the trajectory with topology=, or take 'density'"
            )
        atoms = topology.atoms[self.selection.indices]
        return {"weights": atoms.mass_weights() if self._quantity == "mass" else np.asarray(atoms.charges, np.float64)}

    def _edges_of(self, frames: FrameSelection) -> tuple[NDArray[np.float64], ...]:
        """Edges of the grid along x, y and z: a whole number of bins about the centre of what is asked for.

        With grid="cell" they are those along the edges of the first frame's cell.
        """
        if self._in_cell:
            cell = first_cell(self.trajectory, frames, "grid='cell'", periodic=True)
            lengths = np.linalg.norm(cell, axis=1)
            n_bins = np.maximum(np.ceil(lengths / self._delta - 1e-6), 1.0)
            self._check_number(n_bins)
            return tuple(np.linspace(0.0, lengths[axis], int(n_bins[axis]) + 1) for axis in range(3))
        if self._given is None:
            read = self.trajectory.viewed_trajectory().read(
                [frames[0]], np.sort(self.selection.indices), fields=["positions"]
            )
            positions = read["positions"][0].astype(np.float64)
            if not np.isfinite(positions).all():
                raise ArgumentError(f"positions of frame {frames[0]} are not finite; give gridcenter and extents")
            least, most = positions.min(axis=0) - self._padding, positions.max(axis=0) + self._padding
        else:
            least, most = self._given
        shape = np.maximum(np.ceil((most - least) / self._delta), 1.0)
        self._check_number(shape)
        beyond = (shape * self._delta - (most - least)) / 2
        least, most = least - beyond, most + beyond
        return tuple(np.linspace(least[axis], most[axis], int(shape[axis]) + 1) for axis in range(3))

    @staticmethod
    def _check_number(shape: NDArray[np.float64]) -> None:
        if not shape.prod() < _MOST_BINS - 1:
            raise ArgumentError(f"the grid has {shape.prod():.3g} bins, expected fewer than 2^32; a larger delta helps")

    def _passes(self, frames: FrameSelection) -> Passes:
        edges = self._edges_of(frames)
        range_of_axes = {
            "least": np.array([along[0] for along in edges]),
            "most": np.array([along[-1] for along in edges]),
        }
        kernel = _core.Kernel(
            "grid_counts",
            self.trajectory.n_atoms,
            **group_arguments(self.selection, "atoms", "group"),
            **({"cell": True} if self._in_cell else range_of_axes),
            **({**self._weights, "n_frames": len(frames)} if self._weights else {}),
            shape=np.array([len(along) - 1 for along in edges], np.uint32),
            occupied=self._quantity == "occupancy",
        )
        found = yield Pass(kernel)
        rows = np.asarray(found["values"])
        n_atoms, outside = int(rows[:, 0].sum()), int(found["outside"][0])
        if outside:
            self._add_notes(
                [f"{counted(outside, 'position')} of atoms ({outside / n_atoms:.2g} of all) lay outside of the grid; a "
                 "larger padding, or gridcenter with xdim, ydim and zdim, includes them"]
            )  # fmt: skip
        more: dict[str, Any] = {}
        volume = None
        if self._in_cell:
            cells = rows[:, 1:].reshape(-1, 3, 3)
            more["cell"] = cells.mean(axis=0)
            lengths = np.linalg.norm(more["cell"], axis=1)
            edges = tuple(along / along[-1] * length for along, length in zip(edges, lengths, strict=True))
            volume = np.abs(np.linalg.det(cells)).mean() / np.prod([len(along) - 1 for along in edges])
        places = self._places(edges)
        values = np.asarray(found["sums" if self._weights else "counts"], np.float64) / len(rows)
        if self._quantity != "occupancy":
            values /= places["delta"].prod() if volume is None else volume
        if self._quantity == "mass":
            values *= _GRAM
        inside = int(found["counts"].sum()) if self._quantity == "occupancy" else n_atoms - outside
        return Results(**{self._quantity: values}, grid=values, **places, **more, inside=inside, outside=outside)

    @property
    def _main(self) -> Quantity:
        return next(one for one in self.quantities if one.name == self._quantity)

    @property
    def subject(self) -> str:
        return f"{self._main.description} of {self.selection.count(self.trajectory.n_atoms)}"

    @property
    def _title(self) -> str:
        return self._main.title

    def convert_density(self, unit: str = "Angstrom^{-3}") -> NDArray[np.float64]:
        """(x, y, z) `results.density` in another unit; results stay as they are.

        Parameters
        ----------
        unit : {"Angstrom^{-3}", "A^{-3}", "nm^{-3}", "Molar", "SPC", "TIP3P", "TIP4P", "water"}
            Names of water are multiples of its number density at 0.985, 1.002, 1.001 and 0.997 g/cm^3.

        Raises
        ------
        ArgumentError for another unit, and for another quantity.
        """
        check_choice("unit", unit, tuple(_UNITS))
        if self._quantity != "density":
            raise ArgumentError("other units are those of quantity='density', the number of atoms")
        converted: NDArray[np.float64] = self.results.density / _UNITS[unit]
        return converted
