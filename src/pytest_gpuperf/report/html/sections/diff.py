"""Before and after: what explains the change of the step, op by op, and nothing left over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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

Change = Mapping[str, Any]
MOST = 150
"""Changes that a page shows in full; of more the rest is one sum."""
_BARS = 20


def diff_section(found: Mapping[str, Any], title: str = "What changed") -> Section:
    """The changes that explain most of the difference in mean step time, and all in a table.

    Parameters
    ----------
    found
        A diff as JSON types (``Diff.to_json``), the largest changes first.
    title
        Of the section.
    """
    changes: Sequence[Change] = found["changes"]
    moved = [c for c in changes if c["delta_us"]][:_BARS]
    notes = tuple(words(n, 300) for n in found.get("notices") or ())
    head = (
        f"Mean step time changed by {_signed(found['delta_us'])}. The parts add up to it exactly: "
        "every moment of a step is one op's, exposed communication's, exposed memory's or idle."
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
    left = found.get("other_changes") or 0
    rest = _signed(float(found.get("other_delta_us") or 0.0))
    more = f"{left:,} more rows, {rest} in all, are left out." if left else ""
    blocks.append(_table(changes, "Every op, before and after", more=more))
    return Section(title, tuple(blocks))


def _bars(changes: Sequence[Change]) -> Markup:
    """A bar to either side of the middle, each change by its name."""
    largest = max(abs(c["delta_us"]) for c in changes) or 1.0
    x = Scale(-largest, largest)
    cells = []
    for change in changes:
        delta, name = float(change["delta_us"]), words(change["op"], 80)
        begin, end = sorted((x(0.0), x(delta)))
        bar = titled(
            "rect",
            f"{name}: {_signed(delta)}",
            class_="k-comm" if delta > 0 else "k-compute",
            x=percent(begin),
            y=1,
            width=percent(max(end - begin, 0.002)),
            height=20,
        )
        middle = element("line", class_="grid", x1="50%", x2="50%", y1=0, y2=22)
        cells += [
            element("span", words(name, 60), class_="label"),
            element("svg", bar, middle, class_="bar", width="100%", height=22, aria_hidden="true"),
            element("span", _signed(delta), class_="value"),
        ]
    return element("div", *cells, class_="bars")


def _table(changes: Sequence[Change], title: str, more: str = "") -> Table:
    rows = tuple(
        (
            text_cell(c["op"], 100),
            text_cell(" ".join(c["shapes_after"] or c["shapes_before"]), 100),
            text_cell(c["change"], 12),
            _side(c["before"], "exclusive_us"),
            _side(c["after"], "exclusive_us"),
            Cell(_signed(c["delta_us"]), c["delta_us"]),
            _side(c["before"], "count"),
            _side(c["after"], "count"),
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


def _side(cost: Mapping[str, float] | None, key: str) -> Cell:
    if cost is None:
        return Cell("-")
    value = cost[key]
    return number_cell(value, "us") if key == "exclusive_us" else Cell(f"{value:,.4g}", value)


def _signed(us: float) -> str:
    return f"{'−' if us < 0 else '+'}{show(abs(us), 'us')}"
