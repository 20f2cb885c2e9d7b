"""One rank's trace through every question: values by metric, tables, findings, what is invalid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.above_peak import above_peak
from gpuperf_analyzers.combining import values_json, worst_of
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.counters import KernelCounters, kernel_counters
from gpuperf_analyzers.flop_agreement import flops_disagree
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.live_values import live_values
from gpuperf_analyzers.metrics import TELEMETRY, Metric, Value, absent
from gpuperf_analyzers.own_trace import (
    live_block,
    merged_values,
    steps_missing,
    timed_only,
)
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.summary import Summary, summarize_trace
from gpuperf_analyzers.telemetry import telemetry_findings
from gpuperf_analyzers.trace.classify import Device, device_findings, device_name, devices
from gpuperf_analyzers.trace.model import Finding, Trace
from gpuperf_analyzers.trace.quality import assess
from gpuperf_analyzers.trace.recomputation import recomputation
from gpuperf_analyzers.trace.steps import Step, steps

if TYPE_CHECKING:
    import pandas as pd

    from gpuperf_analyzers.timeline import Timeline

SCHEMA = 1
# 1: first version.

QUESTIONS = (
    "timeline", "kernels", "kernel_sequences", "launchers", "modules", "flops", "tensor_cores",
    "collectives", "ddp_buckets", "host", "critical_path", "memory", "saturation", "outliers",
)  # fmt: skip
"""Modules of the built-in questions, in the order of reports."""

NO_DEVICE = frozenset({"no-gpu-events", "unsupported-device", "no-events"})
"""Codes of the findings that say why a trace has no device to analyze."""

_UNLINKED_ALLOWED = 0.01
_RATES = frozenset({"flops", "tflops", "mfu", "hfu", "mamf_share"})

_ONLY_LIVE = {
    "throughput": "items per step are known in a live run (items= or tokens=)",
    "bandwidth": "the bytes that a step must move are known in a live run (bytes=)",
    "speedup": "no other callable was timed beside it: gpuperf.ratio(fast, slow)",
    "mamf_share": "the measured maximum of the device is known in a live run on it",
    "peak_memory": "what was alive at the start is known in a live run; "
    "peak_memory_growth is what the trace shows",
}


@dataclass(frozen=True, slots=True)
class DeviceAnalysis:
    """One device of one trace.

    ``results`` has each question's own result by the question's name; ``values`` what they and
    the live block say of the metrics.
    """

    device: Device
    name: str
    steps: tuple[Step, ...]
    results: Mapping[str, Any]
    values: Mapping[str, Value]

    @property
    def label(self) -> str:
        """``cpu`` or ``device 0``."""
        return "cpu" if self.device == "cpu" else f"device {self.device}"

    @property
    def timeline(self) -> Timeline:
        """The timeline, which every device has."""
        found: Timeline = self.results["timeline"]
        return found


@dataclass(frozen=True, slots=True)
class Analysis:
    """One trace.

    Attributes
    ----------
    path, rank, world_size
        As the trace has them.
    device_name, device_type
        Of the first device: the driver's name and ``cuda``, or ``cpu`` twice; "" where the trace
        has no device to analyze.
    metrics
        The metrics of the configuration, which give units and order.
    values
        One value a metric, present or absent with the reason. Of several devices the worst,
        named in ``at``.
    findings
        What was seen of the trace's trustworthiness.
    invalid
        Metrics that must not be judged, with the reason.
    block
        The live run's own measurements, None in a foreign trace.
    devices
        Each device with its results.
    counters
        CUPTI's counters by kernel, where the trace has them; such a trace has no times of kernels.
    summary
        All of it in a paragraph of plain words.
    """

    path: str
    rank: int | None
    world_size: int | None
    device_name: str
    device_type: str
    metrics: Mapping[str, Metric]
    values: Mapping[str, Value]
    findings: tuple[Finding, ...]
    invalid: Mapping[str, str]
    block: LiveBlock | None
    devices: tuple[DeviceAnalysis, ...]
    counters: tuple[KernelCounters, ...]
    summary: Summary

    @property
    def label(self) -> str:
        """``rank 3``, or "" where the trace does not say."""
        return "" if self.rank is None else f"rank {self.rank}"

    def to_frame(self) -> pd.DataFrame:
        """One row a metric: value, unit, interval, n, source, absent reason, place."""
        import pandas as pd

        rows = values_json(self.values, self.metrics)
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric").reset_index()

    def to_json(self) -> dict[str, Any]:
        """Everything but the questions' tables, as plain JSON types."""
        return {
            "schema": SCHEMA,
            "path": self.path,
            "rank": self.rank,
            "world_size": self.world_size,
            "device_name": self.device_name,
            "device_type": self.device_type,
            "summary": self.summary.to_json(),
            "values": values_json(self.values, self.metrics),
            "findings": [finding_json(f) for f in self.findings],
            "invalid": dict(self.invalid),
            "live": None if self.block is None else self.block.to_json(),
            "counters": [asdict(c) for c in self.counters],
            "devices": [_device_json(d, self.metrics) for d in self.devices],
        }


def analyze(trace: Trace, config: Config | None = None) -> Analysis:
    """Every question answered for every device of `trace`.

    A trace of one's own (it has a block ``gpuperf``) is read as it was measured: times of samples
    taken with the profiler off, counted FLOPs, memory alive at the start.
    """
    config = config or load_config()
    block, unread = live_block(trace)
    findings = (*assess(trace, config), *device_findings(trace), *unread)
    found = tuple(_device(trace, config, device, block) for device in devices(trace))
    findings += tuple(f for device in found for f in _flops_incomplete(device, block))
    findings += tuple(f for device in found for f in above_peak(device.values))
    only_times = not found and timed_only(trace, block)
    if block is not None and not only_times:
        findings += steps_missing(block, min((len(d.steps) for d in found), default=0), config)
    if block is not None:
        findings += telemetry_findings(block, config.metrics)
    if block is not None and len(found) == 1:
        findings += tuple(flops_disagree(trace, config, block, found[0].steps))
    counters = kernel_counters(trace)
    nothing = no_device_reason(findings)
    if counters:
        nothing = (
            f"hardware counters of {len(counters)} kernels were recorded, one kernel at a time; "
            "such a trace has counts and no times"
        )
    invalid = (
        invalid_metrics(findings) if found or only_times else _nothing_to_judge(findings, config)
    )
    return Analysis(
        path=trace.path,
        rank=trace.rank,
        world_size=trace.world_size,
        device_name=_name(found, block),
        device_type=_type(found, block),
        metrics=config.metrics,
        values=_values(found, config, findings, block if only_times else None),
        findings=tuple(dict.fromkeys(findings)),
        invalid=invalid,
        block=block,
        devices=found,
        counters=counters,
        summary=summarize_trace(found, findings, config.thresholds, nothing=nothing),
    )


def invalid_metrics(findings: tuple[Finding, ...]) -> dict[str, str]:
    """Metrics that the findings make invalid, each with the first reason."""
    reasons: dict[str, str] = {}
    for finding in findings:
        for metric in sorted(finding.invalidates):
            at = f"{finding.at}: " if finding.at else ""
            reasons.setdefault(metric, f"{at}{finding.message} ({finding.code})")
    return reasons


def _nothing_to_judge(findings: tuple[Finding, ...], config: Config) -> dict[str, str]:
    """Every metric, with the reason that there is no device."""
    reason = no_device_reason(findings)
    return dict.fromkeys(config.metrics, reason)


def no_device_reason(findings: tuple[Finding, ...]) -> str:
    """Why a trace has no device to analyze."""
    codes = (f"{f.message} ({f.code})" for f in findings if f.code in NO_DEVICE)
    return next(codes, "the trace has nothing to analyze")


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as plain JSON types."""
    return {**asdict(finding), "invalidates": sorted(finding.invalidates)}


def _device(
    trace: Trace, config: Config, device: Device, block: LiveBlock | None
) -> DeviceAnalysis:
    results: dict[str, Any] = {}
    for question in QUESTIONS:
        module = import_module(f"gpuperf_analyzers.{question}")
        results[question] = module.analyze(trace, config, device)
    for extra in config.analyzers:
        results[extra.name] = extra.analyze(trace, config)
    values = {v.name: v for result in results.values() for v in result.metrics()}
    if block is None:
        values["mfu"] = _mfu(trace, values.get("hfu"))
    else:
        values |= merged_values(trace, config, device, block, results["timeline"], values)
    return DeviceAnalysis(
        device, device_name(trace, device), steps(trace, device, config), results, values
    )


def _flops_incomplete(found: DeviceAnalysis, block: LiveBlock | None) -> Iterator[Finding]:
    """Kernels that no op is known to have launched may be matmuls: a count without them is low."""
    kernels = found.results["kernels"]
    flops = found.results["flops"]
    whole = kernels.kernel_time_us
    if not whole or flops.absent_reason or kernels.unlinked_us / whole <= _UNLINKED_ALLOWED:
        return
    counted_live = frozenset() if block is None else _RATES
    share = 100 * kernels.unlinked_us / whole
    yield Finding(
        "flops-incomplete",
        f"{share:.1f}% of kernel time has no launch record: its FLOPs are not counted",
        kernels.unlinked,
        invalidates=_RATES - counted_live,
    )


def _mfu(trace: Trace, hfu: Value | None) -> Value:
    """MFU of a foreign trace: HFU where no FLOP was made twice, else absent."""
    if hfu is None or hfu.value is None:
        return absent("mfu", (hfu and hfu.absent_reason) or "no FLOPs are known")
    again = recomputation(trace)
    if again is not None:
        return absent("mfu", f"{again}: executed FLOPs are more than the model's")
    return replace(hfu, name="mfu", source=f"{hfu.source}, no recomputation seen")


def _values(
    found: tuple[DeviceAnalysis, ...],
    config: Config,
    findings: tuple[Finding, ...],
    timed: LiveBlock | None,
) -> dict[str, Value]:
    """One value a metric: the worst device's, or why there is none.

    `timed` is the block of a workload that ran no torch op: its times stand all the same.
    """
    if timed is not None:
        known = live_values(timed, peaks=config.peaks)
        reason = "the workload ran no torch op"
        return {name: known.get(name) or absent(name, reason) for name in config.metrics}
    if not found:
        reason = no_device_reason(findings)
        return {name: absent(name, reason) for name in config.metrics}
    several = len(found) > 1
    return {
        name: worst_of(
            metric,
            [
                (d.label if several else "", d.values.get(name) or _unanswered(metric, d.device))
                for d in found
            ],
        )
        for name, metric in config.metrics.items()
    }


def _unanswered(metric: Metric, device: Device) -> Value:
    """Why no question yields `metric` on `device`."""
    if device == "cpu" and metric.cpu == "no":
        return absent(metric.name, "not defined on a CPU")
    if metric.name in TELEMETRY:
        return absent(metric.name, "NVML is sampled in a live run")
    return absent(metric.name, _ONLY_LIVE.get(metric.name, "not in this trace"))


def _name(found: tuple[DeviceAnalysis, ...], block: LiveBlock | None) -> str:
    if block is not None and block.device_type != "cpu":
        return block.device
    return found[0].name if found else ""


def _type(found: tuple[DeviceAnalysis, ...], block: LiveBlock | None) -> str:
    if not found:
        return "" if block is None else block.device_type
    return "cpu" if found[0].device == "cpu" else "cuda"


def _device_json(found: DeviceAnalysis, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    return {
        "device": found.device,
        "name": found.name,
        "steps": [
            {
                "name": s.name,
                "start_us": s.start / 1e3,
                "step_time_us": s.step_time / 1e3,
                "by_time": s.by_time,
            }
            for s in found.steps
        ],
        "values": values_json(found.values, metrics),
    }
