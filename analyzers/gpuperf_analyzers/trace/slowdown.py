"""How much slower compute kernels ran while communication ran beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.distinct import distinct, distinct_tuples
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.model import I64, Trace
from gpuperf_analyzers.trace.selection import Activity

BESIDE = 0.5
"""Share of a kernel's duration beside communication from which it counts as beside it."""


@dataclass(frozen=True, slots=True)
class OverlapSlowdown:
    """Kernels beside communication against the same kernels alone.

    The same kernel is one of the same name, grid and block. ``kernels`` counts the runs beside
    communication that have a run alone to compare with, ``uncompared`` those that have none.
    """

    beside_ns: int
    """Duration of the compared runs beside communication."""
    alone_ns: float
    """What they would have taken at the median of the same kernel's runs alone."""
    kernels: int
    uncompared: int

    def value(self) -> Value:
        """``overlap_slowdown``: beside / alone − 1."""
        if not self.kernels:
            why = (
                "no kernel ran both beside communication and alone"
                if self.uncompared
                else "no compute kernel ran beside communication"
            )
            return absent("overlap_slowdown", why)
        return Value(
            "overlap_slowdown", self.beside_ns / self.alone_ns - 1, n=self.kernels,
            source="whole window, against the same kernels alone",
        )  # fmt: skip


def overlap_slowdown(trace: Trace, found: Activity) -> OverlapSlowdown:
    """Slowdown of the compute kernels of one device beside its communication."""
    rows = found.compute_rows[trace.events.dur[found.compute_rows] > 0]
    if found.device == "cpu" or not len(rows) or not len(found.comm):
        return OverlapSlowdown(0, 0.0, 0, 0)
    e = trace.events
    inside = intervals.covered(found.comm, e.ts[rows], e.ts[rows] + e.dur[rows])
    # Only names that ever ran beside communication need comparing: most never do.
    concerned = np.isin(e.name[rows], e.name[rows[inside >= BESIDE * e.dur[rows]]])
    rows, inside = rows[concerned], inside[concerned]
    if not len(rows):
        return OverlapSlowdown(0, 0.0, 0, 0)
    dur = e.dur[rows]
    alone, beside = inside == 0, inside >= BESIDE * dur
    kind = _kind(trace, rows)
    kinds = int(kind.max()) + 1
    runs_alone = np.bincount(kind[alone], minlength=kinds)
    typical = _medians(kind[alone], dur[alone], runs_alone)
    compared = beside & (runs_alone[kind] > 0)
    return OverlapSlowdown(
        int(dur[compared].sum()), float(typical[kind[compared]].sum()), int(compared.sum()),
        int((beside & ~compared).sum()),
    )  # fmt: skip


def _kind(trace: Trace, rows: I64) -> I64:
    """A number for each kernel's name and launch geometry."""
    args = trace.kernel_args
    name = trace.events.name[rows]
    if not len(args.row):
        return distinct(name)[1]
    at = np.minimum(np.searchsorted(args.row, rows), len(args.row) - 1)
    known = args.row[at] == rows
    geometry = (np.where(known, column[at], -1) for column in (*args.grid.T, *args.block.T))
    return distinct_tuples(name, *geometry)[1]


def _medians(kind: I64, dur: I64, count: I64) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Median duration of each kind that has runs; 0 where it has none."""
    ordered = dur[np.lexsort((dur, kind))].astype(np.float64)
    first = np.cumsum(count) - count
    last = max(len(ordered) - 1, 0)
    low = (
        ordered[np.clip(first + (count - 1) // 2, 0, last)]
        if len(ordered)
        else np.zeros(len(count))
    )
    high = ordered[np.clip(first + count // 2, 0, last)] if len(ordered) else np.zeros(len(count))
    return np.where(count > 0, (low + high) / 2, 0.0)
