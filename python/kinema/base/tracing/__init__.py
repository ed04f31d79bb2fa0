"""Traces: records of Kinema's work in this process and its children, in files that Perfetto and DFAnalyzer read.

Rust records; see `docs/traces.md`. This package starts and ends a trace, and adds events of Python.
"""

from kinema.base.tracing.recording import Trace, describe, event, span, trace

__all__ = ["Trace", "describe", "event", "span", "trace"]
