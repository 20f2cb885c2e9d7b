"""Where a device's time went: busy, idle, compute, communication, and what hid behind what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import intervals, stats
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.gaps import Gap, IdleSpans, idle_spans, longest_gaps
from gpuperf_analyzers.trace.model import I64, Trace
from gpuperf_analyzers.trace.phases import Phase, phases
from gpuperf_analyzers.trace.selection import Activity, activity
from gpuperf_analyzers.trace.slowdown import OverlapSlowdown, overlap_slowdown
from gpuperf_analyzers.trace.steps import steps

if TYPE_CHECKING:
    import pandas as pd

NO_STEPS = "the trace has no ProfilerStep annotation"
NO_COMM = "no communication"
CPU_IDLE = "idle time is attributed on GPUs only: on the CPU nothing is launched"


@dataclass(frozen=True, slots=True)
class Times:
    """One stretch of time on one device, split; exact, in ns.

    Every part is a union of intervals clipped to [start, end), so nothing counts twice.
    """

    name: str
    """The word ``window``, or the step's name."""
    start_ns: int
    end_ns: int
    busy_ns: int
    """Union of all activity."""
    compute_ns: int
    """Union of kernels that are not communication (CPU: of ops)."""
    comm_ns: int
    """Union of communication kernels (CPU: of gloo's spans)."""
    memory_ns: int
    """Union of memcpy and memset."""
    exposed_comm_ns: int
    """\\|comm \\\\ compute\\|."""
    overlapped_comm_ns: int
    """\\|comm ∩ compute\\|."""
    exposed_memory_ns: int
    """\\|memory \\\\ (comm ∪ compute)\\|."""
    host_bound_ns: int | None = None
    """Idle until the next activity's launch call begins; None on the CPU, like the next three."""
    launch_latency_ns: int | None = None
    """Idle from the launch call's begin to the activity's start."""
    dependency_ns: int | None = None
    """Idle whose next activity was launched before it began."""
    unknown_ns: int | None = None
    """Idle whose next activity has no launch record."""

    @property
    def window_ns(self) -> int:
        """Length."""
        return self.end_ns - self.start_ns

    @property
    def idle_ns(self) -> int:
        """Window − busy."""
        return self.window_ns - self.busy_ns

    @property
    def overlap(self) -> float | None:
        """Overlapped communication / communication; None where there is none."""
        return self.overlapped_comm_ns / self.comm_ns if self.comm_ns else None


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """Each part of one step: union of its activity, clipped to the step's window, ns."""

    name: str
    forward_ns: int
    backward_ns: int
    optimizer_ns: int
    collectives_ns: int
    other_ns: int


_TIMES = {
    "busy_time": "busy_ns",
    "idle_time": "idle_ns",
    "compute_time": "compute_ns",
    "comm_time": "comm_ns",
    "memory_time": "memory_ns",
    "exposed_comm": "exposed_comm_ns",
    "overlapped_comm": "overlapped_comm_ns",
    "exposed_memory": "exposed_memory_ns",
}
_IDLE = {
    "idle_host_bound": "host_bound_ns",
    "idle_launch_latency": "launch_latency_ns",
    "idle_dependency": "dependency_ns",
    "idle_unknown": "unknown_ns",
}
_RATIOS = {
    "busy": ("busy_ns", "window_ns"),
    "idle": ("idle_ns", "window_ns"),
    "overlap": ("overlapped_comm_ns", "comm_ns"),
}
_PHASES = {
    "forward_time": "forward_ns",
    "backward_time": "backward_ns",
    "optimizer_time": "optimizer_ns",
}
_NO_PHASE = {
    "forward_time": "no activity is linked to a CPU op outside of backward and optimizer",
    "backward_time": "no activity is linked to the autograd engine",
    "optimizer_time": "no activity is linked to an Optimizer annotation",
}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline of one device: over the window, and of each step."""

    device: Device
    window: Times
    steps: tuple[Times, ...]
    by_time: tuple[int, ...]
    """Activities of each step that have no launch record and are counted to it by time."""
    phases: tuple[PhaseTimes, ...]
    """Of each step, or of the window where there are none."""
    gaps: tuple[Gap, ...]
    """The ten longest stretches of idle time, longest first; empty on the CPU."""
    slowdown: OverlapSlowdown
    """How much slower kernels ran beside communication."""

    def metrics(self) -> Iterator[Value]:
        """Times as the median of steps (without steps: of the window), ratios of the window."""
        yield Value("window", self.window.window_ns / 1e3, source="whole window")
        yield from self._step_time()
        for name, field in _TIMES.items():
            yield self._time(name, field)
        for name, field in _IDLE.items():
            yield absent(name, CPU_IDLE) if self.device == "cpu" else self._time(name, field)
        for name, (over, under) in _RATIOS.items():
            total = getattr(self.window, under)
            yield (
                Value(name, getattr(self.window, over) / total, source="whole window")
                if total
                else absent(name, NO_COMM if name == "overlap" else "the window has no length")
            )
        for name, field in _PHASES.items():
            yield self._phase(name, field)
        yield self.slowdown.value()

    def ratios_over_steps(self) -> Iterator[Value]:
        """busy, idle and overlap as ratios of sums over the steps, with bootstrap intervals.

        For a trace of one's own, whose steps are samples of one thing; yields nothing without
        steps, and no overlap where no step communicates.
        """
        for name, (over, under) in _RATIOS.items():
            whole = [getattr(s, under) for s in self.steps]
            if sum(whole):
                part = [getattr(s, over) for s in self.steps]
                source = f"ratio of sums over {len(self.steps)} steps"
                yield stats.ratio_value(name, part, whole, source)

    def _step_time(self) -> Iterator[Value]:
        if not self.steps:
            yield absent("step_time", NO_STEPS)
            yield absent("step_time_p99", NO_STEPS)
            return
        samples = np.array([s.window_ns for s in self.steps]) / 1e3
        source = "steps of the trace, under the profiler"
        yield stats.median_value("step_time", samples, source)
        yield stats.p99_value("step_time_p99", samples, source)

    def _time(self, name: str, field: str) -> Value:
        if not self.steps:
            return Value(
                name, getattr(self.window, field) / 1e3, source=f"whole window: {NO_STEPS}"
            )
        samples = np.array([getattr(s, field) for s in self.steps]) / 1e3
        return stats.median_value(name, samples, f"median of {len(samples)} steps")

    def _phase(self, name: str, field: str) -> Value:
        samples = np.array([getattr(p, field) for p in self.phases]) / 1e3
        if not samples.any():
            return absent(name, _NO_PHASE[name])
        if not self.steps:
            return Value(name, float(samples[0]), source=f"whole window: {NO_STEPS}")
        return stats.median_value(name, samples, f"median of {len(samples)} steps")

    def to_frame(self) -> pd.DataFrame:
        """One row for the window and one a step; times in µs, ratios as fractions."""
        import pandas as pd

        rows = []
        for times in (self.window, *self.steps):
            row: dict[str, object] = {"name": times.name, "window_us": times.window_ns / 1e3}
            for f in ("idle_ns", *(f.name for f in fields(Times)[3:])):
                value = getattr(times, f)
                row[f.removesuffix("_ns") + "_us"] = None if value is None else value / 1e3
            row["overlap"] = times.overlap
            rows.append(row)
        return pd.DataFrame(rows)

    def gaps_frame(self) -> pd.DataFrame:
        """The longest gaps, one row each; times in µs from the trace's start."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "start_us": g.start / 1e3,
                    "duration_us": g.duration / 1e3,
                    "kind": g.kind,
                    "next_activity": g.next_activity,
                    "cpu_ops": ", ".join(f"{n} {t / 1e3:.0f} us" for n, t in g.cpu_ops),
                    "calls": ", ".join(f"{n} {t / 1e3:.0f} us" for n, t in g.calls),
                }
                for g in self.gaps
            ]
        )


def analyze(trace: Trace, config: Config, device: Device) -> Timeline:
    """The timeline of `device`.

    Raises
    ------
    ValueError
        The trace has no activity on it.
    """
    found = activity(trace, device, config)
    every = steps(trace, device, config)
    names = ["window", *(s.name for s in every)]
    start = np.array([found.start, *(s.start for s in every)], dtype=np.int64)
    end = np.array([found.end, *(s.end for s in every)], dtype=np.int64)
    skip = 1 if every else 0  # of steps the phases are each step's, else the window's
    idle = None if device == "cpu" else idle_spans(trace, device, config)
    times = _split(found, idle, names, start, end)
    return Timeline(
        device,
        times[0],
        times[1:],
        tuple(s.by_time for s in every),
        _phases(trace, found, config, names[skip:], start[skip:], end[skip:]),
        () if device == "cpu" else longest_gaps(trace, device, config),
        overlap_slowdown(trace, found),
    )


def _split(
    found: Activity, idle: IdleSpans | None, names: list[str], start: I64, end: I64
) -> tuple[Times, ...]:
    """The parts of each stretch, all stretches at once."""
    either = intervals.join(found.compute, found.comm)
    sets = {
        "busy_ns": found.busy,
        "compute_ns": found.compute,
        "comm_ns": found.comm,
        "memory_ns": found.memory,
        "exposed_comm_ns": intervals.difference(found.comm, found.compute),
        "overlapped_comm_ns": intervals.intersection(found.comm, found.compute),
        "exposed_memory_ns": intervals.difference(found.memory, either),
    }
    if idle is not None:
        sets |= {f"{f.name}_ns": getattr(idle, f.name) for f in fields(IdleSpans)}
    parts = {key: intervals.covered(spans, start, end).tolist() for key, spans in sets.items()}
    return tuple(
        Times(name, int(start[i]), int(end[i]), **{key: part[i] for key, part in parts.items()})
        for i, name in enumerate(names)
    )


def _phases(
    trace: Trace, found: Activity, config: Config, names: list[str], start: I64, end: I64
) -> tuple[PhaseTimes, ...]:
    """Union of each phase's activity, clipped to each stretch."""
    of = phases(trace, found.device, config)
    begin = trace.events.ts[found.rows]
    stop = begin + trace.events.dur[found.rows]
    unions = [intervals.union(begin[of == p], stop[of == p]) for p in Phase]
    table = np.stack([intervals.covered(spans, start, end) for spans in unions], axis=1)
    return tuple(PhaseTimes(name, *row) for name, row in zip(names, table.tolist(), strict=True))
