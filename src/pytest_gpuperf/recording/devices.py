"""Which device is measured, and what it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.recording.errors import RecordingError, import_torch

if TYPE_CHECKING:
    import torch


def resolve_device(spec: str | None = None) -> torch.device:
    """The device that `spec` names; ``cuda:0`` where there is one, else ``cpu``, without a spec.

    Raises
    ------
    RecordingError
        `spec` is no device that can be measured, or is not on this machine.
    TorchMissingError
        torch is not installed.
    """
    torch = import_torch()
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if spec is None:
        return torch.device("cuda", 0) if count else torch.device("cpu")
    try:
        device = torch.device(spec)
    except RuntimeError:
        device = None
    if device is None or device.type not in {"cpu", "cuda"}:
        raise RecordingError(f"gpuperf cannot measure on {spec!r}: name 'cpu', 'cuda' or 'cuda:N'")
    if device.type == "cpu":
        return torch.device("cpu")
    index = device.index or 0
    if index >= count:
        there = f"cuda:0 to cuda:{count - 1}" if count > 1 else "cuda:0" if count else "no CUDA GPU"
        raise RecordingError(f"gpuperf: there is no {spec!r} here (torch sees {there})")
    return torch.device("cuda", index)


def device_title(device: torch.device) -> str:
    """``cpu``, or the driver's name of the GPU."""
    if device.type != "cuda":
        return str(device.type)
    return str(import_torch().cuda.get_device_name(device))
