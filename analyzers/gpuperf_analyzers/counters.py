"""Hardware counters that CUPTI measured a kernel at a time (``cuda_profiler_range``).

Such a trace is recorded one counter pass after the other, so it has no times of kernels: what it
has is counts, exact, per kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers.trace.model import Trace

if TYPE_CHECKING:
    import pandas as pd

_OPERATIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_FLOPS = {
    _OPERATIONS.format(f"{precision}{op}"): flops
    for precision in "hfd"
    for op, flops in (("add", 1), ("mul", 1), ("fma", 2))
}
"""FLOP of one thread's instruction; those of tensor cores are other counters."""


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """All ranges of one kernel.

    ``totals`` has each counter's sum over the ranges where it is a sum (its name ends in
    ``.sum``), else its mean. ``flops`` are floating-point operations outside of tensor cores, by
    the counters of add, multiply and multiply-add (2) of half, single and double precision; None
    where none of them was recorded.
    """

    name: str
    count: int
    totals: Mapping[str, float]
    flops: float | None


def kernel_counters(trace: Trace) -> tuple[KernelCounters, ...]:
    """The counters by kernel, the most FLOPs first, then by name; none where none was recorded."""
    c = trace.range_counters
    found = []
    for name in np.unique(c.name).tolist():
        mine = c.name == name
        totals = {}
        for key in np.unique(c.key[mine]).tolist():
            values = c.value[mine & (c.key == key)]
            counter = trace.strings[key]
            totals[counter] = float(values.sum() if counter.endswith(".sum") else values.mean())
        known = [flops * totals[k] for k, flops in _FLOPS.items() if k in totals]
        found.append(
            KernelCounters(
                trace.strings[name], len(np.unique(c.range[mine])), totals,
                sum(known) if known else None,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda k: (-(k.flops or 0.0), k.name)))


def counters_frame(found: Sequence[KernelCounters]) -> pd.DataFrame:
    """One row a kernel: how many ranges, FLOPs, and a column a counter."""
    import pandas as pd

    rows = [{"name": k.name, "count": k.count, "flops": k.flops, **k.totals} for k in found]
    return pd.DataFrame(rows)
