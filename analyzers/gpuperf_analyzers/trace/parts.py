"""Where every moment of a device's time went: parts that are disjoint and leave nothing out.

Compute hides what runs beside it, communication hides copies; what is left is idle, and idle is
split by what the host was at when the device had nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.intervals import Spans
from gpuperf_analyzers.trace.calls import launch_calls
from gpuperf_analyzers.trace.classify import Device, step_mask
from gpuperf_analyzers.trace.delays import delay_rows
from gpuperf_analyzers.trace.gaps import host_work, idle_gaps, idle_spans
from gpuperf_analyzers.trace.links import nest_rows
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.selection import Activity, activity
from gpuperf_analyzers.trace.steps import steps
from gpuperf_analyzers.trace.syncs import blocking_calls


class Part(str, Enum):
    """What a moment was spent on; the value is its name in tables and JSON."""

    COMPUTE = "compute"
    """Kernels that are not communication (CPU: ops)."""
    COMMUNICATION = "communication"
    """Communication that no compute hides."""
    COPIES = "copies"
    """Copies and fills that neither compute nor communication hides."""
    DATA = "data loading"
    """The device waits, and the host waits for the DataLoader (CPU: all of that wait)."""
    COMPILATION = "compilation"
    """The device waits, and the host compiles."""
    COLLECTION = "garbage collection"
    """The device waits, and the host collects garbage."""
    SYNC = "synchronization"
    """The device ran out of work while the host was blocked: until its next work starts."""
    LAUNCHING = "launching"
    """The device waits, and the host is in a launch call or the launch is on its way."""
    OPS = "host ops"
    """The device waits, and the host is in a CPU op."""
    BETWEEN = "between ops"
    """The device waits, and the host is in no op at all: Python, or something not recorded."""
    DEPENDENCY = "dependency"
    """The device waits, though its next work was launched before."""
    UNKNOWN = "unknown"
    """The device waits for work without a launch record."""


HOST_PARTS = (
    Part.DATA, Part.COMPILATION, Part.COLLECTION, Part.SYNC, Part.LAUNCHING, Part.OPS, Part.BETWEEN,
)  # fmt: skip
"""The device waits for the host."""


_ISSUING = (Part.LAUNCHING, Part.OPS, Part.BETWEEN)


@dataclass(frozen=True, slots=True)
class PartTimes:
    """One stretch split: the word ``window`` or a step's name, and ns by part; they sum to all."""

    name: str
    start_ns: int
    end_ns: int
    by_part: Mapping[Part, int]

    @property
    def length_ns(self) -> int:
        """End − start."""
        return self.end_ns - self.start_ns

    def total(self, *parts: Part) -> int:
        """Time of these parts together, ns."""
        return sum(self.by_part[part] for part in parts)


def part_spans(trace: Trace, device: Device, config: Config) -> Mapping[Part, Spans]:
    """The time of each part, between the outer ends of the window and of the steps."""
    key = f"parts:{device}"
    cached = trace.memo.get(key)
    if cached is None or cached[0] != config.comm_classifiers:
        found = activity(trace, device, config)
        spans = (
            _on_cpu(trace, config, found)
            if device == "cpu"
            else _on_gpu(trace, config, found, device)
        )
        cached = trace.memo[key] = (config.comm_classifiers, spans)
    known: Mapping[Part, Spans] = cached[1]
    return known


def part_times(trace: Trace, device: Device, config: Config) -> tuple[PartTimes, ...]:
    """The parts of each step; of the window, as the only row, without steps."""
    every = steps(trace, device, config)
    found = activity(trace, device, config)
    stretches = [(s.name, s.start, s.end) for s in every] or [("window", found.start, found.end)]
    start = np.array([s for _, s, _ in stretches], dtype=np.int64)
    end = np.array([e for _, _, e in stretches], dtype=np.int64)
    split = parts_between(part_spans(trace, device, config), start, end)
    return tuple(
        PartTimes(name, first, last, {part: int(times[i]) for part, times in split.items()})
        for i, (name, first, last) in enumerate(stretches)
    )


def host_meanwhile(
    trace: Trace, device: Device, config: Config, *, top: int = 5
) -> tuple[tuple[str, int], ...]:
    """What the host ran while the device waited for it to issue work: names and ns, most first.

    Time that has a part of its own (data loading, what follows a synchronization) is not in it.
    The outermost ops; an annotation has the time that no op inside it takes. On several threads
    at once each counts.
    """
    spans = part_spans(trace, device, config)
    every = part_times(trace, device, config)
    inside = intervals.join(*(intervals.span(p.start_ns, p.end_ns) for p in every))
    waits = intervals.intersection(intervals.join(*(spans[p] for p in _ISSUING)), inside)
    e = trace.events
    nest = nest_rows(trace, host_work(trace))
    time = intervals.covered(waits, nest.start, nest.end)
    own = time.copy()
    nested = nest.parent >= 0
    np.subtract.at(own, nest.parent[nested], time[nested])
    annotation = e.cat[nest.rows] == Category.USER_ANNOTATION
    ops = nest_rows(trace, np.sort(nest.rows[~annotation]))
    outermost = np.isin(nest.rows, ops.rows[ops.depth == 0])
    time = np.where(annotation, np.maximum(own, 0), np.where(outermost, time, 0))
    names, which = np.unique(e.name[nest.rows], return_inverse=True)
    total = np.bincount(which, weights=time, minlength=len(names)).astype(np.int64)
    order = np.argsort(-total, kind="stable")[:top].tolist()
    return tuple((trace.strings[names[i]], int(total[i])) for i in order if total[i] > 0)


def parts_between(spans: Mapping[Part, Spans], start: I64, end: I64) -> dict[Part, I64]:
    """How much of each part lies inside each of the intervals [start[i], end[i]), ns."""
    return {part: intervals.covered(of, start, end) for part, of in spans.items()}


def _on_gpu(trace: Trace, config: Config, found: Activity, device: int) -> dict[Part, Spans]:
    idle = idle_spans(trace, device, config)
    waits = intervals.join(idle.host_bound, idle.launch_latency)
    calls = _union(trace, launch_calls(trace))
    ops = trace.rows(Category.CPU_OP)
    claims = [
        *_delays(trace),
        (Part.SYNC, _after_blocking(trace, idle_gaps(trace, device, config))),
        (Part.LAUNCHING, intervals.join(idle.launch_latency, calls)),
        (Part.OPS, _union(trace, ops[~step_mask(trace)[ops]])),
    ]
    return {
        **_busy(found),
        **_claimed(waits, claims),
        Part.DEPENDENCY: idle.dependency,
        Part.UNKNOWN: idle.unknown,
    }


def _on_cpu(trace: Trace, config: Config, found: Activity) -> dict[Part, Spans]:
    """On a CPU ops are compute: data loading, which is ops too, comes first and takes all of it."""
    claims = _delays(trace)
    taken = intervals.join(*(spans for _, spans in claims))
    busy = {part: intervals.difference(spans, taken) for part, spans in _busy(found).items()}
    every = steps(trace, "cpu", config)
    whole = intervals.span(
        min([found.start, *(s.start for s in every)]), max([found.end, *(s.end for s in every)])
    )
    rest = intervals.difference(whole, intervals.join(*busy.values()))
    nothing = {part: intervals.empty() for part in Part}
    return {**nothing, **busy, **_claimed(rest, claims)}


def _busy(found: Activity) -> dict[Part, Spans]:
    either = intervals.join(found.compute, found.comm)
    return {
        Part.COMPUTE: found.compute,
        Part.COMMUNICATION: intervals.difference(found.comm, found.compute),
        Part.COPIES: intervals.difference(found.memory, either),
    }


def _delays(trace: Trace) -> list[tuple[Part, Spans]]:
    kinds = {
        Part.DATA: "data loading",
        Part.COMPILATION: "compilation",
        Part.COLLECTION: "garbage collection",
    }
    return [(part, _union(trace, delay_rows(trace, kind))) for part, kind in kinds.items()]


def _claimed(whole: Spans, claims: list[tuple[Part, Spans]]) -> dict[Part, Spans]:
    """`whole` dealt out: each claim gets what those before it left, and the last part the rest."""
    result = {}
    for part, spans in claims:
        result[part] = intervals.intersection(whole, spans)
        whole = intervals.difference(whole, spans)
    result[Part.BETWEEN] = whole
    return result


def _after_blocking(trace: Trace, gaps: Spans) -> Spans:
    """The gaps that begin while the host is blocked: it could launch nothing to follow."""
    blocked = _union(trace, blocking_calls(trace))
    return gaps[intervals.contains(blocked, gaps[:, 0])]


def _union(trace: Trace, rows: I64) -> Spans:
    start = trace.events.ts[rows]
    return intervals.union(start, start + trace.events.dur[rows])
