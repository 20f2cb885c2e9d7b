"""Sampled series as the counter events of a trace, on the trace's own clock.

Chrome's format: ``ph: C``, one value a series in ``args``; a value holds until the next event of
its name. Viewers draw the tracks of a process under its rows, so they are given the process that
the profiler shows the device's streams under.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pytest_gpuperf.recording.clock_reasons import is_throttled, reason_names
from pytest_gpuperf.recording.telemetry.sampler import Watched

CATEGORY = "gpuperf"
_UNITS = {
    "sm_clock": ("MHz", 1.0), "memory_clock": ("MHz", 1.0), "power": ("W", 1.0),
    "temperature": ("°C", 1.0), "gpu_util": ("%", 100.0), "memory_used": ("bytes", 1.0),
    "sm_active": ("%", 100.0), "sm_occupancy": ("%", 100.0), "tensor_active": ("%", 100.0),
    "dram_active": ("%", 100.0), "fp64_active": ("%", 100.0), "fp32_active": ("%", 100.0),
    "fp16_active": ("%", 100.0), "pcie_rx": ("GB/s", 1.0), "pcie_tx": ("GB/s", 1.0),
    "nvlink_rx": ("GB/s", 1.0), "nvlink_tx": ("GB/s", 1.0),
}  # fmt: skip
"""Metric: unit of its track, and the factor to it."""

_OF_AN_INTERVAL = frozenset(
    {"sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active",
     "fp16_active", "nvlink_rx", "nvlink_tx"}
)  # fmt: skip
"""Metrics of the time since the reading before, which a track shows from there on."""


def track_events(
    watched: Watched, base_ns: int, process: int, *, since_ns: int = 0
) -> list[dict[str, Any]]:
    """The counter events of one window.

    Parameters
    ----------
    watched
        What was sampled.
    base_ns
        The trace's ``baseTimeNanoseconds``, 0 where its times are absolute.
    process
        ``pid`` of the events: the device's index, as the profiler has it.
    since_ns
        When the trace begins: the last value before holds there.
    """
    events: list[dict[str, Any]] = []

    def add(name: str, values: Iterable[tuple[int, dict[str, float]]]) -> None:
        for at_ns, args in _from(since_ns, values):
            at_us = (at_ns - base_ns) / 1e3
            events.append(
                {"ph": "C", "cat": CATEGORY, "name": name, "pid": process, "ts": at_us,
                 "args": args}
            )  # fmt: skip

    for name, (unit, factor) in _UNITS.items():
        add(name, [(at, {unit: value * factor}) for at, value in _shown(name, watched)])
    masks = [(at, int(mask)) for at, mask in _shown("reasons", watched)]
    add("throttled", [(at, {"throttled": float(is_throttled(mask))}) for at, mask in masks])
    names = tuple(dict.fromkeys(name for _, mask in masks for name in reason_names(mask)))
    if names:
        add("clock_reasons", [(at, _held(mask, names)) for at, mask in masks])
    return sorted(events, key=lambda event: float(event["ts"]))


def _held(mask: int, names: tuple[str, ...]) -> dict[str, float]:
    held = reason_names(mask)
    return {name: float(name in held) for name in names}


def _from(
    since_ns: int, values: Iterable[tuple[int, dict[str, float]]]
) -> Iterator[tuple[int, dict[str, float]]]:
    """Those at `since_ns` or later, and the last one before as of then."""
    before: dict[str, float] | None = None
    for at_ns, args in values:
        if at_ns < since_ns:
            before = args
            continue
        if before is not None:
            yield since_ns, before
            before = None
        yield at_ns, args
    if before is not None:
        yield since_ns, before


def _shown(name: str, watched: Watched) -> Iterator[tuple[int, float]]:
    """When each value of the counter `name` begins to hold."""
    begin_ns = watched.begin_ns
    if begin_ns and name in watched.opening:
        yield begin_ns, watched.opening[name]
    for at_ns, value in watched.series.get(name, ()):
        yield (begin_ns if name in _OF_AN_INTERVAL else at_ns), value
        begin_ns = at_ns
