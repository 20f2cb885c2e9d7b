"""What NVML says of the driver and of every device; or why it says nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_gpuperf.recording.clock_reasons import is_slowed, reason_names
from pytest_gpuperf.recording.telemetry.binding import binding, initialized


@dataclass(frozen=True, slots=True)
class Device:
    """One device as NVML shows it; None where it does not say.

    ``power_limit_w`` and ``default_limit_w`` in W, ``temperature_c`` in °C, ``slowed`` whether heat
    or the hardware holds the clock down, ``reasons`` the clock-event reasons by name,
    ``processes`` those with a compute context.
    """

    name: str
    uuid: str = ""
    persistence: bool | None = None
    mig: bool | None = None
    power_limit_w: float | None = None
    default_limit_w: float | None = None
    temperature_c: float | None = None
    slowed: bool | None = None
    reasons: tuple[str, ...] = ()
    clocks_set: bool | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver as NVML shows it.

    Attributes
    ----------
    version
        The driver's version, "" where NVML does not answer.
    cuda
        The newest CUDA that it runs, as (major, minor); None where it is not told.
    devices
        One entry a device.
    error
        Why NVML does not answer, in its words; "" where it does.
    code
        NVML's number of that error, None where the library itself is missing.
    """

    version: str = ""
    cuda: tuple[int, int] | None = None
    devices: tuple[Device, ...] = ()
    error: str = ""
    code: int | None = None


def ask_driver() -> Driver:
    """The driver and its devices, by NVML."""
    try:
        nvml = binding()
    except ImportError:
        return Driver(error="nvidia-ml-py is not installed")
    try:
        with initialized(nvml):
            return _told(nvml)
    except nvml.NVMLError as error:
        code = getattr(error, "value", None)
        return Driver(error=str(error), code=code)


def _told(nvml: Any) -> Driver:
    ask = _Asker(nvml)
    cuda = ask(lambda: int(nvml.nvmlSystemGetCudaDriverVersion_v2()))
    count = int(ask(nvml.nvmlDeviceGetCount) or 0)
    devices = tuple(
        _device(nvml, ask, handle)
        for index in range(count)
        if (handle := ask(partial(nvml.nvmlDeviceGetHandleByIndex, index))) is not None
    )
    return Driver(
        str(nvml.nvmlSystemGetDriverVersion()),
        None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
        devices,
    )


class _Asker:
    """Asks NVML; None where it does not know."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def __call__(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except (AttributeError, self._nvml.NVMLError):
            return None


def _device(nvml: Any, ask: _Asker, handle: Any) -> Device:
    mask = ask(lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)))
    mig = ask(lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
    persistence = ask(lambda: nvml.nvmlDeviceGetPersistenceMode(handle))
    limit = ask(lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1e3)
    default = ask(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1e3)
    processes = ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    reasons = () if mask is None else tuple(reason_names(mask))
    return Device(
        name=str(ask(lambda: nvml.nvmlDeviceGetName(handle)) or "?"),
        uuid=str(ask(lambda: nvml.nvmlDeviceGetUUID(handle)) or ""),
        persistence=None if persistence is None else bool(persistence),
        mig=None if mig is None else bool(mig),
        power_limit_w=limit,
        default_limit_w=default,
        temperature_c=ask(lambda: float(nvml.nvmlDeviceGetTemperature(handle, 0))),
        slowed=None if mask is None else is_slowed(mask),
        reasons=reasons,
        clocks_set=None if mask is None else "application_clocks" in reasons,
        processes=None if processes is None else len(processes),
    )
