"""What a trace says of a named span inside it, such as ``gpuperf.region:NAME`` or any annotation.

The spans stand in place of steps, and the questions that can be asked of a part are asked of
them. On a GPU a span is the time from the start of the first activity launched in it to the end
of the last; whatever else ran meanwhile is in it too. On the CPU it is the span itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuperf_analyzers import collectives, flops, host, stats, timeline
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.display import counted
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.timeline import CPU_IDLE, NO_COMM
from gpuperf_analyzers.trace.classify import Device, device_name, devices
from gpuperf_analyzers.trace.model import Trace
from gpuperf_analyzers.trace.steps import Step, span_rows, steps

REGION = "gpuperf.region:"
"""What the annotation of ``gpuperf.region(NAME)`` begins with."""

NOT_OF_A_SPAN = "known of steps and of the whole trace, not of a span"
_SHARED = frozenset(
    {
        "comm_mask", "step_mask", "launches", "launching_ops", "blocking_calls", "calls",
        "launch_calls", "counted_ops", "valued_ops",
    }
)  # fmt: skip
_SHARED_PREFIXES = ("activity:", "nesting:", "idle_spans:")

_TIMES = {
    "step_time": "window_ns", "busy_time": "busy_ns", "idle_time": "idle_ns",
    "compute_time": "compute_ns", "comm_time": "comm_ns", "memory_time": "memory_ns",
    "exposed_comm": "exposed_comm_ns", "overlapped_comm": "overlapped_comm_ns",
    "exposed_memory": "exposed_memory_ns", "idle_host_bound": "host_bound_ns",
    "idle_launch_latency": "launch_latency_ns", "idle_dependency": "dependency_ns",
    "idle_unknown": "unknown_ns",
}  # fmt: skip
_RATIOS = {
    "busy": ("busy_ns", "window_ns"),
    "idle": ("idle_ns", "window_ns"),
    "overlap": ("overlapped_comm_ns", "comm_ns"),
}
_COUNTS = {
    "kernel_launches": "launches",
    "host_syncs": "syncs",
    "host_to_device": "host_to_device",
    "device_to_host": "device_to_host",
}


@dataclass(frozen=True, slots=True)
class SpanValues:
    """The spans of one name on one device.

    Attributes
    ----------
    device, device_name
        Where.
    passages
        The spans, in time order.
    values
        One value a metric of the configuration, present or absent with the reason.
    """

    device: Device
    device_name: str
    passages: tuple[Step, ...]
    values: Mapping[str, Value]


def by_span(trace: Trace, name: str) -> Trace:
    """`trace` with the host spans `name` in place of its steps; columns are shared."""
    memo = {
        key: value
        for key, value in trace.memo.items()
        if key in _SHARED or key.startswith(_SHARED_PREFIXES)
    }
    return replace(trace, span=name, memo=memo)


def analyze_span(
    trace: Trace, config: Config, name: str, *, per_step: bool = False
) -> tuple[SpanValues, ...]:
    """What `trace` says of its host spans `name`, for each device; empty where there are none.

    Parameters
    ----------
    trace
        The trace, as read.
    config
        Formulas, peaks and classifiers.
    name
        The annotation's whole name.
    per_step
        Whether the passages within one step are added up, as the samples of a region are;
        otherwise each passage counts by itself.
    """
    if not len(span_rows(trace, name)):
        return ()
    view = by_span(trace, name)
    return tuple(_on_device(trace, view, config, device, per_step) for device in devices(trace))


def _on_device(
    trace: Trace, view: Trace, config: Config, device: Device, per_step: bool
) -> SpanValues:
    passages = steps(view, device, config)
    every = steps(trace, device, config) if per_step else ()
    groups = _groups(passages, every)
    answers = _Answers(view, config, device, groups)
    known = {value.name: value for value in answers.values()}
    values = {m: known.get(m) or absent(m, NOT_OF_A_SPAN) for m in config.metrics}
    return SpanValues(device, device_name(trace, device), passages, values)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Which passages are added up: ``of[i]`` is the group of passage i, -1 for none."""

    names: tuple[str, ...]
    of: tuple[int, ...]
    what: str

    def sums(self, each: Sequence[float]) -> list[float]:
        """Sum over the passages of each group."""
        total = np.zeros(len(self.names))
        for group, amount in zip(self.of, each, strict=True):
            if group >= 0:
                total[group] += amount
        found: list[float] = total.tolist()
        return found


def _groups(passages: Sequence[Step], every: Sequence[Step]) -> _Groups:
    """Each passage by itself, or those of one step together; a step without any is left out."""
    if not every:
        names = tuple(p.name for p in passages)
        return _Groups(names, tuple(range(len(names))), f"{len(names)} passages")
    inside = [
        next((s.name for s in every if s.host_start <= p.host_start < s.host_end), "")
        for p in passages
    ]
    names = tuple(dict.fromkeys(name for name in inside if name))
    of = tuple(names.index(name) if name else -1 for name in inside)
    return _Groups(names, of, f"{counted(len(names), 'step')}, {counted(len(passages), 'passage')}")


@dataclass(frozen=True, slots=True)
class _Answers:
    """The questions asked of the spans of one device, and their answers by group."""

    view: Trace
    config: Config
    device: Device
    groups: _Groups

    def values(self) -> Iterator[Value]:
        if not self.groups.names:
            return
        yield from self._times()
        yield from self._counts()
        yield from self._flops()
        yield from self._collectives()

    def _times(self) -> Iterator[Value]:
        each = timeline.analyze(self.view, self.config, self.device).steps
        source = f"median of {self.groups.what}, under the profiler"
        for name, field in _TIMES.items():
            parts = [getattr(times, field) for times in each]
            if None in parts:
                yield absent(name, CPU_IDLE)
                continue
            yield stats.median_value(name, [ns / 1e3 for ns in self.groups.sums(parts)], source)
        for name, (over, under) in _RATIOS.items():
            whole = self.groups.sums([getattr(times, under) for times in each])
            if not sum(whole):
                reason = NO_COMM if name == "overlap" else "nothing was launched in the spans"
                yield absent(name, f"{reason} in the spans" if name == "overlap" else reason)
                continue
            part = self.groups.sums([getattr(times, over) for times in each])
            yield stats.ratio_value(name, part, whole, f"ratio of sums over {self.groups.what}")

    def _counts(self) -> Iterator[Value]:
        found = host.analyze(self.view, self.config, self.device)
        reasons = {v.name: v.absent_reason for v in found.metrics() if v.absent_reason}
        for name, field in _COUNTS.items():
            each = [getattr(step, field) for step in found.steps]
            if None in each:
                yield absent(name, reasons.get(name, "not in this trace"))
            else:
                yield self._worst(name, each)
        blocked = [step.blocked_ns for step in found.steps]
        if None in blocked:
            yield absent("sync_time", reasons.get("sync_time", "not in this trace"))
        else:
            us = [ns / 1e3 for ns in self.groups.sums([b or 0 for b in blocked])]
            yield stats.median_value("sync_time", us, f"median of {self.groups.what}")

    def _flops(self) -> Iterator[Value]:
        found = flops.analyze(self.view, self.config, self.device)
        counted = self.groups.sums(found.step_flops)
        reason = found.absent_reason or (
            "" if any(counted) else "not counted: no op with a FLOP formula ran in the spans"
        )
        if reason:
            yield absent("flops", reason)
            return
        yield self._worst("flops", found.step_flops, "op shapes")

    def _collectives(self) -> Iterator[Value]:
        found = collectives.analyze(self.view, self.config, self.device)
        yield self._worst("collectives", found.step_counts)
        if not found.unsized:
            yield self._worst("collective_bytes", found.step_bytes)

    def _worst(self, name: str, each: Sequence[float], source: str = "") -> Value:
        worst = f"worst of {self.groups.what}"
        return stats.worst_value(
            name,
            self.groups.sums(each),
            self.groups.names,
            f"{source}, {worst}" if source else worst,
        )
