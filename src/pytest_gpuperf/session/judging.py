"""From an analysis and what was declared to a measurement with its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuperf_analyzers.limits import (
    Judgement,
    Limit,
    LimitError,
    judge,
    parse_limits,
    worst,
)
from gpuperf_analyzers.metrics import Metric, Value, absent
from pytest_gpuperf.session.evidence import evidence_of
from pytest_gpuperf.session.measurement import Measurement

if TYPE_CHECKING:
    from gpuperf_analyzers.analysis import Analysis
    from gpuperf_analyzers.live_block import LiveBlock
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from pytest_gpuperf.session.declaration import Declaration

RegionLimits = Mapping[str, tuple[Limit, ...]]

_NOT_ENTERED = "the region was not entered while samples were taken"
_TIMED_ONLY = "a region is timed, nothing else of it is measured"


def parse_region_limits(
    written: Mapping[str, Mapping[str, object]], metrics: Mapping[str, Metric]
) -> dict[str, tuple[Limit, ...]]:
    """The limits that a workload declared on its regions.

    Raises
    ------
    pytest.UsageError
        One that cannot be understood.
    """
    return {region: region_limits(region, kw, metrics) for region, kw in written.items()}


def region_limits(
    region: str, keywords: Mapping[str, object], metrics: Mapping[str, Metric]
) -> tuple[Limit, ...]:
    """The limits of one region.

    Raises
    ------
    pytest.UsageError
        One that cannot be understood.
    """
    try:
        return parse_limits(keywords, metrics)
    except LimitError as error:
        raise pytest.UsageError(f"gpuperf.region({region!r}): {error}") from None


def measurement_of(
    analysis: Analysis | SetAnalysis,
    *,
    blocks: Sequence[LiveBlock],
    traces: tuple[Path, ...],
    declaration: Declaration,
    region_limits: RegionLimits,
    notes: tuple[str, ...] = (),
) -> Measurement:
    """The measurement that `analysis` is, judged by what was declared.

    Parameters
    ----------
    analysis
        Of one trace or of a set of ranks.
    blocks
        The live block of each rank, in the order of ranks.
    traces
        The trace of each rank.
    declaration
        The test's limits.
    region_limits
        Limits by region.
    notes
        Conditions beside those in the blocks.
    """
    from gpuperf_analyzers.analysis import finding_json

    first = blocks[0]
    judgements = judge(
        analysis.values,
        declaration.limits,
        device_name=analysis.device_name or first.device,
        device_type=analysis.device_type or first.device_type,
        invalid=analysis.invalid,
    )
    for region, limits in region_limits.items():
        judgements += _judge_region(region, limits, blocks)
    return Measurement(
        name=first.name,
        device=first.device,
        device_type=first.device_type,
        world_size=len(blocks),
        values=analysis.values,
        judgements=judgements,
        verdict=worst(j.verdict for j in judgements) if judgements else None,
        samples=first.samples_us,
        traces=traces,
        timer=first.timer,
        stop=first.stop,
        warmup_us=first.warmup_us,
        first_call_us=first.first_call_us,
        evidence=evidence_of(analysis, judgements),
        notes=tuple(dict.fromkeys([*notes, *(n for block in blocks for n in block.notes)])),
        findings=tuple(finding_json(f) for f in analysis.findings),
        environment=first.environment,
    )


def _judge_region(
    region: str, limits: tuple[Limit, ...], blocks: Sequence[LiveBlock]
) -> tuple[Judgement, ...]:
    """The limits of one region against its samples on the rank where it took longest."""
    from gpuperf_analyzers.stats import median

    timed = [(i, b.regions[region]) for i, b in enumerate(blocks) if b.regions.get(region)]
    values: dict[str, Value] = {}
    at = f"region {region}"
    if timed:
        rank, samples = max(timed, key=lambda entry: median(entry[1]))
        values = _region_values(samples)
        if len(blocks) > 1:
            at += f", rank {rank}"
    for limit in limits:
        reason = _TIMED_ONLY if timed else _NOT_ENTERED
        values.setdefault(limit.metric, absent(limit.metric, reason))
    judged = judge(
        values,
        limits,
        device_name=blocks[0].device,
        device_type=blocks[0].device_type,
        invalid={},
    )
    return tuple(replace(j, at=at) for j in judged)


def _region_values(samples: tuple[float, ...]) -> dict[str, Value]:
    from gpuperf_analyzers.stats import median_value, quantile, quantile_interval

    p99 = Value(
        "step_time_p99", quantile(samples, 0.99), quantile_interval(samples, 0.99), len(samples)
    )
    return {"step_time": median_value("step_time", samples), "step_time_p99": p99}
