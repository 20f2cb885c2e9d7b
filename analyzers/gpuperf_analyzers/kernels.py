"""Where the time went: by kernel, by op with its shapes, by annotation and module.

Every kernel is in every table. One without a launch record, or launched outside of any op, stands
under a name in parentheses that says so; the tables of kernels and ops add up to the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.distinct import distinct, distinct_tuples
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.labels import shapes_label, types_label
from gpuperf_analyzers.trace.links import Nesting, launches, launching_ops, nest_rows, nesting
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.selection import Activity, activity

if TYPE_CHECKING:
    import pandas as pd

SHORT_US = 10
"""Kernels under this are short: launching one takes about as long as running it."""
NO_LAUNCH = "(no launch record)"
_GRAPH_LAUNCH = "GraphLaunch"
_MODULE = "nn.Module: "


@dataclass(frozen=True, slots=True)
class KernelTime:
    """All runs of one kernel (of one op by its own time, on a CPU).

    ``total_us`` is the sum of durations, ``share`` its part of the sum over all kernels. ``kind``
    is ``triton`` where the name says that torch.compile or Triton made it, else "".
    """

    name: str
    count: int
    total_us: float
    mean_us: float
    median_us: float
    min_us: float
    max_us: float
    std_us: float
    share: float
    kind: str


@dataclass(frozen=True, slots=True)
class OpTime:
    """All calls of one op with the same shapes and types.

    ``calls`` counts those that launched something (all of them on a CPU); ``kernels`` what the
    calls launched directly (the innermost op around a launch owns the kernel); ``time_us`` is the
    sum of their durations, ``busy_us`` their union, ``short`` how many are under 10 µs. On a CPU
    both times are the op's own, that of ops inside it taken out.
    """

    name: str
    shapes: str
    dtypes: str
    calls: int
    kernels: int
    time_us: float
    busy_us: float
    share: float
    short: int


@dataclass(frozen=True, slots=True)
class SpanTime:
    """All occurrences of one annotation or module: the union and sum of kernels launched in it.

    Nested spans each count what is inside them.
    """

    name: str
    kind: str
    calls: int
    kernels: int
    time_us: float
    busy_us: float


@dataclass(frozen=True, slots=True)
class KernelsResult:
    """Kernel time of one device, largest first.

    ``kernels`` and ``kernel_time_us`` count all kernels and sum their durations (own time of ops
    on a CPU). ``unlinked`` counts kernels without a launch record, ``unlinked_us`` their time;
    ``outside_ops`` those launched outside of any recorded op; ``graph_kernels`` those of graph
    launches. ``short`` counts kernels under 10 µs, ``short_us`` their time.
    """

    device: Device
    kernels: int
    kernel_time_us: float
    unlinked: int
    unlinked_us: float
    outside_ops: int
    graph_kernels: int
    triton_kernels: int
    short: int
    short_us: float
    by_kernel: tuple[KernelTime, ...]
    by_op: tuple[OpTime, ...]
    by_span: tuple[SpanTime, ...]

    def metrics(self) -> Iterator[Value]:
        """``short_kernels``: the share of kernels under 10 µs."""
        if self.device == "cpu":
            yield absent("short_kernels", "a CPU runs no kernels")
        elif not self.kernels:
            yield absent("short_kernels", "no kernels")
        else:
            yield Value("short_kernels", self.short / self.kernels, source="kernel durations")

    def top_ops(self, count: int = 5) -> tuple[tuple[str, float, float], ...]:
        """Name, time in µs and share of the ops that took the most, whatever their shapes."""
        total: dict[str, float] = {}
        for op in self.by_op:
            total[op.name] = total.get(op.name, 0.0) + op.time_us
        ranked = sorted(total.items(), key=lambda item: -item[1])[:count]
        whole = self.kernel_time_us or 1.0
        return tuple((name, time, time / whole) for name, time in ranked)

    def to_frame(self) -> pd.DataFrame:
        """One row per kernel name (per op on a CPU)."""
        return _frame(KernelTime, self.by_kernel)

    def ops_frame(self) -> pd.DataFrame:
        """One row per op, shapes and types."""
        return _frame(OpTime, self.by_op)

    def spans_frame(self) -> pd.DataFrame:
        """One row per annotation and module."""
        return _frame(SpanTime, self.by_span)


def _frame(kind: type, rows: tuple[object, ...]) -> pd.DataFrame:
    import pandas as pd

    columns: list[str] = list(kind.__slots__)  # type: ignore[attr-defined]  # a slotted dataclass
    return pd.DataFrame([[getattr(r, c) for c in columns] for r in rows], columns=columns)


@dataclass(frozen=True, slots=True, eq=False)
class _Owned:
    """What carries the time: rows, their time in ns, and the op around each (-1: none)."""

    rows: I64
    time: I64
    op: I64
    launch: I64


def analyze(trace: Trace, config: Config, device: Device) -> KernelsResult:
    """Kernel time of `device`.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    found = activity(trace, device, config)
    owned = _own_time(trace, found) if device == "cpu" else _kernels(trace, found)
    gpu = device != "cpu"
    short = owned.time < SHORT_US * 1000
    outside = gpu & (owned.op < 0)
    triton = _named(trace, owned.rows, "triton_")
    graph = outside & (owned.launch >= 0) & _named(trace, owned.launch, _GRAPH_LAUNCH)
    unlinked = gpu & (owned.launch < 0) & (owned.op < 0)
    return KernelsResult(
        device=device,
        kernels=len(owned.rows),
        kernel_time_us=int(owned.time.sum()) / 1e3,
        unlinked=int(unlinked.sum()),
        unlinked_us=int(owned.time[unlinked].sum()) / 1e3,
        outside_ops=int((outside & ~unlinked).sum()),
        graph_kernels=int(graph.sum()),
        triton_kernels=int(triton.sum()),
        short=int(short.sum()) if gpu else 0,
        short_us=int(owned.time[short].sum()) / 1e3 if gpu else 0.0,
        by_kernel=_by_kernel(trace, owned),
        by_op=_by_op(trace, found, owned),
        by_span=_by_span(trace, owned) if gpu else (),
    )


def _kernels(trace: Trace, found: Activity) -> _Owned:
    rows = np.sort(np.concatenate((found.compute_rows, found.comm_rows)))
    return _Owned(rows, trace.events.dur[rows], launching_ops(trace)[rows], launches(trace)[rows])


def _own_time(trace: Trace, found: Activity) -> _Owned:
    """Ops of a CPU run with their own time: their duration less that of the ops just inside."""
    e, nest = trace.events, nesting(trace)
    own = e.dur.copy()
    child = np.flatnonzero(nest.parent >= 0)
    np.subtract.at(own, nest.rows[nest.parent[child]], e.dur[nest.rows[child]])
    rows = found.compute_rows
    return _Owned(rows, np.maximum(own[rows], 0), rows, rows)


def _named(trace: Trace, rows: I64, part: str) -> I64:
    """Mask over `rows` of the events whose name contains `part`; False at -1."""
    fits = np.array([part in s for s in trace.strings] + [False], dtype=np.bool_)
    return np.asarray(np.where(rows >= 0, fits[trace.events.name[rows]], False))


def _by_kernel(trace: Trace, owned: _Owned) -> tuple[KernelTime, ...]:
    names = trace.events.name[owned.rows]
    order = np.lexsort((owned.time, names))
    unique, first, counts = np.unique(names[order], return_index=True, return_counts=True)
    time = owned.time[order] / 1e3
    total = int(owned.time.sum()) / 1e3 or 1.0
    table = []
    for name, at, count in zip(unique.tolist(), first.tolist(), counts.tolist(), strict=True):
        run = time[at : at + count]
        spent = int(owned.time[order[at : at + count]].sum()) / 1e3
        text = trace.strings[name]
        table.append(
            KernelTime(
                name=text,
                count=count,
                total_us=spent,
                mean_us=spent / count,
                median_us=float(np.median(run)),
                min_us=float(run[0]),
                max_us=float(run[-1]),
                std_us=float(run.std()),
                share=spent / total,
                kind="triton" if text.startswith("triton_") else "",
            )
        )
    return tuple(sorted(table, key=lambda k: (-k.total_us, k.name)))


def _by_op(trace: Trace, found: Activity, owned: _Owned) -> tuple[OpTime, ...]:
    e, base = trace.events, len(trace.strings) + 1
    has_op, has_launch = owned.op >= 0, owned.launch >= 0
    # What has no op stands under its launch call's name, or under the lack of one.
    name = np.where(has_op, e.name[owned.op], base + e.name[owned.launch]).astype(np.int64)
    name = np.where(has_op | has_launch, name, 2 * base)
    dims = np.where(has_op, e.dims[owned.op], -1).astype(np.int64)
    dtypes = np.where(has_op, e.dtypes[owned.op], -1).astype(np.int64)
    (names, shapes, types), group = distinct_tuples(name, dims, dtypes)
    n = len(names)
    counts = np.bincount(group, minlength=n)
    time = np.zeros(n, dtype=np.int64)
    np.add.at(time, group, owned.time)
    short = np.bincount(group[owned.time < SHORT_US * 1000], minlength=n)
    caller = np.where(has_op, owned.op, owned.launch)
    calls = np.bincount(distinct_tuples(group, caller)[0][0], minlength=n)
    busy = time
    if found.device != "cpu":
        busy = intervals.union_measure_by_group(e.ts[owned.rows], e.end[owned.rows], group, n)
    total = int(owned.time.sum()) or 1
    table = []
    for i, name_at in enumerate(names.tolist()):
        table.append(
            OpTime(
                name=_label(trace, name_at, base),
                shapes=shapes_label(trace, int(shapes[i])),
                dtypes=types_label(trace, int(types[i])),
                calls=int(calls[i]) if name_at != 2 * base else 0,
                kernels=int(counts[i]) if found.device != "cpu" else 0,
                time_us=int(time[i]) / 1e3,
                busy_us=int(busy[i]) / 1e3,
                share=int(time[i]) / total,
                short=int(short[i]) if found.device != "cpu" else 0,
            )
        )
    return tuple(sorted(table, key=lambda o: (-o.time_us, o.name, o.shapes)))


def _label(trace: Trace, name: int, base: int) -> str:
    if name >= 2 * base:
        return NO_LAUNCH
    return f"({trace.strings[name - base]})" if name >= base else trace.strings[name]


def _by_span(trace: Trace, owned: _Owned) -> tuple[SpanTime, ...]:
    """Annotations, and modules where Python calls were recorded, by the launches inside them."""
    python = trace.rows(Category.PYTHON_FUNCTION)
    modules = python[
        np.array([trace.name_of(r).startswith(_MODULE) for r in python.tolist()], dtype=np.bool_)
    ]
    return tuple(
        sorted(
            (
                *_spans(trace, owned, nesting(trace, Category.USER_ANNOTATION), "annotation"),
                *_spans(trace, owned, nest_rows(trace, modules), "module"),
            ),
            key=lambda s: (-s.busy_us, s.name),
        )
    )


def _spans(trace: Trace, owned: _Owned, nest: Nesting, kind: str) -> list[SpanTime]:
    e = trace.events
    linked = np.flatnonzero(owned.launch >= 0)
    if not len(nest.rows) or not len(linked):
        return []
    launch = owned.launch[linked]
    at = nest.innermost(e.track[launch].astype(np.int64), e.ts[launch])
    pairs = [np.empty((0, 2), dtype=np.int64)]
    while (at >= 0).any():
        linked, at = linked[at >= 0], at[at >= 0]
        pairs.append(np.stack((e.name[nest.rows[at]].astype(np.int64), linked), axis=1))
        at = nest.parent[at]
    # A span inside another of the same name holds its kernels once.
    (name, which), _ = distinct_tuples(*np.concatenate(pairs).T)
    names, group = distinct(name)
    rows = owned.rows[which]
    busy = intervals.union_measure_by_group(e.ts[rows], e.end[rows], group, len(names))
    time = np.zeros(len(names), dtype=np.int64)
    np.add.at(time, group, owned.time[which])
    kernels = np.bincount(group, minlength=len(names))
    every, calls = np.unique(e.name[nest.rows], return_counts=True)
    count = dict(zip(every.tolist(), calls.tolist(), strict=True))
    return [
        SpanTime(trace.strings[n], kind, count[n], int(k), int(t) / 1e3, int(b) / 1e3)
        for n, k, t, b in zip(names.tolist(), kernels, time, busy, strict=True)
    ]
