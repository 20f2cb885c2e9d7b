"""Power by the board's total-energy counter, which misses nothing between two readings of it.

The counter is brought up to date about every 100 ms. Read at its begin and its end, a window of
one second would be 10% uncertain; read often, the moments of its updates are known to within the
time between two readings, and the energy between the first and the last update is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FEWEST_UPDATES = 3


@dataclass(frozen=True, slots=True)
class MeanPower:
    """Mean power between the first and the last update of the counter.

    ``low`` and ``high`` bound it by how late each of the two may have been seen. ``updates`` is
    how many were.
    """

    watts: float
    low: float
    high: float
    updates: int


def mean_power(readings: Iterable[tuple[int, float]]) -> MeanPower | None:
    """Mean power of `readings` (ns, J) of the counter; None where it moved too seldom to tell.

    Raises nothing: a counter that stands still, or of which too little was seen, gives None.
    """
    seen: list[tuple[int, int, float]] = []
    before: tuple[int, float] | None = None
    for at, joules in readings:
        if before is not None and joules != before[1]:
            seen.append((before[0], at, joules))
        before = (at, joules)
    if len(seen) < FEWEST_UPDATES:
        return None
    first_after, first_at, first_j = seen[0]
    last_after, last_at, last_j = seen[-1]
    joules = last_j - first_j
    shortest, longest = last_after - first_at, last_at - first_after
    if joules < 0 or shortest <= 0:
        return None
    return MeanPower(
        watts=joules / (last_at - first_at) * 1e9,
        low=joules / longest * 1e9,
        high=joules / shortest * 1e9,
        updates=len(seen),
    )
