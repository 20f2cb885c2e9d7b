"""Before and after: what explains the change of the step, op by op, and nothing left over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from gpuperf_analyzers.display import show
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    Section,
    Table,
    Text,
    number_cell,
    text_cell,
    words,
)
from pytest_gpuperf.report.html.svg import Scale, element, percent, titled

if TYPE_CHECKING:
    from gpuperf_analyzers.diff import Change, Diff

_BARS = 20
_MOST = 150


def diff_section(found: Diff, title: str = "What changed") -> Section:
    """The changes that explain most of the difference in mean step time, and all in a table."""
    ranked = sorted(found.changes, key=lambda c: -abs(float(c.delta)))
    moved = [c for c in ranked if c.delta][:_BARS]
    notes = tuple(words(n, 300) for n in found.notices)
    total = float(found.delta) / 1e3
    head = (
        f"Mean step time changed by {_signed(total)}. The parts add up to it exactly: every moment "
        "of a step is one op's, exposed communication's, exposed memory's or idle."
    )
    blocks: list[Block] = [Text((head,))]
    if notes:
        blocks.append(Text(notes, "note"))
    if moved:
        blocks.append(
            Drawing(
                "What explains the change",
                _bars(moved),
                f"The {len(moved)} largest changes per step; to the right is slower.",
                _table(moved, "What explains the change"),
                (("k-comm", "slower"), ("k-compute", "faster")),
                "step_time",
            )
        )
    more = f"{len(ranked) - _MOST:,} smaller changes are left out." if len(ranked) > _MOST else ""
    blocks.append(_table(ranked[:_MOST], "Every op, before and after", more=more))
    return Section(title, tuple(blocks))


def _bars(changes: Sequence[Change]) -> Markup:
    """A bar to either side of the middle, each change by its name."""
    largest = max(abs(float(c.delta)) for c in changes) or 1.0
    x = Scale(-largest, largest)
    cells = []
    for change in changes:
        delta = float(change.delta)
        begin, end = sorted((x(0.0), x(delta)))
        told = f"{words(change.name, 80)}: {_signed(delta / 1e3)}"
        bar = titled(
            "rect",
            told,
            class_="k-comm" if delta > 0 else "k-compute",
            x=percent(begin),
            y=1,
            width=percent(max(end - begin, 0.002)),
            height=20,
        )
        middle = element("line", class_="grid", x1="50%", x2="50%", y1=0, y2=22)
        cells += [
            element("span", words(change.name, 60), class_="label"),
            element("svg", bar, middle, class_="bar", width="100%", height=22, aria_hidden="true"),
            element("span", _signed(delta / 1e3), class_="value"),
        ]
    return element("div", *cells, class_="bars")


def _table(changes: Sequence[Change], title: str, more: str = "") -> Table:
    rows = tuple(
        (
            text_cell(c.name, 100),
            text_cell(" ".join(c.shapes_after or c.shapes_before), 100),
            Cell(c.word, c.word),
            number_cell(None if c.before is None else c.before.us, "us"),
            number_cell(None if c.after is None else c.after.us, "us"),
            Cell(_signed(float(c.delta) / 1e3), float(c.delta) / 1e3),
            _count(None if c.before is None else float(c.before.count)),
            _count(None if c.after is None else float(c.after.count)),
        )
        for c in changes
    )
    columns = (
        Column("op or cause", text=True),
        Column("shapes", text=True),
        Column("", text=True),
        Column("before", unit="us"),
        Column("after", unit="us"),
        Column("change", unit="us"),
        Column("calls before"),
        Column("calls after"),
    )
    return Table(title, columns, rows, searchable=True, more=more)


def _count(value: float | None) -> Cell:
    return Cell("-") if value is None else Cell(f"{value:,.4g}", value)


def _signed(us: float) -> str:
    return f"{'−' if us < 0 else '+'}{show(abs(us), 'us')}"
