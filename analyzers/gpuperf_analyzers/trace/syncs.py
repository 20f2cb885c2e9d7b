"""Where the host waited for the device, and the op that made it wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.trace.calls import call_rows, calls, is_blocking_copy, is_synchronize
from gpuperf_analyzers.trace.links import enclosing
from gpuperf_analyzers.trace.model import I64, Trace


@dataclass(frozen=True, slots=True)
class Sync:
    """Blocking calls of one kind from one op.

    ``op`` is the outermost CPU op around the call and ``inner_op`` the innermost ("" where it
    was called outside of any), ``count`` how many, ``blocked`` their time in ns.
    """

    call: str
    op: str
    inner_op: str
    count: int
    blocked: int


def blocking_calls(trace: Trace) -> I64:
    """Rows of the host's blocking calls, in time order; each wait once.

    Synchronizes of a stream, device or event, and blocking copies. ``.item()`` is three events
    (two ops and the call): one wait. An op that copies and then synchronizes waits once.
    The synchronize that the profiler makes when it stops (the last runtime call, of a whole
    device, outside of any op) is not one.
    """
    cached = trace.memo.get("blocking_calls")
    if cached is not None:
        known: I64 = cached
        return known
    waits = call_rows(trace, is_synchronize)
    copies = call_rows(trace, is_blocking_copy)
    around = enclosing(trace, copies)
    copies = copies[(around < 0) | ~np.isin(around, enclosing(trace, waits))]
    every = calls(trace)
    if len(waits) and waits[-1] == every[-1] and enclosing(trace, waits[-1:])[0] < 0:
        waits = waits[:-1] if "Device" in trace.name_of(int(waits[-1])) else waits
    trace.memo["blocking_calls"] = result = np.sort(np.concatenate((waits, copies)))
    return result


def by_op(trace: Trace, rows: I64) -> tuple[Sync, ...]:
    """The blocking calls in `rows` by call and op, the longest total first."""
    e = trace.events
    outer, inner = enclosing(trace, rows, outermost=True), enclosing(trace, rows)
    names = [np.where(r >= 0, e.name[np.maximum(r, 0)], -1) for r in (outer, inner)]
    keys = np.column_stack((e.name[rows], *names))
    kinds, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.ravel()
    count = np.bincount(which, minlength=len(kinds))
    blocked = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(blocked, which, e.dur[rows])
    text = [["" if i < 0 else trace.strings[i] for i in kind] for kind in kinds.tolist()]
    order = np.lexsort((-count, -blocked)).tolist()
    return tuple(
        Sync(text[i][0], text[i][1], text[i][2], int(count[i]), int(blocked[i])) for i in order
    )
