"""The samples of a measurement: one after the other, and how they are distributed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuperf_analyzers.display import scale, show
from gpuperf_analyzers.live_block import TIMERS
from pytest_gpuperf.report.columns import Record
from pytest_gpuperf.report.html.blocks import (
    Plot,
    Section,
)
from pytest_gpuperf.report.html.embed import packed
from pytest_gpuperf.report.html.sections.distribution import distribution, legend_of_marks

MOST_POINTS = 20_000
"""Samples that are drawn; of more every n-th stands for its n, and the page says so."""


def samples_section(record: Record) -> Section | None:
    """Samples over time and their distribution; None where none were kept."""
    samples = [float(s) for s in record.get("samples_us") or () if s is not None]
    if not samples:
        return None
    marks, band = _marks(record)
    return Section(
        "Samples", (_over_time(record, samples, marks, band), *distribution(samples, marks, band))
    )


def _marks(record: Record) -> tuple[list[dict[str, Any]], Sequence[float] | None]:
    """Lines to draw in, µs: limits of the step time, its median, the baseline; the interval."""
    marks: list[dict[str, Any]] = []
    for judgement in record.get("limits") or ():
        absolute = judgement.get("direction") in {"min", "max"} and judgement.get("unit") == "us"
        known = judgement.get("limit") is not None
        if judgement.get("metric") == "step_time" and absolute and known:
            marks.append({"at": float(judgement["limit"]), "kind": "limit", "label": "limit"})
    entry: Mapping[str, Any] = (record.get("values") or {}).get("step_time") or {}
    if entry.get("value") is not None:
        marks.append({"at": float(entry["value"]), "kind": "median", "label": "median"})
    baseline = _baseline(record)
    if baseline is not None:
        marks.append({"at": baseline, "kind": "baseline", "label": "baseline"})
    return marks, entry.get("interval")


def _baseline(record: Record) -> float | None:
    """The baseline's step time in µs, where the record has one."""
    found = record.get("baseline")
    if not isinstance(found, Mapping):
        return None
    entry = (found.get("values") or found).get("step_time")
    value = entry.get("value") if isinstance(entry, Mapping) else entry
    return float(value) if isinstance(value, (int, float)) else None


def _over_time(
    record: Record,
    samples: Sequence[float],
    marks: Sequence[Mapping[str, Any]],
    band: Sequence[float] | None,
) -> Plot:
    every = -(-len(samples) // MOST_POINTS)
    shown = samples[::every]
    factor, symbol = scale(float(np.median(samples)), "us")
    thinned = f" Every {every}th of {len(samples)} is drawn." if every > 1 else ""
    low, high = min(samples), max(samples)
    timer = TIMERS.get(str(record.get("timer")), "")
    return Plot(
        "Each sample" + (f", {timer}" if timer else ""),
        "series",
        {
            "x": {
                "label": "sample",
                "whole": True,
                "values": packed(np.arange(len(shown)) * every + 1, "u4"),
            },
            "y": {"label": f"time per step, {symbol}", "factor": factor, "unit": "us"},
            "series": [{"label": "step time", "style": "points", "values": packed(shown)}],
            "marks": list(marks),
            "band": None
            if band is None
            else {"low": band[0], "high": band[1], "label": "95% interval of the median"},
            "height": 240,
        },
        f"{len(samples)} samples between {show(low, 'us')} and {show(high, 'us')}, in the order "
        f"taken.{thinned}",
        legend_of_marks(marks, band),
        "step_time",
    )
