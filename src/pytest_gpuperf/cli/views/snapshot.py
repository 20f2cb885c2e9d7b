"""A snapshot of torch's allocator on a terminal, and what grew between two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted, show
from gpuperf_analyzers.snapshot import by_made_in, device_memory, live_sites, past_of
from pytest_gpuperf.cli.console import emit, make_console, table, words
from pytest_gpuperf.cli.snapshots import fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from gpuperf_analyzers.snapshot import (
        DeviceMemory,
        Evicted,
        Fit,
        Past,
        Snapshot,
        SnapshotDiff,
    )

_NAMED = 5


def _bytes(value: float) -> str:
    return show(value, "bytes")


def print_snapshot(snapshot: Snapshot, *, size: int | None, top: int) -> None:
    """Print segments, fragmentation, live blocks by place, the history and what did not fit."""
    console = make_console()
    emit(console, words(snapshot.path, "bold"))
    for note in snapshot.notes:
        emit(console, words(f"! {note}", "yellow"))
    if not snapshot.devices:
        emit(console, words("nothing was reserved on any device"))
    for device in snapshot.devices:
        _print_device(console, snapshot, device, size, top)
    if snapshot.settings:
        told = ", ".join(f"{k}={v}" for k, v in snapshot.settings.items() if v not in ("", False))
        emit(console, words(f"allocator: {told or 'default settings'}", width=1000))


def _print_device(
    console: Console, snapshot: Snapshot, device: int, size: int | None, top: int
) -> None:
    emit(console, words(""))
    for line in memory_lines(device_memory(snapshot, device)):
        emit(console, words(line))
    emit(console, words(""))
    _print_segments(console, snapshot, device, top)
    sites = live_sites(snapshot, device)
    if sites:
        shown = table("live blocks, allocated at", "by", "bytes", "blocks", numbers=2)
        for row in sites[:top]:
            shown.add_row(words(row.site), row.made_in, _bytes(row.bytes), f"{row.blocks:,}")
        rest = sites[top:]
        if rest:
            blocks = sum(r.blocks for r in rest)
            total = _bytes(sum(r.bytes for r in rest))
            shown.add_row(counted(len(rest), "more place"), "", total, f"{blocks:,}")
        emit(console, shown)
        parts = ", ".join(f"{name} {_bytes(n)}" for name, n in by_made_in(sites).items())
        emit(console, words(f"live, by who allocated: {parts}"))
    past = past_of(snapshot, device)
    if past is not None:
        _print_past(console, past, top)
    for each in fits(snapshot, device, size):
        for line in fit_lines(each):
            emit(console, words(line, width=1000))


def memory_lines(memory: DeviceMemory) -> list[str]:
    """Reserved, allocated and what lies between them, in words."""
    ratio = memory.reserved_over_allocated
    over = "" if ratio is None else f" ({ratio:.2f} for each allocated byte)"
    trapped = "" if memory.fragmentation is None else f" ({show(memory.fragmentation, 'fraction')})"
    waiting = f", {_bytes(memory.awaiting)} awaiting another stream" if memory.awaiting else ""
    total = f"{_bytes(memory.reserved)} reserved in {counted(memory.segments, 'segment')}{over}"
    used = f"{_bytes(memory.allocated)} allocated in {counted(memory.live_blocks, 'block')}"
    used += f" ({_bytes(memory.rounding)} of it rounding)"
    free = f"{_bytes(memory.trapped)}{trapped} trapped in segments that are in use"
    unused = f"{_bytes(memory.unused_segments)} in unused segments"
    return [
        f"device {memory.device}: {total}, {used}{waiting}",
        f"free: {free}, {unused}, largest free block {_bytes(memory.largest_free)}",
    ]


def _print_segments(console: Console, snapshot: Snapshot, device: int, top: int) -> None:
    """The segments with the most free memory trapped in them."""
    rows = []
    for segment in snapshot.segments:
        if segment.device == device:
            free = [b.size for b in segment.blocks if b.state == "free"]
            rows.append((sum(free), segment, max(free, default=0)))
    rows.sort(key=lambda row: (-row[0], row[1].address))
    if not rows:
        return
    shown = table("segment", "kind", "stream", "size", "free", "largest free", "blocks", numbers=4)
    for free_bytes, segment, largest in rows[:top]:
        kind = f"{segment.kind or 'unknown'}{', expandable' if segment.expandable else ''}"
        pool = "" if segment.pool == (0, 0) else f", pool {segment.pool[0]}.{segment.pool[1]}"
        shown.add_row(
            f"{segment.address:#x}", words(kind + pool), f"{segment.stream}",
            _bytes(segment.size), _bytes(free_bytes), _bytes(largest), f"{len(segment.blocks):,}",
        )  # fmt: skip
    emit(console, shown)


def _print_past(console: Console, past: Past, top: int) -> None:
    span = "" if past.span_us is None else f" over {show(past.span_us, 'us')}"
    made = f"{counted(past.segments_made, 'segment')} made, {past.segments_freed:,} given back"
    emit(
        console,
        words(
            f"history: {counted(past.events, 'event')}{span}; "
            f"{counted(past.allocations, 'allocation')} of "
            f"{_bytes(past.allocated_bytes)} in all; {made}; peak {_bytes(past.peak_bytes)}"
        ),
    )
    if not past.at_peak:
        return
    emit(console, words(""))
    shown = table("alive at the peak, allocated at", "by", "bytes", "blocks", numbers=2)
    for row in past.at_peak[:top]:
        shown.add_row(words(row.site), row.made_in, _bytes(row.bytes), f"{row.count or '-'}")
    emit(console, shown)


def fit_lines(found: Fit) -> list[str]:
    """Whether an allocation fits, and what would have had to go, in words."""
    asked = f"for {_bytes(found.size)} more on device {found.device}"
    if found.fits_in is not None:
        return [f"{asked}: a free block of {_bytes(found.fits_in)} holds it (if on its stream)"]
    lines = []
    if found.after_emptying:
        lines.append(f"{asked}: fits once unused segments are given back (empty_cache)")
    if found.evicted_bytes is None:
        lines.append(f"{asked}: no segment is large enough, whatever is freed in it")
    else:
        lines.append(
            f"{asked}: {_bytes(found.evicted_bytes)} side by side would have had to go: "
            f"{_named(found.evicted)}"
        )
    if found.by_segments_bytes is not None:
        lines.append(
            f"or {_bytes(found.by_segments_bytes)} that keep whole segments from being given back: "
            f"{_named(found.by_segments)}"
        )
    return lines


def _named(blocks: Sequence[Evicted]) -> str:
    named = [f"{_bytes(b.bytes)} of {b.site} ({b.made_in})" for b in blocks[:_NAMED]]
    more = len(blocks) - _NAMED
    return "; ".join(named) + (f"; {counted(more, 'more block')}" if more > 0 else "")


def print_growth(before: Snapshot, after: Snapshot, found: SnapshotDiff, *, top: int) -> None:
    """Print what grew between two snapshots, by place."""
    console = make_console()
    for side, snapshot in (("before", before), ("after", after)):
        emit(console, words(f"{side}: {snapshot.path}", "bold"))
        for device in snapshot.devices:
            emit(console, words(memory_lines(device_memory(snapshot, device))[0]))
    emit(console, words(""))
    emit(
        console,
        words(
            f"live memory: {_bytes(found.before)} → {_bytes(found.after)} ({grown(found.delta)})"
        ),
    )
    if not found.changes:
        emit(console, words("no place has more or fewer live blocks than before"))
        return
    parts = ", ".join(f"{name} {grown(n)}" for name, n in found.by_made_in().items())
    emit(console, words(f"by who allocated: {parts}"))
    emit(console, words(""))
    shown = table("allocated at", "by", "before", "after", "change", "blocks", numbers=4)
    for c in found.changes[:top]:
        shown.add_row(
            words(c.site), c.made_in, _bytes(c.before), _bytes(c.after), grown(c.delta),
            f"{c.blocks_before:,} → {c.blocks_after:,}",
        )  # fmt: skip
    rest = found.changes[top:]
    if rest:
        shown.add_row(
            counted(len(rest), "more place"), "", "", "", grown(sum(c.delta for c in rest)), ""
        )
    emit(console, shown)


def grown(delta: int) -> str:
    """A change in bytes, with its sign."""
    return f"{'−' if delta < 0 else '+'}{_bytes(abs(delta))}"
