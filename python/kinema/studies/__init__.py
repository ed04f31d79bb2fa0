"""The publications' studies: scaling experiments, their published tables, and the access methods under comparison.

Importing the package registers the access methods of `parallel_hdf5` with the runners; the names below are loaded on
first use. `kinema.report` computes scaling from the reports of the runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinema.runners.access import register_access
from kinema.studies.parallel_hdf5 import ACCESS_METHODS

if TYPE_CHECKING:
    from kinema.studies.design import Design, Setting
    from kinema.studies.experiment import ExperimentRun, run_design
    from kinema.studies.publications.published import Published, read_published

__all__ = ["Design", "ExperimentRun", "Published", "Setting", "read_published", "run_design"]

_LATER = {
    "Design": "kinema.studies.design",
    "ExperimentRun": "kinema.studies.experiment",
    "Published": "kinema.studies.publications.published",
    "Setting": "kinema.studies.design",
    "read_published": "kinema.studies.publications.published",
    "run_design": "kinema.studies.experiment",
}

for _method in ACCESS_METHODS:
    register_access(_method)


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
