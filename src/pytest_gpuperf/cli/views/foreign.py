"""A file of another tool on a terminal: what it is, what is wrong with it, values, tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.console import emit, make_console, table, words
from pytest_gpuperf.cli.views.values import print_values

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.foreign.model import Cell, Reading, Sheet
    from gpuperf_analyzers.metrics import Metric


def print_reading(reading: Reading, metrics: Mapping[str, Metric], *, top: int) -> None:
    """Print the reading; of long tables the first `top` rows and how many there are."""
    console = make_console()
    named = f", {reading.device_name}" if reading.device_name else ""
    emit(console, words(f"{reading.path}: {reading.kind}{named}", "bold"))
    for finding in reading.findings:
        emit(console, words(f"! {finding.message}", "yellow"))
    emit(console, words(""))
    values = reading.values(metrics)
    if values:
        print_values(console, values, metrics, reading.invalid)
    for sheet in reading.sheets:
        _print_sheet(console, sheet, top)


def _print_sheet(console: Console, sheet: Sheet, top: int) -> None:
    emit(console, words(sheet.title, "bold"))
    shown = table(*sheet.columns)
    for index in range(len(sheet.columns)):
        if all(isinstance(row[index], (int, float, type(None))) for row in sheet.rows):
            shown.columns[index].justify = "right"
    # The last rows of a table by size are the largest: they tell of the bandwidth.
    for row in sheet.rows if len(sheet.rows) <= max(top, 40) else sheet.rows[-top:]:
        shown.add_row(*(words(_cell(c, n)) for c, n in zip(row, sheet.columns, strict=True)))
    emit(console, shown)
    if len(sheet.rows) > max(top, 40):
        emit(console, words(f"the last {top} of {len(sheet.rows):,} rows (--top)"))


def _cell(cell: Cell, column: str) -> str:
    if cell is None:
        return "-"
    if column == "share":
        return f"{cell:.1%}"
    if isinstance(cell, float):
        return f"{cell:,.4g}" if abs(cell) < 1e6 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
