# ruff: noqa: N802 - the fake has NVML's own names
"""The NVML sampler against a binding that says what each test needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pynvml
import pytest

from pytest_gpuperf.recording import nvml
from pytest_gpuperf.recording.clock_reasons import ClockReason, is_throttled, reason_names
from pytest_gpuperf.recording.nvml import NvmlSampler


class FakeNvml:
    """NVML with one GPU; `errors` maps a function's name to the code that it raises."""

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM = pynvml.NVML_CLOCK_SM
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU
    NVML_ERROR_GPU_IS_LOST = pynvml.NVML_ERROR_GPU_IS_LOST
    NVML_ERROR_NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
    NVML_ERROR_FUNCTION_NOT_FOUND = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    NVML_ERROR_NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.reasons: list[int] = [0]
        self.power_mw: list[int] = [250_000]
        self.open = 0
        self.sampled = threading.Event()

    def _called(self, name: str) -> int:
        self.calls[name] = self.calls.get(name, 0) + 1
        if name in self.errors:
            raise pynvml.NVMLError(self.errors[name])
        return self.calls[name] - 1

    def nvmlInit(self) -> None:
        self._called("nvmlInit")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1
        self._called("nvmlShutdown")

    def nvmlSystemGetDriverVersion(self) -> str:
        self._called("nvmlSystemGetDriverVersion")
        return "580.65.06"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self._called("nvmlDeviceGetHandleByUUID")
        if uuid != "GPU-1":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        self._called("nvmlDeviceGetClockInfo")
        assert (handle, kind) == ("handle", 1)
        return 1980

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return self.power_mw[self._called("nvmlDeviceGetPowerUsage") % len(self.power_mw)]

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 50 + min(self._called("nvmlDeviceGetTemperature"), 5)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        count = self._called("nvmlDeviceGetCurrentClocksEventReasons")
        if count >= 5:
            self.sampled.set()
        return self.reasons[count % len(self.reasons)]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        count = self._called("nvmlDeviceGetCurrentClocksThrottleReasons")
        if count >= 5:
            self.sampled.set()
        return self.reasons[count % len(self.reasons)]

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        self._called("nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=85, memory=40)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        self._called("nvmlDeviceGetMemoryInfo")
        return SimpleNamespace(used=3 * 2**30)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    made = FakeNvml()
    monkeypatch.setattr(nvml, "_binding", lambda: made)
    yield made
    assert made.open == 0, "every init has its shutdown"


def sampled(fake: FakeNvml, *, uuid: str | None = "GPU-1") -> NvmlSampler:
    with NvmlSampler(uuid, interval_s=0.001) as sampler:
        fake.sampled.wait(5)
    return sampler


def ended_by_itself(uuid: str | None = "GPU-1") -> NvmlSampler:
    with NvmlSampler(uuid, interval_s=0.001) as sampler:
        deadline = time.monotonic() + 5
        while sampler.absent_reason is None and time.monotonic() < deadline:
            time.sleep(0.001)
    return sampler


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


def test_samples_are_in_the_metrics_units(fake: FakeNvml) -> None:
    fake.power_mw = [100_000, 300_000]
    found = sampled(fake).summary()
    assert found["sm_clock"]["value"] == 1980.0  # MHz
    assert (found["power"]["min"], found["power"]["max"]) == (100.0, 300.0)  # W, from mW
    assert found["power"]["value"] == pytest.approx(200.0, rel=0.2)
    assert found["temperature"]["value"] == 55.0  # the highest
    assert found["gpu_util"]["value"] == 0.85  # a fraction, from percent
    assert found["memory_used"]["value"] == 3 * 2**30
    assert found["throttled"]["value"] == 0.0
    assert found["sm_clock"]["n"] >= 6
    assert found["gpu_util"]["n"] < found["sm_clock"]["n"]


def test_throttling_is_the_share_of_samples_and_each_reason_is_told(fake: FakeNvml) -> None:
    # The first of four is idle, the second throttled twice over, the others free.
    fake.reasons = [0x1, 0x4 | 0x40, 0, 0]
    found = sampled(fake).summary()
    n = found["throttled"]["n"]
    throttled = sum(i % 4 == 1 for i in range(int(n)))
    assert found["throttled"]["value"] == pytest.approx(throttled / n)
    assert found["reason:sw_power_cap"]["value"] == pytest.approx(throttled / n)
    assert found["reason:hw_thermal_slowdown"]["value"] == pytest.approx(throttled / n)
    assert 0 < found["reason:gpu_idle"]["value"] < 1


def test_a_counter_that_the_device_lacks_is_absent_and_asked_once(fake: FakeNvml) -> None:
    fake.errors = {
        "nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_NOT_SUPPORTED,
        "nvmlDeviceGetUtilizationRates": pynvml.NVML_ERROR_NO_PERMISSION,
    }
    sampler = sampled(fake)
    assert sampler.absent_reason is None
    assert {"power", "gpu_util"}.isdisjoint(sampler.summary())
    assert "sm_clock" in sampler.summary()
    assert fake.calls["nvmlDeviceGetPowerUsage"] == 1


def test_a_passing_error_costs_its_sample_only(fake: FakeNvml) -> None:
    fake.errors = {"nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_TIMEOUT}
    found = sampled(fake).summary()
    assert "power" not in found
    assert fake.calls["nvmlDeviceGetPowerUsage"] > 1
    assert found["sm_clock"]["n"] >= 6


def test_an_old_driver_is_asked_by_the_old_name(fake: FakeNvml) -> None:
    fake.errors = {"nvmlDeviceGetCurrentClocksEventReasons": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    fake.reasons = [0x8]
    assert sampled(fake).summary()["throttled"]["value"] == 1.0


def test_no_driver_is_a_reason_and_no_error(fake: FakeNvml) -> None:
    fake.errors = {"nvmlInit": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}
    sampler = ended_by_itself()
    assert sampler.summary() == {}
    assert sampler.absent_reason == "NVML Shared Library Not Found"
    assert nvml.driver_version() == ""


def test_a_device_that_nvml_does_not_know_is_absent(fake: FakeNvml) -> None:
    assert ended_by_itself("GPU-2").summary() == {}
    assert ended_by_itself(None).absent_reason == "the device has no UUID that NVML knows"


def test_a_lost_gpu_ends_the_sampling_and_keeps_what_was_there(fake: FakeNvml) -> None:
    fake.errors = {
        "nvmlDeviceGetUtilizationRates": pynvml.NVML_ERROR_GPU_IS_LOST,
        "nvmlShutdown": pynvml.NVML_ERROR_GPU_IS_LOST,
    }
    sampler = ended_by_itself()
    assert sampler.absent_reason == "GPU is lost"
    assert sampler.summary()["sm_clock"] == {"value": 1980.0, "n": 1, "min": 1980.0, "max": 1980.0}


def test_the_drivers_version_is_text(fake: FakeNvml) -> None:
    assert nvml.driver_version() == "580.65.06"


@pytest.mark.parametrize(
    ("torchs", "nvmls"),
    [
        ("12ab-34", "GPU-12ab-34"),
        ("GPU-12ab-34", "GPU-12ab-34"),
        ("MIG-56cd", "MIG-56cd"),
        (None, None),
    ],
)
def test_torchs_uuid_becomes_nvmls(
    monkeypatch: pytest.MonkeyPatch, torchs: str | None, nvmls: str | None
) -> None:
    properties = SimpleNamespace(uuid=torchs) if torchs else SimpleNamespace()
    cuda = SimpleNamespace(get_device_properties=lambda _: properties)
    monkeypatch.setattr(nvml, "import_torch", lambda: SimpleNamespace(cuda=cuda))
    assert nvml.device_uuid(None) == nvmls
