"""Where the time of runs went: reports with every second accounted for, stragglers, advice, scaling, pictures; traces.

Runners and the Rust half measure, and `kinema.base.timings` holds their findings; this package measures nothing.
`traces/` reads trace files, and runs commands under strace.
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
