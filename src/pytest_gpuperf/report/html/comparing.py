"""Two reports on one page: every test that both have, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from gpuperf_analyzers.display import show, show_interval
from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.report.columns import Record, test_name
from pytest_gpuperf.report.html.blocks import (
    Cell,
    Column,
    Drawing,
    Section,
    Subject,
    Table,
    Text,
    number_cell,
    words,
)
from pytest_gpuperf.report.html.model import definitions, environment_facts, unique_anchors
from pytest_gpuperf.report.html.page import Page
from pytest_gpuperf.report.html.sections.diff import MOST, diff_section
from pytest_gpuperf.report.html.sections.limits import verdict_cell
from pytest_gpuperf.report.html.sections.values import metric_cell
from pytest_gpuperf.report.html.svg import Scale, element, framed, percent, titled

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.diff import Diff
    from pytest_gpuperf.report.html.sources import TraceFiles

Key = tuple[str, str]
_METRICS = {m.name: m for m in BUILTIN}
_OVERVIEW = (
    "step_time",
    "tflops",
    "overlap",
    "exposed_comm",
    "idle",
    "kernel_launches",
    "host_syncs",
    "peak_memory",
    "throughput",
)


def comparison_page(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    files: tuple[TraceFiles, TraceFiles],
    names: tuple[str, str],
    config: Config,
) -> Page:
    """The page of two ``report.json``, the first one being before."""
    old, new = _keyed(before), _keyed(after)
    shared = [key for key in new if key in old]
    anchors = unique_anchors([" ".join(key) for key in shared])
    subjects = tuple(
        _subject(old[key], new[key], anchor, files, config)
        for key, anchor in zip(shared, anchors, strict=True)
    )
    named = tuple(zip(shared, anchors, strict=True))
    overview: list[Table | Text] = []
    notice = _environments(before, after)
    if notice:
        overview.append(Text(notice, "note"))
    overview += [_overview(old, new, named), *_missing(old, new)]
    return Page(
        title=_title(*map(Path, names)),
        created=f"before {words(before.get('created'))}, after {words(after.get('created'))}",
        facts=(
            *((f"before: {k}", v) for k, v in environment_facts(before)),
            *((f"after: {k}", v) for k, v in environment_facts(after)),
        ),
        overview=tuple(overview),
        subjects=subjects,
        definitions=definitions(BUILTIN),
    )


def _title(old: Path, new: Path) -> str:
    """The two files' names; with their folders where the names are the same."""
    same = old.name == new.name
    said = [words(Path(p.parent.name, p.name) if same else p.name, 60) for p in (old, new)]
    return f"gpuperf: {said[0]} against {said[1]}"


def _keyed(document: Mapping[str, Any]) -> dict[Key, Record]:
    """The records by test and measurement; of a test told twice the last."""
    records = document.get("results") or ()
    return {(str(r.get("test", "")), str(r.get("name") or "")): r for r in records}


def _environments(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """What differs between where the two were made: a difference may be that and not the code."""
    old, new = dict(before.get("environment") or {}), dict(after.get("environment") or {})
    differing = [k for k in {**old, **new} if k != "commit" and old.get(k) != new.get(k)]
    return tuple(
        f"The two were not made in the same place: {words(k, 40)} was {words(old.get(k, '-'), 80)} "
        f"and is {words(new.get(k, '-'), 80)}."
        for k in differing
    )


def _value(record: Record, metric: str) -> tuple[float | None, Sequence[float] | None]:
    entry = (record.get("values") or {}).get(metric) or {}
    value = entry.get("value")
    return (None if value is None else float(value)), entry.get("interval")


def apart(before: Sequence[float] | None, after: Sequence[float] | None) -> bool | None:
    """Whether two 95% intervals do not touch; None where one is not known.

    Intervals apart are a difference between these two runs. It is not a verdict: between two runs
    of one program more differs than the samples of one of them show.
    """
    if not before or not after:
        return None
    return before[1] < after[0] or after[1] < before[0]


def _overview(
    old: Mapping[Key, Record], new: Mapping[Key, Record], named: Sequence[tuple[Key, str]]
) -> Table:
    rows = tuple(
        row
        for key, anchor in named
        for metric in _OVERVIEW
        for row in _row(old[key], new[key], metric, Cell(test_name(new[key]), link=anchor))
    )
    columns = (
        Column("test", text=True),
        Column("metric", text=True),
        Column("before"),
        Column("after"),
        Column("change", unit="share of before"),
        Column("", text=True),
        Column("verdict before", text=True),
        Column("verdict after", text=True),
    )
    return Table("Before and after", columns, rows, searchable=True)


def _row(old: Record, new: Record, metric: str, *first: Cell) -> Iterator[tuple[Cell, ...]]:
    (a, low), (b, high) = _value(old, metric), _value(new, metric)
    if a is None and b is None:
        return
    unit = _METRICS[metric].unit if metric in _METRICS else ""
    yield (
        *first,
        metric_cell(metric),
        _with_interval(a, low, unit),
        _with_interval(b, high, unit),
        *_change(metric, a, b, apart(low, high)),
        verdict_cell(old.get("verdict")),
        verdict_cell(new.get("verdict")),
    )


def _with_interval(value: float | None, interval: Sequence[float] | None, unit: str) -> Cell:
    detail = show_interval(value, interval, unit) if interval and value is not None else ""
    return number_cell(value, unit, detail)


def _change(metric: str, a: float | None, b: float | None, told: bool | None) -> tuple[Cell, Cell]:
    if a is None or b is None:
        return Cell("-"), Cell("only on one side")
    if a == b:
        return Cell("0", 0.0), Cell("same")
    better = _METRICS[metric].better if metric in _METRICS else "lower"
    word = "better" if (b > a) == (better == "higher") else "worse"
    unsure = {None: "", True: ", intervals apart", False: ", intervals touch"}[told]
    if not a:
        return Cell("from 0"), Cell(f"{word}{unsure}")
    share = (b - a) / abs(a)
    text = f"{'−' if share < 0 else '+'}{show(abs(share), 'fraction')}"
    return Cell(text, share), Cell(f"{word}{unsure}")


def _missing(old: Mapping[Key, Record], new: Mapping[Key, Record]) -> list[Table | Text]:
    gone = [f"Only before: {test_name(old[k])}" for k in old if k not in new]
    added = [f"Only after: {test_name(new[k])}" for k in new if k not in old]
    return [Text((*gone, *added), "note")] if gone or added else []


def _subject(
    old: Record,
    new: Record,
    anchor: str,
    files: tuple[TraceFiles, TraceFiles],
    config: Config,
) -> Subject:
    sections = []
    samples = _samples(old, new)
    if samples is not None:
        sections.append(samples)
    found = _diffed(old, new, files, config)
    if isinstance(found, str):
        sections.append(Section("What changed", (Text((found,), "note"),)))
    elif found is not None:
        sections.append(diff_section(found.to_json(MOST)))
    names = dict.fromkeys([*(old.get("values") or {}), *(new.get("values") or {})])
    rows = tuple(row for name in names for row in _row(old, new, name))
    columns = (
        Column("metric", text=True),
        Column("before"),
        Column("after"),
        Column("change", unit="share of before"),
        Column("", text=True),
    )
    table = Table("Every metric", columns, tuple(r[:5] for r in rows), searchable=True)
    sections.append(Section("Values", (table,)))
    return Subject(
        anchor,
        test_name(new),
        words(new.get("verdict") or "", 20),
        words(new.get("device") or "", 80),
        tuple(sections),
    )


def _diffed(
    old: Record, new: Record, files: tuple[TraceFiles, TraceFiles], config: Config
) -> Diff | str | None:
    """The diff of the two records' traces; why there is none; None where none were recorded."""
    from gpuperf_analyzers.diff import diff, op_table
    from gpuperf_analyzers.trace import TraceError

    if not old.get("traces") or not new.get("traces"):
        return None
    tables = []
    for record, found, word in ((old, files[0], "before"), (new, files[1], "after")):
        try:
            traces = found.read(record)
            tables.append(op_table(traces, config))
        except (TraceError, ValueError) as error:  # noqa: PERF203 - two rounds
            return f"Op by op nothing can be said, of {word}: {words(error, 300)}"
    return diff(tables[0], tables[1])


def _samples(old: Record, new: Record) -> Section | None:
    """Both sides' samples as dots in two rows, with their medians."""
    sides = [[float(s) for s in r.get("samples_us") or () if s is not None] for r in (old, new)]
    if not all(sides):
        return None
    both = sides[0] + sides[1]
    x, y = Scale(min(both) * 0.98, max(both) * 1.02), Scale(0, 2)
    shapes = [
        *_dots(sides[0], 0, "s-1", x),
        *_dots(sides[1], 1, "s-2", x),
        *_median(old, 0, x),
        *_median(new, 50, x),
    ]
    drawing = Drawing(
        "Samples, before and after",
        framed(
            shapes,
            x,
            y,
            x_label="time per step",
            y_label="",
            height=150,
            x_ticks=[(v, show(v, "us")) for v in x.ticks()],
            y_ticks=[(1.5, "before"), (0.5, "after")],
        ),
        f"{len(sides[0])} samples before, {len(sides[1])} after; the lines are the medians.",
        _samples_table(("before", old, sides[0]), ("after", new, sides[1])),
        (("s-1", "before"), ("s-2", "after"), ("m-median", "median")),
        "step_time",
    )
    return Section("Samples", (drawing,))


def _dots(samples: Sequence[float], row: int, kind: str, x: Scale) -> Iterator[Markup]:
    """A dot a sample in the upper (0) or lower (1) row, not all at one height."""
    every = -(-len(samples) // 1500)
    for i, value in enumerate(samples[::every]):
        at = (row + 0.3 + 0.4 * ((i * 0.618) % 1)) / 2
        yield titled(
            "circle",
            show(value, "us"),
            class_=f"dot {kind}",
            cx=percent(x(value)),
            cy=percent(at),
            r=3.5,
        )


def _median(record: Record, top: int, x: Scale) -> Iterator[Markup]:
    """The median as a line through a row that begins at `top` %."""
    median, _ = _value(record, "step_time")
    if median is not None:
        at = percent(x(median))
        yield element("line", class_="m-median", x1=at, x2=at, y1=f"{top}%", y2=f"{top + 50}%")


def _samples_table(*sides: tuple[str, Record, Sequence[float]]) -> Table:
    """What the two rows of dots come to."""
    rows = []
    for word, record, samples in sides:
        median, interval = _value(record, "step_time")
        rows.append(
            (
                Cell(word),
                Cell(str(len(samples)), len(samples)),
                _with_interval(median, interval, "us"),
                number_cell(min(samples), "us"),
                number_cell(max(samples), "us"),
            )
        )
    columns = (
        Column("", text=True),
        Column("samples"),
        Column("median", "step_time", "us"),
        Column("fastest", unit="us"),
        Column("slowest", unit="us"),
    )
    return Table("Samples, before and after", columns, tuple(rows))
