"""A set of ranks: a bar a rank for each metric that differs, and who is late."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from gpuperf_analyzers.display import show
from gpuperf_analyzers.set_analysis import SetAnalysis, rank_labels
from gpuperf_analyzers.stragglers import StragglersResult
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
from pytest_gpuperf.report.html.svg import Scale, framed, percent, titled

_SHOWN = ("step_time", "exposed_comm", "overlap", "idle", "peak_memory", "peak_memory_growth")
_MOST_CELLS = 16_384


def ranks_section(found: SetAnalysis) -> Section | None:
    """None for a single rank."""
    if len(found.ranks) < 2:
        return None
    blocks: list[Block] = [_bars(found, name) for name in _SHOWN if name in found.spread]
    if found.stragglers is not None:
        blocks += _stragglers(found.stragglers)
    blocks.append(_table(found))
    return Section(f"The {len(found.ranks)} ranks", tuple(blocks))


def _bars(found: SetAnalysis, name: str) -> Drawing:
    """An upright bar a rank: readable up to hundreds of them."""
    metric, spread = found.metrics[name], found.spread[name]
    labels = rank_labels(found.ranks)
    values = [rank.values[name].value for rank in found.ranks]
    count = len(values)
    x, y = Scale(0, count), Scale(0, spread.highest * 1.08 if spread.highest > 0 else 1.0)
    shapes = []
    for index, (label, value) in enumerate(zip(labels, values, strict=True)):
        if value is not None:
            worst = label == spread.worst_at
            shapes.append(
                titled(
                    "rect",
                    f"{words(label, 60)}: {show(value, metric.unit)}{', worst' if worst else ''}",
                    class_="k-comm" if worst else "k-compute",
                    x=percent(x(index + 0.1)),
                    width=percent(0.8 / count),
                    y=percent(1 - y(value)),
                    height=percent(y(value)),
                )
            )
    mean = percent(1 - y(spread.mean))
    told = f"mean {show(spread.mean, metric.unit)}"
    shapes.append(titled("line", told, class_="m-median", x1="0%", x2="100%", y1=mean, y2=mean))
    every = max(1, -(-count // 16))
    marks = [(i + 0.5, words(labels[i], 24).removeprefix("rank ")) for i in range(0, count, every)]
    ups = [(v, show(v, metric.unit)) for v in y.ticks()]
    rows = tuple(
        (text_cell(label, 60), number_cell(value, metric.unit))
        for label, value in zip(labels, values, strict=True)
    )
    return Drawing(
        f"{metric.title} by rank",
        framed(
            shapes,
            x,
            y,
            x_label="rank",
            y_label=metric.title,
            height=180,
            x_ticks=marks,
            y_ticks=ups,
        ),
        f"From {show(spread.lowest, metric.unit)} to {show(spread.highest, metric.unit)}, mean "
        f"{show(spread.mean, metric.unit)}; worst {words(spread.worst_at, 60)}.",
        Table(
            f"{metric.title} by rank",
            (Column("rank", text=True), Column(metric.title, name, metric.unit)),
            rows,
        ),
        (("k-comm", f"worst: {words(spread.worst_at, 60)}"), ("m-median", told)),
        name,
        half=count <= 64,
    )


def _stragglers(found: StragglersResult) -> list[Block]:
    if found.absent_reason:
        return [Text((f"Who is late cannot be told: {words(found.absent_reason, 300)}",), "note")]
    late = "No rank is late enough to be called a straggler."
    if found.straggler is not None:
        row = found.of(found.straggler)
        since = f", in every step since {words(found.since, 40)}" if found.since else ""
        why = f", in {words(row.reason, 80)}" if row.reason else ""
        late = f"Rank {found.straggler} is late by {show(row.late_us, 'us')} a step{since}{why}."
    rows = tuple(
        (
            Cell(f"rank {r.rank}", float(r.rank)),
            Cell(_signed(r.late_us), r.late_us),
            number_cell(r.share, "fraction"),
            Cell(f"{r.last:,}", r.last),
            text_cell(r.reason or "-", 100),
        )
        for r in sorted(found.ranks, key=lambda r: -r.late_us)
    )
    columns = (
        Column("rank"),
        Column("late by, median step", "straggler_lateness", "us"),
        Column("share of the step", unit="1"),
        Column("came last"),
        Column("in what", text=True),
    )
    table = Table("Stragglers", columns, rows, searchable=len(rows) > 16)
    cells = len(found.steps) * len(found.ranks)
    map_ = [_map(found, late)] if 1 < cells <= _MOST_CELLS and len(found.steps) > 1 else []
    return [*map_, *([] if map_ else [Text((late,))]), table]


def _signed(us: float) -> str:
    return f"{'−' if us < 0 else ''}{show(abs(us), 'us')}"


def _map(found: StragglersResult, late: str) -> Drawing:
    """Lateness by rank and step: darker is later; each cell says its number on hover."""
    ranks, steps = found.ranks, found.steps
    largest = max((v for r in ranks for v in r.by_step_us), default=0.0)
    x, y = Scale(0, len(steps)), Scale(0, len(ranks))
    shapes: list[Markup] = []
    for i, row in enumerate(ranks):
        for j, value in enumerate(row.by_step_us):
            shade = 0 if largest <= 0 or value <= 0 else min(int(8 * value / largest) + 1, 9)
            shapes.append(
                titled(
                    "rect",
                    f"rank {row.rank}, {words(steps[j], 40)}: {_signed(value)}",
                    class_=f"heat h{shade}",
                    x=percent(x(j)),
                    width=percent(1 / len(steps)),
                    y=percent(i / len(ranks)),
                    height=percent(1 / len(ranks)),
                )
            )
    rows = tuple(
        (Cell(f"rank {r.rank}", float(r.rank)), text_cell(steps[j], 40), Cell(_signed(v), v))
        for r in ranks
        for j, v in enumerate(r.by_step_us)
    )[:2000]
    every_rank, every_step = max(1, -(-len(ranks) // 16)), max(1, -(-len(steps) // 10))
    return Drawing(
        "Lateness by rank and step",
        framed(
            shapes,
            x,
            y,
            x_label="step",
            y_label="rank",
            height=max(min(14 * len(ranks), 480), 90),
            x_ticks=[
                (j + 0.5, words(steps[j], 24).removeprefix("ProfilerStep"))
                for j in range(0, len(steps), every_step)
            ],
            y_ticks=[
                (len(ranks) - i - 0.5, str(ranks[i].rank)) for i in range(0, len(ranks), every_rank)
            ],
        ),
        late,
        Table(
            "Lateness by rank and step",
            (Column("rank"), Column("step", text=True), Column("late by", unit="us")),
            rows,
        ),
        (
            ("heat h0", "not late"),
            ("heat h3", "late"),
            ("heat h9", f"latest, {_signed(max(largest, 0.0))}"),
        ),
        "straggler_lateness",
    )


def _table(found: SetAnalysis) -> Table:
    """Every metric that a rank has: mean, extremes, the worst."""
    rows = tuple(
        (
            Cell(name, name, kind=f"metric {name}"),
            number_cell(s.mean, found.metrics[name].unit),
            number_cell(s.lowest, found.metrics[name].unit),
            number_cell(s.highest, found.metrics[name].unit),
            text_cell(s.worst_at, 60),
        )
        for name, s in found.spread.items()
    )
    columns: Sequence[Column] = (
        Column("metric", text=True),
        Column("mean"),
        Column("lowest"),
        Column("highest"),
        Column("worst", text=True),
    )
    return Table("Spread over the ranks", tuple(columns), rows, searchable=True)
