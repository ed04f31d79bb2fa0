"""Traces: files of events (Kinema's, DFTracer's, strace's) as one table, and what they say of a run's I/O."""

from __future__ import annotations

from kinema.report.traces.columns import TraceColumns, side_by_side
from kinema.report.traces.events import TraceEvents, read_trace
from kinema.report.traces.recording import RecordedCommand, record
from kinema.report.traces.summary import TimeSplit, TraceSummary, summarise

__all__ = [
    "RecordedCommand",
    "TimeSplit",
    "TraceColumns",
    "TraceEvents",
    "TraceSummary",
    "read_trace",
    "record",
    "side_by_side",
    "summarise",
]
