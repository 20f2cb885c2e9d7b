"""The history: each metric over the runs, with its changes of level drawn in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """The values over the runs, with the median of each level and the changes between them."""
    runs = series["runs"]
    unit = _UNITS.get(str(series.get("metric")), "")
    values = [float(r["value"]) for r in runs]
    margin = 0.08 * (max(values) - min(values) or abs(values[0]) or 1)
    x = Scale(-0.5, len(runs) - 0.5)
    y = Scale(min(values) - margin, max(values) + margin)
    changes = series.get("changes") or ()
    shapes = [
        *_trend(values, x, y),
        *_changes(changes, unit, x),
        *_levels(values, changes, x, y),
        *_dots(runs, values, unit, x, y),
    ]
    every = max(1, -(-len(runs) // 8))
    marks = [
        (float(i), _short(runs[i].get("commit") or str(i), 7)) for i in range(0, len(runs), every)
    ]
    told = "; ".join(_told(change) for change in changes)
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
        _table(runs, name, unit),
        (("m-median", "median of a level"), ("m-limit", "change of level")),
        name if name in _UNITS else "",
    )


def _trend(values: Sequence[float], x: Scale, y: Scale) -> Iterator[Markup]:
    """Lines from run to run."""
    for i, (a, b) in enumerate(pairwise(values)):
        yield element(
            "line",
            class_="trend",
            x1=percent(x(i)),
            x2=percent(x(i + 1)),
            y1=percent(1 - y(a)),
            y2=percent(1 - y(b)),
        )


def _changes(changes: Sequence[Document], unit: str, x: Scale) -> Iterator[Markup]:
    """A line where the level changed, between two runs."""
    for change in changes:
        at = percent(x(change["index"] - 0.5))
        told = (
            f"level changed from {show(change['before'], unit)} to "
            f"{show(change['after'], unit)} with {_short(change.get('commit'))}"
        )
        yield titled("line", told, class_="m-limit", x1=at, x2=at, y1="0%", y2="100%")


def _levels(
    values: Sequence[float], changes: Sequence[Document], x: Scale, y: Scale
) -> Iterator[Markup]:
    """The median of the runs between two changes, over all of them."""
    bounds = [0, *(c["index"] for c in changes), len(values)]
    for begin, end in pairwise(bounds):
        level = sorted(values[begin:end])[(end - begin) // 2] if end > begin else values[0]
        yield element(
            "line",
            class_="m-median",
            x1=percent(x(begin - 0.5)),
            x2=percent(x(end - 0.5)),
            y1=percent(1 - y(level)),
            y2=percent(1 - y(level)),
        )


def _dots(
    runs: Sequence[Document], values: Sequence[float], unit: str, x: Scale, y: Scale
) -> Iterator[Markup]:
    """A dot a run, which says when and at which commit it was."""
    for i, (run, value) in enumerate(zip(runs, values, strict=True)):
        told = f"{words(run.get('at'), 40)}, {words(run.get('commit'), 16)}: {show(value, unit)}"
        yield titled(
            "circle", told, class_="dot s-1", cx=percent(x(i)), cy=percent(1 - y(value)), r=4
        )


def _table(runs: Sequence[Document], name: str, unit: str) -> Table:
    """The data behind the drawing."""
    rows = tuple(
        (
            text_cell(r.get("at"), 40),
            text_cell(r.get("commit"), 48),
            number_cell(float(r["value"]), unit),
            Cell(str(r.get("n") or "-"), r.get("n")),
        )
        for r in runs
    )
    columns = (
        Column("when", text=True),
        Column("commit", text=True),
        Column(name, name, unit),
        Column("n"),
    )
    return Table(f"{name} over the runs", columns, rows)


def _told(change: Document) -> str:
    relative = float(change.get("relative") or 0)
    sign = "−" if relative < 0 else "+"
    return f"{sign}{show(abs(relative), 'fraction')} in {_short(change.get('commit'))}"


def _short(commit: object, letters: int = 12) -> str:
    """The beginning of a hash, as git shortens it; it stands for the whole and needs no mark."""
    sha, plus, dirty = str(commit or "").partition("+")
    return words(f"{sha[:letters]}{plus}{dirty}", 40)
