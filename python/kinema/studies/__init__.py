"""The publications' studies: scaling experiments, their published tables, and the access methods under comparison.

Importing the package registers the access methods of `parallel_hdf5` with the runners; the names below are loaded on
first use. `kinema.report` computes scaling from the reports of the runs.
"""

from typing import TYPE_CHECKING

from kinema.base.lazy_names import lazy_names
from kinema.runners.access import register_access
from kinema.studies.parallel_hdf5 import ACCESS_METHODS

if TYPE_CHECKING:
    from kinema.studies.design import Design, Setting
    from kinema.studies.experiment import ExperimentRun, run_design
    from kinema.studies.publications.published import Published, read_published

__all__ = ["Design", "ExperimentRun", "Published", "Setting", "read_published", "run_design"]

for _method in ACCESS_METHODS:
    register_access(_method)

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kinema.studies.design": ("Design", "Setting"),
        "kinema.studies.experiment": ("ExperimentRun", "run_design"),
        "kinema.studies.publications.published": ("Published", "read_published"),
    },
)
