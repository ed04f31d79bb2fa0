"""Where the time of runs went: reports with every second accounted for, stragglers, advice, scaling, pictures.

It measures nothing itself; runners and the Rust half do, and `kinema.timings` holds what they found.
"""

from kinema.profile.report import Report, report_of
from kinema.profile.scaling import Scaling, ScalingPoint, scaling_of
from kinema.profile.stragglers import Straggler

__all__ = ["Report", "Scaling", "ScalingPoint", "Straggler", "report_of", "scaling_of"]
