"""What the limits of a region are judged by: its samples, and its spans in the traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuperf_analyzers.limits import Limit
from gpuperf_analyzers.metrics import Value, absent

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.live_block import LiveBlock
    from gpuperf_analyzers.trace.model import Trace

_TIMED = ("step_time", "step_time_p99", "tflops")
_NOT_ENTERED = "the region was not entered while samples were taken"
_NOT_IN_THE_TRACE = "the region was not entered in the profiled steps"


def region_values(
    region: str,
    limits: Sequence[Limit],
    *,
    blocks: Sequence[LiveBlock],
    traces: Sequence[Trace],
    config: Config,
) -> dict[str, Value]:
    """One value for each metric that `limits` speak of, present or absent with the reason.

    Times are of the samples on the rank where the region took longest; what is seen in the
    traces is the worst rank's, over the profiled steps.

    Parameters
    ----------
    region
        Its name.
    limits
        What was declared on it.
    blocks, traces
        Of each rank, in the order of ranks.
    config
        Formulas, classifiers and metrics.
    """
    wanted = {limit.metric for limit in limits}
    of_spans = wanted - set(_TIMED) | ({"flops"} if "tflops" in wanted else set())
    values = dict(_spans(region, of_spans, traces, config)) if of_spans else {}
    timed = _times(region, blocks, values.get("flops"))
    values |= {name: timed.get(name) or absent(name, _NOT_ENTERED) for name in wanted & {*_TIMED}}
    return {name: _placed(value, region) for name, value in values.items() if name in wanted}


def _placed(value: Value, region: str) -> Value:
    return replace(value, at=", ".join(part for part in (f"region {region}", value.at) if part))


def _times(region: str, blocks: Sequence[LiveBlock], flops: Value | None) -> Mapping[str, Value]:
    """Of the samples on the rank where the region took longest."""
    from gpuperf_analyzers.stats import median, median_value, p99_value

    entered = [(i, b.regions[region]) for i, b in enumerate(blocks) if b.regions.get(region)]
    if not entered:
        return {}
    rank, samples = max(entered, key=lambda entry: median(entry[1]))
    at = f"rank {rank}" if len(blocks) > 1 else ""
    p99 = p99_value("step_time_p99", samples, at=at)
    times = {"step_time": median_value("step_time", samples, at=at), "step_time_p99": p99}
    if flops is not None:
        times["tflops"] = _rate(flops, samples, at)
    return times


def _rate(flops: Value, samples: Sequence[float], at: str) -> Value:
    """FLOP of the spans over the samples, where every step made as many."""
    from gpuperf_analyzers.stats import median_value

    if flops.value is None:
        return absent("tflops", flops.absent_reason or "no FLOPs are known")
    if len(set(flops.samples)) > 1:
        return absent("tflops", "the region's FLOPs differ from step to step")
    if min(samples) <= 0:
        return absent("tflops", "the clock does not resolve the region")
    rates = [flops.value / us / 1e6 for us in samples]
    return median_value("tflops", rates, "op shapes, timed with the profiler off", at)


def _spans(
    region: str, wanted: set[str], traces: Sequence[Trace], config: Config
) -> Mapping[str, Value]:
    """Of the region's spans in the traces: the worst rank and device."""
    from gpuperf_analyzers.combining import worst_of
    from gpuperf_analyzers.spans import REGION, analyze_span

    found = [
        (f"rank {rank}" if len(traces) > 1 else "", device)
        for rank, trace in enumerate(traces)
        for device in analyze_span(trace, config, REGION + region, per_step=True)
    ]
    if not found:
        return {name: absent(name, _NOT_IN_THE_TRACE) for name in wanted}
    return {
        name: worst_of(
            config.metrics[name], [(label, device.values[name]) for label, device in found]
        )
        for name in wanted
    }
