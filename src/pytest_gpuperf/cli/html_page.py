"""``gpuperf analyze --html PATH``: the analysis as a page instead of on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.inputs import USAGE, complain

if TYPE_CHECKING:
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import TraceSet


def write_html(traces: TraceSet, found: SetAnalysis, destination: str) -> int:
    """Write the page and print where it is: 0, or 2 after a line why it could not be written."""
    from gpuperf_analyzers.registry import load_config
    from pytest_gpuperf.report.html.page import write_page
    from pytest_gpuperf.report.html.sources import page_of_traces

    try:
        write_page(page_of_traces(traces, found, load_config()), Path(destination))
    except OSError as error:
        complain(f"{destination}: {error.strerror or error}")
        return USAGE
    print(destination)  # noqa: T201 - the answer of the command
    return 0
