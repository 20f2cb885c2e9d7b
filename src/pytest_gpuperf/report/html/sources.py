"""Where a page's content comes from: records, the traces that they name, or traces alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.report.columns import Record
from pytest_gpuperf.report.html.blocks import Section, Text, words
from pytest_gpuperf.report.html.model import results_page, traces_page
from pytest_gpuperf.report.html.page import Page, write_page
from pytest_gpuperf.report.json_report import report_document

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import TraceSet


class TraceSections:
    """The sections that the traces of a record give, each trace read when it is asked for.

    Parameters
    ----------
    config
        The resolved hookspecs.
    folder
        Where traces are looked for that are not at the path that the record has: a report that
        was moved with its traces keeps them.
    """

    def __init__(self, config: Config, folder: Path | None = None) -> None:
        self._config = config
        self._folder = folder

    def __call__(self, record: Record) -> Sequence[Section]:
        """Every section of the record's traces; one that says why where there are none."""
        from pytest_gpuperf.report.html.analysed import analysis_sections

        paths = [self._found(str(path)) for path in record.get("traces") or ()]
        there = [path for path in paths if path is not None]
        if not paths:
            return ()
        if not there:
            return (_absent(f"the trace {record['traces'][0]} is not there any more"),)
        from gpuperf_analyzers.set_analysis import analyze_set
        from gpuperf_analyzers.trace import TraceError, read_traces

        try:
            traces = read_traces([str(path) for path in there])
        except TraceError as error:
            return (_absent(str(error)),)
        if not traces.traces:
            return (_absent("; ".join(traces.failed.values())),)
        return analysis_sections(traces, analyze_set(traces, self._config), self._config)

    def _found(self, written: str) -> Path | None:
        path = Path(written)
        return next((p for p in self._candidates(path) if p.is_file()), None)

    def _candidates(self, path: Path) -> Iterator[Path]:
        yield path
        if self._folder is not None:
            yield self._folder / path
            if "traces" in path.parts:
                last = len(path.parts) - 1 - path.parts[::-1].index("traces")
                yield self._folder.joinpath(*path.parts[last:])


def _absent(reason: str) -> Section:
    return Section(
        "Trace", (Text((f"No part of the trace is shown: {words(reason, 500)}",), "note"),)
    )


def write_results_page(
    records: Sequence[Record],
    path: Path,
    environment: Mapping[str, Any],
    config: Config,
    *,
    root: Path | None = None,
) -> Path:
    """The page of a run that has just ended, written to `path`.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    document = report_document(records, environment, root=root)
    return write_page(page_of_document(document, config, path.parent), path)


def page_of_document(document: Mapping[str, Any], config: Config, folder: Path | None) -> Page:
    """The page of the content of a ``report.json`` in `folder`."""
    return results_page(document, TraceSections(config, folder), "gpuperf report")


def page_of_traces(traces: TraceSet, found: SetAnalysis, config: Config) -> Page:
    """The page of traces alone, which is of one subject."""
    from pytest_gpuperf.report.html.analysed import analysis_sections

    return traces_page(found, analysis_sections(traces, found, config))
