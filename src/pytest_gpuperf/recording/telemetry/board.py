"""One GPU, or one MIG slice of it, as NVML's handles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_NO_SUCH = "NVML knows no device with the UUID {}"


class UnknownDeviceError(Exception):
    """NVML knows the device by none of its UUIDs."""


@dataclass(frozen=True, slots=True)
class Board:
    """What is asked of which handle.

    Attributes
    ----------
    device
        The device itself: the GPU, or the MIG slice.
    gpu
        The whole GPU: clocks, temperature and errors are the board's, slice or not.
    instance
        Id of the MIG slice's GPU instance, None where the device is a whole GPU.
    """

    device: Any
    gpu: Any
    instance: int | None = None

    @property
    def is_slice(self) -> bool:
        """Whether the device is a MIG slice."""
        return self.instance is not None


def open_board(nvml: Any, uuids: Sequence[str]) -> Board:
    """The device that one of `uuids` names.

    Raises
    ------
    UnknownDeviceError
        None of them names one.
    NVMLError
        Anything else that NVML has against it.
    """
    for uuid in uuids:
        try:
            device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        except nvml.NVMLError as error:
            unknown = (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT)
            if getattr(error, "value", None) not in unknown:
                raise
            continue
        if not uuid.startswith("MIG-"):
            return Board(device, device)
        gpu = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
        return Board(device, gpu, int(nvml.nvmlDeviceGetGpuInstanceId(device)))
    raise UnknownDeviceError(_NO_SUCH.format(" or ".join(uuids)))
