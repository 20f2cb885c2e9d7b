"""Memory over time: what was allocated and held from the device, and where the peak was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuperf_analyzers.analysis import DeviceAnalysis
from gpuperf_analyzers.display import scale, show
from gpuperf_analyzers.memory import MemoryResult
from gpuperf_analyzers.set_analysis import SetAnalysis, slowest_rank
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Plot,
    Section,
    Table,
    number_cell,
    text_cell,
    words,
)
from pytest_gpuperf.report.html.embed import packed
from pytest_gpuperf.report.html.sections.memory_categories import category_blocks
from pytest_gpuperf.report.html.thinning import thinned, told


def memory_section(found: SetAnalysis) -> Section | None:
    """Of the rank whose step is longest; None where nothing was recorded."""
    rank = found.ranks[slowest_rank(found.ranks)]
    blocks: list[Block] = []
    if rank.block is not None and rank.block.memory is not None:
        blocks += category_blocks(rank.block.memory)
    for device in rank.devices:
        memory: MemoryResult = device.results["memory"]
        if memory.events:
            blocks += [_over_time(device, memory), *_tables(memory)]
    return Section("Memory", tuple(blocks)) if blocks else None


def _over_time(device: DeviceAnalysis, memory: MemoryResult) -> Plot:
    time = np.asarray(memory.time_us)
    grown = np.asarray(memory.allocated_bytes, dtype=np.float64)
    keep = thinned(time, grown)
    reserved = np.asarray(memory.reserved_bytes, dtype=np.float64)
    factor, symbol = scale(float(max(grown.max(), 1.0)), "bytes")
    across, across_symbol = scale(float(max(time[-1], 1e-3)), "us")
    series = [
        {
            "label": "allocated since the recording began",
            "style": "step",
            "values": packed(grown[keep]),
        }
    ]
    if (reserved >= 0).all():
        series.append({"label": "reserved", "style": "step", "values": packed(reserved[keep])})
    marks = []
    peak = ""
    if not memory.absent_reason:
        marks = [{"at": memory.peak_us, "axis": "x", "kind": "peak", "label": "peak"}]
        size, at = show(memory.peak_growth, "bytes"), show(memory.peak_us, "us")
        peak = f" The peak, {size}, was reached in {words(memory.peak_op, 80)} at {at}."
    lost = ""
    if memory.unaccounted_bytes:
        lost = f" Events for {show(abs(memory.unaccounted_bytes), 'bytes')} are missing."
    return Plot(
        f"Memory over time, {device.label}",
        "series",
        {
            "x": {
                "label": f"time, {across_symbol}",
                "factor": across,
                "unit": "us",
                "values": packed(time[keep]),
            },
            "y": {"label": symbol, "factor": factor, "unit": "bytes"},
            "series": series,
            "marks": marks,
        },
        f"{memory.events:,} allocations and frees.{peak}{lost}{told(len(keep), len(time))}",
        (("m-peak", f"peak {show(memory.peak_growth, 'bytes')}"),) if marks else (),
        "peak_memory_growth",
    )


def _tables(memory: MemoryResult) -> Sequence[Block]:
    made: list[Block] = []
    if memory.alive_at_peak:
        rows = tuple(
            (
                number_cell(float(a.bytes), "bytes"),
                text_cell(a.op, 120),
                number_cell(a.at_us, "us"),
                number_cell(a.freed_us, "us"),
            )
            for a in memory.alive_at_peak
        )
        columns = (
            Column("bytes", unit="bytes"),
            Column("allocated in", text=True),
            Column("at", unit="us"),
            Column("freed at", unit="us"),
        )
        left = memory.alive_at_peak_count - len(rows)
        more = f"{left:,} smaller ones were alive too." if left > 0 else ""
        made.append(Table("Alive at the peak", columns, rows, searchable=True, more=more))
    if memory.by_op:
        rows = tuple(
            (
                text_cell(o.op, 120),
                Cell(f"{o.allocations:,}", o.allocations),
                number_cell(float(o.bytes), "bytes"),
                number_cell(float(o.kept_bytes), "bytes"),
            )
            for o in memory.by_op[:100]
        )
        columns = (
            Column("op", text=True),
            Column("allocations"),
            Column("bytes", unit="bytes"),
            Column("kept to the end", unit="bytes"),
        )
        made.append(Table("Allocations by op", columns, rows, searchable=True))
    return made
