"""Order-statistic and bootstrap intervals against closed forms, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest

from gpuperf_analyzers import stats


@pytest.mark.parametrize(
    ("n", "ranks"),
    # Conover, Practical Nonparametric Statistics, table A3 (binomial, p = 1/2): the largest k
    # with P(B <= k-1) <= 0.025 is 1 at n = 6..8, 2 at 9..11, 3 at 12..14, 6 at 20, 40 at 100.
    [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (12, (3, 10)), (20, (6, 15)), (100, (40, 61))],
)
def test_the_median_interval_has_the_binomial_ranks(n: int, ranks: tuple[int, int]) -> None:
    samples = np.random.default_rng(1).permutation(np.arange(1, n + 1))
    assert stats.median_interval(samples) == ranks


@pytest.mark.parametrize("n", range(6))
def test_under_six_samples_the_median_has_no_interval(n: int) -> None:
    assert stats.median_interval(list(range(n))) is None


def test_the_median_interval_covers_at_least_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(2000):
        low, high = stats.median_interval(rng.exponential(size=11)) or (0, 0)
        hits += low <= np.log(2) <= high  # the median of the unit exponential
    assert hits / 2000 > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize(
    ("samples", "q", "want"),
    [
        ([15, 20, 35, 40, 50], 0.30, 20),  # the textbook example of nearest rank
        ([15, 20, 35, 40, 50], 0.40, 20),
        ([15, 20, 35, 40, 50], 1.00, 50),
        (list(range(1, 101)), 0.99, 99),
        (list(range(1, 101)), 0.07, 7),  # 0.07 * 100 is 7.000000000000001 in binary
        ([3], 0.99, 3),
    ],
)
def test_a_quantile_is_the_nearest_rank(samples: list[int], q: float, want: int) -> None:
    assert stats.quantile(samples, q) == want


def test_the_99th_percentile_is_not_bounded_by_a_hundred_samples_but_by_five_hundred() -> None:
    # 0.99**n must be at most 2.5% for the largest sample to bound it: n >= 368.
    assert stats.quantile_interval(list(range(367)), 0.99) is None
    low, high = stats.quantile_interval(list(range(368)), 0.99) or (0, 0)
    assert low < high == 367


def test_a_ratio_of_sums_of_equal_steps_has_no_spread() -> None:
    value = stats.ratio_value("overlap", [1.0] * 8, [4.0] * 8)
    assert value.value == 0.25
    assert value.interval == (0.25, 0.25)
    assert value.samples == (0.25,) * 8


def test_the_ratio_interval_covers_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        whole = rng.uniform(1, 2, size=10)
        part = whole * rng.normal(0.5, 0.05, size=10)
        low, high = stats.ratio_interval(part, whole) or (0, 0)
        hits += low <= 0.5 <= high
    # 300 trials of a true 95%: under 91% or over 99% happens once in a thousand.
    assert 0.91 < hits / 300 < 0.99


def test_the_ratio_interval_is_the_same_every_time_and_needs_six_steps() -> None:
    part, whole = [1.0, 2, 3, 4, 5, 6], [10.0, 9, 8, 7, 6, 7]
    assert stats.ratio_interval(part, whole) == stats.ratio_interval(part, whole)
    assert stats.ratio_interval(part[:5], whole[:5]) is None
    assert stats.ratio_interval([0.0] * 6, [0.0] * 5 + [1.0]) is None


def test_the_worst_of_several_steps_is_named() -> None:
    value = stats.worst_value(
        "kernel_launches", [3, 9, 4], ["ProfilerStep#1", "ProfilerStep#2", "x"]
    )
    assert (value.value, value.at, value.n) == (9, "ProfilerStep#2", 3)
    assert stats.worst_value("busy", [0.3, 0.9], ["a", "b"], higher_is_better=True).at == "a"


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.median([]),
        lambda: stats.quantile([], 0.5),
        lambda: stats.quantile([1], 0.0),
        lambda: stats.worst_value("x", []),
        lambda: stats.ratio_value("x", [1.0], [0.0]),
    ],
)
def test_no_samples_or_nonsense_is_an_error_in_words(call) -> None:
    with pytest.raises(ValueError, match=r"no samples|quantile is above 0|nothing to divide"):
        call()


def test_a_99th_percentile_of_fewer_than_100_samples_says_that_it_is_the_largest() -> None:
    # Nearest rank: the ceil(0.99 n)-th smallest, which is the n-th for every n below 100.
    few = stats.p99_value("p99", [1.0, 3.0, 2.0], "timed")
    assert (few.value, few.n) == (3.0, 3)
    assert few.source == "the largest of 3 samples: a 99th percentile takes 100; timed"
    enough = stats.p99_value("p99", range(1, 101), "timed")
    assert (enough.value, enough.source) == (99.0, "timed")
