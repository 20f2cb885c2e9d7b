"""The history: each metric over the runs, with its changes of level drawn in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from gpuperf_analyzers.display import show
from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.report.html.blocks import (
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
from pytest_gpuperf.report.html.svg import Scale, element, framed, percent, titled

Document = Mapping[str, Any]
_UNITS = {m.name: m.unit for m in BUILTIN}


def history_sections(document: Document) -> Sequence[Section]:
    """Each metric over the runs, with its changes of level drawn in."""
    left = document.get("lines_left_out") or 0
    said = (
        f"{left} {'line was' if left == 1 else 'lines were'} left out: torn, or of a newer version."
    )
    notes = [Section("The file", (Text((said,), "caution"),))] if left else []
    return notes + [
        Section(
            words(" ".join(str(s.get(k) or "") for k in ("test", "name", "metric")).strip(), 160),
            (_history(s),),
        )
        for s in document["series"]
        if isinstance(s, Mapping) and s.get("runs")
    ]


def _history(series: Document) -> Drawing:
    runs = series["runs"]
    unit = _UNITS.get(str(series.get("metric")), "")
    values = [float(r["value"]) for r in runs]
    span = max(values) - min(values)
    x = Scale(-0.5, len(runs) - 0.5)
    y = Scale(
        min(values) - 0.08 * (span or abs(values[0]) or 1),
        max(values) + 0.08 * (span or abs(values[0]) or 1),
    )
    shapes: list[Markup] = [
        element(
            "line",
            class_="trend",
            x1=percent(x(i)),
            x2=percent(x(i + 1)),
            y1=percent(1 - y(a)),
            y2=percent(1 - y(b)),
        )
        for i, (a, b) in enumerate(pairwise(values))
    ]
    changes = series.get("changes") or ()
    levels = [0, *(c["index"] for c in changes), len(runs)]
    for change in changes:
        at = percent(x(change["index"] - 0.5))
        told = (
            f"level changed from {show(change['before'], unit)} to "
            f"{show(change['after'], unit)} with {_short(change.get('commit'))}"
        )
        shapes.append(titled("line", told, class_="m-limit", x1=at, x2=at, y1="0%", y2="100%"))
    for begin, end in pairwise(levels):
        level = sorted(values[begin:end])[(end - begin) // 2] if end > begin else values[0]
        shapes.append(
            element(
                "line",
                class_="m-median",
                x1=percent(x(begin - 0.5)),
                x2=percent(x(end - 0.5)),
                y1=percent(1 - y(level)),
                y2=percent(1 - y(level)),
            )
        )
    for i, run in enumerate(runs):
        told = (
            f"{words(run.get('at'), 40)}, {words(run.get('commit'), 16)}: {show(values[i], unit)}"
        )
        shapes.append(
            titled(
                "circle",
                told,
                class_="dot s-1",
                cx=percent(x(i)),
                cy=percent(1 - y(values[i])),
                r=4,
            )
        )
    every = max(1, -(-len(runs) // 8))
    marks = [
        (float(i), _short(runs[i].get("commit") or str(i), 7)) for i in range(0, len(runs), every)
    ]
    told = "; ".join(_told(change) for change in changes)
    rows = tuple(
        (
            text_cell(r.get("at"), 40),
            text_cell(r.get("commit"), 48),
            number_cell(float(r["value"]), unit),
            Cell(str(r.get("n") or "-"), r.get("n")),
        )
        for r in runs
    )
    name = words(series.get("metric"), 60)
    return Drawing(
        f"{name} over {len(runs)} runs",
        framed(
            shapes,
            x,
            y,
            x_label="commit",
            y_label=name,
            height=220,
            x_ticks=marks,
            y_ticks=[(v, show(v, unit)) for v in y.ticks()],
        ),
        f"{len(runs)} runs; " + (f"changes of level: {told}." if told else "one level."),
        Table(
            f"{name} over the runs",
            (
                Column("when", text=True),
                Column("commit", text=True),
                Column(name, name, unit),
                Column("n"),
            ),
            rows,
        ),
        (("m-median", "median of a level"), ("m-limit", "change of level")),
        name if name in _UNITS else "",
    )


def _told(change: Document) -> str:
    relative = float(change.get("relative") or 0)
    sign = "−" if relative < 0 else "+"
    return f"{sign}{show(abs(relative), 'fraction')} in {_short(change.get('commit'))}"


def _short(commit: object, letters: int = 12) -> str:
    """The beginning of a hash, as git shortens it; it stands for the whole and needs no mark."""
    sha, plus, dirty = str(commit or "").partition("+")
    return words(f"{sha[:letters]}{plus}{dirty}", 40)
