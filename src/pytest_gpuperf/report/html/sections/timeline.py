"""Streams as rows, classes as colours, steps marked; zoomed and panned in the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.analysis import DeviceAnalysis
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.display import show
from gpuperf_analyzers.intervals import Spans
from gpuperf_analyzers.set_analysis import SetAnalysis, rank_labels
from gpuperf_analyzers.trace.gaps import idle_spans
from gpuperf_analyzers.trace.model import I64, Trace, TraceSet
from gpuperf_analyzers.trace.selection import Activity, activity
from pytest_gpuperf.report.html.blocks import Plot, Section, words
from pytest_gpuperf.report.html.levels import (
    Singles,
    bins_for,
    chosen,
    names_of,
    row_spec,
    unit_ns,
)

KINDS = ("compute", "comm", "memory")
CAUSES = ("host", "latency", "dependency", "unknown")
LEGEND = (
    ("k-compute", "compute"),
    ("k-comm", "communication"),
    ("k-memory", "copies and fills"),
)
_IDLE_LEGEND = (
    ("k-host", "idle, host-bound"),
    ("k-latency", "idle, launch latency"),
    ("k-dependency", "idle, dependency"),
    ("k-unknown", "idle, unknown"),
)
_BYTES = 450_000
"""Of bins, before deflating, of one timeline."""
_SINGLES = 24_000
"""Events that one timeline keeps one by one."""
_MOST_STREAMS = 24
_NAME = 72


@dataclass(frozen=True, slots=True)
class _Row:
    """What a row is made of, before it is measured out."""

    label: str
    classes: dict[str, Spans]
    rows: I64 | None
    trace: Trace
    found: Activity
    step: tuple[int, int] | None


def timeline_section(
    traces: TraceSet, found: SetAnalysis, config: Config, detail: float = 1.0
) -> Section | None:
    """One timeline over all ranks; None where nothing was active."""
    origin = min((t.start_ns for t in traces.traces), default=0)
    offsets = _offsets(traces, origin)
    several = len(traces.traces) > 1
    rows: list[tuple[_Row, int]] = []
    steps: list[tuple[str, int, int]] = []
    labels = rank_labels(found.ranks)
    for trace, analysis, label, offset in zip(
        traces.traces, found.ranks, labels, offsets, strict=True
    ):
        for device in analysis.devices:
            name = " ".join(p for p in (label, device.label if _named(analysis) else "") if p)
            made = list(_rows(trace, device, config, name, merged=several))
            rows += [(row, offset) for row in made]
            if not steps:
                steps = _steps(device, offset)
    if not rows:
        return None
    spec = _spec(rows, steps, detail * (2 if several else 1))
    kernels = sum(len(row.rows) for row, _ in rows if row.rows is not None)
    kinds = {kind for row in spec["rows"] for kind in row["classes"]}
    legend = [(k, t) for k, t in (*LEGEND, *_IDLE_LEGEND) if k[2:] in kinds]
    clocks = " Each rank by its own clock, from its own first activity." if _apart(offsets) else ""
    text = (
        f"{kernels:,} activities on {len(spec['rows'])} rows over "
        f"{show(spec['length_us'], 'us')}{', ' + str(len(steps)) + ' steps' if steps else ''}. "
        f"Zoom with + and −, pan with the arrow keys, n and p go from step to step.{clocks}"
    )
    plot = Plot("Timeline", "timeline", spec, text, tuple(legend))
    return Section("Timeline", (plot,))


def _named(analysis: Any) -> bool:
    return len(analysis.devices) > 1


def _offsets(traces: TraceSet, origin: int) -> list[int]:
    """What to add to each trace's times, ns; its own start where the clocks are far apart."""
    return [
        t.start_ns - origin if 0 <= t.start_ns - origin < 60 * 10**9 else -1 for t in traces.traces
    ]


def _apart(offsets: Sequence[int]) -> bool:
    return any(offset < 0 for offset in offsets)


def _rows(
    trace: Trace, device: DeviceAnalysis, config: Config, label: str, *, merged: bool
) -> Iterator[_Row]:
    """A row a stream (a device, of a set), and one of idle time by cause."""
    found = activity(trace, device.device, config)
    step = _middle_step(device)
    if merged or device.device == "cpu":
        classes = {"compute": found.compute, "comm": found.comm, "memory": found.memory}
        yield _Row(label or device.label, classes, found.rows, trace, found, step)
    else:
        yield from _streams(trace, found, label, step)
    if device.device != "cpu" and not merged:
        idle = idle_spans(trace, device.device, config)
        causes = {
            "host": idle.host_bound,
            "latency": idle.launch_latency,
            "dependency": idle.dependency,
            "unknown": idle.unknown,
        }
        yield _Row(f"{label} idle by cause".strip(), causes, None, trace, found, step)


def _streams(
    trace: Trace, found: Activity, label: str, step: tuple[int, int] | None
) -> Iterator[_Row]:
    e = trace.events
    stream = e.stream[found.rows]
    busy = {int(s): int(e.dur[found.rows[stream == s]].sum()) for s in np.unique(stream)}
    ranked = sorted(busy, key=lambda s: -busy[s])
    for number in sorted(ranked[:_MOST_STREAMS]):
        rows = found.rows[stream == number]
        yield _Row(
            f"{label} stream {number}".strip(),
            _classes(trace, found, rows),
            rows,
            trace,
            found,
            step,
        )
    rest = np.isin(stream, ranked[_MOST_STREAMS:])
    if rest.any():
        rows = found.rows[rest]
        name = f"{label} {len(ranked) - _MOST_STREAMS} other streams".strip()
        yield _Row(name, _classes(trace, found, rows), rows, trace, found, step)


def _classes(trace: Trace, found: Activity, rows: I64) -> dict[str, Spans]:
    """The time of each class of `rows`, as disjoint sets."""
    e = trace.events
    made = {}
    for kind, of in zip(
        KINDS, (found.compute_rows, found.comm_rows, found.memory_rows), strict=True
    ):
        mine = rows[np.isin(rows, of, assume_unique=True)]
        made[kind] = intervals.union(e.ts[mine], e.ts[mine] + e.dur[mine])
    return made


def _middle_step(device: DeviceAnalysis) -> tuple[int, int] | None:
    if not device.steps:
        return None
    ordered = sorted(device.steps, key=lambda s: s.step_time)
    middle = ordered[len(ordered) // 2]
    return middle.start, middle.end


def _steps(device: DeviceAnalysis, offset: int) -> list[tuple[str, int, int]]:
    base = max(offset, 0)
    return [
        (s.name.removeprefix("ProfilerStep"), s.start + base, s.end + base) for s in device.steps
    ]


def _spec(
    rows: Sequence[tuple[_Row, int]], steps: Sequence[tuple[str, int, int]], detail: float
) -> dict[str, Any]:
    """The plot's data: one clock, bins and single events within the budget, names once."""
    shifts = [_shift(row, offset) for row, offset in rows]
    start = min(row.found.start + s for (row, _), s in zip(rows, shifts, strict=True))
    end = max(row.found.end + s for (row, _), s in zip(rows, shifts, strict=True))
    for _, first, last in (*steps[:1], *steps[-1:]):
        start, end = min(start, first), max(end, last)
    bins = bins_for(len(rows), round(_BYTES * detail))
    total = sum(len(row.rows) for row, _ in rows if row.rows is not None) or 1
    used: dict[str, int] = {}
    made = []
    for (row, _), shift in zip(rows, shifts, strict=True):
        classes = {kind: spans + shift for kind, spans in row.classes.items() if len(spans)}
        singles = None
        if row.rows is not None:
            share = max(int(_SINGLES * min(detail, 1.0) * len(row.rows) / total), 200)
            singles = _singles(row, share, shift, used)
        made.append(row_spec(words(row.label, 60), classes, start, end, bins, singles))
    return {
        "rows": made,
        "bins": bins,
        "length_us": (end - start) / 1e3,
        "unit_us": unit_ns(end - start) / 1e3,
        "kinds": list(KINDS),
        "names": list(used),
        "steps": [[words(name, 24), (a - start) / 1e3, (b - start) / 1e3] for name, a, b in steps],
        "unit": "us",
    }


def _shift(row: _Row, offset: int) -> int:
    """What brings a row's times to the common clock: its own start where clocks are apart."""
    return offset if offset >= 0 else -row.found.start


def _singles(row: _Row, most: int, shift: int, used: dict[str, int]) -> Singles:
    """The events of `row` that are kept one by one; their names go to `used`."""
    assert row.rows is not None  # noqa: S101 - asked by the caller
    e = row.trace.events
    start, duration = e.ts[row.rows], e.dur[row.rows]
    keep = chosen(start, duration, most, row.step)
    rows = row.rows[keep]
    names, index = names_of(row.trace.strings, e.name[rows].astype(np.int64), _NAME)
    places = np.array([used.setdefault(name, len(used)) for name in names], dtype=np.int64)
    kind = np.zeros(len(rows), dtype=np.int64)
    for number, of in ((1, row.found.comm_rows), (2, row.found.memory_rows)):
        kind[np.isin(rows, of, assume_unique=True)] = number
    return Singles(start[keep] + shift, duration[keep], places[index], kind, len(row.rows))
