"""A count against the baseline's: equal, better, worse; by its range where it varies."""

from __future__ import annotations

from collections.abc import Sequence

from gpuperf_analyzers.display import show_apart
from gpuperf_analyzers.exactness import FEWEST_REPEATS
from gpuperf_analyzers.limits import Judgement, Limit, Verdict
from gpuperf_analyzers.metrics import Metric
from pytest_gpuperf.baselines.model import CountSince, Entry

BETTER = "better than the baseline ({now} after {before}): `gpuperf baseline update` takes it in"


def judge_exact(
    limit: Limit, metric: Metric, entry: Entry, now: tuple[float, float, str] | None, absent: str
) -> tuple[Judgement, str]:
    """The judgement of one ``exact`` limit, and a note; "" where there is nothing to note.

    An exact count passes where it is equal or better, and fails where it is worse. One that
    varies, now or in the baseline, is judged by its range over all kept runs: FAIL where every
    repeat is worse than the worst there, PASS where none is, else AMBIGUOUS.

    Parameters
    ----------
    limit, metric
        The limit, and what it speaks of.
    entry
        What is stored.
    now
        Lowest and highest of this run, and why it is not exact ("" where it is); None where it
        has no value.
    absent
        Why it has none.
    """
    stored = entry.count(limit.metric)
    if now is None:
        return _said(limit, Verdict.UNMEASURED, absent or "not measured"), ""
    low, high, reason = now
    if stored is None:
        why = f"the baseline has no {limit.metric}: save it anew"
        return _said(limit, Verdict.NO_BASELINE, why, value=high), ""
    sign = -1.0 if metric.better == "higher" else 1.0
    worst_now = high if sign > 0 else low
    if not reason and _is_exact(stored, entry):
        bound = stored.high
        if worst_now == bound:
            return _said(limit, Verdict.PASS, "", value=worst_now, bound=bound), ""
        if sign * (worst_now - bound) > 0:
            return _said(limit, Verdict.FAIL, "", value=worst_now, bound=bound), ""
        shown = show_apart(worst_now, bound, limit.unit)
        note = f"{limit.metric}: {BETTER.format(now=shown[0], before=shown[1])}"
        return _said(limit, Verdict.PASS, "", value=worst_now, bound=bound), note
    return _by_range(limit, sign, entry, (low, high), reason or _why_not(stored))


def _is_exact(stored: CountSince, entry: Entry) -> bool:
    """Three identical repeats in one run, or the same value in three runs."""
    runs = [r for r in entry.runs if r >= stored.run]
    return stored.exact or (stored.low == stored.high and len(runs) >= FEWEST_REPEATS)


def _why_not(stored: CountSince) -> str:
    if stored.low == stored.high:
        return "the baseline has it of one repeat"
    return f"it varied in the baseline ({stored.low:,.0f} to {stored.high:,.0f})"


def _by_range(
    limit: Limit, sign: float, entry: Entry, now: tuple[float, float], why: str
) -> tuple[Judgement, str]:
    known = _kept(entry, limit.metric)
    worst = max(sign * v for c in known for v in (c.low, c.high))
    least, most = sorted(sign * v for v in now)
    several = now[0] != now[1]
    bound = sign * worst
    note = f"{limit.metric} is not exact: {why}; judged by its range"
    value = sign * most
    if most <= worst:
        return _said(limit, Verdict.PASS, why, value=value, bound=bound), note
    if least > worst and several:
        return _said(limit, Verdict.FAIL, why, value=value, bound=bound), note
    return _said(limit, Verdict.AMBIGUOUS, f"not exact: {why}", value=value, bound=bound), note


def _kept(entry: Entry, metric: str) -> Sequence[CountSince]:
    return entry.counts[metric]


def _said(
    limit: Limit, verdict: Verdict, reason: str, *,
    value: float | None = None, bound: float | None = None,
) -> Judgement:  # fmt: skip
    return Judgement(
        limit.text, limit.metric, "exact", limit.unit, verdict, bound, value, None, reason
    )
