"""The critical path of a window and of its steps, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import stats
from gpuperf_analyzers.critical_path.kinds import PathClass
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.model import I64

if TYPE_CHECKING:
    import pandas as pd

LEAST_COVERAGE = 0.95
"""Share of the time that a path must explain to be called one."""

BETWEEN = "between ops"
"""Name of a thread's time outside of all events."""

NO_STEPS = "the trace has no ProfilerStep annotation"
_ON_CPU = {
    "critical_memory": "a CPU run has no device copies",
    "critical_launch": "nothing is launched on the CPU",
}
_METRICS = {
    "critical_compute": PathClass.COMPUTE,
    "critical_comm": PathClass.COMM,
    "critical_memory": PathClass.MEMORY,
    "critical_launch": PathClass.LAUNCH,
    "critical_cpu": PathClass.CPU,
    "critical_sync": PathClass.SYNC,
}


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """A path's stretches in time order: they touch and do not overlap. Times in ns.

    ``row`` is the event that fills each (-1: none, between the events of a thread); ``waiting``
    says that it is the way to that event (launched, not yet started) and not the event itself.
    """

    start: I64
    end: I64
    path_class: I64
    row: I64
    track: I64
    waiting: I64


@dataclass(frozen=True, slots=True)
class Item:
    """One name on a path: what would have to get shorter.

    ``time_ns`` is its time on the path: the step gets shorter by at most that.
    """

    name: str
    path_class: PathClass
    count: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Path:
    """The critical path of the window or of one step.

    It leads from ``end_ns`` back to ``reached_ns``, which is ``start_ns`` where it reaches across.
    ``by_class`` is in ns, in the order of :class:`PathClass`. ``reason`` says why it is not called
    a path, "" where it is.
    """

    name: str
    start_ns: int
    end_ns: int
    reached_ns: int
    by_class: tuple[int, ...]
    segments: Segments
    items: tuple[Item, ...]
    """By time, the most first."""
    reason: str

    @property
    def length_ns(self) -> int:
        """Of the window or step."""
        return self.end_ns - self.start_ns

    @property
    def coverage(self) -> float:
        """Explained time on the path / length: the rest was not reached, or nothing explains it.

        1 where there is no time to explain.
        """
        if not self.length_ns:
            return 1.0
        unknown = self.by_class[PathClass.UNKNOWN]
        return (self.end_ns - self.reached_ns - unknown) / self.length_ns

    @property
    def bound(self) -> PathClass | None:
        """The class with the most time on the path; None where it is not called a path."""
        return (
            None if self.reason or not self.length_ns else PathClass(int(np.argmax(self.by_class)))
        )

    def share(self, path_class: PathClass) -> float | None:
        """Time of a class / length: no more is gained by making only that class faster."""
        if self.reason or not self.length_ns:
            return None
        return self.by_class[path_class] / self.length_ns


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a path rests on that the trace does not state, and how often."""

    code: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class CriticalPaths:
    """What decided how long the window and each step took.

    A step cannot get shorter by more than the time of a class on its path as long as only that
    class gets faster; it can by less, when another path becomes the longest.
    """

    device: Device
    window: Path
    steps: tuple[Path, ...]
    assumptions: tuple[Assumption, ...]
    """Of the steps' paths, or of the window's where there are no steps; the most frequent first."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Those of the steps, or the window's where there are none."""
        return self.steps or (self.window,)

    def shares(self) -> list[tuple[PathClass, float]]:
        """Each class's time over the length of all paths, the largest first."""
        length = sum(p.length_ns for p in self.paths)
        total = [(kind, sum(p.by_class[kind] for p in self.paths)) for kind in PathClass]
        found = [(kind, time / length if length else 0.0) for kind, time in total]
        return sorted(found, key=lambda pair: -pair[1])

    def metrics(self) -> Iterator[Value]:
        """Time of each class on the path as the median of steps, and the worst coverage."""
        broken = next((f"{p.name}: {p.reason}" for p in self.paths if p.reason), "")
        for name, path_class in _METRICS.items():
            if self.device == "cpu" and name in _ON_CPU:
                yield absent(name, _ON_CPU[name])
            elif broken:
                yield absent(name, f"no path across {broken}")
            else:
                yield self._time(name, path_class)
        samples = [p.coverage for p in self.paths]
        if self.steps:
            names = [p.name for p in self.steps]
            yield stats.worst_value(
                "critical_coverage", samples, names, "worst step", higher_is_better=True
            )
        else:
            yield Value("critical_coverage", samples[0], source=f"whole window: {NO_STEPS}")

    def _time(self, name: str, path_class: PathClass) -> Value:
        us = [p.by_class[path_class] / 1e3 for p in self.paths]
        assumed = sum(a.count for a in self.assumptions)
        rests = f", {assumed} of its links assumed" if assumed else ""
        if not self.steps:
            return Value(name, us[0], source=f"whole window{rests}: {NO_STEPS}")
        return stats.median_value(name, us, f"median of {len(us)} steps{rests}")

    @property
    def items(self) -> tuple[Item, ...]:
        """The names on all paths together, by time, the most first."""
        total: dict[tuple[str, PathClass], tuple[int, int]] = {}
        for path in self.paths:
            for item in path.items:
                count, time = total.get((item.name, item.path_class), (0, 0))
                total[item.name, item.path_class] = count + item.count, time + item.time_ns
        found = [Item(name, kind, count, time) for (name, kind), (count, time) in total.items()]
        return tuple(sorted(found, key=lambda i: (-i.time_ns, i.name)))

    def to_frame(self) -> pd.DataFrame:
        """One row a name and class over all paths: count, time in µs, share of their length."""
        import pandas as pd

        length = sum(p.length_ns for p in self.paths)
        columns = ["name", "class", "count", "time_us", "share"]
        rows = [
            [i.name, i.path_class.name.lower(), i.count, i.time_ns / 1e3,
             i.time_ns / length if length else 0.0]
            for i in self.items
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=columns)

    def paths_frame(self) -> pd.DataFrame:
        """One row for the window and one a step: times by class in µs, coverage, bound, reason."""
        import pandas as pd

        rows = []
        for path in (self.window, *self.steps):
            row: dict[str, object] = {"name": path.name, "length_us": path.length_ns / 1e3}
            for kind in PathClass:
                row[f"{kind.name.lower()}_us"] = path.by_class[kind] / 1e3
            row["coverage"] = path.coverage
            row["bound"] = "" if path.bound is None else path.bound.name.lower()
            row["reason"] = path.reason
            rows.append(row)
        return pd.DataFrame(rows)
