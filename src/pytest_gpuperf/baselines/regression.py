"""A sampled value against the runs that are stored: the statistics are the analyzers'."""

from __future__ import annotations

import math

from gpuperf_analyzers.limits import Judgement, Limit, Verdict
from gpuperf_analyzers.metrics import Metric
from gpuperf_analyzers.regression import FALSE_ALARM, Allowed, Decision, RunValue, judge_runs
from pytest_gpuperf.baselines.model import Entry
from pytest_gpuperf.baselines.observation import Observation


def judge_regression(
    limit: Limit, metric: Metric, entry: Entry, now: Observation, *, absent: str, family: int
) -> Judgement:
    """The judgement of one ``max_regression`` limit.

    Parameters
    ----------
    limit, metric
        The limit, and what it speaks of.
    entry
        What is stored.
    now
        This run.
    absent
        Why it has no value, where it has none.
    family
        How many such limits the whole run judges: they share one false-alarm rate.
    """
    counted = metric.name in now.counts
    current = _current(metric.name, now, counted=counted)
    if current is None:
        return _said(limit, Verdict.UNMEASURED, absent or "not measured")
    saved = _saved(metric.name, entry, counted=counted)
    if not saved:
        why = f"the baseline has no {metric.name}: save it anew"
        return _said(limit, Verdict.NO_BASELINE, why)
    target = limit.default
    assert target is not None  # noqa: S101 - the parser gives every such limit one
    allowed = Allowed(
        relative=target.value,
        floor=target.floor or 0.0,
        higher_is_better=metric.better == "higher",
        deterministic=counted,
    )
    key = limit.metric
    decided = judge_runs(
        {key: saved}, {key: [current]}, {key: allowed}, false_alarm=FALSE_ALARM / max(1, family)
    )[key]
    return _judgement(limit, decided)


def _current(metric: str, now: Observation, *, counted: bool) -> RunValue | None:
    if counted:
        low, high, _ = now.counts[metric]
        return RunValue(high if math.isfinite(high) else low)
    if metric not in now.sampled:
        return None
    value, tenth, _ = now.sampled[metric]
    return RunValue(value, tenth, disturbed=now.disturbed)


def _saved(metric: str, entry: Entry, *, counted: bool) -> list[RunValue]:
    if counted:
        known = [c for run in entry.runs if (c := entry.count_in(metric, run)) is not None]
        return [RunValue(c.high) for c in known]
    return [
        RunValue(s.value, s.best_tenth, disturbed=entry.disturbed.get(s.run, ""))
        for s in entry.sampled.get(metric, ())
    ]


def _judgement(limit: Limit, decided: Decision) -> Judgement:
    interval = decided.interval
    if interval is not None and not all(map(math.isfinite, interval)):
        interval = None
    return Judgement(
        limit.text, limit.metric, "regression", "fraction", decided.verdict, decided.bound,
        decided.change, interval, decided.reason,
    )  # fmt: skip


def _said(limit: Limit, verdict: Verdict, reason: str) -> Judgement:
    return Judgement(
        limit.text, limit.metric, "regression", "fraction", verdict, None, None, None, reason
    )
