"""A GPU's power limit and clock policy: what must be equal for two measurements to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.telemetry.binding import binding, initialized
from pytest_gpuperf.recording.telemetry.board import UnknownDeviceError, open_board
from pytest_gpuperf.recording.telemetry.identity import device_uuids

if TYPE_CHECKING:
    import torch

_MILLI = 1000


def policy_of(device: torch.device) -> dict[str, str]:
    """``power_limit`` (``700 W``) and ``clocks`` of a CUDA device; only what NVML tells.

    ``clocks`` is ``default``, or the application clocks where somebody set them
    (``1410/1215 MHz``, SM and memory). Clocks that were locked (``nvidia-smi -lgc``) have no
    query in NVML: the SM clock while a test is measured is kept beside the baseline instead.
    """
    nvml = binding()
    try:
        with initialized(nvml):
            return read_policy(nvml, device_uuids(device))
    except nvml.NVMLError:
        return {}


def read_policy(nvml: Any, uuids: Sequence[str]) -> dict[str, str]:
    """The policy of the device that one of `uuids` names, with NVML open."""
    try:
        gpu = open_board(nvml, uuids).gpu
    except UnknownDeviceError:
        return {}
    found = {}
    limit = _asked(nvml, lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu))
    if limit is not None:
        found["power_limit"] = f"{limit / _MILLI:g} W"
    kinds = (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)
    now = [_asked(nvml, lambda k=k: nvml.nvmlDeviceGetApplicationsClock(gpu, k)) for k in kinds]
    usual = [
        _asked(nvml, lambda k=k: nvml.nvmlDeviceGetDefaultApplicationsClock(gpu, k)) for k in kinds
    ]
    if None not in now and None not in usual:
        found["clocks"] = "default" if now == usual else f"{now[0]}/{now[1]} MHz"
    return found


def _asked(nvml: Any, read: Any) -> int | None:
    """What a call gives; None where this device or driver does not tell."""
    try:
        return int(read())
    except (AttributeError, nvml.NVMLError):
        return None
