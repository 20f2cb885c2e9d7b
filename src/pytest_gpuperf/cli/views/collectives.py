"""The collectives of one rank by kind and size: time, what of it was exposed, bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import number, show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.collectives import Collective, CollectivesResult


def print_collectives(console: Console, device: DeviceAnalysis, top: int) -> None:
    """A row for each kind, type, group size and size; those that take longest first."""
    found: CollectivesResult = device.results["collectives"]
    if not found.calls:
        return
    groups: dict[tuple[object, ...], list[Collective]] = {}
    for call in found.calls:
        key = (call.kind, call.dtype, call.group_size, call.bytes, call.algorithm, call.protocol)
        groups.setdefault(key, []).append(call)
    longest = sorted(groups.values(), key=lambda calls: -sum(c.duration_us for c in calls))
    shown = table(
        "collectives", "ranks", "count", "size", "time", "exposed", "busbw ≥", numbers="rest"
    )
    for calls in longest[:top]:
        shown.add_row(*(words(cell) for cell in _cells(calls)))
    emit(console, shown)
    lines = _hints(found)
    for line in lines:
        emit(console, words(line))
    if lines:
        console.print()
    if any(call.busbw_gb_s is not None for call in found.calls):
        text = "busbw in GB/s (1e9), from this rank's own time, waiting included: a lower bound"
        emit(console, words(text))
        console.print()


def _hints(found: CollectivesResult) -> list[str]:
    """What of the table is known from less than NCCL's metadata."""
    lines = []
    every = len(found.calls)
    by_name = sum(call.kind_source == "kernel name" for call in found.calls)
    if by_name:
        lines.append(f"{by_name:,} of {every:,} kinds are told by the kernel's name only")
    if found.unsized:
        lines.append(f"{found.unsized:,} of {every:,} have no recorded size: no bandwidth")
    world = sum(call.group_size_source == "world size" for call in found.calls)
    if world:
        lines.append(f"{world:,} of {every:,} name no group: the world's size stands for it")
    if any(call.choice_source == "kernel name" for call in found.calls):
        lines.append("algorithm and protocol are in the kernel's name: a hint; --nccl-log knows")
    return lines


def _cells(calls: Sequence[Collective]) -> list[str]:
    first = calls[0]
    time = sum(call.duration_us for call in calls)
    exposed = sum(call.exposed_us for call in calls)
    hints = [text for text in (first.dtype, first.algorithm, first.protocol) if text]
    best = [call.busbw_gb_s for call in calls if call.busbw_gb_s is not None]
    return [
        f"{first.kind} {' '.join(hints)}".rstrip(),
        "-" if first.group_size is None else str(first.group_size),
        f"{len(calls):,}",
        "not recorded" if first.bytes is None else show(first.bytes, "bytes"),
        show(time, "us"),
        show(exposed / time, "fraction") if time else "-",
        number(max(best)) if best else "-",
    ]
