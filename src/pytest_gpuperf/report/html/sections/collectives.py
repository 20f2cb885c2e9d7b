"""Communication: overlap by collective, bandwidth by size, waiting against transfer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from markupsafe import Markup

from gpuperf_analyzers.collectives import Collective
from gpuperf_analyzers.display import number, show
from gpuperf_analyzers.matched_collectives import MatchedCollective
from gpuperf_analyzers.set_analysis import SetAnalysis, slowest_rank
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
from pytest_gpuperf.report.html.svg import Scale, element, framed, percent, split_bar, titled

_MOST = 60
_DOTS = 3000


def collectives_section(found: SetAnalysis) -> Section | None:
    """Of the rank whose step is longest, and of all ranks where they are at hand."""
    rank = found.ranks[slowest_rank(found.ranks)]
    blocks: list[Block] = []
    for device in rank.devices:
        calls: Sequence[Collective] = device.results["collectives"].calls
        if calls:
            blocks.append(_overlap(calls, f"{rank.label} {device.label}".strip()))
            if found.collectives is None or not found.collectives.calls:
                blocks += _one_rank_bandwidth(calls)
    if found.collectives is not None:
        if found.collectives.calls:
            blocks += _matched(found.collectives.calls)
        if found.collectives.unmatched:
            told = [
                f"Not matched over the ranks: {words(r, 300)}" for r in found.collectives.unmatched
            ]
            blocks.append(Text(tuple(told), "note"))
    return Section("Communication", tuple(blocks)) if blocks else None


def _overlap(calls: Sequence[Collective], where: str) -> Drawing:
    """Hidden and exposed time of each kind of collective and size."""
    groups: dict[tuple[str, int | None], list[Collective]] = defaultdict(list)
    for call in calls:
        groups[call.kind, call.bytes].append(call)
    ranked = sorted(groups.items(), key=lambda kv: -sum(c.duration_us for c in kv[1]))
    whole = max(sum(c.duration_us for c in group) for _, group in ranked)
    cells: list[Markup] = []
    rows = []
    for (kind, size), group in ranked[:_MOST]:
        total = sum(c.duration_us for c in group)
        exposed = sum(c.exposed_us for c in group)
        hidden = max(total - exposed, 0.0)
        label = f"{words(kind, 40)}{', ' + show(size, 'bytes') if size is not None else ''}"
        parts = [
            ("overlap", f"hidden behind compute: {show(hidden, 'us')}", hidden),
            ("comm", f"exposed: {show(exposed, 'us')}", exposed),
        ]
        share = hidden / total if total else None
        cells += [
            element("span", f"{label} ×{len(group)}", class_="label"),
            split_bar(parts, whole),
            element("span", "-" if share is None else show(share, "fraction"), class_="value"),
        ]
        rows.append(
            (
                text_cell(kind, 40),
                number_cell(None if size is None else float(size), "bytes"),
                Cell(f"{len(group):,}", len(group)),
                number_cell(total, "us"),
                number_cell(exposed, "us"),
                number_cell(share, "fraction"),
            )
        )
    columns = (
        Column("collective", text=True),
        Column("bytes", unit="bytes"),
        Column("calls"),
        Column("time", unit="us"),
        Column("exposed", unit="us"),
        Column("overlap", "overlap", "1"),
    )
    left = len(ranked) - _MOST
    return Drawing(
        f"Overlap by collective ({where})",
        element("div", *cells, class_="bars"),
        f"{len(calls):,} collectives of {len(ranked)} kinds and sizes, the most time first; the "
        "figure on the right is the share hidden behind compute."
        + (f" {left} more kinds and sizes are left out." if left > 0 else ""),
        Table("Overlap by collective", columns, tuple(rows), searchable=True),
        (("k-overlap", "hidden behind compute"), ("k-comm", "exposed")),
        "overlap",
    )


def _one_rank_bandwidth(calls: Sequence[Collective]) -> list[Block]:
    """Lower bounds: one rank's time has its waiting for the others in it."""
    sized = [
        (c.kind, c.bytes, c.busbw_gb_s, c.duration_us) for c in calls if c.bytes and c.busbw_gb_s
    ]
    if not sized:
        return []
    note = "From one rank alone: a lower bound, for its time has waiting for the others in it."
    return [_bandwidth([(k, int(b or 0), float(r or 0), t) for k, b, r, t in sized], note)]


def _bandwidth(points: Sequence[tuple[str, int, float, float]], note: str) -> Drawing:
    """Bus bandwidth by message size, both axes logarithmic."""
    kinds = list(dict.fromkeys(kind for kind, *_ in points))[:8]
    x = Scale(min(p[1] for p in points) / 1.5, max(p[1] for p in points) * 1.5, log=True)
    y = Scale(min(p[2] for p in points) / 1.5, max(p[2] for p in points) * 1.5, log=True)
    every = -(-len(points) // _DOTS)
    shapes = [
        titled(
            "circle",
            f"{words(kind, 40)}: {show(size, 'bytes')}, {number(rate)} GB/s, {show(time, 'us')}",
            class_=f"dot s-{kinds.index(kind) + 1 if kind in kinds else 8}",
            cx=percent(x(size)),
            cy=percent(1 - y(rate)),
            r=4,
        )
        for kind, size, rate, time in points[::every]
    ]
    marks = [(v, show(v, "bytes")) for v in _powers_of_two(x.low, x.high)]
    columns = (
        Column("collective", text=True),
        Column("bytes", unit="bytes"),
        Column("busbw", "busbw", "GB/s"),
        Column("time", unit="us"),
    )
    rows = tuple(
        (
            text_cell(kind, 40),
            number_cell(float(size), "bytes"),
            Cell(number(rate), rate),
            number_cell(time, "us"),
        )
        for kind, size, rate, time in points[:500]
    )
    thin = f" Every {every}th is drawn." if every > 1 else ""
    return Drawing(
        "Bus bandwidth by message size",
        framed(shapes, x, y, x_label="bytes of one collective", y_label="GB/s", x_ticks=marks),
        f"{len(points):,} collectives. {note}{thin}",
        Table(
            "Bus bandwidth by message size",
            columns,
            rows,
            searchable=True,
            more=f"The first 500 of {len(points):,}." if len(points) > 500 else "",
        ),
        tuple((f"s-{i + 1}", words(kind, 40)) for i, kind in enumerate(kinds)),
        "busbw",
    )


def _powers_of_two(low: float, high: float) -> list[float]:
    import math

    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    every = max(1, math.ceil((last - first + 1) / 6))
    return [2.0**e for e in range(first, last + 1, every)]


def _matched(calls: Sequence[MatchedCollective]) -> list[Block]:
    """With all ranks at hand: waiting against transfer by kind and size, and true bandwidth."""
    groups: dict[tuple[str, int | None], list[MatchedCollective]] = defaultdict(list)
    for call in calls:
        groups[call.kind, call.bytes].append(call)
    cost = {
        key: (sum(_mean(c.wait_us) for c in group), sum(c.time_us for c in group))
        for key, group in groups.items()
    }
    ranked = sorted(groups, key=lambda key: -sum(cost[key]))
    whole = max((sum(pair) for pair in cost.values()), default=0.0)
    cells: list[Markup] = []
    rows = []
    for kind, size in ranked[:_MOST]:
        wait, transfer = cost[kind, size]
        group = groups[kind, size]
        label = f"{words(kind, 40)}{', ' + show(size, 'bytes') if size is not None else ''}"
        cells += [
            element("span", f"{label} ×{len(group)}", class_="label"),
            split_bar(
                [
                    ("host", f"waiting, mean of ranks: {show(wait, 'us')}", wait),
                    ("comm", f"transfer: {show(transfer, 'us')}", transfer),
                ],
                whole,
            ),
            element("span", show(wait + transfer, "us"), class_="value"),
        ]
        rows.append(
            (
                text_cell(kind, 40),
                number_cell(None if size is None else float(size), "bytes"),
                Cell(f"{len(group):,}", len(group)),
                number_cell(wait, "us"),
                number_cell(transfer, "us"),
            )
        )
    columns = (
        Column("collective", text=True),
        Column("bytes", unit="bytes"),
        Column("calls"),
        Column("waiting, mean of ranks", unit="us"),
        Column("transfer", unit="us"),
    )
    blocks: list[Block] = [
        Drawing(
            "Waiting against transfer",
            element("div", *cells, class_="bars"),
            f"{len(calls):,} collectives matched over the ranks. Waiting is from a rank's start to "
            "the last one's, transfer from the last start to the last end.",
            Table("Waiting against transfer", columns, tuple(rows), searchable=True),
            (("k-host", "waiting for the others"), ("k-comm", "transfer")),
        )
    ]
    sized = [
        (c.kind, int(c.bytes), float(c.busbw_gb_s), c.time_us)
        for c in calls
        if c.bytes and c.busbw_gb_s
    ]
    if sized:
        blocks.append(_bandwidth(sized, "Transfer alone, matched over the ranks."))
    return blocks


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
