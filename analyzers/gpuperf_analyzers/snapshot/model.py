"""A snapshot of a caching allocator: segments of blocks, and what happened before, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
State = Literal["live", "awaiting", "free"]
NO_STACK = 0
"""Index of the empty stack, of what was allocated while nothing recorded stacks."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a stack: file, line (0 where unknown), function."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a segment.

    Attributes
    ----------
    address, size
        Where, and how many bytes; ``size`` is the allocator's, rounded up.
    requested
        Bytes that were asked for; ``size`` where that is not recorded, 0 of a free block.
    state
        ``live``: in use; ``awaiting``: freed, while another stream may still use it; ``free``:
        cached for reuse.
    stack
        Index into :attr:`Snapshot.stacks` of where it was allocated.
    """

    address: int
    size: int
    requested: int
    state: State
    stack: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory that the allocator got from the device at once, and the blocks that it is cut into.

    ``pool`` is the name of the pool (``(0, 0)`` is the ordinary one; graphs have their own);
    ``kind`` is ``small`` or ``large``, "" where unknown.
    """

    device: int
    address: int
    size: int
    stream: int
    kind: str
    pool: tuple[int, int]
    expandable: bool
    blocks: tuple[Block, ...]

    @property
    def unused(self) -> bool:
        """Whether no block of it is in use, so that it could be given back to the device."""
        return all(block.state == "free" for block in self.blocks)


ACTIONS = (
    "alloc", "free_requested", "free_completed", "free", "segment_alloc", "segment_free",
    "segment_map", "segment_unmap", "snapshot", "oom",
)  # fmt: skip
"""Known actions of a history; ``free`` is that of layouts which do not tell two steps apart."""
OTHER_ACTION = len(ACTIONS)


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """What the allocator of one device did, oldest first, one entry an event.

    Attributes
    ----------
    action
        Index into :data:`ACTIONS`; :data:`OTHER_ACTION` of one that is not known.
    address, size
        Of the block or segment, bytes; of an ``oom`` the bytes asked for.
    stack
        Index into :attr:`Snapshot.stacks`.
    time_us
        Since the epoch, -1 where not recorded.
    device_free
        Of an ``oom``: bytes free on the device then; -1 elsewhere.
    """

    device: int
    action: I64
    address: I64
    size: I64
    stack: I64
    time_us: I64
    device_free: I64

    def __len__(self) -> int:
        return len(self.action)

    def is_action(self, *names: str) -> Bool:
        """Mask over the events that are one of `names`."""
        return np.isin(self.action, [ACTIONS.index(name) for name in names])


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One file.

    Attributes
    ----------
    path
        The file.
    segments
        Every segment of every device.
    histories
        By device, where events were recorded.
    stacks
        Stacks, innermost call first; the first is empty.
    settings
        The allocator's settings, of those that are text or numbers; empty where not recorded.
    notes
        What this layout does not tell, and what does not add up.
    """

    path: str
    segments: tuple[Segment, ...]
    histories: Mapping[int, History]
    stacks: tuple[tuple[Frame, ...], ...]
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[int, ...]:
        """Devices with a segment or an event."""
        return tuple(sorted({s.device for s in self.segments} | set(self.histories)))
