"""What a measurement tells of its samples."""

from __future__ import annotations

import pytest

from pytest_gpuperf.session.measurement import Measurement


@pytest.mark.parametrize(
    ("q", "sample"), [(0.01, 1), (0.5, 50), (0.95, 95), (0.991, 100), (1, 100)]
)
def test_a_quantile_is_the_sample_that_the_share_does_not_exceed(q: float, sample: float) -> None:
    measured = Measurement(samples=tuple(float(us) for us in range(100, 0, -1)))
    assert measured.quantile(q) == sample


def test_a_quantile_of_nothing_says_why_there_is_nothing() -> None:
    with pytest.raises(ValueError, match="no GPU was found"):
        Measurement(reason="no GPU was found").quantile(0.5)
    with pytest.raises(ValueError, match="at most 1, not 99"):
        Measurement(samples=(1.0,)).quantile(99)
