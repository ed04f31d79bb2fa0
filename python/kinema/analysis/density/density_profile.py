"""Density profiles along an axis of the cell: of mass, number, charge and electrons; the electric potential.

    rho_k = < sum_i w_i [r_i in slice k] > / < v_k >
    phi(z) = -(180.9513 V angstrom / e)  int_0^z int_0^z' rho(z'') dz'' dz'

Slices are parts of the height of each frame's cell, and v_k their volume. The axis z is the normal of the edges a and
b, x that of b and c, y that of c and a: in a right-angled cell these are the axes of space. Source: MDAnalysis'
`LinearDensity`; `gmx density` and `gmx potential`, whose electrons are the atomic number less the charge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.density.cells import first_cell, heights_of, is_along_axes
from kinema.analysis.density.elements import atomic_numbers
from kinema.analysis.profile import ProfileAnalysis, block_bounds, standard_error
from kinema.base.choices import check_choice, whole_number
from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kinema.analysis.base import KernelResults
    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.storage.provenance import Provenance
    from kinema.trajectory import Trajectory

__all__ = ["LinearDensity"]

AXES = ("x", "y", "z")
GROUPING = ("atoms", "residues", "segments", "fragments")
QUANTITY = ("all", "mass", "number", "charge", "electrons")
# g/cm^3 of 1 u/angstrom^3, e mol/cm^3 of 1 e/angstrom^3
_GRAMS, _MOLES = 1.66053906660, 1.66053906717
# e / (epsilon_0 angstrom), V
_POTENTIAL = 180.9512801
_MOST_SLICES = 1 << 24
# a group whose circular mean is less sure than this is spread along the axis
_SURE = 0.1
_NET_CHARGE = 1e-3


class LinearDensity(ProfileAnalysis):
    """Density profiles along the axes of the cell.

    Parameters
    ----------
    trajectory : Trajectory
        With cells, and a topology that has the columns of the quantities.
    select : as `Trajectory.select`
        None: all atoms.
    grouping : {"atoms", "residues", "segments", "fragments"}
        Points of the profile: atoms, or the centres of mass of the selected atoms of each residue, segment or
        fragment.
    binsize : float, angstrom
        Slices are at least this wide in the first frame: there are as many as fit into the height of its cell.
    axis : {"z", "x", "y"}
        Axis of the table, of the picture and of the results without an axis.
    quantity : {"all", "mass", "number", "charge", "electrons"}
        "all": mass, number, charge, and electrons if the topology has elements.
    relative_to : as `select`, optional
        Atoms whose centre along `axis` is 0 there, by the circular mean, so that they may lie across a face of the
        cell. Other axes stay as they are.
    symmetrize : bool
        Mean of both sides of the centre of `relative_to`.
    potential : bool
        Electric potential of the charge density.
    correct : bool
        Take the mean charge density off before the potential is computed. `gmx potential -correct` takes the mean
        field of slices with charges off as well.
    n_blocks : int
        Number of consecutive parts of the run, from which standard errors are computed.

    After `run`
    -----------
    results.bins : (bins,) float64, angstrom
        Centres of the slices along `axis`; widths are the mean of the frames.
    results.edges : (bins + 1,) float64, angstrom
    results.mass : (bins,) float64, g/cm^3
    results.number, results.electrons : (bins,) float64, angstrom^-3
    results.charge : (bins,) float64, e/angstrom^3
    results.potential : (bins,) float64, V
        At the centres of the slices; 0, with its derivative, at the first edge.
    results.<quantity>_error : (bins,) float64
        Standard error, with n_blocks of at least 2.
    results.x, results.y, results.z : Results
        Profiles along each axis, as in MDAnalysis: `mass_density` and `mass_density_stddev` (g/cm^3), `charge_density`
        and `charge_density_stddev` (e mol/cm^3: 1 e/angstrom^3 is 1.66054), `slice_volume` (angstrom^3) and
        `hist_bin_edges`; also `number_density` and `electron_density` with `_stddev` (angstrom^-3). Deviations are of
        the content of a slice over frames.

    Raises
    ------
    ArgumentError if masses, charges or elements are missing, naming the column; without a cell; if a slice is higher
    than the cell.

    Notes
    -----
    Each axis has slices of its own. MDAnalysis has one range for all axes, the volume a x b x c, and the cell of the
    first frame: the same numbers only in constant cubes. Weights are summed in fixed point, exact in any order of
    frames; provenance names the largest rounding of a weight.

    Examples
    --------
    >>> profile = kn.analysis.LinearDensity(traj, select="protein")
    >>> profile.quantities[0].unit
    'g/cm^3'
    """

    command_name = "density-profile"
    summary = "Density profiles along an axis of the cell: mass, number, charge, electrons, potential."
    quantities = (
        Quantity("mass", "g/cm^3", "mass density"),
        Quantity("number", "angstrom^-3", "number density"),
        Quantity("charge", "e/angstrom^3", "charge density"),
        Quantity("electrons", "angstrom^-3", "electron density"),
        Quantity("potential", "V", "electric potential", "with --potential"),
    )
    reference = "MDAnalysis.analysis.lineardensity.LinearDensity; gmx density, gmx potential"

    #: names of MDAnalysis and factors from weights per angstrom^3, of results of an axis
    _of_axis: ClassVar[Mapping[str, tuple[str, float]]] = {
        "mass": ("mass_density", _GRAMS),
        "number": ("number_density", 1.0),
        "charge": ("charge_density", _MOLES),
        "electrons": ("electron_density", 1.0),
    }

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        grouping: Annotated[str, Option("--grouping", "Count these, by centres of mass.", choices=GROUPING)] = "atoms",
        binsize: Annotated[float, Option("--binsize", "Least width of a slice.", least=0.0, unit="angstrom")] = 0.25,
        axis: Annotated[str, Option("--axis", "Axis of the profile.", choices=AXES)] = "z",
        quantity: Annotated[str, Option("--quantity", "Quantity to compute.", choices=QUANTITY)] = "all",
        relative_to: Annotated[Any, Option("--relative-to", "Atoms whose centre is 0.", takes="atoms")] = None,
        symmetrize: Annotated[bool, Option("--symmetrize", "Mean of both sides of --relative-to.")] = False,
        potential: Annotated[bool, Option("--potential", "Also the electric potential.")] = False,
        correct: Annotated[bool, Option("--correct", "Take the mean charge off before --potential.")] = False,
        n_blocks: Annotated[int, Option("--n-blocks", "Parts of the run, for standard errors.", least=1)] = 1,
    ) -> None:
        given = {"quantity": quantity, "potential": potential, "correct": correct, "symmetrize": symmetrize}
        self.check_arguments({**given, "relative_to": relative_to})
        check_choice("grouping", grouping, GROUPING)
        check_choice("axis", axis, AXES)
        check_choice("quantity", quantity, QUANTITY)
        self.n_blocks = whole_number("n_blocks", n_blocks)
        if not (np.isfinite(binsize) and binsize > 0):
            raise ArgumentError(f"binsize is a length above 0, found {binsize!r}")
        about = None if relative_to is None else trajectory.select(relative_to)
        more = {"grouping": grouping, "binsize": binsize, "axis": axis, "relative_to": about, "n_blocks": n_blocks}
        super().__init__(trajectory, select, **given, **more)
        self.selection.check_unique()
        if about is not None:
            about.check_unique()
        self._about, self._symmetrize = about, bool(symmetrize)
        self._place, self._binsize = AXES.index(axis), float(binsize)
        self.axis = Quantity(axis, "angstrom", f"position along {axis}")
        self._potential, self._correct, self._grouping = bool(potential), bool(correct), grouping
        self._units: dict[str, float] = {}
        with self._noting():
            self._weights = self._weights_by_quantity(quantity)
            self._points = self._grouped()

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        super().check_arguments(given, followed=followed)
        if given.get("correct") and not given.get("potential"):
            raise ArgumentError("correct= is of the potential; give potential= as well")
        if given.get("symmetrize") and given.get("relative_to") is None:
            raise ArgumentError("symmetrize= needs a centre; give relative_to= as well")
        if given.get("potential") and given.get("quantity", "all") not in ("all", "charge"):
            raise ArgumentError(f"potential= is that of charges, which quantity={given['quantity']!r} does not have")

    @property
    def measures_whole_molecules(self) -> bool:
        """See `DeclaredAnalysis`: centres of broken molecules are wrong."""
        return self._grouping != "atoms"

    def _weights_by_quantity(self, quantity: str) -> dict[str, NDArray[np.float64]]:
        """(atoms,) weights of each quantity. Raises ArgumentError for a column that the topology does not have."""
        indices = self.selection.indices
        found: dict[str, NDArray[np.float64]] = {}
        if quantity in ("all", "number"):
            found["number"] = np.ones(len(indices))
        if quantity == "number":
            return found
        if self.trajectory.topology is None:
            raise ArgumentError(
                f"quantity={quantity!r} needs a topology: open the trajectory with topology=, or take 'number'"
            )
        atoms = self.trajectory.atoms
        if quantity in ("all", "mass"):
            found["mass"] = atoms[indices].mass_weights()
        if quantity in ("all", "charge", "electrons"):
            charges = np.asarray(atoms.charges, np.float64)[indices]
            if quantity != "electrons":
                found["charge"] = charges
            if quantity == "electrons" or atoms.get("elements") is not None:
                found["electrons"] = atomic_numbers(atoms[indices], "the number of electrons") - charges
        return found

    def _grouped(self) -> dict[str, Any]:
        """Arguments of the kernel: the points and their weights."""
        if self._grouping == "atoms":
            return {"atoms": self.selection.indices, "weights": np.array(list(self._weights.values()))}
        from kinema.model.selection.compounds import GroupedAtoms, groups_of

        topology = self.trajectory.topology
        groups = groups_of(self.selection, None if topology is None else topology.atoms, self._grouping)
        masses = self.trajectory.atoms[self.selection.indices].mass_weights()
        sums = {name: np.array([w[one.places].sum() for one in groups]) for name, w in self._weights.items()}
        if "number" in sums:
            sums["number"] = np.ones(len(groups))
        weights = np.array(list(sums.values()))
        masses = masses[np.concatenate([one.places for one in groups])]
        return {**GroupedAtoms.from_groups(groups).arguments, "masses": masses, "weights": weights}

    def _passes(self, frames: FrameSelection) -> Passes:
        cell = first_cell(self.trajectory, frames, "a density profile", periodic=False)
        if not is_along_axes(cell):
            self._add_notes(
                ["the cell is not right-angled: x, y and z are the normals of its faces, of b c, c a and a b"]
            )
        slices = self._n_slices(cell)
        blocks = block_bounds(frames, self.n_blocks)
        about = {} if self._about is None else {"about": self._about.indices, "axis": self._place}
        kernel = _core.Kernel(
            "density_profile",
            self.trajectory.n_atoms,
            **self._points,
            **about,
            slices=slices.astype(np.uint32),
            n_frames=len(frames),
            blocks=blocks.astype(np.float64),
            symmetrize=self._symmetrize,
        )
        found = yield Pass(kernel)
        numbers = found["frames"] if "frames" in found else frames.numbers()
        self._note_frames(found["values"])
        return self._results_of(found, slices, np.searchsorted(blocks, numbers, side="right") - 1)

    def _n_slices(self, cell: NDArray[np.float64]) -> NDArray[np.int64]:
        """(3,) slices along each axis, as many as fit into the cell."""
        heights = heights_of(cell)
        # a height may be a multiple except for its last digits
        slices = np.floor(heights / self._binsize + 1e-6)
        if slices.min() < 1:
            at = int(slices.argmin())
            raise ArgumentError(
                f"binsize={self._binsize:g} is more than the height of the cell along {AXES[at]}, "
                f"{heights[at]:.6g} angstrom"
            )
        if slices.max() > _MOST_SLICES:
            raise ArgumentError(f"binsize={self._binsize:g} makes more than {_MOST_SLICES:,} slices; take a larger one")
        return slices.astype(np.int64)

    def _note_frames(self, values: NDArray[np.float64]) -> None:
        """Notes on points outside of the cell, and on a group that has no centre."""
        notes = []
        if outside := int(values[:, 4].sum()):
            notes.append(f"{outside} positions lie outside of open edges of the cell, and are in no slice")
        if self._about is not None and values[:, 5].min() < _SURE:
            notes.append(
                f"relative_to={self._about.description!r} is spread along {self.axis.name}: its centre there is not "
                "sure"
            )
        self._add_notes(notes)

    def _results_of(self, found: KernelResults, slices: NDArray[np.int64], block: NDArray[np.int64]) -> Results:
        names = list(self._weights)
        self._units = dict(zip(names, found["units"].tolist(), strict=True))
        heights, volumes = found["values"][:, :3].mean(axis=0), found["values"][:, 3]
        n_frames = found["n_frames"].astype(np.float64)
        sums = found["sums"].sum(axis=0) * found["units"] / n_frames.sum()
        starts = np.concatenate([[0], np.cumsum(slices)])
        # both sides of the centre are in a sum
        sides = np.where((np.arange(3) == self._place) & self._symmetrize, 2.0, 1.0)
        of_axes: dict[str, Results] = {}
        for place, name in enumerate(AXES):
            rows = slice(starts[place], starts[place + 1])
            volume = volumes.mean() / slices[place]
            of_axis: dict[str, Any] = {"slice_volume": volume}
            edges = heights[place] * np.arange(slices[place] + 1) / slices[place]
            if place == self._place and self._about is not None:
                edges = edges - heights[place] / 2
            of_axis["hist_bin_edges"] = edges
            for column, quantity in enumerate(names):
                called, factor = self._of_axis[quantity]
                factor = factor / (volume * sides[place])
                of_axis[called] = sums[rows, column] * factor
                of_axis[f"{called}_stddev"] = found["deviations"][rows, column] * factor
            of_axes[name] = Results(**of_axis)
        rows = slice(starts[self._place], starts[self._place + 1])
        in_blocks = np.array([volumes[block == one].mean() for one in range(self.n_blocks)]) / slices[self._place]
        weights = found["sums"][:, rows] * found["units"] / (n_frames * in_blocks)[:, None, None] / sides[self._place]
        return Results(**self._of_main_axis(of_axes[self.axis.name], weights), **of_axes)

    def _of_main_axis(self, of_axis: Results, in_blocks: NDArray[np.float64]) -> dict[str, Any]:
        """Results without the name of an axis; `in_blocks` (blocks, bins, quantities) are weights per angstrom^3."""
        edges = of_axis.hist_bin_edges
        found: dict[str, Any] = {"bins": (edges[1:] + edges[:-1]) / 2, "edges": edges}
        for column, name in enumerate(self._weights):
            called, factor = self._of_axis[name]
            # a charge is in e/angstrom^3 here, without moles
            scale, own = (1.0 / factor, 1.0) if name == "charge" else (1.0, factor)
            found[name] = of_axis[called] * scale
            if self.n_blocks > 1:
                found[f"{name}_error"] = standard_error(in_blocks[:, :, column] * own)
        if self._potential:
            width = edges[1] - edges[0]
            found["potential"] = self._potential_of(found["charge"], width)
            if self.n_blocks > 1:
                column = list(self._weights).index("charge")
                of_blocks = [self._potential_of(one, width) for one in in_blocks[:, :, column]]
                found["potential_error"] = standard_error(np.array(of_blocks))
            self._note_net_charge(found["charge"], width)
        return found

    def _potential_of(self, charge: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        """The potential at the centres of slices, exact if the charge density is constant in each."""
        if self._correct:
            charge = charge - charge.mean()
        # integrals up to the lower edge of each slice
        first = np.concatenate([[0.0], np.cumsum(charge) * width])
        second = np.concatenate([[0.0], np.cumsum(first[:-1] * width + charge * width**2 / 2)])
        return -_POTENTIAL * (second[:-1] + first[:-1] * width / 2 + charge * width**2 / 8)

    def _note_net_charge(self, charge: NDArray[np.float64], width: float) -> None:
        net = self._weights["charge"].sum()
        if abs(net) > _NET_CHARGE and not self._correct:
            self._add_notes(
                [f"the atoms have a net charge of {net:.4g} e: the potential does not return to 0 at the last edge; "
                 "correct=True (--correct) takes the mean charge off"]
            )  # fmt: skip

    @property
    def subject(self) -> str:
        return f"{self.summarised[1].description} of {self.selection.count(self.trajectory.n_atoms)}"

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        """See `DeclaredAnalysis`: the first quantity that was computed."""
        main = next(one for one in self.quantities if one.name in self._weights)
        return np.reshape(self.results[main.name], (-1, 1)), main

    @property
    def _title(self) -> str:
        return f"Density profile along {self.axis.name}"

    def _provenance(self, command: str | None, frames: FrameSelection | None) -> Provenance:
        found = super()._provenance(command, frames)
        if not self._units:
            return found
        units = ", ".join(f"{name} {unit / 2:.1e}" for name, unit in self._units.items())
        return replace(found, parameters={**found.parameters, "largest rounding of a weight": units})
