"""What a value of memory is made of: the places that hold the most, for whoever it is too much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from gpuperf_analyzers.analysis import Analysis
from gpuperf_analyzers.memory import MemoryResult
from gpuperf_analyzers.memory_block import Cause
from gpuperf_analyzers.metrics import MEMORY_BY_CATEGORY, MEMORY_LIMITS

NAMED = 3
"""Causes that a failure names."""


def memory_causes(
    analysis: Analysis, metric: str, device: str = "", count: int = NAMED
) -> tuple[Cause, ...]:
    """The `count` largest causes of `metric`, the most bytes first; of the growth bytes a step.

    A live run knows category and place. Of a foreign trace it is the op around each allocation
    that was alive at the peak, of growth since the recording began; the category is "" there.

    Parameters
    ----------
    analysis
        One rank.
    metric
        A metric of memory; another one has no causes here.
    device
        Label of the device, of several; "" takes the first.
    count
        How many.
    """
    if metric not in MEMORY_LIMITS:
        return ()
    live = analysis.block.memory if analysis.block is not None else None
    if metric == "memory_growth":
        return live.growth[:count] if live is not None else ()
    if live is not None and metric in MEMORY_BY_CATEGORY:
        category = metric.removesuffix("_memory")
        return tuple(c for c in live.at_largest if c.category == category)[:count]
    if live is not None and live.causes:
        return live.causes[:count]
    devices = [d for d in analysis.devices if device in ("", d.label)]
    if metric in MEMORY_BY_CATEGORY or not devices:
        return ()
    found: MemoryResult = devices[0].results["memory"]
    sums: dict[str, list[int]] = {}
    for allocation in found.alive_at_peak:
        row = sums.setdefault(allocation.op, [0, 0])
        row[0] += allocation.bytes
        row[1] += 1
    rows = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(Cause("", op, size, number) for op, (size, number) in rows[:count])


def causes_json(metric: str, causes: Iterable[Cause]) -> list[dict[str, Any]]:
    """`causes` of `metric` as plain JSON types."""
    return [{"metric": metric, **asdict(cause)} for cause in causes]
