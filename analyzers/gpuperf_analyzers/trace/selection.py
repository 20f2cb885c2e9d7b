"""The activity of one device as sets of time: the same shape for a GPU and for the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.intervals import Spans
from gpuperf_analyzers.trace.classify import Device, comm_mask, names_mask, step_mask
from gpuperf_analyzers.trace.model import GPU_ACTIVITY, I64, Bool, Category, Trace

_DISPATCH = ("c10d::", "gloo:")
_GLOO = "gloo:"


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """What ran on one device.

    Rows are row numbers of ``trace.events`` in time order; ``rows`` holds all of them. The
    sets of time are unions, so overlapping kernels count once. ``start`` and ``end`` are the
    window: first activity's start to the last one's end.

    Copies from one GPU's memory to another's are in ``memory_rows`` with the other copies, and
    their time is communication: ``comm``, not ``memory``.
    """

    device: Device
    rows: I64
    compute_rows: I64
    comm_rows: I64
    memory_rows: I64
    compute: Spans
    comm: Spans
    memory: Spans
    busy: Spans
    start: int
    end: int


def activity(trace: Trace, device: Device, config: Config) -> Activity:
    """The activity of `device`.

    Raises
    ------
    ValueError
        The trace has none.
    """
    key = f"activity:{device}"
    cached = trace.memo.get(key)
    if cached is not None and cached[0] == config.comm_classifiers:
        known: Activity = cached[1]
        return known
    found = _cpu(trace) if device == "cpu" else _gpu(trace, device, config)
    trace.memo[key] = (config.comm_classifiers, found)
    return found


def _gpu(trace: Trace, device: int, config: Config) -> Activity:
    """Kernels, copies and memsets of one GPU."""
    e = trace.events
    here = np.isin(e.cat, np.array(GPU_ACTIVITY, dtype=np.int8)) & (e.device == device)
    kernel = here & (e.cat == Category.KERNEL)
    comm = kernel & comm_mask(trace, config)
    parts = (
        np.flatnonzero(kernel & ~comm),
        np.flatnonzero(comm),
        np.flatnonzero(here & ~kernel),
    )
    copies = parts[2]
    between = copies[names_mask(trace, copies, is_peer_copy)]
    communication = _union(trace, np.sort(np.concatenate((parts[1], between))))
    memory = _union(trace, np.setdiff1d(copies, between, assume_unique=True))
    return _activity(trace, device, parts, _union(trace, parts[0]), communication, memory)


def is_peer_copy(name: str) -> bool:
    """A copy between two GPUs (``Memcpy PtoP``, ``CopyPeerToPeer``)."""
    return "PtoP" in name or "peertopeer" in name.lower()


def _cpu(trace: Trace) -> Activity:
    """CPU ops as compute and gloo's spans as communication.

    Dispatching a collective is not compute: on each thread the ``c10d::`` and ``gloo:`` spans
    are taken out of that thread's ops before the threads are joined.
    """
    e = trace.events
    op = (e.cat == Category.CPU_OP) & ~step_mask(trace)
    host = op | (e.cat == Category.USER_ANNOTATION)
    gloo = host & _named(trace, (_GLOO,))
    dispatch = host & _named(trace, _DISPATCH)
    compute_rows = np.flatnonzero(op & ~dispatch)
    comm_rows = np.flatnonzero(gloo)
    threads = []
    for track in np.unique(e.track[compute_rows]):
        ops = _union(trace, np.flatnonzero(op & (e.track == track)))
        taken = _union(trace, np.flatnonzero(dispatch & (e.track == track)))
        threads.append(intervals.difference(ops, taken))
    nothing = np.empty(0, dtype=np.int64)
    return _activity(
        trace,
        "cpu",
        (compute_rows, comm_rows, nothing),
        intervals.join(*threads),
        _union(trace, comm_rows),
        intervals.empty(),
        window_rows=np.flatnonzero(op | gloo),
    )


def _named(trace: Trace, prefixes: tuple[str, ...]) -> Bool:
    """Mask over events whose name begins with one of `prefixes`."""
    matches = np.array([s.startswith(prefixes) for s in trace.strings], dtype=np.bool_)
    if not len(matches):
        return np.zeros(len(trace.events), dtype=np.bool_)
    mask: Bool = matches[trace.events.name] & (trace.events.name >= 0)
    return mask


def _union(trace: Trace, rows: I64) -> Spans:
    start = trace.events.ts[rows]
    return intervals.union(start, start + trace.events.dur[rows])


def _activity(
    trace: Trace,
    device: Device,
    parts: tuple[I64, I64, I64],
    compute: Spans,
    comm: Spans,
    memory: Spans,
    *,
    window_rows: I64 | None = None,
) -> Activity:
    e = trace.events
    rows = np.sort(np.concatenate(parts))
    over = rows if window_rows is None else window_rows
    if not len(over):
        raise ValueError(f"{trace.path}: no activity on device {device}")
    return Activity(
        device, rows, *parts, compute, comm, memory, intervals.join(compute, comm, memory),
        int(e.ts[over].min()), int((e.ts[over] + e.dur[over]).max()),
    )  # fmt: skip
