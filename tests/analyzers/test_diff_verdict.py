"""Regressions judged: the change, its interval from both sides', floor, and what forbids it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuperf_analyzers.diff.verdict import judge_regressions, relative_change
from gpuperf_analyzers.limits import Judgement, Verdict, parse_limits
from gpuperf_analyzers.metrics import BUILTIN, Value, absent
from gpuperf_analyzers.stats import median_value

METRICS = {m.name: m for m in BUILTIN}


def value(middle: float, spread: float | None = None, name: str = "step_time") -> Value:
    interval = None if spread is None else (middle - spread, middle + spread)
    return Value(name, middle, interval, n=9)


def judged(
    before: Value | None, after: Value | None, allowed: object = "3%", *,
    invalid: dict[str, str] | None = None, incomparable: str = "",
) -> Judgement:  # fmt: skip
    (found,) = judge_regressions(
        parse_limits({"max_regression": allowed}, METRICS),
        {} if before is None else {before.name: before},
        {} if after is None else {after.name: after},
        METRICS,
        invalid=invalid or {},
        incomparable=incomparable,
    )
    return found


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((100, 0.5), (101, 0.5), Verdict.PASS),  # at most 101.5 / 99.5 - 1 = 2.01%
        ((100, 0.5), (102.9, 0.5), Verdict.AMBIGUOUS),  # 1.9% to 3.9%
        ((100, 0.5), (110, 0.5), Verdict.FAIL),  # at least 109.5 / 100.5 - 1 = 8.96%
        ((100, 20), (110, 20), Verdict.AMBIGUOUS),  # -25% to +62.5%
        ((100, 0.5), (90, 0.5), Verdict.PASS),
        ((100, None), (103, None), Verdict.PASS),  # exactly what is allowed
        ((100, None), (103.1, None), Verdict.FAIL),
    ],
)
def test_a_change_is_judged_by_the_far_ends_of_both_intervals(
    before: tuple[float, float | None], after: tuple[float, float | None], verdict: Verdict
) -> None:
    assert judged(value(*before), value(*after)).verdict is verdict


def test_the_interval_of_the_change_is_that_of_the_far_ends() -> None:
    found = judged(value(100, 2), value(110, 1))
    assert found.value == pytest.approx(0.10)
    assert found.interval == pytest.approx((109 / 102 - 1, 111 / 98 - 1))
    assert (found.unit, found.limit) == ("fraction", 0.03)


def test_a_side_without_an_interval_is_exact_and_that_is_said() -> None:
    found = judged(value(100), value(110, 1))
    assert found.interval == pytest.approx((0.09, 0.11))
    assert found.verdict is Verdict.FAIL
    assert found.reason == (
        "fewer than six steps before: judged by the median alone, its spread is not known"
    )
    assert "before and after" in judged(value(100), value(110)).reason
    assert judged(value(100, 1), value(110, 1)).reason == ""


def medians(samples: Sequence[float]) -> Value:
    return median_value("step_time", samples)


def test_six_steps_bound_the_median_and_five_do_not() -> None:
    few = judged(medians([100] * 5), medians([104, 104, 104, 104, 104]))
    assert few.verdict is Verdict.FAIL
    assert "fewer than six steps" in few.reason
    # Of six the interval is the range: 100 to 108 against 100 is 0% to 8%.
    six = judged(medians([100] * 6), medians([100, 104, 104, 104, 104, 108]))
    assert (six.verdict, six.interval) == (Verdict.AMBIGUOUS, pytest.approx((0.0, 0.08)))


def test_higher_is_better_turns_the_change_around() -> None:
    old, new = value(100, 1, "throughput"), value(90, 1, "throughput")
    found = judged(old, new, {"throughput": "3%"})
    assert found.verdict is Verdict.FAIL
    assert found.value == pytest.approx(0.10)
    assert found.interval == pytest.approx((1 - 91 / 99, 1 - 89 / 101))
    assert judged(new, old, {"throughput": "3%"}).verdict is Verdict.PASS


def test_a_change_under_the_floor_is_none() -> None:
    # 8 µs of 100 is 8%, and under 10 µs; 12 µs is over.
    limit = {"step_time": ("3%", "10us")}
    assert judged(value(100, 0.1), value(108, 0.1), limit).verdict is Verdict.PASS
    assert judged(value(100, 0.1), value(112, 0.1), limit).verdict is Verdict.FAIL


def test_a_count_has_no_spread_to_be_told_of() -> None:
    old, new = value(5, name="host_syncs"), value(6, name="host_syncs")
    found = judged(old, new, {"host_syncs": "10%"})
    assert (found.verdict, found.reason) == (Verdict.FAIL, "")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (None, value(1), "before: not measured"),
        (value(1), absent("step_time", "no steps"), "after: no steps"),
        (value(0), value(1), "the value before is 0"),
    ],
)
def test_a_missing_side_is_unmeasured(
    before: Value | None, after: Value | None, reason: str
) -> None:
    found = judged(before, after)
    assert (found.verdict, found.reason, found.value) == (Verdict.UNMEASURED, reason, None)


def test_invalid_data_and_other_hardware_are_not_judged() -> None:
    found = judged(value(1), value(9), invalid={"step_time": "lost"}, incomparable="other GPU")
    assert (found.verdict, found.reason) == (Verdict.INVALID, "lost")
    found = judged(value(1), value(9), incomparable="other GPU")
    assert (found.verdict, found.reason) == (Verdict.INCOMPARABLE, "other GPU")


def test_nan_is_no_pass() -> None:
    assert judged(value(1), value(float("nan"))).verdict is Verdict.INVALID
    assert relative_change(absent("step_time", "x"), value(1)) is None


def test_an_interval_that_reaches_0_bounds_nothing() -> None:
    assert relative_change(value(1, 2), value(2, 1)) == (1.0, None)
