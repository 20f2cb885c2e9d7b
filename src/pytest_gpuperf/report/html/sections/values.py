"""Every metric of a result: what was measured, and what was not and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gpuperf_analyzers.display import show, show_interval
from pytest_gpuperf.report.columns import Record
from pytest_gpuperf.report.html.blocks import Block, Cell, Column, Section, Table, text_cell, words

_MEASURED = (
    Column("metric", text=True),
    Column("value"),
    Column("95% interval"),
    Column("n"),
    Column("at", text=True),
    Column("source", text=True),
)
_ABSENT = (Column("metric", text=True), Column("why there is no number", text=True))


def values_section(values: Mapping[str, Mapping[str, Any]]) -> Section | None:
    """A table of the metrics that have a number and one of those that have none."""
    blocks: list[Block] = []
    measured = tuple(_row(n, v) for n, v in values.items() if v.get("value") is not None)
    if measured:
        blocks.append(Table("Measured", _MEASURED, measured, searchable=True))
    missing = tuple(
        (metric_cell(name), text_cell(v.get("absent_reason") or "not in this report", 300))
        for name, v in values.items()
        if v.get("value") is None
    )
    if missing:
        blocks.append(Table("Not measured", _ABSENT, missing, searchable=True))
    return Section("All values", tuple(blocks), open=False) if blocks else None


def parts_section(parts: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Section | None:
    """What was measured of each device (or table) of a file; None where there is only one.

    `parts` has the values by metric of each, by its label. The values of the whole are of the
    worst of them.
    """
    if len(parts) < 2:
        return None
    rows = tuple(
        (text_cell(label, 120), *_row(name, entry)[:4], text_cell(entry.get("source") or "", 160))
        for label, values in parts.items()
        for name, entry in values.items()
        if entry.get("value") is not None
    )
    if not rows:
        return None
    columns = (Column("part", text=True), *_MEASURED[:4], _MEASURED[5])
    table = Table(f"Measured, each of {len(parts)}", columns, rows, searchable=True)
    return Section("Each device or table of the file", (table,))


def metric_cell(name: str) -> Cell:
    """A metric's name, with its definition one hover away."""
    said = words(name, 60)
    return Cell(said, said, kind=f"metric {said}" if name.isidentifier() else "")


def _row(name: str, entry: Mapping[str, Any]) -> tuple[Cell, ...]:
    value, interval, unit = float(entry["value"]), entry.get("interval"), entry.get("unit") or ""
    return (
        metric_cell(name),
        Cell(show(value, unit), value),
        Cell(show_interval(value, interval, unit) if interval else "-"),
        Cell(str(entry.get("n") or "-"), entry.get("n")),
        text_cell(entry.get("at") or "", 60),
        text_cell(entry.get("source") or "", 160),
    )


def not_measured(records: Sequence[Record]) -> Table | None:
    """Over all tests: each reason once, the metrics that it keeps away, and of how many tests."""
    found: dict[str, tuple[dict[str, None], dict[int, None]]] = defaultdict(lambda: ({}, {}))
    for index, record in enumerate(records):
        for name, entry in (record.get("values") or {}).items():
            if entry.get("value") is None and entry.get("absent_reason"):
                metrics, tests = found[str(entry["absent_reason"])]
                metrics[str(name)] = None
                tests[index] = None
    rows = tuple(
        (
            text_cell(", ".join(metrics), 600),
            text_cell(reason, 300),
            Cell(f"{len(tests)} of {len(records)}", len(tests)),
        )
        for reason, (metrics, tests) in found.items()
    )
    if not rows:
        return None
    columns = (
        Column("metrics", text=True),
        Column("why there is no number", text=True),
        Column("tests"),
    )
    return Table("What was not measured, and why", columns, rows, searchable=True)
