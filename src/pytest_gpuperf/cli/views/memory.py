"""What was allocated at the peak, and what was never freed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.memory import MemoryResult

_SHOWN = 5


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
        lines.append(f"{found.never_freed_count:,} allocations ({kept}) not freed at the end")
    emit(console, words("; ".join(lines)))
    console.print()
