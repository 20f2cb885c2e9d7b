"""Where the step's time went, as one bar a rank and device: parts that add up to the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from gpuperf_analyzers.analysis import DeviceAnalysis
from gpuperf_analyzers.display import show
from gpuperf_analyzers.set_analysis import SetAnalysis, rank_labels
from gpuperf_analyzers.timeline import Times
from pytest_gpuperf.report.html.blocks import Cell, Column, Drawing, Section, Table, words
from pytest_gpuperf.report.html.svg import Scale, element, framed, percent, split_bar, titled

PARTS = (
    ("compute", "compute"),
    ("comm", "exposed communication"),
    ("memory", "exposed memory"),
    ("host", "idle, host-bound"),
    ("latency", "idle, launch latency"),
    ("dependency", "idle, dependency"),
    ("unknown", "idle"),
)
"""Class and words of each part, in the order drawn."""

_MOST_LYING = 32
"""Bars that lie under each other with their names; more of them stand side by side."""


@dataclass(frozen=True, slots=True)
class Split:
    """One bar: the mean of its steps (the window without steps), µs by class."""

    label: str
    of: str
    whole_us: float
    parts: dict[str, float]


def splits(found: SetAnalysis) -> list[Split]:
    """One of each device of each rank."""
    return [
        split_of(
            " ".join(words(p, 80) for p in (label, device.label if several else "") if p)
            or device.label,
            device,
        )
        for label, rank in zip(rank_labels(found.ranks), found.ranks, strict=True)
        for several in [len(rank.devices) > 1]
        for device in rank.devices
    ]


def split_of(label: str, device: DeviceAnalysis) -> Split:
    """The mean step of `device`, split; means of parts add up to the mean of the whole."""
    steps: Sequence[Times] = device.timeline.steps or (device.timeline.window,)
    of = "whole window"
    if device.timeline.steps:
        of = f"mean of {len(steps)} steps" if len(steps) > 1 else steps[0].name
    return Split(
        label,
        of,
        _mean(steps, "window_ns"),
        {
            "compute": _mean(steps, "compute_ns"),
            "comm": _mean(steps, "exposed_comm_ns"),
            "memory": _mean(steps, "exposed_memory_ns"),
            "host": _mean(steps, "host_bound_ns"),
            "latency": _mean(steps, "launch_latency_ns"),
            "dependency": _mean(steps, "dependency_ns"),
            # On a CPU nothing is launched: its idle time has no cause that a trace tells.
            "unknown": _mean(steps, "unknown_ns" if steps[0].unknown_ns is not None else "idle_ns"),
        },
    )


def _mean(steps: Sequence[Times], field: str) -> float:
    return float(np.mean([getattr(s, field) or 0 for s in steps])) / 1e3


def split_section(found: SetAnalysis) -> Section | None:
    """The bars, all on one scale; None where no trace has a device."""
    bars = splits(found)
    if not bars:
        return None
    used = [p for p in PARTS if any(bar.parts[p[0]] > 0 for bar in bars)]
    of = "/".join(dict.fromkeys(bar.of for bar in bars[:8]))
    longest = max(bars, key=lambda bar: bar.whole_us)
    described = ", ".join(
        f"{told} {show(longest.parts[kind] / longest.whole_us, 'fraction')}"
        for kind, told in used
        if longest.whole_us
    )
    return Section(
        "Where the time went",
        (
            Drawing(
                f"Split of the step ({of})",
                bars_drawing(bars) if len(bars) <= _MOST_LYING else _upright(bars),
                f"Of {longest.label}, {show(longest.whole_us, 'us')} long: {described}.",
                _table(bars, used),
                tuple((f"k-{kind}", told) for kind, told in used),
                "step_time",
            ),
        ),
    )


def bars_drawing(bars: Sequence[Split]) -> Markup:
    """A grid of label, bar and length."""
    whole = max(bar.whole_us for bar in bars)
    cells = []
    for bar in bars:
        parts = [
            (kind, f"{told}: {show(us, 'us')} ({show(us / bar.whole_us, 'fraction')})", us)
            for kind, told in PARTS
            if (us := bar.parts[kind]) > 0
        ]
        cells += [
            element("span", bar.label, class_="label"),
            split_bar(parts, whole),
            element("span", show(bar.whole_us, "us"), class_="value"),
        ]
    return element("div", *cells, class_="bars")


def _upright(bars: Sequence[Split]) -> Markup:
    """A standing bar a rank: hundreds fit the width of a window."""
    x, y = Scale(0, len(bars)), Scale(0, max(bar.whole_us for bar in bars) or 1.0)
    shapes = []
    for index, bar in enumerate(bars):
        base = 0.0
        for kind, told in PARTS:
            us = bar.parts[kind]
            if us <= 0:
                continue
            shapes.append(
                titled(
                    "rect",
                    f"{bar.label}, {told}: {show(us, 'us')}",
                    class_=f"k-{kind}",
                    x=percent(x(index + 0.05)),
                    width=percent(0.9 / len(bars)),
                    y=percent(1 - y(base + us)),
                    height=percent(y(us)),
                )
            )
            base += us
    every = max(1, -(-len(bars) // 16))
    marks = [
        (i + 0.5, bars[i].label.removeprefix("rank ")[:12]) for i in range(0, len(bars), every)
    ]
    ups = [(v, show(v, "us")) for v in y.ticks()]
    return framed(
        shapes, x, y, x_label="rank", y_label="time", height=280, x_ticks=marks, y_ticks=ups
    )


def _table(bars: Sequence[Split], used: Sequence[tuple[str, str]]) -> Table:
    columns = (
        Column("rank or device", text=True),
        Column("length", unit="us"),
        *(Column(told, unit="us") for _, told in used),
    )
    rows = tuple(
        (
            Cell(bar.label, bar.label),
            Cell(show(bar.whole_us, "us"), bar.whole_us),
            *(Cell(show(bar.parts[kind], "us"), bar.parts[kind]) for kind, _ in used),
        )
        for bar in bars
    )
    return Table("Split of the step", columns, rows)
