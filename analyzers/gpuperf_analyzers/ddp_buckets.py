"""Gradient all-reduces as DDP's buckets, and why some of them stay exposed.

DDP reduces a bucket from the hook of the last of its gradients: its collective is launched under
``torch::autograd::AccumulateGrad``. The k-th of a step is bucket k in the order of the backward
pass. Only backward compute that is still to run can hide it: the optimizer waits for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.collective_kinds import kind_of
from gpuperf_analyzers.collectives import Collective
from gpuperf_analyzers.collectives import analyze as analyze_collectives
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.trace.classify import Device, names_mask
from gpuperf_analyzers.trace.links import enclosing, launches
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.phases import Phase, phases
from gpuperf_analyzers.trace.selection import Activity, activity
from gpuperf_analyzers.trace.steps import step_of

if TYPE_CHECKING:
    import pandas as pd

Cause = Literal["hidden", "ready last", "outlasted", "queued", "starved"]
_HOOK = "torch::autograd::AccumulateGrad"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of one step.

    ``ready_us`` is when its gradients were there: the launch, or the end of the backward compute
    launched before it if that is later. ``queued_us`` is from there to its start. ``left_us`` is
    the backward compute that was still to run when it was ready: what could have hidden it.

    ``cause`` says why a part was exposed, ``hidden`` where nothing was:

    - ``ready last``: no backward compute was left. Its gradients come last: make this bucket
      smaller.
    - ``outlasted``: there was some, but less than the bucket takes.
    - ``queued``: there was enough, but it ran while the bucket waited behind other collectives.
    - ``starved``: there was enough even after its start, but it did not run beside it; the host
      had not launched it yet, or it waited for something else.
    """

    step: str
    index: int
    bytes: int | None
    ready_us: float
    queued_us: float
    duration_us: float
    exposed_us: float
    left_us: float
    cause: Cause


@dataclass(frozen=True, slots=True)
class BucketsResult:
    """The buckets of one device in time order, none where no gradient hook launched any."""

    device: Device
    buckets: tuple[Bucket, ...]

    def metrics(self) -> Iterator[Value]:
        """None: a bucket is a row of a table."""
        yield from ()

    def to_frame(self) -> pd.DataFrame:
        """One row per bucket and step."""
        import pandas as pd

        columns = list(Bucket.__slots__)
        return pd.DataFrame(
            [[getattr(b, c) for c in columns] for b in self.buckets], columns=columns
        )


def analyze(trace: Trace, config: Config, device: Device) -> BucketsResult:
    """Buckets of `device`.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    found = activity(trace, device, config)
    call = _dispatches(trace, found) if device == "cpu" else launches(trace)[found.comm_rows]
    outer = np.where(call >= 0, enclosing(trace, call, outermost=True), -1)
    mine = names_mask(trace, outer, lambda name: _HOOK in name)
    if not mine.any():
        return BucketsResult(device, ())
    rows, call = found.comm_rows[mine], call[mine]
    described = {c.row: c for c in analyze_collectives(trace, config, device).calls}
    of_step = step_of(trace, device, config)[np.searchsorted(found.rows, rows)]
    calls = [described[row] for row in rows.tolist()]
    return BucketsResult(device, _buckets(trace, config, found, rows, call, of_step, calls))


def _dispatches(trace: Trace, found: Activity) -> I64:
    """The op that dispatched each of gloo's spans, -1 where they cannot be told.

    Gloo works its queue off in order: the n-th span is of the n-th dispatch, if there are as many
    of each and their kinds agree.
    """
    ops = trace.rows(Category.CPU_OP)
    ops = ops[names_mask(trace, ops, lambda name: name.startswith("c10d::"))]
    around = enclosing(trace, ops)
    ops = ops[~names_mask(trace, around, lambda name: name.startswith("c10d::"))]
    kinds = [[kind_of(trace.name_of(r)) for r in rows.tolist()] for rows in (ops, found.comm_rows)]
    if kinds[0] != kinds[1]:
        return np.full(len(found.comm_rows), -1, dtype=np.int64)
    return ops


def _buckets(
    trace: Trace,
    config: Config,
    found: Activity,
    rows: I64,
    call: I64,
    of_step: I64,
    calls: Sequence[Collective],
) -> tuple[Bucket, ...]:
    e = trace.events
    every = step_of(trace, found.device, config)
    backward = phases(trace, found.device, config) == Phase.BACKWARD
    index: dict[int, int] = {}
    table = []
    seen = -2
    for i, (row, step) in enumerate(zip(rows.tolist(), of_step.tolist(), strict=True)):
        if step != seen:
            compute = found.rows[backward & (every == step)]
            launched = compute if found.device == "cpu" else launches(trace)[compute]
            ends = e.ts[compute] + e.dur[compute]
            spans = intervals.union(e.ts[compute], ends)
            seen = step
        before = (launched >= 0) & (e.ts[launched] < e.ts[call[i]])
        start, end = int(e.ts[row]), int(e.ts[row] + e.dur[row])
        ready = int(e.ts[call[i]])
        if found.device != "cpu" and before.any():
            ready = max(ready, int(ends[before].max()))
        ready = min(ready, start)
        left, left_at_start = (_after(spans, at) for at in (ready, start))
        exposed = calls[i].exposed_us
        table.append(
            Bucket(
                step=calls[i].step,
                index=index.setdefault(step, 0),
                bytes=calls[i].bytes,
                ready_us=ready / 1e3,
                queued_us=(start - ready) / 1e3,
                duration_us=(end - start) / 1e3,
                exposed_us=exposed,
                left_us=left / 1e3,
                cause=_cause(exposed, left, left_at_start, end - start),
            )
        )
        index[step] += 1
    return tuple(table)


def _after(spans: intervals.Spans, at: int) -> int:
    """How much of `spans` lies after `at`."""
    far = np.array([np.iinfo(np.int64).max])
    return int(intervals.covered(spans, np.array([at]), far)[0])


def _cause(exposed: float, left: int, left_at_start: int, duration: int) -> Cause:
    if exposed <= 0:
        return "hidden"
    if left == 0:
        return "ready last"
    if left < duration:
        return "outlasted"
    return "queued" if left_at_start < duration else "starved"
