"""The trend of memory over steps, and memory over batch size: closed forms."""

from __future__ import annotations

import pytest

from gpuperf_analyzers.batch_fit import fit_line
from gpuperf_analyzers.fit_error import FitError
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.live_values import live_values
from gpuperf_analyzers.memory_block import MemoryBlock
from gpuperf_analyzers.stats import trend_value


def test_a_leak_of_the_same_bytes_every_step() -> None:
    found = trend_value("memory_growth", [10**12 + 4000 * i for i in range(12)])
    assert (found.value, found.interval, found.n) == (4000.0, (4000.0, 4000.0), 12)


def test_one_step_that_stands_out_is_no_trend() -> None:
    # Two points, the first and the last, would say 90 bytes a step.
    found = trend_value("memory_growth", [*[100] * 10, 1000])
    assert found.value == 0.0
    assert found.interval == (0.0, 0.0)


def test_a_sawtooth_that_comes_back_is_no_leak() -> None:
    found = trend_value("memory_growth", [0, 5, 0, 5, 0, 5, 0, 5, 0, 5])
    assert found.interval is not None
    low, high = found.interval
    assert low <= 0 <= high


def test_too_few_steps_have_no_trend() -> None:
    found = trend_value("memory_growth", [1, 2, 3, 4, 5])
    assert found.value is None
    assert found.absent_reason == "a trend needs 6 steps or more, and there are 5"


def test_values_of_the_live_block() -> None:
    memory = MemoryBlock(largest={"activation": 700}, levels=tuple(range(0, 80, 8)))
    block = LiveBlock(
        device_type="cuda", device="X", peak_bytes=1000, peak_reserved_bytes=1300, memory=memory
    )
    values = live_values(block, peaks=())
    assert values["activation_memory"].value == 700.0
    assert values["optimizer_memory"].value == 0.0
    assert values["memory_growth"].value == 8.0
    assert values["reserved_over_allocated"].value == 1.3
    without = live_values(LiveBlock(), peaks=())
    assert without["activation_memory"].absent_reason is not None
    assert "memory_growth" not in without
    assert "reserved_over_allocated" not in without


def test_a_line_is_found_exactly() -> None:
    found = fit_line([1, 2, 4], [1100, 1200, 1400], capacity_bytes=2150, capacity_source="declared")
    assert (found.model_bytes, found.per_sample_bytes) == pytest.approx((1000.0, 100.0))
    assert found.r_squared == pytest.approx(1.0)
    assert found.largest_batch == 11  # 1000 + 11 x 100 = 2100, and 12 are 2200


def test_a_device_that_not_even_the_model_fits() -> None:
    assert fit_line([1, 2], [1100, 1200], capacity_bytes=500).largest_batch == 0


def test_memory_that_grows_with_the_square_is_told() -> None:
    found = fit_line([1, 2, 4, 8], [10, 40, 160, 640], capacity_bytes=10**6)
    assert not found.linear
    assert found.largest_batch is None
    assert "not linear in the batch" in str(found)


def test_memory_that_does_not_grow_has_no_largest_batch() -> None:
    found = fit_line([1, 2], [1000, 1000], capacity_bytes=5000)
    assert found.per_sample_bytes == 0.0
    assert found.largest_batch is None


@pytest.mark.parametrize(
    ("sizes", "peaks"), [([1], [5]), ([2, 2], [5, 5]), ([1, 2], [5]), ([], [])]
)
def test_what_makes_no_line(sizes: list[int], peaks: list[int]) -> None:
    with pytest.raises(FitError, match="two different sizes"):
        fit_line(sizes, peaks)
