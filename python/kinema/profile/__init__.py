"""Where the time of runs went: reports with every second accounted for, stragglers, advice, scaling, pictures.

It measures nothing itself; runners and the Rust half do, and `kinema.runners.timings` holds what they found.
"""

from typing import Any

from kinema.profile.report import Report, report_of
from kinema.profile.scaling import Scaling, ScalingPoint, scaling_of
from kinema.profile.stragglers import Straggler

__all__ = ["Published", "Report", "Scaling", "ScalingPoint", "Straggler", "read_published", "report_of", "scaling_of"]

# for comparisons with publications alone
_LATER = {"Published": "kinema.profile.published", "read_published": "kinema.profile.published"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
