"""Principal components of motion: directions in which atoms move most, together.

    C = sum_t (x(t) - <x>) (x(t) - <x>)^T / (n - 1),   C u_k = l_k u_k,   l_1 >= l_2 >= ...

x(t) has the 3 N coordinates of the atoms; u_k is a principal component, l_k its variance, angstrom^2. The projection
of a frame is p_k(t) = u_k . (x(t) - <x>), angstrom. Source: A. Amadei, A. B. M. Linssen, H. J. C. Berendsen, Proteins
17, 412 (1993); as in MDAnalysis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import (
    MOST_PASSES,
    TOLERANCE,
    Align,
    AlignSelect,
    AlignWeights,
    Match,
    MostPasses,
    Option,
    Quantity,
    ReferenceFrame,
    ReferenceStructure,
    Tolerance,
    Weights,
)
from kinema.analysis.declared import DeclaredAnalysis
from kinema.analysis.structure.alignment import AlignedAnalysis, Alignment
from kinema.analysis.structure.components import cosine_content, eigenvectors, rmsip
from kinema.base.errors import ArgumentError
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameChoice, FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["PCA", "cosine_content", "rmsip"]

_NOT_SUPERPOSED = (
    "nothing was superposed before the PCA: the first components may be the motion of the whole molecule; "
    "align='average' or align='reference' superposes"
)
# the first component of random diffusion looks like half a cosine
_RANDOM = 0.7


class PCA(AlignedAnalysis):
    """Principal components of the motion of atoms.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        None: all atoms. The covariance takes 36 bytes for each pair of atoms, for each worker.
    align : None, True, "reference", "average" or "iterative"
        Structure to superpose each frame on first, as in `RMSF`; True is "reference", which is the first frame unless
        another is given, as in MDAnalysis.
    mean : (atoms, 3) array, optional
        Positions to take the covariance about, angstrom; by default the mean of the frames.
    n_components : int, optional
        Components to keep; by default all.
    weights : None or "mass" or (atoms,) array
        "mass": coordinates times the root of the mass over the mean mass, so that variances stay in angstrom^2.
    align_select, ref_frame, reference, align_weights, match, tol_mass, tolerance, most_passes :
        As in `RMSF`; only with `align`.
    projections : int
        Number of components on which each frame is projected, in another pass; the table has these over time.

    After `run`
    -----------
    results.p_components : (3 * atoms, components) float64
        A column is a component, of length 1; its largest element is positive.
    results.variance : (components,) float64, angstrom^2
        Descending.
    results.cumulated_variance : (components,) float64
        Share of the variance of all components up to each.
    results.mean_positions : (atoms, 3) float64, angstrom
    results.projections : (frames, projections) float64, angstrom, if asked for
    results.frames, results.time : (frames,), with projections
    results.values : the variance

    Raises
    ------
    ArgumentError, also if there are fewer frames than 2, and if more components are asked for than there are.

    Examples
    --------
    >>> pca = kn.analysis.PCA(traj, select="name CA", align="average").run()
    >>> pca.results.p_components.shape
    (642, 642)
    >>> pca.transform(2).shape  # projections of all frames on two components
    (196, 2)
    """

    command_name = "pca"
    summary = "Principal components of the motion of atoms, and projections of frames."
    quantities = (
        Quantity("variance", "angstrom^2", "variance of principal components", "one for each component"),
        Quantity("projections", "angstrom", "projections on principal components", "with --projections"),
    )
    short_run: ClassVar[Mapping[str, Any]] = {"select": "name CA"}
    reference = "Amadei, Linssen, Berendsen, Proteins 17, 412 (1993); MDAnalysis.analysis.pca.PCA"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        align: Align = None,
        mean: Any = None,
        n_components: Annotated[
            int | None,
            Option(
                "--n-components", "Components to keep; by default all.", takes="integer", least=1, show_default=False
            ),
        ] = None,
        align_select: AlignSelect = None,
        ref_frame: ReferenceFrame = 0,
        reference: ReferenceStructure = None,
        align_weights: AlignWeights = None,
        match: Match = "masses",
        tol_mass: float = 0.1,
        weights: Weights = None,
        projections: Annotated[
            int, Option("--projections", "Number of components to project each frame on, over time.", least=0)
        ] = 0,
        tolerance: Tolerance = TOLERANCE,
        most_passes: MostPasses = MOST_PASSES,
    ) -> None:
        from kinema.transforms.arguments import select_atoms

        selection = select_atoms(trajectory, select)
        # True and False, as in MDAnalysis
        given: Any = align
        align = "reference" if given is True else given or None
        self._alignment = Alignment(
            trajectory,
            selection,
            align,
            align_select,
            ref_frame,
            reference,
            align_weights,
            match,
            tol_mass,
            tolerance,
            most_passes,
        )
        arguments = self._alignment.arguments | {"weights": weights, "n_components": n_components}
        arguments |= {} if mean is None else {"mean": mean}
        arguments |= {"projections": projections} if projections else {}
        super().__init__(trajectory, selection, **arguments)
        self.selection.check_unique()
        if not self.selection.ascending:
            raise ArgumentError(f"{self.selection.description}: atoms of a PCA must be in the order of the file")
        n_coordinates = 3 * self.selection.n_atoms
        kept = n_coordinates if n_components is None else n_components
        for name, number, most in (("n_components", kept, n_coordinates), ("projections", projections, kept)):
            if number > most:
                raise ArgumentError(f"{name} must be at most {most:,}, found {number}")
        self._mean = None if mean is None else _positions(mean, self.selection.n_atoms)
        self._n_components = n_components
        self._n_projections = int(projections)
        passes = self._alignment.n_passes
        self.n_passes = None if passes is None else passes + bool(projections)
        with self._noting():
            self._weights = self._weights_of(weights)
        self._read_reference(_NOT_SUPERPOSED)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        if followed and given.get("projections"):
            raise ArgumentError("projections= reads all frames twice, which --follow cannot; leave it out")
        super().check_arguments(given, followed=followed)

    @property
    def mean(self) -> NDArray[np.float64]:
        """(atoms, 3) positions about which frames are projected, angstrom."""
        positions: NDArray[np.float64] = self.results.mean_positions
        return positions

    def _passes(self, frames: FrameSelection) -> Passes:
        if len(frames) < 2:
            raise ArgumentError(f"a PCA needs at least two frames, found {len(frames)}")
        n_atoms, atoms = self.trajectory.n_atoms, self.selection.indices
        transforms = yield from self._alignment.passes()
        self._transforms = transforms
        found = yield Pass(_core.Kernel("covariance", n_atoms, atoms=atoms), transforms)
        mean = np.asarray(found["mean_positions"])
        covariance = np.asarray(found["covariance"])
        if self._mean is not None:
            apart = (mean - self._mean).ravel()
            covariance = covariance + len(frames) / (len(frames) - 1) * np.outer(apart, apart)
            mean = self._mean
        self._scale = None if self._weights is None else np.repeat(np.sqrt(self._weights / self._weights.mean()), 3)
        if self._scale is not None:
            covariance = covariance * np.outer(self._scale, self._scale)
        variance, components = eigenvectors(covariance, self._n_components)
        results: dict[str, Any] = {
            "p_components": components,
            "variance": variance,
            "cumulated_variance": np.cumsum(variance) / np.trace(covariance),
            "mean_positions": mean,
            "values": variance,
        }
        if self._n_projections:
            kernel = self._projecting(components[:, : self._n_projections], mean)
            rows = yield Pass(kernel, transforms)
            numbers = frames.numbers().astype(np.int64)
            results |= {"projections": rows["values"], "time": rows["time"], "frames": numbers}
            content = cosine_content(np.asarray(rows["values"]), 0)
            if content > _RANDOM:
                self._add_notes(
                    [
                        f"the cosine content of the first component is {content:.2f}: such a motion cannot be "
                        "distinguished from random diffusion, and a longer simulation may have others (Hess, Phys. "
                        "Rev. E 65, 031910)"
                    ]
                )
        return Results(**results)

    def _projecting(self, components: NDArray[np.float64], mean: NDArray[np.float64]) -> _core.Kernel:
        vectors = components if self._scale is None else components * self._scale[:, None]
        made = {"origin": mean, "vectors": np.ascontiguousarray(vectors.T).reshape(-1, 3)}
        return _core.Kernel("projections", self.trajectory.n_atoms, atoms=self.selection.indices, **made)

    def transform(
        self,
        n_components: int | None = None,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        frames: FrameChoice = None,
        **options: Any,
    ) -> NDArray[np.float64]:
        """Projects frames on the first components: (frames, components) float64, angstrom.

        Frames are superposed as they were in `run`; `options` are those of `run`. Raises ArgumentError before `run`.
        """
        if not self.results:
            raise ArgumentError("PCA has no components yet; call run() first")
        found = _Projections(self, n_components).run(start, stop, step, frames, **options)
        values: NDArray[np.float64] = np.asarray(found.results.values)
        return values

    def structures_along(self, component: int, amplitudes: NDArray[np.floating]) -> NDArray[np.float64]:
        """Structures `mean + amplitude * component`: (amplitudes, atoms, 3) float64, angstrom; components from 0.

        The extremes of a motion are those at the least and the greatest projection.
        """
        direction = self.results.p_components[:, component]
        if self._scale is not None:
            direction = direction / self._scale
        moved = np.asarray(amplitudes, np.float64)[:, None, None] * direction.reshape(-1, 3)
        structures: NDArray[np.float64] = self.mean + moved
        return structures

    @property
    def summarised_over(self) -> str | None:
        return None

    @property
    def subject(self) -> str:
        first = self.results.cumulated_variance[0]
        atoms = self.selection.count(self.trajectory.n_atoms)
        return f"principal components of {atoms}, the first with {100 * first:.1f} % of the variance"

    @property
    def _title(self) -> str:
        return "Projections on principal components" if self._n_projections else "Variance of principal components"

    def _table(self) -> Table:
        if self._n_projections:
            values = self.results.projections
            columns = [
                Column(f"pc{k + 1}", values[:, k], "angstrom", digits=self._digits) for k in range(values.shape[1])
            ]
            return Table(self._title, (*self._frames_and_times(), *columns))
        variance = self.results.variance
        numbers = Column("component", np.arange(1, 1 + len(variance)))
        shares = Column("cumulated_variance", self.results.cumulated_variance, "", digits=self._digits)
        return Table(
            self._title,
            (numbers, shares, Column("variance", variance, "angstrom^2", digits=self._digits)),
            x="component",
        )


class _Projections(DeclaredAnalysis):
    """Projections of frames on the components of a PCA that was run."""

    command_name = "projections"
    quantities = (PCA.quantities[1],)

    def __init__(self, pca: PCA, n_components: int | None) -> None:
        components = pca.results.p_components[:, :n_components]
        super().__init__(pca.trajectory, pca.selection, n_components=components.shape[1])
        self._kernel, self._of = pca._projecting(components, pca.mean), pca

    def _passes(self, frames: FrameSelection) -> Passes:
        rows = yield Pass(self._kernel, self._of._transforms)
        return Results(frames=frames.numbers(), time=rows["time"], values=rows["values"])

    def _table(self) -> Table:
        return Table("Projections", self._frames_and_times())


def _positions(given: Any, n_atoms: int) -> NDArray[np.float64]:
    positions = np.asarray(getattr(given, "positions", given), np.float64)
    if positions.shape != (n_atoms, 3) or not np.isfinite(positions).all():
        raise ArgumentError(f"mean must be ({n_atoms}, 3) finite positions, found shape {positions.shape}")
    return positions
