"""How the samples of a measurement are distributed: a histogram of the many, the few told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from gpuperf_analyzers.display import number, scale, show, show_interval
from pytest_gpuperf.report.html.blocks import Block, Cell, Column, Drawing, Table, words
from pytest_gpuperf.report.html.svg import Scale, element, framed, percent, titled

F64 = npt.NDArray[np.float64]
Mark = Mapping[str, Any]
_FEWEST, _MOST_BINS = 5, 40
_FAR = 6.0
"""Quartile distances from the quartiles beyond which a sample is told and not drawn."""


def distribution(
    samples: Sequence[float], marks: Sequence[Mark], band: Sequence[float] | None
) -> tuple[Block, ...]:
    """The histogram, with the lines of `marks` and the interval `band`; none of fewer than five.

    A few samples far off would squeeze all others into one bar: those farther from the quartiles
    than six times their distance are counted under the picture instead.
    """
    if len(samples) < _FEWEST:
        return ()
    values = np.sort(np.asarray(samples, dtype=np.float64))
    drawn, far = _near(values)
    counts, edges = np.histogram(drawn, bins=_bin_count(drawn))
    factor, symbol = scale(float(np.median(values)), "us")
    near = [m for m in marks if 0.5 * drawn[0] <= m["at"] <= 2 * drawn[-1]]
    at = [m["at"] for m in near]
    x = Scale(min([edges[0], *at]) / factor, max([edges[-1], *at]) / factor)
    y = Scale(0, float(counts.max()) * 1.05)
    shapes = [
        *_band(band, x, factor),
        *_bars(counts, edges / factor, x, y, len(samples)),
        *(_line(x(m["at"] / factor), m) for m in near),
    ]
    off = [words(m["label"], 40) for m in marks if m not in near]
    return (
        Drawing(
            "Distribution",
            framed(shapes, x, y, x_label=f"time per step, {symbol}", y_label="samples", height=200),
            _told(values, far, off),
            _table(counts, edges, factor, symbol),
            legend_of_marks(near, band),
            "step_time",
        ),
    )


def _near(values: F64) -> tuple[F64, F64]:
    """Sorted samples without those far off, and those."""
    q1, q3 = np.quantile(values, [0.25, 0.75])
    reach = _FAR * (q3 - q1)
    inside = (values >= q1 - reach) & (values <= q3 + reach)
    return values[inside], values[~inside]


def _bin_count(values: F64) -> int:
    """Freedman and Diaconis' rule, between 5 and 40 bins."""
    q1, q3 = np.quantile(values, [0.25, 0.75])
    width = 2 * (q3 - q1) / len(values) ** (1 / 3)
    spread = float(values[-1] - values[0])
    if not width > 0 or not spread > 0:
        return _FEWEST
    return int(np.clip(np.ceil(spread / width), _FEWEST, _MOST_BINS))


def _bars(counts: npt.NDArray[np.int64], edges: F64, x: Scale, y: Scale, of: int) -> list[Markup]:
    shapes = []
    for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        at, end = x(low), x(high)
        shapes.append(
            titled(
                "rect",
                f"{count} of {of}: {number(low, 4)} to {number(high, 4)}",
                class_="k-compute",
                x=percent(at),
                y=percent(1 - y(count)),
                width=percent((end - at) * 0.96),
                height=percent(y(count)),
            )
        )
    return shapes


def _band(band: Sequence[float] | None, x: Scale, factor: float) -> list[Markup]:
    if band is None:
        return []
    low, high = (x(b / factor) for b in band)
    width = percent(max(high - low, 0.001))
    return [element("rect", class_="m-band", x=percent(low), y="0%", width=width, height="100%")]


def _line(share: float, mark: Mark) -> Markup:
    at = percent(share)
    told = f"{mark['label']}: {show(mark['at'], 'us')}"
    return titled("line", told, class_=f"m-{mark['kind']}", x1=at, x2=at, y1="0%", y2="100%")


def _told(values: F64, far: F64, off: Sequence[str]) -> str:
    q1, middle, q3 = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
    text = (
        f"Histogram of {len(values)} samples: median {show(middle, 'us')}, quarter to three "
        f"quarters {show(q1, 'us')} to {show(q3, 'us')}."
    )
    if len(far):
        between = f"{show(float(far[0]), 'us')} to {show(float(far[-1]), 'us')}"
        many = "1 sample is" if len(far) == 1 else f"{len(far)} samples are"
        text += f" {many} far off and not drawn: {between}."
    return text + (f" Off the picture: {', '.join(off)}." if off else "")


def _table(counts: npt.NDArray[np.int64], edges: F64, factor: float, symbol: str) -> Table:
    rows = tuple(
        (
            Cell(number(low / factor, 5), float(low)),
            Cell(number(high / factor, 5), float(high)),
            Cell(str(count), count),
        )
        for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
    )
    columns = (
        Column(f"from, {symbol}", unit="us"),
        Column(f"to, {symbol}", unit="us"),
        Column("samples"),
    )
    return Table("Distribution", columns, rows)


def legend_of_marks(
    marks: Sequence[Mark], band: Sequence[float] | None
) -> tuple[tuple[str, str], ...]:
    """Class and words of each mark, and of the interval."""
    named = [(f"m-{m['kind']}", f"{m['label']} {show(m['at'], 'us')}") for m in marks]
    if band is not None:
        middle = next((m["at"] for m in marks if m["kind"] == "median"), band[0])
        named.append(("m-band", f"95% interval {show_interval(middle, band, 'us')}"))
    return tuple(named)
