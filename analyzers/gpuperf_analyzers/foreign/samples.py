"""Readings of a device over time as values of our metrics, aggregated as the metric table says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from gpuperf_analyzers.metrics import Value, absent

AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "gpu_util": fmean,
    "sm_clock": median,
    "power": fmean,
    "temperature": max,
    "throttled": fmean,
    "clock_drop": median,
    "memory_used": max,
    "pcie_rx": fmean,
    "pcie_tx": fmean,
    "nvlink_rx": fmean,
    "nvlink_tx": fmean,
    "sm_active": fmean,
    "sm_occupancy": fmean,
    "tensor_active": fmean,
    "dram_active": fmean,
    "fp64_active": fmean,
    "fp32_active": fmean,
    "fp16_active": fmean,
}
"""Metric of the device: how several readings become one, as the live sampler does it."""

THROTTLE_MASK = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""nvmlClocksEventReason: SW power cap, HW slowdown, SW and HW thermal, HW power brake."""
_MOMENT = "one moment, not a window"


def values_of(
    readings: Mapping[str, Sequence[float]], source: str, missing: Mapping[str, str] | None = None
) -> dict[str, Value]:
    """One value a metric of :data:`AGGREGATES`: present where it was read, else with the reason.

    Parameters
    ----------
    readings
        Readings by metric, in the metric's unit, in the order taken.
    source
        Who read them.
    missing
        Why a metric has none, where more is known than that the file does not hold it.
    """
    found = {}
    for name, aggregate in AGGREGATES.items():
        values = readings.get(name, ())
        if not values:
            reason = (missing or {}).get(name, f"not in this output of {source}")
            found[name] = absent(name, reason)
            continue
        told = [source]
        if len(values) > 1:
            told.append(f"min {min(values):g}, max {max(values):g}")
        else:
            told.append(_MOMENT)
        found[name] = Value(name, float(aggregate(values)), n=len(values), source=", ".join(told))
    return found
