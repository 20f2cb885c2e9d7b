"""A recording with the driver that is built for the tests, judged by limits on its counters.

torch sees no GPU here: its functions are stood in for on the host's clock, and the trace that
comes of it is a CPU's. What NVML says, and what becomes of it, goes all the way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuperf_analyzers.limits import Judgement, judge, parse_limits
from gpuperf_analyzers.live_block import LiveBlock, parse_live_block
from gpuperf_analyzers.live_values import live_values
from gpuperf_analyzers.metrics import BUILTIN
from gpuperf_analyzers.telemetry import telemetry_findings
from gpuperf_analyzers.trace import read_trace
from pytest_gpuperf.recording import Options, record

from .conftest import FakeNvml

torch = pytest.importorskip("torch")
METRICS = {metric.name: metric for metric in BUILTIN}
STEP_S = 0.01


class Event:
    def __init__(self, *, enable_timing: bool) -> None:
        pass

    def record(self) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


@contextmanager
def current(_: object) -> Iterator[None]:
    yield


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    if torch.cuda.is_available():
        pytest.skip("the GPU itself is tested elsewhere")
    for name, value in {
        "Event": Event,
        "device": current,
        "synchronize": lambda *_: None,
        "reset_peak_memory_stats": lambda *_: None,
        "max_memory_allocated": lambda *_: 5000,
        "memory_allocated": lambda *_: 3000,
        "get_device_name": lambda *_: "NVIDIA H100 80GB HBM3",
        "get_device_capability": lambda *_: (9, 0),
        "get_device_properties": lambda *_: SimpleNamespace(uuid="1"),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return torch.device("cuda", 0)


def recorded(
    gpu: torch.device, path: Path, counters_s: float, dcgm_url: str | None = None
) -> LiveBlock:
    """The live block as the trace has it, of a step of 10 ms."""
    options = Options(
        warmup_s=0.01, max_time_s=0.1, steps=2, counters_s=counters_s, dcgm_url=dcgm_url
    )
    done = record(lambda: time.sleep(STEP_S), device=gpu, trace_path=path, options=options)
    return parse_live_block(read_trace(done.trace_path).metadata["gpuperf"])


def judged(block: LiveBlock, **limits: object) -> dict[str, Judgement]:
    """Each limit's judgement by the metric's name."""
    invalid = {
        name: finding.message
        for finding in telemetry_findings(block, METRICS)
        for name in finding.invalidates
    }
    found = judge(
        live_values(block, peaks=()), parse_limits(limits, METRICS),
        device_name=block.device, device_type=block.device_type, invalid=invalid,
    )  # fmt: skip
    return {judgement.metric: judgement for judgement in found}


pytestmark = [
    pytest.mark.filterwarnings("ignore:CUDA is not available:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*CUDA.*:UserWarning"),
]


def test_limits_on_counters_are_judged_over_a_loop_of_their_own(
    gpu: torch.device, nvml: FakeNvml, tmp_path: Path
) -> None:
    nvml.set(
        "gpm_2 91", "gpm_3 40", "gpm_5 35", "gpm_10 50", "energy_w 400", "power_mw 650000",
        "temperature 70", "sm_clock 1485", f"contexts {os.getpid()}",
    )  # fmt: skip
    block = recorded(gpu, tmp_path / "trace.json", counters_s=1.2)
    found = judged(
        block, min_sm_active="90%", min_sm_occupancy="50%", min_tensor_active="30%",
        min_dram_bandwidth="2000GB/s", max_power="700W", max_temperature="65C",
        max_clock_drop="30%", max_throttled="1%", max_energy_per_step="6J",
    )  # fmt: skip
    assert {name: j.verdict.value for name, j in found.items()} == {
        "sm_active": "PASS",  # 91%
        "sm_occupancy": "FAIL",  # 40%
        "tensor_active": "PASS",  # 35%
        "dram_bandwidth": "FAIL",  # half of 3352 GB/s
        "power": "PASS",
        "temperature": "FAIL",  # 70 °C
        "clock_drop": "PASS",  # 1485 of 1980 MHz: 25%
        "throttled": "PASS",
        "energy_per_step": "PASS",  # 10 ms at 400 W: 4 J, and what the host adds to a call
    }
    assert 4 * 0.9 <= block.telemetry["energy_per_step"]["value"] <= 6
    assert block.telemetry["window"]["value"] >= 1.2
    tracks = read_trace(tmp_path / "trace.json")
    assert "power" in {tracks.strings[name] for name in tracks.counters.name}


def test_without_a_loop_a_short_window_leaves_counters_unmeasured(
    gpu: torch.device, nvml: FakeNvml, tmp_path: Path
) -> None:
    nvml.set("gpm_2 91")
    block = recorded(gpu, tmp_path / "trace.json", counters_s=0.0)
    found = judged(block, min_sm_active="90%", max_power="700W", max_step_time="50ms")
    assert found["sm_active"].verdict.value == found["power"].verdict.value == "UNMEASURED"
    assert found["sm_active"].reason.startswith("window-too-short")
    assert found["step_time"].verdict.value == "PASS"


def test_a_counter_that_the_machine_lacks_leaves_its_limit_unmeasured(
    gpu: torch.device, nvml: FakeNvml, tmp_path: Path
) -> None:
    nvml.set("gpm 0")
    block = recorded(gpu, tmp_path / "trace.json", counters_s=1.1)
    found = judged(block, min_sm_active="90%", max_power="700W")
    assert found["sm_active"].verdict.value == "UNMEASURED"
    assert "Hopper" in found["sm_active"].reason
    assert found["power"].verdict.value == "PASS"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (f"reasons {0x4 | 0x20}", "sw_thermal_slowdown 100%"),
        (f"users {os.getpid()} 1", "1 other process used the device"),
        ("xids 79", "XID 79"),
        ("fail every 15 35", "the GPU was lost"),
    ],
    ids=["heat", "another process", "XID", "lost"],
)
def test_what_makes_times_worthless_makes_them_invalid(
    gpu: torch.device, nvml: FakeNvml, tmp_path: Path, setting: str, reason: str
) -> None:
    nvml.set(setting)
    block = recorded(gpu, tmp_path / "trace.json", counters_s=0.0)
    found = judged(block, max_step_time="50ms", max_kernel_launches=3)
    assert found["step_time"].verdict.value == "INVALID"
    assert reason in found["step_time"].reason


def test_samples_in_heat_are_invalid_although_the_loop_after_them_was_cool(
    gpu: torch.device, nvml: FakeNvml, tmp_path: Path
) -> None:
    # Each window begins with twelve hot readings: all of the samples', a fifth of the loop's.
    nvml.set("reasons " + "64 " * 12 + "0")
    block = recorded(gpu, tmp_path / "trace.json", counters_s=1.1)
    found = judged(block, max_step_time="50ms", max_power="700W")
    assert found["step_time"].verdict.value == "INVALID"
    assert "hw_thermal_slowdown" in found["step_time"].reason
    assert found["power"].verdict.value == "PASS"


def test_without_a_driver_the_recording_is_whole_and_says_why_there_are_no_counters(
    gpu: torch.device, nvml: FakeNvml, tmp_path: Path
) -> None:
    nvml.set("fail nvmlInitWithFlags 9")
    block = recorded(gpu, tmp_path / "trace.json", counters_s=0.1)
    found = judged(block, max_power="700W", max_step_time="50ms")
    assert found["power"].verdict.value == "UNMEASURED"
    assert found["power"].reason == "Driver Not Loaded"
    assert found["step_time"].verdict.value == "PASS"
