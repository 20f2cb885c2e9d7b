"""The critical paths of one device: graph, walks, and what fills them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.critical_path.binding import bindings
from gpuperf_analyzers.critical_path.kinds import ASSUMED, Basis, PathClass
from gpuperf_analyzers.critical_path.result import (
    BETWEEN,
    LEAST_COVERAGE,
    Assumption,
    CriticalPaths,
    Item,
    Path,
    Segments,
)
from gpuperf_analyzers.critical_path.threads import Threads
from gpuperf_analyzers.critical_path.waits import blocking_rows
from gpuperf_analyzers.critical_path.walk import Leg, Place, Walk, Walker, ended_last, starts_at
from gpuperf_analyzers.critical_path.work import work_of
from gpuperf_analyzers.trace.calls import launch_calls
from gpuperf_analyzers.trace.classify import Device, names_mask
from gpuperf_analyzers.trace.links import launches, nest_rows
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.steps import Step, host_steps, steps


def analyze(trace: Trace, config: Config, device: Device) -> CriticalPaths:
    """What decided how long the window of `device`, and each of its steps, took.

    From the end of each, the path goes back to whatever was waited for last: the activity before
    on the stream, the launch call, the event of another stream; on the host to what ran before on
    the thread, and from a blocking call to the activity that ended it.

    Raises
    ------
    ValueError
        The trace has no activity on it.
    """
    finder = _Finder(trace, config, device)
    found = activity(trace, device, config)
    window = finder.path("window", found.start, found.end, finder.last(found.end))
    every = steps(trace, device, config)
    paths = tuple(
        finder.path(step.name, step.start, step.end, place)
        for step, place in zip(every, finder.ends(every), strict=True)
    )
    used = finder.used[1:] if every else finder.used
    counts = sum(used, Counter())
    assumptions = tuple(
        Assumption(basis.name.lower().replace("_", "-"), ASSUMED[basis], count)
        for basis, count in counts.most_common()
        if basis in ASSUMED
    )
    return CriticalPaths(device, window, paths, assumptions)


def path_of_span(
    trace: Trace, config: Config, device: Device, start_ns: int, end_ns: int, name: str = "span"
) -> Path:
    """The critical path of any stretch of time, such as an annotation's.

    It ends with the activity that ended last in the stretch, and so does the time that is its
    length.
    """
    finder = _Finder(trace, config, device)
    place = finder.last(end_ns)
    return finder.path(name, start_ns, max(place.at, start_ns), place)


class _Finder:
    """Finds paths of one device; ``used`` counts the bases of each."""

    def __init__(self, trace: Trace, config: Config, device: Device) -> None:
        self.trace = trace
        self.device = device
        self.on_cpu = device == "cpu"
        self.work = work_of(trace, config, device)
        self.threads = Threads(trace, self.work, on_cpu=self.on_cpu)
        binding = bindings(trace, self.work)
        self.walker = Walker(trace, self.work, binding, self.threads, on_cpu=self.on_cpu)
        self.classes = _host_classes(trace, on_cpu=self.on_cpu)
        self.used: list[Counter[Basis]] = []

    def last(self, end: int) -> Place:
        """The place of what ended last by a moment."""
        i = ended_last(self.work, self.device, end)
        if i >= 0 and (self.work.end[i] == end or not self.on_cpu):
            return Place(i, -1, int(self.work.end[i]))
        return Place(-1, self.threads.ended_last(end), end)

    def ends(self, every: tuple[Step, ...]) -> Iterator[Place]:
        """Where each step ends: at the start of the next one's first activity, or on the host."""
        for step, row in zip(every, host_steps(self.trace).tolist(), strict=True):
            host = Place(-1, int(self.trace.events.track[row]), step.end)
            next_one = starts_at(self.work, self.device, step.end)
            if step is every[-1]:
                yield host if step.end == step.host_end else self.last(step.end)
            elif self.on_cpu or next_one < 0:
                yield host
            else:
                yield Place(next_one, -1, step.end)

    def path(self, name: str, start: int, end: int, place: Place) -> Path:
        """The path from `place` at the end of a stretch back to its start."""
        walk = self.walker.back(place, start)
        segments = self._segments(walk.legs)
        self.used.append(walk.bases)
        time = np.bincount(
            segments.path_class, weights=segments.end - segments.start, minlength=len(PathClass)
        )
        by_class = time.astype(np.int64)
        by_class[PathClass.UNKNOWN] += max(end - place.at, 0)
        found = Path(
            name, start, end, walk.reached, tuple(by_class.tolist()), segments,
            self._items(segments), "",
        )  # fmt: skip
        return _with_reason(found, walk)

    def _segments(self, legs: tuple[Leg, ...]) -> Segments:
        """The legs in time order; those on threads split by what ran there."""
        table = [
            (leg.start, leg.end, leg.path_class, leg.row, leg.waits) for leg in legs if leg.row >= 0
        ]
        columns = np.array(table, dtype=np.int64).reshape(-1, 5).T
        parts = [[*columns, self.trace.events.track[columns[3]].astype(np.int64)]]
        for leg in legs:
            if leg.row < 0:
                start, end, row = self.threads.between(leg.track, leg.start, leg.end)
                zero = np.zeros(len(row), dtype=np.int64)
                parts.append([start, end, self.classes[row], row, zero, zero + leg.track])
        start, end, path_class, row, waits, track = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(start, kind="stable")
        return Segments(
            start[order], end[order], path_class[order], row[order], track[order], waits[order]
        )

    def _items(self, segments: Segments) -> tuple[Item, ...]:
        """Time on the path by name and class."""
        names = np.where(segments.row >= 0, self.trace.events.name[np.maximum(segments.row, 0)], -1)
        keys = np.column_stack((names, segments.path_class))
        kinds, which = np.unique(keys, axis=0, return_inverse=True)
        time = np.bincount(which.ravel(), weights=segments.end - segments.start)
        count = np.bincount(which.ravel())
        found = [
            Item(self.trace.strings[name] if name >= 0 else BETWEEN, PathClass(kind),
                 int(count[i]), int(time[i]))
            for i, (name, kind) in enumerate(kinds.tolist())
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda item: (-item.time_ns, item.name)))


def _with_reason(path: Path, walk: Walk) -> Path:
    """`path` with the reason why it is none, where it leaves too much of the time open."""
    if path.coverage >= LEAST_COVERAGE:
        return path
    reasons = []
    if walk.reason:
        share = (path.reached_ns - path.start_ns) / path.length_ns
        reasons.append(f"{walk.reason}, so that {share:.1%} of the time is not reached")
    unknown = path.by_class[PathClass.UNKNOWN] / path.length_ns
    if unknown:
        reasons.append(f"nothing in the trace explains {unknown:.1%} of the time on it")
    return replace(path, reason="; ".join(reasons))


def _host_classes(trace: Trace, *, on_cpu: bool) -> I64:
    """The class of the host's time in each event; the last entry is for no event."""
    classes = np.full(len(trace.events) + 1, int(PathClass.CPU), dtype=np.int64)
    if on_cpu:
        ops = _computing_ops(trace)
        classes[ops] = int(PathClass.COMPUTE)
        return classes
    launched = launches(trace)
    classes[launched[launched >= 0]] = int(PathClass.LAUNCH)
    classes[launch_calls(trace)] = int(PathClass.LAUNCH)
    classes[blocking_rows(trace)] = int(PathClass.SYNC)
    return classes


def _computing_ops(trace: Trace) -> I64:
    """Ops of a CPU run that compute: all but what dispatches or carries out a collective."""
    e = trace.events
    host = trace.rows(Category.CPU_OP, Category.USER_ANNOTATION)
    dispatch = names_mask(trace, host, lambda name: name.startswith(("c10d::", "gloo:")))
    ops = trace.rows(Category.CPU_OP)
    around = nest_rows(trace, host[dispatch]).innermost(e.track[ops].astype(np.int64), e.ts[ops])
    return ops[around < 0]
