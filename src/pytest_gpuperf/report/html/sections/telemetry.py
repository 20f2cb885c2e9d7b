"""Utilization beside saturation, clocks, power and throttling, all on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuperf_analyzers.analysis import DeviceAnalysis
from gpuperf_analyzers.display import scale
from gpuperf_analyzers.set_analysis import SetAnalysis, slowest_rank
from gpuperf_analyzers.trace.model import Trace, TraceSet
from pytest_gpuperf.report.html.blocks import Block, Cell, Column, Plot, Section, Table, words
from pytest_gpuperf.report.html.embed import packed
from pytest_gpuperf.report.html.sections.values import metric_cell
from pytest_gpuperf.report.html.thinning import thinned, told

_GROUPS = (
    (
        "Utilization and saturation",
        ("gpu_util", "sm_active", "sm_occupancy", "tensor_active", "dram_active"),
        "%",
    ),
    ("Clocks", ("sm_clock", "memory_clock"), "MHz"),
    ("Power", ("power",), "W"),
    ("Temperature", ("temperature",), "°C"),
    ("Throttling", ("throttled", "clock_reasons"), "1 while held down"),
    ("Links", ("pcie_rx", "pcie_tx", "nvlink_rx", "nvlink_tx"), "GB/s"),
)
_SIDE_BY_SIDE = (
    "busy",
    "gpu_util",
    "est_occupancy",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "few_blocks",
    "tail_efficiency",
    "throttled",
    "sm_clock",
    "power",
    "temperature",
)


def telemetry_section(traces: TraceSet, found: SetAnalysis) -> Section | None:
    """Sampled counters of the rank whose step is longest, and the two kinds of use side by side."""
    index = slowest_rank(found.ranks)
    rank, trace = found.ranks[index], traces.traces[index]
    blocks: list[Block] = []
    if rank.device_type != "cpu" and rank.devices:
        blocks.append(_side_by_side(rank.values, rank.metrics))
    blocks += _plots(trace)
    for device in rank.devices:
        blocks += _queue(device)
    return Section("Use of the device", tuple(blocks)) if blocks else None


def _side_by_side(values: Any, metrics: Any) -> Table:
    """What is measured of how busy and how full the device was, absent ones with the reason."""
    from gpuperf_analyzers.display import show

    rows = []
    for name in _SIDE_BY_SIDE:
        value = values.get(name)
        if value is None:
            continue
        known = value.value is not None
        rows.append(
            (
                metric_cell(name),
                Cell(show(value.value, metrics[name].unit) if known else "-", value.value),
                Cell(words(value.source if known else value.absent_reason, 200)),
            )
        )
    columns = (Column("metric", text=True), Column("value"), Column("from, or why not", text=True))
    return Table("Utilization beside saturation", columns, tuple(rows))


def _plots(trace: Trace) -> list[Plot]:
    c = trace.counters
    if not len(c.ts):
        return []
    names = {trace.strings[i]: i for i in np.unique(c.name).tolist()}
    made = []
    low, high = float(c.ts.min()) / 1e3, float(c.ts.max()) / 1e3
    for title, wanted, unit in _GROUPS:
        series = [s for name in wanted if name in names for s in _series(trace, name, names[name])]
        if series:
            made.append(_plot(title, unit, series, (low, high)))
    known = {name for _, wanted, _ in _GROUPS for name in wanted}
    for name in list(names.keys() - known)[:12]:
        series = _series(trace, name, names[name])
        if series and not name.startswith(("Overload", "[memory]")):
            made.append(_plot(words(name, 60), "", series, (low, high)))
    return made


Sampled = tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]


def _series(trace: Trace, name: str, interned: int) -> list[Sampled]:
    c = trace.counters
    mine = c.name == interned
    found = []
    for key in np.unique(c.key[mine]).tolist():
        rows = mine & (c.key == key)
        text = trace.strings[key]
        plain = name in {"throttled"} or text in {"%", "MHz", "W", "°C", "GB/s", "bytes"}
        label = name if plain else text if name == "clock_reasons" else f"{name} {text}"
        found.append((words(label, 60), c.ts[rows] / 1e3, c.value[rows]))
    return found[:8]


def _plot(title: str, unit: str, series: Sequence[Sampled], ends: tuple[float, float]) -> Plot:
    """Every series on the union of their times, each value held until the next."""
    times = np.unique(np.concatenate([np.asarray(ends), *(t for _, t, _ in series)]))
    keep = np.arange(len(times)) if len(times) <= 4000 else thinned(times, times, 4000)
    shown = times[keep]
    across, symbol = scale(max(float(shown[-1]), 1e-3), "us")
    held = []
    for label, at, values in series:
        index = np.searchsorted(at, shown, side="right") - 1
        filled = np.where(index >= 0, values[np.maximum(index, 0)], -1.0)
        finite = np.where(np.isfinite(filled), filled, -1.0)
        held.append({"label": label, "style": "step", "values": packed(finite)})
    listed = ", ".join(label for label, _, _ in series)
    return Plot(
        title,
        "series",
        {
            "x": {
                "label": f"time, {symbol}",
                "factor": across,
                "unit": "us",
                "values": packed(shown),
            },
            "y": {"label": unit, "unit": unit, "zero": True, "top": 100 if unit == "%" else 1},
            "series": held,
            "sync": "device",
            "gaps": True,
            "height": 170,
        },
        f"{listed}, as sampled; a value holds until the next.{told(len(keep), len(times))}",
    )


def _queue(device: DeviceAnalysis) -> list[Plot]:
    """Launches that wait, over time; nothing on a CPU."""
    queue = device.results["host"].queue
    if queue is None or not len(queue.at):
        return []
    time, depth = queue.at / 1e3, queue.depth.astype(np.float64)
    keep = thinned(time, depth, 4000)
    across, symbol = scale(max(float(time[-1]), 1e-3), "us")
    unseen = f" {queue.unlinked:,} activities have no launch record." if queue.unlinked else ""
    return [
        Plot(
            f"Launch queue, {device.label}",
            "series",
            {
                "x": {
                    "label": f"time, {symbol}",
                    "factor": across,
                    "unit": "us",
                    "values": packed(time[keep]),
                },
                "y": {"label": "launches waiting", "zero": True, "top": 1},
                "series": [
                    {
                        "label": "launches waiting",
                        "style": "step",
                        "values": packed(depth[keep], "u4"),
                    }
                ],
                "height": 170,
            },
            f"Launched and not yet started: at most {int(depth.max()):,}. Where it is 0 the device "
            f"waits for the host.{unseen}{told(len(keep), len(time))}",
            metric="queue_empty",
        )
    ]
