"""``region(name)``: a part of the workload that is timed on its own.

While samples are taken, a region is marked by the timer in use; under the profiler it is an
annotation ``gpuperf.region:NAME``; at any other time it does nothing. What is active is one
object per process, so that threads of the workload are seen too.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.recording.timers import Timer

PREFIX = "gpuperf.region:"


class RegionLog:
    """Regions met during one recording: their samples and their declared limits."""

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.timing = False
        self.annotating = False
        self.sample = 0
        self.limits: dict[str, Mapping[str, object]] = {}
        self.samples_us: dict[str, list[float]] = {}
        self._spans: list[tuple[int, str, Any, Any]] = []

    def add(self, name: str, start: Any, end: Any) -> None:
        """Keep one passage through the region `name`, of the sample under way."""
        self._spans.append((self.sample, name, start, end))

    def flush(self, calls: int) -> None:
        """Turn the passages since the last flush into samples, per call of `calls` a sample.

        Passages of one region in one sample add up. A sample that never entered the region
        gives it none.
        """
        totals: dict[tuple[str, int], float] = {}
        for sample, name, start, end in self._spans:
            key = (name, sample)
            totals[key] = totals.get(key, 0.0) + self.timer.elapsed_us(start, end)
        self._spans.clear()
        for (name, _), total in totals.items():
            self.samples_us.setdefault(name, []).append(total / calls)


_active: RegionLog | None = None
_open = threading.local()


def activate(log: RegionLog | None) -> RegionLog | None:
    """Make `log` the one that regions report to; the former one comes back."""
    global _active  # one recording at a time is what a process can measure
    former, _active = _active, log
    return former


class Region:
    """The context manager that :func:`region` returns."""

    __slots__ = ("_annotation", "_log", "_name", "_outermost", "_start")

    def __init__(self, name: str, limits: Mapping[str, object]) -> None:
        self._name = name
        self._log = _active
        if self._log is not None and limits:
            self._log.limits[name] = limits
        self._start: Any = None
        self._annotation: Any = None
        self._outermost = True

    def __enter__(self) -> None:
        log = self._log
        if log is None:
            return
        names: set[str] = _open.__dict__.setdefault("names", set())
        # A region inside itself is already being timed: counting it again would double it.
        self._outermost = self._name not in names
        names.add(self._name)
        if log.annotating:
            self._annotation = import_torch().profiler.record_function(PREFIX + self._name)
            self._annotation.__enter__()
        elif log.timing and self._outermost:
            self._start = log.timer.mark()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        log = self._log
        if log is None:
            return
        if self._annotation is not None:
            self._annotation.__exit__(kind, error, traceback)
        elif self._start is not None:
            log.add(self._name, self._start, log.timer.mark())
        if self._outermost:
            _open.names.discard(self._name)


def region(name: str, **limits: object) -> Region:
    """A part of the workload, timed on its own and annotated in the trace.

    Parameters
    ----------
    name
        What the part is called in the results.
    **limits
        ``max_step_time="3ms"`` and the like, judged on this part.

    Raises
    ------
    ValueError
        `name` is empty.
    """
    if not name:
        raise ValueError("gpuperf: a region needs a name")
    return Region(name, limits)
