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
    Verdict,
    judge,
    parse_limits,
    worst,
)
from gpuperf_analyzers.metrics import Metric
from pytest_gpuperf.session.baseline import Baselines, Compared, Observed
from pytest_gpuperf.session.evidence import evidence_of
from pytest_gpuperf.session.measurement import Measurement
from pytest_gpuperf.session.region_values import region_values

if TYPE_CHECKING:
    from gpuperf_analyzers.analysis import Analysis
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.live_block import LiveBlock
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import Trace
    from pytest_gpuperf.session.declaration import Declaration

RegionLimits = Mapping[str, tuple[Limit, ...]]

_AGAINST_BASELINES = ("regression", "exact")
_NO_REGIONS = (
    "baselines hold whole measurements, no regions: measure the region by itself, "
    "gpuperf(fn, name=...)"
)
_TIMED_LIVE = frozenset({"step_time", "step_time_p99"})
"""Metrics of a region that are of its samples alone."""


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
    traces: Sequence[Trace],
    config: Config,
    declaration: Declaration,
    region_limits: RegionLimits,
    notes: tuple[str, ...] = (),
    test: str = "",
    stored_as: str = "",
    baselines: Baselines | None = None,
) -> Measurement:
    """The measurement that `analysis` is, judged by what was declared.

    Parameters
    ----------
    analysis
        Of one trace or of a set of ranks.
    blocks
        The live block of each rank, in the order of ranks.
    traces
        The trace of each rank, as read; its path is kept.
    config
        The resolved hookspecs.
    declaration
        The test's limits.
    region_limits
        Limits by region.
    notes
        Conditions beside those in the blocks.
    test, stored_as
        Node id of the test, and what the measurement is called in a baseline.
    baselines
        Whoever keeps baselines.
    """
    from gpuperf_analyzers.analysis import finding_json

    first = blocks[0]
    notes = tuple(dict.fromkeys([*notes, *(n for block in blocks for n in block.notes)]))
    judgements = judge(
        analysis.values,
        declaration.limits,
        device_name=analysis.device_name or first.device,
        device_type=analysis.device_type or first.device_type,
        invalid=analysis.invalid,
    )
    compared = Compared()
    if baselines is not None:
        limits = tuple(m for m in declaration.limits if m.direction in _AGAINST_BASELINES)
        observed = Observed(test, stored_as, analysis, blocks, traces, config, limits, notes)
        compared = baselines.compared(observed)
        judgements = _in_place(judgements, compared.judgements)
    judgements += _of_regions(region_limits, analysis, blocks, traces, config)
    return Measurement(
        name=first.name,
        device=first.device,
        device_type=first.device_type,
        world_size=len(blocks),
        values=analysis.values,
        judgements=judgements,
        verdict=worst(j.verdict for j in judgements) if judgements else None,
        samples=first.samples_us,
        throttled_samples=first.throttled_samples,
        traces=tuple(Path(trace.path) for trace in traces),
        timer=first.timer,
        stop=first.stop,
        warmup_us=first.warmup_us,
        first_call_us=first.first_call_us,
        evidence=evidence_of(analysis, judgements),
        notes=(*notes, *compared.notes),
        findings=tuple(finding_json(f) for f in analysis.findings),
        environment=first.environment,
        explained=compared.explained,
        observation=compared.observation,
        baseline=compared.baseline,
    )


def _of_regions(
    region_limits: RegionLimits,
    analysis: Analysis | SetAnalysis,
    blocks: Sequence[LiveBlock],
    traces: Sequence[Trace],
    config: Config,
) -> tuple[Judgement, ...]:
    """The limits on the workload's regions, judged."""
    # Lost kernels or steps are lost to a region too; its times are not the trace's.
    invalid = {m: why for m, why in analysis.invalid.items() if m not in _TIMED_LIVE}
    judgements: tuple[Judgement, ...] = ()
    for region, limits in region_limits.items():
        judgements += judge(
            region_values(region, limits, blocks=blocks, traces=traces, config=config),
            limits,
            device_name=blocks[0].device,
            device_type=blocks[0].device_type,
            invalid=invalid,
        )
    return tuple(
        replace(j, reason=_NO_REGIONS) if j.verdict is Verdict.NO_BASELINE else j
        for j in judgements
    )


def _in_place(
    judgements: tuple[Judgement, ...], compared: tuple[Judgement, ...]
) -> tuple[Judgement, ...]:
    """`judgements` with those against a baseline in place of what stood for them."""
    waiting = iter(compared)
    return tuple(next(waiting, j) if j.direction in _AGAINST_BASELINES else j for j in judgements)
