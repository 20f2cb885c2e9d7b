"""``gpuperf report``: one page of what was recorded earlier: reports, folders of them, traces."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.inputs import (
    USAGE,
    add_reading,
    complain,
    read_inputs,
    reading,
    status_of,
)
from pytest_gpuperf.cli.partial import analyzed

if TYPE_CHECKING:
    from pytest_gpuperf.report.html.page import Page

DEFAULT_NAME = "report.html"


def run(argv: Sequence[str]) -> int:
    """Write the page: 0; 2 where an input is not in it or nothing is written, 130 Ctrl-C."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.schema:
        from pytest_gpuperf.report.schema import schema_text

        print(schema_text(), end="")  # noqa: T201 - the answer of the command
        return 0
    if not args.paths:
        parser.error("name a report, a folder of one, or traces")
    if args.tables is not None:
        from pytest_gpuperf.cli.report_tables import write_report_tables

        return write_report_tables(args.paths, args.tables, args.format)
    made = _page(args)
    if made is None:
        return USAGE
    page, status = made
    from pytest_gpuperf.report.html.page import write_page

    target = Path(args.output or _beside(args.paths))
    try:
        write_page(page, target)
    except OSError as error:
        complain(f"{target}: {error.strerror or error}")
        return USAGE
    print(target)  # noqa: T201 - the answer of the command
    return status


def _page(args: argparse.Namespace) -> tuple[Page, int] | None:
    """The page of what was named and the exit status; None, after a line why, without one."""
    from gpuperf_analyzers.registry import load_config
    from pytest_gpuperf.report.html.opening import InputError, page_of_files
    from pytest_gpuperf.report.html.sources import page_of_traces

    config = load_config()
    try:
        page = page_of_files(args.paths, config)
    except InputError as error:
        complain(str(error))
        return None
    if page is not None:
        return page, 0
    traces = read_inputs(args.paths, **reading(args))
    if traces is None:
        return None
    traces, found = analyzed(traces, config)
    return page_of_traces(traces, found, config), status_of(found.failed)


def _beside(paths: Sequence[str]) -> Path:
    """``report.html`` in the folder that was named, or beside the one file."""
    first = Path(paths[0])
    return (first if first.is_dir() else first.parent) / DEFAULT_NAME


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf report",
        allow_abbrev=False,
        description="One self-contained HTML page of results recorded earlier. Two reports are "
        "compared, the first one being before.",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="FILE|DIR",
        help="a report.json (or the folder of one, such as .gpuperf), history.jsonl, JSON of "
        "another gpuperf command, traces, or a file of another tool; two report.json are compared",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help=f"the page (default: {DEFAULT_NAME} beside the input)",
    )
    parser.add_argument(
        "--tables",
        metavar="DIR",
        help="write every table to DIR instead: of a report and its traces, or of traces",
    )
    parser.add_argument(
        "--format",
        choices=("csv", "parquet"),
        default="csv",
        help="of the tables (default %(default)s; parquet needs pyarrow)",
    )
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of report.json, and no more"
    )
    add_reading(parser)
    return parser
