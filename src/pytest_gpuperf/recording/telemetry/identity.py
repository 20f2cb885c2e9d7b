"""Which of NVML's devices a CUDA ordinal is.

CUDA's ordinals and NVML's indices differ as soon as ``CUDA_VISIBLE_DEVICES`` or the order of
devices does, so a device is found by its UUID.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

_PREFIXES = ("GPU-", "MIG-")


def device_uuids(device: torch.device, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The UUIDs by which NVML may know `device`, the likeliest first; empty where none is known.

    CUDA gives a MIG slice's own UUID without saying that it is one, hence both spellings. A torch
    that does not tell the UUID leaves what ``CUDA_VISIBLE_DEVICES`` names the device by.

    Parameters
    ----------
    device
        A CUDA device.
    environ
        The environment; by default this process's.
    """
    uuid = getattr(import_torch().cuda.get_device_properties(device), "uuid", None)
    if uuid is None:
        return _named_in(os.environ if environ is None else environ, device.index or 0)
    text = str(uuid)
    return (text,) if text.startswith(_PREFIXES) else tuple(p + text for p in _PREFIXES)


def _named_in(environ: Mapping[str, str], ordinal: int) -> tuple[str, ...]:
    """The full UUID that ``CUDA_VISIBLE_DEVICES`` has in place `ordinal`, if it has one there."""
    visible = [v.strip() for v in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    named = visible[ordinal] if ordinal < len(visible) else ""
    return (named,) if named.startswith(_PREFIXES) else ()
