"""Owners of a GPU's time: the kernels of each op, and idle time by its cause."""

from __future__ import annotations

from collections import Counter

import numpy as np

from gpuperf_analyzers import collectives
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.diff.exclusive import first_begun, spans_layer
from gpuperf_analyzers.diff.gathered import IDLE_ROW, Columns, Gathered
from gpuperf_analyzers.diff.op_paths import NO_LAUNCH, OpKeys, grouped, op_keys
from gpuperf_analyzers.diff.table import Kind, RowKey
from gpuperf_analyzers.trace.calls import launch_calls
from gpuperf_analyzers.trace.classify import comm_mask
from gpuperf_analyzers.trace.gaps import idle_spans
from gpuperf_analyzers.trace.links import enclosing, launches, launching_ops
from gpuperf_analyzers.trace.model import I64, Bool, Category, Trace
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.steps import step_of
from gpuperf_analyzers.trace.syncs import blocking_calls

_IDLE = {
    "host-bound": "host_bound",
    "launch latency": "launch_latency",
    "dependency": "dependency",
    "unknown": "unknown",
}
_BUSY: tuple[Kind, ...] = ("compute", "communication", "memory")


def gather(trace: Trace, config: Config, device: int, spans: Columns) -> Gathered:
    """Everything that ran on one GPU, and what the host did for it inside the steps."""
    result = Gathered()
    e = trace.events
    rows = activity(trace, device, config).rows
    kernel = e.cat[rows] == Category.KERNEL
    kind = np.where(kernel, np.where(comm_mask(trace, config)[rows], 1, 0), 2)
    ops = launching_ops(trace)[rows]
    started, waits = _calls(trace, device, spans)
    around = enclosing(trace, np.concatenate((started, waits)))
    keys = op_keys(trace, np.concatenate((ops, around)))
    owner = _owners(trace, rows, kind, ops, keys, result)
    for which in range(len(_BUSY)):
        these = kind == which
        begin = e.ts[rows[these]]
        layer = first_begun(begin, begin + e.dur[rows[these]], owner[these])
        result.layers.append(layer)
    idle = idle_spans(trace, device, config)
    for cause, name in _IDLE.items():
        number = result.owner((IDLE_ROW, "idle", cause))
        result.layers.append(spans_layer(getattr(idle, name), number))
    inside = step_of(trace, device, config) >= 0 if spans.stepped else np.ones_like(kernel)
    _count(trace, config, device, result, rows, owner, inside)
    _count_calls(trace, result, keys, rows[inside], started, waits)
    return result


def _owners(trace: Trace, rows: I64, kind: I64, ops: I64, keys: OpKeys, result: Gathered) -> I64:
    """Number of the owner of each activity: the row of the op that launched it, kind and name."""
    e = trace.events
    launch = launches(trace)[rows]
    row = np.where(ops >= 0, keys.of[ops], -1)
    call = np.where((ops < 0) & (launch >= 0), e.name[launch], -1).astype(np.int64)
    first, group = grouped(row, call, kind, e.name[rows])
    number = []
    for i in first.tolist():
        name = trace.name_of(int(rows[i]))
        if row[i] >= 0:
            key = keys.keys[row[i]]
        else:
            place = NO_LAUNCH if launch[i] < 0 else f"({trace.name_of(int(launch[i]))})"
            key = ((place, name), "", "")
        number.append(result.owner((key, _BUSY[kind[i]], name)))
    return np.array(number, dtype=np.int64)[group] if number else group


def _calls(trace: Trace, device: int, spans: Columns) -> tuple[I64, I64]:
    """Launch calls for `device` and blocking calls, inside the steps.

    A launch call that started nothing is every device's.
    """
    e = trace.events
    started, waits = launch_calls(trace), blocking_calls(trace)
    kernels = trace.rows(Category.KERNEL)
    calls = launches(trace)[kernels]
    elsewhere = np.zeros(len(e), dtype=np.bool_)
    elsewhere[calls[(calls >= 0) & (e.device[kernels] != device)]] = True
    elsewhere[calls[(calls >= 0) & (e.device[kernels] == device)]] = False
    started = started[~elsewhere[started]]
    return started[spans.on_host(e.ts[started])], waits[spans.on_host(e.ts[waits])]


def _count(
    trace: Trace,
    config: Config,
    device: int,
    result: Gathered,
    rows: I64,
    owner: I64,
    inside: Bool,
) -> None:
    """How many activities of each owner belong to the steps, and their bytes."""
    result.count.update(owner[inside].tolist())
    size = trace.events.bytes[rows].copy()
    for call in collectives.analyze(trace, config, device).calls:
        size[np.searchsorted(rows, call.row)] = call.bytes or 0
    moved = inside & (size > 0)
    for number, amount in zip(owner[moved].tolist(), size[moved].tolist(), strict=True):
        result.bytes[number] += amount


def _count_calls(
    trace: Trace, result: Gathered, keys: OpKeys, rows: I64, started: I64, waits: I64
) -> None:
    """Launches and blocking calls by the op around them, and the ops that made or launched any."""
    active = [launching_ops(trace)[rows]]
    for calls, counter in ((started, result.launches), (waits, result.syncs)):
        around = enclosing(trace, calls)
        active.append(around)
        counter.update(_rows_of(trace, calls, around, keys))
    ops = np.unique(np.concatenate(active))
    ops = ops[ops >= 0]
    result.calls.update(keys.keys[k] for k in keys.of[ops].tolist())


def _rows_of(trace: Trace, calls: I64, around: I64, keys: OpKeys) -> Counter[RowKey]:
    """How many of `calls` each row made; a call outside of any op is a row of its own name."""
    row = np.where(around >= 0, keys.of[around], -1)
    counted: Counter[RowKey] = Counter()
    first, group = grouped(row, np.where(row >= 0, -1, trace.events.name[calls]))
    for i, n in zip(first.tolist(), np.bincount(group, minlength=len(first)).tolist(), strict=True):
        own: RowKey = ((f"({trace.name_of(int(calls[i]))})",), "", "")
        counted[keys.keys[row[i]] if row[i] >= 0 else own] += n
    return counted
