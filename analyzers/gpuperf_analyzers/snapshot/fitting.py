"""Whether an allocation fits, and what would have had to go for it to fit.

The allocator rounds to 512 bytes, keeps small allocations (up to 1 MiB) in segments of their own,
and serves an allocation from one free block of a segment, or from new memory of the device. So an
allocation fits after blocks that lie side by side in one segment are freed, or after whole
segments can be given back to the device. Streams are not told apart: a block is reused on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuperf_analyzers.snapshot.model import Block, Segment, Snapshot
from gpuperf_analyzers.snapshot.sites import made_in, site_of

_ROUNDING = 512
_SMALL = 2**20
_MOST_NAMED = 1000


@dataclass(frozen=True, slots=True)
class Evicted:
    """A live block that would have had to go: bytes, where it was allocated, and by whom."""

    bytes: int
    site: str
    made_in: str


@dataclass(frozen=True, slots=True)
class Fit:
    """What an allocation of ``size`` bytes needs on ``device``.

    Attributes
    ----------
    rounded
        Bytes that the allocator looks for.
    fits_in
        Bytes of the smallest free block that it fits into; None where there is none.
    after_emptying
        Whether the device's free memory with all unused segments given back would hold it; None
        where the device's free memory is not known.
    evicted
        The fewest bytes of live blocks, side by side in one segment, whose end makes room; empty
        where no segment is large enough (``evicted_bytes`` is None then).
    by_segments
        Where no segment is: live blocks of the segments that would have to be emptied and given
        back, the emptiest first, where that suffices and the device's free memory is known.
    """

    device: int
    size: int
    rounded: int
    fits_in: int | None
    after_emptying: bool | None
    evicted: tuple[Evicted, ...]
    evicted_bytes: int | None
    by_segments: tuple[Evicted, ...]
    by_segments_bytes: int | None


def fit(snapshot: Snapshot, device: int, size: int, device_free: int | None = None) -> Fit:
    """What would have had to go for `size` more bytes on `device`.

    Parameters
    ----------
    snapshot
        The state of the allocator.
    device
        Which device.
    size
        Bytes that are asked for.
    device_free
        Bytes free on the device beside what is reserved, as an out-of-memory event tells them.
    """
    rounded = -(-max(size, 1) // _ROUNDING) * _ROUNDING
    own = [s for s in snapshot.segments if s.device == device and s.pool == (0, 0)]
    served = [s for s in own if not s.kind or (s.kind == "small") == (rounded <= _SMALL)]
    holes = [b.size for s in served for b in s.blocks if b.state == "free" and b.size >= rounded]
    unused = sum(s.size for s in own if s.blocks and s.unused)
    best = min((w for s in served for w in _windows(s, rounded)), key=lambda w: w[0], default=None)
    cost, gone = best if best is not None else (None, ())
    emptied = () if device_free is None else _emptied(own, rounded - device_free - unused)
    return Fit(
        device=device,
        size=size,
        rounded=rounded,
        fits_in=min(holes, default=None),
        after_emptying=None if device_free is None else device_free + unused >= rounded,
        evicted=_named(snapshot, gone),
        evicted_bytes=cost,
        by_segments=_named(snapshot, emptied or ()),
        by_segments_bytes=None if not emptied else sum(b.size for b in emptied),
    )


def _windows(segment: Segment, size: int) -> Iterator[tuple[int, tuple[Block, ...]]]:
    """The cheapest run of neighbouring blocks of at least `size` bytes that ends at each block."""
    blocks = sorted(segment.blocks, key=lambda b: b.address)
    first, span, live = 0, 0, 0
    best: tuple[int, int, int] | None = None
    for last, block in enumerate(blocks):
        if last and blocks[last - 1].address + blocks[last - 1].size != block.address:
            first, span, live = last, 0, 0  # not mapped in between
        span += block.size
        live += _cost(block)
        while span - blocks[first].size >= size:
            span -= blocks[first].size
            live -= _cost(blocks[first])
            first += 1
        if span >= size and (best is None or live < best[0]):
            best = (live, first, last)
    if best is not None:
        cost, begin, end = best
        yield cost, tuple(b for b in blocks[begin : end + 1] if b.state != "free")


def _cost(block: Block) -> int:
    return 0 if block.state == "free" else block.size


def _emptied(segments: Sequence[Segment], missing: int) -> tuple[Block, ...] | None:
    """Live blocks of the emptiest segments that together have `missing` bytes; None: too few."""
    gone: list[Block] = []
    used = [s for s in segments if s.size and not s.unused and not s.expandable]
    for segment in sorted(used, key=lambda s: sum(map(_cost, s.blocks)) / s.size):
        if missing <= 0:
            break
        gone += [b for b in segment.blocks if b.state != "free"]
        missing -= segment.size
    return tuple(gone) if missing <= 0 else None


def _named(snapshot: Snapshot, blocks: Sequence[Block]) -> tuple[Evicted, ...]:
    largest = sorted(blocks, key=lambda b: -b.size)[:_MOST_NAMED]
    rows = ((b.size, snapshot.stacks[b.stack]) for b in largest)
    return tuple(Evicted(size, site_of(stack), made_in(stack)) for size, stack in rows)
