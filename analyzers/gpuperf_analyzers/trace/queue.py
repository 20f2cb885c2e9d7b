"""The launch queue of a device: what was launched and had not started yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers import intervals
from gpuperf_analyzers.intervals import Spans
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import I64, Trace
from gpuperf_analyzers.trace.selection import Activity

FULL = 1024
"""Pending launches at which CUDA makes the next launch call wait."""


@dataclass(frozen=True, slots=True, eq=False)
class LaunchQueue:
    """Launched, not yet started activity of one device over its window.

    A launch call waits until the first activity that it launched starts; a graph of hundreds of
    kernels is one launch. ``at`` and ``depth`` are the change points: from ``at[i]`` on,
    ``depth[i]`` launches wait. ``empty`` and ``full`` are the times when none, and when
    :data:`FULL` or more, wait. ``latency`` holds, for each launch onto an idle device with
    nothing waiting before it, its activity's start minus its own begin: the price of a launch
    alone, ns.
    ``unlinked`` activities have no launch record and are not seen.
    """

    at: I64
    depth: I64
    empty: Spans
    full: Spans
    latency: I64
    unlinked: int


def launch_queue(trace: Trace, found: Activity) -> LaunchQueue | None:
    """The queue of the device of `found`; None where no activity has a launch record."""
    if found.device == "cpu":
        return None
    e = trace.events
    call = launches(trace)[found.rows]
    linked = call >= 0
    if not linked.any():
        return None
    # Rows are in time order: the first of a call's activities is where np.unique finds it.
    calls, first = np.unique(call[linked], return_index=True)
    begin, launched = e.ts[found.rows][linked][first], e.ts[calls]
    # A clock skew can put an activity before its own launch: it never waited.
    launch = np.minimum(launched, begin)
    at = np.concatenate((launch, begin))
    change = np.repeat(np.array([1, -1]), len(begin))
    order = np.argsort(at, kind="stable")
    at, level = at[order], np.cumsum(change[order])
    last = np.append(at[1:] != at[:-1], True)
    at, level = at[last], level[last]
    window = intervals.span(found.start, found.end)
    waiting, full = (_where(at, level >= least) for least in (1, FULL))
    return LaunchQueue(
        at,
        level,
        intervals.difference(window, waiting),
        intervals.intersection(window, full),
        _latency(found, begin, launched, at, level),
        int((~linked).sum()),
    )


def _where(at: I64, holds: npt.NDArray[np.bool_]) -> Spans:
    """The time in which the step function holds."""
    inside = holds[:-1]
    return intervals.union(at[:-1][inside], at[1:][inside])


def _latency(found: Activity, begin: I64, launched: I64, at: I64, depth: I64) -> I64:
    """Start minus launch of those launched while the device was idle and the queue empty."""
    before = np.searchsorted(at, launched, side="left") - 1
    nothing = np.where(before >= 0, depth[np.maximum(before, 0)], 0) == 0
    idle = ~intervals.contains(found.busy, launched) & (launched <= begin)
    ends_gap = np.isin(begin, found.busy[:, 0])
    result: I64 = (begin - launched)[nothing & idle & ends_gap]
    return result
