"""The group of options for the outputs of each analysis, as its declarations make it."""

from typing import TYPE_CHECKING

from kinema.base.frozen_dataclass import dataclass
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import ListOutputs, Outputs, SeriesOutputs
from kinema.cli.options.cluster_outputs import ClusterOutputs
from kinema.cli.options.lifetime_outputs import LifetimeOutputs

if TYPE_CHECKING:
    from kinema.analysis.declared import DeclaredAnalysis


def outputs_of(analysis: "type[DeclaredAnalysis]") -> type[Outputs]:
    """The group of options for the outputs of an analysis."""
    if analysis.has_clusters:
        return ClusterOutputs
    if analysis.has_lifetime:
        return LifetimeOutputs
    group = ListOutputs if analysis.is_list else SeriesOutputs if analysis.is_per_frame else Outputs
    if not analysis.other_formats:
        return group

    @dataclass(frozen=True, eq=False, repr=False)
    class OtherOutputs(group):  # type: ignore[valid-type, misc]
        """The same; files other than tables are named in the help."""

        other_formats = analysis.other_formats
        output: options.output_with(analysis.other_formats) = None  # type: ignore[valid-type]

    return OtherOutputs
