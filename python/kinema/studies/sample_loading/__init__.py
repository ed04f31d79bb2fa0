"""The fourth publication's comparison on the user's own samples: NPZ, h5py and Kinema loops over the same samples."""

from __future__ import annotations

from kinema.studies.sample_loading.design import LoadingDesign
from kinema.studies.sample_loading.study import LoadingStudy, run_study

__all__ = ["LoadingDesign", "LoadingStudy", "run_study"]
