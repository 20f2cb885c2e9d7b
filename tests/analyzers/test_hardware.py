"""The table of dense peaks and the rule by which a driver's name finds its entry."""

from __future__ import annotations

import datetime as dt

import pytest

from gpuperf_analyzers.hardware import builtin_peaks, find_peak, peak_tflops
from gpuperf_analyzers.hookspecs import Peak

DRIVER_NAMES = {
    # driver's name: dense bf16 (fp16 before Ampere) TFLOPS of the vendor's datasheet
    "Tesla V100-SXM2-16GB": 125.0,
    "Tesla V100-SXM2-32GB": 125.0,
    "Tesla V100-PCIE-16GB": 112.0,
    "Tesla V100S-PCIE-32GB": 130.0,
    "Tesla T4": 65.0,
    "NVIDIA A100-SXM4-40GB": 312.0,
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA A100-PCIE-40GB": 312.0,
    "NVIDIA A100 80GB PCIe": 312.0,
    "NVIDIA A100-PG509-200": 312.0,
    "NVIDIA A10": 125.0,
    "NVIDIA L4": 121.0,
    "NVIDIA L40S": 362.05,
    "NVIDIA GeForce RTX 3090": 71.0,
    "NVIDIA GeForce RTX 4090": 165.2,
    "NVIDIA GeForce RTX 5090": 209.5,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H100 NVL": 835.5,
    "NVIDIA H200": 989.5,
    "NVIDIA H200 NVL": 835.5,
    "NVIDIA B200": 2250.0,
    "NVIDIA B300 SXM6 AC": 2250.0,
    "AMD Instinct MI210": 181.0,
    "AMD Instinct MI250X": 191.5,
    "AMD Instinct MI300X": 1307.4,
    "AMD Instinct MI325X": 1307.4,
    "AMD Instinct MI355X": 2516.6,
}


@pytest.mark.parametrize(("name", "tflops"), DRIVER_NAMES.items())
def test_every_promised_device_has_its_dense_16_bit_peak(name: str, tflops: float) -> None:
    peak = find_peak(name, builtin_peaks())
    assert peak is not None
    assert peak_tflops(peak, "bf16" if "bf16" in peak.tflops else "fp16") == tflops


@pytest.mark.parametrize("peak", builtin_peaks(), ids=lambda p: p.names[0])
def test_every_entry_names_its_source_and_when_it_was_compared_with_a_copy_of_it(
    peak: Peak,
) -> None:
    assert len(peak.source) > 10
    assert dt.date.fromisoformat(peak.checked).year >= 2026
    assert peak.tflops
    assert peak.memory_gb_s


MEMORIES = {
    # driver's name: bus in bits and transfers in 1e9/s a pin, as documents or the device give them
    "Tesla V100S-PCIE-32GB": (4096, 2 * 1.107),
    "NVIDIA A100-SXM4-40GB": (5120, 2 * 1.215),
    "NVIDIA A100-PG509-200": (5120, 2 * 1.215),
    "NVIDIA A10": (384, 2 * 6.251),
    "NVIDIA GeForce RTX 3090": (384, 19.5),
    "NVIDIA L4": (192, 2 * 6.251),
    "NVIDIA H100 NVL": (6016, 2 * 2.619),
    "NVIDIA H200 NVL": (6016, 2 * 3.201),
    "NVIDIA B200": (7680, 2 * 3.996),
    "AMD Instinct MI210": (4096, 3.2),
    "AMD Instinct MI250X": (4096, 3.2),  # one die of two
    "AMD Instinct MI300X": (8192, 5.2),
    "AMD Instinct MI325X": (8192, 6.0),
}


@pytest.mark.parametrize(("name", "memory"), MEMORIES.items())
def test_the_memory_bandwidth_is_the_bus_times_its_rate(
    name: str, memory: tuple[int, float]
) -> None:
    bits, transfers = memory
    peak = find_peak(name, builtin_peaks())
    assert peak is not None
    # 2.5%: vendors round to two digits, the MI325X's 6.144 TB/s down to 6.
    assert peak.memory_gb_s == pytest.approx(bits / 8 * transfers, rel=0.025)


@pytest.mark.parametrize("name", ["NVIDIA H100 NVL", "NVIDIA H200 NVL"])
def test_the_vector_peak_of_an_nvl_part_is_by_the_clock_it_reports(name: str) -> None:
    peak = find_peak(name, builtin_peaks())
    assert peak is not None
    assert peak.sms is not None
    # 128 FMA a clock and SM, 1785 MHz: 60.3. The SXM part has 67.
    assert peak_tflops(peak, "fp32") == pytest.approx(peak.sms * 128 * 2 * 1785e6 / 1e12, rel=0.01)


BY_FORMULA = [p for p in builtin_peaks() if p.details]


@pytest.mark.parametrize("peak", BY_FORMULA, ids=lambda p: p.names[0])
def test_the_16_bit_peak_is_units_times_fma_times_clock(peak: Peak) -> None:
    assert peak.sms is not None
    fma = peak.details["fp16_fma_per_clock_sm"]
    by_formula = peak.sms * fma * 2 * peak.details["boost_mhz"] * 1e6 / 1e12
    # 1.5%: the L40S datasheet gives 362.05 where its published boost clock makes 366.4.
    assert peak_tflops(peak, "fp16", "fp16") == pytest.approx(by_formula, rel=0.015)


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("peak", BY_FORMULA, ids=lambda p: p.names[0])
def test_the_wide_peaks_are_units_times_fma_times_clock(peak: Peak, dtype: str) -> None:
    assert peak.sms is not None
    fma = peak.details[f"{dtype}_fma_per_clock_sm"]
    by_formula = peak.sms * fma * 2 * peak.details["vector_mhz"] * 1e6 / 1e12
    # 1%: datasheets round to three digits, the T4's to two.
    assert peak_tflops(peak, dtype) == pytest.approx(by_formula, rel=0.01)


def test_the_formula_covers_most_devices_and_every_device_has_its_units_and_cache() -> None:
    assert len(BY_FORMULA) >= 20
    assert all(p.sms and p.l2_mib for p in builtin_peaks())
    # Published, or reported by the device: Hopper has 10 MB a memory stack, of which the H100 has
    # five and the others six; MI300X and MI325X have 4 MB on each of 8 dies.
    caches = {
        "Tesla V100-SXM2-32GB": 6, "Tesla V100S-PCIE-32GB": 6, "NVIDIA A100-SXM4-80GB": 40,
        "NVIDIA A10": 6, "NVIDIA GeForce RTX 3090": 6, "NVIDIA L4": 48,
        "NVIDIA GeForce RTX 4090": 72, "NVIDIA H100 80GB HBM3": 50, "NVIDIA H100 NVL": 60,
        "NVIDIA H200": 60, "NVIDIA H200 NVL": 60, "AMD Instinct MI210": 8,
        "AMD Instinct MI250X": 8, "AMD Instinct MI300X": 32, "AMD Instinct MI325X": 32,
    }  # fmt: skip
    for name, l2_mib in caches.items():
        peak = find_peak(name, builtin_peaks())
        assert peak is not None
        assert peak.l2_mib == l2_mib


@pytest.mark.parametrize(
    ("dtype", "since"),
    [
        ("fp64", ()),
        ("fp32", ()),
        ("fp16", ()),
        ("int8", ("T4", "A10", "3090", "L4", "4090", "H100", "H200", "B200", "5090", "MI")),
        ("bf16", ("A10", "3090", "L4", "4090", "H100", "H200", "B200", "B300", "5090", "MI")),
        ("tf32", ("A10", "3090", "L4", "4090", "H100", "H200", "B200", "B300", "5090", "MI30")),
        ("fp8", ("L4", "4090", "H100", "H200", "B200", "B300", "5090", "MI3")),
        ("fp4", ("B200", "B300", "5090", "MI355")),
    ],
)
def test_every_device_has_the_dtypes_that_its_generation_brought(
    dtype: str, since: tuple[str, ...]
) -> None:
    having = [p for p in builtin_peaks() if dtype in {d.partition(":")[0] for d in p.tflops}]
    due = [p for p in builtin_peaks() if not since or any(s in p.names[0] for s in since)]
    assert [p.names[0] for p in due if p not in having] == []
    assert len(due) >= 4


def test_figures_are_dense_so_each_narrower_type_doubles_and_none_does_more() -> None:
    for peak in builtin_peaks():
        fp16 = peak_tflops(peak, "fp16", "fp16")
        fp8 = peak_tflops(peak, "fp8", "fp16")
        assert fp16 is not None
        if fp8 is not None:
            assert fp8 == pytest.approx(2 * fp16, rel=0.02), peak.names


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA A10G",
        "NVIDIA L40",
        "NVIDIA H100 64GB HBM2",
        "AMD Instinct MI250X/MI250",
        "AMD Radeon Graphics",
        "Quadro GP100",
        "cpu",
        "",
    ],
)
def test_a_slice_a_relative_or_an_unknown_device_has_no_peak(name: str) -> None:
    assert find_peak(name, builtin_peaks()) is None


def test_the_longest_prefix_wins_and_a_later_declaration_replaces_ours() -> None:
    short = Peak(("NVIDIA H200",), {"bf16": 1.0})
    mine = Peak(("NVIDIA H200 NVL",), {"bf16": 2.0})
    assert find_peak("NVIDIA H200 NVL", [*builtin_peaks(), short]) != short
    assert find_peak("NVIDIA H200 NVL", [*builtin_peaks(), mine]) is mine
    assert find_peak("NVIDIA H200", [*builtin_peaks(), short]) is short


def test_a_declared_slice_matches_the_slice() -> None:
    declared = Peak(("NVIDIA A100-SXM4-40GB MIG 1g",), {"bf16": 44.0})
    peaks = [*builtin_peaks(), declared]
    assert find_peak("NVIDIA A100-SXM4-40GB MIG 1g.5gb", peaks) is declared


def test_a_device_with_fewer_multiprocessors_than_its_name_says_has_no_peak() -> None:
    name = "AMD Instinct MI300X"
    assert find_peak(name, builtin_peaks(), sms=304) is not None
    assert find_peak(name, builtin_peaks(), sms=38) is None  # one die of eight (CPX mode)


def test_a_4090_runs_fp16_at_half_rate_with_the_accumulator_torch_uses() -> None:
    peak = find_peak("NVIDIA GeForce RTX 4090", builtin_peaks())
    assert peak is not None
    assert peak_tflops(peak, "fp16") == 165.2
    assert peak_tflops(peak, "fp16", "fp16") == 330.3
    # 1/64 of fp32's 82.6.
    assert peak_tflops(peak, "fp64") == 1.29
    assert peak_tflops(peak, "fp4") is None
