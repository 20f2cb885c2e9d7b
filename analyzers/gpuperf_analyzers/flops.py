"""How many FLOPs the ops made, how fast, and what share of the time a formula covers.

FLOPs come from op shapes by named formulas; of nested ops the innermost with a formula counts.
Coverage goes along with every number: the share of kernel time (of op time on the CPU) in ops
with a formula. A trace without shapes has no FLOPs, not zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import intervals, stats
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.flop_formulas import FORMULAS
from gpuperf_analyzers.flop_formulas.counting import CountedOps, OpKind, counted_ops
from gpuperf_analyzers.flop_formulas.precision import FP32_OR_TF32, float32_types, type_of
from gpuperf_analyzers.flop_formulas.roofline import roofline
from gpuperf_analyzers.hardware import find_peak, peak_tflops
from gpuperf_analyzers.hookspecs import Peak
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import Device, device_name
from gpuperf_analyzers.trace.links import launching_ops
from gpuperf_analyzers.trace.model import I64, Trace
from gpuperf_analyzers.trace.selection import Activity, activity
from gpuperf_analyzers.trace.steps import step_of, steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMULAS", "FlopsResult", "OpFlops", "analyze"]

SOURCE = "op shapes"


@dataclass(frozen=True, slots=True)
class OpFlops:
    """All calls of one op with the same shapes and types on one device.

    ``time_us`` is the union of the kernels they launched (of the calls themselves on the CPU),
    ``tflops = flops / time``. ``moved_bytes`` is the ideal traffic, each operand once; ``gb_s =
    moved_bytes / time`` and ``intensity = flops / moved_bytes``. ``attainable_tflops = min(peak,
    intensity x memory bandwidth)`` where the device's peaks are known, ``bound`` which of the two
    it is (``compute``, ``memory``), ``share_of_attainable = tflops / attainable_tflops``.
    """

    name: str
    shapes: str
    dtype: str
    formula: str
    calls: int
    flops: int
    time_us: float
    tflops: float | None
    moved_bytes: int | None
    gb_s: float | None
    intensity: float | None
    attainable_tflops: float | None
    bound: str
    share_of_attainable: float | None


@dataclass(frozen=True, slots=True)
class FlopsResult:
    """FLOPs of one device of one trace.

    ``flops`` and ``flops_by_dtype`` are totals over the window; the ``step_`` fields hold one
    entry a step (none where the trace has no steps). ``coverage`` is None without kernel time.
    ``uncovered`` are the ops with the most kernel time that no formula covers, in µs.
    ``absent_reason`` says why there is no number, "" where there is one.
    """

    device: Device
    device_name: str
    ops: tuple[OpFlops, ...]
    flops: int
    flops_by_dtype: tuple[tuple[str, int], ...]
    window_us: float
    coverage: float | None
    uncovered: tuple[tuple[str, float], ...]
    step_names: tuple[str, ...]
    step_flops: tuple[int, ...]
    step_time_us: tuple[float, ...]
    step_peak_us: tuple[float, ...]
    """Time that each step's FLOPs take at the device's dense peaks: Σ_dtype(flops / peak)."""
    window_peak_us: float
    uncounted_calls: int
    """Calls of ops with a formula whose shapes were not recorded or do not suffice."""
    absent_reason: str
    no_peak_reason: str

    @property
    def gb_s(self) -> float | None:
        """Ideal traffic of all ops / window, GB = 1e9; None where one op's is not known."""
        moved = [op.moved_bytes for op in self.ops]
        if not moved or not self.window_us or any(m is None for m in moved):
            return None
        return sum(m or 0 for m in moved) / self.window_us / 1e3

    def metrics(self) -> Iterator[Value]:
        """``flops``, ``flop_coverage``, ``tflops`` and ``hfu``."""
        if self.coverage is None:
            yield absent("flop_coverage", "no kernel time", source=SOURCE)
        else:
            yield Value("flop_coverage", self.coverage, source=SOURCE)
        if self.absent_reason:
            for name in ("flops", "tflops", "hfu"):
                yield absent(name, self.absent_reason, source=SOURCE)
            return
        yield from self._rates()

    def _rates(self) -> Iterator[Value]:
        what = "op" if self.device == "cpu" else "kernel"
        source = f"{SOURCE}, {(self.coverage or 0.0) * 100:.1f}% of {what} time covered"
        timed = [i for i, t in enumerate(self.step_time_us) if t > 0]
        if timed:
            yield stats.worst_value("flops", self.step_flops, self.step_names, source)
            rates = [self.step_flops[i] / self.step_time_us[i] / 1e6 for i in timed]
            yield stats.median_value("tflops", rates, source)
        else:
            yield Value("flops", float(self.flops), source=f"{source}, whole window")
            if self.window_us > 0:
                rate = self.flops / self.window_us / 1e6
                yield Value("tflops", rate, source=f"{source}, whole window")
            else:
                yield absent("tflops", "the window has no length", source=SOURCE)
        if self.no_peak_reason:
            yield absent("hfu", self.no_peak_reason, source=SOURCE)
        elif timed:
            shares = [self.step_peak_us[i] / self.step_time_us[i] for i in timed]
            yield stats.median_value("hfu", shares, source)
        elif self.window_us <= 0:
            yield absent("hfu", "the window has no length", source=SOURCE)
        else:
            share = self.window_peak_us / self.window_us
            yield Value("hfu", share, source=f"{source}, whole window")

    def to_frame(self) -> pd.DataFrame:
        """One row per op, shapes and types; the most FLOPs first."""
        import pandas as pd

        columns = list(OpFlops.__slots__)
        return pd.DataFrame([[getattr(o, c) for c in columns] for o in self.ops], columns=columns)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Calls on this device: ``call[i]`` is an index into ``counted.rows``, ``dtype[i]`` its type.

    ``span`` rows (kernels, or the ops on a CPU) carry the time; ``span_call`` is their call.
    """

    counted: CountedOps
    call: I64
    step: I64
    dtype: list[str]
    span: I64
    span_call: I64


def analyze(trace: Trace, config: Config, device: Device) -> FlopsResult:
    """FLOPs of `device`.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    found = activity(trace, device, config)
    counted = counted_ops(trace, config.flop_formulas)
    name = device_name(trace, device)
    peak = find_peak(name, config.peaks, sms=_multiprocessors(trace, device))
    work = _work(trace, config, found, counted, peak)
    every = steps(trace, device, config)
    flops = np.array([k.flops for k in counted.kinds], dtype=np.int64)
    each = flops[counted.kind[work.call]]
    types = sorted(set(work.dtype))
    missing = _without_peak(peak, types, name)
    per_type = [np.array([t == d for d in work.dtype], dtype=np.bool_) for t in types]
    peak_us = np.zeros(len(each))
    if peak is not None and not missing:
        for dtype, mask in zip(types, per_type, strict=True):
            peak_us[mask] = each[mask] / ((peak_tflops(peak, dtype) or 0) * 1e6)
    step_flops = np.zeros(len(every), dtype=np.int64)
    step_peak = np.zeros(len(every))
    inside = work.step >= 0
    np.add.at(step_flops, work.step[inside], each[inside])
    np.add.at(step_peak, work.step[inside], peak_us[inside])
    return FlopsResult(
        device=device,
        device_name=name,
        ops=_table(trace, work, peak),
        flops=int(each.sum()),
        flops_by_dtype=tuple((t, int(each[m].sum())) for t, m in zip(types, per_type, strict=True)),
        window_us=(found.end - found.start) / 1e3,
        coverage=_coverage(trace, found, counted),
        uncovered=_uncovered(trace, found, counted),
        step_names=tuple(s.name for s in every),
        step_flops=tuple(step_flops.tolist()),
        step_time_us=tuple(s.step_time / 1e3 for s in every),
        step_peak_us=tuple(step_peak.tolist()),
        window_peak_us=float(peak_us.sum()),
        uncounted_calls=counted.without_shapes + counted.without_number,
        absent_reason=_why_none(counted, each),
        no_peak_reason=missing,
    )


def _work(
    trace: Trace, config: Config, found: Activity, counted: CountedOps, peak: Peak | None
) -> _Work:
    """The counted calls that ran on this device, with the rows that hold their time."""
    of_step = np.full(len(trace.events), -1, dtype=np.int64)
    of_step[found.rows] = step_of(trace, found.device, config)
    if found.device == "cpu":
        call = np.arange(len(counted.rows))
        rows = counted.rows
        dtypes = [counted.kinds[k].dtype or "unknown" for k in counted.kind.tolist()]
        return _Work(counted, call, of_step[rows], dtypes, rows, call)
    kernels = np.sort(np.concatenate((found.compute_rows, found.comm_rows)))
    launcher = launching_ops(trace)[kernels]
    owner = np.where(launcher >= 0, counted.owner[launcher], -1)
    span, span_call = kernels[owner >= 0], owner[owner >= 0]
    call, first = np.unique(span_call, return_index=True)
    has_tf32 = peak is None or peak_tflops(peak, "tf32") is not None
    tf32 = float32_types(trace, span, span_call, counted) if has_tf32 else None
    dtypes = [
        type_of(counted.kinds[counted.kind[c]], tf32[c] if tf32 else "fp32") for c in call.tolist()
    ]
    return _Work(counted, call, of_step[span[first]], dtypes, span, span_call)


def _without_peak(peak: Peak | None, types: list[str], name: str) -> str:
    """Why there is no share of peak, "" where there is one."""
    if peak is None and name == "cpu":
        return "a CPU's peak is in no table: a live run measures it"
    if peak is None:
        shown = name or "this device"
        return f"no peak known for {shown}: declare one with the gpuperf_peaks hook"
    if FP32_OR_TF32 in types:
        return "kernel names do not tell fp32 from tf32"
    lacking = [t for t in types if peak_tflops(peak, t) is None]
    return f"no {', '.join(lacking)} peak known for {name}" if lacking else ""


def _multiprocessors(trace: Trace, device: Device) -> int | None:
    for properties in trace.device_properties:
        if properties.get("id") == device and isinstance(properties.get("numSms"), int):
            return int(properties["numSms"])
    return None


def _why_none(counted: CountedOps, each: I64) -> str:
    """Why there is no FLOP count, "" where there is one."""
    if each.sum() > 0:
        return ""
    if len(counted.rows):
        return (
            f"none of the {len(counted.rows)} op calls with a FLOP formula can be linked to a "
            "kernel of this device"
        )
    if counted.without_shapes:
        return "the trace has no op shapes: record with record_shapes=True"
    if counted.without_number:
        return "not counted: the recorded shapes do not suffice for any op with a formula"
    return "not counted: no op with a FLOP formula ran on this device"


def _spans(trace: Trace, found: Activity) -> tuple[I64, I64]:
    """Rows that carry time on the device, and the op that each belongs to (-1: none)."""
    if found.device == "cpu":
        return found.compute_rows, found.compute_rows
    kernels = np.sort(np.concatenate((found.compute_rows, found.comm_rows)))
    return kernels, launching_ops(trace)[kernels]


def _coverage(trace: Trace, found: Activity, counted: CountedOps) -> float | None:
    """Time in ops with a formula / time: unions of kernels; on a CPU, unions on each thread."""
    rows, op = _spans(trace, found)
    inside = (op >= 0) & counted.inside[op]
    e = trace.events
    group = e.track[rows].astype(np.int64) * (found.device == "cpu")

    def time(of: I64, groups: I64) -> int:
        union = intervals.union_measure_by_group
        return int(union(e.ts[of], e.end[of], groups, len(trace.tracks) + 1).sum())

    total = time(rows, group)
    return time(rows[inside], group[inside]) / total if total else None


def _uncovered(
    trace: Trace, found: Activity, counted: CountedOps, top: int = 10
) -> tuple[tuple[str, float], ...]:
    """Ops outside every formula by kernel time in µs, the most first; a CPU's by its own time."""
    rows, op = _spans(trace, found)
    outside = (op >= 0) & ~counted.inside[op]
    e = trace.events
    names, group = np.unique(e.name[op[outside]], return_inverse=True)
    rows = rows[outside]
    time = intervals.union_measure_by_group(
        e.ts[rows], e.end[rows], group.reshape(-1).astype(np.int64), len(names)
    )
    order = np.argsort(-time, kind="stable")[:top]
    return tuple((trace.strings[names[i]], float(time[i]) / 1e3) for i in order)


def _table(trace: Trace, work: _Work, peak: Peak | None) -> tuple[OpFlops, ...]:
    """Calls grouped by signature and type, the most FLOPs first."""
    if not len(work.call):
        return ()
    e, counted = trace.events, work.counted
    types = sorted(set(work.dtype))
    code = np.array([types.index(d) for d in work.dtype], dtype=np.int64)
    key = counted.kind[work.call] * len(types) + code
    keys, group, calls = np.unique(key, return_inverse=True, return_counts=True)
    of_call = np.full(len(counted.rows), -1, dtype=np.int64)
    of_call[work.call] = group.reshape(-1)
    time = intervals.union_measure_by_group(
        e.ts[work.span], e.end[work.span], of_call[work.span_call], len(keys)
    )
    table = [
        _row(counted.kinds[k // len(types)], types[k % len(types)], n, t, peak)
        for k, n, t in zip(keys.tolist(), calls.tolist(), time.tolist(), strict=True)
    ]
    return tuple(sorted(table, key=lambda row: -row.flops))


def _row(kind: OpKind, dtype: str, calls: int, time_ns: int, peak: Peak | None) -> OpFlops:
    moved = None if kind.moved is None else kind.moved * calls
    placed = roofline(kind.flops * calls, moved, time_ns, peak, dtype)
    return OpFlops(
        name=kind.call.name,
        shapes=" ".join("x".join(map(str, d)) for d in kind.call.dims if d),
        dtype=dtype,
        formula=kind.label,
        calls=calls,
        flops=kind.flops * calls,
        time_us=time_ns / 1e3,
        tflops=placed.tflops,
        moved_bytes=moved,
        gb_s=placed.gb_s,
        intensity=placed.intensity,
        attainable_tflops=placed.attainable_tflops,
        bound=placed.bound,
        share_of_attainable=placed.share,
    )
