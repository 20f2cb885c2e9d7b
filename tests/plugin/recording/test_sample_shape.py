"""Drift and two kinds of samples: named where they were built in, silent on plain noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pytest_gpuperf.recording.sample_shape import drift, shape_notes, two_kinds

Rng = np.random.Generator
NOISES: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "normal": lambda rng, n: 1000 + rng.normal(0, 100, n),
    "uniform": lambda rng, n: rng.uniform(500, 1500, n),
    "exponential": lambda rng, n: 1000 + rng.exponential(300, n),
    "lognormal": lambda rng, n: 1000 * rng.lognormal(0, 0.5, n),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n", [40, 200, 1000])
def test_plain_noise_neither_drifts_nor_splits(noise: str, n: int) -> None:
    rng = np.random.default_rng(7)
    runs = [NOISES[noise](rng, n) for _ in range(200)]
    # p < 0.001 lets 0.2 of 200 through on average; three have a probability of 0.1%.
    assert sum(drift(run) is not None for run in runs) <= 2
    assert sum(two_kinds(run) is not None for run in runs) <= 3


def test_a_steady_rise_is_told_by_what_the_thirds_medians_say() -> None:
    # 1000, 1001 … 1299: the thirds' medians are 1049.5 and 1249.5.
    change = drift([1000.0 + i for i in range(300)])
    assert change == pytest.approx(1249.5 / 1049.5 - 1)
    assert (
        "the last third is 19% slower than the first"
        in shape_notes([1000.0 + i for i in range(300)])[0]
    )


def test_a_fall_is_told_as_faster_and_equal_samples_are_no_drift() -> None:
    assert "faster" in shape_notes([1300.0 - i for i in range(300)])[0]
    assert drift([5.0] * 100) is None
    assert two_kinds([5.0] * 100) is None


def test_a_drift_too_small_to_matter_is_not_told() -> None:
    assert drift([1000.0 + i / 10 for i in range(300)]) is None  # 2% between the thirds


def test_two_kinds_have_their_medians_and_shares() -> None:
    kinds = two_kinds([1000.0, 1000.0, 1000.0, 2000.0] * 50)
    assert kinds is not None
    assert (kinds.low_us, kinds.high_us) == (1000.0, 2000.0)
    assert kinds.high_share == pytest.approx(0.25, abs=0.02)  # the trimmed ends are apart
    (note,) = shape_notes([1000.0, 1000.0, 1000.0, 2000.0] * 50)
    assert "near 1000 µs" in note
    assert "near 2000 µs" in note


def test_two_noisy_kinds_are_found_and_a_few_stragglers_are_none() -> None:
    rng = np.random.default_rng(3)
    mixed = np.where(rng.random(300) < 0.6, 1000, 1400) + rng.normal(0, 30, 300)
    assert two_kinds(mixed) is not None
    few = [1000.0 + rng.normal(0, 10) for _ in range(95)] + [5000.0] * 5
    assert two_kinds(few) is None  # below a tenth of the samples


def test_few_samples_are_not_judged() -> None:
    assert shape_notes([1.0, 2.0] * 10) == ()
