"""`Trajectory`: files as one sequence of frames, to read whole, in blocks or frame by frame.

`kinema.trajectory.opening` makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from kinema.base.errors import ArgumentError
from kinema.model.frame import Frame
from kinema.trajectory.reading import TrajectoryReading
from kinema.trajectory.transform import Transform, check_not_last

if TYPE_CHECKING:
    from kinema.trajectory.following import Following, FollowOptions

__all__ = ["Trajectory"]


class Trajectory(TrajectoryReading):
    """A sequence of frames, or a view of some of them: slicing gives another Trajectory over the same files.

    `kinema.open` makes it. Frames are found when their number is first needed. Lengths are in angstrom, times in ps.
    Trajectories and views can be pickled; the other process must see the files under the same paths.

    Examples
    --------
    >>> traj[-1].positions.shape, traj[-1].time  # a frame
    ((3341, 3), 19500.0)
    >>> traj[::50]  # a trajectory again; nothing is read
    <Trajectory md.xtc: XTC, 4 frames of 3341 atoms>
    """

    def with_transform(self, *transforms: Transform | Callable[[Frame], Frame]) -> Trajectory:
        """A trajectory of the same frames, each changed by these transforms, in this order.

        They follow the transforms that the trajectory has already. All readers get changed frames: analyses, `read`,
        `blocks`, loops over frames, data sets, `convert`, MDAnalysis.

        Parameters
        ----------
        *transforms : kinema.transforms.Transform or callable
            A function of a `Frame` is passed to `kinema.transforms.function`.

        Raises
        ------
        ArgumentError
            If a transform cannot be applied to this trajectory.

        Examples
        --------
        >>> aligned = traj.with_transform(kn.transforms.superpose("name CA"))
        >>> aligned.n_frames
        196
        """
        made = self
        for transform in transforms:
            if not isinstance(transform, Transform):
                # imported here, because it brings the code that sends functions to workers
                from kinema.trajectory.function_transform import function

                transform = function(transform)
            check_not_last(transform.name, made)
            made = transform.prepared(made)
            bound, topology = transform.bind_with_topology(made)
            others = (*made.for_other_atoms, None if bound.looks_back else transform.for_other_atoms(bound))
            made = made._with(made._core.with_transforms([*made._core.transforms, bound]), made._view)
            made.for_other_atoms = others
            if topology is not None:
                made = made.with_topology(topology)
        return made

    def follow(
        self, until: int | str | None = None, timeout: float | None = None, **options: Unpack[FollowOptions]
    ) -> Following:
        """Yields frames of files that are still being written, as they are completed; calls `refresh` in between.

        A frame is yielded once all of its bytes are there: nothing was written for half of `poll`, or the next frame
        has been started. New files that match an opened pattern are added as they appear.

        Parameters
        ----------
        until : int or str, optional
            A number of frames, or a time with its unit, "100 ns": the frame at that time is the last.
        timeout : float, optional
            End, with a note, after this many seconds in which nothing is written; None: wait for ever.
        **options
            `over`, `select`, `fields`, `dtype`, `memory`, `workers`, `on_rewind`, `poll`, `end`, `events`: see
            `kinema.trajectory.following.FollowOptions`.

        Raises
        ------
        RewoundError, CorruptFileError, ArgumentError (also for a view, and for transforms that must see other frames
        first, such as `nojump`); others as in `refresh` and `blocks`.

        Examples
        --------
        >>> for frame in kn.open("md.xtc").follow(until=196, timeout=600):
        ...     last = frame.time
        """
        if self._view is not None:
            raise ArgumentError("a view of some frames cannot be followed; follow the trajectory that it is of")
        for transform in self._core.transforms:
            if transform.looks_back:
                raise ArgumentError(
                    f"{transform.label} is made by a pass over all frames, so that it cannot follow frames that are "
                    "still coming; leave it out, or run when all are there"
                )
        from kinema.trajectory.following import Following

        return Following(self, self._given, until, timeout, {"fields": self._vector_fields(), **options})
