"""DCGM's counters through its command, for a GPU without GPM."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from pytest_gpuperf.recording.telemetry.dcgm import FIELDS, NOT_INSTALLED, dcgm_reader
from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler
from pytest_gpuperf.recording.telemetry.summary import telemetry_of

from .conftest import FakeNvml

LISTED = """\
2 GPUs found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: NVIDIA A100-SXM4-80GB                                          |
|        | PCI Bus ID: 00000000:07:00.0                                         |
|        | Device UUID: GPU-0                                                   |
+--------+----------------------------------------------------------------------+
| 1      | Name: NVIDIA A100-SXM4-80GB                                          |
|        | PCI Bus ID: 00000000:0F:00.0                                         |
|        | Device UUID: GPU-1                                                   |
+--------+----------------------------------------------------------------------+
"""
PROGRAM = """\
#!{python} -u
import sys, time
if sys.argv[1] == "discovery":
    print({listed!r})
    raise SystemExit
assert sys.argv[1:] == ["dmon", "-i", "1", "-e", {fields!r}, "-d", "100", "-c", "6000"], sys.argv
print("#Entity   SMACT  SMOCC  TENSO  DRAMA  FP64A  FP32A  FP16A  NVLTX  NVLRX")
print("ID")
for index in range(6000):
    print("GPU 1     " + ({row!r} if index else "N/A " * 9), flush=True)
    time.sleep(0.1)
"""


def _installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, listed: str = LISTED
) -> None:
    """A ``dcgmi`` that prints `row` again and again."""
    fields = ",".join(str(field) for field, _ in FIELDS.values())
    program = tmp_path / "bin" / "dcgmi"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable, listed=listed, fields=fields, row=row))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_gpu_without_gpm_is_read_through_dcgm(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = "0.912  0.400  0.521  0.500  0.000  0.031  0.012  2000000000  N/A"
    _installed(tmp_path, monkeypatch, row)
    nvml.set("gpm 0")
    with TelemetrySampler(["GPU-1"], dcgm=True) as sampler:
        time.sleep(1.6)
    found = telemetry_of(sampler)
    values = {name: summary["value"] for name, summary in found.values.items()}
    assert values["sm_active"] == pytest.approx(0.912)
    assert values["tensor_active"] == pytest.approx(0.521)
    assert values["fp64_active"] == 0
    assert values["nvlink_tx"] == pytest.approx(2.0)  # GB/s, from bytes/s
    assert values["dram_bandwidth"] == pytest.approx(0.5 * 3352.32)  # of bus width and clock
    assert found.values["sm_active"]["n"] >= 5
    assert {found.values[n].get("dcgm") for n in ("sm_active", "dram_bandwidth")} == {1.0}
    assert "dcgm" not in found.values["sm_clock"]
    assert "sm_active" not in found.absent
    assert "nvlink_rx" not in values
    assert "DCGM" in found.absent["nvlink_rx"]


def test_gpm_is_preferred_and_dcgm_is_then_not_asked(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed(tmp_path, monkeypatch, "0.1 " * 9)
    nvml.set("gpm_2 91")
    with TelemetrySampler(["GPU-1"], dcgm=True) as sampler:
        time.sleep(0.3)
    assert telemetry_of(sampler).values["sm_active"]["value"] == pytest.approx(0.91)


def test_without_dcgm_both_reasons_are_told(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    nvml.set("gpm 0")
    with TelemetrySampler(["GPU-1"], dcgm=True) as sampler:
        time.sleep(0.05)
    reason = sampler.watched.absent["sm_active"]
    assert "Hopper" in reason
    assert NOT_INSTALLED in reason


def test_dcgm_is_asked_only_where_a_limit_needs_it(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed(tmp_path, monkeypatch, "0.1 " * 9)
    nvml.set("gpm 0")
    with TelemetrySampler(["GPU-1"]) as sampler:
        time.sleep(0.05)
    assert "where a limit on a counter needs it" in sampler.watched.absent["sm_active"]


def test_a_device_that_dcgm_does_not_list_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed(tmp_path, monkeypatch, "", "Error: unable to connect to nv-hostengine")
    with dcgm_reader(["GPU-1"]) as reader:
        assert reader == (
            "DCGM does not list the device: Error: unable to connect to nv-hostengine"
        )


def test_rows_without_numbers_are_no_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_gpuperf.recording.telemetry.dcgm._FIRST_ROW_S", 0.4)
    _installed(tmp_path, monkeypatch, "N/A " * 9)
    with dcgm_reader(["GPU-1"]) as reader:
        assert reader == "DCGM gives no profiling counters of this device"
