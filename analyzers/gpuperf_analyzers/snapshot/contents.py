"""What a snapshot holds: reserved and allocated memory, fragmentation, live blocks by site."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gpuperf_analyzers.snapshot.model import Segment, Snapshot
from gpuperf_analyzers.snapshot.sites import made_in, site_of


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """One device's memory, in bytes.

    Attributes
    ----------
    reserved
        Got from the device: all segments.
    allocated
        Blocks in use, as the allocator rounds them.
    awaiting
        Blocks freed while another stream may still use them.
    requested
        What was asked for of ``allocated``; the rest is rounding.
    unused_segments
        Segments without a block in use: ``empty_cache()`` gives them back.
    trapped
        Free blocks in segments that are in use: cached, of use to allocations that fit into one of
        them, never given back. This is fragmentation.
    largest_free
        The largest free block: more than this cannot be had without new memory.
    segments, live_blocks, free_blocks
        How many.
    """

    device: int
    reserved: int
    allocated: int
    awaiting: int
    requested: int
    unused_segments: int
    trapped: int
    largest_free: int
    segments: int
    live_blocks: int
    free_blocks: int

    @property
    def rounding(self) -> int:
        """Bytes in use that nobody asked for."""
        return self.allocated - self.requested

    @property
    def reserved_over_allocated(self) -> float | None:
        """Reserved bytes for each allocated one; None where nothing is allocated."""
        return self.reserved / self.allocated if self.allocated else None

    @property
    def fragmentation(self) -> float | None:
        """Share of the reserved memory that is free and trapped; None without reserved memory."""
        return self.trapped / self.reserved if self.reserved else None


@dataclass(frozen=True, slots=True)
class LiveSite:
    """Live blocks that were allocated at one place: how many, how many bytes, by whom."""

    device: int
    site: str
    made_in: str
    bytes: int
    blocks: int


def device_memory(snapshot: Snapshot, device: int) -> DeviceMemory:
    """The memory of one device."""
    segments = [s for s in snapshot.segments if s.device == device]
    blocks = [b for s in segments for b in s.blocks]
    live = [b for b in blocks if b.state == "live"]
    free = [b for b in blocks if b.state == "free"]
    return DeviceMemory(
        device=device,
        reserved=sum(s.size for s in segments),
        allocated=sum(b.size for b in live),
        awaiting=sum(b.size for b in blocks if b.state == "awaiting"),
        requested=sum(b.requested for b in live),
        unused_segments=sum(s.size for s in segments if s.blocks and s.unused),
        trapped=sum(_free_bytes(s) for s in segments if not s.unused),
        largest_free=max((b.size for b in free), default=0),
        segments=len(segments),
        live_blocks=len(live),
        free_blocks=len(free),
    )


def _free_bytes(segment: Segment) -> int:
    return sum(b.size for b in segment.blocks if b.state == "free")


def live_sites(snapshot: Snapshot, device: int | None = None) -> tuple[LiveSite, ...]:
    """Live blocks by place, the most bytes first; of all devices where none is named."""
    sums: dict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0])
    names = [(site_of(stack), made_in(stack)) for stack in snapshot.stacks]
    for segment in snapshot.segments:
        if device not in (None, segment.device):
            continue
        for block in segment.blocks:
            if block.state != "free":
                site, made = names[block.stack]
                row = sums[segment.device, site, made]
                row[0] += block.size
                row[1] += 1
    rows = (LiveSite(*key, *found) for key, found in sums.items())
    return tuple(sorted(rows, key=lambda r: (-r.bytes, r.device, r.site)))


def by_made_in(sites: tuple[LiveSite, ...]) -> dict[str, int]:
    """Live bytes by the part of the program that made them, the most first."""
    sums: dict[str, int] = defaultdict(int)
    for row in sites:
        sums[row.made_in] += row.bytes
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))
