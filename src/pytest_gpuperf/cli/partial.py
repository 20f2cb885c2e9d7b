"""The analysis of many ranks, which Ctrl-C ends with what is done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.inputs import complain
from pytest_gpuperf.cli.progress import progress

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import TraceSet


def analyzed(traces: TraceSet, config: Config | None = None) -> tuple[TraceSet, SetAnalysis]:
    """The analysis, shown as it goes on, and the traces that it is of.

    Of a set that is interrupted these are the ranks that were done, after a line that says so;
    the others stand with the reason in ``failed``.
    """
    from gpuperf_analyzers.set_analysis import analyze_set

    count = len(traces.traces)
    with progress("analyzing", count) as told:
        found = analyze_set(traces, config, told=told, partial_result=True)
    done = len(found.ranks)
    if done == count:
        return traces, found
    complain(f"interrupted: {done} of {count} ranks are analyzed")
    return replace(traces, traces=traces.traces[:done], failed=found.failed), found
