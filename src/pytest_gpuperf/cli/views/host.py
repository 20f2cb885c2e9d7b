"""What the host did to the device: blocking calls by op, copies, delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless, number, show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.host import Host


def print_host(console: Console, device: DeviceAnalysis, top: int) -> None:
    """Tables of blocking calls and of copies, and a line for each kind of delay."""
    host: Host = device.results["host"]
    _print_syncs(console, host, top)
    _print_copies(console, host, top)
    lines = [
        f"{delay.kind}: {harmless(delay.name, 60)}, {delay.count:,} times, "
        f"{show(delay.time / 1e3, 'us')}"
        for delay in host.delays[:top]
    ]
    if host.allocations:
        time = show(host.allocation_ns / 1e3, "us")
        lines.append(f"driver allocations: {host.allocations:,} calls, {time}")
    for line in lines:
        emit(console, words(line))
    if lines:
        console.print()


def _print_syncs(console: Console, host: Host, top: int) -> None:
    shown = table("the host waits in", "for", "count", "blocked", numbers=2)
    for sync in host.syncs[:top]:
        inner = f" ({sync.inner_op})" if sync.inner_op not in {"", sync.op} else ""
        shown.add_row(
            words(sync.call, width=40),
            words((sync.op or "no op") + inner, width=60),
            words(f"{sync.count:,}"),
            words(show(sync.blocked / 1e3, "us")),
        )
    if shown.row_count:
        emit(console, shown)


def _print_copies(console: Console, host: Host, top: int) -> None:
    shown = table("copies and memsets", "count", "bytes", "time", "GB/s", numbers="rest")
    for copy in sorted(host.copies, key=lambda c: -c.time)[:top]:
        shown.add_row(
            words(copy.name, width=48),
            words(f"{copy.count:,}"),
            words(show(copy.bytes, "bytes") if copy.unsized < copy.count else "not recorded"),
            words(show(copy.time / 1e3, "us")),
            words("-" if copy.gb_s is None else number(copy.gb_s)),
        )
    if shown.row_count:
        emit(console, shown)
