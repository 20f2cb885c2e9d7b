"""What a failure shows beside the number that fell short: shares of the step, the top ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.limits import Judgement, Verdict, worst
from gpuperf_analyzers.memory_causes import causes_json, memory_causes
from gpuperf_analyzers.own_trace import FEWEST_STEPS_FOR_AN_INTERVAL

if TYPE_CHECKING:
    from gpuperf_analyzers.analysis import Analysis, DeviceAnalysis
    from gpuperf_analyzers.set_analysis import SetAnalysis

_TOP_OPS = 3


def evidence_of(
    analysis: Analysis | SetAnalysis, judgements: Sequence[Judgement]
) -> dict[str, Any]:
    """Shares of compute, exposed communication and idle, and the top ops.

    Over the steps where these are enough for an interval, else over the window, as the metrics
    are. Of several ranks and devices the one that the worst judgement names, else the first.
    Empty where the trace has no device to analyze.
    """
    found = _device(analysis, judgements)
    if found is None:
        return {}
    timeline = found.timeline
    enough = len(timeline.steps) >= FEWEST_STEPS_FOR_AN_INTERVAL
    spans = timeline.steps if enough else (timeline.window,)
    whole = sum(s.window_ns for s in spans)
    shares: dict[str, Any] = {}
    if whole:
        shares = {
            "compute": sum(s.compute_ns for s in spans) / whole,
            "exposed_comm": sum(s.exposed_comm_ns for s in spans) / whole,
            "idle": sum(s.idle_ns for s in spans) / whole,
        }
    return {
        **shares,
        "top_ops": _top_ops(found),
        "memory": _memory(_rank(analysis, judgements), judgements, found.label),
    }


def _memory(rank: Analysis, judgements: Sequence[Judgement], device: str) -> list[dict[str, Any]]:
    """The largest causes of each limit on memory that is not met."""
    rows = []
    for metric in dict.fromkeys(j.metric for j in judgements if j.verdict is not Verdict.PASS):
        rows += causes_json(metric, memory_causes(rank, metric, device))
    return rows


def _device(
    analysis: Analysis | SetAnalysis, judgements: Sequence[Judgement]
) -> DeviceAnalysis | None:
    devices = _rank(analysis, judgements).devices
    named = _named(judgements)
    return next((d for d in devices if d.label in named), devices[0] if devices else None)


def _rank(analysis: Analysis | SetAnalysis, judgements: Sequence[Judgement]) -> Analysis:
    ranks: Sequence[Analysis] = getattr(analysis, "ranks", None) or (analysis,)  # type: ignore[assignment]
    named = _named(judgements)
    return next((r for r in ranks if r.label and r.label in named), ranks[0])


def _named(judgements: Sequence[Judgement]) -> list[str]:
    """What the worst judgement says of where."""
    verdict = worst(j.verdict for j in judgements)
    at = next((j.at for j in judgements if j.verdict is verdict), "")
    return [part.strip() for part in at.split(",")]


def _top_ops(found: DeviceAnalysis) -> list[dict[str, Any]]:
    """The ops that took the most device time, with their share of it."""
    kernels = found.results["kernels"]
    return [
        {"name": name, "time_us": time_us, "share": share}
        for name, time_us, share in kernels.top_ops(_TOP_OPS)
    ]
