"""The blocks of columns joined, begin and end paired, sorted: the finished arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.trace.columns import OPEN, EventColumns
from gpuperf_analyzers.trace.model import (
    I64,
    Bool,
    CollectiveArgs,
    Counters,
    Events,
    KernelArgs,
    MemoryEvents,
    SyncArgs,
)

EVENT_DTYPES: dict[str, Any] = {
    "name": np.int32,
    "cat": np.int8,
    "ts": np.int64,
    "dur": np.int64,
    "track": np.int32,
    "device": np.int32,
    "stream": np.int64,
    "correlation": np.int64,
    "external_id": np.int64,
    "bytes": np.int64,
    "dims": np.int32,
    "dtypes": np.int32,
    "concrete": np.int32,
    "strides": np.int32,
    "sequence": np.int64,
    "fwd_thread": np.int64,
}
KERNEL_DTYPES: dict[str, Any] = {
    "row": np.int64,
    "grid": np.int64,
    "block": np.int64,
    "blocks_per_sm": np.float32,
    "warps_per_sm": np.float32,
    "occupancy": np.float32,
    "registers": np.int32,
    "shared_memory": np.int64,
    "graph_id": np.int64,
    "graph_node_id": np.int64,
}
SYNC_DTYPES: dict[str, Any] = {
    "row": np.int64,
    "wait_stream": np.int64,
    "wait_record": np.int64,
}
MEMORY_DTYPES: dict[str, Any] = {
    "ts": np.int64,
    "track": np.int32,
    "bytes": np.int64,
    "address": np.int64,
    "total_allocated": np.int64,
    "total_reserved": np.int64,
    "device_type": np.int32,
    "device": np.int32,
}


COUNTER_DTYPES: dict[str, Any] = {
    "ts": np.int64,
    "name": np.int32,
    "key": np.int32,
    "value": np.float64,
}


@dataclass(frozen=True, slots=True)
class Assembled:
    """The arrays of a :class:`~gpuperf_analyzers.trace.model.Trace`."""

    start_ns: int
    events: Events
    kernel_args: KernelArgs
    sync_args: SyncArgs
    collective_args: tuple[CollectiveArgs, ...]
    memory: MemoryEvents
    counters: Counters
    unmatched: int
    """Begins without an end, and ends without a begin."""


def assemble(columns: EventColumns) -> Assembled:
    """Join `columns`; they are used up, so that the peak is one copy and one column."""
    parts = columns.parts
    ts, dur = _join(parts, "ts", np.int64), _join(parts, "dur", np.int64)
    unmatched = 0
    keep: Bool | None = None
    if columns.has_begins:
        unmatched = _pair(ts, dur, _join(parts, "track", np.int32, keep=True), columns.ends)
        if (dur == OPEN).any():
            keep = dur != OPEN
    memory_ts = _join(columns.memory_parts, "ts", np.int64)
    starts = [int(t.min()) for t in (ts if keep is None else ts[keep], memory_ts) if len(t)]
    starts += [row[0] for row in columns.counter_rows]
    start = min(starts, default=0)
    order, inverse = _order(ts, dur, keep)
    events = _events(parts, ts, dur, order, start)
    return Assembled(
        start_ns=start,
        events=events,
        kernel_args=_kernels(columns, inverse),
        sync_args=_syncs(columns, inverse),
        collective_args=_collectives(columns, inverse),
        memory=_memory(columns, memory_ts, start),
        counters=_counters(columns, start),
        unmatched=unmatched,
    )


def _join(
    parts: dict[str, list[npt.NDArray[Any]]], name: str, dtype: Any, *, keep: bool = False
) -> npt.NDArray[Any]:
    arrays = parts.get(name, []) if keep else parts.pop(name, [])
    if not arrays:
        return np.empty((0, 3) if name in {"grid", "block"} else 0, dtype=dtype)
    return np.concatenate(arrays).astype(dtype, copy=False)


def _pair(ts: I64, dur: I64, track: npt.NDArray[Any], ends: list[tuple[int, int, int]]) -> int:
    """Give each begun event the duration to its end: the innermost one open on its track."""
    moments = [(int(ts[i]), int(i), 0, int(track[i]), int(i)) for i in np.flatnonzero(dur == OPEN)]
    moments += [(at, row, -1, where, -1) for at, row, where in ends]
    # An end stands before the row that came next in the file, hence -1 before 0.
    moments.sort()
    stacks: dict[int, list[int]] = {}
    unmatched = 0
    for at, _, _, where, row in moments:
        stack = stacks.setdefault(where, [])
        if row >= 0:
            stack.append(row)
        elif stack:
            begun = stack.pop()
            dur[begun] = at - ts[begun]
        else:
            unmatched += 1
    return unmatched + sum(map(len, stacks.values()))


def _order(ts: I64, dur: I64, keep: Bool | None) -> tuple[I64 | None, I64 | None]:
    """Rows by (start, longer first, file order), None where they are; and each row's place."""
    if keep is None and len(ts) < 2:
        return None, None
    rising = ts[1:] > ts[:-1]
    if keep is None and (rising | ((ts[1:] == ts[:-1]) & (dur[1:] <= dur[:-1]))).all():
        return None, None
    order = np.argsort(ts, kind="stable")
    if keep is not None:
        order = order[keep[order]]
    sorted_ts, sorted_dur = ts[order], dur[order]
    tied = np.flatnonzero((sorted_ts[1:] == sorted_ts[:-1]) & (sorted_dur[1:] > sorted_dur[:-1]))
    if len(tied):
        some = np.isin(sorted_ts, sorted_ts[tied])
        at = np.flatnonzero(some)
        order[at] = order[at][np.lexsort((-sorted_dur[at], sorted_ts[at]))]
    inverse = np.full(len(ts), -1, dtype=np.int64)
    inverse[order] = np.arange(len(order), dtype=np.int64)
    return order, inverse


def _events(
    parts: dict[str, list[npt.NDArray[Any]]], ts: I64, dur: I64, order: I64 | None, start: int
) -> Events:
    ts -= start
    columns: dict[str, npt.NDArray[Any]] = {"ts": ts, "dur": dur}
    for name, dtype in EVENT_DTYPES.items():
        column = columns[name] if name in columns else _join(parts, name, dtype)
        column = column if order is None else column[order]
        column.flags.writeable = False
        columns[name] = column
    return Events(**columns)


def _kernels(columns: EventColumns, inverse: I64 | None) -> KernelArgs:
    joined = {n: _join(columns.kernel_parts, n, d) for n, d in KERNEL_DTYPES.items()}
    return KernelArgs(**_in_row_order(joined, inverse))


def _syncs(columns: EventColumns, inverse: I64 | None) -> SyncArgs:
    joined = {n: _join(columns.sync_parts, n, d) for n, d in SYNC_DTYPES.items()}
    return SyncArgs(**_in_row_order(joined, inverse))


def _in_row_order(
    joined: dict[str, npt.NDArray[Any]], inverse: I64 | None
) -> dict[str, npt.NDArray[Any]]:
    """Columns of some events by their final rows; those of events left out go too."""
    row = joined["row"] if inverse is None else inverse[joined["row"]]
    order = np.argsort(row, kind="stable")
    order = order[row[order] >= 0]
    joined["row"] = row
    return {name: _frozen(values[order]) for name, values in joined.items()}


def _collectives(columns: EventColumns, inverse: I64 | None) -> tuple[CollectiveArgs, ...]:
    if inverse is None:
        return tuple(columns.collectives)
    from dataclasses import replace

    moved = [replace(c, row=int(inverse[c.row])) for c in columns.collectives]
    return tuple(sorted((c for c in moved if c.row >= 0), key=lambda c: c.row))


def _memory(columns: EventColumns, ts: I64, start: int) -> MemoryEvents:
    joined = {"ts": ts - start}
    joined |= {n: _join(columns.memory_parts, n, d) for n, d in MEMORY_DTYPES.items() if n != "ts"}
    order = np.argsort(ts, kind="stable")
    return MemoryEvents(**{name: _frozen(values[order]) for name, values in joined.items()})


def _counters(columns: EventColumns, start: int) -> Counters:
    rows = sorted(columns.counter_rows, key=lambda row: row[0])
    columns_of: dict[str, list[float]] = {
        "ts": [r[0] - start for r in rows],
        "name": [r[1] for r in rows],
        "key": [r[2] for r in rows],
        "value": [r[3] for r in rows],
    }
    return Counters(
        **{n: _frozen(np.array(columns_of[n], dtype=d)) for n, d in COUNTER_DTYPES.items()}
    )


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values.flags.writeable = False
    return values
