"""Owners of a CPU's time: each op's own time on its thread, threads joined, and gloo's spans."""

from __future__ import annotations

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.diff.exclusive import first_begun, spans_layer
from gpuperf_analyzers.diff.gathered import IDLE_ROW, Columns, Gathered
from gpuperf_analyzers.diff.op_paths import OpKeys, op_keys
from gpuperf_analyzers.diff.table import RowKey
from gpuperf_analyzers.trace.copies import copied_bytes, copy_ops
from gpuperf_analyzers.trace.labels import shapes_label, types_label
from gpuperf_analyzers.trace.links import nesting
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.selection import Activity, activity

UNCLEAR: RowKey = (("(ops that overlap without nesting)",), "", "")
IDLE = "no op runs"
_SCALAR = "aten::_local_scalar_dense"


def gather(trace: Trace, config: Config, spans: Columns) -> Gathered:
    """Everything that ran on the CPU inside the steps."""
    result = Gathered()
    found = activity(trace, "cpu", config)
    ops = trace.rows(Category.CPU_OP)
    keys = op_keys(trace, ops)
    numbers = np.array([result.owner((k, "compute", "")) for k in keys.keys], dtype=np.int64)
    start, end, op = own_time(trace, found)
    result.layers.append(first_begun(start, end, numbers[keys.of[op]]))
    # An op that overlaps another without nesting in it can be nobody's own time: it stays seen.
    result.layers.append(spans_layer(found.compute, result.owner((UNCLEAR, "compute", ""))))
    _communication(trace, found, spans, result)
    window = intervals.span(int(spans.start.min()), int(spans.end.max()))
    result.layers.append(spans_layer(window, result.owner((IDLE_ROW, "idle", IDLE))))
    _count(trace, spans, keys, numbers, ops, result)
    return result


def own_time(trace: Trace, found: Activity) -> tuple[I64, I64, I64]:
    """Stretches of each op's own time: start, end, and the op's row.

    On each thread a moment is the innermost op's; dispatching a collective is nobody's.
    """
    nest = nesting(trace)
    e = trace.events
    pieces = []
    compute = found.compute_rows
    for track in np.unique(e.track[compute]).tolist():
        here = e.track[nest.rows] == track
        dispatch = _dispatch(trace, found, track)
        edges = np.unique(np.concatenate((nest.start[here], nest.end[here], dispatch.ravel())))
        at = edges[:-1]
        inner = nest.innermost(np.full(len(at), track, dtype=np.int64), at)
        keep = (inner >= 0) & ~intervals.contains(dispatch, at)
        pieces.append(np.stack((at[keep], edges[1:][keep], nest.rows[inner[keep]])))
    if not pieces:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    start, end, op = np.concatenate(pieces, axis=1)
    return start, end, op


def _dispatch(trace: Trace, found: Activity, track: int) -> intervals.Spans:
    """Time that one thread spends in dispatching collectives."""
    e = trace.events
    rows = np.flatnonzero(
        (e.track == track)
        & ((e.cat == Category.CPU_OP) | (e.cat == Category.USER_ANNOTATION))
        & ~np.isin(np.arange(len(e)), found.compute_rows)
    )
    named = [trace.name_of(r).startswith(("c10d::", "gloo:")) for r in rows.tolist()]
    rows = rows[np.array(named, dtype=np.bool_)]
    return intervals.union(e.ts[rows], e.ts[rows] + e.dur[rows])


def _communication(trace: Trace, found: Activity, spans: Columns, result: Gathered) -> None:
    e = trace.events
    rows = found.comm_rows
    numbers = []
    for row in rows.tolist():
        name = trace.name_of(row)
        shapes, dtypes = int(e.dims[row]), int(e.dtypes[row])
        key = ((name,), shapes_label(trace, shapes), types_label(trace, dtypes))
        numbers.append(result.owner((key, "communication", name)))
    owner = np.array(numbers, dtype=np.int64)
    result.layers.append(first_begun(e.ts[rows], e.ts[rows] + e.dur[rows], owner))
    result.count.update(owner[spans.on_host(e.ts[rows])].tolist())


def _count(
    trace: Trace, spans: Columns, keys: OpKeys, numbers: I64, ops: I64, result: Gathered
) -> None:
    """Calls by op, scalars read by the host, and what ``aten::copy_`` writes."""
    at = trace.events.ts
    inside = ops[spans.on_host(at[ops])]
    result.calls.update(keys.keys[k] for k in keys.of[inside].tolist())
    result.launches = result.calls.copy()
    scalar = inside[trace.names_matching([_SCALAR])[inside]]
    result.syncs.update(keys.keys[k] for k in keys.of[scalar].tolist())
    copy = np.intersect1d(copy_ops(trace), inside)
    for row, size in zip(copy.tolist(), copied_bytes(trace, copy).tolist(), strict=True):
        result.bytes[int(numbers[keys.of[row]])] += max(size, 0)
