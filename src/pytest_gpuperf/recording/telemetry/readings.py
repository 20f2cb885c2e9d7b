"""Which NVML call gives which counter, in the metric's unit, and how often it is worth asking.

Fast: what changes within milliseconds. Slow: what changes slowly (temperature), what the driver
itself refreshes slowly (utilization every 1/6 to 1 s) or measures slowly (PCIe counts bytes for
20 ms a call).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_gpuperf.recording.telemetry.board import Board

Read = Callable[[], float]
_KB = 1e3
_GB = 1e9
_KIB = 1024
_ALL_LINKS = 0xFFFFFFFF

SLICE_REASON = "NVML counts it for the whole GPU, and the device is a MIG slice of it"


@dataclass(slots=True)
class Readings:
    """The calls of one device by the counter's name, and why others are not asked.

    ``sm_clock`` and ``memory_clock`` in MHz, ``power`` in W, ``temperature`` in °C, ``reasons`` a
    mask, ``energy`` in J since the driver was loaded; ``gpu_util`` a fraction, ``memory_used`` in
    bytes, ``pcie_rx`` and ``pcie_tx`` in GB/s, ``nvlink_rx_total`` and ``nvlink_tx_total`` in
    bytes since then.
    """

    fast: dict[str, Read] = field(default_factory=dict)
    slow: dict[str, Read] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


def readings_of(nvml: Any, board: Board) -> Readings:
    """What can be asked of `board`."""
    gpu, device = board.gpu, board.device
    found = Readings(
        fast={
            "sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
            "reasons": lambda: _clock_reasons(nvml, gpu),
        },
        slow={
            "memory_clock": lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
            "memory_used": lambda: nvml.nvmlDeviceGetMemoryInfo(device).used,
        },
    )
    whole_fast: dict[str, Read] = {
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,  # from mW
        "energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3,  # from mJ
    }
    whole_slow: dict[str, Read] = {
        "gpu_util": lambda: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,  # from percent
        "pcie_rx": lambda: _pcie(nvml, gpu, nvml.NVML_PCIE_UTIL_RX_BYTES),
        "pcie_tx": lambda: _pcie(nvml, gpu, nvml.NVML_PCIE_UTIL_TX_BYTES),
        "nvlink_rx_total": lambda: _nvlink(nvml, gpu, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),
        "nvlink_tx_total": lambda: _nvlink(nvml, gpu, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),
    }
    if board.is_slice:
        found.absent = dict.fromkeys([*whole_fast, *whole_slow], SLICE_REASON)
    else:
        found.fast |= whole_fast
        found.slow |= whole_slow
    return found


def _clock_reasons(nvml: Any, gpu: Any) -> int:
    """The mask of clock-event reasons, by the older name where the driver has only that."""
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    except (AttributeError, nvml.NVMLError) as error:
        missing = getattr(error, "value", nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if missing != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))


def _pcie(nvml: Any, gpu: Any, counter: int) -> float:
    """GB/s over the 20 ms that the call takes."""
    return float(nvml.nvmlDeviceGetPcieThroughput(gpu, counter) * _KB / _GB)


def _nvlink(nvml: Any, gpu: Any, counter: int) -> float:
    """Bytes of payload over all links since the driver was loaded."""
    (found,) = nvml.nvmlDeviceGetFieldValues(gpu, [(counter, _ALL_LINKS)])
    if found.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(found.nvmlReturn)
    return float(found.value.ullVal) * _KIB


def clock_limit(nvml: Any, board: Board) -> float:
    """The highest SM clock that the board has, MHz."""
    return float(nvml.nvmlDeviceGetMaxClockInfo(board.gpu, nvml.NVML_CLOCK_SM))


def memory_bandwidth(nvml: Any, board: Board) -> float:
    """The memory's dense peak, GB/s: two transfers a clock over the width of the bus."""
    clock = float(nvml.nvmlDeviceGetMaxClockInfo(board.gpu, nvml.NVML_CLOCK_MEM))
    width = float(nvml.nvmlDeviceGetMemoryBusWidth(board.gpu))
    return 2 * clock * 1e6 * width / 8 / _GB
