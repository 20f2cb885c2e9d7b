"""What the host did to the device: launches, waits, copies, the launch queue, and its delays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import intervals, stats
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.calls import call_rows, calls, is_allocation, launch_calls
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.copies import (
    Copies,
    copied_bytes,
    copies,
    copy_ops,
    rows_of_direction,
)
from gpuperf_analyzers.trace.delays import Delay, LaunchGap, data_loading, delays, launch_gaps
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.queue import LaunchQueue, launch_queue
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.steps import step_of, steps
from gpuperf_analyzers.trace.syncs import Sync, blocking_calls, by_op

if TYPE_CHECKING:
    import pandas as pd

NO_STEPS = "the trace has no ProfilerStep annotation"
NO_CALLS = "the trace has no runtime or driver calls"
ON_CPU = "nothing is launched on the CPU"
NO_SHAPES = "aten::copy_ was recorded without shapes and dtypes: record_shapes=True"
OLD_COPIES = "copies of the categories Memcpy and Memset (profilers of 2021) are not counted"
NO_SIZE = "the trace gives no byte count for some copies"


@dataclass(frozen=True, slots=True)
class HostStep:
    """The host's side of one step, or of the whole trace (``name`` "window") without steps.

    On a CPU run ``launches`` are CPU ops, ``syncs`` are ``aten::_local_scalar_dense`` calls and
    ``host_to_device`` is what ``aten::copy_`` writes. None where the trace does not say.
    """

    name: str
    launches: int | None
    syncs: int | None
    blocked_ns: int | None
    """Union of the blocking calls."""
    host_to_device: int | None
    """Bytes."""
    device_to_host: int | None
    """Bytes."""
    cpu_ops: int
    data_loading_ns: int | None
    """Union of ``enumerate(DataLoader)`` spans."""

    @property
    def ops_per_launch(self) -> float | None:
        """CPU ops for each launch; None where nothing was launched."""
        return self.cpu_ops / self.launches if self.launches else None


@dataclass(frozen=True, slots=True)
class Host:
    """The host's side of one device."""

    device: Device
    stepped: bool
    """Whether ``steps`` are steps, or one row for the whole trace."""
    steps: tuple[HostStep, ...]
    syncs: tuple[Sync, ...]
    """Blocking calls inside the steps by op, the longest total first."""
    copies: tuple[Copies, ...]
    queue: LaunchQueue | None
    window_ns: int
    gaps: tuple[LaunchGap, ...]
    """The longest times between two launches, and the ops that filled them."""
    delays: tuple[Delay, ...]
    """Data loading, garbage collection and compilation, where the trace shows them."""
    allocations: int
    """Calls of the driver's allocator, which can wait for the device."""
    allocation_ns: int
    old_copies: bool
    """Whether copies are of a category that the definition leaves out, so that bytes are absent."""

    def metrics(self) -> Iterator[Value]:
        """Counts and bytes of the worst step, times as the median of steps."""
        cpu = self.device == "cpu"
        unsized = OLD_COPIES if self.old_copies else NO_SIZE
        yield self._count("kernel_launches", "launches", NO_CALLS, "CPU ops" if cpu else "")
        yield self._count(
            "host_syncs", "syncs", NO_CALLS, "aten::_local_scalar_dense calls" if cpu else ""
        )
        yield self._count(
            "host_to_device",
            "host_to_device",
            NO_SHAPES if cpu else unsized,
            "bytes that aten::copy_ writes" if cpu else "",
        )
        yield self._count("device_to_host", "device_to_host", ON_CPU if cpu else unsized, "")
        yield self._time("sync_time", "blocked_ns", ON_CPU if cpu else NO_CALLS)
        yield from self._queue_values()
        yield self._time(
            "dataloader_time", "data_loading_ns", "the trace has no enumerate(DataLoader) span"
        )

    def _count(self, name: str, field: str, missing: str, what: str) -> Value:
        samples = [getattr(s, field) for s in self.steps]
        if any(s is None for s in samples):
            return absent(name, missing)
        over = "worst step" if self.stepped else f"whole trace: {NO_STEPS}"
        source = f"{what}, {over}" if what else over
        if not self.stepped:
            return Value(name, float(samples[0]), source=source)
        return stats.worst_value(name, samples, [s.name for s in self.steps], source)

    def _time(self, name: str, field: str, missing: str) -> Value:
        samples = [getattr(s, field) for s in self.steps]
        if any(s is None for s in samples):
            return absent(name, missing)
        if not self.stepped:
            return Value(name, samples[0] / 1e3, source=f"whole trace: {NO_STEPS}")
        us = [s / 1e3 for s in samples]
        return stats.median_value(name, us, f"median of {len(us)} steps")

    def _queue_values(self) -> Iterator[Value]:
        if self.queue is None:
            why = ON_CPU if self.device == "cpu" else "no activity has a launch record"
            yield absent("launch_latency", why)
            yield absent("queue_empty", why)
            return
        us = self.queue.latency / 1e3
        yield (
            Value(
                "launch_latency", stats.median(us), stats.median_interval(us), len(us),
                "launches onto an idle device with nothing queued",
            )
            if len(us)
            else absent("launch_latency", "nothing was launched onto an idle device")
        )  # fmt: skip
        if self.window_ns:
            share = intervals.measure(self.queue.empty) / self.window_ns
            yield Value("queue_empty", share, source="whole window")
        else:
            yield absent("queue_empty", "the window has no length")

    def to_frame(self) -> pd.DataFrame:
        """One row a step; times in µs, sizes in bytes."""
        import pandas as pd

        rows = []
        for step in self.steps:
            row = asdict(step)
            for name in ("blocked", "data_loading"):
                time = row.pop(f"{name}_ns")
                row[f"{name}_us"] = None if time is None else time / 1e3
            rows.append({**row, "ops_per_launch": step.ops_per_launch})
        return pd.DataFrame(rows)

    def queue_frame(self) -> pd.DataFrame:
        """The queue's change points: from ``at_us`` on, ``depth`` launched activities wait."""
        import pandas as pd

        if self.queue is None:
            return pd.DataFrame({"at_us": [], "depth": []})
        return pd.DataFrame({"at_us": self.queue.at / 1e3, "depth": self.queue.depth})


def analyze(trace: Trace, config: Config, device: Device) -> Host:
    """The host's side of `device`.

    Raises
    ------
    ValueError
        The trace has no activity on it.
    """
    found = activity(trace, device, config)
    every = steps(trace, device, config)
    far = np.iinfo(np.int64).max
    spans = _Spans(
        bool(every),
        tuple(s.name for s in every) or ("window",),
        np.array([s.host_start for s in every] or [0], dtype=np.int64),
        np.array([s.host_end for s in every] or [far], dtype=np.int64),
    )
    waits = blocking_calls(trace)
    inside = waits[spans.of(trace.events.ts[waits]) >= 0]
    allocation = call_rows(trace, is_allocation)
    rows = _cpu_steps(trace, spans) if device == "cpu" else _gpu_steps(trace, config, device, spans)
    return Host(
        device,
        bool(every),
        rows,
        () if device == "cpu" else by_op(trace, inside),
        copies(trace, found),
        launch_queue(trace, found),
        found.end - found.start,
        launch_gaps(trace, _launches_of(trace, device)),
        delays(trace),
        len(allocation),
        int(trace.events.dur[allocation].sum()),
        bool(np.any(trace.events.cat == Category.OLD_MEMORY)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """The host spans to count in: the steps, or everything."""

    stepped: bool
    names: tuple[str, ...]
    start: I64
    end: I64

    def of(self, at: I64) -> I64:
        """Which span each time is in; -1 in none."""
        index = np.searchsorted(self.start, at, side="right") - 1
        inside = (index >= 0) & (at < self.end[np.maximum(index, 0)])
        return np.where(inside, index, -1)

    def count(self, at: I64) -> list[int]:
        """How many of the times are in each span."""
        index = self.of(at)
        counts: list[int] = np.bincount(index[index >= 0], minlength=len(self.names)).tolist()
        return counts

    def total(self, index: I64, amount: I64) -> list[int | None]:
        """Sum of the amounts by span; None where one of them is not known (negative)."""
        keep = index >= 0
        index, amount = index[keep], amount[keep]
        result = np.zeros(len(self.names), dtype=np.int64)
        np.add.at(result, index, np.maximum(amount, 0))
        unknown = np.bincount(index[amount < 0], minlength=len(self.names)) > 0
        return [None if u else r for r, u in zip(result.tolist(), unknown, strict=True)]

    def time(self, trace: Trace, rows: I64) -> list[int]:
        """Union of the events in each span, ns."""
        start = trace.events.ts[rows]
        union = intervals.union(start, start + trace.events.dur[rows])
        times: list[int] = intervals.covered(union, self.start, self.end).tolist()
        return times


def _gpu_steps(trace: Trace, config: Config, device: int, spans: _Spans) -> tuple[HostStep, ...]:
    e = trace.events
    n = len(spans.names)
    called = len(calls(trace)) > 0
    waits = blocking_calls(trace)
    started = spans.count(e.ts[_launches_of(trace, device)])
    synced, blocked = spans.count(e.ts[waits]), spans.time(trace, waits)
    found = activity(trace, device, config)
    of = step_of(trace, device, config) if spans.stepped else found.rows * 0
    moved = []
    for way in ("HtoD", "DtoH"):
        rows = rows_of_direction(trace, found.memory_rows, way)
        moved.append(spans.total(of[np.searchsorted(found.rows, rows)], e.bytes[rows]))
    if np.any(e.cat == Category.OLD_MEMORY):  # there are copies, but none that counts
        moved = [[None] * n] * 2
    ops, loading = _common(trace, spans)
    return tuple(
        HostStep(
            name, started[i] if called else None, synced[i] if called else None,
            blocked[i] if called else None, moved[0][i], moved[1][i], ops[i], loading[i],
        )
        for i, name in enumerate(spans.names)
    )  # fmt: skip


def _cpu_steps(trace: Trace, spans: _Spans) -> tuple[HostStep, ...]:
    e = trace.events
    ops, loading = _common(trace, spans)
    scalar = np.flatnonzero(trace.names_matching(["aten::_local_scalar_dense"]))
    synced = spans.count(e.ts[scalar])
    copy = copy_ops(trace)
    written = spans.total(spans.of(e.ts[copy]), copied_bytes(trace, copy))
    return tuple(
        HostStep(name, ops[i], synced[i], None, written[i], None, ops[i], loading[i])
        for i, name in enumerate(spans.names)
    )


def _common(trace: Trace, spans: _Spans) -> tuple[list[int], list[int] | list[None]]:
    """CPU ops and data loading of each span."""
    ops = spans.count(trace.events.ts[trace.rows(Category.CPU_OP)])
    loading = data_loading(trace)
    return ops, spans.time(trace, loading) if len(loading) else [None] * len(spans.names)


def _launches_of(trace: Trace, device: Device) -> I64:
    """Launch calls for `device`; one that started nothing is every device's."""
    if device == "cpu":
        return np.empty(0, dtype=np.int64)
    e = trace.events
    rows = launch_calls(trace)
    kernels = trace.rows(Category.KERNEL)
    starts = launches(trace)[kernels]
    elsewhere = np.zeros(len(e), dtype=np.bool_)
    elsewhere[starts[(starts >= 0) & (e.device[kernels] != device)]] = True
    elsewhere[starts[(starts >= 0) & (e.device[kernels] == device)]] = False
    return rows[~elsewhere[rows]]
