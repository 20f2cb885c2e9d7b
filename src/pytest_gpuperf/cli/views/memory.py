"""What was allocated at the peak, and what was never freed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted, show
from gpuperf_analyzers.memory_block import CATEGORIES
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.memory import MemoryResult
    from gpuperf_analyzers.memory_block import MemoryBlock

_SHOWN = 5


def print_breakdown(console: Console, memory: MemoryBlock, top: int) -> None:
    """Memory by category at the peak, at most and over time, and the places that hold it."""
    shown = table("memory by category", "at the peak", "at most", "over time", numbers=0)
    for column in shown.columns[1:3]:
        column.justify = "right"
    for category in CATEGORIES:
        if memory.largest.get(category) or category == "unknown":
            series = memory.over_time.get(category, ())
            shown.add_row(
                category,
                words(show(memory.at_peak.get(category, 0), "bytes")),
                words(show(memory.largest.get(category, 0), "bytes")),
                words(drawn(series, memory.peak_bytes)),
            )
    shown.add_row("all", show(memory.peak_bytes, "bytes"), show(memory.peak_bytes, "bytes"), "")
    emit(console, shown)
    places = table("held at the peak by", "category", "bytes", "allocations", numbers=2)
    for cause in memory.causes[:top]:
        size = show(cause.bytes, "bytes")
        places.add_row(words(cause.where, width=60), cause.category, size, f"{cause.count:,}")
    emit(console, places)


_BARS = " ▁▂▃▄▅▆▇█"
_COLUMNS = 32


def drawn(series: Sequence[int], whole: int) -> str:
    """`series` as a line of bars, a full one being `whole`; what is not 0 is never drawn as 0."""
    if not series or not whole:
        return ""
    columns = min(_COLUMNS, len(series))
    edges = [len(series) * i // columns for i in range(columns + 1)]
    largest = [max(series[a:b]) for a, b in pairwise(edges)]
    steps = len(_BARS) - 1
    return "".join(_BARS[min(steps, -(-value * steps // whole))] for value in largest)


def print_memory(console: Console, device: DeviceAnalysis, top: int) -> None:
    """The largest allocations alive at the peak, and the sum of what stayed."""
    found: MemoryResult = device.results["memory"]
    if found.absent_reason or not found.peak_growth:
        return
    shown = table("alive at the peak", "bytes", "allocated at", "freed at", numbers="rest")
    for allocation in found.alive_at_peak[: min(top, _SHOWN)]:
        shown.add_row(
            words(allocation.op, width=50),
            words(show(allocation.bytes, "bytes")),
            words(show(allocation.at_us, "us")),
            words("never" if allocation.freed_us is None else show(allocation.freed_us, "us")),
        )
    emit(console, shown)
    lines = [f"memory grew by {show(found.peak_growth, 'bytes')} at most, in {found.peak_op}"]
    if found.total_peak:
        lines.append(f"allocator's peak {show(found.total_peak, 'bytes')}")
    if found.never_freed_count:
        kept = show(found.never_freed_bytes, "bytes")
        lines.append(
            f"{counted(found.never_freed_count, 'allocation')} ({kept}) not freed at the end"
        )
    emit(console, words("; ".join(lines)))
    console.print()
