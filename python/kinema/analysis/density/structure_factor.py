"""Static structure factor, as a direct sum over the wave vectors of each frame's cell.

    S(k) = < |sum_j f_j exp(i k.r_j)|^2 > / sum_j f_j^2,   S_ab(k) = < Re rho_a(k) rho_b(k)* > / sqrt(N_a N_b)

Wave vectors k are those of the reciprocal lattice, 2 pi (h a* + k b* + l c*) with 0 < |k| <= kmax; values are means
over frames and all wave vectors in a bin of |k|. S_ab are partial structure factors with rho_a(k) the sum of
exp(i k.r_j) over the atoms of kind a. Source: N. W. Ashcroft, D. C. Langreth, Phys. Rev. 156, 685 (1967); freud's
StaticStructureFactorDirect.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.density.cells import first_cell
from kinema.analysis.density.elements import neutron_lengths
from kinema.analysis.profile import ProfileAnalysis, block_bounds, standard_error
from kinema.base.choices import check_choice, whole_number
from kinema.base.errors import ArgumentError
from kinema.model.elements import symbols_of
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kinema.analysis.base import KernelResults
    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["StructureFactor"]

WEIGHTS = ("equal", "neutron")
BY = ("none", "element", "type", "name")
_MOST_KINDS = 128


class StructureFactor(ProfileAnalysis):
    """Static structure factor over the length of wave vectors.

    Parameters
    ----------
    trajectory : Trajectory
        Periodic in three dimensions.
    select : as `Trajectory.select`
        None: all atoms.
    kmax, kmin : float, 1/angstrom
        Largest and least length of wave vectors.
    nbins : int
        Number of bins from `kmin` to `kmax`.
    weights : {"equal", "neutron"} or (atoms,) array
        f of each atom: 1, the coherent neutron scattering length of its element, or numbers of your own.
    by : {None, "element", "type", "name"}
        Also partial structure factors of all pairs of kinds of atoms, of which each has one weight.
    n_blocks : int
        Number of consecutive parts of the run, from which standard errors are taken; 1: none.

    After `run`
    -----------
    results.bins : (nbins,) float64, 1/angstrom
        Centres of the bins.
    results.edges : (nbins + 1,) float64, 1/angstrom
    results.structure_factor : (nbins,) float64
        nan in bins without a wave vector.
    results.wave_vectors : (nbins,) float64
        Mean number of wave vectors of a frame in each bin, k and -k.
    results.partial : (nbins, pairs) float64, with by
        Partial structure factors of the pairs in `pairs`, without weights.
    results.structure_factor_error, results.partial_error : the same shapes, with n_blocks

    Attributes
    ----------
    pairs : list of (str, str)
        Kinds of each column of `results.partial`.

    Raises
    ------
    ArgumentError if a cell is open along an edge, for an element without a known length, and if atoms of one kind
    differ in their weights.

    Examples
    --------
    >>> factor = kn.analysis.StructureFactor(traj, select="name CA", kmax=2.0, nbins=20)
    >>> factor.axis.unit
    'angstrom^-1'
    """

    command_name = "structure-factor"
    summary = "Static structure factor by direct sums over wave vectors, also of pairs of kinds of atoms."
    quantities = (
        Quantity("structure_factor", "1", "structure factor"),
        Quantity("wave_vectors", "1", "number of wave vectors in a frame"),
        Quantity("partial", "1", "partial structure factors", "one for each pair of kinds, with --by"),
    )
    axis = Quantity("k", "angstrom^-1", "length of wave vectors")
    short_run: ClassVar[Mapping[str, Any]] = {"kmax": 2.6, "select": "resid 2:5"}
    reference = (
        "N. W. Ashcroft, D. C. Langreth, Phys. Rev. 156, 685 (1967); freud.diffraction.StaticStructureFactorDirect"
    )

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        kmax: Annotated[
            float, Option("--kmax", "Largest length of wave vectors.", least=0.0, unit="angstrom^-1")
        ] = 5.0,
        kmin: Annotated[float, Option("--kmin", "Least length of wave vectors.", least=0.0, unit="angstrom^-1")] = 0.0,
        nbins: Annotated[int, Option("--nbins", "Number of bins.", least=1)] = 100,
        weights: Annotated[Any, Option("--weights", "Weight of an atom.", choices=WEIGHTS)] = "equal",
        by: Annotated[str | None, Option("--by", "Also of all pairs of these kinds of atoms.", choices=BY)] = None,
        n_blocks: Annotated[int, Option("--n-blocks", "Parts of the run to take standard errors from.", least=1)] = 1,
    ) -> None:
        given = {"kmax": kmax, "kmin": kmin, "nbins": nbins, "weights": weights, "by": by, "n_blocks": n_blocks}
        super().__init__(trajectory, select, **given)
        self.selection.check_unique()
        check_choice("by", "none" if by is None else by, BY)
        if not (np.isfinite([kmin, kmax]).all() and 0 <= kmin < kmax):
            raise ArgumentError(f"kmin and kmax are 0 <= kmin < kmax, found {kmin!r} and {kmax!r}")
        self._range, self._nbins = (float(kmin), float(kmax)), whole_number("nbins", nbins)
        self._n_blocks = whole_number("n_blocks", n_blocks)
        with self._noting():
            self._factors = self._factors_of(weights)
            self._kinds, self._of = self._kinds_by(by)
        self.pairs = list(combinations_with_replacement(self._kinds, 2)) if by else []

    @property
    def measures_whole_molecules(self) -> bool:
        """See `DeclaredAnalysis`: images of an atom have the same phase."""
        return False

    def _factors_of(self, weights: Any) -> NDArray[np.float64]:
        """(atoms,) weights. Raises ArgumentError for anything else, and if all are 0."""
        if isinstance(weights, str):
            check_choice("weights", weights, WEIGHTS)
            if weights == "equal":
                return np.ones(self.selection.n_atoms)
            atoms = self.trajectory.atoms[self.selection.indices]
            return neutron_lengths(atoms, "weights='neutron'")
        factors = np.asarray(weights, np.float64)
        if factors.shape != (self.selection.n_atoms,) or not np.isfinite(factors).all():
            raise ArgumentError(f"weights are {', '.join(WEIGHTS)} or {self.selection.n_atoms} finite numbers")
        if not factors.any():
            raise ArgumentError("weights are all 0, so that there is no structure factor")
        return factors

    def _kinds_by(self, by: str | None) -> tuple[list[str], NDArray[np.int64]]:
        """Names of kinds, and the kind of each atom. Raises ArgumentError if the atoms of one differ in weight."""
        if by is None:
            return [""], np.zeros(self.selection.n_atoms, np.int64)
        atoms = self.trajectory.atoms[self.selection.indices]
        values = symbols_of(atoms, "by='element'") if by == "element" else getattr(atoms, f"{by}s")
        kinds, of = np.unique(values, return_inverse=True)
        if len(kinds) > _MOST_KINDS:
            raise ArgumentError(f"by={by!r} makes {len(kinds)} kinds of atoms, expected at most {_MOST_KINDS}")
        for number, kind in enumerate(kinds):
            if len(np.unique(self._factors[of == number])) > 1:
                raise ArgumentError(f"atoms of {by} {kind!r} have several weights; partial structure factors need one")
        return [str(kind) for kind in kinds], of

    def _passes(self, frames: FrameSelection) -> Passes:
        cell = first_cell(self.trajectory, frames, "a structure factor", periodic=True)
        volume = abs(np.linalg.det(cell))
        kernel = _core.Kernel(
            "structure_factor",
            self.trajectory.n_atoms,
            atoms=self.selection.indices,
            factors=None if self.pairs else self._factors,
            species=self._of.astype(np.uint32),
            least=self._range[0],
            most=self._range[1],
            bins=self._nbins,
            blocks=block_bounds(frames, self._n_blocks).astype(np.float64),
            # one in (2 pi)^3 / volume
            expected=int(min(volume * self._range[1] ** 3 / (6 * np.pi**2), 1e12)),
        )
        found = yield Pass(kernel)
        if not found["wave_vectors"].any():
            self._add_notes(
                [f"the cell has no wave vectors between {self._range[0]:g} and {self._range[1]:g} 1/angstrom"]
            )
        return self._results_of(found)

    def _results_of(self, found: KernelResults) -> Results:
        numbers, sums = found["wave_vectors"].astype(np.float64), found["sums"]
        edges = np.linspace(*self._range, self._nbins + 1)
        results: dict[str, Any] = {"bins": (edges[1:] + edges[:-1]) / 2, "edges": edges}
        results |= self._factors_in(sums.sum(axis=0), numbers.sum(axis=0))
        if self._n_blocks > 1:
            parts = [self._factors_in(*one) for one in zip(sums, numbers, strict=True)]
            results |= {f"{name}_error": standard_error(np.array([one[name] for one in parts])) for name in parts[0]}
        results["wave_vectors"] = numbers.sum(axis=0) / found["n_frames"][0]
        return Results(**results)

    def _factors_in(self, sums: NDArray[np.float64], numbers: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Results by name, from (pairs, bins) sums over wave vectors and their (bins,) numbers."""
        with np.errstate(invalid="ignore"):
            means = sums / numbers
        squares = (self._factors**2).sum()
        if not self.pairs:
            return {"structure_factor": means[0] / squares}
        sizes = np.bincount(self._of)
        factors = np.array([self._factors[self._of == kind][0] for kind in range(len(sizes))])
        both = np.array(list(combinations_with_replacement(range(len(sizes)), 2)))
        times = np.where(both[:, 0] == both[:, 1], 1.0, 2.0) * factors[both].prod(axis=1)
        return {
            "structure_factor": (times[:, None] * means).sum(axis=0) / squares,
            "partial": (means / np.sqrt(sizes[both].prod(axis=1).astype(np.float64))[:, None]).T,
        }

    @property
    def _labels(self) -> Sequence[str]:
        return [f"{first}-{second}" for first, second in self.pairs]

    def _table(self) -> Table:
        of = self.results
        columns = [
            Column(self.axis.name, of.bins, self.axis.unit),
            Column("structure_factor", of.structure_factor, "1", digits=self._digits),
            *self._errors("structure_factor", "structure_factor", ...),
            # a number beside the curves
            Column("wave_vectors", of.wave_vectors),
        ]
        for place, label in enumerate(self._labels):
            columns.append(Column(label, of.partial[:, place], "1", digits=self._digits))
            columns += self._errors(label, "partial", (slice(None), place))
        return Table(self._title, tuple(columns), x=self.axis.name)

    def _errors(self, label: str, name: str, places: Any) -> list[Column]:
        """The column of standard errors, if the run has parts."""
        if self._n_blocks == 1:
            return []
        return [Column(f"{label}_error", self.results[f"{name}_error"][places], "1", digits=self._digits)]
