"""What the host did to the device: blocking calls by op, copies, delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted, harmless, number, show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.host import Host


_FEW = 5
"""Rows of the longest times between launches: a person begins with the first."""


def print_host(console: Console, device: DeviceAnalysis, top: int) -> None:
    """Tables of blocking calls and of copies, and a line for each kind of delay."""
    host: Host = device.results["host"]
    _print_syncs(console, host, top)
    _print_copies(console, host, top)
    _print_launch_gaps(console, host, min(top, _FEW))
    lines = [
        f"{delay.kind}: {harmless(delay.name, 60)}, {counted(delay.count, 'time')}, "
        f"{show(delay.time / 1e3, 'us')}"
        for delay in host.delays[:top]
    ]
    if host.allocations:
        time = show(host.allocation_ns / 1e3, "us")
        lines.append(f"driver allocations: {counted(host.allocations, 'call')}, {time}")
    lines += _queue_words(host)
    for line in lines:
        emit(console, words(line))
    if lines:
        console.print()


def _queue_words(host: Host) -> list[str]:
    """How deep the launch queue was, and how long nothing or too much waited in it."""
    from gpuperf_analyzers.intervals import measure
    from gpuperf_analyzers.trace.queue import FULL

    queue = host.queue
    if queue is None or not host.window_ns:
        return []
    empty = show(measure(queue.empty) / host.window_ns, "fraction")
    most = counted(int(queue.depth.max()), "launch", "launches")
    text = f"launch queue: empty {empty} of the window, at most {most}"
    full = measure(queue.full)
    if full:
        share = show(full / host.window_ns, "fraction")
        text += f", full ({FULL:,} or more: the next launch waits) {share}"
    return [text]


def _print_launch_gaps(console: Console, host: Host, top: int) -> None:
    """The longest times between two launches that make up one percent of the window or more."""
    shown = table("no launch for", "CPU ops", "the host meanwhile", numbers=0)
    for gap in [g for g in host.gaps[:top] if g.duration >= host.window_ns / 100]:
        ran = ", ".join(f"{harmless(n, 48)} {show(ns / 1e3, 'us')}" for n, ns in gap.cpu_ops[:3])
        shown.add_row(
            words(show(gap.duration / 1e3, "us")),
            words(f"{gap.ops:,}"),
            words(ran or "nothing recorded"),
        )
    if shown.row_count:
        shown.columns[0].justify = shown.columns[1].justify = "right"
        emit(console, shown)


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
