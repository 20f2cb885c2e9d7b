"""Live samples for Prometheus, by the made-up driver."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

pytest.importorskip("prometheus_client")

import pynvml

from pytest_gpuperf.exporter.live import LiveGpus

from .conftest import FakeNvml


def _read(families: Iterable[object]) -> dict[tuple[str, str], float]:
    return {
        (s.name, s.labels.get("reason", "")): s.value
        for family in families
        for s in family.samples  # type: ignore[attr-defined]
    }


def test_readings_are_in_base_units_and_saturation_is_since_the_last_scrape(
    nvml: FakeNvml,
) -> None:
    nvml.set("gpm_2 91", "sm_clock 1500", "power_mw 300000", "reasons 64")
    with LiveGpus() as gpus:
        assert len(gpus) == 1
        time.sleep(0.15)  # GPM's refresh
        found = _read(gpus.collect())
        family = next(f for f in gpus.collect() if f.name == "gpuperf_gpu_power_watts")
    assert found["gpuperf_gpu_sm_clock_hertz", ""] == 1.5e9
    assert found["gpuperf_gpu_power_watts", ""] == 300
    assert found["gpuperf_gpu_sm_active_ratio", ""] == pytest.approx(0.91)
    assert found["gpuperf_gpu_throttled", ""] == 1
    assert found["gpuperf_gpu_clock_event", "hw_thermal_slowdown"] == 1
    assert found["gpuperf_gpu_clock_event", "sw_power_cap"] == 0
    assert found["gpuperf_gpu_up", ""] == 1
    assert ("gpuperf_gpu_energy_joules_total", "") in found
    assert family.samples[0].labels == {"gpu": "0", "uuid": "GPU-1", "model": 'Made-up "GPU"'}


def test_what_the_driver_refuses_makes_no_series(nvml: FakeNvml) -> None:
    nvml.set("gpm 0", "fail nvmlDeviceGetPowerUsage 3")
    with LiveGpus() as gpus:
        found = _read(gpus.collect())
    assert ("gpuperf_gpu_power_watts", "") not in found
    assert ("gpuperf_gpu_sm_active_ratio", "") not in found
    assert ("gpuperf_gpu_sm_clock_hertz", "") in found


def test_a_gpu_that_is_lost_is_down(nvml: FakeNvml) -> None:
    nvml.set("fail every 15 200")
    with LiveGpus() as gpus:
        for _ in range(40):
            found = _read(gpus.collect())
    assert found == {("gpuperf_gpu_up", ""): 0}


def test_without_a_driver_it_says_so(nvml: FakeNvml) -> None:
    nvml.set("fail nvmlInitWithFlags 9")
    with pytest.raises(pynvml.NVMLError, match="Driver Not Loaded"), LiveGpus():
        pass
