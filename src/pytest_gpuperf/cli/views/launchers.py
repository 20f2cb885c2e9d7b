"""Where kernels came from: annotations, modules, graphs, compiled code; launch-bound ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless, short_names, show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.kernel_sequences import SequencesResult
    from gpuperf_analyzers.kernels import KernelsResult
    from gpuperf_analyzers.launchers import LaunchersResult
    from gpuperf_analyzers.modules import ModulesResult

_NUMBERS = 46
"""Columns that the numbers beside a name take."""
_NARROWEST_NAME = 24
_WORTH_A_TABLE = 0.05
"""Share of kernel time in launch-bound calls from which the ops are shown."""
_SHORT_US = 10
_MOST_ROWS = 5
"""Rows of the tables that hint at a cure: the first few are what a person begins with."""


def print_launchers(console: Console, device: DeviceAnalysis, top: int) -> None:
    """Tables of what the trace has of them; nothing where it has nothing."""
    room = max(console.width - _NUMBERS, _NARROWEST_NAME)
    if device.device != "cpu":
        _print_annotations(console, device.results["kernels"], top, room)
    _print_modules(console, device.results["modules"], top, room)
    launchers: LaunchersResult = device.results["launchers"]
    _print_graphs(console, launchers, top, room)
    _print_compiled(console, launchers, min(top, _MOST_ROWS), room)
    _print_launch_bound(console, launchers, min(top, _MOST_ROWS), room)
    _print_sequences(console, device.results["kernel_sequences"], min(top, _MOST_ROWS), room)


def _print_annotations(console: Console, kernels: KernelsResult, top: int, room: int) -> None:
    spans = [
        s
        for s in kernels.by_span
        if s.kind == "annotation" and not s.name.startswith("ProfilerStep#")
    ]
    shown = table("annotation", "calls", "kernels", "busy", numbers="rest")
    for span in spans[:top]:
        shown.add_row(
            words(span.name, width=room),
            words(f"{span.calls:,}"),
            words(f"{span.kernels:,}"),
            words(show(span.busy_us, "us")),
        )
    if shown.row_count:
        emit(console, shown)


def _print_modules(console: Console, found: ModulesResult, top: int, room: int) -> None:
    """The modules whose own work takes longest, with the path that leads to each."""
    rows = sorted(found.modules, key=lambda m: -m.own_us)[:top]
    shown = table("module", "calls", "forward", "backward", "own", numbers="rest")
    for row in rows:
        path = row.path if len(row.path) <= room else "…" + row.path[-(room - 1) :]
        shown.add_row(
            words(path, width=room),
            words(f"{row.calls:,}"),
            words(show(row.forward_us, "us")),
            words(show(row.backward_us, "us") if row.backward_us else "-"),
            words(show(row.own_us, "us")),
        )
    if shown.row_count:
        emit(console, shown)


def _print_graphs(console: Console, found: LaunchersResult, top: int, room: int) -> None:
    shown = table("graphs launched from", "launches", "kernels", "host", "busy", numbers="rest")
    for graph in found.graphs[:top]:
        place = graph.op or graph.annotation or graph.function or graph.call
        shown.add_row(
            words(place, width=room),
            words(f"{graph.launches:,}"),
            words(f"{graph.kernels:,}"),
            words(show(graph.host_us, "us")),
            words(show(graph.busy_us, "us")),
        )
    if shown.row_count:
        emit(console, shown)


def _print_compiled(console: Console, found: LaunchersResult, top: int, room: int) -> None:
    shown = table("Triton kernel", "launched from", "count", "total", numbers=2)
    names = short_names([k.name for k in found.compiled[:top]], room // 2)
    for kernel, name in zip(found.compiled, names, strict=False):
        shown.add_row(
            words(name),
            words(kernel.region or "no op", width=room // 2),
            words(f"{kernel.count:,}"),
            words(show(kernel.total_us, "us")),
        )
    if shown.row_count:
        emit(console, shown)


def _print_launch_bound(console: Console, found: LaunchersResult, top: int, room: int) -> None:
    share = found.launch_bound_us / found.linked_us if found.linked_us else 0.0
    if share < _WORTH_A_TABLE:
        return
    shown = table("launch-bound op", "calls", "of them bound", "host", "kernels", numbers="rest")
    for op in [op for op in found.ops if op.launch_bound][:top]:
        shown.add_row(
            words(op.op, width=room),
            words(f"{op.calls:,}"),
            words(f"{op.bound_calls:,}"),
            words(show(op.host_us, "us")),
            words(show(op.busy_us, "us")),
        )
    if shown.row_count:
        emit(console, shown)
        text = f"{show(share, 'fraction')} of kernel time is in calls that take the host longer"
        emit(console, words(f"{text} than the device: fuse, compile or capture a graph"))
        console.print()


def _print_sequences(console: Console, found: SequencesResult, top: int, room: int) -> None:
    """Sequences of short kernels, those that launch the most first."""
    short = [s for s in found.sequences if s.time_us < _SHORT_US * s.count * len(s.kernels)]
    most = sorted(short, key=lambda s: -s.count * len(s.kernels))[:top]
    shown = table("short kernels in a row, under", "times", "kernels", "total", "spans", numbers=4)
    for row in most:
        shown.add_row(
            words(row.op, width=room),
            words(f"{row.count:,}"),
            words(f"{len(row.kernels):,}"),
            words(show(row.time_us, "us")),
            words(show(row.span_us, "us")),
        )
    if shown.row_count:
        emit(console, shown)
        first = most[0]
        names = " → ".join(short_names(list(first.kernels[:_MOST_ROWS]), 32))
        more = " → …" if len(first.kernels) > _MOST_ROWS else ""
        emit(console, words(f"the first: {harmless(names, 300)}{more}", width=600))
        console.print()
