"""Time that belongs to one owner only: every moment of a step to exactly one cause.

Layers lie over each other: the first one that covers a moment owns it (compute, then exposed
communication, then exposed memory, then idle by cause). Within a layer intervals may overlap;
there the one that began first owns the moment until it ends. So the owners' times add up to the
length of the step, in whole nanoseconds, whatever overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.intervals import I64, Spans


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Disjoint intervals in time order, ns, and the number of each one's owner."""

    start: I64
    end: I64
    owner: I64


def first_begun(start: I64, end: I64, owner: I64) -> Layer:
    """A layer of intervals that may overlap: of those running, the one that began first owns.

    Of two that begin together the longer one owns, of two that are alike the lower owner.
    """
    keep = end > start
    start, end, owner = start[keep], end[keep], owner[keep]
    order = np.lexsort((owner, -end, start))
    start, end, owner = start[order], end[order], owner[order]
    if not len(start):
        return Layer(start, end, owner)
    reached = np.concatenate((start[:1], np.maximum.accumulate(end)[:-1]))
    begin = np.maximum(start, reached)
    adds = end > begin
    return Layer(begin[adds], end[adds], owner[adds])


def spans_layer(spans: Spans, owner: int) -> Layer:
    """A layer of one owner."""
    return Layer(spans[:, 0], spans[:, 1], np.full(len(spans), owner, dtype=np.int64))


def owned_time(layers: Sequence[Layer], start: I64, end: I64, owners: int) -> I64:
    """Time of each owner in each step, ns: shape (owners, steps).

    Parameters
    ----------
    layers
        The first one that covers a moment owns it. What none covers is nobody's.
    start, end
        The steps: ordered, not overlapping.
    owners
        How many owners there are; each number in a layer is below it.
    """
    result = np.zeros((owners, len(start)), dtype=np.int64)
    bounds = [side for layer in layers for side in (layer.start, layer.end)]
    edges = np.unique(np.concatenate((start, end, *bounds)))
    at, length = edges[:-1], np.diff(edges)
    owner = np.full(len(at), -1, dtype=np.int64)
    for layer in layers:
        here = _covering(layer.start, layer.end, at)
        free = (owner < 0) & (here >= 0)
        owner[free] = layer.owner[here[free]]
    step = _covering(start, end, at)
    known = (owner >= 0) & (step >= 0)
    np.add.at(result, (owner[known], step[known]), length[known])
    return result


def _covering(start: I64, end: I64, at: I64) -> I64:
    """Which of the ordered, disjoint intervals covers each time; -1 where none does."""
    if not len(start):
        return np.full(len(at), -1, dtype=np.int64)
    index = np.searchsorted(start, at, side="right") - 1
    inside = (index >= 0) & (at < end[np.maximum(index, 0)])
    return np.where(inside, index, -1)
