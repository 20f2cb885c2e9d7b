"""``gpuperf analyze FILE --mark OUT``: the trace once more, with its critical path to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.cli.inputs import USAGE, complain

if TYPE_CHECKING:
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import TraceSet


def write_marked(traces: TraceSet, found: SetAnalysis, destination: str) -> int:
    """Write the one trace with its critical paths to `destination`: 0, or 2 after a line why not.

    Parameters
    ----------
    traces
        What was read: the marked copy is of one file.
    found
        Its analysis, which has the paths.
    destination
        The new file, packed with gzip where its name ends in ``.gz``.
    """
    from gpuperf_analyzers.critical_path import mark_trace
    from gpuperf_analyzers.trace import TraceError

    if len(traces.traces) != 1:
        complain(f"--mark copies one trace, and {len(traces.traces)} were read: name one file")
        return USAGE
    paths = [device.results["critical_path"] for device in found.ranks[0].devices]
    if not paths:
        complain(f"{traces.traces[0].path}: no device was active: there is no path to mark")
        return USAGE
    try:
        mark_trace(traces.traces[0], paths, destination)
    except TraceError as error:
        complain(str(error))
        return USAGE
    except OSError as error:
        complain(f"{destination}: {error.strerror or error}")
        return USAGE
    return 0
