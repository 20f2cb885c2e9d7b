"""Traces for ui.perfetto.dev and chrome://tracing, with what the analysis found as tracks."""

from gpuperf_analyzers.perfetto.merging import merge_traces
from gpuperf_analyzers.perfetto.tracks import added_events, export_trace

__all__ = ["added_events", "export_trace", "merge_traces"]
