"""``gpuperf analyze FILE... --perfetto OUT``: what was found, as tracks to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.cli.inputs import USAGE, complain

if TYPE_CHECKING:
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import TraceSet


def write_perfetto(traces: TraceSet, found: SetAnalysis, destination: str) -> int:
    """Write one trace with its tracks, or several merged: 0, or 2 after a line why not."""
    from gpuperf_analyzers.perfetto import export_trace, merge_traces
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.trace import TraceError

    config = load_config()
    try:
        if len(traces.traces) == 1:
            export_trace(traces.traces[0], found.ranks[0], config, destination)
        else:
            merge_traces(traces, found, config, destination)
    except TraceError as error:
        complain(str(error))
        return USAGE
    except OSError as error:
        complain(f"{destination}: {error.strerror or error}")
        return USAGE
    return 0
