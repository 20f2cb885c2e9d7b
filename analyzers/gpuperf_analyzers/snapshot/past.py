"""What the recorded history shows: the peak and what was alive then, failures, who allocates most.

A history may have lost its beginning (``max_entries``), so levels are counted back from the state
at the end, which the blocks tell exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.snapshot.model import I64, Bool, History, Snapshot
from gpuperf_analyzers.snapshot.sites import made_in, site_of

Names = Sequence[tuple[str, str]]
"""Place and part of the program, by stack."""
OLDER = "(allocated before the history begins)"


@dataclass(frozen=True, slots=True)
class SiteBytes:
    """Bytes of the allocations made at one place, how many, and the part of the program."""

    site: str
    made_in: str
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """An allocation that failed: bytes asked for, bytes free on the device (-1: unknown), where."""

    bytes: int
    device_free: int
    time_us: int
    site: str


@dataclass(frozen=True, slots=True)
class Past:
    """The history of one device.

    Attributes
    ----------
    events
        How many are recorded.
    span_us
        Time from the first to the last of them, None where times are not recorded.
    level_bytes
        Active memory after each event.
    peak_bytes, peak_event
        The largest of them and its index; ``peak_event`` is -1 where it stood before the first.
    at_peak
        What was alive then by place, the most first; they sum to the peak.
    allocations, allocated_bytes
        Allocations recorded, and their bytes in all.
    busiest
        Places by bytes allocated in all, the most first.
    segments_made, segments_freed
        How often memory was got from, and given back to, the device.
    failures
        Allocations that failed, in order.
    """

    device: int
    events: int
    span_us: int | None
    level_bytes: tuple[int, ...]
    peak_bytes: int
    peak_event: int
    at_peak: tuple[SiteBytes, ...]
    allocations: int
    allocated_bytes: int
    busiest: tuple[SiteBytes, ...]
    segments_made: int
    segments_freed: int
    failures: tuple[OutOfMemory, ...]


def past_of(snapshot: Snapshot, device: int) -> Past | None:
    """The history of `device`; None where none is recorded."""
    h = snapshot.histories.get(device)
    if h is None:
        return None
    names = [(site_of(s), made_in(s)) for s in snapshot.stacks]
    end = sum(
        b.size
        for s in snapshot.segments
        if s.device == device
        for b in s.blocks
        if b.state != "free"
    )
    made, gone = h.is_action("alloc"), h.is_action("free_completed", "free")
    change = np.where(made, h.size, 0) - np.where(gone, h.size, 0)
    level = end - (change.sum() - np.cumsum(change))
    before = int(end - change.sum())
    top = int(np.argmax(level)) if len(level) and int(level.max()) > before else -1
    peak = before if top < 0 else int(level[top])
    times = h.time_us[h.time_us >= 0]
    rows = np.flatnonzero(made)
    return Past(
        device=device,
        events=len(h),
        span_us=int(times.max() - times.min()) if len(times) else None,
        level_bytes=tuple(level.tolist()),
        peak_bytes=peak,
        peak_event=top,
        at_peak=_alive(h, made, gone, top, peak, names),
        allocations=len(rows),
        allocated_bytes=int(h.size[rows].sum()),
        busiest=_by_site(h, rows, names),
        segments_made=int(h.is_action("segment_alloc", "segment_map").sum()),
        segments_freed=int(h.is_action("segment_free", "segment_unmap").sum()),
        failures=_failures(h, names),
    )


def _failures(h: History, names: Names) -> tuple[OutOfMemory, ...]:
    rows = np.flatnonzero(h.is_action("oom"))
    columns = (h.size[rows], h.device_free[rows], h.time_us[rows], h.stack[rows])
    return tuple(
        OutOfMemory(size, free, at, names[stack][0])
        for size, free, at, stack in zip(*(c.tolist() for c in columns), strict=True)
    )


def _alive(
    h: History, made: Bool, gone: Bool, top: int, peak: int, names: Names
) -> tuple[SiteBytes, ...]:
    """By place what was alive after event `top`; what the history did not see made is a row too."""
    ends = np.full(len(h), len(h), dtype=np.int64)
    events = np.flatnonzero(made | gone)
    order = events[np.argsort(h.address[events], kind="stable")]
    if len(order) > 1:
        same = h.address[order[1:]] == h.address[order[:-1]]
        pair = same & made[order[:-1]] & gone[order[1:]]
        ends[order[:-1][pair]] = order[1:][pair]
    rows = np.flatnonzero(made & (np.arange(len(h)) <= top) & (ends > top))
    found = _by_site(h, rows, names)
    older = peak - sum(row.bytes for row in found)
    if older > 0:
        found = (*found, SiteBytes(OLDER, "elsewhere", older, 0))
    return tuple(sorted(found, key=lambda r: (-r.bytes, r.site)))


def _by_site(h: History, rows: I64, names: Names) -> tuple[SiteBytes, ...]:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for stack, size in zip(h.stack[rows].tolist(), h.size[rows].tolist(), strict=True):
        row = sums[names[stack]]
        row[0] += size
        row[1] += 1
    found = (SiteBytes(*key, *sum_) for key, sum_ in sums.items())
    return tuple(sorted(found, key=lambda r: (-r.bytes, r.site)))
