"""The blocks of columns joined, begin and end paired, sorted: the finished arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.trace import tables
from gpuperf_analyzers.trace.columns import OPEN, EventColumns
from gpuperf_analyzers.trace.model import (
    I64,
    Bool,
    CollectiveArgs,
    Counters,
    Events,
    KernelArgs,
    MemoryEvents,
    RangeCounters,
    SyncArgs,
)
from gpuperf_analyzers.trace.tables import Table

Ints = npt.NDArray[np.signedinteger[Any]]


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
    range_counters: RangeCounters
    unmatched: int
    """Begins without an end, and ends without a begin."""


def assemble(columns: EventColumns) -> Assembled:
    """Join `columns`; they are used up, so that the peak is one copy and one column."""
    ts, dur = columns.events.drop("ts"), columns.events.drop("dur")
    unmatched = 0
    keep: Bool | None = None
    if columns.has_begins:
        unmatched = _pair(ts, dur, columns.events.take("track"), columns.ends)
        if (dur == OPEN).any():
            keep = dur != OPEN
    memory_ts = columns.memory.take("ts")
    starts = [int(t.min()) for t in (ts if keep is None else ts[keep], memory_ts) if len(t)]
    starts += [row[0] for row in columns.counter_rows]
    start = min(starts, default=0)
    order, inverse = _order(ts, dur, keep)
    times = {"ts": ts, "dur": dur}
    del ts, dur  # the sorted ones take their place: nothing else may hold them
    events = _events(columns.events, times, order, start)
    return Assembled(
        start_ns=start,
        events=events,
        kernel_args=_kernels(columns, inverse),
        sync_args=_syncs(columns, inverse),
        collective_args=_collectives(columns, inverse),
        memory=_memory(columns.memory, memory_ts, start),
        counters=_counters(columns, start),
        range_counters=_range_counters(columns),
        unmatched=unmatched,
    )


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


def _order(ts: I64, dur: I64, keep: Bool | None) -> tuple[Ints | None, Ints | None]:
    """Rows by (start, longer first, file order), None where they are; and each row's place."""
    if keep is None and len(ts) < 2:
        return None, None
    rising = ts[1:] > ts[:-1]
    if keep is None and (rising | ((ts[1:] == ts[:-1]) & (dur[1:] <= dur[:-1]))).all():
        return None, None
    order = np.argsort(ts, kind="stable")
    if keep is not None:
        order = order[keep[order]]
    sorted_ts = ts[order]
    tied = sorted_ts[1:] == sorted_ts[:-1]
    at = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    if len(at):
        order[at] = order[at][np.lexsort((-dur[order[at]], sorted_ts[at]))]
    del sorted_ts
    small = np.int32 if len(ts) < 2**31 else np.int64
    inverse: Ints = np.full(len(ts), -1, dtype=small)
    inverse[order] = np.arange(len(order), dtype=small)
    return order.astype(small), inverse


def _events(table: Table, times: dict[str, I64], order: Ints | None, start: int) -> Events:
    """Each column sorted and let go before the next, so that two are held twice at most."""
    times["ts"] -= start
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in tables.EVENTS:
        column = times.pop(name) if name in times else table.drop(name)
        columns[name] = _frozen(column if order is None else column[order])
    return Events(**columns)


def _kernels(columns: EventColumns, inverse: Ints | None) -> KernelArgs:
    return KernelArgs(**_in_row_order(columns.arguments.kernels, tables.KERNELS, inverse))


def _syncs(columns: EventColumns, inverse: Ints | None) -> SyncArgs:
    return SyncArgs(**_in_row_order(columns.arguments.syncs, tables.SYNCS, inverse))


def _in_row_order(
    table: Table, dtypes: tables.Dtypes, inverse: Ints | None
) -> dict[str, npt.NDArray[Any]]:
    """Columns of some events by their final rows; those of events left out go too."""
    joined = {name: table.drop(name) for name in dtypes}
    row = joined["row"] if inverse is None else inverse[joined["row"]]
    order = np.argsort(row, kind="stable")
    order = order[row[order] >= 0]
    joined["row"] = row.astype(np.int64, copy=False)
    return {name: _frozen(values[order]) for name, values in joined.items()}


def _collectives(columns: EventColumns, inverse: Ints | None) -> tuple[CollectiveArgs, ...]:
    if inverse is None:
        return tuple(columns.collectives)
    from dataclasses import replace

    moved = [replace(c, row=int(inverse[c.row])) for c in columns.collectives]
    return tuple(sorted((c for c in moved if c.row >= 0), key=lambda c: c.row))


def _memory(table: Table, ts: I64, start: int) -> MemoryEvents:
    order = np.argsort(ts, kind="stable")
    columns = {n: _frozen(table.take(n)[order]) for n in tables.MEMORY if n != "ts"}
    return MemoryEvents(ts=_frozen((ts - start)[order]), **columns)


def _counters(columns: EventColumns, start: int) -> Counters:
    rows = sorted(columns.counter_rows, key=lambda row: row[0])
    columns_of: dict[str, list[float]] = {
        "ts": [r[0] - start for r in rows],
        "name": [r[1] for r in rows],
        "key": [r[2] for r in rows],
        "value": [r[3] for r in rows],
    }
    return Counters(
        **{n: _frozen(np.array(columns_of[n], dtype=d)) for n, d in tables.COUNTERS.items()}
    )


def _range_counters(columns: EventColumns) -> RangeCounters:
    table = list(zip(*columns.range_rows, strict=True)) or [()] * len(tables.RANGES)
    return RangeCounters(
        **{
            name: _frozen(np.array(values, dtype=dtype))
            for (name, dtype), values in zip(tables.RANGES.items(), table, strict=True)
        }
    )


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values.flags.writeable = False
    return values
