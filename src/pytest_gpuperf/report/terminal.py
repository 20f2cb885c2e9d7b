"""The terminal summary: a table with a row a test, its notes, and a line for each soft verdict."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless
from gpuperf_analyzers.failure_text import limit_text, together
from pytest_gpuperf.report.columns import (
    EXPENDABLE,
    LAST_TO_GO,
    Record,
    Row,
    Table,
    on_cpu,
    results_table,
    soft,
    test_name,
    without,
)
from pytest_gpuperf.report.sparks import LEGEND, can_be_shown, pictures

if TYPE_CHECKING:
    import pytest
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

_COLOURS = {"PASS": "green", "FAIL": "bold red", "INVALID": "bold red"}
_SOFT_COLOUR = "yellow"
_ORDER = ("FAIL", "INVALID", "INCOMPARABLE", "NO-BASELINE", "AMBIGUOUS", "UNMEASURED", "PASS")
_NARROWEST = 40
_ROOM_FOR_NAMES = 30


def terminal_summary(
    records: Sequence[Record],
    terminalreporter: pytest.TerminalReporter,
    config: pytest.Config,
    *,
    table: bool = True,
) -> None:
    """Write the results under pytest's own output.

    With ``-q`` one line of counts, and that only where something did not pass; `table` false
    leaves the table out and keeps the lines of soft verdicts.
    """
    if not records:
        return
    quiet = config.get_verbosity() if hasattr(config, "get_verbosity") else config.option.verbose
    if quiet < 0:
        if any(r.get("verdict") not in {"PASS", None} for r in records):
            terminalreporter.write_line(f"gpuperf: {counts(records)}")
        return
    writer = config.get_terminal_writer()
    if table:
        terminalreporter.section("gpuperf")
        text = render(records, width=writer.fullwidth, colour=writer.hasmarkup)
        terminalreporter.write(text)
    for line in soft_lines(records):
        terminalreporter.write_line(line, yellow=True)


def counts(records: Sequence[Record]) -> str:
    """How many results have which verdict, the worst first: ``1 FAIL, 3 PASS``."""
    found = Counter(str(r.get("verdict")) for r in records if r.get("verdict"))
    return ", ".join(f"{found[v]} {v}" for v in _ORDER if found[v]) or "nothing judged"


def soft_lines(records: Sequence[Record]) -> list[str]:
    """A line for each limit that neither passed nor failed, naming its test."""
    return [
        f"gpuperf: {test_name(record)}: {limit_text(judgement, on_cpu=on_cpu(record))}"
        for record in soft(records)
        for judgement in together(
            j for j in record.get("limits") or () if j["verdict"] == record["verdict"]
        )
    ]


def render(
    records: Sequence[Record], *, width: int, colour: bool, drawn: bool | None = None
) -> str:
    """The table and its notes as text no wider than `width`; escape codes only with `colour`.

    `drawn` says whether each result's samples and split of the step are drawn in letters, None
    that they are where the standard output's encoding has those.
    """
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, _NARROWEST),
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    results, left_out = _fitting(results_table(records), console.width)
    if can_be_shown() if drawn is None else drawn:
        rows = zip(results.rows, records, strict=True)
        results = replace(results, rows=tuple(replace(row, picture=pictures(r)) for row, r in rows))
    if console.width - _width_of_numbers(results) >= _ROOM_FOR_NAMES:
        console.print(_table(results, results.rows, header=True, names=True))
    else:
        console.print(_table(results, (), header=True, names=False))
        for row in results.rows:
            console.print(Text(row.test))
            if row.picture:
                console.print(Text(row.picture, style="dim"))
            console.print(_table(results, (row,), header=False, names=False))
    if left_out:
        console.print(Text(f"no room for: {', '.join(left_out)} (the report has them)"))
    for index, note in enumerate(results.notes, 1):
        console.print(Text(f"{index} {note}"))
    if any(row.picture for row in results.rows):
        console.print(Text(LEGEND, style="dim"))
    console.print(Text(counts(records)))
    # Trailing blanks are the renderer's padding; a table without rows leaves an empty line.
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def _fitting(results: Table, width: int) -> tuple[Table, tuple[str, ...]]:
    """`results` with as many columns as there is room for, and the titles of the others.

    A number that is broken over two lines cannot be read; one column less can.
    """
    expendable = [title for title in EXPENDABLE if title in results.titles]
    for count in range(len(expendable) + 1):
        for left_out in combinations(expendable, count):
            rest = reduce(without, left_out, results)
            if _width_of_numbers(rest) <= width:
                return rest, left_out
    left_out = tuple(expendable)
    rest = reduce(without, left_out, results)
    for title in LAST_TO_GO:
        if _width_of_numbers(rest) <= width:
            break
        if title in rest.titles:
            rest, left_out = without(rest, title), (*left_out, title)
    return rest, left_out


def _columns(results: Table) -> list[tuple[str, int]]:
    """Title and width of each column right of the names; long titles break between words."""
    verdicts = max([len("verdict"), *(len(row.verdict) for row in results.rows)])
    columns = [("verdict", verdicts)]
    for index, title in enumerate(results.titles):
        cells = [row.cells[index] for row in results.rows]
        texts = [*title.split(), *(c.text for c in cells), *(c.detail for c in cells)]
        columns.append((title, max(len(text) for text in texts)))
    if results.notes:
        columns.append(("note", len("note")))
    return columns


def _width_of_numbers(results: Table) -> int:
    return sum(width + 1 for _, width in _columns(results))


def _table(results: Table, rows: Sequence[Row], *, header: bool, names: bool) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(
        box=box.SIMPLE_HEAD,
        show_header=header,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0),
        expand=False,
    )
    if names:
        table.add_column("test", overflow="fold")
    for title, width in _columns(results):
        left = title == "verdict"
        table.add_column(
            title,
            justify="left" if left else "right",
            overflow="fold",
            width=width,  # titles break, so that names keep their room
        )
    for row in rows:
        cells = [_name(row)] if names else []
        cells.append(Text(row.verdict, style=_colour(row)))
        cells += [Text(f"{c.text}\n{c.detail}" if c.detail else c.text) for c in row.cells]
        if results.notes:
            cells.append(Text(" ".join(map(str, row.notes))))
        table.add_row(*cells)
    return table


def _name(row: Row) -> RichText:
    from rich.text import Text

    name = Text(row.test)
    if row.picture:
        name.append(f"\n{row.picture}", style="dim")
    return name


def _colour(row: Row) -> str:
    return _COLOURS.get(row.verdict, _SOFT_COLOUR if row.verdict else "")


def one_line(record: Record) -> str:
    """A result in one line, for verbose output and logs."""
    failing = [j for j in record.get("limits") or () if j["verdict"] != "PASS"]
    said = "; ".join(limit_text(j, on_cpu=on_cpu(record)) for j in failing)
    return harmless(f"{test_name(record)}: {record.get('verdict')}" + (f": {said}" if said else ""))
