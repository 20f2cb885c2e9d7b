"""Whether the samples taken so far decide the limits, so that sampling may stop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuperf_analyzers.limits import Direction, Limit, Verdict, compare

_US = 1e6
_FROM_SAMPLES = ("step_time", "step_time_p99", "throughput", "tflops", "mfu", "hfu")


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit on a metric that the samples decide."""

    metric: str
    direction: Direction
    bound: float


@dataclass(frozen=True, slots=True)
class Decided:
    """Says of the samples so far, µs, whether each limit is met or missed by all of its interval.

    An object rather than a closure, since it travels to the ranks of a DDP measurement.

    Attributes
    ----------
    bounds
        Limits on what is made of samples; those on the trace's events are not decided by more.
    items, flops
        Items and declared FLOP of a step; None where unknown. A limit that needs an unknown
        number is undecided: it takes all of ``max_time``.
    """

    bounds: tuple[Bound, ...]
    items: float | None = None
    flops: float | None = None

    def __call__(self, samples_us: tuple[float, ...]) -> bool:
        """Whether no limit is still ambiguous."""
        return all(self._decides(bound, samples_us) for bound in self.bounds)

    def _decides(self, bound: Bound, samples_us: tuple[float, ...]) -> bool:
        from gpuperf_analyzers.stats import median_interval, quantile_interval

        if bound.metric == "step_time_p99":
            interval = quantile_interval(samples_us, 0.99)
        elif bound.metric == "step_time":
            interval = median_interval(samples_us)
        else:
            known = {"throughput": self.items, "tflops": self.flops}.get(bound.metric)
            if known is None:
                return False
            amount = known * _US if bound.metric == "throughput" else known / _US
            interval = median_interval([amount / us for us in samples_us if us > 0])
        if interval is None:
            return False
        verdict = compare(interval[0], interval, bound.direction, bound.bound)
        return verdict is not Verdict.AMBIGUOUS


def decider(
    limits: Iterable[Limit],
    *,
    device_name: str,
    device_type: str,
    items: float | None,
    flops: float | None,
) -> Decided | None:
    """What to ask of the samples for these limits on this device; None where nothing is."""
    bounds = []
    for limit in limits:
        if limit.metric not in _FROM_SAMPLES or limit.direction not in ("min", "max"):
            continue
        found = limit.target(device_name, device_type)
        if found is None or (device_type == "cpu" and not limit.explicit_for_cpu(found[1])):
            continue
        if limit.metric == "throughput" and items is None:
            continue
        bounds.append(Bound(limit.metric, limit.direction, found[1].value))
    return Decided(tuple(bounds), items, flops) if bounds else None
