"""What NVML says of every GPU at the time of a scrape, as a collector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from pytest_gpuperf.exporter.naming import label
from pytest_gpuperf.recording.clock_reasons import ClockReason, is_throttled, reason_names
from pytest_gpuperf.recording.telemetry.binding import binding, initialized
from pytest_gpuperf.recording.telemetry.board import Board
from pytest_gpuperf.recording.telemetry.gpm import GpmReader, gpm_reader
from pytest_gpuperf.recording.telemetry.readings import readings_of

_LABELS = ("gpu", "uuid", "model")
GAUGES: Mapping[str, tuple[str, float, str]] = {
    "sm_clock": ("gpuperf_gpu_sm_clock_hertz", 1e6, "SM clock."),
    "memory_clock": ("gpuperf_gpu_memory_clock_hertz", 1e6, "Clock of the device memory."),
    "power": ("gpuperf_gpu_power_watts", 1.0, "Power of the board."),
    "temperature": ("gpuperf_gpu_temperature_celsius", 1.0, "Temperature of the GPU."),
    "memory_used": ("gpuperf_gpu_memory_used_bytes", 1.0, "Device memory in use by all."),
    "gpu_util": ("gpuperf_gpu_utilization_ratio", 1.0,
                 "Share of time with at least one kernel (GPU-Util): says nothing of how full."),
    "pcie_rx": ("gpuperf_gpu_pcie_receive_bytes_per_second", 1e9, "Into the GPU, over 20 ms."),
    "pcie_tx": ("gpuperf_gpu_pcie_transmit_bytes_per_second", 1e9, "Out of the GPU, over 20 ms."),
    "sm_active": ("gpuperf_gpu_sm_active_ratio", 1.0, "SMs with a warp, since the last scrape."),
    "sm_occupancy": ("gpuperf_gpu_sm_occupancy_ratio", 1.0, "Warps, since the last scrape."),
    "tensor_active": ("gpuperf_gpu_tensor_active_ratio", 1.0, "Tensor cores, since last scrape."),
    "dram_active": ("gpuperf_gpu_dram_active_ratio", 1.0, "Memory traffic, since last scrape."),
    "fp64_active": ("gpuperf_gpu_fp64_active_ratio", 1.0, "FP64 pipes, since the last scrape."),
    "fp32_active": ("gpuperf_gpu_fp32_active_ratio", 1.0, "FP32 pipes, since the last scrape."),
    "fp16_active": ("gpuperf_gpu_fp16_active_ratio", 1.0, "FP16 pipes, since the last scrape."),
}  # fmt: skip
"""Reading or GPM metric: name in Prometheus, factor to the base unit, help."""
COUNTERS: Mapping[str, tuple[str, str]] = {
    "energy": ("gpuperf_gpu_energy_joules", "Energy of the board since the driver was loaded."),
    "nvlink_rx_total": ("gpuperf_gpu_nvlink_receive_bytes", "Into the GPU over all NVLinks."),
    "nvlink_tx_total": ("gpuperf_gpu_nvlink_transmit_bytes", "Out of the GPU over all NVLinks."),
}
UP = "gpuperf_gpu_up"
THROTTLED = "gpuperf_gpu_throttled"
REASON = "gpuperf_gpu_clock_event"


@dataclass(slots=True)
class _Gpu:
    """One GPU with what can be asked of it."""

    labels: tuple[str, str, str]
    asked: dict[str, Callable[[], float]]
    gpm: GpmReader | None
    active: dict[str, float] = field(default_factory=dict)


class LiveGpus:
    """Every whole GPU that NVML shows; open from ``__enter__`` to ``__exit__``.

    A reading that the driver refuses makes no series. GPM's ratios are of the time since the last
    scrape by anybody; scrapes closer than its refresh (0.1 s) get those of the one before.

    Raises
    ------
    NVMLError
        On entry: there is no driver.
    """

    def __init__(self) -> None:
        self._nvml: Any = binding()
        self._stack = ExitStack()
        self._gpus: list[_Gpu] = []
        self._lock = Lock()

    def __enter__(self) -> LiveGpus:
        with ExitStack() as stack:
            stack.enter_context(initialized(self._nvml))
            for index in range(int(self._nvml.nvmlDeviceGetCount())):
                self._gpus.append(self._opened(index, stack))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._gpus.clear()
            self._stack.close()

    def __len__(self) -> int:
        return len(self._gpus)

    def _opened(self, index: int, stack: ExitStack) -> _Gpu:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        board = Board(handle, handle)
        readings = readings_of(nvml, board)
        gpm = stack.enter_context(gpm_reader(nvml, board))
        reader = gpm if isinstance(gpm, GpmReader) else None
        if reader is not None:
            reader.begin()
        labels = (str(index), label(nvml.nvmlDeviceGetUUID(handle)),
                  label(nvml.nvmlDeviceGetName(handle)))  # fmt: skip
        return _Gpu(labels, {**readings.fast, **readings.slow}, reader)

    def collect(self) -> Iterator[Metric]:
        """One reading of everything."""
        with self._lock:
            yield from self._collected()

    def _collected(self) -> Iterator[Metric]:
        gauges = {name: GaugeMetricFamily(called, told, labels=_LABELS)
                  for name, (called, _, told) in GAUGES.items()}  # fmt: skip
        counters = {name: CounterMetricFamily(called, told, labels=_LABELS)
                    for name, (called, told) in COUNTERS.items()}  # fmt: skip
        up = GaugeMetricFamily(UP, "Whether the GPU answered.", labels=_LABELS)
        reasons = GaugeMetricFamily(
            REASON, "Whether a clock-event reason holds.", labels=(*_LABELS, "reason")
        )
        throttled = GaugeMetricFamily(
            THROTTLED, "Whether heat, power or hardware holds the clocks down.", labels=_LABELS
        )
        for gpu in self._gpus:
            found = self._read(gpu)
            up.add_metric(gpu.labels, float(bool(found)))
            mask = found.pop("reasons", None)
            if mask is not None:
                throttled.add_metric(gpu.labels, float(is_throttled(int(mask))))
                held = reason_names(int(mask))
                named = [str(reason.name).lower() for reason in ClockReason]
                for name in sorted({*named, *held}):
                    reasons.add_metric((*gpu.labels, name), float(name in held))
            for name, value in found.items():
                if name in gauges:
                    gauges[name].add_metric(gpu.labels, value * GAUGES[name][1])
                elif name in counters:
                    counters[name].add_metric(gpu.labels, value)
        yield from (f for f in (up, throttled, reasons, *gauges.values()) if f.samples)
        yield from (f for f in counters.values() if f.samples)

    def _read(self, gpu: _Gpu) -> dict[str, float]:
        found = {}
        for name, ask in gpu.asked.items():
            with suppress(AttributeError, self._nvml.NVMLError):
                found[name] = float(ask())
        if gpu.gpm is not None:
            try:
                gpu.active = gpu.gpm.step() or gpu.active
            except self._nvml.NVMLError:
                gpu.active = {}
        return {**found, **gpu.active} if found else {}
