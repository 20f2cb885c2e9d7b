"""The exact signed-rank test: hand calculations, and every pattern of signs counted."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import wilcoxon

from gpuperf_analyzers.regression import signed_rank_interval, signed_rank_p
from gpuperf_analyzers.regression.signed_rank import centre_of


def test_all_of_one_sign_has_the_probability_of_as_many_heads():
    above, below = signed_rank_p([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    assert above == pytest.approx(2**-8)
    assert below == pytest.approx(1.0)


def test_three_differences_by_hand():
    # Ranks 1, 2, 3 count 1, 2, 2; signs −, +, +: 4 of 5; of 8 patterns 4 and 5 are as large: 2/8.
    assert signed_rank_p([-0.1, 0.2, 0.3])[0] == pytest.approx(2 / 8)
    # 4 or less holds for all but 5, so the other side is 7/8.
    assert signed_rank_p([-0.1, 0.2, 0.3])[1] == pytest.approx(7 / 8)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 11])
def test_agrees_with_counting_every_pattern_of_signs(n):
    values = np.random.default_rng(n).normal(0.3, 1, n)
    order = sorted(range(n), key=lambda i: abs(values[i]))
    scores = [0.0] * n
    for place, index in enumerate(order):
        scores[index] = min(place + 1, math.ceil(n / 2))  # no rank counts for more than half of n
    sums = [
        sum(s for s, plus in zip(scores, signs, strict=True) if plus)
        for signs in itertools.product((False, True), repeat=n)
    ]
    seen = sum(s for s, v in zip(scores, values, strict=True) if v > 0)
    above, below = signed_rank_p(values)
    assert above == pytest.approx(np.mean([s >= seen for s in sums]))
    assert below == pytest.approx(np.mean([s <= seen for s in sums]))


def test_a_gross_outlier_weighs_no_more_than_a_middling_difference():
    # Of 12 differences the ranks 6 to 12 all count 6: an outlier of −100 is as one of −0.7.
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2]
    assert signed_rank_p([*values, -100.0]) == signed_rank_p([*values, -0.7])
    assert (
        signed_rank_p([*values, -100.0])[0]
        < wilcoxon([*values, -100.0], alternative="greater").pvalue
    )


def test_ties_are_permuted_and_not_approximated():
    # Mean ranks of (1, 1, 1, −1) are all 2.5, and count 2: three pluses or more are 5 of 16.
    assert signed_rank_p([1.0, 1.0, 1.0, -1.0])[0] == pytest.approx(5 / 16)


def test_a_difference_at_the_limit_counts_for_neither_conclusion():
    # Seven beyond and one at the limit, which counts 1: 25 of 26, which 2 of 256 patterns reach.
    above, below = signed_rank_p([0.0, 1, 2, 3, 4, 5, 6, 7])
    assert above == pytest.approx(2 / 256)
    assert below == pytest.approx(1.0)
    assert signed_rank_p([0.03, 0.03], 0.03) == (1.0, 1.0)


def test_too_few_differences_bound_nothing():
    assert signed_rank_interval([0.1, 0.2, 0.3], 0.025) == (-np.inf, np.inf)


def test_the_interval_and_the_p_value_say_the_same():
    rng = np.random.default_rng(3)
    for n in (8, 12, 16):
        values = rng.standard_t(2, n)
        for centre in np.linspace(-2, 2, 41):
            low, high = signed_rank_interval(values, 0.008)
            above, below = signed_rank_p(values, centre)
            assert (above <= 0.008) == (low > centre)
            assert (below <= 0.008) == (high < centre)


def test_one_outlier_moves_the_centre_little():
    assert abs(centre_of([-0.02, -0.01, 0.0, 0.01, 0.02, 1000.0])) < 0.03


@pytest.mark.parametrize("bad", [[], [float("nan")], [float("inf"), 0.0], [0.0] * 401])
def test_what_is_no_set_of_differences_is_refused(bad):
    with pytest.raises(ValueError, match="difference"):
        signed_rank_p(bad)


def test_a_tail_is_a_probability_below_a_half():
    with pytest.raises(ValueError, match="tail"):
        signed_rank_interval([1.0] * 8, 0.5)
