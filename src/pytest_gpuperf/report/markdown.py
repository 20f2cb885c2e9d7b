"""The results as a markdown page: a table, then what each red or doubtful result says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuperf_analyzers.failure_text import failure_text
from pytest_gpuperf.report.columns import Record, Table, results_table, test_name
from pytest_gpuperf.report.json_report import write_whole

_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_{}[]<>#|~"} | {"\n": " ", "\r": " ", "@": "&#64;"}
)


def write_markdown(records: Sequence[Record], path: Path) -> Path:
    """Write the page to `path`, whole or not at all, and return it."""
    write_whole(path, markdown_report(records))
    return path


def markdown_report(records: Sequence[Record]) -> str:
    """The page: a row a result, numbered notes, and the failure text of each that is not PASS."""
    results = results_table(records)
    lines = ["# gpuperf", "", *_table(results), ""]
    lines += [f"{index}. {_escaped(note)}" for index, note in enumerate(results.notes, 1)]
    if results.notes:
        lines.append("")
    for record in records:
        if record.get("verdict") not in {"PASS", None}:
            lines += [f"## {record['verdict']}: {_escaped(test_name(record))}", ""]
            lines += [f"    {line}" for line in failure_text(record).splitlines()]
            lines.append("")
    return "\n".join(lines)


def _table(results: Table) -> list[str]:
    titles = ["test", "verdict", *results.titles, "note"]
    lines = [_line(titles), _line([":--", ":--", *(["--:"] * (len(titles) - 2))], raw=True)]
    for row in results.rows:
        cells = [f"{c.text} ({c.detail})" if c.detail else c.text for c in row.cells]
        lines.append(_line([row.test, row.verdict, *cells, ", ".join(map(str, row.notes))]))
    return lines


def _line(cells: Sequence[str], *, raw: bool = False) -> str:
    return "| " + " | ".join(cell if raw else _escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    return text.translate(_SPECIAL)
