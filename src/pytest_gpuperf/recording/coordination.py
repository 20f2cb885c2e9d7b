"""How many calls to make, agreed by all ranks.

A workload with collectives hangs when ranks call it a different number of times, so every
count that depends on time is decided by rank 0 and told to the others, outside the timed part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

_EXPONENT_BITS = 5


class Coordinator(Protocol):
    """What a recording needs from the processes that run the same workload."""

    @property
    def rank(self) -> int:
        """Rank of this process."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""

    def agree(self, flag: bool, /) -> bool:
        """Rank 0's `flag`, on every rank; all ranks call it equally often."""

    def any(self, flag: bool, /) -> bool:
        """Whether `flag` is true on some rank; all ranks call it equally often."""

    def barrier(self) -> None:
        """Return once every rank has called it."""


@dataclass(frozen=True, slots=True)
class _Solo:
    """The one-process coordinator: its own decision stands."""

    rank: int = 0
    world_size: int = 1

    def agree(self, flag: bool, /) -> bool:
        return flag

    def any(self, flag: bool, /) -> bool:
        return flag

    def barrier(self) -> None:
        return


SOLO: Coordinator = _Solo()
"""One process on its own."""


def share_count(coordinator: Coordinator, wanted: float) -> int:
    """Rank 0's `wanted` on every rank, rounded down to a power of two; below 1 gives 0.

    A power of two takes six broadcasts instead of one a bit, and its coarseness costs nothing:
    the counts shared are sizes of rounds and of batches.
    """
    if not coordinator.agree(wanted >= 1):
        return 0
    exponent = int(min(max(wanted, 1), 2**31 - 1)).bit_length() - 1
    shared = 0
    for bit in range(_EXPONENT_BITS):
        if coordinator.agree(bool(exponent >> bit & 1)):
            shared |= 1 << bit
    return 1 << shared
