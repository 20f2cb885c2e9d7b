"""Renderers: records of results in, text or files out. They measure and judge nothing.

Names are imported on first use (PEP 562): no test run pays for a report it does not ask for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.report.annotations import github_lines, write_code_quality
    from pytest_gpuperf.report.html.sources import write_results_page
    from pytest_gpuperf.report.json_report import write_report
    from pytest_gpuperf.report.markdown import markdown_report, write_markdown
    from pytest_gpuperf.report.section import section_text
    from pytest_gpuperf.report.terminal import terminal_summary

_HOME = {
    "github_lines": "annotations",
    "write_code_quality": "annotations",
    "markdown_report": "markdown",
    "section_text": "section",
    "terminal_summary": "terminal",
    "write_markdown": "markdown",
    "write_report": "json_report",
    "write_results_page": "html.sources",
}

__all__ = [
    "github_lines",
    "markdown_report",
    "section_text",
    "terminal_summary",
    "write_code_quality",
    "write_markdown",
    "write_report",
    "write_results_page",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
