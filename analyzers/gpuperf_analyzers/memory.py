"""What was allocated, from a trace's ``[memory]`` events.

A trace begins with unknown memory: its totals on a CPU start at 0 when the profiler does. So the
sums here are growth since the recording began; what was alive before is known only to a live run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.stats import trend_value, worst_value
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.links import nesting
from gpuperf_analyzers.trace.model import I64, Bool, MemoryEvents, Trace
from gpuperf_analyzers.trace.steps import steps

if TYPE_CHECKING:
    import pandas as pd

SOURCE = "[memory] events"
NO_EVENTS = "the trace has no memory events: record with profile_memory=True"
OUTSIDE_OPS = "(outside ops)"
_CPU, _ACCELERATORS = 0, (1, 6)
"""c10::DeviceType: CPU; CUDA and HIP."""
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Allocation:
    """One allocation: its bytes, the innermost op around it, when it began and ended in µs."""

    bytes: int
    op: str
    at_us: float
    freed_us: float | None


@dataclass(frozen=True, slots=True)
class OpMemory:
    """Allocations of one op (the innermost around each): how many and how many bytes in all.

    ``kept_bytes`` is the part that was not freed before the recording ended.
    """

    op: str
    allocations: int
    bytes: int
    kept_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class MemoryResult:
    """Memory of one device over the recording.

    ``time_us`` and ``allocated_bytes`` are the growth after each event: allocations less frees
    since the recording began; it may fall below 0 where older memory is freed. ``reserved_bytes``
    is what the allocator held from the device after each, -1 where that is not recorded (a CPU has
    no such allocator). ``peak_growth`` is
    its largest value, at least 0, reached at ``peak_us`` in ``peak_op``. ``total_peak`` and
    ``reserved_peak`` are the largest totals that the allocator itself recorded, older memory
    included, None where it did not. ``alive_at_peak`` are the largest allocations alive then,
    ``never_freed`` the largest still alive at the end, with their number and bytes;
    ``freed_older`` counts frees of memory older than the recording. ``unaccounted_bytes`` is what
    the recorded totals changed by and the events do not explain: events were lost where it is not
    0. ``absent_reason`` says why there is no peak, "" where there is one. ``step_names``,
    ``step_allocations``, ``step_peaks`` and ``step_levels`` are of each step: its name, how many
    allocations its host's side made, the largest growth reached meanwhile and the growth at its
    end; empty where there are no steps.
    """

    device: Device
    events: int
    time_us: tuple[float, ...]
    allocated_bytes: tuple[int, ...]
    reserved_bytes: tuple[int, ...]
    peak_growth: int
    peak_us: float
    peak_op: str
    total_peak: int | None
    reserved_peak: int | None
    alive_at_peak: tuple[Allocation, ...]
    alive_at_peak_count: int
    never_freed: tuple[Allocation, ...]
    never_freed_count: int
    never_freed_bytes: int
    freed_older: int
    freed_older_bytes: int
    unaccounted_bytes: int
    absent_reason: str
    by_op: tuple[OpMemory, ...]
    step_names: tuple[str, ...] = ()
    step_allocations: tuple[int, ...] = ()
    step_peaks: tuple[int, ...] = ()
    step_levels: tuple[int, ...] = ()

    def metrics(self) -> Iterator[Value]:
        """``peak_memory_growth``, ``allocations``, ``memory_growth``, ``reserved_over_allocated``.

        The last where the allocator recorded its totals.
        """
        if self.absent_reason:
            yield absent("peak_memory_growth", self.absent_reason, source=SOURCE)
            yield absent("allocations", self.absent_reason, source=SOURCE)
            yield absent("memory_growth", self.absent_reason, source=SOURCE)
            return
        yield Value("peak_memory_growth", float(self.peak_growth), source=SOURCE)
        if self.total_peak and self.reserved_peak:
            ratio = self.reserved_peak / self.total_peak
            yield Value("reserved_over_allocated", ratio, source=f"{SOURCE}, totals")
        if self.step_names:
            yield worst_value("allocations", self.step_allocations, self.step_names, SOURCE)
            yield trend_value("memory_growth", self.step_levels, f"{SOURCE}, after each step")
        else:
            yield absent("memory_growth", "the trace has no steps (ProfilerStep annotations)")
            whole = sum(op.allocations for op in self.by_op)
            yield Value("allocations", float(whole), source=f"{SOURCE}, whole trace")

    def to_frame(self) -> pd.DataFrame:
        """Growth and the allocator's reserve over time: one row an event."""
        import pandas as pd

        return pd.DataFrame(
            {
                "time_us": self.time_us,
                "allocated_bytes": self.allocated_bytes,
                "reserved_bytes": [None if b < 0 else b for b in self.reserved_bytes],
            }
        )

    def ops_frame(self) -> pd.DataFrame:
        """One row per op that allocates, the most bytes first."""
        import pandas as pd

        columns = list(OpMemory.__slots__)
        return pd.DataFrame([[getattr(o, c) for c in columns] for o in self.by_op], columns=columns)


def analyze(trace: Trace, config: Config, device: Device) -> MemoryResult:
    """Memory of `device` over the recording."""
    m = trace.memory
    pick = np.flatnonzero(_on(m, device))
    size, at = m.bytes[pick], m.ts[pick]
    growth = np.cumsum(size)
    ops = _ops(trace, m.track[pick].astype(np.int64), at)
    born, freed = _lives(m.address[pick], size)
    top = int(np.argmax(growth)) if len(growth) and growth.max() > 0 else -1
    alive = born[(born <= top) & ((freed > top) | (freed < 0))]
    kept = born[freed < 0]
    lost = _unaccounted(m.total_allocated[pick], growth)
    older = np.setdiff1d(np.flatnonzero(size < 0), freed[freed >= 0])
    stepped = _by_step(trace, config, device, at, size, growth) if len(pick) else _NO_STEPS

    def largest(rows: I64) -> tuple[Allocation, ...]:
        order = rows[np.argsort(-size[rows], kind="stable")][:_SHOWN]
        end = dict(zip(born.tolist(), freed.tolist(), strict=True))
        return tuple(
            Allocation(int(size[i]), ops[i], float(at[i]) / 1e3, _us(at, end[i]))
            for i in order.tolist()
        )

    return MemoryResult(
        device=device,
        events=len(pick),
        time_us=tuple((at / 1e3).tolist()),
        allocated_bytes=tuple(growth.tolist()),
        reserved_bytes=(
            (-1,) * len(pick) if device == "cpu" else tuple(m.total_reserved[pick].tolist())
        ),
        peak_growth=int(growth[top]) if top >= 0 else 0,
        peak_us=float(at[top]) / 1e3 if top >= 0 else 0.0,
        peak_op=ops[top] if top >= 0 else "",
        total_peak=_largest(m.total_allocated[pick]),
        reserved_peak=_largest(m.total_reserved[pick]) if device != "cpu" else None,
        alive_at_peak=largest(alive),
        alive_at_peak_count=len(alive),
        never_freed=largest(kept),
        never_freed_count=len(kept),
        never_freed_bytes=int(size[kept].sum()),
        freed_older=len(older),
        freed_older_bytes=int(-size[older].sum()),
        unaccounted_bytes=lost,
        absent_reason=_why_none(m, pick, lost),
        by_op=_by_op(ops, size, born, freed),
        step_names=stepped[0],
        step_allocations=stepped[1],
        step_peaks=stepped[2],
        step_levels=stepped[3],
    )


_Stepped = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
_NO_STEPS: _Stepped = ((), (), (), ())


def _by_step(
    trace: Trace, config: Config, device: Device, at: I64, size: I64, growth: I64
) -> _Stepped:
    """Name, allocations, largest growth and last growth of each step, by its span on the host.

    In a step without an event the growth stays what the last event left.
    """
    names, counts, peaks, levels = [], [], [], []
    for step in steps(trace, device, config):
        first, last = np.searchsorted(at, (step.host_start, step.host_end), side="left").tolist()
        names.append(step.name)
        counts.append(int((size[first:last] > 0).sum()))
        before = int(growth[first - 1]) if first else 0
        peaks.append(max([before, *growth[first:last].tolist()]))
        levels.append(int(growth[last - 1]) if last else 0)
    return tuple(names), tuple(counts), tuple(peaks), tuple(levels)


def _on(m: MemoryEvents, device: Device) -> Bool:
    """Mask over the events of `device`; memory of the host is the CPU's, whatever runs beside."""
    if device == "cpu":
        return np.asarray(m.device_type == _CPU)
    return np.asarray(np.isin(m.device_type, np.array(_ACCELERATORS)) & (m.device == device))


def _us(at: I64, index: int) -> float | None:
    """Time of an event in µs, None at -1."""
    return float(at[index]) / 1e3 if index >= 0 else None


def _unaccounted(total: I64, growth: I64) -> int:
    """Bytes by which the recorded totals changed from first to last event beyond the events."""
    if not len(total) or total.min() < 0:
        return 0
    return int((total[-1] - growth[-1]) - (total[0] - growth[0]))


def _why_none(m: MemoryEvents, pick: I64, lost: int) -> str:
    if not len(m.ts):
        return NO_EVENTS
    if not len(pick):
        return "none of the trace's memory events is of this device"
    if lost:
        return f"memory events were lost: the recorded totals differ by {lost} bytes from them"
    return ""


def _largest(totals: I64) -> int | None:
    """Largest recorded total; -1 stands for not recorded."""
    return int(totals.max()) if len(totals) and totals.max() >= 0 else None


def _ops(trace: Trace, track: I64, at: I64) -> list[str]:
    """Name of the innermost CPU op open at each event."""
    nest = nesting(trace)
    if not len(nest.rows):
        return [OUTSIDE_OPS] * len(at)
    found = nest.innermost(track, at)
    names = trace.events.name[nest.rows]
    return [trace.strings[names[i]] if i >= 0 else OUTSIDE_OPS for i in found.tolist()]


def _lives(address: I64, size: I64) -> tuple[I64, I64]:
    """Indices of allocations in time order, and of the free of each (-1: never).

    A free belongs to the last allocation at its address. Old traces give no addresses (-1): then
    nothing can be matched, and there are no lives.
    """
    known = np.flatnonzero(address != -1)
    order = known[np.argsort(address[known], kind="stable")]
    allocates = size[order] > 0
    following = np.append(order[1:], -1)
    same = np.append(address[order[1:]] == address[order[:-1]], False) if len(order) else allocates
    frees_it = same & np.append(size[order[1:]] < 0, False) if len(order) else allocates
    born = order[allocates]
    freed = np.where(frees_it, following, -1)[allocates]
    in_time = np.argsort(born)
    return born[in_time], freed[in_time]


def _by_op(ops: list[str], size: I64, born: I64, freed: I64) -> tuple[OpMemory, ...]:
    kept = np.zeros(len(size), dtype=np.bool_)
    kept[born[freed < 0]] = True
    table: dict[str, list[int]] = {}
    for op, nbytes, stays in zip(ops, size.tolist(), kept.tolist(), strict=True):
        if nbytes > 0:
            row = table.setdefault(op, [0, 0, 0])
            row[0] += 1
            row[1] += nbytes
            row[2] += nbytes * stays
    rows = (OpMemory(op, *counts) for op, counts in table.items())
    return tuple(sorted(rows, key=lambda o: (-o.bytes, o.op)))
