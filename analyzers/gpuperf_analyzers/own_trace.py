"""A trace of one's own: its live block read, checked against the events, and merged with them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.live_block import LiveBlock, parse_live_block
from gpuperf_analyzers.live_values import live_values
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.timeline import Timeline
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.model import Finding, Trace
from gpuperf_analyzers.trace.recomputation import recomputation

FEWEST_STEPS_FOR_AN_INTERVAL = 6
_LIVE_SCOPE = frozenset(
    {"step_time", "step_time_p99", "throughput", "bandwidth", "tflops", "mfu", "hfu", "mamf_share"}
)
"""Metrics that a live run times without the profiler: lost steps leave them right."""


def live_block(trace: Trace) -> tuple[LiveBlock | None, tuple[Finding, ...]]:
    """The live run's block in `trace`, or None; with a finding where there is one we cannot use."""
    raw = trace.metadata.get("gpuperf")
    if raw is None:
        return None, ()
    try:
        return parse_live_block(raw), ()
    except ValueError as error:
        return None, (Finding("bad-live-block", f"not used: {error}", example=str(raw)[:80]),)


def merged_values(
    trace: Trace,
    config: Config,
    device: Device,
    block: LiveBlock,
    timeline: Timeline,
    values: Mapping[str, Value],
) -> dict[str, Value]:
    """The values that stand in place of the events': timed without the profiler, or counted.

    Ratios become ratios of sums over the steps, with an interval, where the steps are enough of
    a sample.
    """
    growth = values.get("peak_memory_growth")
    merged = live_values(
        block,
        peaks=config.peaks,
        growth_bytes=None if growth is None else growth.value,
        recomputation=recomputation(trace),
        sms=multiprocessors(trace, device),
    )
    if len(timeline.steps) >= FEWEST_STEPS_FOR_AN_INTERVAL:
        merged |= {value.name: value for value in timeline.ratios_over_steps()}
    return merged


def steps_missing(block: LiveBlock, found: int, config: Config) -> tuple[Finding, ...]:
    """A finding where the trace does not hold as many steps as the live run asked for."""
    if not block.steps or found == block.steps:
        return ()
    return (
        Finding(
            "steps-missing",
            f"{block.steps} steps were recorded, the trace shows {found}",
            count=abs(block.steps - found),
            invalidates=frozenset(
                name
                for name, metric in config.metrics.items()
                if metric.scope != "run" and name not in _LIVE_SCOPE
            ),
        ),
    )


def timed_only(trace: Trace, block: LiveBlock | None) -> bool:
    """Whether a CPU workload ran no torch op, so that its times are all there is to know.

    That the profiler worked is known from the step spans it recorded.
    """
    if block is None or block.device_type != "cpu" or not block.samples_us:
        return False
    spans = sum(name.startswith("ProfilerStep#") for name in trace.strings)
    return spans == block.steps


def multiprocessors(trace: Trace, device: Device) -> int | None:
    """Multiprocessors of `device` as the trace's device properties give them."""
    for properties in trace.device_properties:
        if properties.get("id") == device:
            count = properties.get("numSms", properties.get("multi_processor_count"))
            return count if isinstance(count, int) else None
    return None
