"""Interval algebra on integer nanoseconds.

A set of time is an int64 array of shape (n, 2): half-open intervals, sorted, disjoint, not
touching, none empty. Every function here takes and gives that form, except :func:`union` and
:func:`union_measure_by_group`, which make it from any begins and ends. All exact, all vectorized.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Spans = npt.NDArray[np.int64]
"""Shape (n, 2): sorted, disjoint, non-empty half-open intervals in ns."""


def empty() -> Spans:
    """No time at all."""
    return np.empty((0, 2), dtype=np.int64)


def span(start: int, end: int) -> Spans:
    """One interval; nothing where it is empty or reversed."""
    return np.array([[start, end]], dtype=np.int64) if end > start else empty()


def union(start: I64, end: I64) -> Spans:
    """Union of the intervals [start[i], end[i]) in any order; empty and reversed ones are nothing.

    Touching intervals become one.
    """
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return empty()
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    begins = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    last = np.concatenate((begins[1:] - 1, [len(start) - 1]))
    return np.stack((start[begins], reach[last]), axis=1)


def join(*sets: Spans) -> Spans:
    """Union of several sets."""
    together = np.concatenate([empty(), *sets])
    return union(together[:, 0], together[:, 1])


def measure(spans: Spans) -> int:
    """Total length in ns."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def intersection(a: Spans, b: Spans) -> Spans:
    """Time that is in both."""
    return _combine(a, b, inside_b=True)


def difference(a: Spans, b: Spans) -> Spans:
    """Time that is in `a` and not in `b`."""
    return _combine(a, b, inside_b=False)


def _combine(a: Spans, b: Spans, *, inside_b: bool) -> Spans:
    """Pieces of `a` inside or outside `b`, by a sweep over the boundaries of both."""
    if not len(a):
        return empty()
    if not len(b):
        return empty() if inside_b else a
    at = np.concatenate((a.ravel(), b.ravel()))
    in_a = np.concatenate((np.tile([1, -1], len(a)), np.zeros(2 * len(b), dtype=np.int64)))
    in_b = np.concatenate((np.zeros(2 * len(a), dtype=np.int64), np.tile([1, -1], len(b))))
    order = np.argsort(at, kind="stable")
    at = at[order]
    wanted = (np.cumsum(in_a[order]) == 1) & ((np.cumsum(in_b[order]) == 1) == inside_b)
    wanted = wanted[:-1]
    return union(at[:-1][wanted], at[1:][wanted])


def clip(spans: Spans, start: int, end: int) -> Spans:
    """The part between `start` and `end`."""
    cut = np.clip(spans, start, max(start, end))
    return cut[cut[:, 1] > cut[:, 0]]


def covered_before(spans: Spans, at: I64) -> I64:
    """How much of `spans` lies before each time in `at`, ns."""
    if not len(spans):
        return np.zeros(len(at), dtype=np.int64)
    total = np.concatenate(([0], np.cumsum(spans[:, 1] - spans[:, 0])))
    index = np.searchsorted(spans[:, 0], at, side="right")
    beyond = np.maximum(spans[np.maximum(index - 1, 0), 1] - at, 0)
    covered: I64 = total[index] - np.where(index > 0, beyond, 0)
    return covered


def covered(spans: Spans, start: I64, end: I64) -> I64:
    """How much of `spans` lies inside each of the intervals [start[i], end[i]), ns."""
    inside: I64 = covered_before(spans, np.maximum(start, end)) - covered_before(spans, start)
    return inside


def contains(spans: Spans, at: I64) -> Bool:
    """Whether each time in `at` is inside `spans`."""
    if not len(spans):
        return np.zeros(len(at), dtype=np.bool_)
    index = np.searchsorted(spans[:, 0], at, side="right") - 1
    inside: Bool = (index >= 0) & (at < spans[np.maximum(index, 0), 1])
    return inside


def union_measure_by_group(start: I64, end: I64, group: I64, groups: int) -> I64:
    """Length of the union of each group's intervals, ns; ``group[i]`` in ``range(groups)``."""
    result = np.zeros(groups, dtype=np.int64)
    if not len(start):
        return result
    order = np.lexsort((start, group))
    start, end, group = start[order], np.maximum(start, end)[order], group[order]
    # A running maximum that restarts with each group: ranks of the ends, lifted by group, grow
    # from one group to the next and cannot overflow as times could.
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(len(end), dtype=np.int64)
    rank[by_end] = np.arange(len(end))
    highest = np.maximum.accumulate(rank + group * len(end)) - group * len(end)
    reach = end[by_end[highest]]
    same = np.concatenate(([False], group[1:] == group[:-1]))
    before = np.where(same, np.concatenate((start[:1], reach[:-1])), start)
    np.add.at(result, group, np.maximum(end - np.maximum(start, before), 0))
    return result
