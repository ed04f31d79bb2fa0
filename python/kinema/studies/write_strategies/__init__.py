"""Ways to write one file from many ranks, compared as the DL_POLY paper does: `kinema bench-write`.

The paper's ways: the master writes everything (SDAW), all ranks write their own parts directly (PDAW) or through MPI-IO
(MPIW), the master writes with a NetCDF library (SNCW); one configuration of 3,773,000 particles of Gd2Zr2O7.
"""

from typing import TYPE_CHECKING

from kinema.base.lazy_names import lazy_names
from kinema.studies.write_strategies.design import WriteDesign

if TYPE_CHECKING:
    from kinema.studies.write_strategies.study import StudyFiles, run_study

__all__ = ["StudyFiles", "WriteDesign", "run_study"]

__getattr__, __dir__ = lazy_names(__name__, {"kinema.studies.write_strategies.study": ("StudyFiles", "run_study")})
