"""Decisions against stored runs: closed forms, guards, and rates by simulation."""

import math

import numpy as np
import pytest
from scipy.stats import t as student

from gpuperf_analyzers.regression import PRIOR_SPREAD, Allowed, RunValue, judge_runs
from gpuperf_analyzers.verdicts import Verdict

THREE = Allowed(0.03)


def runs(*values, **more):
    return [RunValue(v, **more) for v in values]


def judged(saved, now, allowed=THREE, **more):
    return judge_runs({"t": saved}, {"t": now}, {"t": allowed}, **more)["t"]


STEADY = [100.0, 100.4, 99.8, 100.1, 99.9, 100.3, 99.7, 100.2, 100.0, 99.6]


def test_no_stored_run_is_no_baseline():
    assert judged([], runs(100.0)).verdict is Verdict.NO_BASELINE
    found = judge_runs({}, {"t": runs(1.0)}, {"t": THREE})["t"]
    assert found.verdict is Verdict.NO_BASELINE


def test_the_interval_is_students_prediction_interval_with_a_prior_of_one_run():
    found = judged(runs(*STEADY), runs(101.0))
    logs = np.log(STEADY)
    spread = math.sqrt((((logs - logs.mean()) ** 2).sum() + PRIOR_SPREAD**2) / 10)
    width = student.ppf(0.975, 10) * spread * math.sqrt(1 + 1 / 10)
    centre = math.log(101.0) - logs.mean()
    assert found.interval == pytest.approx((math.expm1(centre - width), math.expm1(centre + width)))
    assert found.change == pytest.approx(math.expm1(centre))
    assert (found.n_before, found.n_after) == (10, 1)


def test_ten_steady_runs_pass_the_same_and_fail_a_fifth_more():
    assert judged(runs(*STEADY), runs(100.0)).verdict is Verdict.PASS
    assert judged(runs(*STEADY), runs(120.0)).verdict is Verdict.FAIL
    assert judged(runs(*STEADY), runs(103.0)).verdict is Verdict.AMBIGUOUS


def test_one_stored_run_says_that_its_spread_is_assumed():
    found = judged(runs(100.0), runs(125.0))
    # t(0.975, 1 degree) = 12.71 · 2.7% · √2 = 48.5% of log: 25% more is within.
    assert found.verdict is Verdict.AMBIGUOUS
    assert found.reason.startswith("1 saved run leaves the interval across the limit")
    assert "assumed, not measured" in found.reason
    assert found.interval[0] == pytest.approx(
        1.25 * math.exp(-12.7062 * 0.027 * 2**0.5) - 1, rel=1e-4
    )


def test_what_a_saved_run_was_as_bad_as_is_not_a_failure():
    saved = runs(*STEADY * 3, 140.0)
    found = judged(saved, runs(139.0))
    assert found.verdict is Verdict.AMBIGUOUS
    assert "a saved run was as bad" in found.reason
    assert judged(saved, runs(160.0)).verdict is Verdict.FAIL


def test_a_load_that_leaves_the_fastest_tenth_alone_is_not_a_failure():
    found = judged(runs(*STEADY), [RunValue(130.0, best_tenth=101.0)])
    assert found.verdict is Verdict.AMBIGUOUS
    assert "fastest tenth" in found.reason
    assert judged(runs(*STEADY), [RunValue(130.0, best_tenth=128.0)]).verdict is Verdict.FAIL


def test_a_run_known_to_be_disturbed_does_not_fail_and_does_not_count_as_baseline():
    disturbed = RunValue(130.0, disturbed="another process took 100% of a CPU")
    found = judged(runs(*STEADY), [disturbed])
    assert found.verdict is Verdict.AMBIGUOUS
    assert "another process took 100% of a CPU" in found.reason
    found = judged([*runs(*STEADY), disturbed], runs(125.0))
    assert (found.verdict, found.n_before) == (Verdict.FAIL, 10)


def test_where_most_saved_runs_were_disturbed_that_is_how_the_machine_is():
    saved = runs(*STEADY, disturbed="other processes took 40% of the CPUs")
    now = RunValue(130.0, disturbed="other processes took 45% of the CPUs")
    assert judged(saved, [now]).verdict is Verdict.FAIL
    assert judged(saved, runs(130.0)).n_before == 10


def test_a_failure_waits_for_its_confirmation():
    saved = runs(*STEADY)
    first = judged(saved, runs(120.0), confirm=3, looks=2, last=False)
    assert (first.verdict, first.more) == (Verdict.AMBIGUOUS, True)
    assert "1 of 3 runs" in first.reason
    agreed = judged(saved, runs(120.0, 121.0, 119.0), confirm=3, looks=2, last=True)
    assert agreed.verdict is Verdict.FAIL
    # Two of three are slow, one is as the baseline: a burst, not a change.
    burst = judged(saved, runs(120.0, 121.0, 100.0), confirm=3, looks=2, last=True)
    assert burst.verdict is Verdict.AMBIGUOUS


def test_runs_of_one_session_count_once():
    # Twelve runs in two sessions 5% apart: two values, so 2 degrees of freedom.
    saved = [*runs(*[100.0] * 6, session="a"), *runs(*[105.0] * 6, session="b")]
    found = judged(saved, runs(112.0))
    assert found.verdict is Verdict.AMBIGUOUS
    assert "12 saved runs of 2 sessions" in found.reason


def test_a_baseline_of_two_modes_does_not_fail_its_own_slow_mode():
    saved = runs(*[100.0, 112.0, 100.3, 100.1, 111.8, 99.9, 100.2, 112.3, 100.0, 112.1])
    assert judged(saved, runs(112.0)).verdict is Verdict.AMBIGUOUS
    assert judged(saved, runs(100.0)).verdict is Verdict.AMBIGUOUS


def test_many_tests_are_corrected_for():
    # One test of 1,000: p must reach 1%/1000.
    names = [f"t{i}" for i in range(1000)]
    base = dict.fromkeys(names, runs(*STEADY))
    now = {n: runs(107.0 if n == "t0" else 103.0) for n in names}
    many = judge_runs(base, now, dict.fromkeys(names, THREE))
    alone = judged(runs(*STEADY), runs(107.0))
    assert alone.p_fail == pytest.approx(many["t0"].p_fail)
    assert alone.verdict is Verdict.FAIL
    assert many["t0"].needed == pytest.approx(1e-5)
    assert many["t0"].verdict is Verdict.AMBIGUOUS


def test_counts_that_do_not_vary_are_compared_exactly():
    exact = Allowed(0.01, deterministic=True)
    assert judged(runs(100.0, 100.0), runs(100.0), exact).verdict is Verdict.PASS
    assert judged(runs(100.0, 100.0), runs(102.0), exact).verdict is Verdict.FAIL
    assert judged(runs(0.0), runs(0.0)).verdict is Verdict.PASS


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_value_without_a_ratio_is_invalid(value):
    assert judged(runs(*STEADY), runs(value)).verdict is Verdict.INVALID
    assert judged(runs(value, 1.0), runs(1.0)).verdict is Verdict.INVALID
    assert judged(runs(1.0), []).verdict is Verdict.INVALID


def test_the_rates_hold_for_runs_drawn_alike():
    # A true change of exactly the limit, 2.7% between runs: 1% and 2.5% of 3,000 with chance.
    rng = np.random.default_rng(4)
    verdicts = []
    for _ in range(3000):
        logs = rng.normal(0, 0.027, 11)
        logs[-1] += math.log(1.03)
        *saved, now = np.exp(logs) * 100
        verdicts.append(judged(runs(*map(float, saved)), runs(float(now))).verdict)
    assert verdicts.count(Verdict.FAIL) <= 48
    assert verdicts.count(Verdict.PASS) <= 102


def test_a_fifth_is_found_in_the_noise_between_processes():
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(400):
        saved = np.exp(rng.normal(0, 0.027, 10)) * 100
        now = np.exp(rng.normal(math.log(1.2), 0.027, 3)) * 100
        decision = judged(
            runs(*map(float, saved)), runs(*map(float, now)), confirm=3, looks=2, last=True
        )
        found += decision.verdict is Verdict.FAIL
    assert found >= 0.95 * 400
