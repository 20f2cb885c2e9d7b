"""CUPTI's counters by kernel, where a trace has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import number, short_names, show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import Analysis


def print_counters(console: Console, rank: Analysis, top: int) -> None:
    """Kernel, ranges, FLOPs, and the largest counters of each."""
    shown = table("measured by counters", "ranges", "FLOP", "largest counters", numbers=0)
    names = short_names([k.name for k in rank.counters[:top]], 40)
    for kernel, name in zip(rank.counters[:top], names, strict=True):
        largest = sorted(kernel.totals.items(), key=lambda pair: -pair[1])[:2]
        told = [f"{counter} {number(value)}" for counter, value in largest if value]
        shown.add_row(
            words(name),
            words(f"{kernel.count:,}"),
            words("-" if kernel.flops is None else show(kernel.flops, "FLOP")),
            words(", ".join(told)),
        )
    if shown.row_count:
        emit(console, shown)
