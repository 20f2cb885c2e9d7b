"""What one window says of each metric, or why it says nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median, quantiles

from gpuperf_analyzers.metrics import TELEMETRY
from pytest_gpuperf.recording.clock_reasons import (
    ClockReason,
    is_slowed,
    is_throttled,
    reason_names,
)
from pytest_gpuperf.recording.telemetry.energy import FEWEST_UPDATES, mean_power
from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler, Watched
from pytest_gpuperf.recording.telemetry.series import Series, summarized

Summary = dict[str, dict[str, float]]

SHORTEST_S = 1.0
"""A window below it is too short: the driver averages power and utilization over up to 1 s."""

_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sm_clock": median,
    "memory_clock": median,
    "power": fmean,
    "temperature": max,
    "gpu_util": fmean,
    "memory_used": max,
    "pcie_rx": fmean,
    "pcie_tx": fmean,
}
_LOOK_BACK = frozenset({"power", "gpu_util"})
"""Averages over up to the last second: readings of the first second are partly of before."""
_MADE_OF = {
    "throttled": "reasons",
    "clock_drop": "sm_clock",
    "dram_bandwidth": "dram_active",
    "energy_per_step": "energy",
}
"""Metric: the counter that it is made of."""
_COUNTS = frozenset(
    {"lost", "ecc_corrected", "ecc_uncorrected", "other_contexts", "other_users"}
)  # fmt: skip
_CLOCK_EVENTS = ("slowed", "throttled", "clock_spread")
_NOT_LOOPED = "the workload is looped for it where a limit on a counter asks for it"
_STALE_ENERGY = (
    f"window-too-short: the energy counter was updated fewer than {FEWEST_UPDATES} times"
)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The summary of one window.

    Attributes
    ----------
    values
        Metric: ``{"value", "n", "min", "max"}``, and ``dcgm`` where DCGM told it.
        Beside the metrics: ``reason:NAME``, the share
        of samples in which a clock-event reason held; ``slowed``, the share with a thermal or
        hardware reason; ``clock_spread``, the SM clock's 90th less its 10th percentile over its
        median; ``window``, its seconds; ``sampler_rate``,
        the fast readings a second that were achieved (``max``: asked for); ``sampler_cost``, the
        share of a core that they took; ``xid:N``, ``ecc_corrected``, ``ecc_uncorrected``,
        ``other_contexts``, ``other_users`` and ``lost``, counts.
    absent
        Metric: why it has no value.
    """

    values: Summary = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


def telemetry_of(sampler: TelemetrySampler, calls: int | None = None) -> Telemetry:
    """What `sampler` saw of its window.

    Parameters
    ----------
    sampler
        One whose block has ended.
    calls
        Calls of the workload that the window is made of, for the energy of each; None where it
        holds other work too.
    """
    watched = sampler.watched
    values: Summary = {}
    absent = {name: reason for name, reason in watched.absent.items() if name in TELEMETRY}
    for name, counter in _MADE_OF.items():
        if counter in watched.absent:
            absent.setdefault(name, watched.absent[counter])
    if watched.begin_ns and not sampler.late:
        values = _aggregated(watched) | _clock_events(watched) | _utilization(watched, absent)
        values |= _energy(watched, calls, absent) | _conditions(watched)
    if sampler.absent_reason is not None:
        absent[""] = sampler.absent_reason
    _too_short(watched, values, absent)
    return Telemetry(values, absent)


def _seconds(watched: Watched) -> float:
    return max(0, watched.end_ns - watched.begin_ns) / 1e9


def _aggregated(watched: Watched) -> Summary:
    found: Summary = {}
    for name, aggregate in _AGGREGATES.items():
        series = watched.series.get(name)
        if not series:
            continue
        settled = series.since(watched.begin_ns + round(SHORTEST_S * 1e9))
        values = settled if settled and name in _LOOK_BACK else list(series.values)
        found[name] = summarized(values, aggregate)
    return found


def _clock_events(watched: Watched) -> Summary:
    """Throttling, each reason's share, and how far the clock fell below what the board has."""
    found: Summary = {}
    masks = [int(mask) for mask in watched.series.get("reasons", Series()).values]
    if masks:
        found["throttled"] = summarized([float(is_throttled(m)) for m in masks], fmean)
        found["slowed"] = summarized([float(is_slowed(m)) for m in masks], fmean)
        for name in dict.fromkeys(name for mask in masks for name in reason_names(mask)):
            held = [float(name in reason_names(mask)) for mask in masks]
            found[f"reason:{name}"] = summarized(held, fmean)
    clocks = watched.series.get("sm_clock")
    if clocks and len(clocks) > 1 and median(clocks.values) > 0:
        tenths = quantiles(clocks.values, n=10, method="inclusive")
        spread = (tenths[-1] - tenths[0]) / median(clocks.values)
        found["clock_spread"] = summarized([spread], fmean) | {"n": float(len(clocks))}
    limit = watched.constants.get("clock_limit", 0.0)
    if clocks and any(mask & ClockReason.APPLICATION_CLOCKS for mask in masks):
        # Someone set lower clocks: these are what it is to reach.
        limit = max(clocks.values)
    if clocks and limit > 0:
        drops = [max(0.0, 1 - clock / limit) for clock in clocks.values]
        found["clock_drop"] = summarized(drops, median)
    return found


def _utilization(watched: Watched, absent: dict[str, str]) -> Summary:
    """GPM's metrics over the whole window, and NVLink's bytes where there is no GPM."""
    found: Summary = {}
    for name, value in watched.whole.items():
        parts = watched.series.get(name)
        found[name] = summarized(parts.values if parts else [value], fmean) | {"value": value}
        if watched.whole_by_dcgm:
            found[name]["dcgm"] = 1.0
    for name in ("nvlink_rx", "nvlink_tx"):
        total = watched.series.get(f"{name}_total")
        if name not in found and total and len(total) > 1:
            moved, elapsed_ns = total.values[-1] - total.values[0], total.times[-1] - total.times[0]
            rate = moved / max(elapsed_ns, 1)  # bytes a ns are GB a second
            found[name] = summarized([rate], fmean) | {"n": float(len(total))}
            absent.pop(name, None)
    peak = watched.constants.get("memory_bandwidth")
    if peak and "dram_active" in found:
        active = found["dram_active"]
        scaled = {key: active[key] * peak for key in ("value", "min", "max")}
        found["dram_bandwidth"] = {**active, **scaled}
    return found


def _energy(watched: Watched, calls: int | None, absent: dict[str, str]) -> Summary:
    """Mean power by the energy counter, and the energy of a call where the calls are known."""
    energy = watched.series.get("energy")
    if not energy:
        absent.setdefault("energy_per_step", "the energy counter was not read")
        return {}
    power = mean_power(energy)
    if power is None:
        absent["energy_per_step"] = _STALE_ENERGY
        return {}
    found: Summary = {"energy_power": {"value": power.watts, "n": float(power.updates),
                                       "min": power.low, "max": power.high}}  # fmt: skip
    if calls is None:
        absent["energy_per_step"] = _NOT_LOOPED
    else:
        per_call_s = _seconds(watched) / calls
        found["energy_per_step"] = {
            key: value if key == "n" else value * per_call_s
            for key, value in found["energy_power"].items()
        }
    return found


def _conditions(watched: Watched) -> Summary:
    """What the values are to be judged by: the window, the sampler itself, incidents."""
    found: Summary = {
        name: {"value": float(count), "n": 1.0}
        for name, count in watched.counts.items()
        if count or name.startswith("other_")
    }
    found["window"] = {"value": _seconds(watched), "n": 1.0}
    clocks = watched.series.get("sm_clock")
    if clocks and len(clocks) > 1:
        rate = (len(clocks) - 1) / (clocks.times[-1] - clocks.times[0]) * 1e9
        found["sampler_rate"] = {"value": rate, "n": float(len(clocks)), "max": 1 / watched.asked_s}
    if watched.cost:
        found["sampler_cost"] = {"value": watched.cost, "n": 1.0}
    if watched.lost:
        found["lost"] = {"value": 1.0, "n": 1.0}
    return found


def _too_short(watched: Watched, values: Summary, absent: dict[str, str]) -> None:
    """Make every metric absent where the window is too short; the raw readings stay."""
    seconds = _seconds(watched)
    if not watched.begin_ns or seconds >= SHORTEST_S:
        return
    reason = f"window-too-short: {seconds:.2g} s were watched, and it takes {SHORTEST_S:g} s"
    for name in TELEMETRY:
        # What the device lacks it would lack in a longer window too.
        if name in values or name not in absent or absent[name] == _STALE_ENERGY:
            absent[name] = reason


def joined(samples: Telemetry, loop: Telemetry) -> Telemetry:
    """One summary of two windows that follow each other: of the samples, and of the loop.

    The metrics are the loop's. Incidents and other processes count in both: the samples are
    worth as little for them. So it is with clocks held down: what is told of them is all of the
    window in which it was worse.
    """
    values = dict(loop.values)
    if _held_down(samples) > _held_down(loop):
        values = {name: v for name, v in values.items() if not _is_of_clock_events(name)}
        values |= {name: v for name, v in samples.values.items() if _is_of_clock_events(name)}
    for name, summary in samples.values.items():
        if name in _COUNTS or name.startswith("xid:"):
            count = max(summary["value"], values.get(name, {}).get("value", 0.0))
            values[name] = {**summary, "value": count}
    return Telemetry(values, loop.absent)


def _held_down(window: Telemetry) -> tuple[float, float]:
    """How bad a window was: share of readings with heat or hardware, then with any throttling."""
    slowed, throttled = (window.values.get(n, {}).get("value", 0.0) for n in _CLOCK_EVENTS[:2])
    return slowed, throttled


def _is_of_clock_events(name: str) -> bool:
    return name in _CLOCK_EVENTS or name.startswith("reason:")
