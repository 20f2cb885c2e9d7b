"""Send and receive of all ranks: who moved how much, and how unevenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import number, show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.set_analysis import SetAnalysis


def print_exchanges(console: Console, found: SetAnalysis) -> None:
    """A row a rank that sent or received; nothing for a set that did neither."""
    from gpuperf_analyzers.point_to_point import exchanges

    sums = exchanges(
        {
            index if rank.rank is None else rank.rank: [
                device.results["collectives"] for device in rank.devices
            ]
            for index, rank in enumerate(found.ranks)
        }
    )
    if not sums.ranks:
        return
    shown = table("send and receive", "calls", "bytes", "time", "exposed", numbers="rest")
    for row in sums.ranks:
        sized = row.unsized < row.calls
        shown.add_row(
            words(f"rank {row.rank}"),
            words(f"{row.calls:,}"),
            words(show(row.bytes, "bytes") if sized else "not recorded"),
            words(show(row.time_us, "us")),
            words(show(row.exposed_us / row.time_us, "fraction") if row.time_us else "-"),
        )
    emit(console, shown)
    uneven = [
        f"{number(ratio)} times the mean in {what}"
        for ratio, what in ((sums.byte_imbalance, "bytes"), (sums.time_imbalance, "time"))
        if ratio is not None
    ]
    if uneven and len(sums.ranks) > 1:
        emit(console, words(f"the most of a rank is {', '.join(uneven)}"))
        console.print()
