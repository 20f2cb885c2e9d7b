"""Where a series changed its level: known changes are found, none is found where none is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import ranksums

from gpuperf_analyzers.change_point import FEWEST, _standardised, best_split, changes


def test_a_clear_step_is_found_where_it_is() -> None:
    rng = np.random.default_rng(1)
    series = [*(1000 * (1 + rng.normal(0, 0.01, 25))), *(1080 * (1 + rng.normal(0, 0.01, 15)))]
    (change,) = changes(series)
    assert change.index == 25
    assert change.relative == pytest.approx(0.08, abs=0.01)
    assert change.p == pytest.approx(1 / 2000)  # no permutation comes near


def test_two_steps_are_found() -> None:
    rng = np.random.default_rng(2)
    levels = [100.0] * 20 + [120.0] * 20 + [105.0] * 20
    series = [v * (1 + rng.normal(0, 0.01)) for v in levels]
    assert [c.index for c in changes(series)] == [20, 40]


def test_outliers_are_no_change() -> None:
    rng = np.random.default_rng(3)
    series = list(100 * (1 + rng.normal(0, 0.01, 40)))
    series[10] *= 5
    series[30] *= 7
    assert changes(series) == ()


def test_without_a_change_one_in_a_hundred_is_called_one() -> None:
    # The level of the test is 1%: of 400 series 4 are expected; 12 or more has p < 0.001.
    rng = np.random.default_rng(4)
    false = sum(bool(changes(list(rng.normal(100, 5, 20)), smallest=0.0)) for _ in range(400))
    assert false < 12


def test_the_p_value_is_that_of_all_orders() -> None:
    # Of 8 different values all 40,320 orders are equally likely; the exact share is counted.
    values = np.array([1.0, 2, 3, 4, 10, 11, 12, 13])
    _, p = best_split(values, np.random.default_rng(0))
    ranks = np.array(list(itertools.permutations(range(1, 9))), dtype=float)
    own = _standardised(np.arange(1.0, 9)[None, :]).max()
    exact = float((_standardised(ranks).max(axis=1) >= own * (1 - 1e-12)).mean())
    assert p == pytest.approx(exact, abs=0.006)


def test_the_statistic_is_wilcoxons() -> None:
    # scipy's ranksums is the same statistic of two samples without ties, up to its variance:
    # N(N + 1)/12 there, the ranks' own here, which is the same for ranks 1..N.
    values = np.array([3.0, 1, 4, 15, 9, 2, 6, 5])
    ranks = values.argsort().argsort() + 1.0
    k = 3
    ours = _standardised(ranks[None, :])[0][k - 1]
    assert ours == pytest.approx(abs(ranksums(values[:k], values[k:]).statistic))


def test_an_exact_count_changes_wherever_it_does() -> None:
    found = changes([120, 120, 121, 121, 120], exact=True)
    assert [(c.index, c.before, c.after) for c in found] == [(2, 120, 121), (4, 121, 120)]


@pytest.mark.parametrize("series", [[], [1.0], [1.0] * 3, [5.0] * 50, list(range(FEWEST - 1))])
def test_too_little_to_tell_is_no_change(series: list[float]) -> None:
    assert changes([float(v) for v in series]) == ()


def test_a_change_from_nothing_is_infinite() -> None:
    assert changes([0.0, 3.0], exact=True)[0].relative == float("inf")


def test_a_change_below_what_matters_is_not_told() -> None:
    rng = np.random.default_rng(5)
    series = [*(1000 + rng.normal(0, 0.1, 20)), *(1002 + rng.normal(0, 0.1, 20))]
    assert changes(series) == ()
    assert [c.index for c in changes(series, smallest=0.001)] == [20]
