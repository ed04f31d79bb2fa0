"""Trajectories and sample archives as data sets for training: `import kinema.ml`.

It is not imported by `import kinema`. Arrays are NumPy's; torch is used where it is installed and asked for.
"""

from __future__ import annotations

from kinema.ml.dataset import Batch, Dataset, Reading, Subset
from kinema.ml.loader import Loader
from kinema.ml.order import Order
from kinema.ml.samples import SampleDataset

__all__ = ["Batch", "Dataset", "Loader", "Order", "Reading", "SampleDataset", "Subset"]
