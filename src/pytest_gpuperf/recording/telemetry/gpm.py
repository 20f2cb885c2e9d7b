"""GPM: how much of the chip was at work, from Hopper on.

A metric is the difference of two samples; the hardware refreshes them every 100 ms, so two that
are closer say nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_gpuperf.recording.telemetry.binding import is_fatal, reason_of
from pytest_gpuperf.recording.telemetry.board import Board

REFRESH_S = 0.1
_MARGIN_S = 0.01
_PERCENT = 0.01
_MIB_IN_GB = 2**20 / 1e9

METRICS = {
    "sm_active": ("NVML_GPM_METRIC_SM_UTIL", _PERCENT),
    "sm_occupancy": ("NVML_GPM_METRIC_SM_OCCUPANCY", _PERCENT),
    "tensor_active": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", _PERCENT),
    "dram_active": ("NVML_GPM_METRIC_DRAM_BW_UTIL", _PERCENT),
    "fp64_active": ("NVML_GPM_METRIC_FP64_UTIL", _PERCENT),
    "fp32_active": ("NVML_GPM_METRIC_FP32_UTIL", _PERCENT),
    "fp16_active": ("NVML_GPM_METRIC_FP16_UTIL", _PERCENT),
    "nvlink_rx": ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", _MIB_IN_GB),
    "nvlink_tx": ("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", _MIB_IN_GB),
}
"""Metric: NVML's name of it, and the factor from NVML's unit (percent, MiB/s) to ours."""

UNSUPPORTED = "the device has no GPM counters (Hopper and newer have)"


class GpmReader:
    """Takes samples of one device and tells the metrics between two of them."""

    def __init__(self, nvml: Any, board: Board) -> None:
        self._nvml = nvml
        self._board = board
        self._samples = [nvml.nvmlGpmSampleAlloc() for _ in range(3)]
        self._query = nvml.c_nvmlGpmMetricsGet_t()
        self._taken_s = float("-inf")
        self._count = 0
        self.absent: dict[str, str] = {}

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(sample)

    def begin(self) -> None:
        """The window begins with the sample that is taken now."""
        self._get(self._samples[0])
        self._get(self._samples[1])
        self._count = 1
        self._taken_s = time.perf_counter()

    def due_in(self) -> float:
        """Seconds until another sample says something; 0 or less where it would now."""
        return self._taken_s + REFRESH_S + _MARGIN_S - time.perf_counter()

    def step(self) -> dict[str, float]:
        """Take a sample; the metrics since the one before. Empty where that is too near."""
        if self.due_in() > 0:
            return {}
        last = self._samples[1 + (self._count - 1) % 2]
        now = self._samples[1 + self._count % 2]
        self._get(now)
        self._count += 1
        self._taken_s = time.perf_counter()
        return self._metrics(last, now)

    def whole(self) -> dict[str, float]:
        """The metrics from the window's begin to the last sample; empty where there is but one."""
        if self._count < 2:
            return {}
        return self._metrics(self._samples[0], self._samples[1 + (self._count - 1) % 2])

    def _get(self, sample: Any) -> None:
        nvml, board = self._nvml, self._board
        if board.is_slice:
            nvml.nvmlGpmMigSampleGet(board.gpu, board.instance, sample)
        else:
            nvml.nvmlGpmSampleGet(board.device, sample)

    def _metrics(self, first: Any, second: Any) -> dict[str, float]:
        nvml, query = self._nvml, self._query
        query.version = nvml.NVML_GPM_METRICS_GET_VERSION
        query.sample1, query.sample2 = first, second
        wanted = [name for name in METRICS if name not in self.absent]
        query.numMetrics = len(wanted)
        for index, name in enumerate(wanted):
            query.metrics[index].metricId = getattr(nvml, METRICS[name][0])
        nvml.nvmlGpmMetricsGet(query)
        found = {}
        for index, name in enumerate(wanted):
            metric = query.metrics[index]
            if metric.nvmlReturn == nvml.NVML_SUCCESS:
                found[name] = float(metric.value) * METRICS[name][1]
            else:
                self.absent[name] = reason_of(nvml.NVMLError(metric.nvmlReturn))
        return found


@contextmanager
def gpm_reader(nvml: Any, board: Board) -> Iterator[GpmReader | str]:
    """A reader of `board`'s GPM counters, or the reason that there is none."""
    reader: GpmReader | str
    try:
        support = nvml.nvmlGpmQueryDeviceSupport(board.gpu)
        reader = GpmReader(nvml, board) if support.isSupportedDevice else UNSUPPORTED
    except (AttributeError, nvml.NVMLError) as error:
        if is_fatal(nvml, error):
            raise
        reader = reason_of(error)
    try:
        yield reader
    finally:
        if isinstance(reader, GpmReader):
            reader.close()
