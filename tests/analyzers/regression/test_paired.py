"""A/B decisions: error rates by simulation with known truth, and cases worked out by hand."""

import numpy as np
import pytest

from gpuperf_analyzers.regression import (
    FALSE_ALARM,
    MISS,
    Allowed,
    Schedule,
    holm,
    judge_pairs,
)
from gpuperf_analyzers.verdicts import Verdict

THREE = Allowed(0.03)


def pairs_of(effects, base=1000.0):
    return [(base, base * float(np.exp(e))) for e in effects]


def compared(effects, allowed=THREE, most=32, others=0):
    """The last decision of a comparison that looks as the schedule says, beside `others` tests."""
    found = None
    for look in Schedule(most):
        judged = {"t": pairs_of(effects[: look.pairs])}
        for i in range(others):
            judged[f"o{i}"] = pairs_of([0.01 * (-1) ** k + 0.03 for k in range(look.pairs)])
        found = judge_pairs(judged, dict.fromkeys(judged, allowed), look, earlier=found)
        if not found["t"].more:
            break
    return found["t"]


def test_eight_pairs_beyond_the_limit_fail_at_the_first_look():
    found = compared([0.10 + 0.001 * k for k in range(32)])
    assert found.verdict is Verdict.FAIL
    assert found.n_after == 8
    assert found.p_fail == pytest.approx(2**-8)
    # The centre of 0.100, 0.101 … 0.107 is 0.1035: e^0.1035 − 1 = 10.9%.
    assert found.change == pytest.approx(0.10905, abs=1e-4)
    assert found.interval[0] > 0.03


def test_eight_pairs_without_a_change_pass_at_the_first_look():
    found = compared([0.001 * (-1) ** k for k in range(32)])
    assert found.verdict is Verdict.PASS
    assert found.n_after == 8
    assert found.interval[1] < 0.03


def test_a_change_at_the_limit_is_ambiguous_after_all_pairs():
    found = compared([0.0296 + 0.02 * (-1) ** k * (1 + k / 50) for k in range(32)])
    assert found.verdict is Verdict.AMBIGUOUS
    assert found.n_after == 32
    assert not found.more
    assert "no more were to be run" in found.reason


def test_many_tests_at_once_take_more_pairs_for_the_same_evidence():
    effects = [0.10 + 0.001 * k for k in range(32)]
    # 0.4%/21 is below 2^-8 and above 2^-13: not at 8 pairs; 0.2%/21 at 12 is below 2^-12 too.
    found = compared(effects, others=20)
    assert found.verdict is Verdict.FAIL
    assert found.n_after == 20


def test_the_reason_says_how_many_pairs_so_many_tests_take():
    found = compared([0.10 + 0.001 * k for k in range(8)], most=8, others=20)
    # 1% / 21 tests = 2^-11.04: twelve pairs.
    assert found.verdict is Verdict.AMBIGUOUS
    assert "take 12 pairs" in found.reason


def test_a_floor_allows_what_the_share_would_not():
    effects = [0.10 + 0.001 * k for k in range(32)]
    # 10.9% of 1000 is 109: within a floor of 150, beyond one of 50.
    assert compared(effects, Allowed(0.03, floor=150.0)).verdict is Verdict.PASS
    assert compared(effects, Allowed(0.03, floor=50.0)).verdict is Verdict.FAIL


def test_where_more_is_better_a_fall_is_the_regression():
    higher = Allowed(0.03, higher_is_better=True)
    found = compared([-0.10 - 0.001 * k for k in range(32)], higher)
    assert found.verdict is Verdict.FAIL
    assert found.change == pytest.approx(1 - np.exp(-0.1035), abs=1e-4)
    assert compared([0.10 + 0.001 * k for k in range(32)], higher).verdict is Verdict.PASS


def test_a_count_that_never_varies_is_compared_exactly_after_three_pairs():
    exact = Allowed(0.01, deterministic=True)
    look = next(iter(Schedule()))
    found = judge_pairs({"t": [(100.0, 102.0)] * 3}, {"t": exact}, look)["t"]
    assert (found.verdict, found.change) == (Verdict.FAIL, pytest.approx(0.02))
    found = judge_pairs({"t": [(0.0, 0.0)] * 3}, {"t": exact}, look)["t"]
    assert found.verdict is Verdict.PASS
    found = judge_pairs({"t": [(0.0, 1.0)] * 3}, {"t": exact}, look)["t"]
    assert found.verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([], "no pair"),
        ([(1.0, float("nan"))] * 8, "not a finite number"),
        ([(1.0, -1.0)] * 8, "below 0"),
        ([(0.0, 1.0), (1.0, 1.0)] * 8, "no relative change"),
    ],
)
def test_values_without_a_ratio_are_invalid(pairs, said):
    found = judge_pairs({"t": pairs}, {"t": THREE}, list(Schedule())[-1])["t"]
    assert found.verdict is Verdict.INVALID
    assert said in found.reason


def _normal(rng, n):
    return rng.normal(0, 0.038, n)


def _two_modes(rng, n):
    # Either process is in the slow mode (+12%) or not.
    return 0.12 * (rng.integers(0, 2, n) - rng.integers(0, 2, n)) + rng.normal(0, 0.003, n)


def _outliers(rng, n):
    return rng.normal(0, 0.01, n) + rng.normal(0, 0.4, n) * (rng.random(n) < 0.2)


def _drift(rng, n):
    # 2% within each pair, for or against the later side as the order alternates.
    return 0.02 * (-1.0) ** np.arange(n) + rng.normal(0, 0.01, n)


@pytest.mark.parametrize("noise", [_normal, _two_modes, _outliers, _drift])
def test_the_error_rates_hold_at_the_limit_whatever_the_noise(noise):
    # At a true change of exactly the limit both errors are at their largest. 500 comparisons of a
    # rate of 1% (2.5%) give more than 13 (24) with a probability below 0.1%.
    rng = np.random.default_rng(11)
    verdicts = [compared(np.log(1.03) + noise(rng, 32)).verdict for _ in range(500)]
    assert verdicts.count(Verdict.FAIL) <= 13
    assert verdicts.count(Verdict.PASS) <= 24


def test_a_tenth_is_found_and_no_change_passes_in_the_noise_between_processes():
    # Standard deviation 3.8% a pair, as measured; the figures that the schedule is made for.
    rng = np.random.default_rng(5)
    slow = [compared(np.log(1.10) + _normal(rng, 32)).verdict for _ in range(150)]
    same = [compared(_normal(rng, 32)).verdict for _ in range(150)]
    assert slow.count(Verdict.FAIL) >= 0.95 * 150
    assert same.count(Verdict.FAIL) == 0
    assert same.count(Verdict.AMBIGUOUS) <= 0.20 * 150


def test_the_interval_holds_the_truth_whichever_look_ended_it():
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        found = compared(np.log(1.05) + _normal(rng, 32))
        held += found.interval[0] <= 0.05 <= found.interval[1]
    assert held >= 0.95 * 200 - 6  # two standard deviations of chance


def test_the_shares_of_the_looks_add_up_to_the_rates():
    for most in (8, 9, 11, 12, 20, 24, 32, 40, 256):
        looks = list(Schedule(most))
        assert looks[-1].pairs == most
        assert [look.last for look in looks] == [False] * (len(looks) - 1) + [True]
        assert sum(look.false_alarms for look in looks) == pytest.approx(1)
        assert sum(look.misses for look in looks) == pytest.approx(1)
    assert [look.pairs for look in Schedule()] == [8, 12, 20, 32]
    assert FALSE_ALARM * next(iter(Schedule())).false_alarms > 2**-8
    assert MISS * next(iter(Schedule())).misses > 2 * 2**-8


@pytest.mark.parametrize("most", [-1, 0, 7, 257])
def test_a_schedule_without_a_verdict_is_refused(most):
    with pytest.raises(ValueError, match="8 to 256 pairs"):
        Schedule(most)


def test_holm_by_hand():
    # Levels 5%/4, 5%/3, 5%/2: 0.01 passes, 0.015 passes, 0.03 misses, so 0.031 is not asked.
    levels = holm({"a": 0.03, "b": 0.01, "c": 0.015, "d": 0.031}, 0.05, family=4)
    assert levels == {"b": 0.0125, "c": pytest.approx(0.05 / 3), "a": 0.025, "d": 0.0}
    with pytest.raises(ValueError, match="family"):
        holm({"a": 0.5, "b": 0.5}, 0.05, family=1)


@pytest.mark.parametrize(
    ("relative", "floor"), [(-0.1, 0.0), (float("nan"), 0.0), (0.1, float("inf"))]
)
def test_a_limit_that_is_no_limit_is_refused(relative, floor):
    with pytest.raises(ValueError, match="allowed"):
        Allowed(relative, floor)
