"""The samples of a measurement: one after the other, and how they are distributed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuperf_analyzers.display import number, scale, show, show_interval
from gpuperf_analyzers.live_block import TIMERS
from pytest_gpuperf.report.columns import Record
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    Plot,
    Section,
    Table,
    words,
)
from pytest_gpuperf.report.html.embed import packed
from pytest_gpuperf.report.html.svg import Scale, element, framed, percent, titled

MOST_POINTS = 20_000
"""Samples that are drawn; of more every n-th stands for its n, and the page says so."""
_MOST_BINS = 40


def samples_section(record: Record) -> Section | None:
    """Samples over time and their distribution; None where none were kept."""
    samples = [float(s) for s in record.get("samples_us") or ()]
    if not samples:
        return None
    marks, band = _marks(record)
    return Section(
        "Samples", (_over_time(record, samples, marks, band), *_bins(samples, marks, band))
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
            "x": {"label": "sample", "values": packed(np.arange(len(shown)) * every + 1, "u4")},
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
        _legend(marks, band),
        "step_time",
    )


def _legend(
    marks: Sequence[Mapping[str, Any]], band: Sequence[float] | None
) -> tuple[tuple[str, str], ...]:
    named = [(f"m-{m['kind']}", f"{m['label']} {show(m['at'], 'us')}") for m in marks]
    if band is not None:
        middle = next((m["at"] for m in marks if m["kind"] == "median"), band[0])
        named.append(("m-band", f"95% interval {show_interval(middle, band, 'us')}"))
    return tuple(named)


def _bins(
    samples: Sequence[float], marks: Sequence[Mapping[str, Any]], band: Sequence[float] | None
) -> tuple[Block, ...]:
    """The histogram, with the same lines; none of fewer than five samples."""
    if len(samples) < 5:
        return ()
    values = np.asarray(samples)
    counts, edges = np.histogram(values, bins=_bin_count(values))
    middle = float(np.median(values))
    factor, symbol = scale(middle, "us")
    near = [m["at"] for m in marks if 0.5 * values.min() <= m["at"] <= 2 * values.max()]
    x = Scale(min([edges[0], *near]) / factor, max([edges[-1], *near]) / factor)
    y = Scale(0, float(counts.max()) * 1.05)
    shapes = []
    if band is not None:
        low, high = (x(b / factor) for b in band)
        shapes.append(
            element(
                "rect",
                class_="m-band",
                x=percent(low),
                y="0%",
                width=percent(max(high - low, 0.001)),
                height="100%",
            )
        )
    for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        at, end = x(low / factor), x(high / factor)
        told = f"{count} of {len(samples)}: {show(low, 'us')} to {show(high, 'us')}"
        shapes.append(
            titled(
                "rect",
                told,
                class_="k-compute",
                x=percent(at),
                y=percent(1 - y(count)),
                width=percent((end - at) * 0.96),
                height=percent(y(count)),
            )
        )
    shapes += [_line(x(m["at"] / factor), m) for m in marks if m["at"] in near]
    rows = tuple(
        (
            Cell(number(a / factor, 5), float(a)),
            Cell(number(b / factor, 5), float(b)),
            Cell(str(n), n),
        )
        for n, a, b in zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
    )
    columns = (
        Column(f"from, {symbol}", unit="us"),
        Column(f"to, {symbol}", unit="us"),
        Column("samples"),
    )
    off = [words(m["label"], 40) for m in marks if m["at"] not in near]
    return (
        Drawing(
            "Distribution",
            framed(shapes, x, y, x_label=f"time per step, {symbol}", y_label="samples", height=200),
            f"Histogram of {len(samples)} samples: median {show(middle, 'us')}, quarter to three "
            f"quarters {show(float(np.quantile(values, 0.25)), 'us')} to "
            f"{show(float(np.quantile(values, 0.75)), 'us')}."
            + (f" Off the picture: {', '.join(off)}." if off else ""),
            Table("Distribution", columns, rows),
            _legend([m for m in marks if m["at"] in near], band),
            "step_time",
        ),
    )


def _bin_count(values: np.ndarray[Any, Any]) -> int:
    """Freedman and Diaconis' rule, between 5 and 40 bins."""
    q1, q3 = np.quantile(values, [0.25, 0.75])
    width = 2 * (q3 - q1) / len(values) ** (1 / 3)
    spread = float(values.max() - values.min())
    return int(np.clip(np.ceil(spread / width), 5, _MOST_BINS)) if width > 0 and spread > 0 else 5


def _line(share: float, mark: Mapping[str, Any]) -> Any:
    at = percent(share)
    told = f"{mark['label']}: {show(mark['at'], 'us')}"
    return titled("line", told, class_=f"m-{mark['kind']}", x1=at, x2=at, y1="0%", y2="100%")
