"""``gpuperf report PATH --tables DIR``: every table as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.inputs import USAGE, complain, read_inputs

if TYPE_CHECKING:
    import pandas as pd

    from gpuperf_analyzers.tables import Format


def write_report_tables(paths: Sequence[str], folder: str, form: Format) -> int:
    """Write the tables and print their files: 0, or 2 after a line why not."""
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
    tables = _of_report(paths[0]) if reports else _of_traces(paths)
    if tables is None:
        return USAGE
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
    return 0


def _of_traces(paths: Sequence[str]) -> dict[str, pd.DataFrame] | None:
    from gpuperf_analyzers.set_analysis import analyze_set
    from gpuperf_analyzers.tables import analysis_tables

    traces = read_inputs(paths, salvage=True)
    return None if traces is None else analysis_tables(analyze_set(traces))


def _of_report(path: str) -> dict[str, pd.DataFrame]:
    """The report's own tables, and those of its traces with the test in front."""
    import pandas as pd

    from gpuperf_analyzers.loading import load_report
    from gpuperf_analyzers.set_analysis import analyze_set
    from gpuperf_analyzers.tables import analysis_tables
    from gpuperf_analyzers.trace import TraceError
    from pytest_gpuperf.report.html.sources import TraceFiles

    report = load_report(path)
    made = report.tables()
    given = Path(path)
    files = TraceFiles(given if given.is_dir() else given.parent)
    parts: dict[str, list[pd.DataFrame]] = {}
    for record in report.document["results"]:
        if not record.get("traces"):
            continue
        try:
            found = analyze_set(files.read(record))
        except TraceError as error:
            complain(f"{record.get('test')}: {error}")
            continue
        for name, frame in analysis_tables(found).items():
            if len(frame):
                frame.insert(0, "test", record.get("test", ""))
                frame.insert(1, "name_of_measurement", record.get("name", ""))
                parts.setdefault(f"trace_{name}", []).append(frame)
    return {**made, **{n: pd.concat(fs, ignore_index=True) for n, fs in parts.items()}}
