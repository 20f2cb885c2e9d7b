"""A GPU's power limit and clock policy, as NVML tells them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.recording.telemetry.policy import read_policy


class _RefusedError(Exception):
    value = 3  # NVML_ERROR_NOT_SUPPORTED


def _nvml(**calls: Any) -> SimpleNamespace:
    def unknown(*_: object) -> int:
        raise _RefusedError

    return SimpleNamespace(
        NVMLError=_RefusedError,
        NVML_ERROR_NOT_FOUND=6,
        NVML_ERROR_INVALID_ARGUMENT=2,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        **{
            "nvmlDeviceGetEnforcedPowerLimit": unknown,
            "nvmlDeviceGetApplicationsClock": unknown,
            "nvmlDeviceGetDefaultApplicationsClock": unknown,
            **calls,
        },
    )


USUAL = {1: 1980, 2: 2619}


@pytest.mark.parametrize(
    ("now", "said"), [(USUAL, "default"), ({1: 1410, 2: 2619}, "1410/2619 MHz")]
)
def test_the_limit_in_watts_and_clocks_only_where_somebody_set_them(
    now: dict[int, int], said: str
) -> None:
    nvml = _nvml(
        nvmlDeviceGetEnforcedPowerLimit=lambda _: 700_000,  # milliwatts
        nvmlDeviceGetApplicationsClock=lambda _, kind: now[kind],
        nvmlDeviceGetDefaultApplicationsClock=lambda _, kind: USUAL[kind],
    )
    assert read_policy(nvml, ["GPU-1"]) == {"power_limit": "700 W", "clocks": said}


def test_what_a_device_does_not_tell_is_left_out() -> None:
    assert read_policy(_nvml(), ["GPU-1"]) == {}
