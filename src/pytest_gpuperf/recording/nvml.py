"""Clocks, power, temperature and utilization from NVML, sampled while the workload runs.

Where there is no driver, no such device or no such counter, the value is absent: every error of
NVML ends here. A device is found by its UUID, since CUDA's ordinals and NVML's indices differ as
soon as ``CUDA_VISIBLE_DEVICES`` or the bus order does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from statistics import fmean, median
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.clock_reasons import is_throttled, reason_names
from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

Summary = dict[str, dict[str, float]]
_FAST_S = 0.02
_SLOW_EVERY = 25
# NVML refreshes utilization every 1/6 s to 1 s: reading it at the fast rate repeats old values.
_JOIN_S = 5.0
_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sm_clock": median,
    "power": fmean,
    "temperature": max,
    "gpu_util": fmean,
    "memory_used": max,
}


def _binding() -> Any:
    """The NVML binding; imported only where a sample is taken."""
    import pynvml

    return pynvml


@contextmanager
def _initialized(nvml: Any) -> Iterator[None]:
    """NVML between its init and shutdown; NVMLError where there is no driver."""
    nvml.nvmlInit()
    try:
        yield
    finally:
        # The GPU may have been lost in between: then there is nothing left to shut down.
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def driver_version() -> str:
    """Version of the NVIDIA driver, "" where there is none."""
    nvml = _binding()
    try:
        with _initialized(nvml):
            return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return ""


def device_uuid(device: torch.device) -> str | None:
    """The UUID by which NVML knows `device`; None where torch does not tell it."""
    uuid = getattr(import_torch().cuda.get_device_properties(device), "uuid", None)
    if uuid is None:
        return None
    text = str(uuid)
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


class NvmlSampler:
    """Samples one GPU in a thread between ``__enter__`` and ``__exit__``.

    Clocks, power, temperature and clock-event reasons are read at 50 Hz, utilization and memory
    at 2 Hz. A counter that the device lacks is asked once; a lost GPU ends the sampling.

    Parameters
    ----------
    uuid
        The device; None samples nothing.
    interval_s
        Time between two fast readings.
    """

    def __init__(self, uuid: str | None, *, interval_s: float = _FAST_S) -> None:
        self._uuid = uuid
        self._interval_s = interval_s
        self._values: dict[str, list[float]] = {}
        self._reasons: list[int] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.absent_reason: str | None = None
        """Why nothing was sampled, None where something was."""

    def __enter__(self) -> NvmlSampler:
        if self._uuid is None:
            self.absent_reason = "the device has no UUID that NVML knows"
            return self
        self._thread = threading.Thread(target=self._run, name="gpuperf-nvml", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            # A hung driver must not hang the test: the thread is a daemon.
            self._thread.join(_JOIN_S)

    def summary(self) -> Summary:
        """What was sampled: ``{metric: {"value", "n", "min", "max"}}``, absent where nothing was.

        ``sm_clock`` MHz, ``power`` W, ``temperature`` °C, ``memory_used`` bytes; ``gpu_util``,
        ``throttled`` and each ``reason:NAME`` are fractions of the samples.
        """
        found = {
            name: _summarized(values, _AGGREGATES[name])
            for name, values in self._values.items()
            if values
        }
        masks = list(self._reasons)
        if masks:
            found["throttled"] = _summarized([float(is_throttled(m)) for m in masks], fmean)
            names = dict.fromkeys(name for mask in masks for name in reason_names(mask))
            for name in names:
                held = [float(name in reason_names(mask)) for mask in masks]
                found[f"reason:{name}"] = _summarized(held, fmean)
        return found

    def _run(self) -> None:
        """Sample until told to stop."""
        nvml = _binding()
        try:
            with _initialized(nvml):
                handle = nvml.nvmlDeviceGetHandleByUUID(self._uuid)
                self._sample(nvml, handle)
        except nvml.NVMLError as error:
            self.absent_reason = str(error)

    def _sample(self, nvml: Any, handle: Any) -> None:
        fast, slow = _fast_readings(nvml, handle), _slow_readings(nvml, handle)
        tick = 0
        while True:
            self._read(nvml, fast)
            if tick % _SLOW_EVERY == 0:
                self._read(nvml, slow)
            tick += 1
            if self._stop.wait(self._interval_s) or not (fast or slow):
                return

    def _read(self, nvml: Any, readings: dict[str, Callable[[], float]]) -> None:
        """Take one value of each of `readings`; those that the device lacks are removed."""
        for name, read in tuple(readings.items()):
            try:
                value = read()
            except nvml.NVMLError as error:
                code = getattr(error, "value", None)
                if code == nvml.NVML_ERROR_GPU_IS_LOST:
                    raise
                if code in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                            nvml.NVML_ERROR_NO_PERMISSION):  # fmt: skip
                    del readings[name]
                continue
            if name == "reasons":
                self._reasons.append(int(value))
            else:
                self._values.setdefault(name, []).append(float(value))


def _fast_readings(nvml: Any, handle: Any) -> dict[str, Callable[[], float]]:
    """What changes within milliseconds."""
    return {
        "sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,  # from mW
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "reasons": lambda: _clock_reasons(nvml, handle),
    }


def _slow_readings(nvml: Any, handle: Any) -> dict[str, Callable[[], float]]:
    """What the driver itself refreshes slowly."""
    return {
        "gpu_util": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,  # from percent
        "memory_used": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
    }


def _clock_reasons(nvml: Any, handle: Any) -> int:
    """The mask of clock-event reasons, by the older name where the driver has only that."""
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except (AttributeError, nvml.NVMLError) as error:
        missing = getattr(error, "value", nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if missing != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _summarized(
    values: Sequence[float], aggregate: Callable[[Sequence[float]], float]
) -> dict[str, float]:
    return {
        "value": float(aggregate(values)),
        "n": len(values),
        "min": float(min(values)),
        "max": float(max(values)),
    }
