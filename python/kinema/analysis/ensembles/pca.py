"""Principal components of motion: directions in which atoms move most, together.

    C = sum_t (x(t) - <x>) (x(t) - <x>)^T / (n - 1),   C u_k = l_k u_k,   l_1 >= l_2 >= ...

x(t) has the 3 N coordinates of the atoms, or features (`Features`); u_k is a principal component, l_k its variance,
angstrom^2. The projection of a frame is p_k(t) = u_k . (x(t) - <x>), angstrom. Source: A. Amadei, A. B. M. Linssen,
H. J. C. Berendsen, Proteins 17, 412 (1993); as in MDAnalysis.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
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
from kinema.analysis.ensembles.components import (
    InverseProjection,
    cosine_content,
    cumulative_overlap,
    eigenvectors,
    eigenvectors_of_rows,
    rmsip,
    uses_rows,
)
from kinema.analysis.ensembles.features import Features, feature_rows
from kinema.analysis.ensembles.frame_pairs import TakesFeatures
from kinema.analysis.structure.alignment import AlignedAnalysis, Alignment
from kinema.base.errors import ArgumentError, MemoryLimitError
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameChoice, FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["PCA", "cosine_content", "cumulative_overlap", "rmsip"]

_NOT_SUPERPOSED = (
    "nothing was superposed before the PCA: the first components may be the motion of the whole molecule; "
    "align='average' or align='reference' superposes"
)
# eigenvalues, eigenvectors, sum of all eigenvalues, mean positions
_Found = tuple["NDArray[np.float64]", "NDArray[np.float64]", float, "NDArray[np.float64]"]
# the first component of random diffusion looks like half a cosine
_RANDOM = 0.7


class PCA(TakesFeatures, AlignedAnalysis):
    """Principal components of the motion of atoms, or of features.

    Parameters
    ----------
    trajectory : Trajectory or Features
        Features take the place of coordinates; select, align and weights are then left out.
    select : as `Trajectory.select`
        None: all atoms. The covariance takes 36 bytes for each pair of atoms, for each worker.
    align : None, True, "reference", "average" or "iterative"
        Structure to superpose each frame on first, as in `RMSF`; True is "reference", which is the first frame unless
        another is given, as in MDAnalysis.
    mean : (atoms, 3) array, optional
        Positions to take the covariance about, angstrom; by default the mean of the frames.
    n_components : int, optional
        Components to keep; by default all. If there are fewer frames than coordinates, components below the number of
        frames are made of the products of frames, and no covariance is needed: 12 bytes for each atom and frame.
    weights : None or "mass" or (atoms,) array
        "mass": coordinates times the root of the mass over the mean mass, so that variances stay in angstrom^2.
    align_select, ref_frame, reference, align_weights, match, tol_mass, tolerance, most_passes :
        As in `RMSF`; only with `align`.
    projections : int
        Number of components on which each frame is projected, in another pass; the table has these over time.

    After `run`
    -----------
    results.p_components : (3 * atoms, components) float64, or (features, components)
        A column is a component, of length 1; its largest element is positive.
    results.variance : (components,) float64, angstrom^2
        Descending.
    results.cumulated_variance : (components,) float64
        Share of the variance of all components up to each.
    results.mean_positions : (atoms, 3) float64, angstrom; of features results.mean : (features,) float64
    results.projections : (frames, projections) float64, angstrom, if asked for
    results.frames, results.time : (frames,), with projections
    results.values : the variance

    Raises
    ------
    ArgumentError, also if there are fewer frames than 2, if more components are asked for than there are, and for
    features that are not defined in a frame; MemoryLimitError if covariance or frames do not fit into `memory=`.

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
        trajectory: Trajectory | Features,
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

        if isinstance(trajectory, Features):
            self._features = trajectory
            given = {"select": select, "align": align, "weights": weights, "mean": mean, "reference": reference}
            self._refuse_with_features({name: value is not None for name, value in given.items()})
            select, trajectory = trajectory.selection, trajectory.trajectory
        selection = select_atoms(trajectory, select)
        # True and False, as in MDAnalysis
        align = "reference" if align is True else align or None  # type: ignore[comparison-overlap]
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
        arguments |= self._features.arguments if self._features else {}
        super().__init__(trajectory, selection, **arguments)
        self.selection.check_unique()
        if not self.selection.ascending:
            raise ArgumentError(f"{self.selection.description}: atoms of a PCA must be in the order of the file")
        n_coordinates = self._n_coordinates
        kept = n_coordinates if n_components is None else n_components
        for name, number, most in (("n_components", kept, n_coordinates), ("projections", projections, kept)):
            if number > most:
                raise ArgumentError(f"{name} must be at most {most:,}, found {number}")
        self._mean = None if mean is None else _positions(mean, self.selection.n_atoms)
        self._n_components = n_components
        self._n_projections = int(projections)
        passes = self._alignment.n_passes
        self.n_passes = None if passes is None else passes + bool(projections and not self._features)
        with self._noting():
            self._weights = self._weights_of(weights)
        self._take_notes()
        if self._features is None:
            self._read_reference(_NOT_SUPERPOSED)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        if followed and given.get("projections"):
            raise ArgumentError("projections= reads all frames twice, which --follow cannot; leave it out")
        super().check_arguments(given, followed=followed)

    @property
    def _n_coordinates(self) -> int:
        return len(self._features.names) if self._features else 3 * self.selection.n_atoms

    @property
    def mean(self) -> NDArray[np.float64]:
        """(atoms, 3) positions about which frames are projected, angstrom; (features,) of features."""
        center: NDArray[np.float64] = self.results.mean if self._features else self.results.mean_positions
        return center

    def check_memory(self, frames: FrameSelection, memory: int) -> None:
        n, width = len(frames), self._n_coordinates
        side = n if uses_rows(n, width, self._n_components) else width
        # the matrix, its eigenvectors and room for their computation; rows in memory
        needed = 4 * 8 * side**2
        needed += 2 * 8 * n * width if self._features else 4 * n * width if side == n else 0
        if needed > memory:
            fewer = "select fewer atoms, fewer frames (step=), " if side == n else "select fewer atoms, "
            fewer += "" if side == n else "with fewer frames than coordinates give n_components=, "
            raise MemoryLimitError(
                f"the memory limit is too small for the components of {width:,} coordinates in {n:,} frames, expected "
                f"at least {needed:,} bytes, found {memory:,}; {fewer}or give memory="
            )

    def _passes(self, frames: FrameSelection) -> Passes:
        if len(frames) < 2:
            raise ArgumentError(f"a PCA needs at least two frames, found {len(frames)}")
        if (self._n_components or 0) >= len(frames):
            raise ArgumentError(
                f"n_components={self._n_components}: {len(frames)} frames have {len(frames) - 1} components; "
                "give fewer, or more frames"
            )
        self._scale = None if self._weights is None else np.repeat(np.sqrt(self._weights / self._weights.mean()), 3)
        if self._features:
            return (yield from self._passes_of_features(self._features, frames))
        self._transforms = transforms = yield from self._alignment.passes()
        if uses_rows(len(frames), self._n_coordinates, self._n_components):
            variance, components, total, mean = yield from self._from_frames(frames)
        else:
            variance, components, total, mean = yield from self._from_covariance(frames)
        results: dict[str, Any] = {**_results_of(variance, components, total), "mean_positions": mean}
        if self._n_projections:
            kernel = self._projecting(components[:, : self._n_projections], mean)
            rows = yield Pass(kernel, transforms)
            numbers = frames.numbers().astype(np.int64)
            results |= {"projections": rows["values"], "time": rows["time"], "frames": numbers}
            self._note_randomness(rows["values"])
        return Results(**results)

    def _from_covariance(self, frames: FrameSelection) -> Generator[Pass, Any, _Found]:
        atoms = self.selection.indices
        found = yield Pass(_core.Kernel("covariance", self.trajectory.n_atoms, atoms=atoms), self._transforms)
        mean, covariance = np.asarray(found["mean_positions"]), np.asarray(found["covariance"])
        if self._mean is not None:
            apart = (mean - self._mean).ravel()
            covariance = covariance + len(frames) / (len(frames) - 1) * np.outer(apart, apart)
            mean = self._mean
        if self._scale is not None:
            covariance = covariance * np.outer(self._scale, self._scale)
        return *eigenvectors(covariance, self._n_components), float(np.trace(covariance)), mean

    def _from_frames(self, frames: FrameSelection) -> Generator[Pass, Any, _Found]:
        """Reads all frames into memory, of which there are fewer than coordinates."""
        given = {"atoms": self.selection.indices, "n_frames": len(frames)}
        found = yield Pass(_core.Kernel("positions", self.trajectory.n_atoms, **given), self._transforms)
        rows = np.asarray(found["values"])
        own = (rows.sum(axis=0, dtype=np.float64) / len(rows)).reshape(-1, 3)
        mean = own if self._mean is None else self._mean
        return *eigenvectors_of_rows(rows, mean.ravel(), self._scale, self._n_components), mean

    def _passes_of_features(self, features: Features, frames: FrameSelection) -> Passes:
        found = yield from features._passes(frames)
        self._take_notes()
        rows = np.asarray(found.features)
        features.check_defined(rows, found.frames)
        self._scaling = {name: found[name] for name in ("mean", "std") if name in found}
        mean = rows.sum(axis=0) / len(rows)
        variance, components, total = eigenvectors_of_rows(rows, mean, n_components=self._n_components)
        results: dict[str, Any] = {**_results_of(variance, components, total), "mean": mean}
        if self._n_projections:
            values = (rows - mean) @ components[:, : self._n_projections]
            results |= {"projections": values, "time": found.time, "frames": found.frames}
            self._note_randomness(values)
        return Results(**results)

    def _note_randomness(self, projections: Any) -> None:
        content = cosine_content(np.asarray(projections), 0)
        if content > _RANDOM:
            self._add_notes(
                [
                    f"the cosine content of the first component is {content:.2f}: such a motion cannot be "
                    "distinguished from random diffusion, and a longer simulation may have others (Hess, Phys. "
                    "Rev. E 65, 031910)"
                ]
            )

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
        self._need_components()
        found = _Projections(self, n_components).run(start, stop, step, frames, **options)
        values: NDArray[np.float64] = np.asarray(found.results.values)
        return values

    def project_single_frame(self, components: int | Sequence[int] | None = None) -> InverseProjection:
        """A function that leaves of a frame's motion the part along some components, from 0; None: all that are kept.

        It takes a frame of the selected atoms, superposed as in `run`, replaces its `positions`, (atoms, 3) in
        angstrom, by `mean + sum_k (r - mean).c_k c_k`, and returns it: for `kn.transforms.function`, and for groups of
        MDAnalysis. MDAnalysis' `group` and `anchor`, which move other atoms along, do not exist. Raises ArgumentError
        before `run` and for features.

        Examples
        --------
        >>> pca = kn.analysis.PCA(traj, select="name CA", align="average").run()
        >>> essential = kn.transforms.function(pca.project_single_frame([0, 1]), "name CA")
        >>> moved = traj.with_transform(kn.transforms.superpose("name CA"), essential)
        """
        self._need_positions("a projected frame is made of")
        chosen = slice(None) if components is None else np.atleast_1d(components)
        try:
            vectors = self.results.p_components[:, chosen]
        except IndexError:
            most = self.results.p_components.shape[1]
            raise ArgumentError(f"components are from 0 to {most - 1}, found {components}") from None
        return InverseProjection(self.mean, vectors, self._scale)

    def _need_components(self) -> None:
        if not self.results:
            raise ArgumentError("PCA has no components yet; call run() first")

    def _need_positions(self, what: str) -> None:
        self._need_components()
        if self._features:
            raise ArgumentError(f"{what} positions, and these are components of features")

    def structures_along(self, component: int, amplitudes: NDArray[np.floating]) -> NDArray[np.float64]:
        """Structures `mean + amplitude * component`: (amplitudes, atoms, 3) float64, angstrom; components from 0.

        The extremes of a motion are those at the least and the greatest projection. Raises ArgumentError before `run`
        and for features.
        """
        self._need_positions("structures along components are of")
        direction = self.results.p_components[:, component]
        if self._scale is not None:
            direction = direction / self._scale
        moved = np.asarray(amplitudes, np.float64)[:, None, None] * direction.reshape(-1, 3)
        structures: NDArray[np.float64] = self.mean + moved
        return structures

    def write_along(
        self,
        path: str | os.PathLike[str],
        component: int = 0,
        n_structures: int = 11,
        *,
        overwrite: bool = False,
    ) -> None:
        """Writes structures along a component, from 0, as frames of a file: PDB, DCD, XTC and others by the suffix.

        They go from the least to the greatest projection in equal steps; if these are not among the results
        (`projections=`), from -2 to 2 standard deviations. Frames have no times. Raises ArgumentError
        before `run` and for features, and errors of files.

        Examples
        --------
        >>> pca = kn.analysis.PCA(traj, select="name CA", align="average", projections=2).run()
        >>> pca.write_along("extremes.pdb", n_structures=2)
        """
        from kinema.formats.all_writers import Writer
        from kinema.formats.writer_choice import format_of, options_of
        from kinema.storage.output_checks import check_not_input

        self._need_positions("structures along components are of")
        check_not_input(path, *self.trajectory.paths, *self.other_files)
        if not 0 <= component < len(self.results.variance):
            raise ArgumentError(f"component must be from 0 to {len(self.results.variance) - 1}, found {component}")
        if component < self._n_projections:
            along = np.asarray(self.results.projections)[:, component]
            ends = along.min(), along.max()
        else:
            deviation = float(np.sqrt(self.results.variance[component]))
            ends = -2.0 * deviation, 2.0 * deviation
        structures = self.structures_along(component, np.linspace(*ends, n_structures))
        given: dict[str, Any] = {}
        if self.trajectory.topology is not None and "topology" in options_of(format_of(path, None), variants=False):
            given["topology"] = self.trajectory.atoms[self.selection.indices.astype(np.int64)]
        with Writer(path, self.selection.n_atoms, overwrite=overwrite, **given) as out:
            for step, positions in enumerate(structures):
                out.write(positions=positions.astype(np.float32), step=step)

    @property
    def summarised_over(self) -> str | None:
        return None

    @property
    def subject(self) -> str:
        first = self.results.cumulated_variance[0]
        atoms = self.selection.count(self.trajectory.n_atoms)
        atoms = f"{len(self._features.names)} features" if self._features else atoms
        return f"principal components of {atoms}, the first with {100 * first:.1f} % of the variance"

    @property
    def _title(self) -> str:
        return "Projections on principal components" if self._n_projections else "Variance of principal components"

    def _table(self) -> Table:
        if self._n_projections:
            values = self.results.projections
            columns = [
                Column(f"pc{k + 1}", values[:, k], self._unit, digits=self._digits) for k in range(values.shape[1])
            ]
            return Table(self._title, (*self._frames_and_times(), *columns))
        variance = self.results.variance
        numbers = Column("component", np.arange(1, 1 + len(variance)))
        shares = Column("cumulated_variance", self.results.cumulated_variance, "", digits=self._digits)
        return Table(
            self._title,
            (numbers, shares, Column("variance", variance, _squared(self._unit), digits=self._digits)),
            x="component",
        )


class _Projections(DeclaredAnalysis):
    """Projections of frames on the components of a PCA that was run."""

    command_name = "projections"
    quantities = (PCA.quantities[1],)

    def __init__(self, pca: PCA, n_components: int | None) -> None:
        components = pca.results.p_components[:, :n_components]
        super().__init__(pca.trajectory, pca.selection, n_components=components.shape[1])
        self._components, self._of = components, pca

    def _passes(self, frames: FrameSelection) -> Passes:
        pca = self._of
        if pca._features:
            found = yield from pca._features.passes_of_analyses(frames)
            features = feature_rows([np.asarray(one.values) for one in found], pca._features.encodings, pca._scaling)
            pca._features.check_defined(features, found[0].frames)
            projected = (features - pca.mean) @ self._components
            return Results(frames=found[0].frames, time=found[0].time, values=projected)
        rows = yield Pass(pca._projecting(self._components, pca.mean), pca._transforms)
        return Results(frames=frames.numbers(), time=rows["time"], values=rows["values"])

    def _table(self) -> Table:
        return Table("Projections", self._frames_and_times())


def _results_of(
    variance: NDArray[np.float64], components: NDArray[np.float64], total: float
) -> dict[str, NDArray[np.float64]]:
    shares = np.cumsum(variance) / total
    return {"p_components": components, "variance": variance, "cumulated_variance": shares, "values": variance}


def _squared(unit: str) -> str:
    return unit if unit in ("", "1") else f"{unit}^2"


def _positions(given: Any, n_atoms: int) -> NDArray[np.float64]:
    positions = np.asarray(getattr(given, "positions", given), np.float64)
    if positions.shape != (n_atoms, 3) or not np.isfinite(positions).all():
        raise ArgumentError(f"mean must be ({n_atoms}, 3) finite positions, found shape {positions.shape}")
    return positions
