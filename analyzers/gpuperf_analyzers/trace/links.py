"""Which call launched an activity, and which CPU op encloses a host event.

Both are joins over whole columns, made once per trace and kept in ``trace.memo``. -1 stands for
"none found" everywhere; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.trace.classify import step_mask
from gpuperf_analyzers.trace.model import GPU_ACTIVITY, I32, I64, Category, Trace

_CALLS = np.array([Category.RUNTIME, Category.DRIVER], dtype=np.int8)
_GPU = np.array(GPU_ACTIVITY, dtype=np.int8)


def launches(trace: Trace) -> I64:
    """For every event, the row of the runtime or driver call that launched it; -1 where none.

    Set for GPU activity only, by correlation. Where a correlation id occurs more than once
    (several processes in one file), the last call begun before the activity is taken.
    """
    cached = trace.memo.get("launches")
    if cached is not None:
        known: I64 = cached
        return known
    e = trace.events
    result = np.full(len(e), -1, dtype=np.int64)
    calls = np.flatnonzero(np.isin(e.cat, _CALLS) & (e.correlation > 0))
    gpu = np.flatnonzero(np.isin(e.cat, _GPU) & (e.correlation > 0))
    if len(calls) and len(gpu):
        # Rows are in time order, so a stable sort by correlation leaves each id's calls in order.
        calls = calls[np.argsort(e.correlation[calls], kind="stable")]
        ids = e.correlation[calls]
        first = np.searchsorted(ids, e.correlation[gpu], side="left")
        after = np.searchsorted(ids, e.correlation[gpu], side="right")
        found = after > first
        pick = np.minimum(first, len(calls) - 1)
        for i in np.flatnonzero(after - first > 1):
            begun = np.searchsorted(e.ts[calls[first[i] : after[i]]], e.ts[gpu[i]], side="right")
            pick[i] = first[i] + max(int(begun) - 1, 0)
        result[gpu[found]] = calls[pick[found]]
    trace.memo["launches"] = result
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """How spans nest on each track.

    Position i stands for the event in ``rows[i]``; positions are ordered by (track, start,
    longer first). Spans without length enclose nothing and are left out. ``parent`` is the
    position of the innermost span around each (-1 at the top), ``root`` of the outermost
    (itself at the top), ``depth`` how many are around it.
    """

    rows: I64
    start: I64
    end: I64
    depth: I64
    parent: I64
    root: I64
    _begins: I64
    _ends: I64
    _by_depth: I64
    _levels: I64
    _times: I64 | None
    _width: int

    def innermost(self, track: I64, at: I64) -> I64:
        """Position of the innermost span open on each track at each time; -1 where none is."""
        key = _key(track, at, self._times, self._width)
        begun = np.searchsorted(self._begins, key, side="right")
        depth = begun - np.searchsorted(self._ends, key, side="right")
        return self._walk_up(_last(self._by_depth, self._levels, depth - 1, begun), at)

    def _walk_up(self, found: I64, at: I64) -> I64:
        """Spans that overlap without nesting mislead the depth: go up to one that holds `at`."""
        if not len(self.rows):
            return found
        for _ in range(int(self.depth.max()) + 2):
            lost = (found >= 0) & ((self.start[found] > at) | (self.end[found] <= at))
            if not lost.any():
                break
            found = np.where(lost, self.parent[found], found)
        return found


def nesting(trace: Trace, *categories: Category) -> Nesting:
    """How the events of `categories` (by default CPU ops) nest on each track.

    Step spans, which old profilers record as ops, are left out.
    """
    wanted = categories or (Category.CPU_OP,)
    key = "nesting:" + ",".join(str(int(c)) for c in wanted)
    cached = trace.memo.get(key)
    if cached is None:
        rows = trace.rows(*wanted)
        cached = trace.memo[key] = nest_rows(trace, rows[~step_mask(trace)[rows]])
    known: Nesting = cached
    return known


def _stable_order(values: I64 | I32) -> I64:
    """Stable sorting order of tracks or depths, which are few: 16 bits are sorted by radix."""
    few = len(values) > 0 and values.min() >= -(2**15) and values.max() < 2**15
    return np.argsort(values.astype(np.int16) if few else values, kind="stable")


def nest_rows(trace: Trace, rows: I64) -> Nesting:
    """How the events in `rows` (in time order) nest on each track."""
    e = trace.events
    rows = rows[e.dur[rows] > 0]
    rows = rows[_stable_order(e.track[rows])]
    start = e.ts[rows]
    end = start + e.dur[rows]
    tracks = len(trace.tracks) + 1
    times: I64 | None = None
    width = int(end.max()) + 2 if len(rows) else 2
    if tracks * width >= 2**62:  # a time far out would overflow the key: rank the times instead
        times = np.unique(np.concatenate((start, end)))
        width = len(times) + 2
    track = e.track[rows].astype(np.int64)
    begins = _key(track, start, times, width)
    ends = np.sort(_key(track, end, times, width))
    position = np.arange(len(rows))
    depth = position - np.searchsorted(ends, begins, side="right")
    by_depth = _stable_order(depth)
    levels = depth[by_depth] * (len(rows) + 1) + by_depth
    parent = _last(by_depth, levels, depth - 1, position)
    parent = np.where((parent >= 0) & (track[parent] == track), parent, -1)
    return Nesting(
        rows, start, end, depth, parent, _roots(parent), begins, ends, by_depth, levels, times,
        width,
    )  # fmt: skip


def _key(track: I64, at: I64, times: I64 | None, width: int) -> I64:
    """(track, time) as one number that sorts the same way."""
    if times is not None:
        at = np.searchsorted(times, at, side="right")
    key: I64 = track * width + np.clip(at, 0, width - 1)
    return key


def _last(by_depth: I64, levels: I64, depth: I64, before: I64) -> I64:
    """The last span of each depth before each position, which is the open one; -1: none."""
    if not len(levels):
        return np.full(len(depth), -1, dtype=np.int64)
    index = np.searchsorted(levels, depth * (len(levels) + 1) + before, side="left") - 1
    return np.where((depth >= 0) & (index >= 0), by_depth[np.maximum(index, 0)], -1)


def _roots(parent: I64) -> I64:
    """The top of each one's chain, by doubling the jumps."""
    root = np.where(parent < 0, np.arange(len(parent)), parent)
    while True:
        further = root[root]
        if np.array_equal(further, root):
            return root
        root = further


def enclosing(trace: Trace, rows: I64, *categories: Category, outermost: bool = False) -> I64:
    """Row of the innermost (or outermost) span around the start of each event; -1 where none.

    The span is of one of `categories` (by default a CPU op) and on the event's own track. A span
    is not around itself: where `rows` hold such spans, theirs are their parents.
    """
    e = trace.events
    nest = nesting(trace, *categories)
    rows = np.asarray(rows, dtype=np.int64)
    valid = rows >= 0
    at = np.where(valid, rows, 0)
    if not len(nest.rows) or not len(rows):
        return np.full(len(rows), -1, dtype=np.int64)
    found = nest.innermost(e.track[at].astype(np.int64), e.ts[at])
    own = _own_position(nest, at, len(e))
    found = np.where(own >= 0, nest.parent[own], found)
    if outermost:
        found = np.where(found >= 0, nest.root[found], -1)
    return np.where(valid & (found >= 0), nest.rows[found], -1)


def _own_position(nest: Nesting, rows: I64, total: int) -> I64:
    position = np.full(total, -1, dtype=np.int64)
    position[nest.rows] = np.arange(len(nest.rows))
    return position[rows]


def launching_ops(trace: Trace, *, outermost: bool = False) -> I64:
    """For every event, the row of the CPU op that launched it; -1 where none is known.

    GPU activity: the op around its launch call; without a launch record, the op of the same
    External id, where that id is not just the correlation.
    """
    cached = trace.memo.get("launching_ops")
    if cached is None:
        inner = _launching_ops(trace)
        nest = nesting(trace)
        own = _own_position(nest, np.maximum(inner, 0), len(trace.events))
        known = (inner >= 0) & (own >= 0)
        # An op without length is in no nesting: it is its own outermost one.
        outer = np.where(known, nest.rows[nest.root[own]], inner) if len(nest.rows) else inner
        cached = trace.memo["launching_ops"] = (inner, outer)
    result: I64 = cached[1 if outermost else 0]
    return result


def _launching_ops(trace: Trace) -> I64:
    """For every event, the row of the innermost CPU op that launched it."""
    e = trace.events
    launch = launches(trace)
    gpu = np.flatnonzero(np.isin(e.cat, _GPU))
    result = np.full(len(e), -1, dtype=np.int64)
    result[gpu] = enclosing(trace, launch[gpu])
    bare = gpu[(launch[gpu] < 0) & (e.external_id[gpu] > 0)]
    bare = bare[e.external_id[bare] != e.correlation[bare]]
    ops = np.flatnonzero((e.cat == Category.CPU_OP) & (e.external_id > 0))
    if len(bare) and len(ops):
        ops = ops[np.argsort(e.external_id[ops], kind="stable")]
        ids = e.external_id[ops]
        index = np.minimum(np.searchsorted(ids, e.external_id[bare]), len(ops) - 1)
        same = ids[index] == e.external_id[bare]
        result[bare[same]] = ops[index[same]]
    return result
