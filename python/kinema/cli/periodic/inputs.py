"""Parameters of commands (`takes_groups`): files, atoms and the treatment of periodic boundaries."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import TrajectoryFiles
from kinema.cli.periodic import options as periodic

if TYPE_CHECKING:
    from kinema.model.selection.atoms import Selection
    from kinema.trajectory import Trajectory


@dataclass(frozen=True, eq=False, repr=False)
class UnselectedInputs(TrajectoryFiles):
    """Files and the treatment of periodic boundaries, for analyses whose atoms have options of their own."""

    topology: options.Topology = None
    index_file: options.IndexFile = None
    pbc: periodic.Pbc = None
    ur: periodic.UnitCell = None
    cluster_group: periodic.ClusterGroup = None
    center: periodic.Centered = False
    center_group: periodic.CenterGroup = None
    fit: periodic.FitMode = None
    fit_group: periodic.FitGroup = None
    centers: periodic.CentersOf = None
    bonds: periodic.BondsOption = None
    nojump_count: periodic.NojumpCount = None
    nojump_reference: periodic.NojumpReference = None

    @property
    def selects(self) -> bool:
        """Whether the command line names atoms."""
        return False

    def chosen(self, trajectory: "Trajectory") -> "Selection":
        """The atoms of the command; all if none are named."""
        return trajectory.select(None)

    def of_analysis(self, trajectory: "Trajectory") -> "Selection":
        """The atoms of an analysis; they may change with the frame, and analyses that cannot have that refuse them."""
        return self.chosen(trajectory)

    def transformed(
        self,
        trajectory: "Trajectory",
        scan: Callable[[], None],
        frames: Callable[["Trajectory"], dict[str, Any]] | None = None,
        of_passes: dict[str, Any] | None = None,
        reference: str | None = None,
    ) -> "Trajectory":
        """The trajectory with the transforms of the options; `scan` finds its frames, if a transform needs them.

        `frames` returns the command's arguments of `Trajectory.choose`, if it chooses frames. `of_passes` are arguments
        of `kinema.run` for the first passes of transforms, with the command's checkpoint. `reference` is the structure
        that --fit superposes on, if it is not the first frame.
        """
        names = ["pbc", "ur", "bonds", "cluster_group", "center", "center_group", "fit", "fit_group"]
        names += ["nojump_count", "nojump_reference", "centers"]
        given = {name: getattr(self, name) for name in names if getattr(self, name)}
        if reference is not None:
            given["fit_reference"] = reference
        if not given:
            return trajectory
        from kinema.transforms.pbc_words import Asked

        asked = Asked(**given)
        asked.check()
        if asked.needs_frames:
            scan()
        # --select chooses among the centres, not the atoms
        selected = self.of_analysis(trajectory) if self.selects and self.centers is None else None
        if selected is not None and selected.changes:
            # any atom may decide which they are
            selected = None
        view = trajectory
        if asked.nojump_count == "selected":
            if frames is None:
                raise ArgumentError("--nojump-count selected is for commands that choose frames, and this one does not")
            view = trajectory[trajectory.choose(**frames(trajectory))]
        made = asked.transforms(
            trajectory, selected, lambda option, text: self.named(trajectory, option, text), of_passes or {}
        )
        return view.with_transform(*made).viewed_trajectory()

    def named(self, trajectory: "Trajectory", option: str, text: str) -> "Selection":
        """A group of the index file by its name, or a selection. Raises ArgumentError that begins with the option."""
        not_a_group = ""
        try:
            if self.index_file is not None:
                from kinema.model.selection.gromacs_index import read_groups

                if text in read_groups(str(self.index_file)):
                    return trajectory.select(index_file=str(self.index_file), group=text)
                not_a_group = f"; {self.index_file} has no group of that name"
            return trajectory.select(text)
        except ArgumentError as error:
            raise ArgumentError(f"{option}: {error}{not_a_group}", path=error.path) from None


@dataclass(frozen=True, eq=False, repr=False)
class Inputs(UnselectedInputs):
    """Adds the atoms of the command."""

    select: options.Select = None
    group: options.Group = None

    @property
    def selects(self) -> bool:
        return self.select is not None or self.group is not None

    def chosen(self, trajectory: "Trajectory") -> "Selection":
        """See `UnselectedInputs`. Raises ArgumentError for a group without a file."""
        if self.group is not None and self.index_file is None:
            raise ArgumentError("--group names a group of an index file; give the file with -n")
        # with --centers and no --group, the index file serves --fit-group and names no centres
        if self.index_file is None or (self.centers is not None and self.group is None):
            return trajectory.select(self.select)
        return trajectory.select(self.select, index_file=str(self.index_file), group=self.group)

    def of_analysis(self, trajectory: "Trajectory") -> "Selection":
        from kinema.model.selection.atoms import may_change

        if self.index_file is not None or self.group is not None or not may_change(self.select):
            return self.chosen(trajectory)
        from kinema.trajectory.changing_groups import selection_that_may_change

        return selection_that_may_change(trajectory, self.select)
