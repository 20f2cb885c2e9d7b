"""``gpuperf report PATH --tables DIR``: every table as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.cli.inputs import INTERRUPTED, USAGE, complain, read_inputs, status_of
from pytest_gpuperf.cli.partial import analyzed

if TYPE_CHECKING:
    import pandas as pd

    from gpuperf_analyzers.tables import Format
    from pytest_gpuperf.report.html.sources import TraceFiles


def write_report_tables(paths: Sequence[str], folder: str, form: Format) -> int:
    """Write the tables and print their files: 0, or 2 after a line why not.

    After Ctrl-C these are of what was analyzed, and the status is 130.
    """
    from gpuperf_analyzers.tables import write_tables
    from pytest_gpuperf.report.html.kinds import is_report
    from pytest_gpuperf.report.html.opening import InputError, document

    try:
        reports = [d for path in paths if (d := document(path)) is not None and is_report(d)]
    except InputError as error:
        complain(str(error))
        return USAGE
    if reports and len(paths) > 1:
        complain("--tables takes one report, or traces")
        return USAGE
    made = _of_report(paths[0]) if reports else _of_traces(paths)
    if made is None:
        return USAGE
    tables, status = made
    try:
        written = write_tables(tables, folder, form)
    except ImportError as error:
        complain(str(error))
        return USAGE
    except OSError as error:
        complain(f"{folder}: {error.strerror or error}")
        return USAGE
    for path in written:
        print(path)  # noqa: T201 - the answer of the command
    return status


_Made = tuple[dict[str, "pd.DataFrame"], int]
"""Tables by name, and the exit status."""


def _of_traces(paths: Sequence[str]) -> _Made | None:
    from gpuperf_analyzers.tables import analysis_tables

    traces = read_inputs(paths, salvage=True)
    if traces is None:
        return None
    _, found = analyzed(traces)
    return analysis_tables(found), status_of(found.failed)


def _of_report(path: str) -> _Made:
    """The report's own tables, and those of its traces with the test in front.

    Ctrl-C leaves those of the tests that were done, after a line that says how many.
    """
    from gpuperf_analyzers.loading import load_report
    from pytest_gpuperf.report.html.sources import TraceFiles

    report = load_report(path)
    made = report.tables()
    given = Path(path)
    files = TraceFiles(given if given.is_dir() else given.parent)
    records = [record for record in report.document["results"] if record.get("traces")]
    parts: dict[str, list[pd.DataFrame]] = {}
    for done, record in enumerate(records):
        try:
            tables = _of_record(record, files)
        except KeyboardInterrupt:
            complain(f"interrupted: {done} of {len(records)} measurements' traces are analyzed")
            return made | _joined(parts), INTERRUPTED
        for name, frame in tables.items():
            parts.setdefault(f"trace_{name}", []).append(frame)
    return made | _joined(parts), 0


def _of_record(record: Mapping[str, Any], files: TraceFiles) -> dict[str, pd.DataFrame]:
    """The tables of one measurement's traces; none, after a line why, where they cannot be read."""
    from gpuperf_analyzers.set_analysis import analyze_set
    from gpuperf_analyzers.tables import analysis_tables
    from gpuperf_analyzers.trace import TraceError

    try:
        found = analyze_set(files.read(record))
    except TraceError as error:
        complain(f"{record.get('test')}: {error}")
        return {}
    tables = {name: frame for name, frame in analysis_tables(found).items() if len(frame)}
    for frame in tables.values():
        frame.insert(0, "test", record.get("test", ""))
        frame.insert(1, "name_of_measurement", record.get("name", ""))
    return tables


def _joined(parts: Mapping[str, Sequence[pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    import pandas as pd

    return {name: pd.concat(frames, ignore_index=True) for name, frames in parts.items()}
