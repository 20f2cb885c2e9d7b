"""The device's roofs and the ops under them, each a point sized by its time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from gpuperf_analyzers.analysis import DeviceAnalysis
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.display import number, show
from gpuperf_analyzers.flops import OpFlops
from gpuperf_analyzers.hardware import find_peak, peak_tflops
from gpuperf_analyzers.set_analysis import SetAnalysis, slowest_rank
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    Section,
    Table,
    Text,
    number_cell,
    text_cell,
    words,
)
from pytest_gpuperf.report.html.svg import Scale, element, framed, percent, titled

_MOST = 80


def roofline_section(found: SetAnalysis, config: Config) -> Section | None:
    """A roofline a device of the rank whose step is longest; None where no op has FLOPs."""
    rank = found.ranks[slowest_rank(found.ranks)]
    blocks: list[Block] = []
    for device in rank.devices:
        ops = [o for o in device.results["flops"].ops if o.intensity and o.tflops]
        if ops:
            blocks += _of_device(device, ops[:_MOST], config, rank.block)
    return Section("Roofline", tuple(blocks)) if blocks else None


def _of_device(
    device: DeviceAnalysis, ops: Sequence[OpFlops], config: Config, block: object
) -> list[Block]:
    dtypes = list(dict.fromkeys(o.dtype for o in ops))
    peak = find_peak(device.name, config.peaks)
    tops = {d: t for d in dtypes if peak is not None and (t := peak_tflops(peak, d)) is not None}
    measured = getattr(block, "peak_tflops", None) or {}
    tops |= {d: float(measured[d]) for d in dtypes if d not in tops and d in measured}
    slope = peak.memory_gb_s if peak is not None else None
    note = "" if peak is not None else f"No roof is known of {words(device.name, 60) or 'it'}. "
    if peak is None and tops:
        note = "The roof is the peak measured in the live run; the memory's bandwidth is unknown. "
    longest = max(o.time_us for o in ops)
    text = (
        f"{note}{len(ops)} ops by intensity and rate; the area of a point is its time, at most "
        f"{show(longest, 'us')}. Bytes are ideal, each operand once."
    )
    drawing = Drawing(
        f"Roofline of {words(device.name, 60) or device.label}",
        _drawn(ops, tops, slope),
        text,
        _table(ops),
        (("k-compute", "compute-bound"), ("k-memory", "memory-bound"), ("k-unknown", "no roof")),
    )
    return [drawing] if tops or slope else [drawing, Text((note.strip(),), "note")]


def _drawn(ops: Sequence[OpFlops], tops: dict[str, float], slope: float | None) -> Markup:
    xs = [o.intensity or 1.0 for o in ops]
    ys = [o.tflops or 1e-6 for o in ops]
    ridge = [t * 1e3 / slope for t in tops.values()] if slope else []
    x = Scale(min([*xs, *ridge]) / 2, max([*xs, *ridge]) * 2, log=True)
    y = Scale(min(ys) / 2, max([*ys, *tops.values()]) * 1.6, log=True)
    shapes = [line for d, top in tops.items() for line in _roof(d, top, slope, x, y)]
    longest = max(o.time_us for o in ops)
    for o in sorted(ops, key=lambda o: -o.time_us):
        kind = {"compute": "compute", "memory": "memory"}.get(o.bound, "unknown")
        part = o.share_of_attainable
        share = f", {show(part, 'fraction')} of its roof" if part else ""
        told = (
            f"{words(o.name, 60)} {words(o.shapes, 60)} {words(o.dtype, 12)}: "
            f"{number(o.tflops or 0)} TFLOPS at {number(o.intensity or 0)} FLOP/B{share}, "
            f"{show(o.time_us, 'us')}"
        )
        radius = max(18 * math.sqrt(o.time_us / longest), 3)
        shapes.append(
            titled(
                "circle",
                told,
                class_=f"dot k-{kind}",
                cx=percent(x(o.intensity or 1)),
                cy=percent(1 - y(o.tflops or 1e-6)),
                r=f"{radius:.1f}",
            )
        )
    return framed(shapes, x, y, x_label="intensity, FLOP per byte", y_label="TFLOPS", height=340)


def _roof(dtype: str, top: float, slope: float | None, x: Scale, y: Scale) -> list[Markup]:
    """The flat part, the sloped one where the bandwidth is known, and the name."""
    turn = top * 1e3 / slope if slope else x.low
    lines = [
        element(
            "line",
            class_="roof",
            x1=percent(x(max(turn, x.low))),
            x2="100%",
            y1=percent(1 - y(top)),
            y2=percent(1 - y(top)),
        ),
        element(
            "text",
            f"{words(dtype, 12)} {number(top)} TFLOPS",
            x="99%",
            class_="roof-name",
            y=percent(max(1 - y(top) - 0.015, 0.04)),
            text_anchor="end",
        ),
    ]
    if slope and turn > x.low:
        begin = x.low * slope / 1e3
        # From where the sloped roof enters the picture.
        left = x.low if begin >= y.low else y.low * 1e3 / slope
        lines.append(
            element(
                "line",
                class_="roof",
                x1=percent(x(left)),
                x2=percent(x(turn)),
                y1=percent(1 - y(left * slope / 1e3)),
                y2=percent(1 - y(top)),
            )
        )
    return lines


def _table(ops: Sequence[OpFlops]) -> Table:
    columns = (
        Column("op", text=True),
        Column("shapes", text=True),
        Column("type", text=True),
        Column("calls"),
        Column("time", unit="us"),
        Column("TFLOPS", "tflops", "TFLOPS"),
        Column("FLOP/B", unit="FLOP/B"),
        Column("bound", text=True),
        Column("of the roof", unit="1"),
    )
    rows = tuple(
        (
            text_cell(o.name, 80),
            text_cell(o.shapes, 100),
            text_cell(o.dtype, 12),
            Cell(f"{o.calls:,}", o.calls),
            number_cell(o.time_us, "us"),
            Cell(number(o.tflops or 0), o.tflops),
            Cell(number(o.intensity or 0), o.intensity),
            text_cell(o.bound or "-", 12),
            number_cell(o.share_of_attainable, "fraction"),
        )
        for o in ops
    )
    return Table("Ops under the roof", columns, rows, searchable=True)
