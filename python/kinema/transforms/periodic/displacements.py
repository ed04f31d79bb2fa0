"""`displacement`: moves atoms by the nearest image of each step, for diffusion at constant pressure.

One pass over all frames, on any runner, sums the edges to add until every n-th frame, the stations; reading a frame
then starts at the station before it. Edges are rounded to multiples of 2^-28 angstrom, so that sums are exact and
frames have the same bits on any number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.model.selection.atoms import AtomChoice
from kinema.trajectory.transform import Transform
from kinema.transforms.arguments import describe
from kinema.transforms.first_passes.kinds import EdgeSums
from kinema.transforms.first_passes.making import note_long_step, stations_of
from kinema.transforms.periodic.order import check_order

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["Displacement", "displacement"]


class Displacement(Transform):
    """See `displacement`."""

    name: ClassVar[str] = "displacement"
    sees_all_frames = True

    def __init__(self, select: AtomChoice, options: Mapping[str, Any]) -> None:
        self._select, self._options = select, options

    @property
    def arguments(self) -> Mapping[str, str]:
        return {} if self._select is None else {"select": describe(self._select)}

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        check_order(self.name, trajectory)
        if any(earlier.name == "nojump" for earlier in trajectory.core.transforms):
            raise ArgumentError("nojump and displacement are two schemes of unwrapping; leave one out")
        whole = trajectory.viewed_trajectory()
        selection = whole.select(np.unique(whole.select(self._select).indices))
        edges = stations_of(EdgeSums(whole, selection), self._options)
        note_long_step(whole, edges)
        return _core.Transform(
            self.name,
            whole.n_atoms,
            label=self.label,
            atoms=selection.indices,
            every=edges.every,
            stations=np.ascontiguousarray(edges.sums).reshape(-1, 3),
        )


def displacement(select: AtomChoice = None, **options: Any) -> Displacement:
    """Unwraps a trajectory by summing displacements, for mean square displacements at constant pressure.

    The first frame of the file stays as it is (after earlier transforms). In each later frame an atom moves by

        d - round(d / L) L,   d = w_i - w_(i-1),

    where w are the positions as read, L is the cell of frame i, and the division is in reduced coordinates. This is the
    nearest image of each step that is shorter than half of the least height of the cell. With `nojump` an atom stays at
    an image of its position as read, `w_i + n L_i`: when the cell changes, an atom that has moved far moves with it, by
    n times the change. The reversible scheme of Kulke and Vermaas gives the same, and its frames can be wrapped again.
    Here each jump adds the edges of the cell at the time of the jump, so that diffusion coefficients follow from the
    steps; frames cannot be wrapped again. In a constant cell both are the same except for rounding.

    Molecules stay whole if `whole` is applied first: then all atoms of a molecule jump together.

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms to unwrap; others stay as they are. By default all. As for `nojump`, select whole groups if `wrap`,
        `cluster` or `centers` follows.
    **options
        Arguments of `kinema.run` for the pass over all frames: `runner`, `workers`, `memory`, `progress`, `checkpoint`,
        and options of runners. With MPI, all ranks must call `with_transform`.

    Returns
    -------
    Displacement
        For `Trajectory.with_transform`, which reads all frames of the files once, unless the edges of these atoms were
        summed before. A note reports a step of more than 0.4 of the cell. Sums take up to 64 MiB of memory.

    Sources: S. von Bülow, J. T. Bullerjahn, G. Hummer, J. Chem. Phys. 2020, 153, 021101, equation 1 (bricks; "the
    minimal displacement vector according to periodic boundary conditions for the instantaneous box geometry");
    M. Kulke, J. V. Vermaas, J. Chem. Theory Comput. 2022, 18, 6161, equations 12 (bricks) and B8 (any cell, `nojump`);
    J. T. Bullerjahn et al., J. Chem. Theory Comput. 2023, 19, 3406, compare the schemes (as TOR, and HYB for the scheme
    of Kulke and Vermaas). The equations were taken from their statement in the documentation of mdtools
    (`unwrap_frame`); `unwrap scheme tor` and `frac` of cpptraj give the positions of `displacement` and `nojump`.

    Examples
    --------
    >>> unwrapped = traj.with_transform(kn.transforms.whole(), kn.transforms.displacement())
    """
    return Displacement(select, options)
