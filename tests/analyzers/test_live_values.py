"""Values from a live block, worked out by hand."""

from __future__ import annotations

import pytest

from gpuperf_analyzers.hookspecs import Peak
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.live_values import live_values

SAMPLES = (1000.0, 1100.0, 900.0, 1000.0, 1000.0, 1050.0, 950.0)
"""Seven samples of about a millisecond; the median is 1000 µs."""
H100 = Peak(names=("NVIDIA H100",), tflops={"bf16": 989.0, "fp32": 67.0, "tf32": 494.0}, sms=132)


def _block(**changes: object) -> LiveBlock:
    fields: dict[str, object] = {
        "samples_us": SAMPLES, "flops": 2_000_000_000, "flops_by_dtype": {"fp32": 2_000_000_000},
        "flops_source": "flop_counter", "peak_tflops": {"fp32": 10.0}, **changes,
    }  # fmt: skip
    return LiveBlock(**fields)  # type: ignore[arg-type]


def test_the_step_time_is_the_median_of_the_samples_with_its_exact_interval() -> None:
    value = live_values(_block(), peaks=())["step_time"]
    # Of seven samples only the extremes bound the median with 95%: 1 - 2/2**7 = 98.4%.
    assert (value.value, value.interval, value.n) == (1000.0, (900.0, 1100.0), 7)
    assert "profiler off" in value.source


def test_tflops_are_counted_flops_over_sampled_time() -> None:
    value = live_values(_block(), peaks=())["tflops"]
    # 2e9 FLOP in 1 ms are 2e12 FLOP/s.
    assert value.value == pytest.approx(2.0)
    assert value.interval == pytest.approx((2e9 / 1100 / 1e6, 2e9 / 900 / 1e6))


def test_rates_are_over_the_step_time_that_is_shown_for_an_even_number_of_samples_too() -> None:
    block = _block(samples_us=(1000.0, 3000.0), items=6, items_unit="items")
    values = live_values(block, peaks=())
    # The median of 1 and 3 ms is 2 ms; the median of the two rates would be that of 1.5 ms.
    assert values["step_time"].value == 2000.0
    assert values["tflops"].value == pytest.approx(2e9 / 2e-3 / 1e12)
    assert values["mfu"].value == pytest.approx(values["tflops"].value / 10)
    assert values["throughput"].value == pytest.approx(6 / 2e-3)


def test_a_cpus_share_of_peak_is_of_the_measured_peak() -> None:
    values = live_values(_block(), peaks=())
    assert values["hfu"].value == pytest.approx(0.2)
    assert values["mfu"].value == pytest.approx(0.2)
    assert "measured peak" in values["mfu"].source


def test_a_mixed_step_adds_the_ideal_time_of_each_dtype() -> None:
    block = _block(
        device="NVIDIA H100 80GB HBM3", device_type="cuda", flops=10**12 + 10**11,
        flops_by_dtype={"bf16": 10**12, "tf32": 10**11}, peak_tflops={},
    )  # fmt: skip
    ideal_us = 1e12 / 989e6 + 1e11 / 494e6
    assert live_values(block, peaks=[H100])["hfu"].value == pytest.approx(ideal_us / 1000)


def test_an_unknown_device_has_no_share_of_peak_and_says_how_to_declare_one() -> None:
    block = _block(device="NVIDIA X9000", device_type="cuda", peak_tflops={})
    value = live_values(block, peaks=[H100])["mfu"]
    assert value.value is None
    assert "gpuperf_peaks" in str(value.absent_reason)


def test_a_partition_of_a_device_does_not_take_its_peak() -> None:
    block = _block(device="NVIDIA H100 80GB HBM3", device_type="cuda")
    assert live_values(block, peaks=[H100], sms=66)["hfu"].value is None
    assert live_values(block, peaks=[H100], sms=132)["hfu"].value is not None


def test_mfu_is_absent_where_flops_were_made_twice_and_none_were_declared() -> None:
    values = live_values(_block(), peaks=(), recomputation="checkpointing was seen")
    assert "checkpointing" in str(values["mfu"].absent_reason)
    assert values["hfu"].value is not None


def test_declared_flops_give_mfu_but_no_hfu() -> None:
    block = _block(model_flops=2_000_000_000, flops_source="declared")
    values = live_values(block, peaks=(), recomputation="checkpointing was seen")
    assert values["mfu"].value == pytest.approx(0.2)
    assert "declared" in str(values["hfu"].absent_reason)


def test_no_counted_flops_are_absent_and_never_zero() -> None:
    values = live_values(
        _block(flops=None, flops_by_dtype={}, flops_source="not counted"), peaks=()
    )
    assert [values[n].value for n in ("flops", "tflops", "hfu", "mfu")] == [None] * 4
    assert values["tflops"].absent_reason == "not counted"


def test_throughput_is_items_over_time() -> None:
    value = live_values(_block(items=32.0, items_unit="tokens"), peaks=())["throughput"]
    assert value.value == pytest.approx(32_000)
    assert value.source.startswith("tokens")
    assert live_values(_block(), peaks=())["throughput"].value is None


def test_peak_memory_on_a_cpu_is_what_was_alive_plus_the_growth() -> None:
    values = live_values(_block(alive_bytes=1000), peaks=(), growth_bytes=500.0)
    assert values["peak_memory"].value == 1500.0
    assert live_values(_block(alive_bytes=1000), peaks=())["peak_memory"].value is None
    assert live_values(_block(), peaks=(), growth_bytes=5.0)["peak_memory"].value is None


def test_the_allocators_own_peak_wins() -> None:
    block = _block(alive_bytes=1000, peak_bytes=7000)
    assert live_values(block, peaks=(), growth_bytes=500.0)["peak_memory"].value == 7000.0


def test_a_block_without_samples_says_nothing_of_times() -> None:
    values = live_values(_block(samples_us=()), peaks=())
    assert "step_time" not in values
    assert values["hfu"].value is None


def test_bandwidth_is_declared_bytes_over_time() -> None:
    # 3 MB in a median of 1 ms are 3 GB/s; over 1.1 and 0.9 ms the ends.
    value = live_values(_block(bytes_moved=3_000_000), peaks=())["bandwidth"]
    assert value.value == pytest.approx(3.0)
    assert value.interval == pytest.approx((3 / 1.1, 3 / 0.9))
    assert live_values(_block(), peaks=())["bandwidth"].absent_reason == (
        "no bytes= declared for a step"
    )


def test_a_speedup_is_the_median_of_the_pairs_ratios_whatever_they_share() -> None:
    # Every pair is 1 to 3, while the machine slows down by a factor of 8 between the pairs.
    fast = tuple(100.0 * 2 ** (i / 2) for i in range(7))
    value = live_values(_block(samples_us=fast, beside_us=tuple(3 * f for f in fast)), peaks=())
    assert value["speedup"].value == pytest.approx(3.0)
    assert value["speedup"].interval == pytest.approx((3.0, 3.0))
    # By hand: the ratios 1, 2, …, 7 have the median 4, and of seven only the extremes bound it.
    ones = (1.0,) * 7
    found = live_values(_block(samples_us=ones, beside_us=(3, 1, 7, 4, 2, 6, 5)), peaks=())
    assert (found["speedup"].value, found["speedup"].interval) == (4.0, (1.0, 7.0))


def test_no_pairs_are_no_speedup_and_uneven_ones_say_so() -> None:
    assert "speedup" not in live_values(_block(), peaks=())
    value = live_values(_block(beside_us=(1.0,)), peaks=())["speedup"]
    assert value.absent_reason == "the two sides of the pairs are not equally many"
    value = live_values(_block(beside_us=(0.0,) * 7), peaks=())["speedup"]
    assert value.absent_reason == "the clock does not resolve a call"
