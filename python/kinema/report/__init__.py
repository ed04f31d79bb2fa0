"""Where the time of runs went: reports with every second accounted for, stragglers, advice, scaling, pictures; traces.

It measures nothing itself; runners and the Rust half do, and `kinema.base.timings` holds what they found. `traces/`
reads what tracers have written, and runs commands under strace.
"""

from kinema.report.report import Report, report_of
from kinema.report.scaling import Scaling, ScalingPoint, scaling_of
from kinema.report.stragglers import Straggler
from kinema.report.traces import TraceColumns, TraceSummary, record, side_by_side, summarise

__all__ = [
    "Report",
    "Scaling",
    "ScalingPoint",
    "Straggler",
    "TraceColumns",
    "TraceSummary",
    "record",
    "report_of",
    "scaling_of",
    "side_by_side",
    "summarise",
]
