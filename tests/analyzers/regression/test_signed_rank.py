"""The exact signed-rank test: hand calculations, a published table, scipy beside it."""

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
    # Ranks 1, 2, 3 with signs −, +, +: W = 5; of the 8 sign patterns 5 and 6 are as large: 2/8.
    assert signed_rank_p([-0.1, 0.2, 0.3])[0] == pytest.approx(2 / 8)
    # W ≤ 5 holds for all but W = 6, so the other side is 7/8.
    assert signed_rank_p([-0.1, 0.2, 0.3])[1] == pytest.approx(7 / 8)


@pytest.mark.parametrize("n", [1, 5, 12, 24])
def test_agrees_with_scipy_where_there_are_no_ties(n):
    values = np.random.default_rng(n).normal(0.3, 1, n)
    above, below = signed_rank_p(values)
    assert above == pytest.approx(wilcoxon(values, alternative="greater", method="exact").pvalue)
    assert below == pytest.approx(wilcoxon(values, alternative="less", method="exact").pvalue)


def test_ties_are_permuted_and_not_approximated():
    # Mean ranks of (1, 1, 1, −1) are all 2.5: W = 7.5, reached or passed by 5 of 16 patterns.
    assert signed_rank_p([1.0, 1.0, 1.0, -1.0])[0] == pytest.approx(5 / 16)


def test_a_difference_at_the_limit_counts_for_neither_conclusion():
    # Seven beyond and one at the limit, of rank 1: W = 35 of 36, patterns with W ≥ 35 are 2 of 256.
    above, below = signed_rank_p([0.0, 1, 2, 3, 4, 5, 6, 7])
    assert above == pytest.approx(2 / 256)
    assert below == pytest.approx(1.0)
    assert signed_rank_p([0.03, 0.03], 0.03) == (1.0, 1.0)


def test_the_interval_of_the_published_table():
    # Hollander, Wolfe, Chicken, table A.4: P(W ≥ 33 | n = 8) = 0.0195... counted: W ≤ 3 has 5/256.
    values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    walsh = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    low, high = signed_rank_interval(values, 0.025)
    # P(W ≤ 3) = 5/256 = 0.0195 ≤ 0.025 < P(W ≤ 4) = 7/256: the fourth from either end.
    assert (low, high) == (walsh[3], walsh[-4])


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
    # Walsh averages of five values around 0 and one of 1000: the median stays among the five.
    assert abs(centre_of([-0.02, -0.01, 0.0, 0.01, 0.02, 1000.0])) < 0.03


@pytest.mark.parametrize("bad", [[], [float("nan")], [float("inf"), 0.0], [0.0] * 401])
def test_what_is_no_set_of_differences_is_refused(bad):
    with pytest.raises(ValueError, match="difference"):
        signed_rank_p(bad)


def test_a_tail_is_a_probability_below_a_half():
    with pytest.raises(ValueError, match="tail"):
        signed_rank_interval([1.0] * 8, 0.5)
