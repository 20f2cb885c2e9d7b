"""Which kernels follow one another under an op, again and again: what could be one kernel.

A call of an outermost op that launches several kernels makes a sequence, in launch order. Short
kernels in a frequent sequence are what a compiler or a fused op would join.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.links import launches, launching_ops
from gpuperf_analyzers.trace.model import Trace
from gpuperf_analyzers.trace.selection import activity

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class KernelSequence:
    """One sequence of kernels under one op.

    ``count`` calls made it. ``time_us`` is the sum of the kernels' durations over all of them;
    ``span_us`` from each call's first kernel start to its last kernel end: the difference is what
    stands between the kernels (other streams' work included).
    """

    op: str
    kernels: tuple[str, ...]
    count: int
    time_us: float
    span_us: float


@dataclass(frozen=True, slots=True)
class SequencesResult:
    """Sequences that two calls or more made on one device, the most time first."""

    device: Device
    sequences: tuple[KernelSequence, ...]

    def metrics(self) -> Iterator[Value]:
        """None: a sequence is a row of a table."""
        yield from ()

    def to_frame(self) -> pd.DataFrame:
        """One row per op and sequence."""
        import pandas as pd

        columns = list(KernelSequence.__slots__)
        rows = [[getattr(s, c) for c in columns] for s in self.sequences]
        return pd.DataFrame(rows, columns=columns)


def analyze(trace: Trace, config: Config, device: Device) -> SequencesResult:
    """Frequent sequences on `device`.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    return SequencesResult(device, sequences(trace, config, device))


def sequences(
    trace: Trace, config: Config, device: Device, *, least: int = 2
) -> tuple[KernelSequence, ...]:
    """Sequences of at least two kernels that `least` calls or more made, the most time first.

    None on a CPU, which runs no kernels.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    found = activity(trace, device, config)
    if device == "cpu":
        return ()
    e = trace.events
    rows = np.concatenate((found.compute_rows, found.comm_rows))
    op, launch = launching_ops(trace, outermost=True)[rows], launches(trace)[rows]
    linked = (op >= 0) & (launch >= 0)
    rows, op, launch = rows[linked], op[linked], launch[linked]
    if not len(rows):
        return ()
    order = np.lexsort((rows, e.ts[launch], op))
    rows, op = rows[order], op[order]
    begin = e.ts[rows]
    end = begin + e.dur[rows]
    calls, first = np.unique(op, return_index=True)
    last = [*first[1:].tolist(), len(rows)]
    table: dict[tuple[int, ...], list[int]] = {}
    for call, i, j in zip(calls.tolist(), first.tolist(), last, strict=True):
        if j - i > 1:
            key = (int(e.name[call]), *e.name[rows[i:j]].tolist())
            row = table.setdefault(key, [0, 0, 0])
            row[0] += 1
            row[1] += int((end[i:j] - begin[i:j]).sum())
            row[2] += int(end[i:j].max() - begin[i:j].min())
    found_sequences = (
        KernelSequence(
            trace.strings[key[0]], tuple(trace.strings[k] for k in key[1:]), count,
            time / 1e3, span / 1e3,
        )
        for key, (count, time, span) in table.items()
        if count >= least
    )  # fmt: skip
    return tuple(sorted(found_sequences, key=lambda s: (-s.time_us, s.op, s.kernels)))
