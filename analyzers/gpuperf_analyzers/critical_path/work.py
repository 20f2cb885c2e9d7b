"""What runs beside the host's threads: GPU activity by stream, or gloo's spans on a CPU run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.critical_path.kinds import PathClass
from gpuperf_analyzers.trace.classify import Device, comm_mask, names_mask
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import GPU_ACTIVITY, I64, Category, Trace
from gpuperf_analyzers.trace.selection import activity


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Pieces of work, ordered by (lane, start).

    A lane is one stream of one device (CPU run: the track of a gloo span). ``launch`` is when
    the host asked for it, -1 where that is not recorded; ``launch_track`` and ``launch_row``
    are of that call. ``lane_start[k]`` is the first piece of lane k, with the number of pieces
    at the end.
    """

    row: I64
    start: I64
    end: I64
    device: I64
    stream: I64
    lane: I64
    lane_start: I64
    path_class: I64
    launch: I64
    launch_row: I64
    launch_track: I64

    def lane_of(self, device: int, stream: int) -> int:
        """The lane of a stream; -1 where nothing ran on it."""
        first = self.lane_start[:-1]
        found = np.flatnonzero((self.device[first] == device) & (self.stream[first] == stream))
        return int(found[0]) if len(found) else -1

    def __len__(self) -> int:
        return len(self.row)


def work_of(trace: Trace, config: Config, device: Device) -> Work:
    """The pieces of work that a path on `device` can run through: those of all its devices."""
    return _gloo(trace, config) if device == "cpu" else _gpu(trace, config)


def _gpu(trace: Trace, config: Config) -> Work:
    e = trace.events
    rows = np.flatnonzero(np.isin(e.cat, np.array(GPU_ACTIVITY, dtype=np.int8)))
    path_class = np.where(e.cat[rows] == Category.KERNEL, PathClass.COMPUTE, PathClass.MEMORY)
    path_class[comm_mask(trace, config)[rows]] = PathClass.COMM
    call = launches(trace)[rows]
    return _ordered(
        trace, rows, e.device[rows].astype(np.int64), e.stream[rows], path_class,
        np.where(call >= 0, e.ts[call], -1), call,
    )  # fmt: skip


def _gloo(trace: Trace, config: Config) -> Work:
    """Gloo's spans; each was asked for by the last ``c10d::`` op that had begun."""
    e = trace.events
    rows = activity(trace, "cpu", config).comm_rows
    ops = trace.rows(Category.CPU_OP)
    ops = ops[names_mask(trace, ops, lambda name: name.startswith("c10d::"))]
    before = np.searchsorted(e.ts[ops], e.ts[rows], side="right") - 1
    call = np.where(before >= 0, ops[before], -1) if len(ops) else np.full(len(rows), -1)
    asked = np.minimum(e.ts[call] + e.dur[call], e.ts[rows])
    return _ordered(
        trace, rows, np.full(len(rows), -1), e.track[rows].astype(np.int64),
        np.full(len(rows), int(PathClass.COMM)), np.where(call >= 0, asked, -1), call,
    )  # fmt: skip


def _ordered(
    trace: Trace, rows: I64, device: I64, stream: I64, path_class: I64, launch: I64, call: I64
) -> Work:
    e = trace.events
    order = np.lexsort((rows, e.ts[rows], stream, device))
    rows, device, stream = rows[order], device[order], stream[order]
    call = call[order]
    changed = np.ones(len(rows), dtype=np.bool_)
    changed[1:] = (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])
    return Work(
        row=rows,
        start=e.ts[rows],
        end=e.ts[rows] + e.dur[rows],
        device=device,
        stream=stream,
        lane=np.cumsum(changed) - 1,
        lane_start=np.append(np.flatnonzero(changed), len(rows)),
        path_class=path_class[order],
        launch=launch[order],
        launch_row=call,
        launch_track=np.where(call >= 0, e.track[call], -1).astype(np.int64),
    )
