"""Traces: what Kinema does in this process and in those that it starts, as files that Perfetto and DFAnalyzer read.

Rust records; see `docs/traces.md`. This package starts and ends a trace, and adds what Python does.
"""

from kinema.base.tracing.recording import Trace, describe, event, span, trace

__all__ = ["Trace", "describe", "event", "span", "trace"]
