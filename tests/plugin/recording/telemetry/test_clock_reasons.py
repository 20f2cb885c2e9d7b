"""Clock-event reasons, bit by bit."""

from __future__ import annotations

import pynvml
import pytest

from pytest_gpuperf.recording.clock_reasons import (
    ClockReason,
    is_slowed,
    is_throttled,
    reason_names,
)


def test_the_table_of_reasons_is_nvmls() -> None:
    of_nvml = {
        pynvml.nvmlClocksEventReasonGpuIdle: "gpu_idle",
        pynvml.nvmlClocksEventReasonApplicationsClocksSetting: "application_clocks",
        pynvml.nvmlClocksEventReasonSwPowerCap: "sw_power_cap",
        pynvml.nvmlClocksEventReasonHwSlowdown: "hw_slowdown",
        pynvml.nvmlClocksEventReasonSyncBoost: "sync_boost",
        pynvml.nvmlClocksEventReasonSwThermalSlowdown: "sw_thermal_slowdown",
        pynvml.nvmlClocksEventReasonHwThermalSlowdown: "hw_thermal_slowdown",
        pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "hw_power_brake",
        pynvml.nvmlClocksEventReasonDisplayClockSetting: "display_clocks",
        pynvml.nvmlClocksThrottleReasonBoardLimit: "board_limit",
        pynvml.nvmlClocksThrottleReasonReliability: "reliability",
    }
    assert {mask: reason_names(mask) for mask in of_nvml} == {
        mask: (name,) for mask, name in of_nvml.items()
    }


def test_several_reasons_at_once_are_all_told_and_unknown_bits_kept() -> None:
    mask = ClockReason.SW_POWER_CAP | ClockReason.HW_THERMAL_SLOWDOWN | 1 << 40
    assert reason_names(mask) == ("sw_power_cap", "hw_thermal_slowdown", "bit_40")
    assert reason_names(0) == ()


@pytest.mark.parametrize(
    ("mask", "throttled"),
    [
        (0, False),
        (ClockReason.GPU_IDLE, False),
        (ClockReason.APPLICATION_CLOCKS | ClockReason.SYNC_BOOST, False),
        (1 << 40, False),
        (ClockReason.SW_POWER_CAP, True),
        (ClockReason.GPU_IDLE | ClockReason.HW_SLOWDOWN, True),
        (ClockReason.APPLICATION_CLOCKS | ClockReason.SW_THERMAL_SLOWDOWN, True),
    ],
)
def test_idle_and_chosen_clocks_are_no_throttling(mask: int, throttled: bool) -> None:
    assert is_throttled(mask) is throttled


def test_the_power_cap_alone_is_no_slowdown() -> None:
    assert not is_slowed(ClockReason.SW_POWER_CAP)
    assert is_slowed(ClockReason.SW_POWER_CAP | ClockReason.HW_POWER_BRAKE)
    assert is_slowed(ClockReason.SW_THERMAL_SLOWDOWN)
