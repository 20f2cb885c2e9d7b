"""Whether the clock that samples are read from is the machine's own.

Standard library only, and imported when pytest starts: before any test can replace a clock.
"""

from __future__ import annotations

import time

# In a tuple: tools that stop the time look for the functions among the names of modules.
_OWN = (time.perf_counter, time.perf_counter_ns)

REPLACED = (
    "gpuperf: time.perf_counter is replaced (time is frozen or patched), so that nothing can be "
    "timed: put the clock back before the measurement, or replace it within the workload only"
)


def clock_is_replaced() -> bool:
    """Whether a test put something else in the place of ``time.perf_counter``."""
    return (time.perf_counter, time.perf_counter_ns) != _OWN
