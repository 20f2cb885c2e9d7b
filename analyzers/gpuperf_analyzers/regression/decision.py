"""What is allowed, what was decided, and the correction for many tests at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuperf_analyzers.verdicts import Verdict

FALSE_ALARM = 0.01
"""Probability that a run says FAIL of any test whose true change is within its limit."""
MISS = 0.025
"""Probability that one test whose true change is at or beyond its limit is called PASS."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The change for the worse that a limit allows.

    Attributes
    ----------
    relative
        As a fraction of the value before, 0 or more (``0.03``).
    floor
        The same in the metric's own unit; a change below it is none.
    higher_is_better
        Whether a smaller value is the worse one.
    deterministic
        Whether the metric does not vary by nature (a count, bytes, FLOP): then values that are
        all equal on a side are taken exactly, without statistics.

    Raises
    ------
    ValueError
        A number that is negative or not finite, or a relative loss of 100% and more.
    """

    relative: float
    floor: float = 0.0
    higher_is_better: bool = False
    deterministic: bool = False

    def __post_init__(self) -> None:
        for name, value in (("relative", self.relative), ("floor", self.floor)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: a change allowed is a number from 0 on, not {value!r}")
        if self.higher_is_better and self.relative >= 1:
            raise ValueError("relative: a value that may fall to nothing has no limit")

    def bound(self, before: float) -> float:
        """What is allowed of `before`, as a fraction: the share, or the floor where it is more."""
        return max(self.relative, self.floor / before) if before > 0 else self.relative

    def log_bound(self, before: float) -> float:
        """:meth:`bound` as a difference of logarithms; infinite where nothing is too much."""
        bound = self.bound(before)
        if not self.higher_is_better:
            return math.log1p(bound)
        return -math.log1p(-bound) if bound < 1 else math.inf

    def log_change(self, before: float, after: float) -> float:
        """How much worse `after` is than `before`, as a difference of logarithms (0.01 is 1%)."""
        change = math.log(after) - math.log(before)
        return -change if self.higher_is_better else change

    def as_change(self, log_change: float) -> float:
        """A difference of logarithms as the fraction of the value before; above 0 is worse."""
        if self.higher_is_better:
            return -math.expm1(-log_change) if log_change > -700 else -math.inf
        return math.expm1(log_change) if log_change < 700 else math.inf


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided of one test's metric.

    Attributes
    ----------
    verdict
        PASS, FAIL, AMBIGUOUS, INVALID or NO-BASELINE.
    change
        How much worse it is, as a fraction of the value before; below 0 is better.
    interval
        Where the true change is with 95%, whichever look ended the sampling; an end is infinite
        where the runs do not bound it. None where there is no number.
    bound
        The change allowed, as a fraction; None where there is no number.
    before, after
        Median over processes on each side, in the metric's unit.
    n_before, n_after
        How many processes each side was measured in.
    reason
        One clause: why there is no PASS or FAIL, or what the verdict rests on.
    more
        Whether more runs could still decide it.
    p_fail, p_pass
        Of the hypotheses "no worse than allowed" and "as bad as allowed or worse"; None where the
        decision is not a statistical one.
    needed
        What ``p_fail`` had to be at most for a FAIL at this look, this test's place among all
        tests of the run counted; None as above.
    """

    verdict: Verdict
    change: float | None = None
    interval: tuple[float, float] | None = None
    bound: float | None = None
    before: float | None = None
    after: float | None = None
    n_before: int = 0
    n_after: int = 0
    reason: str = ""
    more: bool = False
    p_fail: float | None = None
    p_pass: float | None = None
    needed: float | None = None


def holm(p_values: Mapping[str, float], level: float, *, family: int) -> dict[str, float]:
    """Of each name the level that its p-value had to reach; 0 behind the first that did not.

    Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979): the i-th smallest of
    ``family`` p-values is held to ``level/(family − i)``, i from 0, until one misses it. Whatever
    the dependence between tests, the probability of any false rejection is at most `level`. A
    name is rejected where ``p_values[name] <= holm(...)[name]``.

    Parameters
    ----------
    p_values
        Those known; hypotheses of the family without one count as never rejected.
    level
        The family-wise error.
    family
        How many hypotheses there are.

    Raises
    ------
    ValueError
        A family smaller than the p-values given.
    """
    if family < len(p_values):
        raise ValueError(f"{len(p_values)} p-values in a family of {family}")
    levels: dict[str, float] = {}
    going = True
    for i, name in enumerate(sorted(p_values, key=lambda n: (p_values[n], n))):
        step = level / (family - i)
        levels[name] = step if going else 0.0
        going = going and p_values[name] <= step
    return levels


def unusable(values: Sequence[float], side: str) -> str:
    """Why `values` cannot be compared as ratios; "" where they can."""
    if not len(values):
        return f"no value {side}"
    if any(not math.isfinite(v) for v in values):
        return f"a value {side} is not a finite number"
    if any(v < 0 for v in values):
        return f"a value {side} is below 0"
    return ""


def exact_decision(
    allowed: Allowed, before: float, after: float, *, n_before: int, n_after: int
) -> Decision:
    """The decision on two values that do not vary: within what is allowed, or not."""
    worse = before - after if allowed.higher_is_better else after - before
    room = max(allowed.relative * before, allowed.floor)
    change = worse / before if before > 0 else (0.0 if worse <= 0 else math.inf)
    within = worse <= room * (1 + 1e-12)
    return Decision(
        Verdict.PASS if within else Verdict.FAIL,
        change,
        (change, change),
        allowed.bound(before),
        before,
        after,
        reason="the same in every run: compared exactly",
        n_before=n_before,
        n_after=n_after,
    )
