"""Sequences of step times with real shapes of noise, and the verdict that is right by construction.

Each shape makes the times of many processes in the order they run, two of each pair next to each
other in time; a true change multiplies one side. The shapes are those that public reports tell of:
a base that is bimodal at ±12% between runs with a scatter of 0.3% within, slow drift, spikes, a
ramp while a machine heats up.
"""

import numpy as np
import pytest

from gpuperf_analyzers.regression import Allowed, RunValue, Schedule, judge_pairs, judge_runs
from gpuperf_analyzers.verdicts import Verdict

THREE = Allowed(0.03)
MOST = 32
REPEATS = 60


def bimodal(rng, n):
    """Either mode by the toss of a coin, 12% apart, 0.3% within."""
    return 100 * np.where(rng.random(n) < 0.5, 1.0, 1.12) * np.exp(rng.normal(0, 0.003, n))


def drift(rng, n):
    """30% slower from the first process to the last, 1% of noise."""
    return np.linspace(100, 130, n) * np.exp(rng.normal(0, 0.01, n))


def spikes(rng, n):
    """One process in twelve hit by a load that makes it up to three times slower."""
    hit = rng.random(n) < 1 / 12
    return 100 * np.where(hit, rng.uniform(1.2, 3.0, n), 1.0) * np.exp(rng.normal(0, 0.008, n))


def thermal(rng, n):
    """15% slower within the first third, as a chip heats up, then steady; 1% of noise."""
    return 100 * (1.15 - 0.15 * np.exp(-np.arange(n) / (n / 8))) * np.exp(rng.normal(0, 0.01, n))


def steady(rng, n):
    """1% of noise."""
    return 100 * np.exp(rng.normal(0, 0.01, n))


SHAPES = (bimodal, drift, spikes, thermal, steady)


def ab(times, change):
    """The A/B verdict over `times` of processes in order, the later revision `change` slower."""
    pairs = []
    for index in range(MOST):
        one, two = times[2 * index], times[2 * index + 1]
        before, after = (one, two) if index % 2 == 0 else (two, one)
        pairs.append((float(before), float(after * (1 + change))))
    found = None
    for look in Schedule(MOST):
        found = judge_pairs({"t": pairs[: look.pairs]}, {"t": THREE}, look, earlier=found)
    return found["t"].verdict


def stored(times, change):
    """The verdict of the last of eleven runs against the ten before it."""
    *saved, now = times[:11]
    runs = [RunValue(float(t), float(t)) for t in saved]
    mine = RunValue(float(now * (1 + change)), float(now * (1 + change)))
    return judge_runs({"t": runs}, {"t": [mine]}, {"t": THREE})["t"].verdict


def verdicts(judge, shape, change, seed=1):
    rng = np.random.default_rng(seed)
    return [judge(shape(rng, 2 * MOST), change) for _ in range(REPEATS)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_code_does_not_fail(shape):
    assert Verdict.FAIL not in verdicts(ab, shape, 0.0)


@pytest.mark.parametrize("shape", [drift, spikes, thermal, steady])
def test_a_slowdown_of_a_tenth_is_found_and_never_passed(shape):
    found = verdicts(ab, shape, 0.10)
    assert Verdict.PASS not in found
    assert found.count(Verdict.FAIL) >= 0.95 * REPEATS


def test_two_modes_as_far_apart_as_the_slowdown_hide_it_but_do_not_pass_it():
    found = verdicts(ab, bimodal, 0.10)
    assert found.count(Verdict.PASS) <= 0.05 * REPEATS
    assert found.count(Verdict.FAIL) >= 0.6 * REPEATS


@pytest.mark.parametrize("shape", [drift, thermal, steady])
def test_no_change_passes_where_the_noise_is_common_to_a_pair(shape):
    assert verdicts(ab, shape, 0.0).count(Verdict.PASS) >= 0.95 * REPEATS


def test_a_fifth_faster_passes():
    assert set(verdicts(ab, steady, -0.20)) == {Verdict.PASS}


@pytest.mark.parametrize("shape", [bimodal, drift, thermal, steady])
def test_a_stored_baseline_does_not_fail_the_same_code(shape):
    # A ramp goes on past the ten runs: what is later is slower, and the code is not to blame. The
    # eleventh of 64 runs of these ramps is 4% and 3% above the mean of those before it.
    assert verdicts(stored, shape, 0.0).count(Verdict.FAIL) <= 0.02 * REPEATS


def test_a_stored_baseline_finds_a_fifth_in_steady_noise():
    assert verdicts(stored, steady, 0.20).count(Verdict.FAIL) >= 0.95 * REPEATS


def test_a_stored_baseline_of_two_modes_says_that_it_cannot_tell():
    found = verdicts(stored, bimodal, 0.0)
    assert found.count(Verdict.AMBIGUOUS) >= 0.9 * REPEATS
