"""The sampler through the real binding, against a shared object with NVML's own symbols."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from gpuperf_analyzers.metrics import TELEMETRY
from pytest_gpuperf.recording.telemetry import sampler as sampler_module
from pytest_gpuperf.recording.telemetry.binding import driver_version
from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler
from pytest_gpuperf.recording.telemetry.summary import Telemetry, joined, telemetry_of

from .conftest import BuildLibrary, FakeNvml

GPM = (
    "gpm_2 91", "gpm_3 40", "gpm_5 35", "gpm_10 50", "gpm_11 1", "gpm_12 2", "gpm_13 3",
    "gpm_60 1000", "gpm_61 2000",
)  # fmt: skip
"""Every GPM metric that is asked for, by NVML's number, in NVML's unit."""
HOPPER_ONLY = {"sm_active", "sm_occupancy", "tensor_active", "dram_active", "dram_bandwidth"}


def watched(seconds: float, *uuids: str, calls: int | None = None) -> Telemetry:
    with TelemetrySampler(uuids or ("GPU-1",)) as sampler:
        time.sleep(seconds)
    return telemetry_of(sampler, calls)


def until(
    nvml: FakeNvml, enough: Callable[[], bool], *uuids: str
) -> tuple[Telemetry, TelemetrySampler]:
    """A window that lasts until `enough`, or until the sampler has ended by itself."""
    with TelemetrySampler(uuids or ("GPU-1",), interval_s=0.001) as sampler:
        deadline = time.monotonic() + 10
        while not (enough() or sampler.absent_reason) and time.monotonic() < deadline:
            time.sleep(0.001)
    return telemetry_of(sampler), sampler


def test_a_window_of_a_second_gives_every_metric_in_its_unit(nvml: FakeNvml) -> None:
    nvml.set(*GPM, "sm_clock 1485", "temperature 50 61 55", "energy_w 400")
    found = watched(1.3, calls=13)
    values = {name: summary["value"] for name, summary in found.values.items()}
    assert found.absent == {}
    assert set(values) >= TELEMETRY - {"step_cycles"}
    assert values["sm_clock"] == 1485  # MHz
    assert values["power"] == 250  # W, from mW
    assert values["temperature"] == 61  # the highest
    assert values["gpu_util"] == 0.85  # from percent
    assert values["memory_used"] == 3 * 2**30
    assert (values["pcie_rx"], values["pcie_tx"]) == (2.0, 1.0)  # GB/s, from kB/s
    assert values["clock_drop"] == pytest.approx(0.25)  # 1485 of 1980 MHz
    assert values["throttled"] == 0
    assert values["sm_active"] == pytest.approx(0.91)  # from percent
    assert values["sm_occupancy"] == pytest.approx(0.40)
    assert values["tensor_active"] == pytest.approx(0.35)
    assert (values["fp64_active"], values["fp16_active"]) == pytest.approx((0.01, 0.03))
    # Half of 2 x 2619 MHz x 5120 bits, the H100's 3352 GB/s.
    assert values["dram_bandwidth"] == pytest.approx(0.5 * 3352.32)
    assert values["nvlink_rx"] == pytest.approx(1000 * 2**20 / 1e9)  # from MiB/s
    energy = found.values["energy_per_step"]
    # 13 calls in 1.3 s at 400 W: 40 J each. A busy machine wakes us later.
    joules = 400 * values["window"] / 13
    assert joules >= 40
    assert energy["min"] <= joules * 1.05
    assert energy["max"] >= joules
    assert energy["value"] == pytest.approx(joules, rel=0.1)


def test_the_achieved_rate_and_the_cost_are_told_and_bounded(nvml: FakeNvml) -> None:
    nvml.set(*GPM)
    found = watched(1.5).values
    assert found["sampler_rate"]["max"] == 50  # asked for
    assert 10 <= found["sampler_rate"]["value"] <= 51
    assert found["sampler_cost"]["value"] < 0.01
    window_s = found["window"]["value"]
    assert window_s >= 1.5
    # What takes the driver 20 ms is asked, both ways, to open and then each half second at most.
    asked = nvml.calls("nvmlDeviceGetPcieThroughput")
    assert 2 * 2 <= asked <= 2 * (1 + window_s / 0.5)


def test_gpm_samples_are_never_closer_than_the_hardware_refreshes_them(nvml: FakeNvml) -> None:
    nvml.set(*GPM)
    watched(0.5)
    assert nvml.calls("nvmlGpmMetricsGet") >= 3
    assert nvml.calls("gpm_too_close") == 0
    assert nvml.calls("nvmlGpmSampleAlloc") == nvml.calls("nvmlGpmSampleFree") == 3


def test_a_window_below_a_second_is_too_short_for_every_metric(nvml: FakeNvml) -> None:
    nvml.set("gpm_2 91", "reasons 64")
    found = watched(0.3, calls=3)
    window_s = found.values["window"]["value"]
    assert 0.3 <= window_s < 1
    too_short = f"window-too-short: {window_s:.2g} s were watched"
    for name in TELEMETRY - HOPPER_ONLY - {"step_cycles", "fp64_active", "fp32_active",
                                           "fp16_active", "nvlink_rx", "nvlink_tx"}:  # fmt: skip
        assert found.absent[name].startswith(too_short), name
    assert found.absent["sm_active"].startswith("window-too-short")
    # A longer window would not make the device have it.
    assert found.absent["tensor_active"] == "NVML says: Not Supported"
    # The raw readings stay: heat in all of them is known all the same.
    assert found.values["slowed"]["value"] == 1


def test_several_reasons_at_once_are_shares_of_samples_each(nvml: FakeNvml) -> None:
    # The first reading opens the window; of the next four one is idle, two are throttled: one by
    # power and heat, one by a bit that no one has named and the hardware. The last is repeated.
    nvml.set(f"reasons 0 1 {0x4 | 0x40} {0x8 | 1 << 40} 0 0")
    found, _ = until(nvml, lambda: nvml.calls("nvmlDeviceGetCurrentClocksEventReasons") >= 12)
    n = found.values["throttled"]["n"]
    assert found.values["throttled"]["value"] == pytest.approx(2 / n)
    for name in ("gpu_idle", "sw_power_cap", "hw_thermal_slowdown", "hw_slowdown", "bit_40"):
        assert found.values[f"reason:{name}"]["value"] == pytest.approx(1 / n), name


def test_clocks_that_were_set_are_no_drop(nvml: FakeNvml) -> None:
    nvml.set("sm_clock 1200", "reasons 2")
    found, _ = until(nvml, lambda: nvml.calls("nvmlDeviceGetClockInfo") >= 10)
    assert found.values["clock_drop"]["value"] == 0
    assert found.values["throttled"]["value"] == 0


@pytest.mark.parametrize("nvml", ["old"], indirect=True)
def test_an_old_driver_gives_what_it_has_and_says_what_not(nvml: FakeNvml) -> None:
    nvml.set("reasons 8")
    found = watched(1.1, calls=11)
    assert found.values["throttled"]["value"] == 1  # by the function's older name
    assert found.values["power"]["value"] == 250
    assert found.absent["sm_active"].startswith("NVML says: Function Not Found")
    assert found.absent["dram_bandwidth"].startswith("NVML says: Function Not Found")
    assert "energy_per_step" in found.values


def test_a_gpu_before_hopper_has_no_gpm_and_counts_nvlink_itself(nvml: FakeNvml) -> None:
    nvml.set("gpm 0", "nvlink_code 0", f"nvlink_kib {2 * 10**6}")
    found = watched(1.1)
    assert "Hopper" in found.absent["sm_active"]
    # 2e6 KiB a second.
    assert found.values["nvlink_rx"]["value"] == pytest.approx(2.048, rel=0.02)
    assert "nvlink_rx" not in found.absent


def test_a_counter_without_permission_is_absent_and_asked_once(nvml: FakeNvml) -> None:
    nvml.set(
        f"fail nvmlDeviceGetPowerUsage {pynvml.NVML_ERROR_NO_PERMISSION}",
        f"fail nvmlGpmQueryDeviceSupport {pynvml.NVML_ERROR_NO_PERMISSION}",
        f"fail nvmlDeviceRegisterEvents {pynvml.NVML_ERROR_NO_PERMISSION}",
        f"fail nvmlDeviceGetComputeRunningProcesses_v3 {pynvml.NVML_ERROR_NO_PERMISSION}",
    )
    found, sampler = until(nvml, lambda: nvml.calls("nvmlDeviceGetClockInfo") >= 10)
    assert sampler.absent_reason is None
    assert found.absent["power"] == "NVML says: Insufficient Permissions"
    assert found.absent["sm_active"].startswith("NVML says: Insufficient Permissions")
    assert nvml.calls("nvmlDeviceGetPowerUsage") == 1
    assert "sm_clock" in found.values
    assert "other_contexts" not in found.values


def test_a_passing_error_costs_its_sample_only(nvml: FakeNvml) -> None:
    nvml.set(f"fail nvmlDeviceGetPowerUsage {pynvml.NVML_ERROR_TIMEOUT} 3")
    found, _ = until(nvml, lambda: nvml.calls("nvmlDeviceGetPowerUsage") >= 8)
    # The first of three good readings opened the window.
    assert found.values["power"]["n"] == 2
    assert found.values["sm_clock"]["n"] >= 6


def test_a_gpu_lost_midway_ends_the_sampling_and_keeps_what_was_there(nvml: FakeNvml) -> None:
    nvml.set(f"fail every {pynvml.NVML_ERROR_GPU_IS_LOST} 120", "xids 79")
    found, sampler = until(nvml, lambda: False)
    assert sampler.absent_reason == "GPU is lost"
    assert found.values["lost"]["value"] == 1
    assert found.values["sm_clock"]["value"] == 1980
    assert found.absent[""] == "GPU is lost"


def test_a_slice_has_its_own_memory_and_gpm_and_the_boards_clocks(nvml: FakeNvml) -> None:
    # CUDA gives the slice's UUID without its prefix: GPU-7 is asked for first, in vain.
    nvml.set("mig 1", "gpm_2 30", "sm_clock 1700", "contexts 1")
    found = watched(1.1, "GPU-7", "MIG-7", calls=10)
    assert found.values["memory_used"]["value"] == 2**30
    assert found.values["sm_active"]["value"] == pytest.approx(0.60)  # of instance 5
    assert nvml.calls("nvmlGpmSampleGet") == 0
    assert found.values["sm_clock"]["value"] == 1700
    for name in ("power", "gpu_util", "energy_per_step", "pcie_rx"):
        assert "MIG slice" in found.absent[name], name
        assert name not in found.values
    assert "other_users" not in found.values  # the driver does not tell for slices


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (f"fail nvmlInitWithFlags {pynvml.NVML_ERROR_DRIVER_NOT_LOADED}", "Driver Not Loaded"),
        (
            f"fail nvmlDeviceGetHandleByUUID {pynvml.NVML_ERROR_UNINITIALIZED}",
            "Uninitialized",
        ),
        (
            f"fail nvmlInitWithFlags {pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}",
            "RM has detected an NVML/RM version mismatch.",
        ),
    ],
)
def test_without_a_working_driver_there_is_a_reason_and_no_error(
    nvml: FakeNvml, setting: str, reason: str
) -> None:
    nvml.set(setting)
    found, sampler = until(nvml, lambda: False)
    assert (found.values, sampler.absent_reason) == ({}, reason)


def test_a_device_that_nvml_does_not_know_is_named(nvml: FakeNvml) -> None:
    found, sampler = until(nvml, lambda: False, "GPU-2", "MIG-2")
    assert sampler.absent_reason == "NVML knows no device with the UUID GPU-2 or MIG-2"
    assert found.values == {}
    with TelemetrySampler(()) as sampler:
        pass
    assert sampler.absent_reason == "the device has no UUID that NVML knows"


def test_a_driver_that_answers_late_is_not_taken_for_the_whole_window(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "_READY_S", 0.0)
    answers, open_board = threading.Event(), sampler_module.open_board

    def late(*arguments: object) -> object:
        assert answers.wait(60)
        return open_board(*arguments)

    monkeypatch.setattr(sampler_module, "open_board", late)
    with TelemetrySampler(["GPU-1"]) as sampler:
        answers.set()
        time.sleep(0.2)
    found = telemetry_of(sampler, calls=2)
    assert found.values == {}
    assert "did not answer" in found.absent[""]


def test_incidents_within_the_window_are_counted(nvml: FakeNvml) -> None:
    # ECC errors: 3 before the window, 5 after it.
    nvml.set("xids 31 31 79", "ecc_corrected 3 3 5", "ecc_uncorrected 2")
    found = watched(0.6).values
    assert (found["xid:31"]["value"], found["xid:79"]["value"]) == (2, 1)
    assert found["ecc_corrected"]["value"] == 2
    assert "ecc_uncorrected" not in found


def test_other_processes_are_those_that_hold_it_and_those_that_used_it(nvml: FakeNvml) -> None:
    own = os.getpid()
    nvml.set(f"contexts {own} {own + 1} {own + 2}", f"users {own} {own + 1}")
    found = watched(0.1).values
    assert found["other_contexts"]["value"] == 2
    assert found["other_users"]["value"] == 1
    nvml.set(f"contexts {own}", f"users {own}")
    alone = watched(0.1).values
    assert (alone["other_contexts"]["value"], alone["other_users"]["value"]) == (0, 0)


def test_the_drivers_version_is_text(nvml: FakeNvml) -> None:
    assert driver_version() == "580.65.06"
    nvml.set(f"fail nvmlInitWithFlags {pynvml.NVML_ERROR_DRIVER_NOT_LOADED}")
    assert driver_version() == ""


def test_metrics_are_the_loops_and_incidents_of_both_windows() -> None:
    samples = Telemetry(
        {"power": {"value": 200.0}, "xid:79": {"value": 1.0}, "other_users": {"value": 0.0}},
        {"energy_per_step": "not looped"},
    )
    loop = Telemetry({"power": {"value": 300.0}, "other_users": {"value": 1.0}}, {})
    both = joined(samples, loop)
    assert both.values["power"]["value"] == 300
    assert both.values["xid:79"]["value"] == 1
    assert both.values["other_users"]["value"] == 1
    assert both.absent == {}


def test_clocks_held_down_in_either_window_are_told_of_the_worse_one() -> None:
    hot = {"throttled": {"value": 0.9, "n": 10.0}, "slowed": {"value": 0.9},
           "reason:hw_thermal_slowdown": {"value": 0.9}, "sm_clock": {"value": 900.0}}  # fmt: skip
    capped = {"throttled": {"value": 1.0, "n": 75.0}, "slowed": {"value": 0.0},
              "reason:sw_power_cap": {"value": 1.0}, "sm_clock": {"value": 1700.0}}  # fmt: skip
    for pair in ((hot, capped), (capped, hot)):
        both = joined(Telemetry(pair[0], {}), Telemetry(pair[1], {})).values
        assert (both["slowed"]["value"], both["throttled"]) == (0.9, {"value": 0.9, "n": 10.0})
        assert "reason:hw_thermal_slowdown" in both
        assert "reason:sw_power_cap" not in both
        assert both["sm_clock"] == pair[1]["sm_clock"]


def test_the_binding_loads_the_library_by_its_own_name(
    build_nvml: BuildLibrary, tmp_path: Path
) -> None:
    folder = build_nvml("current").parent
    scenario = tmp_path / "scenario"
    scenario.write_text("power_mw 123000\n")
    code = (
        "import time\n"
        "from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler\n"
        "from pytest_gpuperf.recording.telemetry.summary import telemetry_of\n"
        "with TelemetrySampler(['GPU-1']) as sampler:\n"
        "    time.sleep(0.1)\n"
        "print(telemetry_of(sampler).values['power']['value'])\n"
    )
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML": str(scenario)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
    )
    assert done.stdout == "123.0\n"
