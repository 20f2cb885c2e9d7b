"""What kept the host from launching: data loading, garbage collection, compilation, its own ops."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.trace.gaps import host_work, ran_during
from gpuperf_analyzers.trace.model import I64, Category, Trace

_KINDS = {
    "data loading": re.compile(r"enumerate\(DataLoader\)"),
    "garbage collection": re.compile(r"Python GC|gc\.collect|<built-in method collect of module"),
    "compilation": re.compile(
        r"_compile\.compile_inner|entire_frame_compile|backend_compile|inductor_compile"
        r"|compile_fx_inner|OutputGraph\.call_user_compiler|create_aot_dispatcher_function"
        r"|async_compile\.|GraphLowering\.compile|CachingAutotuner\.benchmark_all_configs"
    ),
    "compiled-code guards": re.compile(r"Pregraph bytecode|TorchDynamo Cache Lookup"),
}
_HOST = np.array(
    [Category.CPU_OP, Category.USER_ANNOTATION, Category.PYTHON_FUNCTION, Category.OTHER],
    dtype=np.int8,
)


@dataclass(frozen=True, slots=True)
class Delay:
    """Host spans of one name; ``time`` is their union in ns."""

    kind: str
    name: str
    count: int
    time: int


@dataclass(frozen=True, slots=True)
class LaunchGap:
    """Time between two consecutive launch calls, ns, with what filled it.

    ``ops`` counts the CPU ops that began in it; ``cpu_ops`` names the outermost ones, and
    annotations where no op runs inside them, with their time inside it, longest first.
    """

    start: int
    end: int
    ops: int
    cpu_ops: tuple[tuple[str, int], ...]

    @property
    def duration(self) -> int:
        """Length, ns."""
        return self.end - self.start


def data_loading(trace: Trace) -> I64:
    """Rows of the spans in which the host waited for the DataLoader's next batch."""
    return _matching(trace, _KINDS["data loading"])


def delay_rows(trace: Trace, kind: str) -> I64:
    """Rows of the host spans of one kind of delay, as :class:`Delay` names them.

    Raises
    ------
    KeyError
        There is no such kind.
    """
    return _matching(trace, _KINDS[kind])


def delays(trace: Trace) -> tuple[Delay, ...]:
    """Data loading, garbage collection and compilation by name, longest first."""
    e = trace.events
    result = []
    for kind, pattern in _KINDS.items():
        rows = _matching(trace, pattern)
        for name in np.unique(e.name[rows]).tolist():
            these = rows[e.name[rows] == name]
            union = intervals.union(e.ts[these], e.ts[these] + e.dur[these])
            time = intervals.measure(union)
            result.append(Delay(kind, trace.strings[name], len(these), time))
    return tuple(sorted(result, key=lambda d: (-d.time, d.name)))


def launch_gaps(
    trace: Trace, calls: I64, *, top: int = 10, shown: int = 5
) -> tuple[LaunchGap, ...]:
    """The `top` longest times from a launch call's end to the next one's begin."""
    e = trace.events
    start, end = (e.ts[calls] + e.dur[calls])[:-1], e.ts[calls][1:]
    if not len(start):
        return ()
    start = np.maximum.accumulate(start)
    order = np.argsort(start - end, kind="stable")[:top]
    work, ops = host_work(trace), e.ts[trace.rows(Category.CPU_OP)]
    return tuple(
        LaunchGap(
            a, b, int(np.searchsorted(ops, b) - np.searchsorted(ops, a)),
            ran_during(trace, work, a, b, shown),
        )
        for a, b in np.column_stack((start, end))[order].tolist()
        if b > a
    )  # fmt: skip


def _matching(trace: Trace, pattern: re.Pattern[str]) -> I64:
    """Rows of host spans whose name begins with `pattern`."""
    names = [i for i, s in enumerate(trace.strings) if pattern.match(s)]
    hit = np.isin(trace.events.name, np.array(names, dtype=np.int32))
    return np.flatnonzero(hit & np.isin(trace.events.cat, _HOST))
