"""What launched the kernels of graphs and of torch.compile, and which ops are bound by launching.

A graph is one launch call for many kernels: they belong to where it was called from. A kernel of
Triton belongs to the compiled region that called it. An op is launch-bound where the host takes
longer to issue its kernels than they run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import Device, names_mask
from gpuperf_analyzers.trace.links import enclosing, launches, launching_ops
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.syncs import blocking_calls

if TYPE_CHECKING:
    import pandas as pd

_GRAPH_LAUNCH = re.compile(r"\w*GraphLaunch\w*")
_TRITON = re.compile(r"triton_(?P<kind>[a-z]+)_fused_?(?P<ops>.*?)_?\d*$")
_KINDS = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent reduction",
    "tem": "template",
    "for": "foreach",
    "spl": "split scan",
}
"""Inductor's prefixes of kernel names."""


@dataclass(frozen=True, slots=True)
class GraphLaunch:
    """All graph launches from one place.

    ``call`` is the launch call; ``op`` the outermost CPU op around it, ``annotation`` and
    ``function`` the innermost annotation and Python function ("" where there is none).
    ``host_us`` sums the calls, ``busy_us`` is the union of the activities, ``kernels`` counts the
    kernels of all launches, ``share`` is their part of the sum of all kernels' durations.
    """

    call: str
    op: str
    annotation: str
    function: str
    launches: int
    kernels: int
    host_us: float
    busy_us: float
    share: float


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """All runs of one Triton kernel from one place.

    ``kind`` (pointwise, reduction, …) and ``fused``, the operations that it joins, are what
    Inductor wrote into the name; "" in names of other makers. ``region`` is the outermost CPU op
    around the launch, such as ``Torch-Compiled Region: 0/0``, or the graph launch that holds it.
    """

    name: str
    kind: str
    fused: str
    region: str
    annotation: str
    count: int
    total_us: float
    mean_us: float


@dataclass(frozen=True, slots=True)
class OpLaunching:
    """Launching against running, of all calls of one outermost op.

    ``host_us`` sums the calls' time on the host without the blocking calls inside them,
    ``busy_us`` is the union of their kernels per call, summed. ``bound_calls`` counts the calls
    whose host time is the longer.
    """

    op: str
    calls: int
    kernels: int
    host_us: float
    busy_us: float
    bound_calls: int

    @property
    def launch_bound(self) -> bool:
        """Whether the calls together take the host longer than the device."""
        return self.host_us > self.busy_us


@dataclass(frozen=True, slots=True)
class LaunchersResult:
    """Graphs, Triton kernels and launch-bound ops of one device; all empty on a CPU.

    ``launch_bound_us`` is the kernel time of the calls that are launch-bound, ``linked_us`` that
    of all calls.
    """

    device: Device
    graphs: tuple[GraphLaunch, ...]
    compiled: tuple[CompiledKernel, ...]
    ops: tuple[OpLaunching, ...]
    launch_bound_us: float
    linked_us: float

    def metrics(self) -> Iterator[Value]:
        """``launch_bound``: kernel time of launch-bound calls / kernel time of all calls."""
        if self.device == "cpu":
            yield absent("launch_bound", "nothing is launched on the CPU")
        elif not self.linked_us:
            yield absent("launch_bound", "no kernel is linked to a CPU op")
        else:
            share = self.launch_bound_us / self.linked_us
            yield Value("launch_bound", share, source="host time of ops against their kernels'")

    def to_frame(self) -> pd.DataFrame:
        """One row per op: launching against running."""
        import pandas as pd

        frame = pd.DataFrame(
            [[getattr(o, c) for c in OpLaunching.__slots__] for o in self.ops],
            columns=list(OpLaunching.__slots__),
        )
        return frame.assign(launch_bound=[o.launch_bound for o in self.ops])

    def graphs_frame(self) -> pd.DataFrame:
        """One row per place that launches graphs."""
        import pandas as pd

        columns = list(GraphLaunch.__slots__)
        return pd.DataFrame(
            [[getattr(g, c) for c in columns] for g in self.graphs], columns=columns
        )

    def compiled_frame(self) -> pd.DataFrame:
        """One row per Triton kernel and place."""
        import pandas as pd

        columns = list(CompiledKernel.__slots__)
        rows = [[getattr(k, c) for c in columns] for k in self.compiled]
        return pd.DataFrame(rows, columns=columns)


def analyze(trace: Trace, config: Config, device: Device) -> LaunchersResult:
    """Who launched what on `device`.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    found = activity(trace, device, config)
    if device == "cpu":
        return LaunchersResult(device, (), (), (), 0.0, 0.0)
    kernels = np.sort(np.concatenate((found.compute_rows, found.comm_rows)))
    ops, bound, linked = _launching(trace, kernels)
    return LaunchersResult(
        device, _graphs(trace, kernels), _compiled(trace, kernels), ops, bound, linked
    )


def _graphs(trace: Trace, kernels: I64) -> tuple[GraphLaunch, ...]:
    e = trace.events
    launch = launches(trace)[kernels]
    of_graph = names_mask(trace, launch, _GRAPH_LAUNCH.fullmatch)
    kernels, launch = kernels[of_graph], launch[of_graph]
    if not len(kernels):
        return ()
    calls, call_of = np.unique(launch, return_inverse=True)
    places, place_of = _places(trace, calls)
    group = place_of[call_of.reshape(-1)]
    n = len(places)
    busy = intervals.union_measure_by_group(e.ts[kernels], e.end[kernels], group, n)
    whole = int(e.dur[trace.rows(Category.KERNEL)].sum()) or 1
    host, spent = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    np.add.at(host, place_of, e.dur[calls])
    np.add.at(spent, group, e.dur[kernels])
    counts, each = np.bincount(group, minlength=n), np.bincount(place_of, minlength=n)
    table = [
        GraphLaunch(*place, int(each[i]), int(counts[i]), int(host[i]) / 1e3, int(busy[i]) / 1e3,
                    int(spent[i]) / whole)
        for i, place in enumerate(places)
    ]  # fmt: skip
    return tuple(sorted(table, key=lambda g: (-g.busy_us, g.op, g.annotation)))


def _places(trace: Trace, calls: I64) -> tuple[list[tuple[str, str, str, str]], I64]:
    """Where the calls were made from: call, op, annotation, function; and which each is at."""
    around = (
        calls,
        enclosing(trace, calls, outermost=True),
        enclosing(trace, calls, Category.USER_ANNOTATION),
        enclosing(trace, calls, Category.PYTHON_FUNCTION),
    )
    names = np.stack([_names(trace, rows) for rows in around], axis=1)
    unique, place_of = np.unique(names, axis=0, return_inverse=True)
    text = [tuple(_text(trace, i) for i in row) for row in unique.tolist()]
    return [(t[0], t[1], t[2], t[3]) for t in text], place_of.reshape(-1)


def _names(trace: Trace, rows: I64) -> I64:
    return np.where(rows >= 0, trace.events.name[np.maximum(rows, 0)], -1).astype(np.int64)


def _text(trace: Trace, index: int) -> str:
    return "" if index < 0 else trace.strings[index]


def _compiled(trace: Trace, kernels: I64) -> tuple[CompiledKernel, ...]:
    e = trace.events
    kernels = kernels[names_mask(trace, kernels, lambda name: "triton_" in name)]
    if not len(kernels):
        return ()
    launch = launches(trace)[kernels]
    region = launching_ops(trace, outermost=True)[kernels]
    keys = np.stack(
        (
            _names(trace, kernels),
            _names(trace, np.where(region >= 0, region, launch)),
            _names(trace, enclosing(trace, launch, Category.USER_ANNOTATION)),
        ),
        axis=1,
    )
    unique, group, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    time = np.zeros(len(unique), dtype=np.int64)
    np.add.at(time, group.reshape(-1), e.dur[kernels])
    table = []
    for i, (name, where, annotation) in enumerate(unique.tolist()):
        told = _TRITON.match(trace.strings[name])
        total, count = int(time[i]) / 1e3, int(counts[i])
        table.append(
            CompiledKernel(
                name=trace.strings[name],
                kind=_KINDS.get(told["kind"], told["kind"]) if told else "",
                fused=told["ops"].strip("_") if told else "",
                region=_text(trace, where),
                annotation=_text(trace, annotation),
                count=count,
                total_us=total,
                mean_us=total / count,
            )
        )
    return tuple(sorted(table, key=lambda k: (-k.total_us, k.name)))


def _launching(trace: Trace, kernels: I64) -> tuple[tuple[OpLaunching, ...], float, float]:
    """Table by op, kernel time of launch-bound calls, and of all calls, µs."""
    e = trace.events
    op = launching_ops(trace, outermost=True)[kernels]
    kernels, op = kernels[op >= 0], op[op >= 0]
    calls, call_of = np.unique(op, return_inverse=True)
    n = len(calls)
    if not n:
        return (), 0.0, 0.0
    call_of = call_of.reshape(-1)
    busy = intervals.union_measure_by_group(e.ts[kernels], e.end[kernels], call_of, n)
    waits = blocking_calls(trace)
    blocked = np.zeros(len(e), dtype=np.int64)
    waiter = enclosing(trace, waits, outermost=True)
    np.add.at(blocked, waiter[waiter >= 0], e.dur[waits[waiter >= 0]])
    host = np.maximum(e.dur[calls] - blocked[calls], 0)
    bound = host > busy
    spent = np.zeros(n, dtype=np.int64)
    np.add.at(spent, call_of, e.dur[kernels])
    names, group = np.unique(e.name[calls], return_inverse=True)
    group = group.reshape(-1)
    sums = np.zeros((len(names), 5), dtype=np.int64)
    per_call = np.stack(
        (np.ones(n, dtype=np.int64), np.bincount(call_of, minlength=n), host, busy, bound), axis=1
    )
    np.add.at(sums, group, per_call)
    table = [
        OpLaunching(trace.strings[name], c, k, h / 1e3, b / 1e3, of)
        for name, (c, k, h, b, of) in zip(names.tolist(), sums.tolist(), strict=True)
    ]
    ordered = sorted(table, key=lambda o: (-(o.host_us - o.busy_us), o.op))
    return tuple(ordered), int(spent[bound].sum()) / 1e3, int(spent.sum()) / 1e3
