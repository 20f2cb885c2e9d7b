"""The ops and kernels that took the time, what could not be linked, and the FLOPs by op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted, harmless, number, short_names, show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.flops import FlopsResult, OpFlops
    from gpuperf_analyzers.kernels import KernelsResult

_NUMBERS = 42
"""Columns that the numbers beside a name take."""
_NARROWEST_NAME = 24


def print_ops(console: Console, device: DeviceAnalysis, top: int) -> None:
    """Top ops with shapes, top kernels, and the FLOPs of the ops that have a formula."""
    kernels: KernelsResult = device.results["kernels"]
    room = max(console.width - _NUMBERS, _NARROWEST_NAME)
    _print_top_ops(console, kernels, top, room)
    if device.device != "cpu":
        _print_top_kernels(console, kernels, top, room)
        for line in _unlinked(kernels):
            emit(console, words(line))
        if kernels.kernels:
            console.print()
    flops: FlopsResult = device.results["flops"]
    if flops.ops:
        _print_flops(console, flops, top, room)


def _print_top_ops(console: Console, kernels: KernelsResult, top: int, room: int) -> None:
    ops = kernels.by_op[:top]
    cpu = kernels.device == "cpu"
    shown = table("op", "calls", "own time" if cpu else "kernel time", "share", numbers="rest")
    if not cpu:
        shown.add_column("under 10 µs", justify="right")
    names = short_names([op.name for op in ops], room)
    for op, name in zip(ops, names, strict=True):
        shapes = _shapes(op.shapes, room - len(name) - 1)
        cells = [
            words(f"{name} {shapes}".rstrip(), width=room),
            words(f"{op.calls:,}"),
            words(show(op.time_us, "us")),
            words(show(op.share, "fraction")),
        ]
        if not cpu:
            cells.append(words(f"{op.short:,}" if op.short else ""))
        shown.add_row(*cells)
    if ops:
        emit(console, shown)


def _shapes(shapes: str, room: int) -> str:
    text = " ".join(shapes.split())
    return harmless(text, room) if text and room >= len("[[1,1]]") else ""


def _print_top_kernels(console: Console, kernels: KernelsResult, top: int, room: int) -> None:
    rows = kernels.by_kernel[:top]
    shown = table("kernel", "count", "total", "share", "mean", "max", numbers="rest")
    for row, name in zip(rows, short_names([r.name for r in rows], room - 8), strict=True):
        shown.add_row(
            words(name),
            words(f"{row.count:,}"),
            words(show(row.total_us, "us")),
            words(show(row.share, "fraction")),
            words(show(row.mean_us, "us")),
            words(show(row.max_us, "us")),
        )
    if rows:
        emit(console, shown)


def _unlinked(kernels: KernelsResult) -> list[str]:
    """Lines about kernels that no op owns, and about short ones."""
    lines = []
    if kernels.unlinked:
        time = show(kernels.unlinked_us, "us")
        have = "has" if kernels.unlinked == 1 else "have"
        lines.append(f"{counted(kernels.unlinked, 'kernel')} ({time}) {have} no launch record")
    if kernels.outside_ops:
        graphs = f", {kernels.graph_kernels:,} of them by graphs" if kernels.graph_kernels else ""
        were = counted(kernels.outside_ops, "kernel was", "kernels were")
        lines.append(f"{were} launched outside of any op{graphs}")
    if kernels.triton_kernels:
        are = counted(kernels.triton_kernels, "kernel is", "kernels are")
        lines.append(f"{are} Triton's (torch.compile)")
    if kernels.short:
        share = show(kernels.short / kernels.kernels, "fraction")
        time = show(kernels.short_us, "us")
        run = "runs" if kernels.short == 1 else "run"
        whole = counted(kernels.kernels, "kernel")
        lines.append(f"{kernels.short:,} of {whole} ({share}) {run} under 10 µs, {time} in all")
    return lines


def _print_flops(console: Console, flops: FlopsResult, top: int, room: int) -> None:
    shown = table(
        "FLOPs by op", "calls", "dtype", "FLOP", "TFLOPS", "of at most", "GB/s", numbers="rest"
    )
    rows = flops.ops[:top]
    space = room - 18
    for row, name in zip(rows, short_names([r.name for r in rows], space), strict=True):
        shapes = _shapes(row.shapes, space - len(name) - 1)
        shown.add_row(
            words(f"{name} {shapes}".rstrip(), width=space),
            words(f"{row.calls:,}"),
            words(row.dtype),
            words(show(row.flops, "FLOP")),
            words("-" if row.tflops is None else number(row.tflops)),
            words(_roof(row)),
            words("-" if row.gb_s is None else number(row.gb_s)),
        )
    emit(console, shown)
    if flops.uncovered:
        time = ", ".join(f"{harmless(n, 40)} {show(us, 'us')}" for n, us in flops.uncovered[:3])
        emit(console, words(f"no FLOP formula for: {time}"))
        console.print()


def _roof(row: OpFlops) -> str:
    """What the op could reach, and whether compute or memory holds it there."""
    if row.attainable_tflops is None:
        return "-"
    return f"{number(row.attainable_tflops)} {row.bound}"
