"""A file of another tool on a page: what is wrong with it, its values, its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuperf_analyzers.display import number
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Section,
    Table,
    Text,
    text_cell,
    words,
)
from pytest_gpuperf.report.html.sections.values import parts_section, values_section

Document = Mapping[str, Any]
_MOST_ROWS = 2000
"""Rows of one table on a page; of longer ones the last, as the terminal shows."""


def foreign_sections(document: Document) -> Sequence[Section]:
    """What a reading of the file (as JSON) says."""
    blocks: list[Block] = [Text((f"Read from {words(document['kind'], 120)}.",))]
    findings = tuple(words(f.get("message"), 500) for f in document.get("findings") or ())
    if findings:
        blocks.append(Text(findings, "caution"))
    blocks += [_table(sheet) for sheet in document["tables"]]
    sections = [Section("What the file says", tuple(blocks))]
    values = values_section(document.get("values") or {})
    if values is not None:
        sections.append(replace(values, open=True))
    parts = parts_section(document.get("parts") or {})
    if parts is not None:
        sections.append(parts)
    return sections


def _table(sheet: Document) -> Table:
    rows, columns = sheet["rows"], [str(c) for c in sheet["columns"]]
    numbers = [all(_is_number(row[i]) for row in rows) for i in range(len(columns))]
    left = len(rows) - _MOST_ROWS
    return Table(
        words(sheet["title"], 200),
        tuple(Column(words(c, 80), text=not n) for c, n in zip(columns, numbers, strict=True)),
        tuple(
            tuple(_cell(value, name) for value, name in zip(row, columns, strict=True))
            for row in rows[-_MOST_ROWS:]
        ),
        searchable=len(rows) > 1,
        more=f"{left:,} earlier rows are left out." if left > 0 else "",
    )


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, (int, float))


def _cell(value: object, column: str) -> Cell:
    if value is None:
        return Cell("-")
    if not isinstance(value, (int, float)):
        return text_cell(value, 300)
    if column == "share":
        return Cell(f"{value:.1%}", value)
    return Cell(f"{value:,}" if isinstance(value, int) else number(value), value)
