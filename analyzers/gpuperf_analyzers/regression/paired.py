"""A/B: pairs of processes, one of each revision, judged by their differences.

The unit is a pair of processes launched one after the other, the order alternating; what is
compared is the difference of the logarithms of their medians. Samples within one process are not
independent pieces of evidence: they share its memory layout, its core and its moment.

Assumption: without a change a pair's difference is symmetric about 0, which holds because its two
processes are exchangeable, and pairs are independent of each other. A drift common to both sides
cancels but for a step within a pair, whose sign alternates with the order; that makes the test
careful. Outliers and several modes cost power and not truth: the test is one of ranks and signs
(:mod:`.signed_rank`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gpuperf_analyzers.display import counted
from gpuperf_analyzers.regression.decision import (
    FALSE_ALARM,
    MISS,
    Allowed,
    Decision,
    exact_decision,
    holm,
    unusable,
)
from gpuperf_analyzers.regression.schedule import Look
from gpuperf_analyzers.regression.signed_rank import (
    centre_of,
    signed_rank_interval,
    signed_rank_p,
)
from gpuperf_analyzers.stats import median
from gpuperf_analyzers.verdicts import Verdict

EXACT_REPEATS = 3
"""Equal values on a side after which a deterministic metric is taken exactly."""

Pairs = Sequence[tuple[float, float]]
"""(value before, value after) of each pair, in the order they were run."""


def pair_effects(pairs: Pairs, allowed: Allowed) -> list[float]:
    """How much worse the later revision was in each pair, as a difference of logarithms."""
    return [allowed.log_change(before, after) for before, after in pairs]


def judge_pairs(
    pairs: Mapping[str, Pairs],
    allowed: Mapping[str, Allowed],
    look: Look,
    *,
    earlier: Mapping[str, Decision] | None = None,
    false_alarm: float = FALSE_ALARM,
    miss: float = MISS,
) -> dict[str, Decision]:
    """Every test's decision at one look; what an earlier look decided stands.

    FAIL where "no worse than allowed" is rejected at this look's share of `false_alarm`, corrected
    by Holm over all tests that have not failed yet; PASS where "as bad as allowed or worse" is
    rejected at this look's share of `miss`; else AMBIGUOUS, with ``more`` while looks remain.

    Parameters
    ----------
    pairs
        By test. Each has as many as the look says, or more or fewer where a process gave no value.
    allowed
        By test, for all of `pairs`.
    look
        Of a :class:`Schedule`.
    earlier
        What the look before returned.
    """
    earlier = earlier or {}
    decided = {name: d for name, d in earlier.items() if not d.more and name in pairs}
    open_tests = [name for name in pairs if name not in decided]
    failed = sum(d.verdict is Verdict.FAIL and d.p_fail is not None for d in decided.values())
    exact = {name: _without_statistics(pairs[name], allowed[name], look) for name in open_tests}
    tested = [name for name in open_tests if exact[name] is None]
    p_values = {name: _p(pairs[name], allowed[name]) for name in tested}
    levels = holm(
        {name: p for name, (p, _) in p_values.items()},
        false_alarm * look.false_alarms,
        family=max(1, len(pairs) - failed),
    )
    found = dict(decided)
    for name in open_tests:
        known = exact[name]
        found[name] = known or _judge(
            pairs[name], allowed[name], look, p_values[name], levels[name],
            strictest=false_alarm * look.false_alarms / max(1, len(pairs) - failed),
            tail=miss * look.misses,
        )  # fmt: skip
    return {name: found[name] for name in pairs}


def _without_statistics(pairs: Pairs, allowed: Allowed, look: Look) -> Decision | None:
    """The decision where there is nothing to test; None where there is."""
    if not pairs:
        return Decision(
            Verdict.INVALID, reason="no pair of processes gave a value", more=not look.last
        )
    sides = [before for before, _ in pairs], [after for _, after in pairs]
    n = len(pairs)
    for values, side in zip(sides, ("before", "after"), strict=True):
        why = unusable(values, side)
        if why:
            return Decision(Verdict.INVALID, reason=why, n_before=n, n_after=n)
    equal = all(len(set(values)) == 1 for values in sides)
    if allowed.deterministic and equal and len(pairs) >= EXACT_REPEATS:
        return exact_decision(allowed, sides[0][0], sides[1][0], n_before=n, n_after=n)
    if any(0.0 in values for values in sides):
        if equal:
            return exact_decision(allowed, sides[0][0], sides[1][0], n_before=n, n_after=n)
        why = "a value of 0 has no relative change"
        return Decision(Verdict.INVALID, reason=why, n_before=n, n_after=n)
    return None


def _p(pairs: Pairs, allowed: Allowed) -> tuple[float, float]:
    centre = allowed.log_bound(median([before for before, _ in pairs]))
    effects = pair_effects(pairs, allowed)
    if math.isinf(centre):
        return 1.0, 0.0  # the floor is above the whole value: no loss can reach it
    return signed_rank_p(effects, centre)


def _judge(
    pairs: Pairs,
    allowed: Allowed,
    look: Look,
    p_values: tuple[float, float],
    level: float,
    *,
    strictest: float,
    tail: float,
) -> Decision:
    before, after = median([b for b, _ in pairs]), median([a for _, a in pairs])
    effects = pair_effects(pairs, allowed)
    low, high = signed_rank_interval(effects, tail)
    p_fail, p_pass = p_values
    verdict, reason = Verdict.AMBIGUOUS, _open_reason(len(pairs), look, p_fail, strictest)
    compared = f"{counted(len(pairs), 'pair')} of processes"
    if p_fail <= level:
        verdict, reason = Verdict.FAIL, f"{compared}, p {p_fail:.2g}"
    elif p_pass <= tail:
        verdict, reason = Verdict.PASS, f"{compared}, p {p_pass:.2g}"
    return Decision(
        verdict,
        allowed.as_change(centre_of(effects)),
        (allowed.as_change(low), allowed.as_change(high)),
        allowed.bound(before),
        before,
        after,
        n_before=len(pairs),
        n_after=len(pairs),
        reason=reason,
        more=verdict is Verdict.AMBIGUOUS and not look.last,
        p_fail=p_fail,
        p_pass=p_pass,
        needed=level or strictest,
    )


def _open_reason(count: int, look: Look, p_fail: float, strictest: float) -> str:
    """Why it is open after `count` pairs."""
    if 0.5**count > strictest and p_fail <= 0.5**count * (1 + 1e-9):
        need = math.ceil(-math.log2(strictest))
        return (
            f"every one of {count} pairs is beyond the limit, and so many tests at once take "
            f"{need} pairs to say so"
        )
    said = f"{count} pairs of processes leave the interval across the limit"
    return said if not look.last else f"{said}, and no more were to be run"
