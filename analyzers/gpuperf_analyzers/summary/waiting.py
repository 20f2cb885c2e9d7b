"""The sentence about a device that waits for its host, and what the host was at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuperf_analyzers.outliers import OutliersResult
from gpuperf_analyzers.summary.sentence import (
    Answered,
    Evidence,
    Sentence,
    Subject,
    named,
    percent,
    time,
    value_of,
)
from gpuperf_analyzers.thresholds import Thresholds
from gpuperf_analyzers.trace.parts import HOST_PARTS, Part

_CODES = {
    Part.DATA: "data-loading",
    Part.COMPILATION: "compilation",
    Part.COLLECTION: "garbage-collection",
    Part.SYNC: "synchronization",
    Part.LAUNCHING: "launch-bound",
    Part.OPS: "launch-bound",
    Part.BETWEEN: "between-ops",
}

_ISSUING = (Part.LAUNCHING, Part.OPS, Part.BETWEEN)
"""Parts that say little by themselves where one gap is most of the wait."""


def host_wait(device: Answered, who: Subject, limits: Thresholds) -> Sentence | None:
    """How much of the step the device waits for the host, and why; None below the threshold."""
    found: OutliersResult = device.results["outliers"]
    share = found.share(*HOST_PARTS)
    if share < limits.host_wait:
        return None
    evidence = [Evidence("waiting for the CPU / step", share, "fraction")]
    if who.cpu:
        return _on_cpu(device, who, limits, share, evidence)
    text = f"{who.name} waits {percent(share)} of {who.of} for the CPU"
    parts = {part: found.share(part) for part in HOST_PARTS}
    first, most = _largest(parts)
    gap = _one_gap(device, share, found, limits) if first in _ISSUING else None
    if gap is not None:
        length, words, launched = gap
        evidence.append(Evidence("longest gap", length, "us"))
        if launched:  # the host had done its part: it is not what was waited for
            text = f"{who.name} stands idle for {percent(share)} of {who.of}"
        return Sentence("one-gap", f"{text}: {words}.", tuple(evidence), share)
    evidence.append(Evidence(_CODES[first], most, "fraction"))
    told = _reason(device, who, first, evidence)
    rest = {p: s for p, s in parts.items() if _CODES[p] != _CODES[first]}
    second = max(rest, key=lambda part: rest[part])
    alone = most >= limits.main_cause * share
    if alone and rest[second] < limits.host_wait:
        return Sentence(_CODES[first], f"{text}: {told}.", tuple(evidence), share)
    evidence.append(Evidence(_CODES[second], rest[second], "fraction"))
    text += f": {percent(most)} since {told}, {percent(rest[second])} {_in_short(second)}"
    return Sentence(_CODES[first], f"{text}.", tuple(evidence), share)


def _largest(parts: Mapping[Part, float]) -> tuple[Part, float]:
    """The part with the most time; dispatching an op and launching its kernels count as one."""
    merged = dict(parts)
    merged[Part.OPS] += merged.pop(Part.LAUNCHING)
    first = max(merged, key=lambda part: merged[part])
    return first, merged[first]


def _on_cpu(
    device: Answered, who: Subject, limits: Thresholds, share: float, evidence: list[Evidence]
) -> Sentence:
    """On a CPU nothing waits for a host: it is time outside of ops."""
    found: OutliersResult = device.results["outliers"]
    parts = {part: found.share(part) for part in HOST_PARTS}
    first = max(parts, key=lambda part: parts[part])
    evidence.append(Evidence(_CODES[first], parts[first], "fraction"))
    if first is Part.BETWEEN or parts[first] < limits.main_cause * share:
        text = f"No op runs for {percent(parts[Part.BETWEEN])} of {who.of}: that is Python between"
        text += " the ops, or something that the trace does not record."
        return Sentence(_CODES[Part.BETWEEN], text, tuple(evidence), share)
    told = _reason(device, who, first, evidence)
    text = f"{percent(share)} of {who.of} goes by without an op of the model: {told}."
    return Sentence(_CODES[first], text, tuple(evidence), share)


def _one_gap(
    device: Answered, share: float, found: OutliersResult, limits: Thresholds
) -> tuple[float, str, bool] | None:
    """The one gap that is most of the wait: µs, in words, and whether its end had been launched.

    None where the wait is made of many.
    """
    gaps = device.results["timeline"].gaps
    length = sum(p.length_ns for p in found.parts)
    if len(found.parts) > 1 or not gaps:
        return None
    gap = gaps[0]
    waited = gap.host_bound + gap.launch_latency
    if waited < limits.main_cause * share * length or waited < gap.duration / 2:
        return None
    words = f"one gap of {time(gap.duration / 1e3)}"
    if gap.next_activity:
        words += f" before {named(gap.next_activity)}"
    ran: Sequence[tuple[str, int]] = sorted((*gap.cpu_ops, *gap.calls), key=lambda r: -r[1])
    launched = gap.launch_latency > gap.host_bound
    if launched:
        words += ", which had been launched and did not start"
    elif ran and ran[0][1] >= limits.main_cause * gap.duration:
        words += f", while the host is in {named(ran[0][0])}"
    else:
        words += ", with no op on the host for most of it"
    return gap.duration / 1e3, words, launched


def _reason(device: Answered, who: Subject, part: Part, evidence: list[Evidence]) -> str:
    """What the host is at, in words."""
    host = device.results["host"]
    if part is Part.DATA:
        names = [d.name for d in host.delays if d.kind == part.value]
        evidence += _metric(device, "dataloader_time", "us")
        where = f" in {named(names[0])}" if names else ""
        return f"it loads the next batch{where}"
    if part in {Part.COMPILATION, Part.COLLECTION}:
        names = [d.name for d in host.delays if d.kind == part.value]
        what = f" ({named(names[0])})" if names else ""
        return f"it {'compiles' if part is Part.COMPILATION else 'collects garbage'}{what}"
    if part is Part.SYNC:
        return _after_syncs(device, host, evidence)
    if part is Part.BETWEEN:
        if not any(s.cpu_ops for s in host.steps):
            return "the trace records no CPU ops, so what the CPU did is not known"
        return "no op runs on it meanwhile: it is in Python, or in something not recorded"
    return _issuing(device, host, who, evidence)


def _after_syncs(device: Answered, host: Any, evidence: list[Evidence]) -> str:
    evidence += _metric(device, "host_syncs", "count")
    syncs = value_of(device, "host_syncs")
    many = f"{syncs:,.0f} a step" if syncs and host.stepped else f"{syncs or 0:,.0f} of them"
    text = f"it had waited for the GPU before and had launched nothing ahead ({many}"
    first = host.syncs[0] if host.syncs else None
    if first is not None:
        text += f", chiefly {first.call} in {named(first.op) or 'no op'}"
    return text + ")"


def _issuing(device: Answered, host: Any, who: Subject, evidence: list[Evidence]) -> str:
    """Launch-bound: how many launches, of how short kernels."""
    found: OutliersResult = device.results["outliers"]
    kernels = device.results["kernels"]
    length = sum(p.length_ns for p in found.parts)
    launches = sum(s.launches or 0 for s in host.steps)
    text = "it does not issue work fast enough"
    if launches and kernels.kernels:
        mean = kernels.kernel_time_us / kernels.kernels
        every = length / 1e3 / launches
        evidence += _metric(device, "kernel_launches", "count")
        evidence += [Evidence("between launches", every, "us"), Evidence("mean kernel", mean, "us")]
        text += f", a launch every {time(every)} for kernels of {time(mean)} on average"
    if found.host_meanwhile:
        name, ns = found.host_meanwhile[0]
        evidence.append(Evidence(name, ns / 1e3, "us"))
        text += f" (longest in {named(name)}, {percent(ns / length)} of {who.of})"
    return text


def _in_short(part: Part) -> str:
    return {
        Part.DATA: "for the DataLoader",
        Part.COMPILATION: "for compilation",
        Part.COLLECTION: "for garbage collection",
        Part.SYNC: "after synchronizations",
        Part.LAUNCHING: "while it issues work",
        Part.OPS: "while it issues work",
        Part.BETWEEN: "outside of any op",
    }[part]


def _metric(device: Answered, name: str, unit: str) -> list[Evidence]:
    value = value_of(device, name)
    return [] if value is None else [Evidence(name, value, unit)]
