"""The sections of analyzed traces, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.set_analysis import SetAnalysis
from gpuperf_analyzers.trace.model import TraceSet
from pytest_gpuperf.report.html.blocks import Section
from pytest_gpuperf.report.html.sections.collectives import collectives_section
from pytest_gpuperf.report.html.sections.memory import memory_section
from pytest_gpuperf.report.html.sections.ops import ops_section
from pytest_gpuperf.report.html.sections.ranks import ranks_section
from pytest_gpuperf.report.html.sections.roofline import roofline_section
from pytest_gpuperf.report.html.sections.split import split_section
from pytest_gpuperf.report.html.sections.summary import summary_section
from pytest_gpuperf.report.html.sections.telemetry import telemetry_section
from pytest_gpuperf.report.html.sections.timeline import timeline_section


@dataclass(frozen=True, slots=True)
class Analysed:
    """What a section may be made of: the traces as read and their analysis."""

    traces: TraceSet
    found: SetAnalysis
    config: Config
    detail: float = 1.0
    """How much of what is many is shown: less where a page has many tests."""


MAKERS: tuple[Callable[[Analysed], Section | None], ...] = (
    lambda a: summary_section(a.found),
    lambda a: split_section(a.found),
    lambda a: ranks_section(a.found),
    lambda a: timeline_section(a.traces, a.found, a.config, a.detail),
    lambda a: ops_section(a.found, a.detail),
    lambda a: roofline_section(a.found, a.config),
    lambda a: collectives_section(a.found),
    lambda a: memory_section(a.found),
    lambda a: telemetry_section(a.traces, a.found),
)
"""Each gives a section, or None where the traces have nothing of its kind."""


def analysis_sections(
    traces: TraceSet, found: SetAnalysis, config: Config, detail: float = 1.0
) -> Sequence[Section]:
    """Every section that these traces have something for.

    `detail` is the share of the usual number of rows, bins and single events.
    """
    given = Analysed(traces, found, config, detail)
    return tuple(s for make in MAKERS if (s := make(given)) is not None)
