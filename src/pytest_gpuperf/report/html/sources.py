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


_IN_FULL = 8
"""Tests with traces that a page shows in every detail; of more each has less, to the same sum."""


class TraceFiles:
    """Finds and reads the traces of records.

    Parameters
    ----------
    folder
        Where traces are looked for that are not at the path that the record has: a report that
        was moved together with its traces keeps them.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def read(self, record: Record) -> TraceSet:
        """The traces of `record`.

        Raises
        ------
        TraceError
            They are gone, or none of them can be read.
        """
        from gpuperf_analyzers.trace import TraceError, read_traces

        written = [str(path) for path in record.get("traces") or ()]
        there = [str(path) for path in map(self._found, written) if path is not None]
        if not there:
            raise TraceError(f"the trace {written[0]} is not there any more")
        traces = read_traces(there)
        if not traces.traces:
            raise TraceError("; ".join(traces.failed.values()))
        return traces

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


class TraceSections:
    """The sections that the traces of a record give, each trace read when it is asked for."""

    def __init__(self, config: Config, files: TraceFiles, tests: int = 1) -> None:
        self._config = config
        self._files = files
        self._detail = min(1.0, _IN_FULL / max(tests, 1))

    def __call__(self, record: Record) -> Sequence[Section]:
        """Every section of the record's traces; one that says why where there are none."""
        from gpuperf_analyzers.set_analysis import analyze_set
        from gpuperf_analyzers.trace import TraceError
        from pytest_gpuperf.report.html.analysed import analysis_sections

        if not record.get("traces"):
            return ()
        try:
            traces = self._files.read(record)
        except TraceError as error:
            said = f"No part of the trace is shown: {words(error, 500)}"
            return (Section("Trace", (Text((said,), "note"),)),)
        found = analyze_set(traces, self._config)
        return analysis_sections(traces, found, self._config, self._detail)


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
    traced = sum(bool(record.get("traces")) for record in document.get("results") or ())
    sections = TraceSections(config, TraceFiles(folder), traced)
    return results_page(document, sections, "gpuperf report")


def page_of_traces(traces: TraceSet, found: SetAnalysis, config: Config) -> Page:
    """The page of traces alone, which is of one subject."""
    from pytest_gpuperf.report.html.analysed import analysis_sections

    return traces_page(found, analysis_sections(traces, found, config))
