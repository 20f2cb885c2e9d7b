"""A failed result in three lines: what fell short, the evidence, what to look at.

Takes the JSON-able record of a result and nothing else, so that a live test, a worker of a
parallel run and the command say the same. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuperf_analyzers.display import harmless, show, show_apart, show_interval
from gpuperf_analyzers.metrics import BUILTIN, MEMORY_BY_CATEGORY

_CPU_TITLES = {m.name: m.cpu_title for m in BUILTIN if m.cpu_title}
_HARD = ("FAIL", "INVALID")
_NOT_COMPARED = frozenset({"NO-BASELINE", "INCOMPARABLE"})
"""Verdicts that speak of the baseline; where this run's time went explains none of them."""

_LOOK_AT: Mapping[str, str] = {
    "overlap": "which collectives start late or run alone",
    "exposed_comm": "which collectives start late or run alone",
    "comm_time": "sizes and number of the collectives",
    "idle": "what the host did in the longest gaps",
    "idle_time": "what the host did in the longest gaps",
    "busy": "what the host did in the longest gaps",
    "host_syncs": "the op that each synchronization came from",
    "kernel_launches": "many short kernels under one op (fuse, compile or capture a graph)",
    "host_to_device": "copies that could stay on the device or be made once",
    "device_to_host": "copies that could stay on the device or be made once",
    "peak_memory": "what was alive at the peak",
    "peak_memory_growth": "what was alive at the peak",
    "speedup": "what the two callables do differently",
    "bandwidth": "whether the work fills the device, and what it moves beside the declared bytes",
    "tflops": "the ops that take time without FLOPs, and their dtypes and shapes",
    "mfu": "the ops that take time without FLOPs, and their dtypes and shapes",
    "hfu": "the ops that take time without FLOPs, and their dtypes and shapes",
    "memory_growth": "what each step makes and nobody frees",
    **dict.fromkeys(MEMORY_BY_CATEGORY, "memory by category, and the places that hold the most"),
    "reserved_over_allocated": "blocks that keep segments alive (torch.cuda.memory._dump_snapshot)",
    "allocator_retries": "blocks that keep segments alive (torch.cuda.memory._dump_snapshot)",
    "mamf_share": "the ops that take time without FLOPs, and their dtypes and shapes",
}
"""By metric: where the cause is usually found."""

_TIMES = "the ops at the top of the list, then idle time"


def failure_text(record: Mapping[str, Any]) -> str:
    """Three lines about a result that is not PASS: what, evidence, what to look at and the trace.

    The first part has a line for each limit that fell short; without any it says the first line
    of ``record["failure"]`` or the verdict. What got worse since a baseline is followed by what
    accounts for it. Where nothing could be compared, why not is all that is said.
    """
    judged: Sequence[Mapping[str, Any]] = record.get("limits") or ()
    short = [j for j in judged if j["verdict"] in _HARD] or [
        j for j in judged if j["verdict"] != "PASS"
    ]
    on_cpu = record.get("device_type") == "cpu"
    lines = [limit_text(judgement, on_cpu=on_cpu) for judgement in together(short)] or [
        _told(str(record.get("verdict") or ""), str(record.get("failure") or ""))
    ]
    lines += [harmless(line, 300) for line in record.get("explained") or ()]
    if short and all(j["verdict"] in _NOT_COMPARED for j in short):
        return "\n".join(lines)
    lines += causes_text((record.get("evidence") or {}).get("memory") or ())
    evidence = evidence_text(record.get("evidence") or {})
    if evidence:
        lines.append(f"evidence: {evidence}")
    if short or record.get("traces"):
        lines.append(_next_text(short, record.get("traces") or ()))
    return "\n".join(lines)


def together(judged: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """`judged` with those joined that could not be judged for one and the same reason.

    Ten limits of a test without a baseline are one line, not ten.
    """
    made: dict[object, Mapping[str, Any]] = {}
    for index, judgement in enumerate(judged):
        same = (judgement["verdict"], judgement.get("reason"), judgement.get("at"))
        key: object = same if judgement.get("limit") is None and judgement.get("reason") else index
        first = made.get(key)
        text = str(judgement.get("text") or judgement["metric"])
        if first is None:
            made[key] = judgement
        else:
            before = str(first.get("text") or first["metric"])
            word = text.removeprefix("exact ") if "exact " in before else text
            made[key] = {**first, "text": f"{before}, {word}"}
    return list(made.values())


def _told(verdict: str, reason: str) -> str:
    """A verdict that no limit gave, with its reason."""
    return harmless(f"{verdict} {reason}" if reason else verdict, 300)


def limit_text(judgement: Mapping[str, Any], *, on_cpu: bool = False) -> str:
    """One judgement in words: ``achieved 0.31 TFLOPS (95% CI 0.30–0.32) < 0.5 TFLOPS required``.

    On a CPU a count goes by the name of what is counted there.
    """
    metric, unit = judgement["metric"], judgement.get("unit") or ""
    where = f" on {harmless(judgement['at'], 60)}" if judgement.get("at") else ""
    reason = judgement.get("reason") or ""
    value, limit = judgement.get("value"), judgement.get("limit")
    if value is None or limit is None:
        why = f": {harmless(reason, 300)}" if reason else ""
        return (
            f"{judgement['verdict']} {harmless(judgement.get('text') or metric, 160)}{where}{why}"
        )
    if judgement.get("direction") == "regression":
        return _regression_text(judgement, where)
    shown, required = show_apart(value, limit, unit)
    interval = judgement.get("interval")
    sampled = f" (95% CI {show_interval(value, interval, unit)})" if interval else ""
    name = "achieved" if metric == "tflops" else _title(metric, on_cpu=on_cpu)
    bound = _BOUNDS.get(str(judgement.get("direction")), "allowed")
    if judgement.get("against") and judgement.get("direction") == "exact":
        bound = f"in {harmless(judgement['against'], 60)}"
    sign = _sign(value, limit)
    text = f"{name} {shown}{sampled}{where} {sign} {required} {bound}"
    if judgement["verdict"] not in {"FAIL", "PASS"}:
        text = f"{judgement['verdict']} {text}"
        text += f": {harmless(reason, 300)}" if reason else ""
    return text


_BOUNDS = {"min": "required", "exact": "in the baseline"}


def _regression_text(judgement: Mapping[str, Any], where: str) -> str:
    """``step time +17.4% worse (95% CI +12.1% to +22.7%) than the baseline, 3% allowed``.

    Above 0 is worse, whatever the metric's direction; a change to the better says so in words.
    """
    interval = judgement.get("interval")
    better = judgement["value"] < 0
    said = ", + is worse" if better else ""
    ends = f" (95% CI {_worse(interval[0])} to {_worse(interval[1])}{said})" if interval else ""
    name = judgement["metric"].replace("_", " ")
    allowed = show_apart(judgement["value"], judgement["limit"], "fraction")[1]
    before = harmless(judgement.get("against") or "the baseline", 60)
    change = f"{_worse(judgement['value'])} worse"
    if better:
        change = f"{show(-judgement['value'], 'fraction')} better"
    text = f"{name} {change}{ends}{where} than {before}, "
    text += f"{allowed} allowed"
    reason = judgement.get("reason") or ""
    said = f"{text}: {harmless(reason, 300)}" if reason else text
    return said if judgement["verdict"] in {"FAIL", "PASS"} else f"{judgement['verdict']} {said}"


def _worse(change: float) -> str:
    """A change with its sign, plus too."""
    return f"{'−' if change < 0 else '+'}{show(abs(change), 'fraction')}"


def _title(metric: str, *, on_cpu: bool) -> str:
    analogue = _CPU_TITLES.get(metric) if on_cpu else None
    return metric.replace("_", " ") + (f" ({analogue} on a CPU)" if analogue else "")


def _sign(value: float, limit: float) -> str:
    if value == limit:
        return "="
    return "<" if value < limit else ">"


def causes_text(causes: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each metric of memory: ``peak memory, the largest: activation 12 MiB in …``."""
    by_metric: dict[str, list[str]] = {}
    for cause in causes:
        growing = cause["metric"] == "memory_growth"
        category = "" if growing or not cause.get("category") else f"{cause['category']} "
        size = show(cause["bytes"], "bytes") + (" a step" if growing else "")
        text = f"{harmless(category, 20)}{size} in {harmless(cause['where'], 80)}"
        by_metric.setdefault(cause["metric"], []).append(text)
    return [
        f"{metric.replace('_', ' ')}, the largest: {'; '.join(texts)}"
        for metric, texts in by_metric.items()
    ]


def evidence_text(evidence: Mapping[str, Any]) -> str:
    """Shares of the step window and the top ops, in one line; empty where nothing is known."""
    shares = [
        f"{title} {show(evidence[key], 'fraction')}"
        for key, title in (
            ("compute", "compute"),
            ("exposed_comm", "exposed communication"),
            ("idle", "idle"),
        )
        if evidence.get(key) is not None
    ]
    ops = [
        f"{harmless(op['name'], 40)} {show(op['time_us'], 'us')}"
        + (f" ({show(op['share'], 'fraction')})" if op.get("share") is not None else "")
        for op in (evidence.get("top_ops") or ())[:3]
    ]
    parts = [", ".join(shares)] if shares else []
    if ops:
        parts.append("top ops: " + ", ".join(ops))
    return "; ".join(parts)


def _next_text(judged: Sequence[Mapping[str, Any]], traces: Sequence[str]) -> str:
    looks = dict.fromkeys(_LOOK_AT.get(j["metric"], _TIMES) for j in judged)
    look = "; ".join(looks) or "what the run left"
    if not traces:
        return f"look at: {look} (no trace was written)"
    if len(traces) == 2 and any(j["metric"] == "speedup" for j in judged):
        slow, fast = harmless(traces[1], 300), harmless(traces[0], 300)
        return f"look at: {look}: gpuperf compare {slow} {fast}"
    more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
    return f"look at: {look}: gpuperf analyze {harmless(traces[0], 300)}{more}"
