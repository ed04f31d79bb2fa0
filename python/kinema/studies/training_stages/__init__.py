"""The 2024 talk's stages of training, on the user's own samples: a file a sample, one HDF5 file, a node cache."""

from __future__ import annotations

from kinema.studies.training_stages.design import StagesDesign
from kinema.studies.training_stages.laboratory import StagesLaboratory
from kinema.studies.training_stages.study import StagesStudy, run_stages

__all__ = ["StagesDesign", "StagesLaboratory", "StagesStudy", "run_stages"]
