"""Which samples were taken while the device held its clock down."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.clock_reasons import is_throttled

if TYPE_CHECKING:
    from pytest_gpuperf.recording.sampling import Round
    from pytest_gpuperf.recording.telemetry.sampler import Watched


def throttled_samples(watched: Watched, rounds: Sequence[Round]) -> tuple[int, ...]:
    """Places of the samples during which a throttle reason held; empty where none was read.

    A reading of the clock-event reasons holds until the next one (10 to 20 ms). Samples of a
    round follow each other without a pause, so that the n-th of N is taken to lie in the n-th of
    N equal parts of its round: a mark may be off by one reading or, where samples differ much in
    length, by as many samples as that makes.

    Parameters
    ----------
    watched
        What the sampler read while the samples were taken.
    rounds
        The rounds of the samples, in order.
    """
    reasons = watched.series.get("reasons")
    if not reasons:
        return ()
    opening = watched.opening.get("reasons", 0)
    times = [watched.begin_ns, *reasons.times]
    held = [is_throttled(int(mask)) for mask in (opening, *reasons.values)]
    marked, first = [], 0
    for one in rounds:
        part = (one.end_ns - one.begin_ns) / max(one.count, 1)
        for index in range(one.count):
            begin = one.begin_ns + index * part
            # The reading before the sample's begin holds into it.
            low = max(bisect_right(times, begin) - 1, 0)
            high = max(bisect_left(times, begin + part), low + 1)
            if any(held[low:high]):
                marked.append(first + index)
        first += one.count
    return tuple(marked)
