"""Trajectories and sample archives as data sets for training: `import kinema.ml`.

`import kinema` does not import it. Arrays are NumPy's; torch is used if it is installed and asked for.
"""

from __future__ import annotations

from kinema.ml.archives.convert import ConvertedSamples, convert, plan_conversion
from kinema.ml.batch import Batch
from kinema.ml.catalogue import Catalogue, check_catalogue, extend_catalogue, make_catalogue
from kinema.ml.dataset import Dataset, Reading, Subset
from kinema.ml.export.export import Exported, export
from kinema.ml.frames import FrameDataset
from kinema.ml.loading.loader import Loader
from kinema.ml.loading.order import Order
from kinema.ml.mdcath import MdcathTrajectory, mdcath
from kinema.ml.samples import SampleDataset
from kinema.ml.splits import DataSplit, split_by_composition, split_by_time, split_by_trajectory
from kinema.ml.statistics.measure import statistics
from kinema.ml.statistics.statistics import Statistics

__all__ = [
    "Batch",
    "Catalogue",
    "ConvertedSamples",
    "DataSplit",
    "Dataset",
    "Exported",
    "FrameDataset",
    "Loader",
    "MdcathTrajectory",
    "Order",
    "Reading",
    "SampleDataset",
    "Statistics",
    "Subset",
    "check_catalogue",
    "convert",
    "export",
    "extend_catalogue",
    "make_catalogue",
    "mdcath",
    "plan_conversion",
    "split_by_composition",
    "split_by_time",
    "split_by_trajectory",
    "statistics",
]
