"""SVG of our own for charts that need no interaction: bars, histograms, scatter, heat maps.

Positions are percent, so that a chart fills any width while its text keeps its size, and every
colour is a class of the page's style sheet: light, dark and print are one drawing. No ``style``
attribute is used; the page's policy forbids it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from gpuperf_analyzers.display import number


def element(name: str, /, *children: Markup | str, **attributes: object) -> Markup:
    """One element, everything in it escaped; ``_`` in a name of an attribute stands for ``-``."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value not in (None, "")
    )
    inner = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, inner)  # noqa: S704 - our names


def percent(share: float) -> str:
    """A share as an SVG length, ``12.345%``; at most twice the width to either side."""
    return f"{100 * min(max(share, -1.0), 2.0):.3f}%"


def titled(shape: str, title: str, **attributes: object) -> Markup:
    """A shape whose title shows where the pointer rests on it."""
    return element(shape, element("title", title), **attributes)


def split_bar(parts: Iterable[tuple[str, str, float]], whole: float, height: int = 22) -> Markup:
    """One bar; each part is (class, words for the hover, amount), drawn in order."""
    at, shapes = 0.0, []
    for kind, told, amount in parts:
        if amount > 0 and whole > 0:
            shapes.append(
                titled(
                    "rect",
                    told,
                    class_=f"k-{kind}",
                    x=percent(at / whole),
                    y=1,
                    width=percent(amount / whole),
                    height=height - 2,
                )
            )
            at += amount
    return element("svg", *shapes, class_="bar", width="100%", height=height, aria_hidden="true")


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values between `low` and `high`."""
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    raw = span / count
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * m for m in (1, 2, 5, 10) if base * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between `low` and `high`, at most eight; of few, twice and five times too."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / 8))
    powers = [10.0**exponent for exponent in range(first, last + 1, every)]
    if len(powers) > 2:
        return powers
    finer = [10.0**e * m for e in range(first - 1, last + 1) for m in (1, 2, 5)]
    return [tick for tick in finer if low <= tick <= high] or [math.sqrt(low * high)]


class Scale:
    """Values to shares of an axis, linear or logarithmic."""

    def __init__(self, low: float, high: float, *, log: bool = False) -> None:
        self.low, self.high, self.log = low, high, log
        if not high > low:
            self.low, self.high = (low / 2, low * 2) if log else (low - 0.5, low + 0.5)

    def __call__(self, value: float) -> float:
        """Where `value` stands between 0 and 1."""
        if self.log:
            return math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Values that labels stand at."""
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)


def framed(
    shapes: Sequence[Markup],
    x: Scale,
    y: Scale,
    *,
    x_label: str,
    y_label: str,
    height: int = 260,
    x_ticks: Sequence[tuple[float, str]] | None = None,
    y_ticks: Sequence[tuple[float, str]] | None = None,
) -> Markup:
    """A chart with axes: `shapes` over a grid, labels left and below."""
    across = [(v, number(v)) for v in x.ticks()] if x_ticks is None else x_ticks
    up = [(v, number(v)) for v in y.ticks()] if y_ticks is None else y_ticks
    grid = [
        element("line", class_="grid", x1=percent(x(v)), x2=percent(x(v)), y1="0%", y2="100%")
        for v, _ in across
    ] + [
        element(
            "line", class_="grid", x1="0%", x2="100%", y1=percent(1 - y(v)), y2=percent(1 - y(v))
        )
        for v, _ in up
    ]
    left = [_left(1 - y(v), text) for v, text in up]
    under = [_under(x(v), text) for v, text in across]
    return element(
        "div",
        element("div", y_label, class_="y-label"),
        element("svg", *left, class_="y-axis", width=64, height=height, aria_hidden="true"),
        element(
            "svg", *grid, *shapes, class_="area", width="100%", height=height, aria_hidden="true"
        ),
        element("svg", *under, class_="x-axis", width="100%", height=18, aria_hidden="true"),
        element("div", x_label, class_="x-label"),
        class_="chart",
    )


def _left(share: float, text: str) -> Markup:
    # A label at an end of the axis would be cut in half.
    baseline = "hanging" if share < 0.03 else "auto" if share > 0.97 else "middle"
    return element(
        "text", text, x=58, y=percent(share), text_anchor="end", dominant_baseline=baseline
    )


def _under(share: float, text: str) -> Markup:
    anchor = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
    return element("text", text, x=percent(share), y=14, text_anchor=anchor)
