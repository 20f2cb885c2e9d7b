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


def track_events(watched: Watched, base_ns: int, process: int) -> list[dict[str, Any]]:
    """The counter events of one window.

    Parameters
    ----------
    watched
        What was sampled.
    base_ns
        The trace's ``baseTimeNanoseconds``, 0 where its times are absolute.
    process
        ``pid`` of the events: the device's index, as the profiler has it.
    """
    events: list[dict[str, Any]] = []

    def add(name: str, at_ns: int, args: dict[str, float]) -> None:
        at_us = (at_ns - base_ns) / 1e3
        events.append(
            {"ph": "C", "cat": "gpuperf", "name": name, "pid": process, "ts": at_us, "args": args}
        )

    for name, (unit, factor) in _UNITS.items():
        for at_ns, value in _shown(name, watched):
            add(name, at_ns, {unit: value * factor})
    masks = [(at, int(mask)) for at, mask in watched.series.get("reasons", ())]
    names = tuple(dict.fromkeys(name for _, mask in masks for name in reason_names(mask)))
    for at_ns, mask in masks:
        add("throttled", at_ns, {"throttled": float(is_throttled(mask))})
        if names:
            held = reason_names(mask)
            add("clock_reasons", at_ns, {name: float(name in held) for name in names})
    return sorted(events, key=lambda event: float(event["ts"]))


def _shown(name: str, watched: Watched) -> Iterator[tuple[int, float]]:
    """When each value of the counter `name` begins to hold."""
    series: Iterable[tuple[int, float]] = watched.series.get(name, ())
    begin_ns = watched.begin_ns
    for at_ns, value in series:
        yield (begin_ns if name in _OF_AN_INTERVAL else at_ns), value
        begin_ns = at_ns
