"""Whether a metric got worse by more than is allowed: one value before, one after, one verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuperf_analyzers.limits import Judgement, Limit, Verdict, compare
from gpuperf_analyzers.metrics import Metric, Value

FEW_SAMPLES = "fewer than six steps {side}: judged by the median alone, its spread is not known"
STRADDLES = "the interval straddles the limit"


def judge_regressions(
    limits: Iterable[Limit],
    before: Mapping[str, Value],
    after: Mapping[str, Value],
    metrics: Mapping[str, Metric],
    *,
    invalid: Mapping[str, str],
    incomparable: str = "",
) -> tuple[Judgement, ...]:
    """Each limit ``max_regression`` against the change from `before` to `after`.

    The change is ``after / before − 1`` (``1 − after / before`` where higher is better), so that
    above 0 is worse. Its interval takes the far ends of both sides' 95% intervals, which holds
    with more than 90% whatever their distributions; a side without one (under six samples) counts
    as exact, and that is said. A change below the limit's absolute floor is none.

    Parameters
    ----------
    limits
        Of direction ``regression``.
    invalid
        Metrics that cannot be judged on either side, with the reason.
    incomparable
        Why the two sides cannot be judged against each other; "" where they can.
    """
    return tuple(
        _judge(limit, before, after, metrics[limit.metric], invalid, incomparable)
        for limit in limits
        if limit.direction == "regression" and limit.default is not None
    )


def _judge(
    limit: Limit,
    before: Mapping[str, Value],
    after: Mapping[str, Value],
    metric: Metric,
    invalid: Mapping[str, str],
    incomparable: str,
) -> Judgement:
    def say(
        verdict: Verdict, reason: str, bound: float | None = None,
        value: float | None = None, interval: tuple[float, float] | None = None,
    ) -> Judgement:  # fmt: skip
        return Judgement(
            limit.text, limit.metric, "regression", "fraction", verdict, bound, value, interval,
            reason, after[metric.name].at if metric.name in after else "",
        )  # fmt: skip

    if metric.name in invalid:
        return say(Verdict.INVALID, invalid[metric.name])
    if incomparable:
        return say(Verdict.INCOMPARABLE, incomparable)
    for values, side in ((before, "before"), (after, "after")):
        found = values.get(metric.name)
        if found is None or found.value is None:
            why = "not measured" if found is None else found.absent_reason
            return say(Verdict.UNMEASURED, f"{side}: {why}")
    old, new = before[metric.name], after[metric.name]
    change = relative_change(old, new, higher_is_better=metric.better == "higher")
    if change is None:
        return say(Verdict.UNMEASURED, "the value before is 0")
    value, interval = change
    bound = _bound(limit, old)
    verdict = compare(value, interval, "max", bound)
    reason = STRADDLES if verdict is Verdict.AMBIGUOUS else ""
    few = [side for v, side in ((old, "before"), (new, "after")) if not v.interval]
    if few and metric.unit != "count":
        unknown = FEW_SAMPLES.format(side=" and ".join(few))
        reason = f"{reason}; {unknown}" if reason else unknown
    return say(verdict, reason, bound, value, interval)


def relative_change(
    before: Value, after: Value, *, higher_is_better: bool = False
) -> tuple[float, tuple[float, float] | None] | None:
    """How much worse `after` is, as a fraction of `before`, with its interval.

    None where a side has no value or the value before is not above 0.
    """
    old, new = before.value, after.value
    if old is None or new is None or old <= 0:
        return None
    sign = -1 if higher_is_better else 1
    value = sign * (new - old) / old  # 103 on 100 is 0.03 this way, and a bit more as a ratio
    if before.interval is None and after.interval is None:
        return value, None
    old_low, old_high = before.interval or (old, old)
    new_low, new_high = after.interval or (new, new)
    if old_low <= 0:
        return value, None
    ends = sorted((sign * (new_low - old_high) / old_high, sign * (new_high - old_low) / old_low))
    return value, (ends[0], ends[1])


def _bound(limit: Limit, before: Value) -> float:
    """What is allowed, as a fraction: the share, or the floor where that is more."""
    target = limit.default
    if target is None or before.value is None:
        return 0.0
    return max(target.value, (target.floor or 0.0) / before.value)
