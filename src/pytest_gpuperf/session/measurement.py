"""What one call of the fixture found out: values, judgements, verdict, and where the traces are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuperf_analyzers.limits import Judgement, Verdict, nearest
from gpuperf_analyzers.metrics import Value, absent


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement of one workload.

    Attributes
    ----------
    name
        ``name=`` of the call, ``""`` without one.
    device, device_type
        The driver's name of the device and ``cuda``, or ``cpu`` twice.
    world_size
        Number of ranks.
    values
        Every metric's value, present or absent with the reason; also ``result["tflops"]``.
    judgements
        One a limit, in the order of declaration.
    verdict
        The worst of the judgements; None where nothing was to be judged.
    samples
        Time of each sample with the profiler off, µs a step.
    throttled_samples
        Places of those taken while the clock was held down, from 0.
    traces
        The trace files, one a rank.
    timer, stop, warmup_us, first_call_us
        As in the live block of the trace.
    evidence
        Shares of the step and the top ops, for the failure text.
    notes
        Conditions of the measurement, in words.
    findings
        What the trace's quality check saw, as plain JSON types.
    environment
        Versions and names of where it ran.
    reason
        Why there is nothing to judge, where there is not; ``""`` elsewhere.
    explained
        What accounts for what got worse since the baseline, a line each.
    observation
        What a baseline would keep of it, as plain JSON types; None where nothing.
    baseline
        What a report shows of the baseline it was compared with; None where there is none.
    """

    name: str = ""
    device: str = ""
    device_type: str = ""
    world_size: int = 1
    values: Mapping[str, Value] = field(default_factory=dict)
    judgements: tuple[Judgement, ...] = ()
    verdict: Verdict | None = None
    samples: tuple[float, ...] = ()
    throttled_samples: tuple[int, ...] = ()
    traces: tuple[Path, ...] = ()
    timer: str = ""
    stop: str = ""
    warmup_us: float = 0.0
    first_call_us: float = 0.0
    evidence: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    findings: tuple[Mapping[str, Any], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    explained: tuple[str, ...] = ()
    observation: Mapping[str, Any] | None = field(default=None, repr=False)
    baseline: Mapping[str, Any] | None = field(default=None, repr=False)

    def __getitem__(self, metric: str) -> Value:
        """The value of `metric`, absent with the reason where there is no number.

        Raises
        ------
        KeyError
            No such metric.
        """
        if metric in self.values:
            return self.values[metric]
        if not self.values:
            return absent(metric, self.reason or "nothing was measured")
        raise KeyError(f"no metric {metric!r}{nearest(metric, self.values)}")

    def quantile(self, q: float) -> float:
        """The smallest sample, µs, that at least a share `q` of the samples do not exceed.

        Raises
        ------
        ValueError
            No samples were taken, or `q` is outside (0, 1].
        """
        if not self.samples:
            raise ValueError(self.reason or "no samples were timed")
        from gpuperf_analyzers.stats import quantile

        return quantile(self.samples, q)


def result_record(
    measurement: Measurement,
    *,
    test: str,
    units: Mapping[str, str],
    extra_info: Mapping[str, object],
) -> dict[str, Any]:
    """`measurement` as the JSON-able record that reports are made of.

    Parameters
    ----------
    measurement
        What was found out.
    test
        Node id of the test.
    units
        Unit of each metric.
    extra_info
        What the test wants to be kept beside the numbers.
    """
    m = measurement
    return {
        "test": test,
        "name": m.name,
        "verdict": None if m.verdict is None else m.verdict.value,
        "device": m.device,
        "device_type": m.device_type,
        "world_size": m.world_size,
        "limits": [_limit_record(j) for j in m.judgements],
        "values": {name: _value_record(v, units.get(name, "")) for name, v in m.values.items()},
        "explained": list(m.explained),
        "baseline": None if m.baseline is None else dict(m.baseline),
        "evidence": dict(m.evidence),
        "traces": [str(path) for path in m.traces],
        "timer": m.timer,
        "samples_us": list(m.samples),
        "throttled_samples": list(m.throttled_samples),
        "stop": m.stop,
        "warmup_us": m.warmup_us,
        "first_call_us": m.first_call_us,
        "notes": list(m.notes),
        "findings": [dict(f) for f in m.findings],
        "environment": dict(m.environment),
        "extra_info": dict(extra_info),
        "failure": m.reason or None,
    }


def _limit_record(judgement: Judgement) -> dict[str, Any]:
    j = judgement
    return {
        "text": j.text,
        "metric": j.metric,
        "direction": j.direction,
        "limit": j.limit,
        "verdict": j.verdict.value,
        "value": j.value,
        "interval": None if j.interval is None else list(j.interval),
        "reason": j.reason,
        "at": j.at,
        "unit": j.unit,
    }


def _value_record(value: Value, unit: str) -> dict[str, Any]:
    return {
        "value": value.value,
        "interval": None if value.interval is None else list(value.interval),
        "n": value.n,
        "source": value.source,
        "absent_reason": value.absent_reason,
        "at": value.at,
        "unit": unit,
    }
