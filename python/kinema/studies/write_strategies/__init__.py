"""Ways to write one file from many ranks, compared as the DL_POLY paper does: `kinema bench-write`.

The paper's ways: the master writes everything (SDAW), all ranks write their own parts directly (PDAW) or through MPI-IO
(MPIW), the master writes with a NetCDF library (SNCW); one configuration of 3,773,000 particles of Gd2Zr2O7.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinema.studies.write_strategies.design import WriteDesign

if TYPE_CHECKING:
    from kinema.studies.write_strategies.study import StudyFiles, run_study

__all__ = ["StudyFiles", "WriteDesign", "run_study"]


def __getattr__(name: str) -> Any:
    if name not in ("StudyFiles", "run_study"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("kinema.studies.write_strategies.study"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
