"""What a live run's NVML summary says, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from gpuperf_analyzers.hookspecs import Peak
from gpuperf_analyzers.live_block import LiveBlock, parse_live_block
from gpuperf_analyzers.metrics import BUILTIN, TELEMETRY, Value
from gpuperf_analyzers.telemetry import telemetry_findings, telemetry_values
from gpuperf_analyzers.trace.model import Finding

METRICS = {metric.name: metric for metric in BUILTIN}
TIMES = {"step_time", "tflops", "mfu", "overlap", "exposed_comm", "busbw"}
EXACT = {"kernel_launches", "host_syncs", "peak_memory", "flops", "collective_bytes"}


def _block(telemetry: dict[str, dict[str, float]] | None = None, **changes: Any) -> LiveBlock:
    fields: dict[str, Any] = {
        "device": "NVIDIA H100 80GB HBM3", "device_type": "cuda",
        "samples_us": (1000.0,) * 5 + (1010.0, 1020.0), "telemetry": telemetry or {}, **changes,
    }  # fmt: skip
    return LiveBlock(**fields)


def _values(block: LiveBlock, *peaks: Peak) -> dict[str, Value]:
    return {value.name: value for value in telemetry_values(block, peaks, None)}


def _findings(**counts: float) -> dict[str, Finding]:
    telemetry = {name.replace("__", ":"): {"value": value} for name, value in counts.items()}
    found = telemetry_findings(_block(telemetry), METRICS)
    return {finding.code: finding for finding in found}


def test_the_summary_becomes_values_with_their_bounds() -> None:
    telemetry = {"power": {"value": 310.5, "n": 20, "min": 90.0, "max": 400.0}}
    value = _values(_block(telemetry))["power"]
    assert (value.value, value.n) == (310.5, 20)
    assert value.source == "NVML, min 90, max 400"


def test_what_dcgm_told_says_so_and_its_bandwidth_too() -> None:
    """Half of the table's 3,350 GB/s of an H100 SXM."""
    half = {"value": 0.5, "n": 8, "min": 0.4, "max": 0.6, "dcgm": 1.0}
    values = _values(_block({"dram_active": half}), Peak(("NVIDIA H100",), {}, memory_gb_s=3350))
    assert values["dram_active"].source == "DCGM, min 0.4, max 0.6"
    assert values["dram_bandwidth"].value == 1675
    assert values["dram_bandwidth"].n == 8
    assert values["dram_bandwidth"].source == "DCGM, min 1340, max 2010"


def test_every_metric_of_nvmls_has_a_value_or_a_reason() -> None:
    block = _block(telemetry_absent={"sm_active": "NVML says: Not Supported"})
    values = _values(block)
    assert set(values) == TELEMETRY
    assert values["sm_active"].absent_reason == "NVML says: Not Supported"
    assert "no such counter" in (values["power"].absent_reason or "")
    assert _values(_block(telemetry_absent={"": "Driver Not Loaded"}))["power"].absent_reason == (
        "Driver Not Loaded"
    )


def test_a_reason_stands_over_a_value_of_too_short_a_window() -> None:
    block = _block(
        {"power": {"value": 300.0}}, telemetry_absent={"power": "window-too-short: 0.4 s"}
    )
    assert _values(block)["power"].absent_reason == "window-too-short: 0.4 s"


def test_a_cpu_has_no_counters() -> None:
    assert _values(_block(device_type="cpu")) == {}


def test_the_memorys_bandwidth_is_its_active_share_of_the_peak() -> None:
    telemetry = {"dram_active": {"value": 0.5, "n": 10, "min": 0.4, "max": 0.6}}
    peak = Peak(("NVIDIA H100 80GB HBM3",), {}, memory_gb_s=3350)
    assert _values(_block(telemetry), peak)["dram_bandwidth"].value == pytest.approx(1675)
    assert _values(_block(telemetry))["dram_bandwidth"].value is None
    told = telemetry | {"dram_bandwidth": {"value": 1676.16, "n": 10}}
    assert _values(_block(told), peak)["dram_bandwidth"].value == 1676.16


def test_the_energy_of_a_step_has_the_bounds_of_its_counter() -> None:
    telemetry = {"energy_per_step": {"value": 40.0, "n": 13, "min": 39.0, "max": 40.5}}
    value = _values(_block(telemetry))["energy_per_step"]
    assert (value.value, value.interval, value.n) == (40.0, (39.0, 40.5), 13)


def test_a_step_in_cycles_is_its_time_at_the_clock_it_ran_at() -> None:
    # 1000 µs at 1500 MHz are 1.5 million cycles, as 750 µs at 2000 MHz would be.
    value = _values(_block({"sm_clock": {"value": 1500.0}}))["step_cycles"]
    assert value.value == 1_500_000
    assert value.interval == (1_500_000, 1_530_000)
    faster = _block({"sm_clock": {"value": 2000.0}}, samples_us=(750.0,) * 6)
    assert _values(faster)["step_cycles"].value == 1_500_000


def test_heat_in_most_samples_makes_times_invalid_and_no_count() -> None:
    found = _findings(
        throttled=0.6, slowed=0.55, reason__sw_thermal_slowdown=0.55, reason__sw_power_cap=0.2,
        reason__gpu_idle=0.1,
    )["throttled"]  # fmt: skip
    assert found.invalidates >= TIMES
    assert not found.invalidates & (EXACT | TELEMETRY)
    assert "60%" in found.message
    assert found.example == "sw_thermal_slowdown 55%, sw_power_cap 20%"


def test_a_steady_power_cap_is_said_and_a_wandering_one_makes_times_invalid() -> None:
    steady = _findings(throttled=1.0, slowed=0, clock_spread=0.02, reason__sw_power_cap=1.0)
    assert set(steady) == {"power-capped"}
    assert not steady["power-capped"].invalidates
    assert steady["power-capped"].message.endswith("they were steady")
    unknown = _findings(throttled=1.0, slowed=0, reason__sw_power_cap=1.0)
    assert "not known" in unknown["power-capped"].message
    wandering = _findings(throttled=1.0, slowed=0, clock_spread=0.3, reason__sw_power_cap=1.0)
    assert wandering["throttled"].invalidates >= TIMES


def test_cycles_stand_where_the_clock_was_low_and_steady_and_nothing_else_was_wrong() -> None:
    hot = {"throttled": 1.0, "slowed": 1.0, "reason__hw_thermal_slowdown": 1.0}
    assert "step_cycles" not in _findings(clock_spread=0.02, **hot)["throttled"].invalidates
    assert "step_cycles" in _findings(clock_spread=0.3, **hot)["throttled"].invalidates
    for code, counts in {"device-shared": {"other_users": 1}, "xid": {"xid__79": 1},
                         "ecc-uncorrected": {"ecc_uncorrected": 1}}.items():  # fmt: skip
        assert "step_cycles" in _findings(**counts)[code].invalidates


def test_throttling_of_few_samples_is_said() -> None:
    found = _findings(throttled=0.1, slowed=0.1, reason__hw_slowdown=0.1)
    assert set(found) == {"partly-throttled"}
    assert not found["partly-throttled"].invalidates


def test_an_idle_clock_or_one_that_was_set_is_no_finding() -> None:
    assert not _findings(throttled=0, reason__gpu_idle=1.0, reason__application_clocks=1.0)


def test_a_device_that_another_process_used_gives_no_times_and_no_counters() -> None:
    found = _findings(other_users=1, other_contexts=2)
    assert set(found) == {"device-shared"}
    assert found["device-shared"].invalidates >= TIMES | {"power", "sm_active"}
    assert not found["device-shared"].invalidates & EXACT


def test_another_process_that_only_holds_the_device_open_is_said() -> None:
    found = _findings(other_users=0, other_contexts=2)
    assert set(found) == {"other-context"}
    assert not found["other-context"].invalidates


def test_errors_of_the_hardware_make_times_invalid() -> None:
    found = _findings(xid__79=1, ecc_uncorrected=3, ecc_corrected=5)
    assert found["xid"].invalidates >= TIMES
    assert "XID 79" in found["xid"].message
    assert found["ecc-uncorrected"].count == 3
    assert not found["ecc-corrected"].invalidates


def test_a_lost_gpu_makes_everything_invalid() -> None:
    assert _findings(lost=1)["gpu-lost"].invalidates == set(METRICS)


def test_an_energy_of_few_updates_of_its_counter_is_said_to_be_coarse() -> None:
    coarse = {"energy_per_step": {"value": 40.0, "n": 4, "min": 36.0, "max": 44.0}}
    (found,) = telemetry_findings(_block(coarse), METRICS)
    assert (found.code, found.count) == ("energy-window-short", 4)
    assert "within 10%" in found.message  # 8 J wide, 40 J in the middle
    assert not found.invalidates
    fine = {"energy_per_step": {"value": 40.0, "n": 13, "min": 39.0, "max": 41.0}}
    assert not telemetry_findings(_block(fine), METRICS)
    absent = {"energy_per_step": "window-too-short: 0.4 s"}
    assert not telemetry_findings(_block(coarse, telemetry_absent=absent), METRICS)


def test_reasons_survive_the_trace_and_are_checked() -> None:
    block = _block(telemetry_absent={"power": "NVML says: Not Supported"})
    assert parse_live_block(block.to_json()) == block
    with pytest.raises(ValueError, match="telemetry_absent"):
        parse_live_block({"schema": 1, "telemetry_absent": {"power": 3}})
