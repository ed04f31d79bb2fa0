"""Outputs of clusters of frames: their table, and folders of centres and of frames."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import Outputs
from kinema.storage.output_file import reserve

if TYPE_CHECKING:
    from kinema.analysis.declared import DeclaredAnalysis


@dataclass(frozen=True, eq=False, repr=False)
class ClusterOutputs(Outputs):
    """Outputs of an analysis that divides frames into clusters."""

    clusters: options.ClusterTable = None
    write_centers: options.CenterFolder = None
    write_clusters: options.ClusterFolder = None

    @property
    def written(self) -> list[str]:
        from kinema.storage.tables import table_files

        tables = [] if self.clusters is None else table_files(self.clusters)
        folders = [str(folder) for folder in (self.write_centers, self.write_clusters) if folder is not None]
        return super().written + tables + folders

    def check(self, inputs: Sequence[Path | None]) -> None:
        super().check(inputs)
        if self.clusters is not None:
            from kinema.storage.tables import check_writable

            check_writable(self.clusters, overwrite=self.force)
            reserve(self.clusters)
        if self.write_centers is not None and self.write_centers == self.write_clusters:
            raise ArgumentError("--write-centers and --write-clusters name one folder; give each its own")
        for folder in (self.write_centers, self.write_clusters):
            if folder is None or not folder.exists():
                continue
            if not folder.is_dir():
                raise ArgumentError("is a file, expected a folder", at=str(folder))
            if not self.force and any(folder.glob("cluster-*")):
                raise ArgumentError("has files of clusters already; --force replaces them", at=str(folder))

    def save_more(self, analysis: "DeclaredAnalysis") -> None:
        from kinema.analysis.ensembles.cluster import Clusters

        assert isinstance(analysis, Clusters), "others have no such options"
        if self.clusters is not None:
            analysis.save_clusters(self.clusters, output_time_unit=self.output_time_unit, overwrite=self.force)
        if self.write_centers is not None:
            analysis.write_centers(self.write_centers, overwrite=self.force)
        if self.write_clusters is not None:
            analysis.write_clusters(self.write_clusters, overwrite=self.force)
