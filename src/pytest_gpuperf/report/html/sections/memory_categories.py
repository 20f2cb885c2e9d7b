"""Memory by category, from a live run: over time, at the peak, and what holds it."""

from __future__ import annotations

from gpuperf_analyzers.display import scale, show
from gpuperf_analyzers.memory_block import CATEGORIES, MemoryBlock
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    Plot,
    Table,
    number_cell,
    text_cell,
)
from pytest_gpuperf.report.html.embed import packed
from pytest_gpuperf.report.html.svg import element, split_bar

_KINDS = ("compute", "comm", "memory", "overlap", "latency", "dependency", "unknown")
"""A colour and pattern for each category, in their order."""


def category_blocks(memory: MemoryBlock) -> list[Block]:
    """What the block has."""
    blocks: list[Block] = []
    if memory.time_us and memory.over_time:
        blocks.append(_over_time(memory))
    if memory.at_peak and memory.peak_bytes:
        blocks.append(_at_peak(memory))
    if memory.causes:
        blocks.append(_causes(memory))
    return blocks


def _over_time(memory: MemoryBlock) -> Plot:
    used = [c for c in CATEGORIES if any(memory.over_time.get(c, ()))]
    totals = [sum(memory.over_time[c][i] for c in used) for i in range(len(memory.time_us))]
    top = max(range(len(totals)), key=totals.__getitem__)
    factor, symbol = scale(float(max(totals[top], 1)), "bytes")
    across, across_symbol = scale(max(memory.time_us[-1], 1e-3), "us")
    series = [
        {"label": c, "style": "step", "values": packed([float(v) for v in memory.over_time[c]])}
        for c in used
    ]
    return Plot(
        "Memory by category over the profiled steps",
        "series",
        {
            "x": {
                "label": f"time, {across_symbol}",
                "factor": across,
                "unit": "us",
                "values": packed(memory.time_us),
            },
            "y": {"label": symbol, "factor": factor, "unit": "bytes", "zero": True},
            "series": series,
            "stack": True,
            "marks": [{"at": memory.time_us[top], "axis": "x", "kind": "peak", "label": "peak"}],
        },
        f"{len(memory.time_us)} moments, the peak among them: {show(totals[top], 'bytes')} at "
        f"{show(memory.time_us[top], 'us')}. The categories stand on each other.",
        (("m-peak", f"peak {show(totals[top], 'bytes')}"),),
        "peak_memory",
    )


def _at_peak(memory: MemoryBlock) -> Drawing:
    parts = [
        (kind, f"{category}: {show(memory.at_peak[category], 'bytes')}", memory.at_peak[category])
        for kind, category in zip(_KINDS, CATEGORIES, strict=True)
        if memory.at_peak.get(category)
    ]
    bar = element(
        "div",
        element("span", "at the peak", class_="label"),
        split_bar([(k, told, float(n)) for k, told, n in parts], float(memory.peak_bytes)),
        element("span", show(memory.peak_bytes, "bytes"), class_="value"),
        class_="bars",
    )
    rows = tuple(
        (
            text_cell(category, 20),
            number_cell(float(memory.at_peak.get(category, 0)), "bytes"),
            number_cell(float(memory.largest.get(category, 0)), "bytes"),
        )
        for category in CATEGORIES
    )
    columns = (
        Column("category", text=True),
        Column("at the peak", unit="bytes"),
        Column("at most", unit="bytes"),
    )
    return Drawing(
        "What was alive at the peak",
        bar,
        ", ".join(told for _, told, _ in parts) + ".",
        Table("What was alive at the peak", columns, rows),
        tuple((f"k-{kind}", told) for kind, told, _ in parts),
        "peak_memory",
    )


def _causes(memory: MemoryBlock) -> Table:
    rows = tuple(
        (
            text_cell(c.category, 20),
            text_cell(c.where, 160),
            number_cell(float(c.bytes), "bytes"),
            Cell(f"{c.count:,}", c.count),
        )
        for c in memory.causes
    )
    columns = (
        Column("category", text=True),
        Column("held by", text=True),
        Column("bytes", unit="bytes"),
        Column("allocations"),
    )
    return Table("Who holds memory at the peak", columns, rows, searchable=True)
