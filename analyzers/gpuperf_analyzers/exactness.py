"""Which counts of a measurement do not vary, so that a baseline may hold them to be equal.

A count is taken as exact only after three identical repeats past the warm-up: the profiled steps
of each device and rank, each by itself. One that varies (autotuning, memory freed on another
stream, data-dependent shapes) is told with what it was, and is judged by its range instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuperf_analyzers.analysis import Analysis, DeviceAnalysis
    from gpuperf_analyzers.metrics import Metric
    from gpuperf_analyzers.set_analysis import SetAnalysis

FEWEST_REPEATS = 3
"""Identical repeats that make a count exact."""

_COUNTED = ("graph_breaks", "recompiles", "allocator_retries")
_ALWAYS_KEPT = (
    "kernel_launches", "host_syncs", "host_to_device", "device_to_host", "flops", "allocations",
    "peak_memory", "peak_memory_growth", "collectives", "collective_bytes", *_COUNTED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Count:
    """One count of one measurement.

    Attributes
    ----------
    metric
        Its name.
    value
        What is judged: of several steps, devices and ranks the worst.
    low, high
        The range that it may have been in: both are ``value`` where it is exact.
    repeats
        Fewest repeats past the warm-up of any device and rank.
    reason
        Why it is not exact; "" where it is.
    """

    metric: str
    value: float
    low: float
    high: float
    repeats: int
    reason: str

    @property
    def exact(self) -> bool:
        """Whether it did not vary in three repeats or more."""
        return not self.reason


def counts(
    analysis: Analysis | SetAnalysis, limited: frozenset[str] = frozenset()
) -> dict[str, Count]:
    """The counts of a measurement by metric; one that has no value or is INVALID is left out.

    Parameters
    ----------
    analysis
        Of one trace, or of all ranks.
    limited
        Metrics to look at beside the usual ones.
    """
    found = {}
    for name in dict.fromkeys((*_ALWAYS_KEPT, *sorted(limited))):
        metric, value = analysis.metrics.get(name), analysis.values.get(name)
        if metric is None or not countable(metric) or value is None or value.value is None:
            continue
        if name in analysis.invalid:
            continue
        found[name] = _count(name, float(value.value), list(_series(analysis, name)))
    return found


def countable(metric: Metric) -> bool:
    """Whether `metric` counts something, so that it can be exact at all."""
    return metric.unit in ("count", "bytes", "FLOP") and not metric.source.startswith("NVML")


def _count(name: str, value: float, series: list[tuple[float, ...]]) -> Count:
    repeats = min((len(s) for s in series), default=0)
    if not series:
        return Count(name, value, value, value, 1, "counted once, not step by step")
    low, high = min(min(s) for s in series), max(max(s) for s in series)
    varying = next((s for s in series if len(set(s)) > 1), None)
    if varying is not None:
        shown = ", ".join(f"{v:,.0f}" for v in varying[:4])
        more = ", …" if len(varying) > 4 else ""
        reason = f"it varies between steps ({shown}{more})"
        width = max(max(s) - min(s) for s in series)
        return Count(name, value, value - width, value, repeats, reason)
    if repeats < FEWEST_REPEATS:
        steps = "1 step was" if repeats == 1 else f"{repeats} steps were"
        reason = f"{steps} profiled: it takes {FEWEST_REPEATS} identical ones (steps=3)"
        return Count(name, value, low, high, repeats, reason)
    return Count(name, value, value, value, repeats, "")


def _series(analysis: Analysis | SetAnalysis, name: str) -> Iterator[tuple[float, ...]]:
    """The repeats of each device and rank; nothing where it is not repeated."""
    ranks: tuple[Analysis, ...] = getattr(analysis, "ranks", None) or (analysis,)  # type: ignore[assignment]
    for rank in ranks:
        if name in _COUNTED:
            yield from _torch_counts(rank, name)
            continue
        for device in rank.devices:
            steps = _steps(device, name)
            if steps:
                yield tuple(float(s) for s in steps)


def _torch_counts(rank: Analysis, name: str) -> Iterator[tuple[float, ...]]:
    """What torch counts itself: what each call past the first added, which must be nothing.

    A compiler that still compiles in the warm-up would count more in a longer one.
    """
    block = rank.block
    if block is None or name not in block.torch_counts:
        return
    later = block.torch_counts_later.get(name)
    if later is None:
        return
    calls = block.warmup_calls + len(block.samples_us)
    yield (0.0,) * max(calls, 1) if later == 0 else (0.0, float(later))


def _steps(device: DeviceAnalysis, name: str) -> tuple[float, ...]:
    results: Mapping[str, object] = device.results
    if name == "flops":
        return tuple(getattr(results.get("flops"), "step_flops", ()))
    if name in ("peak_memory", "peak_memory_growth"):
        return tuple(getattr(results.get("memory"), "step_peaks", ()))
    value = device.values.get(name)
    return () if value is None else value.samples
