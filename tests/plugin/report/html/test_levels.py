from __future__ import annotations

import numpy as np
import pytest

from pytest_gpuperf.report.html.levels import bins_for, chosen, shares, unit_ns


def test_the_share_of_a_bin_is_what_is_covered_of_it() -> None:
    # Four bins of 100 ns; covered: half of the first, all of the second, 1/4 of the last.
    spans = np.array([[50, 200], [375, 400]])
    assert shares(spans, 0, 400, 4).tolist() == [128, 255, 0, 64]


def test_the_shares_add_up_to_the_time_covered() -> None:
    rng = np.random.default_rng(1)
    ends = np.sort(rng.choice(10**6, 4000, replace=False))
    spans = ends.reshape(-1, 2)
    covered = int((spans[:, 1] - spans[:, 0]).sum())
    found = shares(spans, 0, 10**6, 1024).sum() / 255 / 1024 * 10**6
    # Each bin is rounded to 1/255 of itself.
    assert found == pytest.approx(covered, abs=0.5 / 255 * 10**6)


def test_a_moment_is_not_rounded_away() -> None:
    assert shares(np.array([[5, 6]]), 0, 10**6, 2).tolist() == [1, 0]


def test_nothing_covers_nothing() -> None:
    assert shares(np.empty((0, 2), np.int64), 0, 10, 2).tolist() == [0, 0]
    assert shares(np.array([[5, 6]]), 5, 5, 2).tolist() == [0, 0]


def test_few_events_are_all_kept() -> None:
    assert chosen(np.array([0, 10]), np.array([1, 1]), 2, None).tolist() == [0, 1]


def test_the_longest_and_those_of_the_step_are_kept() -> None:
    start, length = np.arange(100), np.ones(100, np.int64)
    length[[3, 97]] = 50
    kept = chosen(start, length, 8, (40, 44)).tolist()
    # Half for the step's four, and the two longest before any other.
    assert {3, 97, 40, 41, 42, 43} <= set(kept)
    assert len(kept) == 8
    assert kept == sorted(kept)


def test_bins_are_a_power_of_two_within_the_budget() -> None:
    assert bins_for(1, 450_000) == 32_768
    assert bins_for(64, 900_000) == 4096
    assert bins_for(10**6, 1000) == 256


def test_a_long_timeline_fits_32_bits() -> None:
    assert unit_ns(2**32 - 1) == 1
    hour = 3600 * 10**9
    assert hour // unit_ns(hour) < 2**32
