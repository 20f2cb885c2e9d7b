"""Time by nn.Module, forward and backward, where Python calls were recorded.

The profiler records a module's call as a Python function ``nn.Module: Linear_3``. What is
launched inside is the module's forward work; an op of the backward pass belongs to the module in
which the forward op with its autograd sequence number ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.trace.classify import Device, names_mask
from gpuperf_analyzers.trace.links import (
    Nesting,
    enclosing,
    launches,
    launching_ops,
    nest_rows,
    nesting,
)
from gpuperf_analyzers.trace.model import I64, Bool, Category, Trace
from gpuperf_analyzers.trace.selection import Activity, activity

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "nn.Module: "
NO_MODULES = "no nn.Module call is recorded: record with with_stack=True or with_modules=True"


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """All calls of one module, what is inside its children included.

    ``name`` is the class and the number that the profiler gives the instance; ``path`` the
    modules around its first call, outermost first, with itself last. ``forward_us`` and
    ``backward_us`` are unions of the activity; ``own_us`` is the union of what its children do
    not hold, forward and backward. On a CPU activity is the ops themselves.
    """

    name: str
    path: str
    depth: int
    calls: int
    kernels: int
    forward_us: float
    backward_us: float
    own_us: float


@dataclass(frozen=True, slots=True)
class ModulesResult:
    """Modules of one device in the order of their first calls; why there are none, else ""."""

    device: Device
    modules: tuple[ModuleTime, ...]
    absent_reason: str

    def metrics(self) -> Iterator[Value]:
        """None: a module's time is a row of a table."""
        yield from ()

    def to_frame(self) -> pd.DataFrame:
        """One row per module."""
        import pandas as pd

        columns = list(ModuleTime.__slots__)
        rows = [[getattr(m, c) for c in columns] for m in self.modules]
        return pd.DataFrame(rows, columns=columns)


def analyze(trace: Trace, config: Config, device: Device) -> ModulesResult:
    """Time by module on `device`.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    found = activity(trace, device, config)
    python = trace.rows(Category.PYTHON_FUNCTION)
    spans = python[names_mask(trace, python, lambda name: name.startswith(PREFIX))]
    nest = nest_rows(trace, spans)
    if not len(nest.rows):
        return ModulesResult(device, (), NO_MODULES)
    rows, at, backward = _placed(trace, found, nest)
    return ModulesResult(device, _table(trace, nest, rows, at, backward), "")


def _placed(trace: Trace, found: Activity, nest: Nesting) -> tuple[I64, I64, Bool]:
    """Activities inside a module: their rows, the innermost module's position, whether backward."""
    e = trace.events
    rows = found.rows
    if found.device == "cpu":
        host, outer = rows, enclosing(trace, rows, outermost=True)
        outer = np.where(outer >= 0, outer, rows)
    else:
        host, outer = launches(trace)[rows], launching_ops(trace, outermost=True)[rows]
    forward = _forward_of(trace)[np.maximum(outer, 0)]
    backward = (outer >= 0) & (forward >= 0)
    where = np.where(backward, forward, host)
    known = np.maximum(where, 0)
    at = nest.innermost(e.track[known].astype(np.int64), e.ts[known])
    inside = (where >= 0) & (at >= 0)
    return rows[inside], at[inside], backward[inside]


def _forward_of(trace: Trace) -> I64:
    """For every event of a backward pass, the row of its forward op by sequence number; else -1.

    Several ops carry one number until one of them makes the node: the last begun is nearest. The
    autograd engine's span has no number of its own; the node's op just inside has.
    """
    e = trace.events
    result = np.full(len(e), -1, dtype=np.int64)
    ops = np.flatnonzero((e.cat == Category.CPU_OP) & (e.sequence >= 0))
    forward, backward = ops[e.fwd_thread[ops] <= 0], ops[e.fwd_thread[ops] > 0]
    if not len(forward) or not len(backward):
        return result
    order = np.argsort(e.sequence[forward], kind="stable")
    ids = e.sequence[forward][order]
    index = np.searchsorted(ids, e.sequence[backward], side="right") - 1
    same = (index >= 0) & (ids[np.maximum(index, 0)] == e.sequence[backward])
    result[backward[same]] = forward[order[index[same]]]
    nest = nesting(trace)
    position = np.flatnonzero((result[nest.rows] >= 0) & (nest.parent >= 0))
    above = nest.rows[nest.root[position]]
    bare = result[above] < 0
    result[above[bare]] = result[nest.rows[position[bare]]]
    return result


def _table(
    trace: Trace, nest: Nesting, rows: I64, at: I64, backward: Bool
) -> tuple[ModuleTime, ...]:
    e = trace.events
    names, group_of = np.unique(e.name[nest.rows], return_inverse=True)
    group_of = group_of.reshape(-1)
    n = len(names)
    own = intervals.union_measure_by_group(e.ts[rows], e.end[rows], group_of[at], n)
    which, held = _with_ancestors(nest, group_of, at)
    rows, backward = rows[which], backward[which]
    sides = [
        intervals.union_measure_by_group(e.ts[rows[side]], e.end[rows[side]], held[side], n)
        for side in (~backward, backward)
    ]
    kernels = np.bincount(held, minlength=n)
    calls = np.bincount(group_of, minlength=n)
    order = np.argsort(nest.start, kind="stable")
    _, first = np.unique(group_of[order], return_index=True)
    first = order[first]
    table = []
    for i in np.argsort(nest.start[first], kind="stable").tolist():
        path = _path(trace, nest, int(first[i]))
        table.append(
            ModuleTime(
                name=path[-1],
                path="/".join(path),
                depth=len(path) - 1,
                calls=int(calls[i]),
                kernels=int(kernels[i]),
                forward_us=int(sides[0][i]) / 1e3,
                backward_us=int(sides[1][i]) / 1e3,
                own_us=int(own[i]) / 1e3,
            )
        )
    return tuple(table)


def _with_ancestors(nest: Nesting, group_of: I64, at: I64) -> tuple[I64, I64]:
    """Each activity once for every distinct module around it: index of the activity, module."""
    which = np.arange(len(at))
    pairs = [np.empty((0, 2), dtype=np.int64)]
    while len(at):
        pairs.append(np.stack((which, group_of[at]), axis=1))
        at = nest.parent[at]
        which, at = which[at >= 0], at[at >= 0]
    found = np.unique(np.concatenate(pairs), axis=0)
    return found[:, 0], found[:, 1]


def _path(trace: Trace, nest: Nesting, position: int) -> list[str]:
    path: list[str] = []
    while position >= 0:
        path.append(trace.name_of(int(nest.rows[position])).removeprefix(PREFIX))
        position = int(nest.parent[position])
    return path[::-1]
